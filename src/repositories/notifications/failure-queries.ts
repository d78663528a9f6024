import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { FlowAlertsTable } from '../../db/tables.ts'
import { columnHasCome, furthestMs } from '../due-work.ts'
import type { DeliveryTarget } from '../flows/deliveries.ts'

export type AlertRow = Selectable<FlowAlertsTable>

/** One thing that one receiver is told about. */
export type AlertKey = Pick<AlertRow, 'flow' | 'channel' | 'kind' | 'subject'>

/** Examples that are kept of what is pending: the first. */
export const examplesKept = 5

/** Which of the targets have final failures that no alert has counted. */
export async function listUntold(
  db: Db,
  targets: readonly DeliveryTarget[],
): Promise<DeliveryTarget[]> {
  const { rows } = await sql<DeliveryTarget>`
    select flow, destination
    from jsonb_to_recordset(${json(targets)}::jsonb) as target (flow text, destination text)
    where exists (
      select from deliveries
      where deliveries.flow = target.flow and deliveries.destination = target.destination
        and state = 'failed' and told_version is distinct from version)`.execute(db)
  return rows
}

export type CountedFailure = { pk: string; error: string | null; attempts: number; at: Date }

/**
 * Marks final failures as counted and answers them, oldest first; call again while it is `limit`. What another transaction
 * has in hand is left for the next time.
 */
export async function takeUntold(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  limit: number,
): Promise<CountedFailure[]> {
  const { rows } = await sql<CountedFailure>`
    select pk, last_error as error, attempts, finished_at as at from deliveries
    where flow = ${flow} and destination = ${destination}
      and state = 'failed' and told_version is distinct from version
    order by pk
    limit ${limit}
    for update skip locked`.execute(trx)
  // Apart from the reading: in one statement a planner that underestimates the failures joins them row by row.
  const pks = rows.map(({ pk }) => pk)
  await sql`
    update deliveries set told_version = version
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`.execute(trx)
  return rows.sort((one, next) => one.at.getTime() - next.at.getTime())
}

/** Adds failures to what a receiver is to be told. */
export async function addPending(
  trx: Trx,
  key: AlertKey,
  failures: { count: number; firstAt: Date; examples: readonly unknown[] },
): Promise<void> {
  await trx
    .insertInto('flow_alerts')
    .values({
      ...key,
      pending: failures.count,
      first_pending_at: failures.firstAt,
      examples: json(failures.examples),
    })
    .onConflict((conflict) =>
      conflict.columns(['flow', 'channel', 'kind', 'subject']).doUpdateSet({
        pending: sql`flow_alerts.pending + excluded.pending`,
        // LEAST leaves nulls out.
        first_pending_at: sql`least(flow_alerts.first_pending_at, excluded.first_pending_at)`,
        examples: sql`jsonb_path_query_array(
          flow_alerts.examples || excluded.examples, '$[0 to ${sql.raw(String(examplesKept - 1))}]')`,
      }),
    )
    .execute()
}

