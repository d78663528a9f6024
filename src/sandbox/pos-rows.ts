import { randomUUID } from 'node:crypto'
import { newFreeNumber } from './ids.ts'
import type { Page } from './page.ts'
import type { Pos, Seller, Store, Terminal } from './rows.ts'
import type { Context } from './sandbox-context.ts'

/** The rows behind both generations of the POS API. */
export function newPos(
  ctx: Context,
  store: Store,
  fields: Pick<Pos, 'name' | 'externalId' | 'category' | 'fixedAmount'>,
): Pos {
  const now = new Date(ctx.nowMs()).toISOString()
  return {
    ...fields,
    id: newFreeNumber(9, (candidate) => ctx.state.tables.pos.has(String(candidate))),
    userId: store.userId,
    storeId: store.id,
    externalStoreId: store.externalId,
    uuid: randomUUID().replaceAll('-', ''),
    dateCreated: now,
    dateLastUpdated: now,
  }
}

/** The seller's POS with this id, or undefined. */
export function ownPos(ctx: Context, seller: Seller, id: string): Pos | undefined {
  const pos = ctx.state.tables.pos.get(id)
  return pos?.userId === seller.id ? pos : undefined
}

/** external_id is unique per seller; an update that repeats its own counts as a duplicate too (provider facts 4.3). */
export function posExternalIdTaken(ctx: Context, seller: Seller, externalId: string): boolean {
  return [...ctx.state.tables.pos.values()].some(
    (pos) => pos.userId === seller.id && pos.externalId === externalId,
  )
}

export function storeByExternalId(ctx: Context, seller: Seller, externalId: string) {
  return [...ctx.state.tables.stores.values()].find(
    (store) => store.userId === seller.id && store.externalId === externalId,
  )
}

export function ownStore(ctx: Context, seller: Seller, id: string): Store | undefined {
  const store = ctx.state.tables.stores.get(id)
  return store?.userId === seller.id ? store : undefined
}

export const posFilters = ['external_id', 'external_store_id', 'store_id', 'category']

export function findPosRows(ctx: Context, seller: Seller, { filters }: Page): Pos[] {
  const fits = (name: string, value: string | number | null) => {
    const wanted = filters.get(name)
    return wanted === undefined || (value !== null && wanted === String(value))
  }
  return [...ctx.state.tables.pos.values()].filter(
    (pos) =>
      pos.userId === seller.id &&
      fits('external_id', pos.externalId) &&
      fits('external_store_id', pos.externalStoreId) &&
      fits('store_id', pos.storeId) &&
      fits('category', pos.category),
  )
}

/** Removes a POS. Its terminals stay with the seller, without a POS. */
export function deletePos(ctx: Context, pos: Pos): void {
  const terminals: Record<string, Terminal> = {}
  for (const [id, terminal] of ctx.state.tables.terminals) {
    if (terminal.posId === pos.id) {
      terminals[id] = { ...terminal, posId: null, operatingMode: 'UNDEFINED' }
    }
  }
  ctx.state.commit('pos.deleted', String(pos.id), { pos: { [pos.id]: null }, terminals })
}

/** The three URLs of the printed QR. */
export function qrLinks(pos: Pos) {
  const base = `https://www.mercadopago.com/instore/merchant/qr/${pos.id}`
  const mark = pos.uuid.slice(0, 8)
  return {
    image: `${base}/${mark}.png`,
    template_document: `${base}/template_${mark}.pdf`,
    template_image: `${base}/template_${mark}.png`,
  }
}
