import { encodeReference } from '../../src/domain/provider-names.ts'
import { payByCard, sandboxCall } from '../support/till.ts'
import { arm, buyer, heal, type Lane, onTerminal, ordersOf, placeForeign, send } from './lane.ts'
import {
  cancelKnown,
  chargeUntilKnown,
  newSale,
  type Pause,
  readSale,
  refundOnce,
  soldOrder,
  waitingOrder,
} from './sale.ts'

const creation = { path: '^/v1/orders$', method: 'POST' }
const refunding = { path: '/refund$', method: 'POST' }
const canceling = { path: '/cancel$', method: 'POST' }

/**
 * Another application charges the same sale on the same terminal while the answer to ours is lost. Its order is never taken
 * for ours, canceled or refunded; ours may stay unknown, for a person who looks.
 */
export async function equalForeignOrder(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'same')
  const isMade = draw.maybe('ours is made', 0.3)
  await arm(lane, {
    ...creation,
    kind: isMade ? 'drop_after' : draw.pick('how lost', ['drop_before', '503']),
    count: isMade ? 1 : draw.int('how often', 1, 20),
  })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  await chargeUntilKnown(lane, sale, key, 'charge')
  const ours = onTerminal(lane)
  if (ours) await buyer(lane, ours, draw.maybe('ours is paid', 0.5) ? payByCard : { do: 'cancel' })
  const reference = encodeReference(sale.reference, 1)
  const foreign = await placeForeign(lane, reference, sale.amountCents)
  if (draw.maybe('pauses', 0.5)) await pause()
  if (foreign && draw.maybe('theirs is paid', 0.8)) await payForeign(lane, foreign)
  if (draw.maybe('the application is not named', 0.3)) await hideApplication(lane, foreign)
  if (draw.maybe('heals', 0.6)) await heal(lane)
  await pause()
  const order = await readSale(lane, sale, 'read')
  if (draw.maybe('cashier cancels', 0.3)) await cancelKnown(lane, sale, 'cancel')
  if (order && draw.maybe('gives back', 0.6)) {
    await refundOnce(lane, sale, String(order.order_id), null, undefined, 'refund')
  }
  await heal(lane)
  await pause()
  await readSale(lane, sale, 'last')
}

async function payForeign(lane: Lane, id: string): Promise<void> {
  const path = `/_sandbox/orders/${id}/act`
  const done = await sandboxCall(lane.world.services[0], 'POST', path, payByCard).then(
    () => 'done',
    () => 'not possible',
  )
  lane.history.push(`the buyer pays ${id} of the other application -> ${done}`)
}

async function hideApplication(lane: Lane, id: string | undefined): Promise<void> {
  if (!id) return
  const path = `/_sandbox/orders/${id}/shown`
  await sandboxCall(lane.world.services[0], 'PUT', path, { integration_data: null })
  lane.history.push(`the provider does not name the application of ${id}`)
}

/** An equal refund was made in the panel before: it proves nothing about a later one that is lost or refused. */
export async function equalPanelRefund(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'equal')
  const orderId = await soldOrder(lane, sale)
  const book = ordersOf(lane).find(({ status }) => status === 'processed')
  if (orderId === undefined || !book) return
  const amountCents = Math.floor(sale.amountCents / 4)
  await buyer(lane, book, { do: 'refund', amount: (amountCents / 100).toFixed(2) })
  for (const order of ordersOf(lane)) {
    for (const { id } of order.refunds) lane.panelRefunds.add(String(id))
  }
  if (draw.maybe('pauses', 0.4)) await pause()
  const isRefused = draw.maybe('refused', 0.5)
  if (draw.maybe('lost', 0.6)) {
    await arm(lane, {
      ...refunding,
      kind: isRefused ? 'drop_before' : draw.pick('how', ['drop_before', 'drop_after', '503']),
      count: draw.int('how often', 1, 3),
    })
  }
  if (isRefused) {
    await arm(lane, {
      ...refunding,
      kind: 'status',
      status: 422,
      code: 'payment_not_refundable',
    })
  }
  const key = draw.maybe('keyed', 0.7) ? `${sale.reference}-refund` : undefined
  await refundOnce(lane, sale, orderId, amountCents, key, 'refund')
  await pause()
  await readSale(lane, sale, 'read')
  if (!isRefused && draw.maybe('heals', 0.5)) await heal(lane)
  await pause()
  await readSale(lane, sale, 'last')
}

