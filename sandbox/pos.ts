import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './auth.ts'
import { apiError } from './errors.ts'
import { newFreeNumber } from './ids.ts'
import { pageOf, readPage } from './page.ts'
import { type Generation, type PosFields, posV1 } from './pos-v1.ts'
import { posV2 } from './pos-v2.ts'
import type { Change, Pos, Seller, Store, Terminal } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { mergeChanges } from './sandbox-state.ts'

const filters = ['external_id', 'external_store_id', 'store_id', 'category']

/** Both generations of the POS API, over the same rows (provider facts 4). */
export function posRoutes(app: FastifyInstance, ctx: Context): void {
  for (const generation of [posV1, posV2]) generationRoutes(app, ctx, generation)
}

function generationRoutes(app: FastifyInstance, ctx: Context, generation: Generation): void {
  const { base, errors, show } = generation

  app.post(base, (request, reply) => {
    const seller = authenticate(ctx, request)
    const use = generation.useKey?.(ctx, request, seller)
    const fields = generation.read(request.body, true)
    // The first answer unchanged, also when that POS was deleted: the key belongs to that creation.
    if (use?.first !== undefined) return reply.code(use.first.status).send(use.first.body)
    const store = findStore(ctx, seller, fields, errors)
    if (store === undefined) throw apiError(...errors.noStore)
    refuseDuplicate(ctx, seller, fields, errors)
    const name = fields.name ?? fields.externalId
    if (name === undefined) throw apiError(...errors.noName)
    const pos = newPos(ctx, store, {
      name,
      externalId: fields.externalId ?? null,
      category: fields.category ?? null,
      fixedAmount: fields.fixedAmount ?? generation.fixedAmount,
    })
    const shown = show(pos)
    addPos(ctx, pos, use?.remember(201, String(pos.id), shown))
    return reply.code(201).send(shown)
  })

  app.get(base, (request) => {
    const seller = authenticate(ctx, request)
    const page = readPage(request.query, filters, { limit: 50, highest: 50 })
    const fits = (name: string, value: string | number | null) => {
      const wanted = page.filters.get(name)
      return wanted === undefined || (value !== null && wanted === String(value))
    }
    const found = [...ctx.state.tables.pos.values()].filter(
      (pos) =>
        pos.userId === seller.id &&
        fits('external_id', pos.externalId) &&
        fits('external_store_id', pos.externalStoreId) &&
        fits('store_id', pos.storeId) &&
        fits('category', pos.category),
    )
    return pageOf(page, found.map(show))
  })

  app.get<PosPath>(`${base}/:id`, (request) => {
    return show(findPos(ctx, authenticate(ctx, request), request.params.id, errors))
  })

  app.route<PosPath>({
    method: generation.update,
    url: `${base}/:id`,
    handler: (request) => {
      const seller = authenticate(ctx, request)
      const pos = findPos(ctx, seller, request.params.id, errors)
      const { storeId, externalStoreId, ...fields } = generation.read(request.body, false)
      const store = findStore(ctx, seller, { storeId, externalStoreId }, errors)
      refuseDuplicate(ctx, seller, fields, errors)
      const changed: Pos = {
        ...pos,
        ...fields,
        ...(store !== undefined && { storeId: store.id, externalStoreId: store.externalId }),
        dateLastUpdated: new Date(ctx.nowMs()).toISOString(),
      }
      ctx.state.commit('pos.updated', String(pos.id), { pos: { [pos.id]: changed } })
      return generation.showUpdated(changed)
    },
  })

  app.delete<PosPath>(`${base}/:id`, (request, reply) => {
    deletePos(ctx, findPos(ctx, authenticate(ctx, request), request.params.id, errors))
    return reply.code(204).send()
  })
}

/** A POS of a store from checked fields, which `addPos` creates. */
export function newPos(
  ctx: Context,
  store: Store,
  fields: Pick<Pos, 'name' | 'externalId' | 'category' | 'fixedAmount'>,
): Pos {
  const now = new Date(ctx.nowMs()).toISOString()
  return {
    id: newFreeNumber(9, (candidate) => ctx.state.tables.pos.has(String(candidate))),
    userId: store.userId,
    storeId: store.id,
    externalStoreId: store.externalId,
    ...fields,
    uuid: randomUUID().replaceAll('-', ''),
    dateCreated: now,
    dateLastUpdated: now,
  }
}

/** Creates a POS; `more` is written in the same line. */
export function addPos(ctx: Context, pos: Pos, more: Change = {}): void {
  const id = String(pos.id)
  ctx.state.commit('pos.created', id, mergeChanges({ pos: { [id]: pos } }, more))
}

type PosPath = { Params: { id: string } }
type Errors = Generation['errors']

function findPos(ctx: Context, seller: Seller, id: string, errors: Errors): Pos {
  if (!/^\d{1,15}$/.test(id)) throw apiError(...errors.badId)
  const pos = ctx.state.tables.pos.get(id)
  if (pos?.userId !== seller.id) throw apiError(...errors.notFound)
  return pos
}

/** external_id is unique per seller; an update that repeats its own counts as a duplicate too (provider facts 4.3). */
function refuseDuplicate(
  ctx: Context,
  seller: Seller,
  { externalId }: PosFields,
  errors: Errors,
): void {
  if (externalId === undefined) return
  for (const pos of ctx.state.tables.pos.values()) {
    if (pos.userId === seller.id && pos.externalId === externalId) {
      throw apiError(...errors.duplicate)
    }
  }
}

/** The store a POS belongs to, by either reference; undefined when the body names none. */
function findStore(
  ctx: Context,
  seller: Seller,
  { storeId, externalStoreId }: Pick<PosFields, 'storeId' | 'externalStoreId'>,
  errors: Errors,
): Store | undefined {
  const own = [...ctx.state.tables.stores.values()].filter(({ userId }) => userId === seller.id)
  const store = own.find(({ id }) => String(id) === storeId)
  if (storeId !== undefined && store === undefined) throw apiError(...errors.unknownStore)
  if (externalStoreId === undefined) return store
  const named = own.find(({ externalId }) => externalId === externalStoreId)
  if (named === undefined) throw apiError(...errors.unknownExternalStore)
  if (store !== undefined && named.id !== store.id) throw apiError(...errors.otherStore)
  return named
}

/** Removes a POS. Its terminals stay with the seller, without a POS. */
function deletePos(ctx: Context, pos: Pos): void {
  const terminals: Record<string, Terminal> = {}
  for (const [id, terminal] of ctx.state.tables.terminals) {
    if (terminal.posId === pos.id) {
      terminals[id] = { ...terminal, posId: null, operatingMode: 'UNDEFINED' }
    }
  }
  ctx.state.commit('pos.deleted', String(pos.id), { pos: { [pos.id]: null }, terminals })
}
