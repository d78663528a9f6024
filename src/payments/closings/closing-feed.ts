import type { Db } from '../../db/database.ts'
import { type ChangeFeed, changePositionOf, positionBehind } from '../../domain/change-feed.ts'
import { isDifference, isUnknownYet } from '../../domain/closing.ts'
import { pointFromCents, signedPointFromCents } from '../../domain/money.ts'
import {
  type ChangedClosing,
  listChangedClosings,
} from '../../repositories/closings/closing-changes.ts'

/** Closings in the sequence of their last changes, amendments included, for a flow that sends them to the ERP. */
export function createClosingFeed(db: Db): ChangeFeed {
  return async ({ client, after, limit }) => {
    const closings = await listChangedClosings(db, {
      client,
      after: after === null ? null : changePositionOf(after),
      limit,
    })
    const last = closings.at(-1)
    const next = last ? positionBehind({ last_updated_at: last.changed_at, id: last.id }) : after
    return { rows: closings.map(describe), next }
  }
}

function describe(closing: ChangedClosing): Record<string, unknown> {
  const { here, there } = closing.totals ?? { here: null, there: null }
  const net = there?.netCents ?? null
  return {
    closing_id: closing.id,
    client: closing.client,
    number: closing.number,
    state: closing.state,
    result: closing.result,
    reason: closing.reason,
    caja_id: closing.caja_id,
    sucursal_id: closing.sucursal_id,
    business_day: closing.business_day,
    time_zone: closing.time_zone,
    from: closing.from_at.toISOString(),
    to: closing.to_at.toISOString(),
    read_at: closing.read_at?.toISOString() ?? null,
    sales: here?.count ?? null,
    amount: here && pointFromCents(here.cents),
    provider_amount: there && pointFromCents(there.cents),
    refunded: here && pointFromCents(here.refundedCents),
    net: net === null ? null : signedPointFromCents(net),
    differences: closing.lines.filter(isDifference).length,
    pending: closing.lines.filter(isUnknownYet).length,
    amendments: closing.amendments,
    amended_result: closing.amended_result,
    created_at: closing.created_at.toISOString(),
    signed_at: closing.signed_at?.toISOString() ?? null,
    last_updated_at: closing.changed_at.toISOString(),
  }
}
