import type { Db } from '../../db/database.ts'
import { type ChangeFeed, changePositionOf, positionBehind } from '../../domain/change-feed.ts'
import { asClientName } from '../../domain/client-name.ts'
import { signedPointFromCents } from '../../domain/money.ts'
import {
  listChangedSettlements,
  type SettlementRow,
} from '../../repositories/settlements/settlement-queries.ts'

/** Movements of the reports in the sequence of their last changes, for a flow that sends them to the ERP. */
export function createSettlementFeed(db: Db): ChangeFeed {
  return async ({ client, after, limit }) => {
    const rows = await listChangedSettlements(db, {
      client: client === undefined ? undefined : asClientName(client),
      after: after === null ? null : changePositionOf(after),
      limit,
    })
    const last = rows.at(-1)
    return { rows: rows.map(describe), next: last ? positionBehind(last) : after }
  }
}

/** With the signs of an order's net: what the provider deducts is positive. */
function describe(row: SettlementRow): Record<string, unknown> {
  const gross = row.gross_cents
  const kept = row.fee_cents + row.financing_cents + row.taxes_cents
  return {
    settlement_id: row.id,
    client: row.client,
    report: row.report,
    source_id: row.source_id,
    type: row.type,
    detail: row.detail,
    at: row.at?.toISOString() ?? null,
    order_id: row.order_id,
    mp_order_id: row.mp_order_id,
    external_reference: row.external_reference,
    gross: gross === null ? null : signedPointFromCents(gross),
    fee: signedPointFromCents(0 - row.fee_cents),
    financing: signedPointFromCents(0 - row.financing_cents),
    taxes: row.taxes.map(({ name, entity, cents }) => ({
      name,
      entity,
      amount: signedPointFromCents(0 - cents),
    })),
    taxes_total: signedPointFromCents(0 - row.taxes_cents),
    unexplained: gross === null ? null : signedPointFromCents(gross + kept - row.net_cents),
    net: signedPointFromCents(row.net_cents),
    release_on: row.release_on,
    is_released: row.is_released,
    installments: row.installments,
    other_amounts: row.others,
    created_at: row.created_at.toISOString(),
    last_updated_at: row.last_updated_at.toISOString(),
  }
}
