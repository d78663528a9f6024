import { payByCard } from '../support/till.ts'
import {
  type Answer,
  buyer,
  type Lane,
  type LogicalRefund,
  lastRequest,
  onTerminal,
  openSale,
  ordersOf,
  type Sale,
  send,
} from './lane.ts'

/** A pause of the till in which the run may move the clock, and the sweepers work. */
export type Pause = () => Promise<void>

/** One sale as a cashier lives it: charge, repeat, give up, charge again, take back. */
export async function playSale(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'sale')
  const isKeyed = draw.maybe('keyed', 0.5)
  const openKey = await chargeUntilKnown(
    lane,
    sale,
    isKeyed ? `${sale.reference}-1` : undefined,
    'charge',
  )
  await pause()

  const gaveUp = await pauseAtTheTerminal(lane, sale)
  await pause()

  const order = await readSale(lane, sale, 'read')
  if (order === undefined || (isOver(order) && order.outcome === 'not_charged' && !gaveUp)) {
    // Declined, canceled at the device, expired, or never made: the customer still wants to pay.
    if (draw.maybe('charge again', 0.7)) {
      const key = openKey ?? (isKeyed ? `${sale.reference}-2` : undefined)
      await chargeUntilKnown(lane, sale, key, 'again')
      const waiting = onTerminal(lane)
      if (waiting && draw.maybe('pays again', 0.8)) await buyer(lane, waiting, payByCard)
    }
  }
  if (draw.maybe('late money', 0.05)) await payAfterClose(lane)
  await pause()

  const paid = await readSale(lane, sale, 'before refund')
  if (paid?.outcome === 'charged' && draw.maybe('refunds', 0.7)) {
    await giveBack(lane, sale, String(paid.order_id))
  }
  await pause()
  if (draw.maybe('looks again', 0.3)) await readSale(lane, sale, 'last')
}

export function newSale(lane: Lane, name: string): Sale {
  // Odd cents, so that an amount names its sale.
  const amountCents = lane.draw.int('amount', 500, 900_000)
  return openSale(lane, `${lane.draw.int('reference', 1, 1e9)}-${name}`, amountCents)
}

/** Cents as tills write them. */
export const erpAmount = (cents: number) =>
  `${Math.floor(cents / 100)},${String(cents % 100).padStart(2, '0')}`

export type Body = Record<string, unknown>

/**
 * Sends the charge, and the same again whenever the answer is missing, unknown, or says that it is safe. A new key is
 * taken only where the answer said that nothing was charged. Answers the key whose last request nobody answered: another
 * key beside it would be another charge.
 */
