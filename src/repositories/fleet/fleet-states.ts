import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { FleetChangesTable, FleetStatesTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { inStores } from '../stores/store-filter.ts'

export type FleetStateRow = Selectable<FleetStatesTable>
export type FleetChangeRow = Selectable<FleetChangesTable>
export type NewFleetChange = Omit<FleetChangeRow, 'id'>

/** The announcer's channel for changed states; the payload is empty. */
export const fleetChannel = 'fleet_changed'

/** The last known states; of some kinds or scopes only when named. */
export async function listFleetStates(db: Db | Trx): Promise<FleetStateRow[]> {
  return db.selectFrom('fleet_states').selectAll().execute()
}

/** Writes changes and the states after them. Only the owner of the lease may call it. */
export async function writeFleetChanges(
  trx: Trx,
  changes: readonly NewFleetChange[],
): Promise<void> {
  if (changes.length === 0) return
  const rows = json(changes)
  await sql`
    insert into fleet_changes (at, kind, scope, name, from_state, from_cause, state, cause, since, about)
    select at, kind, scope, name, from_state, from_cause, state, cause, since, about
    from jsonb_to_recordset(${rows}::jsonb) as one
      (at timestamptz, kind text, scope text, name text, from_state text, from_cause text, state text, cause text,
        since timestamptz, about jsonb)`.execute(trx)
  await sql`
    insert into fleet_states (kind, scope, name, state, cause, since, about)
    select kind, scope, name, state, cause, since, about
    from jsonb_to_recordset(${rows}::jsonb) as one
      (kind text, scope text, name text, state text, cause text, since timestamptz, about jsonb)
    where state <> 'gone'
    on conflict (kind, scope, name) do update set
      state = excluded.state, cause = excluded.cause, since = excluded.since, about = excluded.about`.execute(
    trx,
  )
  await sql`
    delete from fleet_states using jsonb_to_recordset(${rows}::jsonb) as one
      (kind text, scope text, name text, state text)
    where one.state = 'gone' and fleet_states.kind = one.kind and fleet_states.scope = one.scope
      and fleet_states.name = one.name`.execute(trx)
}

/** Changes after one, in their order. */
export async function listFleetChangesAfter(
  db: Db,
  id: number,
  limit: number,
): Promise<FleetChangeRow[]> {
  return db
    .selectFrom('fleet_changes')
    .selectAll()
    .where('id', '>', id)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Which changes are requested: of one client's boxes and connection, or of one box of it; all without a client. */
export type FleetChangesWanted = {
  client: ClientName | undefined
  /** Boxes of these stores only, besides the connection. */
  stores: StoresSeen
  cajaId: string | undefined
  /** Older than this one. */
  before: number | undefined
  limit: number
}

/** Changes, newest first. What was seen for the first time has not changed, so it is left out. */
export async function listFleetChanges(
  db: Db,
  { client, stores, cajaId, before, limit }: FleetChangesWanted,
): Promise<FleetChangeRow[]> {
  let query = db.selectFrom('fleet_changes').selectAll().where('from_state', 'is not', null)
  if (client !== undefined) {
    query = query.where('kind', 'in', ['box', 'connection']).where('scope', '=', client)
  }
  if (stores !== undefined) {
    query = query.where(({ eb, or, exists, selectFrom }) =>
      or([
        eb('kind', '!=', 'box'),
        exists(
          selectFrom('pos')
            .innerJoin('stores', 'stores.id', 'pos.store_id')
            .select('pos.id')
            .whereRef('pos.client', '=', sql.ref('fleet_changes.scope'))
            .whereRef('pos.external_id', '=', 'fleet_changes.name')
            .where(inStores(stores, 'stores.external_id')),
        ),
      ]),
    )
  }
  if (cajaId !== undefined) query = query.where('kind', '=', 'box').where('name', '=', cajaId)
  if (before !== undefined) query = query.where('id', '<', before)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

/** The number of the newest change; 0 for none. */
export async function findLastFleetChange(db: Db): Promise<number> {
  const row = await db
    .selectFrom('fleet_changes')
    .select((eb) => eb.fn.max('id').as('id'))
    .executeTakeFirst()
  return row?.id ?? 0
}

export async function deleteFleetChangesBefore(db: Db, before: Date): Promise<void> {
  await db.deleteFrom('fleet_changes').where('at', '<', before).execute()
}
