import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { AlertMessagesTable, AlertTroublesTable } from '../../db/tables.ts'
import { columnHasCome, furthestMs } from '../due-work.ts'

export type TroubleRow = Selectable<AlertTroublesTable>
/** A message for one receiver. */
export type MessageRow = Selectable<AlertMessagesTable>

/** Which states are notified. */
type NotifiedCauses = {
  never: readonly string[]
  /** Caused by a person on purpose: its end is not notified. */
  intended: readonly string[]
  /** Notified before anything is down. */
  early: readonly string[]
  /** Notified again for another order. */
  ofOneOrder: readonly string[]
}

const isNotified = ({ never, intended, early }: NotifiedCauses) => sql`(
  cause is not null and cause <> all (${[...never, ...intended]}::text[])
  and (state = 'down' or state = 'attention' and cause = any (${early}::text[])))`

/** Who has receivers: the settings (notified of everything) and flows (notified of their own states). */
type Audience = { hasOperator: boolean; flows: readonly string[] }

const isFor = ({ hasOperator, flows }: Audience) => sql<boolean>`(
  ${hasOperator}::boolean
  or kind = 'flow' and name = any (${flows}::text[])
  or kind = 'destination' and scope = any (${flows}::text[]))`

/**
 * Updates the troubles from the states: adds new ones, marks the ended ones. Deletes those that ended before their
 * notification, and those that a person ended on purpose. Another cause of the same subject is notified again.
 */
export async function followStates(trx: Trx, causes: NotifiedCauses, now: Date): Promise<void> {
  const isSame = sql`(alert_troubles.cause = excluded.cause and (excluded.cause <> all (${causes.ofOneOrder}::text[])
    or alert_troubles.about ->> 'orderId' is not distinct from excluded.about ->> 'orderId'))`
  await sql`
    insert into alert_troubles (kind, scope, name, cause, state, since, about, raised_at)
    select kind, scope, name, cause, state, since, about, ${now}::timestamptz
    from fleet_states where ${isNotified(causes)}
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
      and fleet_states.name = alert_troubles.name and ${isNotified(causes)})`
  const isIntended = sql<boolean>`exists (select from fleet_states
    where fleet_states.kind = alert_troubles.kind and fleet_states.scope = alert_troubles.scope
      and fleet_states.name = alert_troubles.name
      and fleet_states.cause = any (${causes.intended}::text[]))`
  await trx
    .deleteFrom('alert_troubles')
    .where((eb) => eb.or([eb('told_at', 'is', null), isIntended]))
    .where(isOver)
    .execute()
  await trx
    .updateTable('alert_troubles')
    .set({ well_since: now })
    .where('well_since', 'is', null)
    .where(isOver)
    .execute()
}

/**
 * Takes the troubles of one cause that need a notification, once the first has waited until `before`. Each is taken
 * once.
 */
export async function takeRaised(
  trx: Trx,
  audience: Audience,
  { now, before }: { now: Date; before: Date },
): Promise<TroubleRow[]> {
  const { rows } = await sql<TroubleRow>`
    update alert_troubles set told_at = ${now}
    where told_at is null and ${isFor(audience)} and cause in (
      select cause from alert_troubles where told_at is null
      group by cause having min(raised_at) <= ${before})
    returning *`.execute(trx)
  return rows
}

/** Takes and deletes the troubles that ended long enough ago. */
export async function takeRecovered(
  trx: Trx,
  audience: Audience,
  before: Date,
): Promise<TroubleRow[]> {
  const { rows } = await sql<TroubleRow>`
    delete from alert_troubles
    where ${isFor(audience)} and cause in (
      select cause from alert_troubles where well_since is not null
      group by cause having min(well_since) <= ${before})
      and well_since is not null
    returning *`.execute(trx)
  return rows
}

/** Writes a message for each receiver. */
export async function insertMessages(
  trx: Trx,
  receivers: readonly string[],
  message: { id: string },
  at: Date,
): Promise<void> {
  const { id } = message
  if (receivers.length === 0) return
  await trx
    .insertInto('alert_messages')
    .values(receivers.map((channel) => ({ channel, id, message: json(message), created_at: at })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The receivers with a message that is due now. */
export async function listWaitingReceivers(db: Db, now: Date): Promise<string[]> {
  const rows = await db
    .selectFrom('alert_messages')
    .select('channel')
    .distinct()
    .where('sent_at', 'is', null)
    .where(isDue(now))
    .execute()
  return rows.map(({ channel }) => channel)
}

/** The unsent messages of a receiver, oldest first. */
export async function listWaitingMessages(
  db: Db,
  channel: string,
  now: Date,
): Promise<MessageRow[]> {
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

/** Marks a message as received. The failures that came meanwhile may be notified from now on. */
export async function markMessageSent(
  db: Db,
  { channel, id }: Pick<MessageRow, 'channel' | 'id'>,
  at: Date,
): Promise<void> {
  await sql`
    with sent as (
      update alert_messages set sent_at = ${at}, next_attempt_at = null
      where channel = ${channel} and id = ${id})
    update failure_groups set message_id = null, last_sent_at = ${at} where message_id = ${id}`.execute(
    db,
  )
}

/** Postpones the messages of a receiver that could not be reached, or only the one with this id. */
export async function postponeMessages(
  db: Db,
  channel: string,
  { attempts, until, id }: { attempts: number; until: Date; id?: string },
): Promise<void> {
  let update = db
    .updateTable('alert_messages')
    .set({ attempts, next_attempt_at: until })
    .where('channel', '=', channel)
    .where('sent_at', 'is', null)
  if (id !== undefined) update = update.where('id', '=', id)
  await update.execute()
}

/** Deletes sent messages, and unsent ones of receivers that no longer exist. */
export async function deleteMessagesBefore(db: Db, before: Date): Promise<void> {
  await sql`
    with gone as (
      delete from alert_messages where sent_at < ${before} or created_at < ${before} returning id)
    update failure_groups set message_id = null
    where message_id in (select id from gone)`.execute(db)
}

function isDue(now: Date) {
  return sql<boolean>`(next_attempt_at is null or ${columnHasCome('next_attempt_at', now, furthestMs.alert)})`
}
