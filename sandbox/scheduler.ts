import type { FastifyInstance } from 'fastify'
import { arriveDue } from './late-calls.ts'
import { canMove, moveOrder } from './order-moves.ts'
import type { Context } from './sandbox-context.ts'
import { applyEvent } from './terminal-events.ts'
import type { WebhookSender } from './webhook-sender.ts'

/** One timer for everything with a time: terminals, events, expiry, delayed calls, webhooks. */
export function createScheduler(app: FastifyInstance, ctx: Context, sender: WebhookSender) {
  let timer: NodeJS.Timeout | undefined
  let queued: NodeJS.Immediate | undefined
  let closed = false

  function tick(): void {
    queued = undefined
    try {
      runDue(ctx)
      sender.sendDue()
      arriveDue(app, ctx).catch(warn)
    } catch (error) {
      warn(error)
    }
    arm()
  }

  // A full disk must not end the process; the work stays due.
  function warn(error: unknown): void {
    process.emitWarning(error instanceof Error ? error : String(error))
  }

  function arm(): void {
    clearTimeout(timer)
    if (closed) return
    const next = Math.min(nextDue(ctx) ?? Infinity, sender.nextAt() ?? Infinity)
    if (next === Infinity) return
    // At least 10 ms, so that a failing step does not loop; at most a minute, since clocks are set.
    const delayMs = Math.min(60_000, Math.max(10, next - ctx.nowMs()))
    timer = setTimeout(tick, delayMs)
  }

  return {
    wake: () => {
      if (!closed) queued ??= setImmediate(tick)
    },
    close: () => {
      closed = true
      clearTimeout(timer)
      clearImmediate(queued)
    },
  }
}

/** Runs everything that is due: simulated events, terminals fetching orders, expiry. */
export function runDue(ctx: Context): void {
  const now = ctx.nowMs()
  const { tables, openOrders } = ctx.state
  for (const pending of [...tables.events.values()]) {
    const order = tables.orders.get(pending.orderId)
    const shown = pending.event.status !== 'refunded' && order?.status === 'created'
    if (pending.applyAt <= now) applyEvent(ctx, pending)
    else if (shown && pending.fetchAt <= now) moveOrder(ctx, order, { to: 'at_terminal' })
  }
  for (const id of [...openOrders]) {
    const order = tables.orders.get(id)
    if (order === undefined) continue
    const fetched = fetchesAt(ctx, id)
    if (order.expiresAt <= now && canMove(order, 'expired'))
      moveOrder(ctx, order, { to: 'expired' })
    else if (fetched !== undefined && fetched <= now) moveOrder(ctx, order, { to: 'at_terminal' })
  }
}

/** When the next of these is due, in milliseconds of the sandbox's clock. */
function nextDue(ctx: Context): number | undefined {
  const times: number[] = []
  for (const pending of ctx.state.tables.events.values()) {
    const fetched = ctx.state.tables.orders.get(pending.orderId)?.status !== 'created'
    times.push(fetched ? pending.applyAt : Math.min(pending.fetchAt, pending.applyAt))
  }
  for (const call of ctx.lateCalls) times.push(call.arrivesAt)
  for (const id of ctx.state.openOrders) {
    const order = ctx.state.tables.orders.get(id)
    if (order === undefined || !canMove(order, 'expired')) continue
    times.push(Math.min(order.expiresAt, fetchesAt(ctx, id) ?? Infinity))
  }
  return times.length === 0 ? undefined : Math.min(...times)
}

/** When the terminal fetches the order by itself: only in PDV, and only while `pace.fetchMs` is not 0. */
function fetchesAt(ctx: Context, orderId: string): number | undefined {
  const order = ctx.state.tables.orders.get(orderId)
  if (order === undefined || order.status !== 'created' || ctx.pace.fetchMs === 0) return undefined
  const terminal = ctx.state.tables.terminals.get(order.terminalId)
  return terminal?.operatingMode === 'PDV' ? order.createdAt + ctx.pace.fetchMs : undefined
}
