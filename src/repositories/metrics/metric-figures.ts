import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { isUndecidedChargeback } from '../chargebacks/chargeback-queries.ts'
import { type EndpointFare, endpointFare, waitingEvents } from '../events/event-endpoints.ts'
import { unknownList } from '../orders/state-lists.ts'
import { isUnreadable, unreadableForMs } from '../provider-payments/provider-payments.ts'
import { lastBackup, lastRemoval } from '../settings.ts'
import { isOpenUnclaimed } from '../unclaimed-payments/unclaimed-queries.ts'

/** Pending work of the payment side, counted at one moment. */
export type PaymentFigures = {
  /** Open orders, by status. */
  open: Record<string, number>
  /** Of these, charges that the provider may or may not have. */
  unknown: number
  oldestUnknownAt: Date | null
  /** Cancels and refunds of unknown outcome. */
  openOperations: Record<string, number>
  oldestOperationAt: Date | null
  /** Since when an order or operation is due for a check that no process has taken. */
  dueSince: Date | null
  webhooksWaiting: number
  oldestWebhookAt: Date | null
  /** When the last signed webhook came. */
  lastWebhookAt: Date | null
  connections: Record<string, number>
  /** When the first valid token ends. */
  connectionEndsAt: Date | null
  unsealedEntries: number
  /** Unclaimed payments without a decision. */
  openOrphans: number
  /** Charge-backs that are not decided. */
  undecidedChargebacks: number
  /** Payments of the provider of the last 30 days that cannot be read. */
  unreadablePayments: number
  endpoints: Partial<Record<EndpointFare, number>>
  /** Events that endpoints which are not stopped do not have yet, and when the oldest happened. */
  eventsWaiting: number
  oldestEventAt: Date | null
  /** When the oldest unsent notification was written. */
  oldestNotificationAt: Date | null
  /** The moment of the last finished backup. */
  lastBackupAt: Date | null
  lastRemovalAt: Date | null
  /** The number of parts of each kind by state and cause. */
  states: { kind: string; state: string; cause: string | null; count: number }[]
}

/** A backlog is counted up to here: a larger number makes no difference. */
const countedAtMost = 10_000

/** In one statement, by indexes of only what is open. */
export async function readPaymentFigures(db: Db, now: Date): Promise<PaymentFigures> {
  const { rows } = await sql<PaymentFigures>`
    with open as materialized (
      select status, is_charge_unclear, created_at from order_figures
      where is_open
    ), operations as materialized (
      select kind, created_at, next_attempt_at from order_operations
      where state in (${sql.raw(unknownList)})
    ), webhooks as materialized (
      select received_at from webhook_log where next_attempt_at is not null limit ${countedAtMost}
    ), events_waiting as materialized (
      select next.at from event_endpoints as endpoint, lateral ${waitingEvents(countedAtMost)} as next
      where stopped_at is null limit ${countedAtMost}
    )
    select
      (select coalesce(jsonb_object_agg(status, n), '{}') from
        (select status, count(*) as n from open group by status) as one) as open,
      (select count(*) from open where is_charge_unclear) as unknown,
      (select min(created_at) from open where is_charge_unclear) as "oldestUnknownAt",
      (select coalesce(jsonb_object_agg(kind, n), '{}') from
        (select kind, count(*) as n from operations group by kind) as one) as "openOperations",
      (select min(created_at) from operations) as "oldestOperationAt",
      least(
        (select min(next_check_at) from orders where next_check_at <= ${now}),
        (select min(next_attempt_at) from operations where next_attempt_at <= ${now})) as "dueSince",
      (select count(*) from webhooks) as "webhooksWaiting",
      (select min(received_at) from webhooks) as "oldestWebhookAt",
      (select received_at from webhook_log where signature_valid
        order by received_at desc limit 1) as "lastWebhookAt",
      (select coalesce(jsonb_object_agg(status, n), '{}') from
        (select status, count(*) as n from oauth_connections group by status) as one) as connections,
      (select min(expires_at) from oauth_connections where status = 'connected') as "connectionEndsAt",
      (select count(*) from (select from activity_unsealed limit ${countedAtMost}) as one)
        as "unsealedEntries",
      (select count(*) from (select from orphans where ${isOpenUnclaimed} limit ${countedAtMost}) as one)
        as "openOrphans",
      (select count(*) from (select from chargebacks where ${isUndecidedChargeback} limit ${countedAtMost}) as one)
        as "undecidedChargebacks",
      (select count(*) from provider_payments where ${isUnreadable}
        and sold_at >= ${new Date(now.getTime() - unreadableForMs)}) as "unreadablePayments",
      (select coalesce(jsonb_object_agg(fare, n), '{}') from
        (select ${endpointFare} as fare, count(*) as n from event_endpoints as endpoint group by fare) as one) as endpoints,
      (select count(*) from events_waiting) as "eventsWaiting",
      (select min(at) from events_waiting) as "oldestEventAt",
      (select min(created_at) from alert_messages where sent_at is null) as "oldestNotificationAt",
      (select updated_at from settings where name = ${lastBackup}) as "lastBackupAt",
      (select updated_at from settings where name = ${lastRemoval}) as "lastRemovalAt",
      (select coalesce(jsonb_agg(one), '[]') from
        (select kind, state, cause, count(*) as count from fleet_states group by kind, state, cause)
          as one) as states`.execute(db)
  const [row] = rows
  if (!row) throw new Error('a select without a table answers one row')
  return row
}

/** How full the database's server is. */
export type ServerFigures = {
  databaseBytes: number
  /** Connections of all its clients, and the limit for those without superuser rights. */
  connections: number
  connectionsMost: number
}

/** Separate from the other metrics, because servers report different figures, or none. */
export async function readServerFigures(db: Db): Promise<ServerFigures> {
  const { rows } = await sql<ServerFigures>`
    select pg_database_size(current_database()) as "databaseBytes",
      (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        as "connectionsMost"`.execute(db)
  const [row] = rows
  if (!row) throw new Error('a select without a table answers one row')
  return row
}