/** The provider takes a cancel of an order at the terminal; the terminal still decides how it ends. */
export async function cancelAtTerminal(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'requested')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (!waiting) return
  await buyer(lane, waiting, { do: 'fetch' })
  if (draw.maybe('faults', 0.5)) {
    await arm(lane, {
      ...canceling,
      kind: draw.pick('kind', ['drop_after', 'drop_before', 'status_after', '503', 'latency']),
      status: 502,
      form: 'html',
      delay_ms: 20,
      count: draw.int('count', 1, 3),
    })
  }
  const end = draw.weigh('the terminal', { cancels: 4, pays: 4, waits: 2 })
  const ends = async () => {
    if (end !== 'waits') await buyer(lane, waiting, end === 'pays' ? payByCard : { do: 'cancel' })
  }
  const canceled = cancelKnown(lane, sale, 'cancel')
  if (draw.maybe('at the same time', 0.3)) await ends()
  await canceled
  if (draw.maybe('pauses', 0.5)) await pause()
  await ends()
  await readSale(lane, sale, 'read')
  if (draw.maybe('cancels again', 0.5)) await cancelKnown(lane, sale, 'cancel again')
  await pause()
  const order = await readSale(lane, sale, 'read again')
  if (order?.outcome === 'not_charged') await chargeUntilKnown(lane, sale, undefined, 'again')
  await pause()
}

/** The provider works on the payment for a while, and it ends as paid or failed; a cancel beside it decides nothing. */
export async function providerWorks(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'works')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (!waiting) return
  if (draw.maybe('no webhooks', 0.4)) {
    lane.hasWebhooks = false
    await arm(lane, { path: '', kind: 'missing' })
  }
  const as = draw.pick('state', ['processing', 'in_process'])
  await buyer(lane, waiting, { do: 'process', as })
  const order = await readSale(lane, sale, 'read')
  if (order && order.outcome !== 'unknown') {
    lane.problems.push(`an order in ${as} says ${order.outcome}`)
  }
  if (draw.maybe('cashier cancels', 0.4)) await cancelKnown(lane, sale, 'cancel')
  if (draw.maybe('charges again', 0.5)) await chargeUntilKnown(lane, sale, undefined, 'again')
  await pause()
  const isPaid = draw.maybe('is paid', 0.6)
  await buyer(lane, waiting, isPaid ? payByCard : { do: 'decline' })
  await pause()
  const after = await readSale(lane, sale, 'read again')
  if (after?.outcome === 'charged' && draw.maybe('gives back', 0.5)) {
    await refundOnce(lane, sale, String(after.order_id), null, undefined, 'refund')
  }
  if (after?.outcome === 'not_charged') await chargeUntilKnown(lane, sale, undefined, 'anew')
  await pause()
}

/** The buyer disputes a paid order. The sale stays a sale, however the case ends, and no refund is made beside it. */
export async function chargeBack(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'disputed')
  const orderId = await soldOrder(lane, sale)
  const book = ordersOf(lane).find(({ status }) => status === 'processed')
  if (orderId === undefined || !book) return
  if (draw.maybe('in part before', 0.3)) {
    const cents = Math.floor(sale.amountCents / 7)
    await refundOnce(lane, sale, orderId, cents, `${sale.reference}-part`, 'part')
  }
  const webhooks = draw.pick('webhooks', ['both', 'order', 'case', 'none'])
  const [service] = lane.world.services
  const opened = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: book.id,
    webhooks,
  }).catch(() => undefined)) as { id: string } | undefined
  lane.history.push(`the buyer disputes ${book.id}: ${opened?.id ?? 'not possible'}`)
  if (!opened) return
  await pause()
  const order = await readSale(lane, sale, 'read')
  if (order && order.outcome !== 'charged') {
    lane.problems.push(`a disputed order says ${order.outcome}`)
  }
  if (draw.maybe('gives back', 0.4)) {
    await refundOnce(lane, sale, orderId, null, undefined, 'refund')
  }
  const end = draw.weigh('ends', { win: 2, lose: 2, open: 1 })
  if (end !== 'open') {
    await sandboxCall(service, 'POST', `/_sandbox/chargebacks/${opened.id}/act`, {
      do: end,
      webhooks: draw.pick('webhooks of the end', ['both', 'order', 'case', 'none']),
    })
    lane.history.push(`the case ends: ${end}`)
  }
  await pause()
  await readSale(lane, sale, 'last')
}

