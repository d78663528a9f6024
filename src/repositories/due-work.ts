import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db } from '../db/database.ts'
import { furthestAttemptMs } from '../domain/endpoint-schedule.ts'
import { unknownResults } from '../domain/order-state.ts'

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

/** Kinds of work that a process may lease. */
export type DueWork = Record<'webhooks' | 'statusChecks' | 'operations', boolean>

/** Which kinds of work are due, leased by no process. The ends of each index tell it. */
export async function findDueWork(db: Db, now: Date): Promise<DueWork> {
  const isDue = (time: string, rows: RawBuilder<unknown>, furthestMs: number) => {
    const furthest = new Date(now.getTime() + furthestMs)
    const at = sql.ref(time)
    return sql<boolean>`(select coalesce(min(${at}) <= ${now} or max(${at}) > ${furthest}, false) from ${rows})`
  }
  const open = sql`order_operations where state in (${sql.join(unknownResults)})`
  const { rows } = await sql<DueWork>`select
    ${isDue('next_attempt_at', sql`webhook_log`, furthestMs.webhook)} as webhooks,
    ${isDue('next_check_at', sql`orders`, furthestMs.statusCheck)} as "statusChecks",
    ${isDue('next_attempt_at', open, furthestMs.operation)} as operations`.execute(db)
  return rows[0] as DueWork
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
