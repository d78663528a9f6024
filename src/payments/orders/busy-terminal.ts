import type { ClientName } from '../../domain/client-name.ts'
import { longestOrderMs } from '../../domain/order.ts'
import { statesThat } from '../../domain/order-state.ts'
import { AppError, type ErrorExtra } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { lengthInWords } from '../../fleet/health-texts.ts'
import { ProviderError } from '../../provider/provider.ts'
import {
  findOpenOrdersOnTerminal,
  findOrderOfAnyClient,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import { preferredLanguage } from '../../texts/language.ts'
import { textIn } from '../../texts/texts.ts'
import { withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import { type RequestContext, within } from '../request-context.ts'
import { type CashierAction, silentForMs } from './cashier-texts.ts'

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
    const openOrder = {
      orderId: blocker.id,
      externalReference: blocker.external_reference,
      ageSeconds: ageSeconds(blocker.created_at),
    }
    return busyWith('own', busyText(deps, blocker), { openOrder, cause })
  }
  // Another client's order is not shown.
  const isOurs = open.some((order) => order.creation === 'confirmed')
  const busyCause: BusyCause = isOurs
    ? { kind: 'unknown' }
    : await findBusyCause(deps, client, terminalId, context, cause)
  const { kind } = busyCause
  if (kind !== 'other_application') return busyWith(kind, busyCauseText(busyCause), { cause })
  const openOrder = {
    orderId: busyCause.mpOrderId,
    externalReference: busyCause.reference,
    ageSeconds: busyCause.createdAt ? ageSeconds(busyCause.createdAt) : 0,
  }
  return busyWith(kind, busyCauseText(busyCause), { openOrder, cause })
}

/** The error for a terminal that another order keeps busy. */
export function busyWith(
  kind: BusyCause['kind'] | 'own',
  message: string | undefined,
  { openOrder, cause }: Pick<ErrorExtra, 'openOrder'> & { cause?: unknown } = {},
): AppError {
  const extra = { ...moneyOutcome('chargeNotMade'), cashier: adviseOnBusy(kind) }
  return new AppError('TERMINAL_BUSY', {
    message,
    cause,
    extra: { ...extra, ...(openOrder && { openOrder }) },
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

/** Why the provider reports a terminal as busy while no order of this client is on it. */
type BusyCause =
  | { kind: 'other_application'; mpOrderId: string; reference: string; createdAt: Date | null }
  /** No open order is listed, and the provider's code is the one that it also documents for prints. */
  | { kind: 'print' }
  | { kind: 'unknown' }

const checkWithinMs = 2_000
/** Documented for a terminal with a pending print; for one with an order another code was seen (provider file 11.3). */
const printCode = 'already_queued_order_for_terminal'

/**
 * Reads at the provider why the terminal is busy. An order of this service's application is never named: it may be another
 * client's. The provider's index lags by up to a minute, so `print` may be an order of that minute too.
 */
async function findBusyCause(
  deps: PaymentDeps,
  client: ClientName,
  terminalId: string,
  context: RequestContext,
  refusal: unknown,
): Promise<BusyCause> {
  const now = deps.now().getTime()
  const span = { from: new Date(now - longestOrderMs), to: new Date(now + 60_000) }
  const { untilMs } = within(deps, context, checkWithinMs)
  try {
    const lists = await withAccess(
      deps,
      client,
      ({ token }) =>
        Promise.all(
          statesThat('holdsTerminal').map((status) =>
            deps.provider.orders.list(token, { ...span, status }, { untilMs, maxAttempts: 1 }),
          ),
        ),
      { untilMs },
    )
    const open = lists
      .flatMap(({ orders }) => orders)
      .filter(({ evidence }) => evidence.terminalId === terminalId)
    const other = open.find(({ isOurs }) => isOurs === false)
    if (other) {
      const { mpOrderId, externalReference } = other.evidence
      return {
        kind: 'other_application',
        mpOrderId,
        reference: externalReference ?? '',
        createdAt: other.createdAt,
      }
    }
    const isAll = lists.every(
      ({ unreadable, pages }) => unreadable.length === 0 && (pages ?? 1) <= 1,
    )
    const isPrintCode = refusal instanceof ProviderError && refusal.providerCode === printCode
    return { kind: open.length === 0 && isAll && isPrintCode ? 'print' : 'unknown' }
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    deps.log.warn({ client, terminalId, err: error }, 'order on a terminal not read')
    return { kind: 'unknown' }
  }
}

/** The text for the cashier about a busy terminal; `own` is an order of this client. */
function adviseOnBusy(cause: BusyCause['kind'] | 'own') {
  const action: CashierAction = 'look_at_terminal'
  return (acceptLanguage: string | undefined) => ({
    message: textIn(preferredLanguage(acceptLanguage), `busy.${cause}`),
    action,
  })
}
