import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { columnHasCome } from '../due-work.ts'
import { unknownList } from '../orders/state-lists.ts'

/** Rows whose id is a key at the provider. */
export type KeyedTable = 'orders' | 'order_operations'

/** A deadline further ahead than two leases was written before the clock was set back. */
const furthestLeases = 2

/** When the sweeper takes such a row. */
const nextCheck = { orders: sql.ref('next_check_at'), order_operations: sql.ref('next_attempt_at') }

/** While this is true the outcome of the row is unknown. */
const isOpen = {
  orders: sql`creation in (${sql.raw(unknownList)})`,
  order_operations: sql`state in (${sql.raw(unknownList)})`,
}

/** Nothing that could charge a customer is sent for an order whose cancel was requested. */
const maySend: Record<KeyedTable, RawBuilder<unknown>> = {
  orders: sql`cancel_requested_at is null`,
  order_operations: sql`true`,
}

/** How long a lease on a row's key lasts, and when the sweeper may check the row after it. */
type LeaseTimes = { now: Date; until: Date; checkAt: Date }

/** Takes the lease on the key of a row; undefined while another process has it. Returns which attempt has no answer. */
export async function acquireSendLease(
  db: Db,
  table: KeyedTable,
  id: string,
  sender: string,
  { now, until }: Pick<LeaseTimes, 'now' | 'until'>,
): Promise<{ unansweredAt: Date | null } | undefined> {
  const furthestMs = furthestLeases * (until.getTime() - now.getTime())
  const isOver = columnHasCome('sender_until', now, furthestMs)
  const result = await sql<{ unanswered_at: Date | null }>`update ${sql.table(table)}
    set sender = ${sender}, sender_until = ${until}
    where id = ${id} and (sender is null or ${isOver})
    returning unanswered_at`.execute(db)
  const [row] = result.rows
  return row && { unansweredAt: row.unanswered_at }
}

/**
 * Proves that the lease is still ours and records that an attempt begins now, both in one statement right before it is
 * sent. Returns whether it may be sent.
 */
export async function beginAttempt(
  db: Db,
  table: KeyedTable,
  id: string,
  sender: string,
  { now, until, checkAt }: LeaseTimes,
): Promise<boolean> {
  const sentAt = table === 'orders' ? sql`, sent_at = coalesce(sent_at, ${now})` : sql``
  const result = await sql`update ${sql.table(table)}
    set sender_until = ${until}, unanswered_at = ${now}, ${nextCheck[table]} = ${checkAt} ${sentAt}
    where id = ${id} and sender = ${sender} and ${isOpen[table]} and ${maySend[table]}`.execute(db)
  return result.numAffectedRows === 1n
}

/** Renews the lease, while it is still ours. */
export async function renewSendLease(
  db: Db,
  table: KeyedTable,
  id: string,
  sender: string,
  { until, checkAt }: Pick<LeaseTimes, 'until' | 'checkAt'>,
): Promise<void> {
  const checkColumn = nextCheck[table]
  await sql`update ${sql.table(table)}
    set sender_until = ${until}, ${checkColumn} = case when ${isOpen[table]} then ${checkAt} else ${checkColumn} end
    where id = ${id} and sender = ${sender}`.execute(db)
}

/** Releases the lease. `unansweredAt` is the attempt that still has no answer; undefined keeps the stored one. */
export async function releaseSendLease(
  db: Db,
  table: KeyedTable,
  id: string,
  sender: string,
  unansweredAt: Date | null | undefined,
): Promise<void> {
  const answered =
    unansweredAt === undefined ? sql`` : sql`, unanswered_at = ${unansweredAt}::timestamptz`
  await sql`update ${sql.table(table)} set sender = null, sender_until = null ${answered}
    where id = ${id} and sender = ${sender}`.execute(db)
}
