import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { readPage } from './page.ts'
import {
  deletePos,
  findPosRows,
  newPos,
  ownPos,
  ownStore,
  posExternalIdTaken,
  posFilters,
  qrLinks,
  storeByExternalId,
} from './pos-rows.ts'
import { type Fields, isRecord } from './problems.ts'
import type { Pos, Seller, Store } from './rows.ts'
import { type Context, oddRowsOf } from './sandbox-context.ts'
import { pageOf } from './stores.ts'

type PosPath = { Params: { id: string } }

/** The first generation of the POS API (provider facts 4.1 to 4.3). */
export function posRoutes(app: FastifyInstance, ctx: Context): void {
  app.post('/pos', (request, reply) => {
    const seller = authenticate(ctx, request)
    const body = readBody(request.body)
    const fields = readFields(body)
    if (fields.name === undefined) throw apiError(400, 'INVALID_NAME', 'name is required')
    const store = readStore(ctx, seller, body)
    if (store === undefined) throw apiError(400, 'INVALID_STORE_ID', 'store_id is required')
    refuseDuplicate(ctx, seller, fields.externalId)
    const pos = newPos(ctx, store, {
      name: fields.name,
      externalId: fields.externalId ?? null,
      category: fields.category ?? null,
      fixedAmount: fields.fixedAmount ?? false,
    })
    ctx.state.commit('pos.created', String(pos.id), { pos: { [pos.id]: pos } })
    return reply.code(201).send(showPos(pos))
  })

  app.get('/pos', (request) => {
    const seller = authenticate(ctx, request)
    const page = readPage(request.query, posFilters, { limit: 50, highest: 50 })
    const odd = oddRowsOf(ctx, seller.id, 'pos')
    return pageOf(page, [...odd, ...findPosRows(ctx, seller, page).map(showPos)])
  })

  app.get<PosPath>('/pos/:id', (request) => {
    return showPos(findPos(ctx, authenticate(ctx, request), request.params.id))
  })

  app.put<PosPath>('/pos/:id', (request) => {
    const seller = authenticate(ctx, request)
    const pos = findPos(ctx, seller, request.params.id)
    const body = readBody(request.body)
    const fields = readFields(body)
    const store = readStore(ctx, seller, body)
    refuseDuplicate(ctx, seller, fields.externalId)
    const changed: Pos = {
      ...pos,
      ...fields,
      ...(store !== undefined && { storeId: store.id, externalStoreId: store.externalId }),
      dateLastUpdated: new Date(ctx.nowMs()).toISOString(),
    }
    ctx.state.commit('pos.updated', String(pos.id), { pos: { [pos.id]: changed } })
    const { qr: _absent, ...shown } = showPos(changed)
    return shown
  })

  app.delete<PosPath>('/pos/:id', (request, reply) => {
    deletePos(ctx, findPos(ctx, authenticate(ctx, request), request.params.id))
    return reply.code(204).send()
  })
}

function readBody(body: unknown): Fields {
  if (!isRecord(body)) throw apiError(400, 'MISSING_BODY', 'The body is missing')
  const known = 'name fixed_amount category store_id external_store_id external_id url'.split(' ')
  const extra = Object.keys(body).find((key) => !known.includes(key))
  if (extra !== undefined) {
    throw apiError(400, 'UNKNOWN_FIELD_EXCEPTION', `Unknown field: ${extra}`)
  }
  return body
}

