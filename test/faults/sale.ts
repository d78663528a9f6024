import { payByCard } from '../support/till.ts'
import {
  type Answer,
  buyer,
  type LogicalRefund,
  lastRequest,
  onTerminal,
  openSale,
  ordersOf,
  type Sale,
  type SimulatedTill,
  send,
} from './simulated-till.ts'

/** A pause of the till in which the run may advance the clock and run the sweepers. */
export type Pause = () => Promise<void>

/** One sale of a cashier: charge, repeat, give up, charge again, refund. */
export async function playSale(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'sale')
  const isKeyed = draw.maybe('keyed', 0.5)
  const openKey = await chargeUntilKnown(
    till,
    sale,
    isKeyed ? `${sale.reference}-1` : undefined,
    'charge',
  )
  await pause()

  const gaveUp = await pauseAtTheTerminal(till, sale)
  await pause()

  const order = await readSale(till, sale, 'read')
  if (order === undefined || (isOver(order) && order.outcome === 'not_charged' && !gaveUp)) {
    // Declined, canceled at the device, expired, or never made: the customer still wants to pay.
    if (draw.maybe('charge again', 0.7)) {
      const key = openKey ?? (isKeyed ? `${sale.reference}-2` : undefined)
      await chargeUntilKnown(till, sale, key, 'again')
      const waiting = onTerminal(till)
      if (waiting && draw.maybe('pays again', 0.8)) await buyer(till, waiting, payByCard)
    }
  }
  if (draw.maybe('late money', 0.05)) await payAfterClose(till)
  await pause()

  const paid = await readSale(till, sale, 'before refund')
  if (paid?.outcome === 'charged' && draw.maybe('refunds', 0.7)) {
    await refundInSteps(till, sale, String(paid.order_id))
  }
  await pause()
  if (draw.maybe('looks again', 0.3)) await readSale(till, sale, 'last')
}

export function newSale(till: SimulatedTill, name: string): Sale {
  // Odd cents, so that an amount names its sale.
  const amountCents = till.draw.int('amount', 500, 900_000)
  return openSale(till, `${till.draw.int('reference', 1, 1e9)}-${name}`, amountCents)
}

/** Cents as tills write them. */
export const erpAmount = (cents: number) =>
  `${Math.floor(cents / 100)},${String(cents % 100).padStart(2, '0')}`

export type Body = Record<string, unknown>

/**
 * Sends the charge, and the same again whenever the answer is missing, has outcome `unknown` or `retry_safe`. A new key is
 * used only after `not_charged`. Returns the key whose last request got no answer: another
 * key would be another charge.
 */
export async function chargeUntilKnown(
  till: SimulatedTill,
  sale: Sale,
  firstKey: string | undefined,
  label: string,
): Promise<string | undefined> {
  const { draw } = till
  let key = firstKey
  let isOpen = false
  for (let attempt = 1; attempt <= 5; attempt += 1) {
    const name = `${label} ${attempt}`
    const times = draw.maybe(`${name} twice`, 0.12) ? 2 : 1
    const before = new Set(ordersOf(till).map((order) => order.id))
    const answers = await Promise.all(
      Array.from({ length: times }, (_, index) =>
        send(till, {
          label: `${name}${index === 0 ? '' : ' (double)'}`,
          path: '/orders',
          key,
          giveUpMs: giveUpMs(till, `${name} ${index}`, 0.15),
          body: {
            caja_id: 'CAJA-1',
            external_reference: sale.reference,
            amount: erpAmount(sale.amountCents),
          },
        }),
      ),
    )
    for (const answer of answers) rememberOrder(sale, key, answer)
    rememberCharge(sale, answers, before, name)
    isOpen = answers.every(({ kind }) => kind === 'lost')
    const [answer] = answers
    // A call whose till disconnected may still reach the terminal: `not_charged` covers it, too.
    if (times === 1 && answer) checkDenial(till, sale, answer, before, name)
    if (answers.some(isGood)) return undefined
    if (draw.maybe(`${name} buyer is quick`, 0.2)) {
      const waiting = onTerminal(till)
      if (waiting) await buyer(till, waiting, payByCard)
    }
    const answered = answers.find((each) => each.kind === 'answered')
    if (answered?.kind !== 'answered') continue
    if (answered.body.code === 'ORDER_ALREADY_PAID') return undefined
    if (answered.body.retry_safe !== true) return undefined
    if (draw.maybe(`${name} gives up`, 0.12)) {
      await cancelKnown(till, sale, `${name} gives up`)
      return undefined
    }
    const isFree = answered.body.outcome === 'not_charged' && times === 1
    if (key !== undefined && isFree && draw.maybe(`${name} new key`, 0.5)) {
      key = `${firstKey}-${attempt}`
    }
  }
  return isOpen ? key : undefined
}

function giveUpMs(till: SimulatedTill, label: string, chance: number): number | undefined {
  const { draw } = till
  return draw.maybe(`${label} impatient`, chance) ? draw.int(`${label} patience`, 1, 60) : undefined
}

