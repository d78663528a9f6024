import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { PaymentDeps } from '../../payments/deps.ts'
import { sumNamedParts, sumNets } from '../../repositories/settlements/net-amount-queries.ts'
import { listSettlementFiles } from '../../repositories/settlements/settlement-queries.ts'
import { tenantOfRequest } from '../authentication.ts'
import { spanOf } from '../field-schemas.ts'
import { cursorsOf, timePageOf, timePlace } from '../list-cursor.ts'
import { fetchRoutes } from './fetch-routes.ts'
import { handInRoute } from './hand-in-route.ts'
import { FilesQuery, FilesResponse, NetQuery, NetResponse } from './settlement-schemas.ts'
import { mostNames, viewFile, viewSpan } from './settlement-view.ts'

/** What the provider deducts from each charge, and its reports about it. */
export const settlementRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  await app.register(handInRoute, { deps })
  await app.register(fetchRoutes, { deps })

  app.get(
    '/files',
    {
      ...app.forList,
      config: { needs: 'see', within: 'all_stores' },
      schema: {
        operationId: 'listSettlementFiles',
        summary: 'Imported reports, newest first',
        querystring: FilesQuery,
        response: { 200: FilesResponse },
      },
    },
    async (request) => {
      const client = tenantOfRequest(request)
      const page = await listSettlementFiles(deps.database.db, client, timePageOf(request.query))
      return {
        files: page.rows.map(viewFile),
        total: page.total,
        ...cursorsOf(page, (file) => timePlace(file.created_at, file.id)),
      }
    },
  )

  app.get(
    '/net',
    {
      ...app.forList,
      config: { needs: 'see', within: 'all_stores' },
      schema: {
        operationId: 'readNet',
        summary: 'What the charges of a span leave to the seller, by fee, financing and tax',
        querystring: NetQuery,
        response: { 200: NetResponse },
      },
    },
    async (request) => {
      const span = { client: tenantOfRequest(request), ...spanOf(request.query, deps.now()) }
      const sums = await sumNets(deps.database.db, span)
      const named = await sumNamedParts(deps.database.db, span, 2 * mostNames)
      return viewSpan(span, sums, named)
    },
  )
}
