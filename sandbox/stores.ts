import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { newFreeNumber } from './ids.ts'
import { pageOf, readPage } from './page.ts'
import type { Seller, Store } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { readStoreBody } from './store-body.ts'

type UserPath = { Params: { user_id: string } }
type StorePath = { Params: { user_id: string; id: string } }

/** Stores of a seller (provider facts 3). */
export function storeRoutes(app: FastifyInstance, ctx: Context): void {
  const { stores } = ctx.state.tables

  app.post<UserPath>('/users/:user_id/stores', (request, reply) => {
    const seller = ownPath(ctx, request, request.params.user_id)
    const { name, location, externalId, businessHours } = readStoreBody(request.body)
    if (name === undefined) throw apiError(400, 'INVALID_NAME', 'name is required')
    if (location === undefined) throw apiError(400, 'INVALID_LOCATION', 'location is required')
    refuseDuplicate(ctx, seller, externalId)
    const store = addStore(ctx, seller, {
      name,
      externalId: externalId ?? null,
      businessHours: businessHours ?? {},
      location,
    })
    return reply.code(201).send(showNewStore(store))
  })

  app.get<UserPath>('/users/:user_id/stores/search', (request) => {
    const seller = ownPath(ctx, request, request.params.user_id)
    const page = readPage(request.query, ['external_id'], { limit: 50, highest: 50 })
    const wanted = page.filters.get('external_id')
    const found = [...stores.values()].filter(
      (store) => store.userId === seller.id && (wanted ?? store.externalId) === store.externalId,
    )
    return pageOf(page, found.map(showStore))
  })

  app.get<{ Params: { id: string } }>('/stores/:id', (request) => {
    return showStore(findStore(ctx, authenticate(ctx, request), request.params.id))
  })

  app.put<StorePath>('/users/:user_id/stores/:id', (request) => {
    const seller = ownPath(ctx, request, request.params.user_id)
    const store = findStore(ctx, seller, request.params.id)
    const fields = readStoreBody(request.body)
    // Its own external_id counts as taken too: callers must leave it out (provider facts 3.4).
    refuseDuplicate(ctx, seller, fields.externalId)
    const changed: Store = { ...store, ...fields }
    ctx.state.commit('store.updated', String(store.id), { stores: { [store.id]: changed } })
    return showNewStore(changed)
  })

  app.delete<StorePath>('/users/:user_id/stores/:id', (request) => {
    const seller = ownPath(ctx, request, request.params.user_id)
    const store = findStore(ctx, seller, request.params.id)
    if ([...ctx.state.tables.pos.values()].some((pos) => pos.storeId === store.id)) {
      throw apiError(400, 'VALIDATION_ERROR', 'The store has points of sale; delete them first')
    }
    ctx.state.commit('store.deleted', String(store.id), { stores: { [store.id]: null } })
    return { store: store.id, user: seller.id }
  })
}

/** Creates a store from checked fields. */
export function addStore(
  ctx: Context,
  seller: Seller,
  fields: Pick<Store, 'name' | 'externalId' | 'businessHours' | 'location'>,
): Store {
  const { stores } = ctx.state.tables
  const store: Store = {
    id: newFreeNumber(8, (candidate) => stores.has(String(candidate))),
    userId: seller.id,
    ...fields,
    dateCreated: new Date(ctx.nowMs()).toISOString(),
  }
  ctx.state.commit('store.created', String(store.id), { stores: { [store.id]: store } })
  return store
}

/** The token's seller, who must be the one in the path. Throws 400 `INVALID_USER_ID`, 403. */
function ownPath(ctx: Context, request: FastifyRequest, userId: string): Seller {
  const seller = authenticate(ctx, request)
  if (!/^\d{1,15}$/.test(userId)) throw apiError(400, 'INVALID_USER_ID', 'Invalid user id')
  if (userId !== String(seller.id)) throw apiError(403, 'Forbidden', 'Forbidden')
  return seller
}

function findStore(ctx: Context, seller: Seller, id: string): Store {
  if (!/^\d{1,15}$/.test(id)) throw apiError(400, 'INVALID_STORE_ID', 'Invalid store id')
  const store = ctx.state.tables.stores.get(id)
  if (store === undefined || store.userId !== seller.id) {
    throw apiError(404, 'not_found', 'Store not found')
  }
  return store
}

function refuseDuplicate(ctx: Context, seller: Seller, externalId: string | null | undefined) {
  if (externalId === undefined || externalId === null) return
  for (const store of ctx.state.tables.stores.values()) {
    if (store.userId === seller.id && store.externalId === externalId) {
      const message = `external id '${externalId}' is already assigned to this user`
      throw apiError(400, 'validation_error', message)
    }
  }
}

/** Create and update: a number as id, `date_created`. */
function showNewStore(store: Store): object {
  const { id: _text, date_creation, ...rest } = showStore(store)
  return { id: store.id, ...rest, date_created: date_creation }
}

/** Search and get: the id as text, `date_creation`; the parts of the address are not returned (provider facts 3.2). */
function showStore(store: Store) {
  const { streetName, streetNumber, cityName, stateName, latitude, longitude, reference } =
    store.location
  return {
    id: String(store.id),
    name: store.name,
    date_creation: store.dateCreated,
    business_hours: store.businessHours,
    location: {
      address_line: `${streetName} ${streetNumber}, ${cityName}, ${stateName}, Argentina`,
      latitude,
      longitude,
      ...(reference !== null && { reference }),
    },
    ...(store.externalId !== null && { external_id: store.externalId }),
  }
}