const isGood = (answer: Answer) => answer.kind === 'answered' && answer.status < 300

/** Whether all these answers report that the sale has charged nothing. */
export function rememberCharge(
  sale: Sale,
  answers: readonly Answer[],
  before: ReadonlySet<string>,
  what: string,
): void {
  const isDenied = answers.every(
    (answer) =>
      answer.kind === 'answered' && answer.status >= 400 && answer.body.outcome === 'not_charged',
  )
  sale.denial = isDenied ? { what, before } : undefined
}

export function rememberOrder(sale: Sale, key: string | undefined, answer: Answer): void {
  if (answer.kind === 'answered' && typeof answer.body.order_id === 'string') {
    sale.lastOrderId = answer.body.order_id
  }
  if (key === undefined || answer.kind !== 'answered' || answer.status >= 300) return
  const orders = sale.ordersByKey.get(key) ?? new Set()
  sale.ordersByKey.set(key, orders.add(String(answer.body.order_id)))
}

/** `not_charged` without an order: then this request must not have put an order on the terminal. */
function checkDenial(
  till: SimulatedTill,
  sale: Sale,
  answer: Answer,
  before: ReadonlySet<string>,
  name: string,
): void {
  if (answer.kind !== 'answered' || answer.body.outcome !== 'not_charged') return
  const made = ordersOf(till).find(
    (order) =>
      !before.has(order.id) &&
      order.external_reference.startsWith(sale.reference) &&
      order.status !== 'canceled',
  )
  if (made) till.problems.push(`${name} said not_charged, and the provider has ${made.id}`)
}

/** What happens while the order waits: the buyer acts, or the cashier cancels, or both at once. */
async function pauseAtTheTerminal(till: SimulatedTill, sale: Sale): Promise<boolean> {
  const { draw } = till
  const waiting = onTerminal(till)
  const action = draw.weigh('buyer', {
    pay: 60,
    decline: 8,
    cancel: 6,
    hold: 2,
    fetch: 4,
    none: 12,
  })
  const acts = waiting && action !== 'none'
  const cashierCancels = draw.maybe('cashier cancels', action === 'none' ? 0.7 : 0.12)
  const act = acts
    ? buyer(till, waiting, action === 'pay' ? payByCard : { do: action })
    : Promise.resolve()
  if (draw.maybe('one after the other', 0.5)) await act
  if (cashierCancels) await cancelKnown(till, sale, 'cancel')
  await act
  const requested = onTerminal(till)
  if (requested?.payments[0]?.status_detail === 'cancellation_requested') {
    const end = draw.weigh('the terminal', { cancel: 3, pay: 2, none: 1 })
    if (end !== 'none') await buyer(till, requested, end === 'pay' ? payByCard : { do: 'cancel' })
  }
  return cashierCancels
}

/** Cancels the newest order of this sale. Returns whether the till got an answer. */
export async function cancelKnown(
  till: SimulatedTill,
  sale: Sale,
  label: string,
): Promise<boolean> {
  const orderId = await newestOrderId(till, sale, label)
  if (orderId === undefined) return false
  let isAnswered = false
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const answer = await send(till, {
      label: `${label} ${attempt}`,
      path: '/orders/cancel',
      body: { order_id: orderId },
      giveUpMs: giveUpMs(till, `${label} ${attempt}`, 0.1),
    })
    if (answer.kind === 'lost') continue
    if (till.scenario !== undefined && (answer.status === 200 || answer.status === 504)) {
      till.acceptedCancels.push({ orderId, after: await lastRequest(till) })
    }
    if (answer.status === 200) {
      sale.canceled.add(orderId)
      sale.openCancels.delete(orderId)
      return true
    }
    // 202: requested; the terminal may still take the payment.
    if (answer.status === 504 || answer.status === 202) sale.openCancels.add(orderId)
    if (answer.body.retry_safe !== true) return true
    isAnswered = true
  }
  return isAnswered
}

/** The order of the last answer; the till finds an order whose answer was lost in the list. */
async function newestOrderId(
  till: SimulatedTill,
  sale: Sale,
  label: string,
): Promise<string | undefined> {
  if (sale.lastOrderId !== undefined) return sale.lastOrderId
  const answer = await send(till, {
    label: `${label} list`,
    path: `/orders?external_reference=${sale.reference}`,
  })
  if (answer.kind !== 'answered' || answer.status !== 200) return undefined
  const orders = answer.body.orders as Body[]
  return (orders.find((order) => order.outcome === 'charged') ?? orders[0])?.order_id as
    | string
    | undefined
}

const isOver = (order: Body) => ['canceled', 'failed', 'expired'].includes(String(order.status))

/** Reads the order of this sale. */
export async function readSale(
  till: SimulatedTill,
  sale: Sale,
  label: string,
): Promise<Body | undefined> {
  const orderId = await newestOrderId(till, sale, label)
  if (orderId === undefined) return undefined
  const answer = await send(till, { label, path: `/orders/${orderId}` })
  return answer.kind === 'answered' && answer.status === 200 ? answer.body : undefined
}

