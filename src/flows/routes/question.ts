import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { toWire } from '../api/api-model.ts'
import {
  AnswerBody,
  AnsweredResponse,
  FlowParams,
  QuestionResponse,
} from '../api/control-schemas.ts'
import { givenKey } from '../item/item.ts'
import { actorNameOf } from './control-authentication.ts'
import { type ControlDeps, failureResponse, languageOf } from './control-deps.ts'

export const questionRoutes: FastifyPluginAsyncZod<ControlDeps> = async (app, { flows }) => {
  app.get(
    '/flow/:name/question',
    {
      config: { needs: 'see_flows', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readQuestion',
        summary:
          'What the flow asks: about a changed definition, or about deletes that the guard holds',
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
      config: { needs: 'run_flows', errors: ['NOT_FOUND'] },
      // An unknown flow is 404, whatever the body says.
      preValidation: async ({ params }) => void (await flows.question(params.name)),
      schema: {
        operationId: 'answerQuestion',
        summary:
          'Say what becomes of what a changed definition makes different, or of what is missing',
        description:
          'This cannot be undone. Changes of the source are sent after any answer. Items are deleted when the next full scan misses them too, of a paused flow after its resume. It is no resume of a paused flow.',
        tags: ['Sync'],
        params: FlowParams,
        body: AnswerBody,
        response: {
          200: AnsweredResponse,
          400: failureResponse(
            'One of the chosen items is not missing, or the question is not about deletes',
          ),
          409: failureResponse('The question is over, or another one is asked. Read it again'),
        },
      },
    },
    async (request) => {
      const { name } = request.params
      const { pks, ...given } = request.body
      await flows.answer(name, { ...given, pks: pks?.map(givenKey) }, actorNameOf(request))
      return { name, status: 'answered' as const }
    },
  )
}
