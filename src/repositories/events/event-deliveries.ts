import { type RawBuilder, type SqlBool, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { columnHasCome, furthestMs } from '../due-work.ts'
import { type EndpointKey, type EndpointRow, filterOf } from './event-endpoints.ts'
import { type EventFilter, type EventRow, isWanted } from './event-log.ts'

/** An event that is sent to an endpoint, after so many failed attempts. */
export type EventDelivery = EventRow & { position: number; attempts: number }

/** No earlier event of the resource waits, and the time has come. `delivery` names the row. */
function isSendable(now: Date): RawBuilder<SqlBool> {
  return sql`(${columnHasCome('delivery.next_at', now, furthestMs.endpointAttempt)} and not exists (
    select from event_deliveries as earlier where earlier.endpoint_id = delivery.endpoint_id
      and earlier.resource = delivery.resource and earlier.position < delivery.position))`
}

/** `endpoint` names the row. */
function isActive(now: Date): RawBuilder<SqlBool> {
  return sql`(endpoint.stopped_at is null and (endpoint.resting_until is null
    or ${columnHasCome('endpoint.resting_until', now, furthestMs.endpointRest)}))`
}

/** Events of its client came after its place, and fewer than `most` wait before them. */
function hasNew(most: number): RawBuilder<SqlBool> {
  return sql`(exists (select from events where client = endpoint.client and position > endpoint.position)
    and (select count(*) from event_deliveries where endpoint_id = endpoint.id) < ${most})`
}

/** Whether there is an endpoint that does not stand still. */
export async function hasActiveEndpoint(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('event_endpoints')
    .select('id')
    .where('stopped_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** The endpoints for which there is something to send, or to queue. */
export async function listDueEndpoints(db: Db, now: Date, most: number): Promise<EndpointKey[]> {
  const { rows } = await sql<EndpointKey>`
    select client, id from event_endpoints as endpoint where ${isActive(now)} and (${hasNew(most)} or exists (
      select from event_deliveries as delivery where endpoint_id = endpoint.id and ${isSendable(now)}))`.execute(
    db,
  )
  return rows
}

/** An endpoint that may be sent to now, and whether events wait to be queued for it. */
export async function findActiveEndpoint(
  db: Db,
  { client, id }: EndpointKey,
  now: Date,
  most: number,
): Promise<(EndpointRow & { has_new: boolean }) | undefined> {
  const { rows } = await sql<EndpointRow & { has_new: boolean }>`
    select endpoint.*, ${hasNew(most)} as has_new from event_endpoints as endpoint
    where client = ${client} and id = ${id} and ${isActive(now)}`.execute(db)
  return rows[0]
}

/**
 * Queues the events after the place of an endpoint, until `most` wait, and moves the place. The row of the endpoint is locked: old
 * events are deleted under the same lock, so none goes away between the two.
 */
export async function queueEvents(
  trx: Trx,
  endpoint: EndpointRow,
  now: Date,
  most: number,
): Promise<void> {
  const { id, position } = endpoint
  await sql`
    with head as (select position from event_head),
    room as (select greatest(0, ${most}::bigint - count(*)) as places from event_deliveries where endpoint_id = ${id}),
    page as (
      select position, resource_type || '/' || resource_id as resource from events
      where position > ${position} and position <= (select position from head) and ${isWanted(filterOf(endpoint))}
      order by position limit (select places from room)
    ),
    queued as (
      insert into event_deliveries (endpoint_id, position, resource, next_at)
      select ${id}, position, resource, ${now}::timestamptz from page on conflict do nothing
    )
    update event_endpoints set position = case
      when (select count(*) from page) < (select places from room) then (select position from head)
      else coalesce((select max(position) from page), position) end
    where id = ${id}`.execute(trx)
}

/** An endpoint that may be sent to now, and which of these events still may: a person may have taken them away meanwhile. */
export async function findStillSendable(
  db: Db,
  { client, id }: EndpointKey,
  positions: readonly number[],
  now: Date,
): Promise<(EndpointRow & { sendable: number[] }) | undefined> {
  const { rows } = await sql<EndpointRow & { sendable: number[] }>`
    select endpoint.*, coalesce((select json_agg(position) from event_deliveries as delivery
      where endpoint_id = endpoint.id and position = any(${positions}::bigint[]) and ${isSendable(now)}), '[]') as sendable
    from event_endpoints as endpoint where client = ${client} and id = ${id} and ${isActive(now)}`.execute(
    db,
  )
  return rows[0]
}

/** The first events that may be sent now, without those in `except`. */
export async function listSendable(
  db: Db,
  id: string,
  { now, limit, except }: { now: Date; limit: number; except: readonly number[] },
): Promise<EventDelivery[]> {
  const { rows } = await sql<EventDelivery>`
    select events.*, delivery.attempts from event_deliveries as delivery join events using (position)
    where endpoint_id = ${id} and position <> all(${except}::bigint[]) and ${isSendable(now)}
    order by position limit ${limit}`.execute(db)
  return rows
}

export async function deleteDeliveries(
  trx: Trx,
  id: string,
  positions: readonly number[],
): Promise<void> {
  if (positions.length === 0) return
  await trx
    .deleteFrom('event_deliveries')
    .where('endpoint_id', '=', id)
    .where('position', 'in', positions)
    .execute()
}

/** Plans the next attempt of an event. */
export async function postponeDelivery(
  trx: Trx,
  id: string,
  position: number,
  next: { attempts: number; next_at: Date },
): Promise<void> {
  await trx
    .updateTable('event_deliveries')
    .set(next)
    .where('endpoint_id', '=', id)
    .where('position', '=', position)
    .execute()
}

/** Sends everything that failed again now. `attempts`: as often as before, or from the start of the schedule. Returns how many. */
export async function hurryDeliveries(
  trx: Trx,
  id: string,
  now: Date,
  attempts: 'kept' | 'from_start',
): Promise<number> {
  const { numUpdatedRows } = await trx
    .updateTable('event_deliveries')
    .set({ next_at: now, ...(attempts === 'from_start' && { attempts: 0 }) })
    .where('endpoint_id', '=', id)
    .where('attempts', '>', 0)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** How many events failed and wait for their next attempt. */
export async function countFailed(db: Db | Trx, id: string): Promise<number> {
  const { count } = await db
    .selectFrom('event_deliveries')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .where('endpoint_id', '=', id)
    .where('attempts', '>', 0)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Deletes what the filter of an endpoint no longer wants, or everything. Returns how many. */
export async function deleteUnwanted(
  trx: Trx,
  id: string,
  filter: EventFilter | 'all',
): Promise<number> {
  const unwanted =
    filter === 'all'
      ? sql`true`
      : sql`not exists (select from events where position = delivery.position and ${isWanted(filter)})`
  const { numAffectedRows = 0n } = await sql`
    delete from event_deliveries as delivery where endpoint_id = ${id} and ${unwanted}`.execute(trx)
  return Number(numAffectedRows)
}

/** Events between two times, or one of them. */
export type ReplayedSpan =
  | { from: Date; to: Date; position?: undefined }
  | { position: number; from?: undefined }

/** The condition on a row of `events` that an endpoint gets again: none that it does not have yet. */
function isReplayed(endpoint: EndpointRow, span: ReplayedSpan): RawBuilder<SqlBool> {
  const isInSpan =
    span.position === undefined
      ? sql`at >= ${span.from} and at <= ${span.to} and ${isWanted(filterOf(endpoint))}`
      : sql`client = ${endpoint.client} and position = ${span.position}`
  return sql`(position <= ${endpoint.position} and ${isInSpan})`
}

/** How many events of a span an endpoint would get again, counted up to a limit. */
export async function countReplayed(
  db: Db | Trx,
  endpoint: EndpointRow,
  span: ReplayedSpan,
  countedAtMost: number,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from (
      select from events where ${isReplayed(endpoint, span)} limit ${countedAtMost}) as found`.execute(
    db,
  )
  return rows[0]?.count ?? 0
}

/** Queues events of a span again. One that still waits begins its schedule again. */
export async function queueReplayed(
  trx: Trx,
  endpoint: EndpointRow,
  span: ReplayedSpan,
  now: Date,
): Promise<void> {
  await sql`
    insert into event_deliveries (endpoint_id, position, resource, next_at)
    select ${endpoint.id}, position, resource_type || '/' || resource_id, ${now}::timestamptz
    from events where ${isReplayed(endpoint, span)}
    on conflict (endpoint_id, position) do update set attempts = 0, next_at = excluded.next_at`.execute(
    trx,
  )
}
