import type { ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { isRefusedForNow, ProviderError, toAppError } from '../../provider/provider.ts'
import {
  findStore,
  isMpPosKnown,
  isMpStoreKnown,
  listPosOfStore,
  type PosRow,
  type StoreRow,
  updatePos,
  updateStore,
} from '../../repositories/stores/store-queries.ts'
import { recordSuccess } from '../audit/activity.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { noStore } from './planned-stores.ts'

export type StoreWithPos = { store: StoreRow; pos: PosRow[] }

/** @throws NOT_FOUND, also for another client's store */
export async function readStore(
  deps: PaymentDeps,
  client: ClientName,
  externalId: string,
): Promise<StoreWithPos> {
  const store = await findStore(deps.database.db, client, externalId)
  if (!store) throw noStore()
  return { store, pos: await listPosOfStore(deps.database.db, client, store.id) }
}

/**
 * Creates a planned store and its wanted boxes, where the provider does not have them yet. Each step is stored as soon as the
 * provider confirms it. An object that exists there under our id is adopted: an attempt with a lost answer made it. Processes and
 * returns in the order of `wanted`.
 */
export async function finishCreation(
  deps: PaymentDeps,
  client: ClientName,
  externalId: string,
  wanted: ReadonlySet<string>,
  actor: Actor,
): Promise<StoreWithPos> {
  const { store, pos } = await load(deps, client, externalId, wanted)
  try {
    const mpStoreId = store.mp_store_id ?? (await createStoreRow(deps, client, store, actor))
    let isFirst = true
    for (const box of pos.filter((candidate) => candidate.state === 'creating')) {
      // The specification asks for a pause between the boxes of one request.
      if (!isFirst) await deps.sleep(deps.settings.posCreateDelayMs)
      isFirst = false
      await createPosRow(deps, client, store, box, mpStoreId, actor)
    }
  } catch (error) {
    throw await describeMissing(deps, client, externalId, wanted, error)
  }
  return load(deps, client, externalId, wanted)
}

async function load(
  deps: PaymentDeps,
  client: ClientName,
  externalId: string,
  wanted: ReadonlySet<string>,
) {
  const { store, pos } = await readStore(deps, client, externalId)
  const byId = new Map(pos.map((box) => [box.external_id, box]))
  return { store, pos: [...wanted].flatMap((id) => byId.get(id) ?? []) }
}

async function createStoreRow(
  deps: PaymentDeps,
  client: ClientName,
  store: StoreRow,
  actor: Actor,
): Promise<string> {
  const { stores } = deps.provider
  const created = await callForClient(deps, client, 'store.create', ({ token, mpUserId }) =>
    stores
      .create(token, mpUserId, {
        name: store.name,
        externalId: store.mp_external_id,
        location: store.location,
      })
      .catch(async (error: unknown) => {
        const found = await adopt(error, () =>
          stores.findByExternalId(token, mpUserId, store.mp_external_id),
        )
        if (await isMpStoreKnown(deps.database.db, found.mpStoreId)) throw sharedAccount(error)
        return found
      })
      .catch((error: unknown) => {
        if (!(error instanceof ProviderError) || error.kind === 'unauthorized') throw error
        const { cityName, stateName } = store.location
        const given = { 'location.city_name': cityName, 'location.state_name': stateName }
        throw toAppError(error, 'store.create', given)
      }),
  )
  const { mpStoreId } = created
  await deps.database.transaction(async (trx) => {
    await updateStore(trx, client, store.id, { mp_store_id: mpStoreId, state: 'active' })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'store.created',
      resourceId: store.external_id,
      metadata: { mp_store_id: mpStoreId },
    })
  })
  return mpStoreId
}

