import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { OrderRow } from './order-queries.ts'

/** The charge that was made instead of an order that counted as not paid. */
export type ChargedInstead = Pick<
  OrderRow,
  'id' | 'external_reference' | 'amount_cents' | 'created_at' | 'status'
>

/** An equal amount later than this is a separate sale. */
const sameAmountWithin = sql.lit('24 hours')

/**
 * From `orders as instead`: the paid charge of the same client and box after the order `late`. It has the same
 * reference, or the same amount soon after a person settled `late`. The same reference comes first, then the earliest
 * charge.
 */
export const chargedInstead: RawBuilder<unknown> = sql`
  from orders as instead
  where instead.client = late.client and instead.caja_id = late.caja_id and instead.id <> late.id
    and instead.created_at > late.created_at
    and (instead.status in ('processed', 'partially_refunded')
      or (instead.paid_after_close and instead.refunded_cents < instead.paid_cents))
    and (normalize(instead.external_reference) = normalize(late.external_reference)
      or (instead.amount_cents = late.amount_cents
        and instead.created_at > coalesce(late.settled_at, late.created_at)
        and instead.created_at < coalesce(late.settled_at, late.created_at) + interval ${sameAmountWithin}))
  order by normalize(instead.external_reference) = normalize(late.external_reference) desc, instead.created_at
  limit 1`

/** The charge that was made instead of each of these orders, by the id of the order. */
export async function findChargedInstead(
  db: Db,
  orderIds: readonly string[],
): Promise<Map<string, ChargedInstead>> {
  if (orderIds.length === 0) return new Map()
  const { rows } = await sql<ChargedInstead & { late_id: string }>`
    select late.id as late_id, found.* from orders as late
    cross join lateral (
      select instead.id, instead.external_reference, instead.amount_cents, instead.created_at, instead.status
      ${chargedInstead}
    ) as found
    where late.id = any(${[...orderIds]}::uuid[])`.execute(db)
  return new Map(rows.map(({ late_id: id, ...instead }) => [id, instead]))
}
