import { randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { encodeExternalId } from '../../domain/provider-names.ts'
import type { StoreLocation } from '../../domain/store-location.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { ProviderError } from '../../provider/provider.ts'
import {
  deletePlannedPos,
  deletePos,
  deleteStore,
  findPos,
  insertPos,
  insertStore,
  listPosOfStore,
  listStores,
  lockStore,
  type StoreRow,
  updateUnfinishedStore,
} from '../../repositories/stores/store-queries.ts'
import type { PaymentDeps } from '../deps.ts'

/** Lengths that the provider accepts: a store's id up to 60, a box's under 40. */
const storeIdLength = 60
const posIdLength = 39

export type NewStore = { externalId: string; name: string; location: StoreLocation }
export type NewPos = { externalId: string; name: string }

/** The rows that a request wrote before it called the provider, and the store's state before. */
export type Plan = {
  storeId: string
  /** This request inserted the row of the store. */
  isNewStore: boolean
  /** The provider had the store before this request. */
  storeWasThere: boolean
  /** The rows of boxes that this request inserted. */
  posIds: string[]
}

/**
 * Deletes the plan of a request that certainly created nothing: a refusal leaves no trace. As soon as one part exists, or may
 * exist, the plan stays for a repeat of the request.
 */
export async function dropPlan(
  deps: PaymentDeps,
  client: ClientName,
  plan: Plan,
  error: unknown,
): Promise<void> {
  if (!provesNoEffect(error)) return
  await deps.database.transaction(async (trx) => {
    const store = (await listStores(trx, client)).find(({ id }) => id === plan.storeId)
    if (store?.mp_store_id != null && !plan.storeWasThere) return
    const boxes = await listPosOfStore(trx, client, plan.storeId)
    const planned = boxes.filter(({ id }) => plan.posIds.includes(id))
    if (planned.some((box) => box.mp_pos_id !== null)) return
    for (const box of planned) await deletePos(trx, client, box.id)
    if (plan.isNewStore) await deleteStore(trx, client, plan.storeId)
  })
}

/** Whether the failed call has certainly changed nothing at the provider. */
export function provesNoEffect(error: unknown): boolean {
  if (!(error instanceof AppError)) return false
  if (error.cause instanceof ProviderError) return error.cause.effect === 'none'
  const notSent = ['OAUTH_NOT_CONNECTED', 'CONNECTION_LOST', 'CHARGES_NOT_CLOSED']
  return notSent.includes(error.code)
}

/**
 * Plans a store with its boxes.
 *
 * @throws CONFLICT when the store is complete or being deleted, or a box exists elsewhere; VALIDATION_ERROR when the request
 * names a box twice
 */
export async function planStore(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  request: { store: NewStore; pos: NewPos[] },
): Promise<Plan> {
  const { store, pos } = request
  const existing = await lockStore(trx, client, store.externalId)
  if (existing?.state === 'deleting') throw beingDeleted()
  if (existing) return planRest(deps, trx, client, existing, request)
  const row = {
    id: randomUUID(),
    client,
    external_id: store.externalId,
    mp_external_id: encodeExternalId(store.externalId, storeIdLength),
    name: store.name,
    location: JSON.stringify(store.location),
    mp_store_id: null,
    time_zone: null,
    state: 'creating' as const,
    created_at: deps.now(),
  }
  await insertStore(trx, row)
  const posIds = await planPos(deps, trx, client, { ...row, location: store.location }, pos)
  return { storeId: row.id, isNewStore: true, storeWasThere: false, posIds }
}

/**
 * Plans boxes of a store.
 *
 * @throws NOT_FOUND and like planStore
 */
export async function planBoxes(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  storeExternalId: string,
  pos: NewPos[],
): Promise<Plan> {
  const store = await lockStore(trx, client, storeExternalId)
  if (!store) throw noStore()
  if (store.state === 'deleting') throw beingDeleted()
  return foundPlan(store, await planPos(deps, trx, client, store, pos))
}

function foundPlan(store: StoreRow, posIds: string[]): Plan {
  return { storeId: store.id, isNewStore: false, storeWasThere: store.mp_store_id !== null, posIds }
}

/**
 * Plans the repeat of a request that failed half way, perhaps with corrections.
 *
 * @throws CONFLICT when nothing is missing
 */
async function planRest(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  existing: StoreRow,
  { store, pos }: { store: NewStore; pos: NewPos[] },
): Promise<Plan> {
  if (existing.mp_store_id === null) {
    await updateUnfinishedStore(trx, client, existing.id, {
      name: store.name,
      location: JSON.stringify(store.location),
    })
    // No box was requested before its store existed, so the first request's boxes no longer count.
    await deletePlannedPos(trx, client, existing.id)
    return foundPlan(existing, await planPos(deps, trx, client, existing, pos))
  }
  const boxes = await listPosOfStore(trx, client, existing.id)
  if (boxes.every((box) => box.state !== 'creating')) {
    throw new AppError('CONFLICT', {
      message: 'The store exists already; add boxes with POST /stores/{external_id}/pos',
    })
  }
  const known = new Set(boxes.map((box) => box.external_id))
  const others = pos.filter((box) => !known.has(box.externalId))
  return foundPlan(existing, await planPos(deps, trx, client, existing, others))
}

/**
 * Boxes that are planned and unfinished stay as they are; finished ones are a conflict. Returns the ids of the rows that it
 * added.
 */
async function planPos(
  deps: PaymentDeps,
  trx: Trx,
  client: ClientName,
  store: StoreRow,
  pos: NewPos[],
): Promise<string[]> {
  const ids = new Set<string>()
  for (const [index, box] of pos.entries()) {
    if (ids.has(box.externalId)) {
      throw invalid(`pos.${index}.external_id`, { code: 'ID_TWICE' })
    }
    ids.add(box.externalId)
  }
  const fresh: NewPos[] = []
  const taken: string[] = []
  const finished: string[] = []
  for (const box of pos) {
    const existing = await findPos(trx, client, box.externalId)
    if (!existing) fresh.push(box)
    else if (existing.store_id !== store.id) taken.push(box.externalId)
    else if (existing.state !== 'creating') finished.push(box.externalId)
  }
  // An unfinished box among them shows that this request repeats one that failed half way.
  const isRepetition = pos.length > fresh.length + taken.length + finished.length
  const refused = isRepetition ? taken : [...taken, ...finished]
  if (refused.length > 0) {
    throw new AppError('CONFLICT', { message: `These boxes exist already: ${refused.join(', ')}` })
  }
  const createdAt = deps.now()
  const added = fresh.map((box) => ({
    id: randomUUID(),
    client,
    store_id: store.id,
    external_id: box.externalId,
    mp_external_id: encodeExternalId(box.externalId, posIdLength),
    name: box.name,
    mp_pos_id: null,
    state: 'creating' as const,
    created_at: createdAt,
  }))
  await insertPos(trx, added)
  return added.map((row) => row.id)
}

export function noStore(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such store' })
}

function beingDeleted(): AppError {
  return new AppError('CONFLICT', {
    message: 'The store is being deleted; repeat the deletion to finish it',
  })
}

/** Two requests planned the same id at once: the database accepted one of them. */
export function conflictOf(error: unknown): unknown {
  const constraint = constraintOf(error)
  return constraint?.startsWith('stores_') || constraint?.startsWith('pos_')
    ? new AppError('CONFLICT', { cause: error })
    : error
}
