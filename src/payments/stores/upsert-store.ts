import type { ClientName } from '../../domain/client-name.ts'
import { canonicalJson } from '../../domain/json.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  findPos,
  findStore,
  listPosOfStore,
  type PosRow,
  type StoreRow,
  updatePos,
  updateStore,
} from '../../repositories/stores/store-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { addPos, aloneWith, createStore } from './manage-stores.ts'
import type { NewPos, NewStore } from './planned-stores.ts'

/**
 * Makes a store and its boxes match the request: creates what is missing and changes what differs. It may be repeated: what
 * matches is not changed. Boxes that are not named stay. One request at a time changes a store, so that the row has the name that
 * the provider got last.
 *
 * @throws like createStore, and CONFLICT when a box belongs to another store or another request works on this store
 */
export async function upsertStore(
  deps: PaymentDeps,
  client: ClientName,
  request: { store: NewStore; pos: NewPos[] },
  actor: Actor,
): Promise<void> {
  const { store, pos } = request
  const known = await findStore(deps.database.db, client, store.externalId)
  if (known?.state !== 'active') {
    await createStore(deps, client, request, actor)
    return
  }
  if (!isAsWanted(known, store)) {
    await aloneWith(deps, client, store.externalId, async (found) => {
      if (isAsWanted(found.store, store)) return
      await changeStore(deps, client, found.store, store, actor)
    })
  }
  await upsertPos(deps, client, store.externalId, pos, actor)
}

function isAsWanted(row: StoreRow, { name, location }: NewStore): boolean {
  return row.name === name && canonicalJson(row.location) === canonicalJson(location)
}

/**
 * The same for boxes of a store that exists.
 *
 * @throws NOT_FOUND without the store
 */
export async function upsertPos(
  deps: PaymentDeps,
  client: ClientName,
  storeExternalId: string,
  pos: NewPos[],
  actor: Actor,
): Promise<void> {
  const store = await findStore(deps.database.db, client, storeExternalId)
  if (!store) throw new AppError('NOT_FOUND', { message: `There is no store ${storeExternalId}` })
  const known = await listPosOfStore(deps.database.db, client, store.id)
  const byId = new Map(known.map((box) => [box.external_id, box]))
  const missing = pos.filter((box) => byId.get(box.externalId)?.state !== 'active')
  for (const box of missing) {
    const elsewhere = await findPos(deps.database.db, client, box.externalId)
    if (elsewhere && elsewhere.store_id !== store.id) {
      throw new AppError('CONFLICT', {
        message: `Box ${box.externalId} belongs to store ${elsewhere.store_external_id}`,
      })
    }
  }
  if (missing.length > 0) await addPos(deps, client, storeExternalId, missing, actor)
  const nameOf = new Map(pos.map((box) => [box.externalId, box.name]))
  const toRename = (boxes: readonly PosRow[]) =>
    boxes.filter(
      ({ state, name, external_id: id }) => state === 'active' && name !== (nameOf.get(id) ?? name),
    )
  if (toRename(known).length === 0) return
  await aloneWith(deps, client, storeExternalId, async (found) => {
    for (const row of toRename(found.pos)) {
      await changePos(deps, client, row, nameOf.get(row.external_id) as string, actor)
    }
  })
}

async function changeStore(
  deps: PaymentDeps,
  client: ClientName,
  row: StoreRow,
  store: NewStore,
  actor: Actor,
): Promise<void> {
  await callForClient(deps, client, 'store.create', ({ token, mpUserId }) =>
    deps.provider.stores.update(token, mpUserId, row.mp_store_id as string, store),
  )
  await deps.database.transaction(async (trx) => {
    await updateStore(trx, client, row.id, {
      name: store.name,
      location: JSON.stringify(store.location),
    })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'store.updated',
      resourceId: row.external_id,
    })
  })
}

async function changePos(
  deps: PaymentDeps,
  client: ClientName,
  row: PosRow,
  name: string,
  actor: Actor,
): Promise<void> {
  await callForClient(deps, client, 'pos.create', ({ token }) =>
    deps.provider.pos.rename(token, row.mp_pos_id as string, name),
  )
  await deps.database.transaction(async (trx) => {
    await updatePos(trx, client, row.id, { name })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'pos.updated',
      resourceId: row.external_id,
    })
  })
}
