import { randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { AppError } from '../../errors/app-error.ts'
import { withLease } from '../../jobs/with-lease.ts'
import {
  listOrdersInTheWay,
  listPaymentsInTheWay,
  type PlacesToDelete,
} from '../../repositories/stores/charges-in-the-way.ts'
import {
  deletePos,
  deleteStore,
  listPos,
  listStores,
  type PosRow,
  type StoreRow,
  updatePos,
  updateStore,
} from '../../repositories/stores/store-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { withAccess } from '../connection/access.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import {
  conflictOf,
  dropPlan,
  type NewPos,
  type NewStore,
  type Plan,
  planBoxes,
  planStore,
  provesNoEffect,
} from './planned-stores.ts'
import {
  deletePosAtProvider,
  deleteStoreAtProvider,
  finishCreation,
  readStore,
  type StoreWithPos,
} from './stores-at-provider.ts'

export async function readStores(
  deps: PaymentDeps,
  client: ClientName,
  seen: StoresSeen,
): Promise<StoreWithPos[]> {
  const { db } = deps.database
  const stores = await listStores(db, client, seen)
  const boxes = Map.groupBy(await listPos(db, client), (pos) => pos.store_id)
  return stores.map((store) => ({ store, pos: boxes.get(store.id) ?? [] }))
}

/**
 * Creates a store and its boxes at the provider. Each step is stored as it completes, so a failure in the middle loses nothing:
 * the same request again adopts what exists and creates the rest.
 *
 * @throws CONFLICT when the store is complete already, VALIDATION_ERROR, OAUTH_NOT_CONNECTED, CONNECTION_LOST, or the provider's
 * failure, which then names what is missing
 */
export async function createStore(
  deps: PaymentDeps,
  client: ClientName,
  request: { store: NewStore; pos: NewPos[] },
  actor: Actor,
): Promise<StoreWithPos> {
  const { store, pos } = request
  const entry = {
    client,
    actor,
    action: 'store.created',
    resourceId: store.externalId,
  }
  return auditFailure(deps, entry, () =>
    alone(deps, client, store.externalId, () =>
      create(deps, client, { storeExternalId: store.externalId, pos }, actor, (trx) =>
        planStore(deps, trx, client, request),
      ),
    ),
  )
}

/** Writes a plan and carries it out. The plan of a request that certainly created nothing is deleted again. */
async function create(
  deps: PaymentDeps,
  client: ClientName,
  { storeExternalId, pos }: { storeExternalId: string; pos: NewPos[] },
  actor: Actor,
  plan: (trx: Trx) => Promise<Plan>,
): Promise<StoreWithPos> {
  const written = await deps.database.transaction(plan).catch((error) => {
    throw conflictOf(error)
  })
  const wanted = new Set(pos.map((box) => box.externalId))
  return finishCreation(deps, client, storeExternalId, wanted, actor).catch(async (error) => {
    await dropPlan(deps, client, written, error)
    throw error
  })
}

/**
 * Adds boxes to a store; repeated after a failure it creates what is missing.
 *
 * @throws NOT_FOUND and like createStore
 */
export async function addPos(
  deps: PaymentDeps,
  client: ClientName,
  storeExternalId: string,
  pos: NewPos[],
  actor: Actor,
): Promise<PosRow[]> {
  const entry = {
    client,
    actor,
    action: 'pos.created',
    resourceId: pos.map((box) => box.externalId).join(','),
    metadata: { sucursal_id: storeExternalId },
  }
  const created = await auditFailure(deps, entry, () =>
    aloneWith(deps, client, storeExternalId, () =>
      create(deps, client, { storeExternalId, pos }, actor, (trx) =>
        planBoxes(deps, trx, client, storeExternalId, pos),
      ),
    ),
  )
  return created.pos
}

/** More are only counted. */
const mostNamed = 20

/**
 * Checks that nothing of these places would be lost to closings: a place that is deleted cannot be closed any more. The boxes are
 * marked for deletion before, and so accept no orders.
 *
 * @throws CHARGES_NOT_CLOSED
 */
async function requireClosed(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  places: PlacesToDelete,
): Promise<void> {
  const orders = await listOrdersInTheWay(db, client, places, mostNamed)
  const payments = await listPaymentsInTheWay(db, client, places, mostNamed)
  const total = (orders[0]?.total ?? 0) + (payments[0]?.total ?? 0)
  if (total === 0) return
  const inTheWay = {
    orders: orders.map((order) => ({
      orderId: order.id,
      externalReference: order.external_reference,
      cajaId: order.caja_id,
      status: order.status,
    })),
    payments: payments.map(({ payment_id }) => payment_id),
    total,
  }
  throw new AppError('CHARGES_NOT_CLOSED', { extra: { inTheWay } })
}

/**
 * Deletes a box at the provider, then here. After a refusal it is in use as before.
 *
 * @throws NOT_FOUND, CHARGES_NOT_CLOSED or the provider's failure
 */
export async function removePos(
  deps: PaymentDeps,
  client: ClientName,
  storeExternalId: string,
  posExternalId: string,
  actor: Actor,
): Promise<void> {
  const entry = {
    client,
    actor,
    action: 'pos.deleted',
    resourceId: posExternalId,
    metadata: { sucursal_id: storeExternalId },
  }
  await auditFailure(deps, entry, () =>
    aloneWith(deps, client, storeExternalId, async ({ store, pos }) => {
      const box = pos.find((candidate) => candidate.external_id === posExternalId)
      if (!box) throw new AppError('NOT_FOUND', { message: 'There is no such box in this store' })
      await withAccess(deps, client, async () => undefined)
      await deps.database.transaction((trx) =>
        updatePos(trx, client, box.id, { state: 'deleting' }),
      )
      try {
        await requireClosed(deps, client, { boxes: [box.external_id], storeId: null })
        await deletePosAtProvider(deps, client, box, store)
      } catch (error) {
        if (provesNoEffect(error)) await keepBoxes(deps, client, [box])
        throw error
      }
      await deps.database.transaction(async (trx) => {
        if (await deletePos(trx, client, box.id)) await recordSuccess(deps, trx, entry)
      })
    }),
  )
}

/**
 * Deletes the boxes of a store, then the store, at the provider and here. After a failure in the middle the same request
 * completes the deletion; `pos` counts the boxes deleted by this request. After a refusal the rest is in use as before.
 *
 * @throws NOT_FOUND, CHARGES_NOT_CLOSED or the provider's failure
 */
export async function removeStore(
  deps: PaymentDeps,
  client: ClientName,
  externalId: string,
  actor: Actor,
): Promise<{ store: number; pos: number }> {
  const entry = {
    client,
    actor,
    action: 'store.deleted',
    resourceId: externalId,
  }
  return auditFailure(deps, entry, () =>
    aloneWith(deps, client, externalId, async ({ store, pos }) => {
      // Without a connection nothing can be deleted, and boxes marked for deletion would accept no orders.
      await withAccess(deps, client, async () => undefined)
      await deps.database.transaction(async (trx) => {
        await updateStore(trx, client, store.id, { state: 'deleting' })
        for (const box of pos) await updatePos(trx, client, box.id, { state: 'deleting' })
      })
      let deleted = 0
      try {
        const boxes = pos.map(({ external_id }) => external_id)
        await requireClosed(deps, client, { boxes, storeId: store.external_id })
        for (const box of pos) {
          await deletePosAtProvider(deps, client, box, store)
          await deps.database.transaction((trx) => deletePos(trx, client, box.id))
          deleted += 1
        }
        await deleteStoreAtProvider(deps, client, store)
      } catch (error) {
        if (provesNoEffect(error)) await keepRest(deps, client, store, pos.slice(deleted))
        throw error
      }
      await deps.database.transaction(async (trx) => {
        if (await deleteStore(trx, client, store.id)) {
          await recordSuccess(deps, trx, { ...entry, metadata: { pos: deleted } })
        }
      })
      return { store: 1, pos: deleted }
    }),
  )
}

/** A deletion that was refused: the store and its remaining boxes exist, and accept orders again. */
async function keepRest(
  deps: PaymentDeps,
  client: ClientName,
  store: StoreRow,
  boxes: readonly PosRow[],
): Promise<void> {
  await deps.database.transaction((trx) =>
    updateStore(trx, client, store.id, { state: stateOf(store.mp_store_id) }),
  )
  await keepBoxes(deps, client, boxes)
}

function stateOf(mpId: string | null) {
  return mpId === null ? 'creating' : 'active'
}

async function keepBoxes(
  deps: PaymentDeps,
  client: ClientName,
  boxes: readonly PosRow[],
): Promise<void> {
  await deps.database.transaction(async (trx) => {
    for (const { id, mp_pos_id: mpPosId } of boxes) {
      await updatePos(trx, client, id, { state: stateOf(mpPosId) })
    }
  })
}

/**
 * Like `alone`, for an existing store: requests with unknown names must leave no lease behind.
 *
 * @throws NOT_FOUND
 */
export async function aloneWith<T>(
  deps: PaymentDeps,
  client: ClientName,
  storeExternalId: string,
  work: (found: StoreWithPos) => Promise<T>,
): Promise<T> {
  await readStore(deps, client, storeExternalId)
  // Read again: it may have changed while this request waited for the lease.
  return alone(deps, client, storeExternalId, async () =>
    work(await readStore(deps, client, storeExternalId)),
  )
}

/** One request at a time changes a store, across processes: the steps at the provider have no idempotency key. */
async function alone<T>(
  deps: PaymentDeps,
  client: ClientName,
  storeExternalId: string,
  work: () => Promise<T>,
): Promise<T> {
  // A separate owner for each request, since a lease can be acquired again by its owner.
  const owner = { ...deps, processId: `${deps.processId}/${randomUUID()}` }
  const name = `store:${JSON.stringify([client, storeExternalId])}`
  const done = await withLease(owner, name, work)
  if (!done) {
    throw new AppError('CONFLICT', {
      message: 'Another request is working on this store; wait until it has ended',
    })
  }
  return done.result
}