/** Whether an answer has reported that this order charges nothing. */
export function wasReportedClosed(
  till: Pick<SimulatedTill, 'reportedOutcomes' | 'sales'>,
  orderId: string,
): boolean {
  const isDenied = till.reportedOutcomes.some(
    (claim) => claim.orderId === orderId && claim.outcome === 'not_charged',
  )
  return isDenied || till.sales.some((sale) => sale.canceled.has(orderId))
}

/** The provider takes money for an order that is closed: rare, but it happened. */
async function payAfterClose(till: SimulatedTill): Promise<void> {
  const closed = ordersOf(till).find((order) => ['canceled', 'expired'].includes(order.status))
  if (!closed || onTerminal(till)) return
  till.forced.add(closed.id)
  // The idempotency key at the provider is our order's id.
  const orderId = closed.idempotency_key
  if (orderId !== null && wasReportedClosed(till, orderId)) till.reportedClosed.add(orderId)
  await buyer(till, closed, { ...payByCard, force: true })
}

/** Refunds in one to three steps of different amounts, each repeated until its outcome is known. */
export async function refundInSteps(
  till: SimulatedTill,
  sale: Sale,
  orderId: string,
): Promise<void> {
  const { draw } = till
  const steps = draw.weigh('refund steps', { total: 4, part: 3, 'part part': 2, 'part total': 3 })
  for (const [index, step] of steps.split(' ').entries()) {
    const label = `refund ${index}`
    // No two refunds of a sale are equal, so that the amount identifies the refund at the provider.
    const amountCents =
      step === 'total'
        ? null
        : Math.floor(sale.amountCents / 4) + draw.int(label, 0, 50) + index * 51
    const key = draw.maybe(`${label} keyed`, 0.5) ? `${sale.reference}-refund-${index}` : undefined
    const refund = { orderId, amountCents, reported: 'unknown' as 'done' | 'refused' | 'unknown' }
    sale.refunds.push(refund)
    refund.reported = await refundUntilKnown(till, refund, key, label)
    // A cashier does not go on while one is open.
    if (refund.reported === 'unknown') return
  }
}

export async function refundUntilKnown(
  till: SimulatedTill,
  refund: { orderId: string; amountCents: number | null },
  key: string | undefined,
  label: string,
): Promise<'done' | 'refused' | 'unknown'> {
  const { orderId, amountCents } = refund
  let wasLost = false
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    const name = `${label} ${attempt}`
    const isDouble = key !== undefined && till.draw.maybe(`${name} twice`, 0.15)
    const answers = await Promise.all(
      Array.from({ length: isDouble ? 2 : 1 }, (_, index) =>
        send(till, {
          label: `${name}${index === 0 ? '' : ' (double)'}`,
          path: '/orders/refund',
          key,
          // Without a key a repeated partial refund could be a second one.
          giveUpMs:
            key === undefined && amountCents !== null
              ? undefined
              : giveUpMs(till, `${name} ${index}`, 0.15),
          body: {
            order_id: orderId,
            ...(amountCents !== null && { amount: erpAmount(amountCents) }),
          },
        }),
      ),
    )
    if (answers.some(isGood)) return 'done'
    const answered = answers.filter((answer) => answer.kind === 'answered')
    const [first] = answered
    if (answered.length < answers.length) wasLost = true
    // Each of two clicks has its own answer: the second may be under way although the first was refused.
    const isOpen = answered.some(
      ({ body }) => body.outcome === 'unknown' || body.code === 'REFUND_IN_PROGRESS',
    )
    if (first === undefined || isOpen) continue
    if (first.body.code === 'ORDER_ALREADY_REFUNDED' && wasLost) return 'unknown'
    if (first.body.retry_safe !== true) return 'refused'
  }
  return 'unknown'
}

/** Charges without an interruption; undefined when the till did not succeed. */
export async function waitingOrder(till: SimulatedTill, sale: Sale): Promise<string | undefined> {
  await chargeUntilKnown(till, sale, undefined, 'sells')
  return sale.lastOrderId
}

/** Charges and pays; undefined when the till did not succeed. */
export async function soldOrder(till: SimulatedTill, sale: Sale): Promise<string | undefined> {
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (waiting) await buyer(till, waiting, payByCard)
  const paid = await readSale(till, sale, 'sold')
  return paid?.outcome === 'charged' ? String(paid.order_id) : undefined
}
/** One refund that the till repeats until it knows the outcome. */
export async function refundOnce(
  till: SimulatedTill,
  sale: Sale,
  orderId: string,
  amountCents: number | null,
  key: string | undefined,
  label: string,
): Promise<void> {
  const refund: LogicalRefund = { orderId, amountCents, reported: 'unknown' }
  sale.refunds.push(refund)
  refund.reported = await refundUntilKnown(till, refund, key, label)
}
