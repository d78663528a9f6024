import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { AlertMessagesTable, AlertTroublesTable } from '../../db/tables.ts'
import { columnHasCome, furthestMs } from '../due-work.ts'

export type TroubleRow = Selectable<AlertTroublesTable>
export type AlertMessageRow = Selectable<AlertMessagesTable>

/** Which states are worth a message: causes that nobody is told of, and those that are told before anything is down. */
export type Alarms = {
  never: readonly string[]
  early: readonly string[]
  /** Causes of which another order is told anew. */
  ofOneOrder: readonly string[]
}

const isAlarming = ({ never, early }: Alarms) => sql`(
  cause is not null and cause <> all (${never}::text[])
  and (state = 'down' or state = 'attention' and cause = any (${early}::text[])))`

/**
 * Brings the troubles in line with the states: what is new is raised, what is well again is marked, and what ended before
 * anybody was told of it is forgotten. Another cause of the same thing is told anew.
 */
export async function followStates(trx: Trx, alarms: Alarms, now: Date): Promise<void> {
  const isSame = sql`(alert_troubles.cause = excluded.cause and (excluded.cause <> all (${alarms.ofOneOrder}::text[])
    or alert_troubles.about ->> 'orderId' is not distinct from excluded.about ->> 'orderId'))`
  await sql`
    insert into alert_troubles (kind, scope, name, cause, state, since, about, raised_at)
    select kind, scope, name, cause, state, since, about, ${now}::timestamptz
    from fleet_states where ${isAlarming(alarms)}
    on conflict (kind, scope, name) do update set
      cause = excluded.cause, state = excluded.state, since = excluded.since, about = excluded.about,
      well_since = null,
      told_at = case when ${isSame} then alert_troubles.told_at end,
      raised_at = case when ${isSame} then alert_troubles.raised_at
        else excluded.raised_at end
    where alert_troubles.cause <> excluded.cause or alert_troubles.state <> excluded.state
      or alert_troubles.about <> excluded.about or alert_troubles.well_since is not null`.execute(
    trx,
  )
  const isOver = sql<boolean>`not exists (select from fleet_states
    where fleet_states.kind = alert_troubles.kind and fleet_states.scope = alert_troubles.scope
      and fleet_states.name = alert_troubles.name and ${isAlarming(alarms)})`
  await trx.deleteFrom('alert_troubles').where('told_at', 'is', null).where(isOver).execute()
  await trx
    .updateTable('alert_troubles')
    .set({ well_since: now })
    .where('well_since', 'is', null)
    .where(isOver)
    .execute()
}

/** Takes what is to be told of one cause, once its first has waited until `before`; nothing is taken twice. */
export async function takeRaised(trx: Trx, now: Date, before: Date): Promise<TroubleRow[]> {
  const { rows } = await sql<TroubleRow>`
    update alert_troubles set told_at = ${now}
    where told_at is null and cause in (
      select cause from alert_troubles where told_at is null
      group by cause having min(raised_at) <= ${before})
    returning *`.execute(trx)
  return rows
}

/** Takes, and forgets, what is well again for long enough. */
export async function takeRecovered(trx: Trx, before: Date): Promise<TroubleRow[]> {
  const { rows } = await sql<TroubleRow>`
    delete from alert_troubles
    where cause in (
      select cause from alert_troubles where well_since is not null
      group by cause having min(well_since) <= ${before})
      and well_since is not null
    returning *`.execute(trx)
  return rows
}

export async function insertAlertMessages(
  trx: Trx,
  channels: readonly string[],
  { id, message, at }: { id: string; message: unknown; at: Date },
): Promise<void> {
  await trx
    .insertInto('alert_messages')
    .values(channels.map((channel) => ({ channel, id, message: json(message), created_at: at })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The channels that a message waits for now. */
export async function listWaitingChannels(db: Db, now: Date): Promise<string[]> {
  const rows = await db
    .selectFrom('alert_messages')
    .select('channel')
    .distinct()
    .where('sent_at', 'is', null)
    .where(isDue(now))
    .execute()
  return rows.map(({ channel }) => channel)
}

/** What waits for a channel, oldest first. */
export async function listWaitingMessages(
  db: Db,
  channel: string,
  now: Date,
): Promise<AlertMessageRow[]> {
  return db
    .selectFrom('alert_messages')
    .selectAll()
    .where('channel', '=', channel)
    .where('sent_at', 'is', null)
    .where(isDue(now))
    .orderBy('created_at')
    .orderBy('id')
    .limit(100)
    .execute()
}

export async function markMessageSent(
  db: Db,
  { channel, id }: Pick<AlertMessageRow, 'channel' | 'id'>,
  at: Date,
): Promise<void> {
  await db
    .updateTable('alert_messages')
    .set({ sent_at: at, next_attempt_at: null })
    .where('channel', '=', channel)
    .where('id', '=', id)
    .execute()
}

/** Its receiver could not be reached: all that waits for it waits until then. */
export async function postponeMessages(
  db: Db,
  channel: string,
  { attempts, until }: { attempts: number; until: Date },
): Promise<void> {
  await db
    .updateTable('alert_messages')
    .set({ attempts, next_attempt_at: until })
    .where('channel', '=', channel)
    .where('sent_at', 'is', null)
    .execute()
}

/** Forgets what was sent, and what waits for a receiver that is none any more. */
export async function deleteAlertMessagesBefore(db: Db, before: Date): Promise<void> {
  await db
    .deleteFrom('alert_messages')
    .where((eb) => eb.or([eb('sent_at', '<', before), eb('created_at', '<', before)]))
    .execute()
}

function isDue(now: Date) {
  return sql<boolean>`(next_attempt_at is null or ${columnHasCome('next_attempt_at', now, furthestMs.alert)})`
}
