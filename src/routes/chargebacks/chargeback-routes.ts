import type { z } from 'zod'
import { pointFromCents } from '../../domain/money.ts'
import { AppError } from '../../errors/app-error.ts'
import type { HttpServer } from '../../http/create-server.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import {
  type ChargebackRow,
  findChargebackAnyhow,
  listChargebacks,
} from '../../repositories/chargebacks/chargeback-queries.ts'
import { ClientOnlyQuery, iso, isoOrNull } from '../field-schemas.ts'
import { tenantOfRequest } from '../guards.ts'
import { storesOfRequest } from '../session/confine.ts'
import {
  ChargebackParams,
  ChargebackResponse,
  ChargebacksResponse,
  ListChargebacksQuery,
} from './chargeback-schemas.ts'

const tags = ['Closings']

/** Disputes that buyers opened at their banks, as last read at the provider. */
export function addChargebackRoutes(app: HttpServer, deps: PaymentDeps): void {
  app.get(
    '/chargebacks',
    {
      config: { access: 'client', allClients: true, compressed: true },
      schema: {
        operationId: 'listChargebacks',
        summary: 'Charge-backs, those found last first',
        description: 'The administrator need not name a client, and then sees those of all.',
        tags,
        querystring: ListChargebacksQuery,
        response: { 200: ChargebacksResponse },
      },
    },
    async (request) => {
      const { query } = request
      const { rows, total } = await listChargebacks(deps.database.db, {
        client: request.tenant ?? undefined,
        state: query.state,
        cajaId: query.caja_id,
        stores: storesOfRequest(request),
        limit: query.limit,
        offset: query.offset,
      })
      return { chargebacks: rows.map(viewChargeback), total }
    },
  )

  app.get(
    '/chargebacks/:chargebackId',
    {
      config: { access: 'client', errors: ['NOT_FOUND'] },
      schema: {
        operationId: 'readChargeback',
        summary: 'One charge-back, as it was last read',
        tags,
        params: ChargebackParams,
        querystring: ClientOnlyQuery,
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
  return {
    id: row.id,
    client: row.client,
    state: row.state,
    case_id: row.case_id,
    payment_id: row.payment_id,
    payment_ids: row.payment_ids,
    order_id: row.order_id,
    caja_id: row.caja_id,
    sucursal_id: row.sucursal_id,
    amount: row.amount_cents === null ? null : pointFromCents(row.amount_cents),
    currency: row.currency,
    reason: row.reason,
    coverage_eligible: row.coverage_eligible,
    coverage_applied: row.coverage_applied,
    documentation_status: row.documentation_status,
    documents_due_at: isoOrNull(row.documents_due_at),
    opened_at: isoOrNull(row.opened_at),
    found_at: iso(row.found_at),
    read_at: isoOrNull(row.read_at),
    decided_at: isoOrNull(row.decided_at),
  }
}