async function createPosRow(
  deps: PaymentDeps,
  client: ClientName,
  store: StoreRow,
  box: PosRow,
  mpStoreId: string,
  actor: Actor,
): Promise<void> {
  const { pos } = deps.provider
  const created = await callForClient(deps, client, 'pos.create', ({ token }) =>
    onceStoreIsKnown(deps, () =>
      pos.create(token, box.id, {
        name: box.name,
        externalId: box.mp_external_id,
        mpStoreId,
        mpExternalStoreId: store.mp_external_id,
      }),
    ).catch(async (error: unknown) => {
      const found = await adopt(error, async () => {
        const candidate = await pos.findByExternalId(token, box.mp_external_id)
        // A box of that id in another store is not the requested one.
        return candidate && (candidate.mpStoreId === null || candidate.mpStoreId === mpStoreId)
          ? candidate
          : undefined
      })
      if (await isMpPosKnown(deps.database.db, found.mpPosId)) throw sharedAccount(error)
      return found
    }),
  )
  const { mpPosId } = created
  await deps.database.transaction(async (trx) => {
    await updatePos(trx, client, box.id, { mp_pos_id: mpPosId, state: 'active' })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'pos.created',
      resourceId: box.external_id,
      metadata: { mp_pos_id: mpPosId, sucursal_id: store.external_id },
    })
  })
}

/** The provider learns the id of a new store some seconds late. Until then it refuses the store's first box. */
const storeWaitsMs = [2_000, 4_000, 8_000]

async function onceStoreIsKnown<T>(
  deps: Pick<PaymentDeps, 'sleep'>,
  create: () => Promise<T>,
): Promise<T> {
  for (const waitMs of storeWaitsMs) {
    try {
      return await create()
    } catch (error) {
      const isLate = error instanceof ProviderError && isRefusedForNow(error, 'pos.create')
      if (!isLate) throw error
      await deps.sleep(waitMs)
    }
  }
  return create()
}

/**
 * After a refusal or a lost answer: checks whether the object exists under our id. The provider's status and words for "exists
 * already" differ between its pages, so the read decides and not the refusal.
 */
async function adopt<T>(error: unknown, find: () => Promise<T | undefined>): Promise<T> {
  if (!(error instanceof ProviderError) || error.kind === 'unauthorized') throw error
  if (error.kind !== 'refused' && error.effect === 'none') throw error
  const found = await find().catch(() => undefined)
  if (found === undefined) throw error
  return found
}

/** An object that belongs to another client here is never adopted: its owner would lose it with the next deletion. */
function sharedAccount(cause: unknown): AppError {
  return new AppError('CONFLICT', {
    message: 'Another client of the same provider account uses this external_id',
    cause,
  })
}

/** The failure, with what exists now and what is still missing. */
async function describeMissing(
  deps: PaymentDeps,
  client: ClientName,
  externalId: string,
  wanted: ReadonlySet<string>,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof AppError)) return error
  const { store, pos } = await load(deps, client, externalId, wanted)
  const missing = pos.filter((box) => box.state === 'creating').map((box) => box.external_id)
  const isUnknown = error.cause instanceof ProviderError && error.cause.effect === 'unknown'
  const state =
    store.mp_store_id !== null
      ? `store ${externalId} exists; missing boxes: ${missing.join(', ')}`
      : isUnknown
        ? `it is not known whether store ${externalId} was created`
        : `store ${externalId} was not created`
  return new AppError(error.code, {
    message: `${error.message}; ${state}. Repeat the request to finish it`,
    ...(error.details && { details: error.details }),
    extra: error.extra,
    cause: error.cause,
  })
}

/** Deletes a box at the provider. One whose creation is not confirmed is read first. */
export async function deletePosAtProvider(
  deps: PaymentDeps,
  client: ClientName,
  box: PosRow,
  store: StoreRow,
): Promise<void> {
  await callForClient(deps, client, 'pos.delete', async ({ token }) => {
    const found =
      box.mp_pos_id ??
      (await deps.provider.pos
        .findByExternalId(token, box.mp_external_id)
        .then((candidate) =>
          candidate?.mpStoreId === store.mp_store_id ? candidate?.mpPosId : undefined,
        ))
    if (found != null) await deps.provider.pos.delete(token, found)
  })
}

/** Deletes a store at the provider. One whose creation is not confirmed is read first. */
export async function deleteStoreAtProvider(
  deps: PaymentDeps,
  client: ClientName,
  store: StoreRow,
): Promise<void> {
  await callForClient(deps, client, 'store.delete', async ({ token, mpUserId }) => {
    if (store.mp_store_id !== null) {
      await deps.provider.stores.delete(token, mpUserId, store.mp_store_id)
      return
    }
    const found = await deps.provider.stores.findByExternalId(token, mpUserId, store.mp_external_id)
    if (found && !(await isMpStoreKnown(deps.database.db, found.mpStoreId))) {
      await deps.provider.stores.delete(token, mpUserId, found.mpStoreId)
    }
  })
}
