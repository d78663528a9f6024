import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { actorOf, type ControlDeps, failureResponse, forFlow, languageOf } from './control-deps.ts'
import { AnswerBody, AnsweredResponse, FlowParams, QuestionResponse } from './control-schemas.ts'

export function addQuestion(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/flow/:name/question',
    {
      ...forFlow,
      schema: {
        operationId: 'readQuestion',
        summary: 'What a changed definition would send, and whether an answer is needed',
        tags: ['Monitoring'],
        params: FlowParams,
        response: { 200: QuestionResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      return toWire(
        QuestionResponse,
        { name, ...(await flows.question(name)) },
        languageOf(request),
      )
    },
  )

  app.post(
    '/flow/:name/question',
    {
      ...forFlow,
      // An unknown flow is 404, whatever the body says.
      preValidation: async ({ params }) => void (await flows.question(params.name)),
      schema: {
        operationId: 'answerQuestion',
        summary: 'Say what becomes of the differences that a changed definition makes',
        description:
          'This cannot be undone. Changes of the source are sent after any answer. It needs no poll, and is no resume of a paused flow.',
        tags: ['Sync'],
        params: FlowParams,
        body: AnswerBody,
        response: {
          200: AnsweredResponse,
          409: failureResponse('The question is over, or another one is asked. Read it again'),
        },
      },
    },
    async (request) => {
      const { name } = request.params
      await flows.answer(name, request.body, actorOf(request))
      return { name, status: 'answered' as const }
    },
  )
}
