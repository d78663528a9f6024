import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { ActivityLogTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import {
  type ListPage,
  type PageRequest,
  partBySequence,
  type SequenceCursor,
  toListPage,
} from '../list-page.ts'

export type ActivityRow = Selectable<ActivityLogTable>

export const activityChannel = 'activity_recorded'

/** What subscribers receive about a new entry. */
export type ActivityNotice = {
  id: string
  client: string | null
  action: string
  resource_type: string
  resource_id: string | null
  status: 'success' | 'failed'
}

/** A new entry. */
export type NewActivity = Omit<ActivityRow, 'seq'>

/** Parts of a statement that writes the entries in `:entries` (JSON), unsealed, if the condition holds; they wait for no lock. */
export function insertEntries(condition: string): string {
  return `entries as (
    insert into activity_log (id, client_name, ip_address, action, resource_type, resource_id, status,
      error_message, metadata, duration_ms, created_at, mac)
    select id, client_name, ip_address, action, resource_type, resource_id, status,
      error_message, metadata, duration_ms, created_at, mac
    from jsonb_to_recordset(:entries::jsonb) as new (id uuid, client_name text, ip_address text, action text,
      resource_type text, resource_id text, status text, error_message text, metadata jsonb, duration_ms integer,
      created_at timestamptz, mac text)
    where ${condition}
    returning id
  ), unsealed as (
    insert into activity_unsealed (entry_id) select id from entries
  )`
}

const append = fixedStatement<{ entries: string }, never>(`with ${insertEntries('true')} select`)

/** Writes entries in one statement. */
export async function appendActivity(db: Db | Trx, entries: readonly NewActivity[]): Promise<void> {
  await append(db, { entries: JSON.stringify(entries) })
}

export type ActivityFilter = {
  action?: string | undefined
  resourceType?: string | undefined
  status?: 'success' | 'failed' | undefined
  client?: string | undefined
  /** The id of an order. */
  order?: string | undefined
  /** The id of the person who acted. */
  person?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
}

/**
 * Charges have no index by order, because every charge would pay for it. Their entries are found by the time of the
 * order.
 */
const chargeWithin = sql`interval '1 day'`

function isOfOrder(id: string) {
  return sql<boolean>`resource_type = 'order' and resource_id = ${id} and (action <> 'order.created'
    or created_at >= (select orders.created_at from orders where orders.id = ${id}::uuid)
      and created_at < (select orders.created_at from orders where orders.id = ${id}::uuid) + ${chargeWithin})`
}

/** The actions on an order of a client, oldest first. */
export async function listActivityOfOrder(
  db: Db,
  client: ClientName,
  orderId: string,
  limit: number,
): Promise<Pick<ActivityRow, 'action' | 'status' | 'ip_address' | 'metadata' | 'created_at'>[]> {
  return db
    .selectFrom('activity_log')
    .select(['action', 'status', 'ip_address', 'metadata', 'created_at'])
    .where('client_name', '=', client)
    .where(isOfOrder(orderId))
    .orderBy('seq')
    .limit(limit)
    .execute()
}

/** Whether a row of activity_seals has a place from the start of the chain to its end. */
export const isInChain = sql<boolean>`exists (
  select from activity_head where activity_seals.seq > start_seq and activity_seals.seq <= activity_head.seq)`

/** With its place in the chain; null while the entry is not sealed yet. */
export type ListedActivity = ActivityRow & { seal: { seq: number; hash: string } | null }

/**
 * A page of entries, newest first, with the number of all that fit the filter. Rows that neither have a place in the chain nor wait
 * for one were not written by the service, and are left out. With an authentic head that is a place from its start to its end.
 */
export async function listActivity(
  db: Db,
  filter: ActivityFilter,
  pageRequest: PageRequest<SequenceCursor>,
  { isHeadAuthentic }: { isHeadAuthentic: boolean },
): Promise<ListPage<ListedActivity>> {
  let query = db.selectFrom('activity_log')
  if (filter.action !== undefined) query = query.where('action', '=', filter.action)
  if (filter.resourceType !== undefined) {
    query = query.where('resource_type', '=', filter.resourceType)
  }
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.client !== undefined) query = query.where('client_name', '=', filter.client)
  if (filter.order !== undefined) query = query.where(isOfOrder(filter.order))
  if (filter.person !== undefined) {
    query = query.where(sql<boolean>`metadata ->> 'person_id' = ${filter.person}`)
  }
  if (filter.from !== undefined) query = query.where('created_at', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('created_at', '<', filter.to)
  const rows = await partBySequence(query, 'activity_log.seq', pageRequest)
    .leftJoinLateral(
      (eb) =>
        eb
          .selectFrom('activity_seals')
          .select(['activity_seals.seq as place', 'activity_seals.hash'])
          .whereRef('activity_seals.entry_id', '=', 'activity_log.id')
          .where(isHeadAuthentic ? isInChain : sql<boolean>`true`)
          .orderBy('activity_seals.seq')
          .limit(1)
          .as('seal'),
      (join) => join.onTrue(),
    )
    .leftJoin('activity_unsealed', 'activity_unsealed.entry_id', 'activity_log.id')
    .where((eb) =>
      eb.or([eb('seal.place', 'is not', null), eb('activity_unsealed.entry_id', 'is not', null)]),
    )
    .selectAll('activity_log')
    .select(['seal.place', 'seal.hash'])
    .execute()
  const listed = rows.map(({ place: seq, hash, ...row }) => ({
    ...row,
    seal: seq === null || hash === null ? null : { seq, hash },
  }))
  return toListPage(db, 'activity_log', query, listed, pageRequest)
}
