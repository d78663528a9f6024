import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { EventEndpointsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { EventFilter } from './event-log.ts'

export type EndpointRow = Selectable<EventEndpointsTable>
export type StopReason = NonNullable<EndpointRow['stop_reason']>

/** Names one endpoint of a client. */
export type EndpointKey = { client: ClientName; id: string }

/** Which events an endpoint gets. */
type EndpointFilter = Pick<EndpointRow, 'types' | 'sucursal_id' | 'caja_id'>

/** The events of an endpoint. */
export function filterOf(endpoint: EndpointFilter & Pick<EndpointRow, 'client'>): EventFilter {
  return {
    client: endpoint.client,
    stores: undefined,
    types: endpoint.types ?? undefined,
    cajaId: endpoint.caja_id ?? undefined,
    sucursalId: endpoint.sucursal_id ?? undefined,
  }
}

/** An endpoint with what waits for it. */
export type EndpointWithWaiting = EndpointRow & {
  /** Events that it does not have yet, counted up to a limit. */
  waiting: number
  /** When the first of them happened. */
  oldest_at: Date | null
  /** How many of them failed. */
  failed: number
  /** When the first of those that failed is sent again. */
  next_attempt_at: Date | null
}

/** So many failed attempts of an event take five minutes: a restart of a receiver is shorter. */
const failingAfter = 3

/** Whether an event fails again and again. `endpoint` names the row. */
const isFailing = sql<boolean>`exists (select from event_deliveries
  where endpoint_id = endpoint.id and attempts >= ${failingAfter})`

/** How an endpoint fares, for operators. `endpoint` names the row. */
export const endpointFare = sql<EndpointFare>`case when stop_reason = 'person' then 'stopped_by_person'
  when stopped_at is not null then 'stopped' when ${isFailing} then 'failing' else 'active' end`

export const endpointFares = ['active', 'failing', 'stopped', 'stopped_by_person'] as const
export type EndpointFare = (typeof endpointFares)[number]

/** The times of the events that an endpoint does not have yet, at most `most` of them. `endpoint` names the row. */
export function waitingEvents(most: number): RawBuilder<{ at: Date }> {
  return sql`(
    (select at from event_deliveries as delivery join events using (position)
      where delivery.endpoint_id = endpoint.id limit ${most})
    union all
    (select at from events where client = endpoint.client and position > endpoint.position
      and (endpoint.types is null or type = any(endpoint.types))
      and (endpoint.sucursal_id is null or sucursal_id = endpoint.sucursal_id)
      and (endpoint.caja_id is null or caja_id = endpoint.caja_id)
      order by position limit ${most})
    limit ${most}
  )`
}

/** Locks the client, so that two requests do not both make the last endpoint. Returns how many it has. */
export async function lockEndpointsOf(trx: Trx, client: ClientName): Promise<number> {
  await trx
    .selectFrom('clients')
    .select('name')
    .where('name', '=', client)
    .forNoKeyUpdate()
    .execute()
  const { count } = await trx
    .selectFrom('event_endpoints')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .where('client', '=', client)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export async function insertEndpoint(
  trx: Trx,
  endpoint: EndpointKey &
    EndpointFilter &
    Pick<EndpointRow, 'url' | 'position' | 'created_at'> & { secret: string },
): Promise<EndpointRow> {
  return trx.insertInto('event_endpoints').values(endpoint).returningAll().executeTakeFirstOrThrow()
}

export async function findEndpoint(
  db: Db | Trx,
  { client, id }: EndpointKey,
): Promise<EndpointRow | undefined> {
  return db
    .selectFrom('event_endpoints')
    .selectAll()
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** The endpoint, whose row stays locked until the transaction ends. */
export async function lockEndpoint(
  trx: Trx,
  { client, id }: EndpointKey,
): Promise<EndpointRow | undefined> {
  return trx
    .selectFrom('event_endpoints')
    .selectAll()
    .where('client', '=', client)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
}

export async function updateEndpoint(
  trx: Trx,
  { client, id }: EndpointKey,
  values: Partial<
    Pick<
      EndpointRow,
      | 'url'
      | 'types'
      | 'sucursal_id'
      | 'caja_id'
      | 'secret'
      | 'former_secret'
      | 'former_until'
      | 'position'
      | 'failures'
      | 'resting_until'
      | 'last_success_at'
      | 'stopped_at'
      | 'stop_reason'
      | 'notified_at'
    >
  >,
): Promise<EndpointRow> {
  return trx
    .updateTable('event_endpoints')
    .set(values)
    .where('client', '=', client)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Its deliveries and attempts go with it. */
export async function deleteEndpoint(trx: Trx, { client, id }: EndpointKey): Promise<boolean> {
  const { numDeletedRows } = await trx
    .deleteFrom('event_endpoints')
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
  return numDeletedRows === 1n
}

/** The endpoints of a client, oldest first, or one of them; of each at most `countedAtMost` events are counted. */
export async function listEndpoints(
  db: Db,
  { client, id }: { client: ClientName; id?: string | undefined },
  countedAtMost: number,
): Promise<EndpointWithWaiting[]> {
  const { rows } = await sql<EndpointWithWaiting>`
    select endpoint.*, counted.*, delayed.*
    from event_endpoints as endpoint
    cross join lateral (
      select count(*)::integer as waiting, min(at) as oldest_at from ${waitingEvents(countedAtMost)} as next
    ) as counted
    cross join lateral (
      select count(*)::integer as failed, min(next_at) as next_attempt_at from event_deliveries
      where endpoint_id = endpoint.id and attempts > 0
    ) as delayed
    where endpoint.client = ${client} and (${id ?? null}::text is null or endpoint.id = ${id ?? null})
    order by endpoint.created_at, endpoint.id`.execute(db)
  return rows
}

/** The endpoints of each client that operators must look at: they stopped by themselves, or an event fails again and again. */
export type EndpointTrouble = {
  client: ClientName
  stopped: number
  /** When the first one stopped; null without one. */
  stoppedSince: Date | null
  failing: number
}

export async function listEndpointTroubles(
  db: Db,
  client: ClientName | undefined,
): Promise<EndpointTrouble[]> {
  const { rows } = await sql<EndpointTrouble>`
    select client, count(*) filter (where fare = 'stopped')::integer as stopped,
      min(stopped_at) as "stoppedSince", count(*) filter (where fare = 'failing')::integer as failing
    from (select client, stopped_at, ${endpointFare} as fare from event_endpoints as endpoint
      where ${client ?? null}::text is null or client = ${client ?? null}) as endpoint
    where fare in ('stopped', 'failing') group by client`.execute(db)
  return rows
}

/** Takes the endpoints that stopped by themselves and of which no operator was notified, once one has waited until `before`. */
export async function takeStoppedEndpoints(
  trx: Trx,
  now: Date,
  before: Date,
): Promise<EndpointRow[]> {
  return trx
    .updateTable('event_endpoints')
    .set({ notified_at: now })
    .where('notified_at', 'is', null)
    .where('stop_reason', '<>', 'person')
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('event_endpoints as first')
          .select('first.id')
          .where('first.notified_at', 'is', null)
          .where('first.stop_reason', '<>', 'person')
          .where('first.stopped_at', '<=', before),
      ),
    )
    .returningAll()
    .execute()
}

/** Deletes former secrets that no longer sign. */
export async function deleteFormerSecrets(db: Db, now: Date): Promise<void> {
  await db
    .updateTable('event_endpoints')
    .set({ former_secret: null, former_until: null })
    .where('former_until', '<=', now)
    .execute()
}

/** Stops an endpoint whose secret cannot be decrypted any more. False when the secret has changed meanwhile. */
export async function stopWithoutSecret(
  db: Db,
  { id, secret, now }: { id: string; secret: string; now: Date },
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update event_endpoints set secret = null, stopped_at = coalesce(stopped_at, ${now}),
      stop_reason = 'secret_lost', notified_at = null
    where id = ${id} and secret = ${secret}`.execute(db)
  return numAffectedRows === 1n
}
