import type { Insertable, Selectable, Updateable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { PosTable, StoresTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { inStores } from './store-filter.ts'

export type StoreRow = Selectable<StoresTable>
export type PosRow = Selectable<PosTable>

export async function listStores(
  db: Db | Trx,
  client: ClientName,
  seen?: StoresSeen,
): Promise<StoreRow[]> {
  return db
    .selectFrom('stores')
    .selectAll()
    .where('client', '=', client)
    .where(inStores(seen, 'external_id'))
    .orderBy('created_at')
    .orderBy('external_id')
    .execute()
}

export async function findStore(
  db: Db | Trx,
  client: ClientName,
  externalId: string,
): Promise<StoreRow | undefined> {
  return storeOf(db, client, externalId).executeTakeFirst()
}

/** Locks the store, so that two requests never change it together. */
export async function lockStore(
  trx: Trx,
  client: ClientName,
  externalId: string,
): Promise<StoreRow | undefined> {
  return storeOf(trx, client, externalId).forUpdate().executeTakeFirst()
}

function storeOf(db: Db | Trx, client: ClientName, externalId: string) {
  return db
    .selectFrom('stores')
    .selectAll()
    .where('client', '=', client)
    .where('external_id', '=', externalId)
}

export async function insertStore(trx: Trx, store: Insertable<StoresTable>): Promise<void> {
  await trx.insertInto('stores').values(store).execute()
}

export async function updateStore(
  trx: Trx,
  client: ClientName,
  id: string,
  fields: Updateable<StoresTable>,
): Promise<void> {
  await changing(trx, client, id, fields).execute()
}

export async function updateUnfinishedStore(
  trx: Trx,
  client: ClientName,
  id: string,
  fields: { name: string; location: string },
): Promise<void> {
  await changing(trx, client, id, fields).where('mp_store_id', 'is', null).execute()
}

function changing(trx: Trx, client: ClientName, id: string, fields: Updateable<StoresTable>) {
  return trx.updateTable('stores').set(fields).where('client', '=', client).where('id', '=', id)
}

export async function deleteStore(trx: Trx, client: ClientName, id: string): Promise<boolean> {
  const result = await trx
    .deleteFrom('stores')
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}

export async function listPos(db: Db | Trx, client: ClientName): Promise<PosRow[]> {
  return posOf(db, client).execute()
}

export async function listPosOfStore(
  db: Db | Trx,
  client: ClientName,
  storeId: string,
): Promise<PosRow[]> {
  return posOf(db, client).where('store_id', '=', storeId).execute()
}

function posOf(db: Db | Trx, client: ClientName) {
  return db
    .selectFrom('pos')
    .selectAll()
    .where('client', '=', client)
    .orderBy('created_at')
    .orderBy('external_id')
}

export type PosWithStore = PosRow & { store_external_id: string; mp_store_id: string | null }

/** A box by the ERP's id, with the ERP's id of its store. */
export async function findPos(
  db: Db | Trx,
  client: ClientName,
  externalId: string,
): Promise<PosWithStore | undefined> {
  return db
    .selectFrom('pos')
    .innerJoin('stores', 'stores.id', 'pos.store_id')
    .selectAll('pos')
    .select(['stores.external_id as store_external_id', 'stores.mp_store_id'])
    .where('pos.client', '=', client)
    .where('pos.external_id', '=', externalId)
    .executeTakeFirst()
}

/** Locks the box: its orders are checked for duplicates one after the other. */
export async function lockPos(trx: Trx, client: ClientName, id: string): Promise<boolean> {
  const row = await trx
    .selectFrom('pos')
    .select('id')
    .where('client', '=', client)
    .where('id', '=', id)
    .where('state', '=', 'active')
    .forUpdate()
    .executeTakeFirst()
  return row !== undefined
}

/** Records that the box has an order that none of its charges began. Locks the box until the transaction ends. */
export async function noteFoundOrder(trx: Trx, client: ClientName, id: string): Promise<boolean> {
  const result = await trx
    .updateTable('pos')
    .set((eb) => ({ revision: eb('revision', '+', 1) }))
    .where('client', '=', client)
    .where('id', '=', id)
    .where('state', '=', 'active')
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Records that a charge of the box is answered as not charged. Locks the box until the transaction ends. */
export async function noteDeniedCharge(trx: Trx, client: ClientName, id: string): Promise<void> {
  await trx
    .updateTable('pos')
    .set((eb) => ({ denied_charges: eb('denied_charges', '+', 1) }))
    .where('client', '=', client)
    .where('id', '=', id)
    .execute()
}

export async function insertPos(trx: Trx, boxes: Insertable<PosTable>[]): Promise<void> {
  if (boxes.length > 0) await trx.insertInto('pos').values(boxes).execute()
}

export async function updatePos(
  trx: Trx,
  client: ClientName,
  id: string,
  fields: Updateable<PosTable>,
): Promise<void> {
  await trx
    .updateTable('pos')
    .set(fields)
    .where('client', '=', client)
    .where('id', '=', id)
    .execute()
}

/** Deletes the boxes of a store that were not created at the provider. */
export async function deletePlannedPos(
  trx: Trx,
  client: ClientName,
  storeId: string,
): Promise<void> {
  await trx
    .deleteFrom('pos')
    .where('client', '=', client)
    .where('store_id', '=', storeId)
    .where('mp_pos_id', 'is', null)
    .execute()
}

/** Whether any client has this store of the provider; two clients may share an account. */
export async function isMpStoreKnown(db: Db, mpStoreId: string): Promise<boolean> {
  const row = await db
    .selectFrom('stores')
    .select('id')
    .where('mp_store_id', '=', mpStoreId)
    .executeTakeFirst()
  return row !== undefined
}

/** Whether any client has this box of the provider; two clients may share an account. */
export async function isMpPosKnown(db: Db, mpPosId: string): Promise<boolean> {
  const row = await db
    .selectFrom('pos')
    .select('id')
    .where('mp_pos_id', '=', mpPosId)
    .executeTakeFirst()
  return row !== undefined
}

export async function deletePos(trx: Trx, client: ClientName, id: string): Promise<boolean> {
  const result = await trx
    .deleteFrom('pos')
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows === 1n
}