/** An order is paid a second time. The second payment is in no sum of the order, and a person must decide about it. */
export async function secondPayment(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'twice')
  const orderId = await soldOrder(lane, sale)
  const book = ordersOf(lane).find(({ status }) => status === 'processed')
  if (orderId === undefined || !book) return
  if (draw.maybe('gives back before', 0.2)) {
    await refundOnce(lane, sale, orderId, Math.floor(sale.amountCents / 7), `${orderId}-1`, 'part')
  }
  await buyer(lane, book, { do: 'pay_again' })
  await pause()
  const order = await readSale(lane, sale, 'read')
  if (order && order.needs_decision !== 'paid_twice') {
    lane.problems.push(`an order that is paid twice needs the decision ${order.needs_decision}`)
  }
  if (draw.maybe('lost', 0.4)) {
    await arm(lane, { ...refunding, kind: draw.pick('how', ['drop_after', '503']), count: 1 })
  }
  if (draw.maybe('gives back', 0.6)) {
    await refundOnce(lane, sale, orderId, null, undefined, 'refund')
  }
  await pause()
  await readSale(lane, sale, 'last')
}

/** The buyer pays more than the order, by a tip or by the interest of instalments, or less. */
export async function otherAmount(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'amounts')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (!waiting) return
  const text = (cents: number) => (cents / 100).toFixed(2)
  const extra = Math.floor(sale.amountCents / 10)
  const how = draw.pick('how', ['tip', 'interest', 'less'] as const)
  const paid = {
    tip: { tip_amount: text(extra) },
    interest: { installments: 6, interest_amount: text(extra) },
    less: { paid_amount: text(sale.amountCents - extra) },
  }[how]
  if (how === 'interest') lane.received.set(waiting.id, sale.amountCents)
  await buyer(lane, waiting, { ...payByCard, ...paid })
  if (draw.maybe('pauses', 0.5)) await pause()
  const order = await readSale(lane, sale, 'read')
  if (order?.outcome !== 'charged') return
  if (draw.maybe('lost', 0.4)) {
    await arm(lane, { ...refunding, kind: draw.pick('kind', ['drop_after', '503']), count: 1 })
  }
  // The provider takes no partial refund of an order with a tip.
  const isPart = how !== 'tip' && draw.maybe('in part', 0.4)
  const cents = isPart ? Math.floor(sale.amountCents / 3) : null
  const key = isPart ? `${sale.reference}-refund` : undefined
  await refundOnce(lane, sale, String(order.order_id), cents, key, 'refund')
  await pause()
  await readSale(lane, sale, 'last')
}

/** A person says that an order was not paid, the customer is charged anew, and then the first order is paid after all. */
export async function paidAfterDecision(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'decided')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  const orderId = sale.lastOrderId
  if (!waiting || orderId === undefined) return
  await buyer(lane, waiting, { do: 'hold' })
  await pause()
  await readSale(lane, sale, 'read')
  const settled = await send(lane, {
    label: 'settle',
    path: `/orders/${orderId}/settle`,
    body: { as: 'not_paid', reason: 'the terminal shows no sale' },
  })
  if (settled.kind !== 'answered' || settled.status !== 200) return
  if (draw.maybe('pauses', 0.5)) await pause()
  await chargeUntilKnown(lane, sale, `${sale.reference}-anew`, 'anew')
  const anew = onTerminal(lane)
  if (anew && draw.maybe('is paid anew', 0.8)) await buyer(lane, anew, payByCard)
  await pause()
  lane.forced.add(waiting.id)
  await buyer(lane, waiting, { ...payByCard, force: true })
  await pause()
  const answer = await send(lane, { label: 'late', path: `/orders/${orderId}` })
  if (answer.kind === 'lost' || answer.status !== 200) return
  const { outcome, needs_decision: decision } = answer.body
  if (outcome !== 'charged' || decision !== 'paid_late') {
    lane.problems.push(`money after a decision says ${outcome}, ${decision}`)
  }
  if (draw.maybe('gives back', 0.5)) {
    await refundOnce(lane, sale, orderId, null, undefined, 'refund')
  }
  await pause()
}
