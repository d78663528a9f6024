import type { ClientName } from '../../domain/client-name.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { lengthInWords } from '../../fleet/messages.ts'
import {
  findOpenOrdersOnTerminal,
  findOrderOfAnyClient,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  byService,
  type RequestContext,
  timeLeftMs,
  within,
} from '../operations/request-context.ts'
import { cancelAtProvider } from '../orders/cancel.ts'
import { silentForMs } from '../orders/cashier-texts.ts'
import { refreshOrder } from '../orders/read.ts'
import { canBeReplaced } from '../orders/status-check-schedule.ts'
import { adviseOnBusy, type BusyCause, findBusyCause } from './busy-terminal.ts'

/** The time that a charge may spend on checking its terminal first. */
export const checkWithinMs = 6_000

/**
 * The terminal of a box that takes orders from the ERP. The provider allows one in PDV per box.
 *
 * @throws TERMINAL_NOT_FOUND when none is paired, TERMINAL_NOT_PDV when the paired ones work standalone
 */
export async function chooseTerminal(
  deps: PaymentDeps,
  token: string,
  mpPosId: string,
  { untilMs }: RequestContext,
): Promise<string> {
  const { terminals } = await deps.provider.terminals.list(token, { mpPosId }, { untilMs })
  // If the provider ignores the filter, terminals of other boxes are not used.
  const paired = terminals.filter((terminal) => terminal.mpPosId === mpPosId)
  if (paired.length === 0) throw new AppError('TERMINAL_NOT_FOUND')
  const ready = paired.find((terminal) => terminal.operatingMode === 'PDV')
  if (!ready) throw new AppError('TERMINAL_NOT_PDV')
  return ready.id
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
  return shown === 'created' || shown === 'at_terminal' ? current : undefined
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

/** TERMINAL_BUSY (409), with the order that keeps the terminal busy if it is this client's or another application's. */
export async function terminalBusy(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
  context: RequestContext,
  cause?: unknown,
): Promise<AppError> {
  const open = await findOpenOrdersOnTerminal(deps.database.db, terminalId)
  const own = open.filter((order) => order.client === client)
  const blocker = own.find((order) => order.creation === 'confirmed') ?? (await arriving(deps, own))
  const ageSeconds = (since: Date) =>
    Math.max(0, Math.floor((deps.now().getTime() - since.getTime()) / 1000))
  if (blocker) {
    return new AppError('TERMINAL_BUSY', {
      message: busyText(deps, blocker),
      cause,
      extra: {
        ...moneyOutcome('chargeNotMade'),
        cashier: adviseOnBusy('own'),
        openOrder: {
          orderId: blocker.id,
          externalReference: blocker.external_reference,
          ageSeconds: ageSeconds(blocker.created_at),
        },
      },
    })
  }
  // Another client's order is not shown.
  const isOurs = open.some((order) => order.creation === 'confirmed')
  const busyCause: BusyCause = isOurs
    ? { kind: 'unknown' }
    : await findBusyCause(deps, client, terminalId, context, cause)
  return new AppError('TERMINAL_BUSY', {
    message: busyCauseText(busyCause),
    cause,
    extra: {
      ...moneyOutcome('chargeNotMade'),
      cashier: adviseOnBusy(busyCause.kind),
      ...(busyCause.kind === 'other_application' && {
        openOrder: {
          orderId: busyCause.mpOrderId,
          externalReference: busyCause.reference,
          ageSeconds: busyCause.createdAt ? ageSeconds(busyCause.createdAt) : 0,
        },
      }),
    },
  })
}

function busyCauseText(busyCause: BusyCause): string {
  switch (busyCause.kind) {
    case 'other_application':
      return `The terminal is busy with an order of another application (${busyCause.mpOrderId}): finish or cancel it there, then charge again`
    case 'print':
      return 'The terminal is busy and no open order is listed: a print is pending, or another application made an order within the last minute. Wait, then charge again'
    case 'unknown':
      return 'The terminal is busy with a charge that did not come from here: finish it on the terminal, then charge again'
    default:
      return busyCause satisfies never
  }
}

function busyText(deps: PaymentDeps, blocker: OrderRow): string {
  const silentMs = silentForMs(deps, blocker)
  return silentMs === undefined
    ? 'The terminal is busy with another order: finish or cancel it, then charge again'
    : `The terminal has not answered for ${lengthInWords(silentMs, 'en')} and holds another order: finish or cancel it, and charge at another box`
}

/** How long the provider's answer to another request may take to be stored. */
const arrivingMs = 1_000

/** The order that another request is making now, once the provider has confirmed it. */
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
