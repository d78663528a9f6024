import { z } from 'zod'
import { type ProviderClient, segment } from './client.ts'
import { MpAnything, MpId, MpNote, readEntries } from './payload-fields.ts'
import { undefinedIfGone } from './provider-error.ts'
import type {
  NewProviderPos,
  NewProviderStore,
  Provider,
  ProviderSettings,
} from './provider-types.ts'

const MpStore = z.object({ id: MpId, name: MpNote, external_id: MpNote })

const MpPos = z.object({ id: MpId, store_id: MpNote, external_id: MpNote })

/**
 * A list of stores or boxes: `results` in the documented searches. `data` is also accepted, because the list of POS v2
 * is not documented.
 */
const MpSearch = z.union([
  z.object({ results: z.array(z.unknown()) }).transform((page) => page.results),
  z.object({ data: z.array(z.unknown()) }).transform((page) => page.data),
])

/** Stores (provider file 3). */
export function createStores(client: ProviderClient): Provider['stores'] {
  return {
    async create(token, userId, store, options) {
      const made = await client.call({
        operation: 'store.create',
        method: 'POST',
        path: `${userPath(userId)}/stores`,
        token,
        body: newStoreBody(store),
        schema: MpStore,
        options,
      })
      return { mpStoreId: made.id }
    },
    async findByExternalId(token, userId, externalId, options) {
      const found = await client.call({
        operation: 'store.find',
        method: 'GET',
        path: `${userPath(userId)}/stores/search`,
        query: { external_id: externalId },
        token,
        schema: MpSearch,
        accept: (entries) => isAnswered(MpStore, entries, externalId),
        options,
      })
      const store = named(MpStore, found, externalId)
      return store && { mpStoreId: store.id, name: store.name ?? null }
    },
    async update(token, userId, mpStoreId, store, options) {
      // The provider would refuse the store's own external_id as a duplicate of itself (provider file 3.4).
      const { external_id: _, ...body } = newStoreBody({ ...store, externalId: '' })
      await client.call({
        operation: 'store.update',
        method: 'PUT',
        path: `${userPath(userId)}/stores/${segment(mpStoreId)}`,
        token,
        body,
        schema: MpAnything,
        options,
      })
    },
    async delete(token, userId, mpStoreId, options) {
      const gone = client.call({
        operation: 'store.delete',
        method: 'DELETE',
        path: `${userPath(userId)}/stores/${segment(mpStoreId)}`,
        token,
        schema: MpAnything,
        options,
      })
      await gone.catch(undefinedIfGone)
    },
  }
}

/** Boxes (provider file 4), in the API version of the settings. */
export function createPos(
  client: ProviderClient,
  posApi: ProviderSettings['posApi'],
): Provider['pos'] {
  const base = posApi === 'v2' ? '/v2/pos' : '/pos'
  return {
    async create(token, key, pos, options) {
      const made = await client.call({
        operation: 'pos.create',
        method: 'POST',
        path: base,
        token,
        ...(posApi === 'v2' && { key }),
        body: newPosBody(pos, posApi),
        schema: MpPos,
        options,
      })
      return { mpPosId: made.id }
    },
    async findByExternalId(token, externalId, options) {
      const found = await client.call({
        operation: 'pos.find',
        method: 'GET',
        path: base,
        query: { external_id: externalId },
        token,
        schema: MpSearch,
        accept: (entries) => isAnswered(MpPos, entries, externalId),
        options,
      })
      const pos = named(MpPos, found, externalId)
      return pos && { mpPosId: pos.id, mpStoreId: pos.store_id ?? null }
    },
    async rename(token, mpPosId, name, options) {
      const reduced = reducePosName(name, posApi)
      if (reduced === undefined) return
      await client.call({
        operation: 'pos.update',
        method: posApi === 'v2' ? 'PATCH' : 'PUT',
        path: `${base}/${segment(mpPosId)}`,
        token,
        body: { name: reduced },
        schema: MpAnything,
        options,
      })
    },
    async delete(token, mpPosId, options) {
      const gone = client.call({
        operation: 'pos.delete',
        method: 'DELETE',
        path: `${base}/${segment(mpPosId)}`,
        token,
        schema: MpAnything,
        options,
      })
      await gone.catch(undefinedIfGone)
    },
  }
}

type Named = { external_id?: string | null | undefined }

/** The entry with this external id; entries that cannot be read are skipped. */
function named<Item extends Named>(
  schema: z.ZodType<Item>,
  entries: readonly unknown[],
  externalId: string,
): Item | undefined {
  return readEntries(schema, entries).items.find((entry) => entry.external_id === externalId)
}

/** An entry that cannot be read may be the wanted one: without a readable match the result is unknown. */
function isAnswered<Item extends Named>(
  schema: z.ZodType<Item>,
  entries: readonly unknown[],
  externalId: string,
): boolean {
  const isFound = named(schema, entries, externalId) !== undefined
  return isFound || readEntries(schema, entries).unreadable.length === 0
}

function userPath(userId: number | string): string {
  return `/users/${segment(userId)}`
}

/** The body of a new store (file 3.1). */
function newStoreBody(store: NewProviderStore): Record<string, unknown> {
  const { location } = store
  return {
    name: store.name,
    external_id: store.externalId,
    location: {
      street_name: location.streetName,
      street_number: location.streetNumber,
      city_name: location.cityName,
      state_name: location.stateName,
      latitude: location.latitude,
      longitude: location.longitude,
      ...(location.reference !== null && { reference: location.reference }),
    },
  }
}

/** The body of a new POS (file 4.1 and 4.4). v2 accepts one of the two store references, as a string. */
function newPosBody(pos: NewProviderPos, posApi: 'v1' | 'v2'): Record<string, unknown> {
  const common = {
    name: reducePosName(pos.name, posApi) ?? pos.externalId,
    external_id: pos.externalId,
    store_id: pos.mpStoreId,
  }
  if (posApi === 'v2') return common
  return {
    ...common,
    fixed_amount: true,
    ...(pos.mpExternalStoreId !== null && { external_store_id: pos.mpExternalStoreId }),
  }
}

/**
 * A POS name that the provider accepts: v1 under 45 characters. v2 up to 45 of letters, digits, `-`, `_` and inner
 * spaces; accents are dropped. Undefined when nothing is left.
 */
export function reducePosName(name: string, posApi: 'v1' | 'v2'): string | undefined {
  const plain =
    posApi === 'v1'
      ? name.replace(/\p{C}/gu, ' ')
      : name
          .normalize('NFKD')
          .replace(/\p{M}/gu, '')
          .replace(/[^A-Za-z0-9_-]+/g, ' ')
  const short = plain
    .trim()
    .slice(0, posApi === 'v1' ? 44 : 45)
    .replace(/\p{Cs}$/u, '')
    .trim()
  return short === '' ? undefined : short
}
