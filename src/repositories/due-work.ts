import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { furthestAttemptMs } from '../domain/endpoint-schedule.ts'

const minuteMs = 60_000

/**
 * The furthest planning of each kind, with a margin for clock differences. Status check of an order: 5 minutes.
 * Attempt of a cancel or refund: 2 minutes (an account that asked for a pause). Webhook or notification: 15 minutes.
 * Lease of a reader of events: 1 minute. Attempt at an endpoint: a day. Pause that an endpoint asked for: 1 hour.
 */
export const furthestMs = {
  statusCheck: 6 * minuteMs,
  operation: 3 * minuteMs,
  webhook: 16 * minuteMs,
  alert: 16 * minuteMs,
  consumerLease: 2 * minuteMs,
  endpointAttempt: furthestAttemptMs,
  endpointRest: 61 * minuteMs,
}

/**
 * Whether a planned time has come. A time further ahead than possible was written before the database's clock was set
 * back. Its right value is unknown, so it counts as due.
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

/** How much due work a process leases at once. It keeps work out of memory and shares it among accounts. */
export type LeaseLimits = {
  /** Over all accounts. */
  limit: number
  /** Of one account, by its number at the provider. */
  perAccount: number
  /** Accounts with another limit than `perAccount`; with 0 nothing of theirs is taken. */
  exceptions: ReadonlyMap<number, number>
}

/** The limit of the account in `column`, for comparison with a row's place in its account's queue. */
export function limitOfAccount(column: string, limits: LeaseLimits): RawBuilder<number> {
  const exceptions = JSON.stringify(Object.fromEntries(limits.exceptions))
  return sql<number>`coalesce((${exceptions}::jsonb ->> ${sql.ref(column)}::text)::int, ${limits.perAccount}::int)`
}
