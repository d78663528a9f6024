import { type RawBuilder, type SqlBool, sql } from 'kysely'

const minuteMs = 60_000

/**
 * How far ahead of the moment of planning each kind of time lies at the most, with room for clocks that differ a little:
 * the next look at an order five minutes, the next attempt of a cancel or refund two (an account that asked for a pause),
 * of a webhook or an alert fifteen.
 */
export const furthestMs = {
  look: 6 * minuteMs,
  operation: 3 * minuteMs,
  webhook: 16 * minuteMs,
  alert: 16 * minuteMs,
}

/**
 * Whether a planned time has come. One that lies further ahead than anything is planned was written before the clock of
 * the database was set back, and nobody knows what it should be now: it counts as come.
 */
export function hasCome(at: Date, now: Date, furthestMs: number): boolean {
  const aheadMs = at.getTime() - now.getTime()
  return aheadMs <= 0 || aheadMs > furthestMs
}

/** The same in SQL; false for null. */
export function columnHasCome(column: string, now: Date, furthestMs: number) {
  const furthest = new Date(now.getTime() + furthestMs)
  return sql<SqlBool>`(${sql.ref(column)} <= ${now} or ${sql.ref(column)} > ${furthest})`
}

/** How much due work a process takes at once, so that none of it waits in memory and no account uses up the room of others. */
export type ClaimRoom = {
  /** Over all accounts. */
  limit: number
  /** Of one account, by its number at the provider. */
  perAccount: number
  /** Accounts that have another room than `perAccount`; 0 takes nothing of theirs. */
  exceptions: ReadonlyMap<number, number>
}

/** The room of the account in `column`, to compare a row's place in its account's queue with. */
export function roomOfAccount(column: string, room: ClaimRoom): RawBuilder<number> {
  const exceptions = JSON.stringify(Object.fromEntries(room.exceptions))
  return sql<number>`coalesce((${exceptions}::jsonb ->> ${sql.ref(column)}::text)::int, ${room.perAccount}::int)`
}
