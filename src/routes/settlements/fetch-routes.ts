import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import { actorOf } from '../../payments/request-context.ts'
import { askForReport, readFetch } from '../../payments/settlements/fetch-reports.ts'
import type { SettlementFetchRow } from '../../repositories/settlements/settlement-fetches.ts'
import { tenantOfRequest } from '../authentication.ts'
import { FetchBody, FetchParams, FetchResponse } from './settlement-schemas.ts'

/** Reports that the service fetches from the provider. */
export const fetchRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (app, { deps }) => {
  app.post(
    '/fetches',
    {
      config: { needs: 'set_up', within: 'all_stores' },
      schema: {
        operationId: 'fetchSettlements',
        summary: 'Have a report fetched from the provider',
        description:
          'With the configuration that the shop has for its own reports, which is only read: without one, or without the columns that count, the fetch is refused with its reason. An equal request gives the fetch that is open (200).',
        body: FetchBody,
        response: { 200: FetchResponse, 202: FetchResponse },
      },
    },
    async (request, reply) => {
      const { report, from, to } = request.body
      const { fetch, isNew } = await askForReport(
        deps,
        tenantOfRequest(request),
        { report, fromDay: from, toDay: to },
        actorOf(deps, request),
      )
      return reply.code(isNew ? 202 : 200).send(viewFetch(fetch))
    },
  )

  app.get(
    '/fetches/:fetchId',
    {
      config: { needs: 'see', within: 'all_stores' },
      schema: {
        operationId: 'readSettlementFetch',
        summary: 'How far a report is that is fetched',
        params: FetchParams,
        response: { 200: FetchResponse },
      },
    },
    async (request) =>
      viewFetch(await readFetch(deps, tenantOfRequest(request), request.params.fetchId)),
  )
}

function viewFetch(fetch: SettlementFetchRow) {
  return { ...fetch, from: fetch.from_day, to: fetch.to_day }
}