function readFields(
  body: Fields,
): Partial<Pick<Pos, 'name' | 'externalId' | 'category' | 'fixedAmount'>> {
  const { name, external_id, category, fixed_amount, url } = body
  const fields: ReturnType<typeof readFields> = {}
  if (name !== undefined) {
    if (typeof name !== 'string' || name.trim() === '') {
      throw apiError(400, 'INVALID_NAME', 'name must be a non-empty string')
    }
    if (name.length >= 45) throw apiError(400, 'NAME_TOO_LONG', 'name must be under 45 characters')
    fields.name = name
  }
  if (fixed_amount !== undefined) {
    if (typeof fixed_amount !== 'boolean') {
      throw apiError(400, 'INVALID_FIXED_AMOUNT', 'fixed_amount must be a boolean')
    }
    fields.fixedAmount = fixed_amount
  }
  if (category !== undefined) {
    if (typeof category !== 'number' || !Number.isInteger(category)) {
      throw apiError(400, 'INVALID_CATEGORY', 'category must be an integer')
    }
    // Food and fuel of Argentina: no other family is accepted (provider facts 4.1).
    if (category !== 621102 && category !== 473000) {
      throw apiError(400, 'UNKNOWN_MCC', 'category is not a known MCC')
    }
    fields.category = category
  }
  if (external_id !== undefined) {
    if (typeof external_id !== 'string' || !/^[A-Za-z0-9]+$/.test(external_id)) {
      throw apiError(400, 'INVALID_EXTERNAL_ID', 'external_id must be alphanumeric')
    }
    if (external_id.length >= 40) {
      throw apiError(400, 'EXTERNAL_ID_TOO_LONG', 'external_id must be under 40 characters')
    }
    fields.externalId = external_id
  }
  if (url !== undefined) {
    if (typeof url !== 'string' || !URL.canParse(url)) {
      throw apiError(400, 'INVALID_URL', 'url is not valid')
    }
    if (url.length >= 300) throw apiError(400, 'URL_TOO_LONG', 'url must be under 300 characters')
    throw apiError(403, 'forbidden', 'The host of the url is not enabled')
  }
  return fields
}

/** The store a POS belongs to, by either reference; undefined when the body names none. */
function readStore(ctx: Context, seller: Seller, body: Fields): Store | undefined {
  const { store_id, external_store_id } = body
  let store: Store | undefined
  if (store_id !== undefined) {
    const id = typeof store_id === 'number' ? String(store_id) : store_id
    store = typeof id === 'string' && /^\d{1,15}$/.test(id) ? ownStore(ctx, seller, id) : undefined
    if (store === undefined) throw apiError(400, 'INVALID_STORE_ID', 'store_id is not valid')
  }
  if (external_store_id === undefined) return store
  if (typeof external_store_id !== 'string' || external_store_id === '') {
    throw apiError(400, 'INVALID_EXTERNAL_STORE_ID', 'external_store_id is not valid')
  }
  const named = storeByExternalId(ctx, seller, external_store_id)
  if (named === undefined) {
    throw apiError(400, 'INEXISTENT_EXTERNAL_STORE_ID', 'external_store_id does not exist')
  }
  if (store !== undefined && named.id !== store.id) {
    throw apiError(400, 'EXTERNAL_STORE_ID_NOT_MATCH', 'external_store_id does not match store_id')
  }
  return named
}

function findPos(ctx: Context, seller: Seller, id: string): Pos {
  if (!/^\d{1,15}$/.test(id)) throw apiError(400, 'INVALID_POS_ID', 'Invalid pos id')
  const pos = ownPos(ctx, seller, id)
  if (pos === undefined) throw apiError(404, 'not_found', 'Point of sale not found')
  return pos
}

function refuseDuplicate(ctx: Context, seller: Seller, externalId: string | null | undefined) {
  if (externalId === undefined || externalId === null) return
  if (posExternalIdTaken(ctx, seller, externalId)) {
    throw apiError(
      409,
      'point_of_sale_exists',
      'Point of sale with corresponding user and id exists',
    )
  }
}

function showPos(pos: Pos) {
  return {
    id: pos.id,
    qr: qrLinks(pos),
    status: 'active',
    date_created: pos.dateCreated,
    date_last_updated: pos.dateLastUpdated,
    uuid: pos.uuid,
    user_id: pos.userId,
    name: pos.name,
    fixed_amount: pos.fixedAmount,
    ...(pos.category !== null && { category: pos.category }),
    store_id: String(pos.storeId),
    ...(pos.externalStoreId !== null && { external_store_id: pos.externalStoreId }),
    ...(pos.externalId !== null && { external_id: pos.externalId }),
  }
}
