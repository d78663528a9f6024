import type { ClientName } from '../../domain/client-name.ts'
import { holdsTerminal } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { ProviderError, toAppError } from '../../provider/provider.ts'
import { findOpenOrdersOnTerminal, type OrderRow } from '../../repositories/orders/order-queries.ts'
import { type Access, type KnownConnection, withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import { byService, type RequestContext, timeLeftMs, within } from '../request-context.ts'
import { terminalBusy } from './busy-terminal.ts'
import { canBeReplaced } from './check-and-retry-times.ts'
import { refreshOrder } from './read.ts'
import { cancelAtProvider } from './send-cancel.ts'

/** The time that a charge may spend on checking its terminal first. */
const checkWithinMs = 6_000

/**
 * The terminal of a box that takes orders from the ERP, and its account. The provider allows one in PDV per box. `known` is the
 * client's connection, if it is already read.
 *
 * @throws TERMINAL_NOT_FOUND when none is paired, TERMINAL_NOT_PDV when the paired ones work standalone, PROVIDER_TIMEOUT and the
 * other errors of a call
 */
export async function chooseTerminal(
  deps: PaymentDeps,
  client: ClientName,
  mpPosId: string,
  known: KnownConnection | undefined,
  context: RequestContext,
): Promise<{ terminalId: string; mpUserId: number }> {
  const { untilMs } = within(deps, context, checkWithinMs)
  const list = async ({ token, mpUserId }: Access) => {
    const { terminals } = await deps.provider.terminals.list(token, { mpPosId }, { untilMs })
    return { terminals, mpUserId }
  }
  const { terminals, mpUserId } = await withAccess(deps, client, list, {
    known,
    untilMs: context.untilMs,
  }).catch((error: unknown) => {
    if (!(error instanceof ProviderError)) throw error
    throw error.failure === 'deadline' ? chargeTooSlow() : toAppError(error, 'terminal.list')
  })
  // If the provider ignores the filter, terminals of other boxes are not used.
  const paired = terminals.filter((terminal) => terminal.mpPosId === mpPosId)
  if (paired.length === 0) throw new AppError('TERMINAL_NOT_FOUND')
  const ready = paired.find((terminal) => terminal.operatingMode === 'PDV')
  if (!ready) throw new AppError('TERMINAL_NOT_PDV')
  return { terminalId: ready.id, mpUserId }
}

/** The charge has no time left to begin. */
export function chargeTooSlow(): AppError {
  return new AppError('PROVIDER_TIMEOUT', {
    message: 'The provider was too slow for the charge to begin; nothing was charged',
    extra: moneyOutcome('chargeNotMade'),
  })
}

/**
 * Frees the terminal from our own orders (`open`): forgotten ones are canceled, a live one makes the terminal busy. An order that
 * the provider does not confirm does not block: the provider itself refuses the new order when the terminal is busy.
 *
 * @throws TERMINAL_BUSY
 */
export async function freeTerminal(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
  open: readonly OrderRow[],
  context: RequestContext,
): Promise<void> {
  const check = within(deps, context, checkWithinMs)
  for (const order of open) {
    if (order.creation !== 'confirmed') continue
    if (timeLeftMs(deps, check) <= 0) return
    const current = await confirmedNow(deps, order, context)
    if (current === undefined) continue
    if (canBeReplaced(current, deps.now()) && (await tryCancel(deps, current, check))) continue
    throw await terminalBusy(deps, client, terminalId, context)
  }
}

/** The order, if the provider has just confirmed that it keeps the terminal busy. */
async function confirmedNow(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
): Promise<OrderRow | undefined> {
  const check = within(deps, context, checkWithinMs)
  const { order: current, shown } = await refreshOrder(deps, order, check)
  return shown && holdsTerminal(shown) ? current : undefined
}

async function tryCancel(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
): Promise<boolean> {
  try {
    // An order whose cancel is only requested still keeps the terminal busy.
    return (await cancelAtProvider(deps, order, byService(deps, context))).status === 'canceled'
  } catch (error) {
    deps.log.warn({ orderId: order.id, err: error }, 'terminal still busy with an open order')
    return false
  }
}

/**
 * For when the provider answered that the terminal is busy: finds and cancels forgotten orders of ours whose creation was never
 * confirmed. Returns whether the terminal may be free now.
 */
export async function cancelForgottenOrders(
  deps: PaymentDeps,
  terminalId: string,
  context: RequestContext,
): Promise<boolean> {
  const check = within(deps, context, checkWithinMs)
  let freed = false
  for (const order of await findOpenOrdersOnTerminal(deps.database.db, terminalId)) {
    if (!canBeReplaced(order, deps.now())) continue
    if (timeLeftMs(deps, check) <= 0) break
    if (await cancelForgotten(deps, order, check)) freed = true
  }
  return freed
}

/** Cancels a forgotten order if the provider has it and no terminal shows it. Returns whether it is canceled now. */
export async function cancelForgotten(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
): Promise<boolean> {
  const read = await refreshOrder(deps, order, context)
  if (read.stale || read.isGone || !canBeReplaced(read.order, deps.now())) return false
  return tryCancel(deps, read.order, context)
}
