import { request } from 'undici'
import type { LedgerOrder } from '../../sandbox/ledger.ts'
import { sandboxCall } from '../support/till.ts'
import type { Draw } from './draw.ts'
import type { ScopedRule } from './fault-plan.ts'
import { type Interruption, withInterruption } from './interruption.ts'
import type { Shop, Testbed } from './testbed.ts'

export type Answer =
  /** The till has no answer: it gave up waiting, or the connection broke. */
  { kind: 'lost' } | { kind: 'answered'; status: number; body: Record<string, unknown> }

/** An answer about money that names its order. The provider's orders must agree with it. */
export type ReportedOutcome = {
  orderId: string
  outcome: 'charged' | 'not_charged'
  what: string
  /** The provider's orders that were refunded in full when the request began. */
  refundedBefore: ReadonlySet<string>
}

/** A cancel that an answer reported as done or coming, and the number of the provider's last request before that answer. */
export type AcceptedCancel = { orderId: string; after: number }

/** The last answer to a charge was that nothing was charged. `before`: the orders that the provider had then. */
export type Denial = { what: string; before: ReadonlySet<string> }

export type LogicalRefund = {
  orderId: string
  /** Cents; null for all that was left. */
  amountCents: number | null
  /** The outcome in the last answer to the till. */
  reported: 'done' | 'refused' | 'unknown'
}

export type Sale = {
  reference: string
  amountCents: number
  /** The order of the last answer that names one. */
  lastOrderId: string | undefined
  /** Answers by Idempotency-Key: one key is one order. */
  ordersByKey: Map<string, Set<string>>
  refunds: LogicalRefund[]
  /** Orders whose cancel was answered 200, and those whose cancel is still unknown. */
  canceled: Set<string>
  openCancels: Set<string>
  denial: Denial | undefined
}

/** One till on its own box, with the content of all its answers. */
export type SimulatedTill = {
  testbed: Testbed
  shop: Shop
  draw: Draw
  /** Number of the first of the provider's orders that belongs to this run. */
  firstOrder: number
  sales: Sale[]
  reportedOutcomes: ReportedOutcome[]
  problems: string[]
  history: string[]
  /** Orders that the provider was made to take money for although they were closed. */
  forced: Set<string>
  /** Those of them whose close, or `not_charged`, an answer had reported to the till before. */
  reportedClosed: Set<string>
  /** Every webhook arrives, and in time: without one the service does not find late money. */
  hasWebhooks: boolean
  /** The scenario of this schedule; absent: a random one. */
  scenario?: string
  /** A backup was restored during the schedule. */
  isRestored?: boolean
  /** The buyer pays whatever comes to the terminal, at once. */
  isEager?: boolean
  /** Orders of which the provider's answers contradict its own records. */
  contradictory: Set<string>
  /** Orders of another application with the content of ours. */
  foreign: Set<string>
  /** What the shop receives of an order, in cents, where the buyer paid more to the card issuer. */
  received: Map<string, number>
  /** Refunds made in the provider's panel. */
  panelRefunds: Set<string>
  acceptedCancels: AcceptedCancel[]
}

/** A till that has asked for nothing yet. */
export function newTill(
  till: Pick<SimulatedTill, 'testbed' | 'shop' | 'draw'> & Partial<SimulatedTill>,
): SimulatedTill {
  return {
    firstOrder: 0,
    sales: [],
    reportedOutcomes: [],
    problems: [],
    history: [],
    forced: new Set(),
    reportedClosed: new Set(),
    hasWebhooks: true,
    contradictory: new Set(),
    foreign: new Set(),
    received: new Map(),
    panelRefunds: new Set(),
    acceptedCancels: [],
    ...till,
  }
}

/** The till begins a sale. */
export function openSale(till: SimulatedTill, reference: string, amountCents: number): Sale {
  const sale: Sale = {
    reference,
    amountCents,
    lastOrderId: undefined,
    ordersByKey: new Map(),
    refunds: [],
    canceled: new Set(),
    openCancels: new Set(),
    denial: undefined,
  }
  till.sales.push(sale)
  return sale
}

export type Sending = {
  label: string
  path: string
  body?: object
  key?: string | undefined
  /** The till gives up after this many milliseconds. */
  giveUpMs?: number | undefined
  /** Sends it to the third process, which this interruption affects; absent: to one of the two others. */
  interruption?: Interruption
}

const documented = new Set([200, 201, 202, 409, 422, 429, 502, 503, 504])

