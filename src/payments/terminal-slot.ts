import type { ClientName } from '../domain/client-name.ts'
import { AppError } from '../errors.ts'
import {
  findOpenOrdersOnTerminal,
  findOrderOfAnyClient,
  type OrderRow,
} from '../repositories/orders.ts'
import { cancelAtProvider } from './cancel-order.ts'
import { type PaymentDeps, serviceActor } from './deps.ts'
import { refreshOrder } from './read-order.ts'

/** What a charge may spend on looking at its terminal before it begins: the charge itself needs the rest. */
const lookWithinMs = 6_000

/**
 * The terminal of a box that takes orders from the ERP. The provider allows one in PDV per box.
 *
 * Throws TERMINAL_NOT_FOUND when none is paired, TERMINAL_NOT_PDV when the paired ones work on their own.
 */
export async function chooseTerminal(
  deps: PaymentDeps,
  token: string,
  mpPosId: string,
): Promise<string> {
  const { terminals } = await deps.provider.terminals.list(
    token,
    { mpPosId },
    { deadlineMs: lookWithinMs },
  )
  // Asked for one box only; a provider that ignored the filter must not lend us another box's terminal.
  const paired = terminals.filter((terminal) => terminal.mpPosId === mpPosId)
  if (paired.length === 0) throw new AppError('TERMINAL_NOT_FOUND')
  const ready = paired.find((terminal) => terminal.operatingMode === 'PDV')
  if (!ready) throw new AppError('TERMINAL_NOT_PDV')
  return ready.id
}

/**
 * Sees to it that no order of ours holds the terminal: a dead one is canceled, a live one is named. What the provider
 * does not confirm blocks nobody; it refuses the new order itself if the terminal is taken.
 *
 * Throws TERMINAL_BUSY.
 */
export async function freeTerminal(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
): Promise<void> {
  const until = deps.now().getTime() + lookWithinMs
  for (const order of await findOpenOrdersOnTerminal(deps.database.db, terminalId)) {
    if (order.creation !== 'confirmed') continue
    if (deps.now().getTime() > until) return
    const current = await confirmedNow(deps, order)
    if (current === undefined) continue
    const leftMs = until - deps.now().getTime()
    if (isForgotten(deps, current) && (await tryCancel(deps, current, leftMs))) continue
    throw await terminalBusy(deps, client, terminalId)
  }
}

/** The order when the provider has just confirmed that it holds the terminal's slot: whatever else it says holds nothing. */
async function confirmedNow(deps: PaymentDeps, order: OrderRow): Promise<OrderRow | undefined> {
  const { order: current, shown } = await refreshOrder(deps, order, 'api', lookWithinMs)
  return shown === 'created' || shown === 'at_terminal' ? current : undefined
}

/** An order that nobody waits for: past its time, or given up by a cashier while it was unknown. */
function isForgotten(deps: PaymentDeps, order: OrderRow): boolean {
  return (
    order.status === 'created' &&
    (order.expires_at <= deps.now() || order.cancel_requested_at !== null)
  )
}

async function tryCancel(deps: PaymentDeps, order: OrderRow, withinMs: number): Promise<boolean> {
  try {
    await cancelAtProvider(deps, order, 'api', serviceActor(deps.now()), withinMs)
    return true
  } catch (error) {
    deps.log.warn({ orderId: order.id, err: error }, 'a forgotten order still holds its terminal')
    return false
  }
}

/**
 * After the provider said that the terminal is taken: finds and cancels forgotten orders of ours whose creation was
 * never confirmed. Answers whether the slot may be free now.
 */
export async function cancelForgottenOrders(
  deps: PaymentDeps,
  terminalId: string,
): Promise<boolean> {
  const until = deps.now().getTime() + lookWithinMs
  let freed = false
  for (const order of await findOpenOrdersOnTerminal(deps.database.db, terminalId)) {
    if (!isForgotten(deps, order)) continue
    const leftMs = until - deps.now().getTime()
    if (leftMs <= 0) break
    if (await cancelForgotten(deps, order, leftMs)) freed = true
  }
  return freed
}

/**
 * Cancels an order that nobody waits for, if the provider has it and no terminal shows it. Answers whether it is canceled
 * now; it takes `withinMs`, or a little longer.
 */
export async function cancelForgotten(
  deps: PaymentDeps,
  order: OrderRow,
  withinMs: number,
): Promise<boolean> {
  const until = deps.now().getTime() + withinMs
  const read = await refreshOrder(deps, order, 'api', withinMs)
  if (read.stale || read.isGone || !isForgotten(deps, read.order)) return false
  return tryCancel(deps, read.order, until - deps.now().getTime())
}

/** 409 with the order that holds the terminal, when it is this client's own. */
export async function terminalBusy(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
  cause?: unknown,
): Promise<AppError> {
  const open = await findOpenOrdersOnTerminal(deps.database.db, terminalId)
  const own = open.filter((order) => order.client === client)
  const blocker = own.find((order) => order.creation === 'confirmed') ?? (await arriving(deps, own))
  return new AppError('TERMINAL_BUSY', {
    message: blocker
      ? 'The terminal holds another order: finish or cancel it, then charge again'
      : 'The terminal is busy with a charge that did not come from here: finish it on the terminal, then charge again',
    cause,
    extra: {
      outcome: 'not_charged',
      retrySafe: true,
      ...(blocker && {
        openOrder: {
          orderId: blocker.id,
          externalReference: blocker.external_reference,
          ageSeconds: Math.max(
            0,
            Math.floor((deps.now().getTime() - blocker.created_at.getTime()) / 1000),
          ),
        },
      }),
    },
  })
}

/** How long the provider's answer to another request may take to be written down. */
const arrivingMs = 1_000

/** The order that another request is making at this moment, once the provider has confirmed it. */
async function arriving(deps: PaymentDeps, own: OrderRow[]): Promise<OrderRow | undefined> {
  const intent = own.find((order) => order.creation === 'intent')
  if (!intent) return undefined
  const read = () => findOrderOfAnyClient(deps.database.db, intent.id)
  const enough = new AbortController()
  const change = deps.changes.wait(intent.id, arrivingMs, enough.signal)
  const first = await read()
  if (first?.creation === 'intent') await change
  else enough.abort()
  const last = first?.creation === 'intent' ? await read() : first
  return last?.creation === 'confirmed' ? last : undefined
}
