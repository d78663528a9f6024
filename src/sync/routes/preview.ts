import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import { PreviewQuery, PreviewResponse } from '../preview-schemas.ts'
import { FlowParams } from '../schemas.ts'
import { type ControlDeps, failureResponse, sourceResponses } from './room.ts'

const description = `Reads the source as \`POST /sync/{name}\` would now, compares, maps, and tells what would be sent. Nothing is written,
delivered, archived or put into any log of the flow, whose paused state does not matter. A later sync may find other things:
source and flow go on changing, and a destination may refuse what looks right here.

It waits for a poll in progress, and gives way when one begins (409): pause the flow if it never comes to its end. One at a
time for each flow and two in all (429), then the source rests as long as it was read, 10 s at most. Hang up to end it.`

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
      const ended = new AbortController()
      const forget = app.shutdown.onClosing(() =>
        ended.abort(
          new AppError('SERVICE_UNAVAILABLE', {
            message: 'The service is stopping; try again',
            extra: { retryAfterSeconds: 1 },
          }),
        ),
      )
      const hangUp = () => ended.abort(new AppError('CALLER_GONE'))
      reply.raw.once('close', hangUp)
      if (reply.raw.closed) hangUp()
      try {
        const preview = await flows.preview(name, { maxRows, maxSeconds }, ended.signal)
        const { turn, identity, scan, changes, items, deletes, problems } = preview
        return {
          name,
          paused: preview.paused,
          definition: turn,
          identity: {
            source_changed: identity.sourceChanged,
            destinations: identity.destinations,
          },
          scan,
          cut_off: preview.cutOff,
          rows_read: preview.rowsRead,
          duration_ms: preview.durationMs,
          changes,
          items,
          deletes,
          destinations: preview.destinations,
          problems,
          sample: preview.sample.map(({ differenceCount, ...one }) => ({
            ...one,
            difference_count: differenceCount,
          })),
        }
      } finally {
        forget()
        reply.raw.off('close', hangUp)
      }
    },
  )
}