export async function chargeUntilKnown(
  lane: Lane,
  sale: Sale,
  firstKey: string | undefined,
  label: string,
): Promise<string | undefined> {
  const { draw } = lane
  let key = firstKey
  let isOpen = false
  for (let attempt = 1; attempt <= 5; attempt += 1) {
    const name = `${label} ${attempt}`
    const times = draw.maybe(`${name} twice`, 0.12) ? 2 : 1
    const before = new Set(ordersOf(lane).map((order) => order.id))
    const answers = await Promise.all(
      Array.from({ length: times }, (_, index) =>
        send(lane, {
          label: `${name}${index === 0 ? '' : ' (double)'}`,
          path: '/orders',
          key,
          giveUpMs: giveUpMs(lane, `${name} ${index}`, 0.15),
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
    // One that the till gave up on may still be on its way to the terminal: the denial is about it, too.
    if (times === 1 && answer) checkDenial(lane, sale, answer, before, name)
    if (answers.some(isGood)) return undefined
    if (draw.maybe(`${name} buyer is quick`, 0.2)) {
      const waiting = onTerminal(lane)
      if (waiting) await buyer(lane, waiting, payByCard)
    }
    const told = answers.find((each) => each.kind === 'answered')
    if (told?.kind !== 'answered') continue
    if (told.body.code === 'ORDER_ALREADY_PAID') return undefined
    if (told.body.retry_safe !== true) return undefined
    if (draw.maybe(`${name} gives up`, 0.12)) {
      await cancelKnown(lane, sale, `${name} gives up`)
      return undefined
    }
    const isFree = told.body.outcome === 'not_charged' && times === 1
    if (key !== undefined && isFree && draw.maybe(`${name} new key`, 0.5)) {
      key = `${firstKey}-${attempt}`
    }
  }
  return isOpen ? key : undefined
}

function giveUpMs(lane: Lane, label: string, chance: number): number | undefined {
  const { draw } = lane
  return draw.maybe(`${label} impatient`, chance) ? draw.int(`${label} patience`, 1, 60) : undefined
}

const isGood = (answer: Answer) => answer.kind === 'answered' && answer.status < 300

/** Whether the till believes after these answers that its sale has charged nothing. */
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

/** "Nothing was charged" about no order in particular: then this request has put no order on the terminal either. */
function checkDenial(
  lane: Lane,
  sale: Sale,
  answer: Answer,
  before: ReadonlySet<string>,
  name: string,
): void {
  if (answer.kind !== 'answered' || answer.body.outcome !== 'not_charged') return
  const made = ordersOf(lane).find(
    (order) =>
      !before.has(order.id) &&
      order.external_reference.startsWith(sale.reference) &&
      order.status !== 'canceled',
  )
  if (made) lane.problems.push(`${name} said not_charged, and the provider holds ${made.id}`)
}

/** What happens while the order waits: the buyer acts, or the cashier cancels, or both at once. */
async function pauseAtTheTerminal(lane: Lane, sale: Sale): Promise<boolean> {
  const { draw } = lane
  const waiting = onTerminal(lane)
  const deed = draw.weigh('buyer', {
    pay: 60,
    decline: 8,
    cancel: 6,
    hold: 2,
    fetch: 4,
    none: 12,
  })
  const acts = waiting && deed !== 'none'
  const cashierCancels = draw.maybe('cashier cancels', deed === 'none' ? 0.7 : 0.12)
  const act = acts
    ? buyer(lane, waiting, deed === 'pay' ? payByCard : { do: deed })
    : Promise.resolve()
  if (draw.maybe('one after the other', 0.5)) await act
  if (cashierCancels) await cancelKnown(lane, sale, 'cancel')
  await act
  const requested = onTerminal(lane)
  if (requested?.payments[0]?.status_detail === 'cancellation_requested') {
    const end = draw.weigh('the terminal', { cancel: 3, pay: 2, none: 1 })
    if (end !== 'none') await buyer(lane, requested, end === 'pay' ? payByCard : { do: 'cancel' })
  }
  return cashierCancels
}

/** Cancels the last order of this sale that the till knows of; whether the till was answered. */
export async function cancelKnown(lane: Lane, sale: Sale, label: string): Promise<boolean> {
  const orderId = await newestOrderId(lane, sale, label)
  if (orderId === undefined) return false
  let isAnswered = false
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const answer = await send(lane, {
      label: `${label} ${attempt}`,
      path: '/orders/cancel',
      body: { order_id: orderId },
      giveUpMs: giveUpMs(lane, `${label} ${attempt}`, 0.1),
    })
    if (answer.kind === 'lost') continue
    if (lane.aim !== undefined && (answer.status === 200 || answer.status === 504)) {
      lane.wishes.push({ orderId, after: await lastRequest(lane) })
    }
    if (answer.status === 200) {
      sale.canceled.add(orderId)
      sale.cancelWished.delete(orderId)
      return true
    }
    // 202: requested, and the terminal decides.
    if (answer.status === 504 || answer.status === 202) sale.cancelWished.add(orderId)
    if (answer.body.retry_safe !== true) return true
    isAnswered = true
  }
  return isAnswered
}

/** The till goes by the last number it was told; the list is its way to one that got lost with its answer. */
async function newestOrderId(lane: Lane, sale: Sale, label: string): Promise<string | undefined> {
  if (sale.lastOrderId !== undefined) return sale.lastOrderId
  const answer = await send(lane, {
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

/** The order of this sale as a read says it is now. */
export async function readSale(lane: Lane, sale: Sale, label: string): Promise<Body | undefined> {
  const orderId = await newestOrderId(lane, sale, label)
  if (orderId === undefined) return undefined
  const answer = await send(lane, { label, path: `/orders/${orderId}` })
  return answer.kind === 'answered' && answer.status === 200 ? answer.body : undefined
}

/** Whether a till believes by now that this order will charge nothing. */
export function wasToldClosed(lane: Pick<Lane, 'claims' | 'sales'>, orderId: string): boolean {
  const isDenied = lane.claims.some(
    (claim) => claim.orderId === orderId && claim.outcome === 'not_charged',
  )
  return isDenied || lane.sales.some((sale) => sale.canceled.has(orderId))
}

/** The provider takes money for an order that is closed: rare, but it was seen. */
async function payAfterClose(lane: Lane): Promise<void> {
  const closed = ordersOf(lane).find((order) => ['canceled', 'expired'].includes(order.status))
  if (!closed || onTerminal(lane)) return
  lane.forced.add(closed.id)
  // The key at the provider is the order's number here.
  const orderId = closed.idempotency_key
  if (orderId !== null && wasToldClosed(lane, orderId)) lane.toldClosed.add(orderId)
  await buyer(lane, closed, { ...payByCard, force: true })
}

/** Gives money back in one to three steps of different amounts, each repeated until its outcome is known. */
export async function giveBack(lane: Lane, sale: Sale, orderId: string): Promise<void> {
  const { draw } = lane
  const steps = draw.weigh('refund steps', { total: 4, part: 3, 'part part': 2, 'part total': 3 })
  for (const [index, step] of steps.split(' ').entries()) {
    const label = `refund ${index}`
    // No two of a sale are equal, so that each amount in the books names its refund.
    const amountCents =
      step === 'total'
        ? null
        : Math.floor(sale.amountCents / 4) + draw.int(label, 0, 50) + index * 51
    const key = draw.maybe(`${label} keyed`, 0.5) ? `${sale.reference}-refund-${index}` : undefined
    const refund = { orderId, amountCents, told: 'unknown' as 'done' | 'refused' | 'unknown' }
    sale.refunds.push(refund)
    refund.told = await refundUntilKnown(lane, refund, key, label)
    // A cashier does not go on while one is open.
    if (refund.told === 'unknown') return
  }
}

export async function refundUntilKnown(
  lane: Lane,
  refund: { orderId: string; amountCents: number | null },
  key: string | undefined,
  label: string,
): Promise<'done' | 'refused' | 'unknown'> {
  const { orderId, amountCents } = refund
  let wasLost = false
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    const name = `${label} ${attempt}`
    const isDouble = key !== undefined && lane.draw.maybe(`${name} twice`, 0.15)
    const answers = await Promise.all(
      Array.from({ length: isDouble ? 2 : 1 }, (_, index) =>
        send(lane, {
          label: `${name}${index === 0 ? '' : ' (double)'}`,
          path: '/orders/refund',
          key,
          // An answer that is lost on the wire cannot be told from one that arrived: in parts only with a key.
          giveUpMs:
            key === undefined && amountCents !== null
              ? undefined
              : giveUpMs(lane, `${name} ${index}`, 0.15),
          body: {
            order_id: orderId,
            ...(amountCents !== null && { amount: erpAmount(amountCents) }),
          },
        }),
      ),
    )
    if (answers.some(isGood)) return 'done'
    const heard = answers.filter((answer) => answer.kind === 'answered')
    const [told] = heard
    if (heard.length < answers.length) wasLost = true
    // Of two clicks each is answered for itself: the second may be under way although the first was refused.
    const isOpen = heard.some(
      ({ body }) => body.outcome === 'unknown' || body.code === 'REFUND_IN_PROGRESS',
    )
    if (told === undefined || isOpen) continue
    if (told.body.code === 'ORDER_ALREADY_REFUNDED' && wasLost) return 'unknown'
    if (told.body.retry_safe !== true) return 'refused'
  }
  return 'unknown'
}

/** Charges without trouble; undefined when the till did not succeed. */
export async function waitingOrder(lane: Lane, sale: Sale): Promise<string | undefined> {
  await chargeUntilKnown(lane, sale, undefined, 'sells')
  return sale.lastOrderId
}

/** Charges and pays; undefined when the till did not succeed. */
export async function soldOrder(lane: Lane, sale: Sale): Promise<string | undefined> {
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (waiting) await buyer(lane, waiting, payByCard)
  const paid = await readSale(lane, sale, 'sold')
  return paid?.outcome === 'charged' ? String(paid.order_id) : undefined
}
/** One refund that the till repeats until it knows the outcome. */
export async function refundOnce(
  lane: Lane,
  sale: Sale,
  orderId: string,
  amountCents: number | null,
  key: string | undefined,
  label: string,
): Promise<void> {
  const refund: LogicalRefund = { orderId, amountCents, told: 'unknown' }
  sale.refunds.push(refund)
  refund.told = await refundUntilKnown(lane, refund, key, label)
}
