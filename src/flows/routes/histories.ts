import type { HttpServer } from '../../http/create-server.ts'
import { toWire } from '../api-model.ts'
import { FlowParams, RunsQuery, RunsResponse, SkippedQuery, SkippedResponse } from '../schemas.ts'
import { type ControlDeps, forFlow } from './control-deps.ts'
import { languageOf } from './views.ts'

/** Polls of a flow, and items that it does not send. */
export function addHistories(app: HttpServer, { flows }: ControlDeps): void {
  app.get(
    '/flow/:name/runs',
    {
      config: { ...forFlow.config, compressed: true },
      schema: {
        operationId: 'listRuns',
        summary: 'The last polls of a flow, newest first, with what each found',
        description:
          'The last 1,000 are kept, and of the last 25 hours all that found something; older ones are only counted.',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: RunsQuery,
        response: { 200: RunsResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const runs = await flows.runs(name, request.query.limit)
      return toWire(RunsResponse, { name, runs }, languageOf(request))
    },
  )

  app.get(
    '/flow/:name/skipped',
    {
      config: { ...forFlow.config, compressed: true },
      schema: {
        operationId: 'listSkipped',
        summary: 'Items that a destination is not sent, and why not, the latest first',
        tags: ['Monitoring'],
        params: FlowParams,
        querystring: SkippedQuery,
        response: { 200: SkippedResponse },
      },
    },
    async (request) => {
      const { name } = request.params
      const skipped = await flows.skipped(name, request.query.limit)
      return toWire(SkippedResponse, { name, skipped }, languageOf(request))
    },
  )
}
