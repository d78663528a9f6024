import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { FailureGroupsTable } from '../../db/tables.ts'
import type { StoredReason } from '../../texts/reason.ts'
import type { DeliveryTarget } from '../flows/delivery-target.ts'

/** The failed deliveries to a destination that one receiver is notified of together. */
export type FailureGroupRow = Selectable<FailureGroupsTable>
export type FailureGroupKey = Pick<FailureGroupRow, 'flow' | 'channel' | 'destination'>

/** Which of the targets have final failures that are not counted yet. */
export async function listUncounted(
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

export type CountedFailure = {
  pk: string
  error: string | null
  why: StoredReason | null
  attempts: number
  at: Date
}

/**
 * Marks final failures as counted and returns them, oldest first. Call it again while it returns `limit` rows. Rows
 * that another transaction has locked are skipped.
 */
export async function takeUncounted(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  limit: number,
): Promise<CountedFailure[]> {
  const { rows } = await sql<CountedFailure>`
    select pk, last_error as error, why, attempts, finished_at as at from deliveries
    where flow = ${flow} and destination = ${destination}
      and state = 'failed' and told_version is distinct from version
    order by pk
    limit ${limit}
    for update skip locked`.execute(trx)
  // Not in the same statement: a planner that underestimates the failures would join them row by row.
  const pks = rows.map(({ pk }) => pk)
  await sql`
    update deliveries set told_version = version
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`.execute(trx)
  return rows.sort((one, next) => one.at.getTime() - next.at.getTime())
}

/** Adds failures to the pending notification of a receiver, which keeps the first `examplesAtMost` examples. */
export async function addPending(
  trx: Trx,
  key: FailureGroupKey,
  failures: {
    count: number
    firstAt: Date
    examples: readonly unknown[]
    examplesAtMost: number
  },
): Promise<void> {
  await trx
    .insertInto('failure_groups')
    .values({
      ...key,
      pending: failures.count,
      first_pending_at: failures.firstAt,
      examples: json(failures.examples),
    })
    .onConflict((conflict) =>
      conflict.columns(['flow', 'channel', 'destination']).doUpdateSet({
        pending: sql`failure_groups.pending + excluded.pending`,
        // LEAST leaves nulls out.
        first_pending_at: sql`least(failure_groups.first_pending_at, excluded.first_pending_at)`,
        examples: sql`jsonb_path_query_array(
          failure_groups.examples || excluded.examples, '$[0 to ${sql.raw(String(failures.examplesAtMost - 1))}]')`,
      }),
    )
    .execute()
}

/** The rows of these flows that need a message, now or later. */
export async function listOpenGroups(db: Db, flows: readonly string[]): Promise<FailureGroupRow[]> {
  return db
    .selectFrom('failure_groups')
    .selectAll()
    .where(sql<boolean>`flow = any(${flows}::text[])`)
    .where((eb) =>
      eb.or([eb('pending', '>', 0), eb('firing', '=', true), eb('message_id', 'is not', null)]),
    )
    .orderBy('flow')
    .orderBy('channel')
    .orderBy('destination')
    .execute()
}

/** Locks the row until the transaction ends. */
export async function lockFailureGroup(
  trx: Trx,
  key: FailureGroupKey,
): Promise<FailureGroupRow | undefined> {
  return trx
    .selectFrom('failure_groups')
    .selectAll()
    .where((eb) => eb.and(key))
    .forUpdate()
    .executeTakeFirst()
}

/** Records that a message was written. `firingSince` is null for a message about recovery. */
export async function setFiring(
  trx: Trx,
  key: FailureGroupKey,
  { messageId, firingSince }: { messageId: string; firingSince: Date | null },
): Promise<void> {
  await trx
    .updateTable('failure_groups')
    .set((eb) => ({
      message_id: messageId,
      messages: eb('messages', '+', 1),
      firing: firingSince !== null,
      firing_since: firingSince,
      pending: 0,
      first_pending_at: null,
      examples: '[]',
    }))
    .where((eb) => eb.and(key))
    .execute()
}

/** Ends the trouble without a message, because no receiver wants one. */
export async function stopFiring(trx: Trx, key: FailureGroupKey): Promise<void> {
  await trx
    .updateTable('failure_groups')
    .set({ firing: false, firing_since: null })
    .where((eb) => eb.and(key))
    .execute()
}

/** Deletes the rows of receivers and destinations that the flow no longer has. */
export async function deleteOtherReceivers(
  db: Db,
  flow: string,
  current: {
    channels: readonly string[]
    keys: readonly string[]
    destinations: readonly string[]
  },
): Promise<void> {
  await sql`
    with gone as (
      delete from failure_groups where flow = ${flow} and (
        channel <> all (${current.channels}::text[])
        or destination <> all (${current.destinations}::text[]))
      returning message_id)
    delete from alert_messages where sent_at is null and (
      id in (select message_id from gone)
      or (starts_with(channel, ${`${flow}/`}) and channel <> all (${current.keys}::text[])))`.execute(
    db,
  )
}

/** Deletes at most `limit` recorded failures of items that have been delivered since. */
export async function forgetPassedFailures(
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

/** Items whose failure was counted, and that are still failed or wait for another attempt. */
function unresolved(db: Db | Trx, { flow, destination }: DeliveryTarget) {
  return db
    .selectFrom('deliveries')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('told_version', 'is not', null)
    .where('state', 'in', ['failed', 'waiting'])
}

/** Whether there are such items. */
export async function hasUnresolved(db: Db | Trx, target: DeliveryTarget): Promise<boolean> {
  const row = await unresolved(db, target).select('pk').limit(1).executeTakeFirst()
  return row !== undefined
}

/** The number of these items. */
export async function countUnresolved(db: Db | Trx, target: DeliveryTarget): Promise<number> {
  const { count } = await unresolved(db, target)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}
