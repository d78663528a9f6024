import { type Selectable, sql, type Updateable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { EventConsumersTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { columnHasCome, furthestMs } from '../due-work.ts'

/** A consumer, and the event at its place; null where it has none, or none any longer. */
export type ConsumerRow = Selectable<EventConsumersTable> & { event_id: string | null }

const eventAtPlace = sql<string | null>`(
  select id from events where events.position = event_consumers.position)`.as('event_id')

/** A consumer with what waits for it: `oldest_at` is the time of its first event, and it is counted up to a limit. */
export type ConsumerWithWaiting = ConsumerRow & { waiting: number; oldest_at: Date | null }

/** Names one consumer of a client. */
export type ConsumerKey = { client: ClientName; name: string }

export async function findConsumer(
  db: Db | Trx,
  { client, name }: ConsumerKey,
): Promise<ConsumerRow | undefined> {
  return db
    .selectFrom('event_consumers')
    .selectAll()
    .select(eventAtPlace)
    .where('client', '=', client)
    .where('name', '=', name)
    .executeTakeFirst()
}

/** Returns whether it is new. */
export async function insertConsumer(
  trx: Trx,
  { client, name }: ConsumerKey,
  position: number,
  now: Date,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await trx
    .insertInto('event_consumers')
    .values({ client, name, position, created_at: now })
    .onConflict((conflict) => conflict.columns(['client', 'name']).doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

/** The reader's lease, from now on. */
type Reading = { reader: string; now: Date; leaseUntil: Date }

function isFreeFor({ reader, now }: Reading) {
  return sql<boolean>`(lease_until is null or reader = ${reader}
    or ${columnHasCome('lease_until', now, furthestMs.consumerLease)})`
}

/** Updates the consumer, unless another reader has its lease. */
function changing(
  db: Db | Trx,
  { client, name }: ConsumerKey,
  reading: Reading,
  fields: Updateable<EventConsumersTable>,
) {
  return db
    .updateTable('event_consumers')
    .set(fields)
    .where('client', '=', client)
    .where('name', '=', name)
    .where(isFreeFor(reading))
    .returningAll()
    .returning(eventAtPlace)
}

/** Takes or renews the lease of a reader. Undefined while another reader has it, or there is no such consumer. */
export async function leaseConsumer(
  db: Db,
  key: ConsumerKey,
  reading: Reading,
): Promise<ConsumerRow | undefined> {
  const lease = { reader: reading.reader, lease_until: reading.leaseUntil }
  return changing(db, key, reading, lease).executeTakeFirst()
}

/** Moves the place forward. Undefined while another reader has the lease, when the place is further, or without a consumer. */
export async function commitConsumer(
  db: Db,
  key: ConsumerKey,
  position: number,
  reading: Reading,
): Promise<ConsumerRow | undefined> {
  const { reader, now, leaseUntil } = reading
  const fields = { position, committed_at: now, reader, lease_until: leaseUntil }
  return changing(db, key, reading, fields).where('position', '<=', position).executeTakeFirst()
}

/** Moves the place anywhere, and ends the lease. Undefined while another reader has it, or without a consumer. */
export async function seekConsumer(
  trx: Trx,
  key: ConsumerKey,
  position: number,
  reading: Reading,
): Promise<ConsumerRow | undefined> {
  const fields = { position, reader: null, lease_until: null }
  return changing(trx, key, reading, fields).executeTakeFirst()
}

/** Returns whether it was deleted: not while another reader has the lease. */
export async function deleteConsumer(
  trx: Trx,
  { client, name }: ConsumerKey,
  reading: Reading,
): Promise<boolean> {
  const { numDeletedRows } = await trx
    .deleteFrom('event_consumers')
    .where('client', '=', client)
    .where('name', '=', name)
    .where(isFreeFor(reading))
    .executeTakeFirst()
  return numDeletedRows === 1n
}

/** The consumers of a client by name; of each at most `countedAtMost` events are counted. */
export async function listConsumers(
  db: Db,
  client: ClientName,
  countedAtMost: number,
): Promise<ConsumerWithWaiting[]> {
  const { rows } = await sql<ConsumerWithWaiting>`
    select consumer.*, counted.*, (select id from events where position = consumer.position) as event_id
    from event_consumers as consumer
    cross join lateral (
      select count(*)::integer as waiting, min(at) as oldest_at from (
        select at from events where client = consumer.client and position > consumer.position
        order by position limit ${countedAtMost}
      ) as next
    ) as counted
    where consumer.client = ${client} order by consumer.name`.execute(db)
  return rows
}
