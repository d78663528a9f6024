import type { ClientName } from '../../domain/client-name.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { isCancelRequested, isOpen } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { findClient } from '../../repositories/connection/clients.ts'
import {
  findOpenOrdersOnTerminal,
  findOrder,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { cancelOrder } from '../orders/cancel.ts'
import { refreshOrder } from '../orders/read.ts'
import { type RequestContext, serviceContext } from '../request-context.ts'

/**
 * The action for an order that may keep a terminal busy:
 * - `cancel`: it waits for the device; the provider cancels it
 * - `resolve`: whether the provider has it is unknown; it is requested under its own key, and canceled when it exists
 * - `ask_device`: the device shows it; the provider is asked to cancel it there
 * - `cancel_requested`: that was asked; until the device answers it may still take the money
 * - `cancel_on_device`: the provider does not accept that; only the device can cancel it
 * - `wait`: the provider does not answer; nothing is done without its state
 * - `other_client`: it belongs to another client; repeat the request with that client
 * - `none`: it does not keep the terminal busy
 */
export const freeingActions = [
  'cancel',
  'resolve',
  'ask_device',
  'cancel_requested',
  'cancel_on_device',
  'wait',
  'other_client',
  'none',
] as const
export type FreeingAction = (typeof freeingActions)[number]

export type BusyOrder = {
  order: OrderRow
  action: FreeingAction
  /** The action was carried out; always false in a dry run. */
  done: boolean
  /** Why the action failed, when it was tried. */
  failure: AppError | undefined
}

/** `clear`: no order of ours keeps it busy. `freed`, `would_be_freed`: none does after the actions. `held`: one still does. */
export const terminalVerdicts = ['clear', 'freed', 'would_be_freed', 'held'] as const
export type TerminalVerdict = (typeof terminalVerdicts)[number]

type FreedTerminal = { verdict: TerminalVerdict; orders: BusyOrder[] }

/**
 * Frees a terminal from orders of one client. Each order is read at the provider first, and only the state shown then decides; a
 * dry run ends there. A dry run does not send an order whose creation is unknown either.
 *
 * @throws NOT_FOUND (client), TERMINAL_NOT_FOUND, OAUTH_NOT_CONNECTED, CONNECTION_LOST or the provider's failure; the last three
 * only when no order of ours is stored, since then only the provider can show whether the terminal exists
 */
export async function freeTerminalByHand(
  deps: PaymentDeps,
  client: ClientName,
  request: { terminalId: string; dryRun: boolean; reason: string },
  context: RequestContext,
): Promise<FreedTerminal> {
  const { terminalId, dryRun, reason } = request
  if (!(await findClient(deps.database.db, client))) {
    throw new AppError('NOT_FOUND', { message: 'There is no such client' })
  }
  if (dryRun) return planActions(deps, client, terminalId)
  const entry = {
    client,
    actor: context.actor,
    action: 'terminal.freed',
    resourceId: terminalId,
    metadata: { reason },
  }
  return auditFailure(deps, entry, async () => {
    const { orders } = await planActions(deps, client, terminalId)
    const worked = await Promise.all(
      orders.map((busy) => cancelBusyOrder(deps, client, busy, context)),
    )
    const freed = { verdict: verdictOf(worked, false), orders: worked }
    await deps.database.transaction((trx) =>
      recordSuccess(deps, trx, {
        ...entry,
        metadata: {
          reason,
          verdict: freed.verdict,
          orders: worked.map(({ order, action, done }) => ({ order_id: order.id, action, done })),
        },
      }),
    )
    return freed
  })
}

async function planActions(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
): Promise<FreedTerminal> {
  const open = await findOpenOrdersOnTerminal(deps.database.db, terminalId)
  if (open.length === 0) await requireTerminal(deps, client, terminalId)
  const orders = await Promise.all(open.map((order) => judge(deps, client, order)))
  return { verdict: verdictOf(orders, true), orders }
}

/** The provider lists at most this many terminals at once. */
const pageSize = 50

async function requireTerminal(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
): Promise<void> {
  for (let offset = 0; ; offset += pageSize) {
    const page = await callForClient(deps, client, 'terminal.list', ({ token }) =>
      deps.provider.terminals.list(token, { limit: pageSize, offset }),
    )
    if (page.terminals.some(({ id }) => id === terminalId)) return
    if (page.rows < pageSize) {
      throw new AppError('TERMINAL_NOT_FOUND', { message: 'The client has no such terminal' })
    }
  }
}

async function judge(deps: PaymentDeps, client: ClientName, order: OrderRow): Promise<BusyOrder> {
  const busy = (of: OrderRow, action: FreeingAction): BusyOrder => {
    return { order: of, action, done: false, failure: undefined }
  }
  if (order.client !== client) return busy(order, 'other_client')
  if (order.creation !== 'confirmed') return busy(order, 'resolve')
  const read = await refreshOrder(deps, order, serviceContext(deps, 'api'))
  if (read.stale) return busy(read.order, 'wait')
  return busy(read.order, actionFor(read.shown ?? null, read.order))
}

/**
 * By the state that the provider shows. An order in `action_required` has left the terminal; one that the provider does not
 * confirm keeps nothing busy.
 */
function actionFor(shown: OrderStatus | null, order: OrderRow): FreeingAction {
  if (shown === 'created') return 'cancel'
  if (shown !== 'at_terminal') return 'none'
  return isCancelRequested(order) ? 'cancel_requested' : 'ask_device'
}

const carriedOut: readonly FreeingAction[] = ['cancel', 'ask_device', 'resolve']

async function cancelBusyOrder(
  deps: PaymentDeps,
  client: ClientName,
  busy: BusyOrder,
  context: RequestContext,
): Promise<BusyOrder> {
  if (!carriedOut.includes(busy.action)) return busy
  try {
    const order = await cancelOrder(deps, client, busy.order.id, context)
    const done = order.status === 'canceled'
    return { ...busy, order, action: done ? busy.action : actionFor(order.status, order), done }
  } catch (failure) {
    if (!(failure instanceof AppError)) throw failure
    const order = (await findOrder(deps.database.db, client, busy.order.id)) ?? busy.order
    // It reached the device, or ended, between our read and the cancel: the provider's latest state counts.
    const hasMoved = order.creation !== 'unknown' && order.status !== 'created'
    if (order.status === 'at_terminal' && failure.code === 'ORDER_AT_TERMINAL') {
      return { order, action: 'cancel_on_device', done: false, failure }
    }
    const action = hasMoved ? actionFor(order.status, order) : busy.action
    return { order, action, done: false, failure }
  }
}

function verdictOf(orders: readonly BusyOrder[], isPlan: boolean): TerminalVerdict {
  const holding = orders.filter(({ order, action }) => action !== 'none' && isOpen(order.status))
  const freeing = orders.filter(({ done }) => done)
  if (holding.length === 0) return freeing.length > 0 ? 'freed' : 'clear'
  const canBeFreed = holding.every(({ action }) => action === 'cancel' || action === 'resolve')
  return isPlan && canBeFreed ? 'would_be_freed' : 'held'
}
