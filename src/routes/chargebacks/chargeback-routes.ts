import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { camelCased } from '../../domain/field-names.ts'
import { pointFromCents } from '../../domain/money.ts'
import { AppError } from '../../errors/app-error.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  type ChargebackRow,
  findChargebackAnyhow,
  listChargebacks,
} from '../../repositories/chargebacks/chargeback-queries.ts'
import { tenantOfRequest } from '../authentication.ts'
import { storesOfRequest } from '../store-access.ts'
import {
  ChargebackParams,
  ChargebackResponse,
  ChargebacksResponse,
  ListChargebacksQuery,
} from './chargeback-schemas.ts'

/** Disputes that buyers opened at their banks, as last read at the provider. */
export const chargebackRoutes: FastifyPluginAsyncZod<{ deps: PaymentDeps }> = async (
  app,
  { deps },
) => {
  app.get(
    '',
    {
      ...app.forList,
      config: { needs: 'see', within: 'list', allClients: true },
      schema: {
        operationId: 'listChargebacks',
        summary: 'Charge-backs, those found last first',
        description: 'The administrator need not name a client, and then sees those of all.',
        querystring: ListChargebacksQuery,
        response: { 200: ChargebacksResponse },
      },
    },
    async (request) => {
      const { rows, total } = await listChargebacks(deps.database.db, {
        ...camelCased(request.query),
        client: request.tenant ?? undefined,
        stores: storesOfRequest(request),
      })
      return { chargebacks: rows.map(viewChargeback), total }
    },
  )

  app.get(
    '/:chargebackId',
    {
      config: { needs: 'see', within: 'chargeback', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readChargeback',
        summary: 'One charge-back, as it was last read',
        params: ChargebackParams,
        response: { 200: ChargebackResponse },
      },
    },
    async (request) => {
      const client = tenantOfRequest(request)
      const { chargebackId } = request.params
      const row = await findChargebackAnyhow(deps.database.db, client, chargebackId)
      if (!row) throw new AppError('NOT_FOUND', { message: 'There is no such charge-back' })
      return viewChargeback(row)
    },
  )
}

function viewChargeback(row: ChargebackRow): z.input<typeof ChargebackResponse> {
  return { ...row, amount: row.amount_cents === null ? null : pointFromCents(row.amount_cents) }
}
