import { type RawBuilder, type Selectable, type SqlBool, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { EventsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { EventChanges, EventType } from '../../domain/event-types.ts'

export type EventRow = Selectable<EventsTable>

/** The values of `insertOrderEvents`. `event_types` are the types, separated by commas. */
export type OrderEventValues = {
  event_types: string
  event_changes: string
  event_data: string
}

/**
 * Part of a statement that moves an order (`moved`): the events of the move. They get their numbers after the order's row is locked. The
 * standing is derived by the database, so it is added here, and `order.in_doubt` is written only if it is that.
 */
export const insertOrderEvents = `events_of_move as (
    insert into events (client, sucursal_id, caja_id, type, at, resource_type, resource_id, resource_version, changes, data)
    select client, sucursal_id, caja_id, type, last_updated_at, 'order', moved.id, version, :event_changes::jsonb,
      :event_data::jsonb || jsonb_build_object('standing', standing)
    from moved, unnest(string_to_array(:event_types, ',')) as type
    where type <> 'order.in_doubt' or standing = 'in_doubt'
  )`

/**
 * Part of a statement that ends operations: `ended` names the part with their rows. A refund that the provider has only accepted has
 * not ended.
 */
export function insertRefundEvents(ended: string): string {
  return `refund_event as (
    insert into events (client, sucursal_id, caja_id, type, at, resource_type, resource_id, order_id, changes, data)
    select own.client, own.sucursal_id, own.caja_id, 'refund.' || end_of, coalesce(${ended}.finished_at, now()), 'refund',
      ${ended}.id, own.id, jsonb_build_object('status', jsonb_build_object('from', 'pending', 'to', end_of),
        'amount_cents', jsonb_build_object('from', null, 'to', ${ended}.amount_cents)),
      jsonb_build_object('refund_id', ${ended}.mp_refund_id, 'order_id', own.id, 'type', ${ended}.refund_type,
        'external_reference', own.external_reference, 'status', end_of,
        'amount', to_char(${ended}.amount_cents / 100.0, 'FM999999999990.00'), 'created_at', ${ended}.created_at)
    from ${ended} join orders as own on own.id = ${ended}.order_id,
      lateral (select case when ${ended}.state = 'done' then 'done' else 'failed' end as end_of) as ending
    where ${ended}.kind = 'refund' and (${ended}.state = 'refused' or ${ended}.finished_at is not null)
  )`
}

/** Part of a statement that notes on orders how a refund stands: `noted` names the part with their rows. The event is thin. */
export function insertDoubtEvents(noted: string): string {
  return `doubt_event as (
    insert into events (client, sucursal_id, caja_id, type, at, resource_type, resource_id, resource_version, changes)
    select client, sucursal_id, caja_id, 'order.in_doubt', now(), 'order', id, version,
      jsonb_build_object('refund_in_doubt', jsonb_build_object('from', null, 'to', refund_unclear))
    from ${noted} where standing = 'in_doubt' and standing_before <> 'in_doubt'
  )`
}

/** An event of another resource than an order that moves. */
export type NewEvent = {
  client: ClientName
  sucursalId: string | null
  cajaId: string | null
  type: EventType
  at: Date
  resource: { type: string; id: string; version: number | null }
  orderId: string | null
  changes: EventChanges
  data: object | null
}

/** Writes an event. The row of its resource is locked by then, so that the events of one resource have its order. */
export async function insertEvent(trx: Trx, event: NewEvent): Promise<void> {
  await trx
    .insertInto('events')
    .values({
      client: event.client,
      sucursal_id: event.sucursalId,
      caja_id: event.cajaId,
      type: event.type,
      at: event.at,
      resource_type: event.resource.type,
      resource_id: event.resource.id,
      resource_version: event.resource.version,
      order_id: event.orderId,
      changes: JSON.stringify(event.changes),
      data: event.data && JSON.stringify(event.data),
    })
    .execute()
}

/** Whether committed events have no position yet. */
export async function hasUnnumbered(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('position', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Gives at most `limit` committed events their positions; returns how many. Only committed events are seen, so an event that is
 * committed late comes after those that were read before. Two numberings wait for each other: the second statement sees what the
 * other one numbered.
 */
export async function numberEvents(trx: Trx, limit: number): Promise<number> {
  const head = await lockHead(trx)
  const { numAffectedRows = 0n } = await sql`
    update events set position = numbered.position from (
      select seq, ${head} + row_number() over (order by seq) as position
      from (select seq from events where position is null order by seq limit ${limit}) as next
    ) as numbered where events.seq = numbered.seq`.execute(trx)
  const numbered = Number(numAffectedRows)
  if (numbered > 0) await moveHead(trx, head + numbered)
  return numbered
}

/** The last position. Until the transaction ends, others wait. */
async function lockHead(trx: Trx): Promise<number> {
  const { position } = await trx
    .selectFrom('event_head')
    .select('position')
    .forUpdate()
    .executeTakeFirstOrThrow()
  return position
}

async function moveHead(trx: Trx, position: number): Promise<void> {
  await trx.updateTable('event_head').set({ position }).execute()
}

/** The last position, and the last one of a client that was deleted. */
export async function readEnds(
  db: Db,
  client: ClientName,
): Promise<{ head: number; deleted: number }> {
  const { rows } = await sql<{ head: number; deleted: number }>`
    select position as head,
      coalesce((select position from event_deletions where client = ${client}), 0) as deleted
    from event_head`.execute(db)
  if (!rows[0]) throw new Error('the row of event_head is gone')
  return rows[0]
}

/** Whose events a reader gets. */
export type EventFilter = {
  /** Undefined: of every client. */
  client: ClientName | undefined
  /** Only of these stores; undefined: no such limit. */
  stores: readonly string[] | undefined
  types: readonly EventType[] | undefined
  cajaId: string | undefined
  sucursalId: string | undefined
}

/** The events after a position, in order, and the ends of the feed at that moment. */
export type EventPage = {
  events: (EventRow & { position: number })[]
  /** The last position. */
  head: number
  /** The event at that position; null if it was deleted. */
  headId: string | null
  /** The event at the position that was read from; null if there is none. */
  afterId: string | null
  /** The last position that was deleted. */
  deleted: number
}

type Ends = Omit<EventPage, 'events'>

function ofClient({ client }: Pick<EventFilter, 'client'>): RawBuilder<SqlBool> {
  return client === undefined ? sql`true` : sql`client = ${client}`
}

/** The condition on a row of `events`. */
export function isWanted(filter: EventFilter): RawBuilder<SqlBool> {
  const { stores, types, cajaId, sucursalId } = filter
  return sql`(${ofClient(filter)}
    and (${stores === undefined}::boolean or sucursal_id = any(${stores ?? []}::text[]))
    and (${types === undefined}::boolean or type = any(${types ?? []}::text[]))
    and (${cajaId ?? null}::text is null or caja_id = ${cajaId ?? null})
    and (${sucursalId ?? null}::text is null or sucursal_id = ${sucursalId ?? null}))`
}

/** Reads at most `limit` events in one snapshot. */
export async function readEvents(
  db: Db,
  filter: EventFilter,
  after: number,
  limit: number,
): Promise<EventPage> {
  const { rows } = await sql<EventPage['events'][number] & Ends>`
    select head.position as head, coalesce((select max(position) from event_deletions where ${ofClient(filter)}), 0) as deleted,
      (select id from events where position = head.position) as "headId",
      (select id from events where position = ${after}) as "afterId",
      page.*
    from event_head as head left join lateral (
      select * from events where position > ${after} and ${isWanted(filter)} order by position limit ${limit}
    ) as page on true order by page.position`.execute(db)
  const [first] = rows
  if (!first) throw new Error('the row of event_head is gone')
  return {
    events: rows
      .filter(({ seq }) => seq !== null)
      .map(
        ({ head: _head, deleted: _deleted, headId: _headId, afterId: _afterId, ...event }) => event,
      ),
    head: first.head,
    headId: first.headId,
    afterId: first.afterId,
    deleted: first.deleted,
  }
}

/** The id of the event at a position; null if there is none. */
export async function findIdAt(db: Db, position: number): Promise<string | null> {
  const row = await db
    .selectFrom('events')
    .select('id')
    .where('position', '=', position)
    .executeTakeFirst()
  return row?.id ?? null
}

/** The position before the first event that happened at this time or later. */
export async function positionBefore(db: Db, at: Date): Promise<number> {
  const row = await db
    .selectFrom('events')
    .select((eb) => eb.fn.min('position').as('position'))
    .where('at', '>=', at)
    .where('position', 'is not', null)
    .executeTakeFirst()
  if (row?.position != null) return row.position - 1
  const { position } = await db
    .selectFrom('event_head')
    .select('position')
    .executeTakeFirstOrThrow()
  return position
}

/**
 * Deletes at most `limit` events that are older than a time, oldest first, and records how far the events of each client were
 * deleted, and what endpoints have missed. Returns how many. Events that nothing has read get no position: the head passes over
 * them, so that cursors from before are refused, and those of later events are higher.
 */
export async function deleteOldEvents(trx: Trx, before: Date, limit: number): Promise<number> {
  const head = await lockHead(trx)
  await lockEndpoints(trx)
  const { rows } = await sql<DeletedEvent>`
    delete from events where seq in (
      select seq from (select seq, at from events order by seq limit ${limit}) as oldest where at < ${before})
    returning client, position, type, sucursal_id, caja_id`.execute(trx)
  if (rows.length === 0) return 0
  const unread = rows.filter(({ position }) => position === null).length
  await moveHead(trx, head + unread)
  const last = new Map<string, number>()
  for (const { client, position } of rows) {
    last.set(client, Math.max(position ?? head + unread, last.get(client) ?? 0))
  }
  await sql`insert into event_deletions (client, position)
    select * from unnest(${[...last.keys()]}::text[], ${[...last.values()]}::bigint[])
    on conflict (client) do update set position = greatest(event_deletions.position, excluded.position)`.execute(
    trx,
  )
  await countMissed(trx, rows)
  return rows.length
}

type DeletedEvent = Pick<EventRow, 'client' | 'position' | 'type' | 'sucursal_id' | 'caja_id'>

/** No endpoint queues an event while it is deleted. */
async function lockEndpoints(trx: Trx): Promise<void> {
  await trx.selectFrom('event_endpoints').select('id').orderBy('id').forUpdate().execute()
}

/** Counts for each endpoint the deleted events that it wanted and does not have. */
async function countMissed(trx: Trx, deleted: readonly DeletedEvent[]): Promise<void> {
  await sql`
    with deleted as (
      select * from jsonb_to_recordset(${JSON.stringify(deleted)}::jsonb)
        as (client text, position bigint, type text, sucursal_id text, caja_id text)
    ),
    undelivered as (
      delete from event_deliveries where position in (select position from deleted) returning endpoint_id as id
    ),
    unqueued as (
      select endpoint.id from event_endpoints as endpoint join deleted on deleted.client = endpoint.client
        and (deleted.position is null or deleted.position > endpoint.position)
        and (endpoint.types is null or deleted.type = any(endpoint.types))
        and (endpoint.sucursal_id is null or deleted.sucursal_id = endpoint.sucursal_id)
        and (endpoint.caja_id is null or deleted.caja_id = endpoint.caja_id)
    ),
    counted as (
      select id, count(*)::integer as missed
      from (select id from undelivered union all select id from unqueued) as each group by id
    )
    update event_endpoints set missed = event_endpoints.missed + counted.missed
    from counted where event_endpoints.id = counted.id`.execute(trx)
}