/** Sends one request of the till to one of the two processes and records the answer. */
export async function send(till: SimulatedTill, sending: Sending): Promise<Answer> {
  const { testbed, shop, draw } = till
  const { label, path, body, key, giveUpMs } = sending
  if (sending.interruption) return sendInterrupted(till, sending, sending.interruption)
  const url = draw.pick(`${label} process`, testbed.urls) + path
  const refundedBefore = refundedInFull(till)
  let answer: Answer
  try {
    const response = await request(url, {
      method: body === undefined ? 'GET' : 'POST',
      dispatcher: testbed.agent,
      headers: {
        'x-api-token': shop.key,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(giveUpMs !== undefined && { signal: AbortSignal.timeout(giveUpMs) }),
    })
    const given = (await response.body.json()) as Record<string, unknown>
    answer = { kind: 'answered', status: response.statusCode, body: given }
  } catch {
    answer = { kind: 'lost' }
  }
  recordAnswer(till, sending, answer, refundedBefore)
  return answer
}

async function sendInterrupted(
  till: SimulatedTill,
  sending: Sending,
  interruption: Interruption,
): Promise<Answer> {
  const { path, body, key } = sending
  const refundedBefore = refundedInFull(till)
  const response = await withInterruption(interruption, async () =>
    till.testbed.interrupted.app.inject({
      method: body === undefined ? 'GET' : 'POST',
      url: path,
      headers: {
        'x-api-token': till.shop.key,
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      ...(body !== undefined && { payload: body }),
    }),
  )
  const answer: Answer = {
    kind: 'answered',
    status: response.statusCode,
    body: response.json(),
  }
  recordAnswer(till, sending, answer, refundedBefore)
  return answer
}

function refundedInFull(till: SimulatedTill): ReadonlySet<string> {
  const orders = ordersOf(till).filter(({ status, refunds }) => {
    return (
      status === 'refunded' && !refunds.some((refund) => till.panelRefunds.has(String(refund.id)))
    )
  })
  return new Set(orders.map(({ id }) => id))
}

function recordAnswer(
  till: SimulatedTill,
  { label, path, key, body: sent }: Sending,
  answer: Answer,
  refundedBefore: ReadonlySet<string>,
): void {
  const what = `${label}: ${path}${key === undefined ? '' : ` key ${key}`}`
  if (answer.kind === 'lost') {
    till.history.push(`${what} -> no answer`)
    return
  }
  const { status, body } = answer
  const { code, order_id, outcome, retry_safe, status: state, error } = body
  till.history.push(
    `${what} -> ${status} ${JSON.stringify({ code, order_id, status: state, outcome, retry_safe })}`,
  )
  if (!documented.has(status)) till.problems.push(`${what} answered ${status} ${String(error)}`)
  if (sent && status >= 400 && (typeof retry_safe !== 'boolean' || outcome === undefined)) {
    till.problems.push(`${what} answered ${status} without outcome and retry_safe`)
  }
  if (typeof order_id !== 'string') return
  if (outcome === 'charged' || outcome === 'not_charged') {
    till.reportedOutcomes.push({ orderId: order_id, outcome, what, refundedBefore })
  }
}

/** The provider's order that is open on the terminal of this till. */
export function onTerminal(till: SimulatedTill): LedgerOrder | undefined {
  return ordersOf(till).find((order) => ['created', 'at_terminal'].includes(order.status))
}

export function ordersOf(till: SimulatedTill): LedgerOrder[] {
  return till.testbed
    .providerOrders(till.firstOrder)
    .filter(
      (order) =>
        order.user_id === till.shop.mpUserId &&
        !order.external_reference.startsWith(foreign) &&
        !till.foreign.has(order.id),
    )
}

/** The beginning of references of another application that equal none of ours. */
const foreign = 'FOREIGN'

/** An order of another application takes the terminal, if it is free. Answers its id. */
export async function takeTerminal(till: SimulatedTill): Promise<string | undefined> {
  return placeForeign(till, `${foreign}-${till.history.length}`, 7_700)
}

/** The same with this reference and amount, in cents. */
export async function placeForeign(
  till: SimulatedTill,
  reference: string,
  amountCents: number,
): Promise<string | undefined> {
  const { testbed, shop } = till
  const order = {
    type: 'point',
    external_reference: reference,
    transactions: { payments: [{ amount: (amountCents / 100).toFixed(2) }] },
    config: { point: { terminal_id: shop.terminalId } },
  }
  const placed = (await sandboxCall(testbed.services[0], 'POST', '/_sandbox/orders', order).catch(
    () => undefined,
  )) as { id: string } | undefined
  if (placed) till.foreign.add(placed.id)
  till.history.push(`another application's order ${placed?.id ?? 'does not fit'} on the terminal`)
  return placed?.id
}

export function foreignOrdersOf(till: SimulatedTill): LedgerOrder[] {
  return till.testbed.providerOrders(till.firstOrder).filter(({ id }) => till.foreign.has(id))
}

/** Cancels the orders of other applications on the terminal. */
export async function leaveTerminal(till: SimulatedTill): Promise<void> {
  for (const order of foreignOrdersOf(till)) {
    if (!['created', 'at_terminal'].includes(order.status)) continue
    await buyer(till, order, { do: 'panel_cancel' })
  }
}

/** Adds rules of faults for this account to those that it has. */
export async function addFaults(
  till: SimulatedTill,
  ...rules: Omit<ScopedRule, 'user_id'>[]
): Promise<void> {
  for (const rule of rules) till.history.push(`rule: ${JSON.stringify(rule)}`)
  await sandboxCall(
    till.testbed.services[0],
    'POST',
    '/_sandbox/faults',
    rules.map((rule) => ({ ...rule, user_id: till.shop.mpUserId })),
  )
}

/** Removes all faults of this account. */
export async function removeFaults(till: SimulatedTill): Promise<void> {
  till.history.push('faults removed')
  const path = `/_sandbox/faults?user_id=${till.shop.mpUserId}`
  await sandboxCall(till.testbed.services[0], 'DELETE', path)
}

/** Number of the last request that reached the provider. */
export async function lastRequest(till: SimulatedTill): Promise<number> {
  const { requests } = (await sandboxCall(
    till.testbed.services[0],
    'GET',
    '/_sandbox/requests?last=1',
  )) as { requests: { seq: number }[] }
  return requests.at(-1)?.seq ?? 0
}

/** The buyer, or the clerk at the device, acts. The provider may refuse it: the order may have another state by now. */
export async function buyer(
  till: SimulatedTill,
  order: LedgerOrder,
  action: object,
): Promise<void> {
  const done = await sandboxCall(
    till.testbed.services[0],
    'POST',
    `/_sandbox/orders/${order.id}/act`,
    action,
  ).then(
    () => 'done',
    () => 'not possible',
  )
  till.history.push(`buyer: ${JSON.stringify(action)} on ${order.id} -> ${done}`)
}
