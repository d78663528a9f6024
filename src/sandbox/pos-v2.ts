import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './auth.ts'
import { type ApiError, apiError } from './errors.ts'
import { useKey } from './idempotency.ts'
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
import { mergeChanges } from './sandbox-state.ts'
import { pageOf } from './stores.ts'

type PosPath = { Params: { id: string } }

/** The second generation of the POS API: idempotent creation, stricter fields (provider facts 4.4). */
export function posV2Routes(app: FastifyInstance, ctx: Context): void {
  app.post('/v2/pos', (request, reply) => {
    const seller = authenticate(ctx, request)
    const use = usePosKey(ctx, request, seller)
    const fields = readFields(request.body)
    // The first answer unchanged, also when that POS was deleted: the key belongs to that creation.
    if (use.first !== undefined) return reply.code(use.first.status).send(use.first.body)
    const store = readStore(ctx, seller, fields)
    if (store === undefined) throw badRequest('store_id or external_store_id is required')
    refuseDuplicate(ctx, seller, fields.externalId)
    const name = fields.name ?? fields.externalId
    if (name === undefined) throw badRequest('name or external_id is required')
    const pos = newPos(ctx, store, {
      name,
      externalId: fields.externalId ?? null,
      category: null,
      fixedAmount: true,
    })
    const shown = showPos(pos)
    const change = { pos: { [pos.id]: pos } }
    const remembered = use.remember(201, String(pos.id), shown)
    ctx.state.commit('pos.created', String(pos.id), mergeChanges(change, remembered))
    return reply.code(201).send(shown)
  })

  app.get('/v2/pos', (request) => {
    const seller = authenticate(ctx, request)
    const page = readPage(request.query, posFilters, { limit: 50, highest: 50 })
    const odd = oddRowsOf(ctx, seller.id, 'pos')
    return pageOf(page, [...odd, ...findPosRows(ctx, seller, page).map(showPos)])
  })

  app.get<PosPath>('/v2/pos/:id', (request) => {
    return showPos(findPos(ctx, authenticate(ctx, request), request.params.id))
  })

  app.patch<PosPath>('/v2/pos/:id', (request) => {
    const seller = authenticate(ctx, request)
    const pos = findPos(ctx, seller, request.params.id)
    const fields = readFields(request.body)
    const store = readStore(ctx, seller, fields)
    refuseDuplicate(ctx, seller, fields.externalId)
    const changed: Pos = {
      ...pos,
      name: fields.name ?? pos.name,
      externalId: fields.externalId ?? pos.externalId,
      ...(store !== undefined && { storeId: store.id, externalStoreId: store.externalId }),
      dateLastUpdated: new Date(ctx.nowMs()).toISOString(),
    }
    ctx.state.commit('pos.updated', String(pos.id), { pos: { [pos.id]: changed } })
    return showPos(changed)
  })

  app.delete<PosPath>('/v2/pos/:id', (request, reply) => {
    deletePos(ctx, findPos(ctx, authenticate(ctx, request), request.params.id))
    return reply.code(204).send()
  })
}

function badRequest(message: string): ApiError {
  return apiError(400, 'bad_request', message)
}

/** 1 to 64 characters; another body is a 400 here, not a 409. */
function usePosKey(ctx: Context, request: FastifyRequest, seller: Seller) {
  return useKey(ctx, request, seller.id, {
    maxLength: 64,
    missing: badRequest('Missing X-Idempotency-Key header'),
    tooLong: badRequest('X-Idempotency-Key must have from 1 to 64 characters'),
    reused: apiError(
      400,
      'idempotency_key_already_used',
      'The idempotency key was already used with another request.',
    ),
  })
}

type PosFields = { name?: string; externalId?: string; storeId?: string; externalStoreId?: string }

const rules: Record<string, { field: keyof PosFields; pattern: RegExp }> = {
  name: { field: 'name', pattern: /^(?=.{1,45}$)[A-Za-z0-9_-](?:[A-Za-z0-9 _-]*[A-Za-z0-9_-])?$/ },
  external_id: { field: 'externalId', pattern: /^[A-Za-z0-9]{1,40}$/ },
  store_id: { field: 'storeId', pattern: /^\d{1,20}$/ },
  external_store_id: { field: 'externalStoreId', pattern: /^.{1,60}$/ },
}

function readFields(body: unknown): PosFields {
  if (!isRecord(body)) throw badRequest('the request body is required')
  return Object.entries(body).reduce((fields: PosFields, [key, value]: [string, unknown]) => {
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined
    if (rule === undefined) throw badRequest(`${key} is not supported`)
    if (typeof value !== 'string') {
      throw badRequest(`${key} expected string, but got ${typeName(value)}`)
    }
    if (!rule.pattern.test(value)) throw badRequest(`${key} does not meet the expected format`)
    return Object.assign(fields, { [rule.field]: value } satisfies Fields)
  }, {})
}

function typeName(value: unknown): string {
  return value === null ? 'null' : typeof value
}

function readStore(ctx: Context, seller: Seller, fields: PosFields): Store | undefined {
  let store: Store | undefined
  if (fields.storeId !== undefined) {
    store = ownStore(ctx, seller, fields.storeId)
    if (store === undefined) throw apiError(404, 'store_not_found', 'Store not found')
  }
  if (fields.externalStoreId === undefined) return store
  const named = storeByExternalId(ctx, seller, fields.externalStoreId)
  if (named === undefined || (store !== undefined && store.id !== named.id)) {
    throw apiError(400, 'invalid_external_store_id', 'external_store_id is not valid')
  }
  return named
}

function findPos(ctx: Context, seller: Seller, id: string): Pos {
  if (!/^\d{1,15}$/.test(id)) throw badRequest('pos id does not meet the expected format')
  const pos = ownPos(ctx, seller, id)
  if (pos === undefined) throw apiError(404, 'pos_not_found', 'Point of sale not found')
  return pos
}

function refuseDuplicate(ctx: Context, seller: Seller, externalId: string | undefined): void {
  if (externalId !== undefined && posExternalIdTaken(ctx, seller, externalId)) {
    throw apiError(409, 'pos_already_exists', 'A point of sale with this external_id exists')
  }
}

function showPos(pos: Pos) {
  const seconds = (stamp: string) => stamp.replace(/\.\d+Z$/, 'Z')
  return {
    id: pos.id,
    name: pos.name,
    status: 'active',
    date_created: seconds(pos.dateCreated),
    date_last_updated: seconds(pos.dateLastUpdated),
    user_id: pos.userId,
    store_id: String(pos.storeId),
    ...(pos.externalStoreId !== null && { external_store_id: pos.externalStoreId }),
    ...(pos.externalId !== null && { external_id: pos.externalId }),
    qr_response: {
      uuid: pos.uuid,
      ...qrLinks(pos),
      qr_code: `00020101021126940014AR.COM.SANDBOX${pos.id}`,
    },
  }
}
