import { sentenceOf } from '../../domain/flow-reasons.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import {
  type ControlDeps,
  failureResponse,
  languageOf,
  sourceResponses,
  whileConnected,
} from './control-deps.ts'
import { FlowParams } from './control-schemas.ts'
import { PreviewQuery, PreviewResponse } from './preview-schemas.ts'

const description = `Reads the source as \`POST /sync/{name}\` would now, compares, maps, and lists what would be sent.
Nothing is written,
delivered, archived or put into any log of the flow, whose paused state does not matter. A later sync may differ: the source
may change, and a destination may refuse a record that looks right here. The preview waits for a poll in progress, and ends
with 409 when a poll begins: pause the flow if the preview never ends. One at a time for each flow and two in all (429).
After it, the source is not read for the time that the preview took, 10 s at most. Disconnect to end it.`

export function addPreview(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/sync/:name/preview',
    {
      config: { access: 'admin', errors: ['NOT_FOUND', 'RATE_LIMITED'] },
      schema: {
        operationId: 'previewSync',
        summary: 'What a sync would do now, without doing it',
        description,
        tags: ['Sync'],
        params: FlowParams,
        querystring: PreviewQuery,
        response: {
          200: PreviewResponse,
          409: failureResponse('The flow was polled or changed meanwhile; ask again'),
          ...sourceResponses,
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const { max_rows: maxRows, max_seconds: maxSeconds } = request.query
      const preview = await whileConnected(app, reply, (signal) =>
        flows.preview(name, { maxRows, maxSeconds }, signal),
      )
      const { deletes, destinations, problems } = preview
      return toWire(
        PreviewResponse,
        {
          ...preview,
          name,
          deletes: { ...deletes, reason: deletes.why && sentenceOf(deletes.why, 'en') },
          destinations: destinations.map((one) => ({
            ...one,
            refusals: one.refusals.map((refused) => ({
              ...refused,
              reason: sentenceOf(refused.why, 'en'),
            })),
          })),
          problems: problems.map((one) => ({ ...one, message: sentenceOf(one.why, 'en') })),
        },
        languageOf(request),
      )
    },
  )
}
