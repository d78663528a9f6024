import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { createEventStreams, type StreamEvent } from '../../http/event-stream.ts'
import { type FlowChange, flowChannel } from '../../repositories/flows/flow-events.ts'
import type { ControlDeps } from './control-deps.ts'

const description = `Server-sent events: short hints about changes. The client then reads the data that it shows. \`flow\` has
\`{flow, what}\`: \`state\` (paused, resumed, limited, reset, reloaded; then \`flow\` may be null, for all), \`poll\` (one came to its
end), \`progress\` (one goes on), \`deliveries\` (some arrived or failed). \`resync\` comes first, and whenever something may have
been missed: read everything. \`end\` has a \`reason\`: \`time\` (after 15 minutes), \`stopping\` or \`unavailable\`; come again.

Events are sent at most twice a second, and each flow's changes of one kind together.`

const FlowEventsQuery = z.object({
  max_seconds: z.coerce
    .number()
    .int()
    .min(1)
    .max(900)
    .optional()
    .describe('Ends the stream after so long, with the reason `time`'),
})

const FlowEvents = z.string().meta({
  example:
    'retry: 2000\n\nevent: resync\ndata: {}\n\nevent: flow\ndata: {"flow":"articulos","what":"poll"}\n\n',
})

const paceMs = 500
/** More flows than a reader follows individually. */
const changesAtMost = 100

export const flowEventRoutes: FastifyPluginAsyncZod<ControlDeps> = async (
  app,
  { listen, streams: limits },
) => {
  const streams = createEventStreams(app, limits)
  app.get(
    '/flows/events',
    {
      config: { needs: 'see_flows', errors: ['RATE_LIMITED'] },
      schema: {
        operationId: 'followFlows',
        summary: 'Follow what changes about flows live, as server-sent events',
        description,
        tags: ['Monitoring'],
        querystring: FlowEventsQuery,
        response: {
          200: {
            description: 'Hints at what changed',
            content: { 'text/event-stream': { schema: FlowEvents } },
          },
        },
      },
    },
    async (request, reply) => {
      const changes = new Map<string, FlowChange>()
      let missed = true
      let listening: Promise<() => Promise<void>> | undefined
      const miss = () => {
        missed = true
        changes.clear()
      }
      return streams.open(request, reply, {
        owner: 'operators',
        paceMs,
        maxSeconds: request.query.max_seconds,
        watch(wake) {
          listening = listen(
            flowChannel,
            (payload) => {
              const change = JSON.parse(payload) as FlowChange
              // After a change without details the reader reloads everything, so this one needs no event.
              if (!missed) changes.set(`${change.what} ${change.flow}`, change)
              if (changes.size > changesAtMost) miss()
              wake()
            },
            () => {
              miss()
              wake()
            },
          )
          // An error is thrown by `read`.
          listening.catch(() => undefined)
          return () => void listening?.then((end) => end()).catch(() => undefined)
        },
        checkAccess: () => app.authentication.check(request),
        async read(): Promise<StreamEvent[]> {
          // What changes before that is in the first answer of the reader.
          await listening
          const events = missed
            ? [{ event: 'resync', data: {} }]
            : [...changes.values()].map((data) => ({ event: 'flow', data }))
          missed = false
          changes.clear()
          return events
        },
      }) as never
    },
  )
}