/** A row for something that may be told; nothing happens when it exists. */
export async function ensureAlert(trx: Trx, key: AlertKey): Promise<void> {
  await trx
    .insertInto('flow_alerts')
    .values(key)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The rows of these flows that there is something to do about, now or later. */
export async function listOpenAlerts(db: Db, flows: readonly string[]): Promise<AlertRow[]> {
  return db
    .selectFrom('flow_alerts')
    .selectAll()
    .where(sql<boolean>`flow = any(${flows}::text[])`)
    .where((eb) =>
      eb.or([eb('pending', '>', 0), eb('firing', '=', true), eb('message', 'is not', null)]),
    )
    .orderBy('flow')
    .orderBy('channel')
    .orderBy('kind')
    .orderBy('subject')
    .execute()
}

/** Keeps the row as it is until the transaction ends. */
export async function lockAlert(trx: Trx, key: AlertKey): Promise<AlertRow | undefined> {
  return trx
    .selectFrom('flow_alerts')
    .selectAll()
    .where((eb) => eb.and(key))
    .forUpdate()
    .executeTakeFirst()
}

/** Writes the message that is to be sent, and forgets what it tells. */
export async function writeMessage(
  trx: Trx,
  key: AlertKey,
  fields: { message: unknown; firing: boolean; firingSince: Date | null },
): Promise<void> {
  await trx
    .updateTable('flow_alerts')
    .set((eb) => ({
      message: json(fields.message),
      messages: eb('messages', '+', 1),
      firing: fields.firing,
      firing_since: fields.firingSince,
      pending: 0,
      first_pending_at: null,
      examples: '[]',
      attempts: 0,
      next_attempt_at: null,
    }))
    .where((eb) => eb.and(key))
    .execute()
}

/** All is well again, and nobody is told. */
export async function stopFiring(trx: Trx, key: AlertKey): Promise<void> {
  await trx
    .updateTable('flow_alerts')
    .set({ firing: false, firing_since: null })
    .where((eb) => eb.and(key))
    .execute()
}

/** The messages of a receiver that are due to be sent. */
export async function listDueMessages(
  db: Db,
  channel: Pick<AlertKey, 'flow' | 'channel'>,
  now: Date,
): Promise<AlertRow[]> {
  return db
    .selectFrom('flow_alerts')
    .selectAll()
    .where('flow', '=', channel.flow)
    .where('channel', '=', channel.channel)
    .where('message', 'is not', null)
    .where((eb) =>
      eb.or([
        eb('next_attempt_at', 'is', null),
        columnHasCome('next_attempt_at', now, furthestMs.alert),
      ]),
    )
    .orderBy('kind')
    .orderBy('subject')
    .execute()
}

/** The receiver has this message. */
export async function markSent(db: Db, row: AlertRow, at: Date): Promise<void> {
  await ofMessage(db, row)
    .set({ message: null, last_sent_at: at, attempts: 0, next_attempt_at: null })
    .execute()
}

/** The receiver could not be reached: everything that waits for it waits until then. */
export async function postponeChannel(
  db: Db,
  row: AlertRow,
  attempts: number,
  until: Date,
): Promise<void> {
  await db
    .updateTable('flow_alerts')
    .set({ attempts, next_attempt_at: until })
    .where('flow', '=', row.flow)
    .where('channel', '=', row.channel)
    .where('message', 'is not', null)
    .execute()
}

const accesses = 'access:'

/** The subject of alerts about the access to a destination. */
export function accessSubject(destination: string): string {
  return `${accesses}${destination}`
}

/** Forgets the receivers and subjects that the flow no longer has. */
export async function deleteOtherAlerts(
  db: Db,
  flow: string,
  current: { channels: readonly string[]; destinations: readonly string[] },
): Promise<void> {
  await sql`
    delete from flow_alerts where flow = ${flow} and (
      channel <> all (${current.channels}::text[])
      or (kind = 'failures' and subject <> all (${current.destinations}::text[]))
      or (starts_with(subject, ${accesses}) and subject <> all (${current.destinations.map(accessSubject)}::text[])))`.execute(
    db,
  )
}

/** Forgets that items failed once they are delivered. At most `limit` at once; the rest comes the next time. */
export async function forgetDelivered(
  db: Db,
  { flow, destination }: DeliveryTarget,
  limit: number,
): Promise<void> {
  await sql`
    update deliveries set told_version = null
    where flow = ${flow} and destination = ${destination} and pk = any(array(
      select pk from deliveries
      where flow = ${flow} and destination = ${destination}
        and state = 'done' and told_version is not null
      limit ${limit}
      for update skip locked))`.execute(db)
}

/** Whether anything that failed and was counted is still failed or waits for another attempt. */
export async function hasUnresolved(
  db: Db | Trx,
  { flow, destination }: DeliveryTarget,
): Promise<boolean> {
  const row = await db
    .selectFrom('deliveries')
    .select('pk')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('told_version', 'is not', null)
    .where('state', 'in', ['failed', 'waiting'])
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** How many of them there are. */
export async function countUnresolved(
  db: Db | Trx,
  { flow, destination }: DeliveryTarget,
): Promise<number> {
  const { count } = await db
    .selectFrom('deliveries')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('told_version', 'is not', null)
    .where('state', 'in', ['failed', 'waiting'])
    .executeTakeFirstOrThrow()
  return count
}

export type FlowHealth = {
  lastSuccessAt: Date | null
  /** Of the poll under way; null when there is none. */
  pollStartedAt: Date | null
  /** Of the last poll that succeeded; null when there was none. */
  lastPollMs: number | null
  failedJobs: number
  /** Ever since. */
  jobsCompleted: number
  jobsFailed: number
}

/** What the conditions of a flow are judged by. */
export async function readFlowHealth(db: Db, flow: string): Promise<FlowHealth> {
  const { rows } = await sql<FlowHealth>`
    select
      (select count(*) from deliveries where flow = ${flow} and state = 'failed') as "failedJobs",
      (select last_success_at from flow_state where flow = ${flow}) as "lastSuccessAt",
      (select started_at from flow_progress where flow = ${flow}) as "pollStartedAt",
      (select duration_ms from flow_polls where flow = ${flow} and error is null
        order by id desc limit 1) as "lastPollMs",
      coalesce((select jobs_completed from flow_totals where flow = ${flow}), 0) as "jobsCompleted",
      coalesce((select jobs_failed from flow_totals where flow = ${flow}), 0) as "jobsFailed"`.execute(
    db,
  )
  const [row] = rows
  if (!row) throw new Error('a select without a table answers one row')
  return row
}

function ofMessage(db: Db, { message, ...row }: AlertRow) {
  const { id } = message as { id: string }
  return db
    .updateTable('flow_alerts')
    .where('flow', '=', row.flow)
    .where('channel', '=', row.channel)
    .where('kind', '=', row.kind)
    .where('subject', '=', row.subject)
    .where(sql<boolean>`message ->> 'id' = ${id}`)
}
