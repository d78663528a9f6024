import { showOrder } from './order-view.ts'
import { openOrderOn } from './orders.ts'
import type { Order, Pos, Terminal } from './rows.ts'
import { applicationOf, type Context } from './sandbox-context.ts'

const recentOrders = 20

/** What the page of virtual terminals shows: accounts, boxes, terminals with what is on their screens. No credentials. */
export function showState(ctx: Context): object {
  const { sellers, stores, pos, terminals, orders } = ctx.state.tables
  const { ownerId } = applicationOf(ctx)
  const latest = latestByTerminal(ctx)
  return {
    now: new Date(ctx.nowMs()).toISOString(),
    pace: { fetch_ms: ctx.pace.fetchMs, event_ms: ctx.pace.eventMs },
    sellers: [...sellers.values()]
      .filter(({ id }) => id !== ownerId)
      .map(({ id, nickname, liveMode, revoked }) => ({
        id,
        nickname,
        live_mode: liveMode,
        revoked,
      })),
    stores: [...stores.values()].map(({ id, userId, name, externalId }) => ({
      id,
      user_id: userId,
      name,
      external_id: externalId,
    })),
    pos: [...pos.values()].map((box) => showBox(ctx, box)),
    terminals: [...terminals.values()].map((terminal) => {
      return showDevice(ctx, terminal, latest.get(terminal.id))
    }),
    orders: [...orders.values()]
      .slice(-recentOrders)
      .reverse()
      .map((order) => showOrder(ctx, order)),
  }
}

function latestByTerminal(ctx: Context): Map<string, Order> {
  const latest = new Map<string, Order>()
  for (const order of ctx.state.tables.orders.values()) latest.set(order.terminalId, order)
  return latest
}

function showBox(ctx: Context, box: Pos) {
  const store = ctx.state.tables.stores.get(String(box.storeId))
  return {
    id: box.id,
    user_id: box.userId,
    name: box.name,
    external_id: box.externalId,
    store_id: box.storeId,
    store_name: store?.name ?? null,
  }
}

function showDevice(ctx: Context, terminal: Terminal, latest: Order | undefined): object {
  const box = terminal.posId === null ? undefined : ctx.state.tables.pos.get(String(terminal.posId))
  const open = openOrderOn(ctx, terminal.id)
  const order = open ?? latest
  return {
    id: terminal.id,
    user_id: terminal.userId,
    operating_mode: terminal.operatingMode,
    pos: box === undefined ? null : showBox(ctx, box),
    order: order === undefined ? null : showOrder(ctx, order),
    expires_at: open === undefined ? null : new Date(open.expiresAt).toISOString(),
  }
}
