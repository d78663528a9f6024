import { encodeReference } from '../../src/domain/provider-names.ts'
import { payByCard, sandboxCall } from '../support/till.ts'
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
import {
  addFaults,
  buyer,
  onTerminal,
  ordersOf,
  placeForeign,
  removeFaults,
  type SimulatedTill,
  send,
} from './simulated-till.ts'

const creation = { path: '^/v1/orders$', method: 'POST' }
const refunding = { path: '/refund$', method: 'POST' }
const canceling = { path: '/cancel$', method: 'POST' }

/**
 * Another application charges the same sale on the same terminal while the answer to ours is lost. That order is never treated
 * as ours, canceled or refunded. Our order may stay unknown; then a person settles it.
 */
export async function equalForeignOrder(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'same')
  const isMade = draw.maybe('ours is made', 0.3)
  await addFaults(till, {
    ...creation,
    kind: isMade ? 'drop_after' : draw.pick('how lost', ['drop_before', '503']),
    count: isMade ? 1 : draw.int('how often', 1, 20),
  })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  await chargeUntilKnown(till, sale, key, 'charge')
  const ours = onTerminal(till)
  if (ours) await buyer(till, ours, draw.maybe('ours is paid', 0.5) ? payByCard : { do: 'cancel' })
  const reference = encodeReference(sale.reference, 1)
  const foreign = await placeForeign(till, reference, sale.amountCents)
  if (draw.maybe('pauses', 0.5)) await pause()
  if (foreign && draw.maybe('theirs is paid', 0.8)) await payForeign(till, foreign)
  if (draw.maybe('the application is not named', 0.3)) await hideApplication(till, foreign)
  if (draw.maybe('heals', 0.6)) await removeFaults(till)
  await pause()
  const order = await readSale(till, sale, 'read')
  if (draw.maybe('cashier cancels', 0.3)) await cancelKnown(till, sale, 'cancel')
  if (order && draw.maybe('gives back', 0.6)) {
    await refundOnce(till, sale, String(order.order_id), null, undefined, 'refund')
  }
  await removeFaults(till)
  await pause()
  await readSale(till, sale, 'last')
}

async function payForeign(till: SimulatedTill, id: string): Promise<void> {
  const path = `/_sandbox/orders/${id}/act`
  const done = await sandboxCall(till.testbed.services[0], 'POST', path, payByCard).then(
    () => 'done',
    () => 'not possible',
  )
  till.history.push(`the buyer pays ${id} of the other application -> ${done}`)
}

async function hideApplication(till: SimulatedTill, id: string | undefined): Promise<void> {
  if (!id) return
  const path = `/_sandbox/orders/${id}/shown`
  await sandboxCall(till.testbed.services[0], 'PUT', path, { integration_data: null })
  till.history.push(`the provider does not name the application of ${id}`)
}

/** An equal refund was made in the panel before: it proves nothing about a later one that is lost or refused. */
export async function equalPanelRefund(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'equal')
  const orderId = await soldOrder(till, sale)
  const providerOrder = ordersOf(till).find(({ status }) => status === 'processed')
  if (orderId === undefined || !providerOrder) return
  const amountCents = Math.floor(sale.amountCents / 4)
  await buyer(till, providerOrder, { do: 'refund', amount: (amountCents / 100).toFixed(2) })
  for (const order of ordersOf(till)) {
    for (const { id } of order.refunds) till.panelRefunds.add(String(id))
  }
  if (draw.maybe('pauses', 0.4)) await pause()
  const isRefused = draw.maybe('refused', 0.5)
  if (draw.maybe('lost', 0.6)) {
    await addFaults(till, {
      ...refunding,
      kind: isRefused ? 'drop_before' : draw.pick('how', ['drop_before', 'drop_after', '503']),
      count: draw.int('how often', 1, 3),
    })
  }
  if (isRefused) {
    await addFaults(till, {
      ...refunding,
      kind: 'status',
      status: 422,
      code: 'payment_not_refundable',
    })
  }
  const key = draw.maybe('keyed', 0.7) ? `${sale.reference}-refund` : undefined
  await refundOnce(till, sale, orderId, amountCents, key, 'refund')
  await pause()
  await readSale(till, sale, 'read')
  if (!isRefused && draw.maybe('heals', 0.5)) await removeFaults(till)
  await pause()
  await readSale(till, sale, 'last')
}

/** The provider accepts a cancel of an order at the terminal. The terminal may still take the payment. */
export async function cancelAtTerminal(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'requested')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (!waiting) return
  await buyer(till, waiting, { do: 'fetch' })
  if (draw.maybe('faults', 0.5)) {
    await addFaults(till, {
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
    if (end !== 'waits') await buyer(till, waiting, end === 'pays' ? payByCard : { do: 'cancel' })
  }
  const canceled = cancelKnown(till, sale, 'cancel')
  if (draw.maybe('at the same time', 0.3)) await ends()
  await canceled
  if (draw.maybe('pauses', 0.5)) await pause()
  await ends()
  await readSale(till, sale, 'read')
  if (draw.maybe('cancels again', 0.5)) await cancelKnown(till, sale, 'cancel again')
  await pause()
  const order = await readSale(till, sale, 'read again')
  if (order?.outcome === 'not_charged') await chargeUntilKnown(till, sale, undefined, 'again')
  await pause()
}

/** The provider processes the payment for a while, and it ends as paid or failed. A cancel in between has no effect. */
export async function paymentInProcess(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'works')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (!waiting) return
  if (draw.maybe('no webhooks', 0.4)) {
    till.hasWebhooks = false
    await addFaults(till, { path: '', kind: 'missing' })
  }
  const as = draw.pick('state', ['processing', 'in_process'])
  await buyer(till, waiting, { do: 'process', as })
  const order = await readSale(till, sale, 'read')
  if (order && order.outcome !== 'unknown') {
    till.problems.push(`an order in ${as} answers ${order.outcome}`)
  }
  if (draw.maybe('cashier cancels', 0.4)) await cancelKnown(till, sale, 'cancel')
  if (draw.maybe('charges again', 0.5)) await chargeUntilKnown(till, sale, undefined, 'again')
  await pause()
  const isPaid = draw.maybe('is paid', 0.6)
  await buyer(till, waiting, isPaid ? payByCard : { do: 'decline' })
  await pause()
  const after = await readSale(till, sale, 'read again')
  if (after?.outcome === 'charged' && draw.maybe('gives back', 0.5)) {
    await refundOnce(till, sale, String(after.order_id), null, undefined, 'refund')
  }
  if (after?.outcome === 'not_charged') await chargeUntilKnown(till, sale, undefined, 'anew')
  await pause()
}

/** The buyer disputes a paid order. The order stays charged, however the case ends, and no refund is made. */
export async function chargeBack(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'disputed')
  const orderId = await soldOrder(till, sale)
  const providerOrder = ordersOf(till).find(({ status }) => status === 'processed')
  if (orderId === undefined || !providerOrder) return
  if (draw.maybe('in part before', 0.3)) {
    const cents = Math.floor(sale.amountCents / 7)
    await refundOnce(till, sale, orderId, cents, `${sale.reference}-part`, 'part')
  }
  const webhooks = draw.pick('webhooks', ['both', 'order', 'case', 'none'])
  const [service] = till.testbed.services
  const opened = (await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    order_id: providerOrder.id,
    webhooks,
  }).catch(() => undefined)) as { id: string } | undefined
  till.history.push(`the buyer disputes ${providerOrder.id}: ${opened?.id ?? 'not possible'}`)
  if (!opened) return
  await pause()
  const order = await readSale(till, sale, 'read')
  if (order && order.outcome !== 'charged') {
    till.problems.push(`a disputed order answers ${order.outcome}`)
  }
  if (draw.maybe('gives back', 0.4)) {
    await refundOnce(till, sale, orderId, null, undefined, 'refund')
  }
  const end = draw.weigh('ends', { win: 2, lose: 2, open: 1 })
  if (end !== 'open') {
    await sandboxCall(service, 'POST', `/_sandbox/chargebacks/${opened.id}/act`, {
      do: end,
      webhooks: draw.pick('webhooks of the end', ['both', 'order', 'case', 'none']),
    })
    till.history.push(`the case ends: ${end}`)
  }
  await pause()
  await readSale(till, sale, 'last')
}

/** An order is paid a second time. The second payment is in no sum of the order, and a person must decide about it. */
export async function secondPayment(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'twice')
  const orderId = await soldOrder(till, sale)
  const providerOrder = ordersOf(till).find(({ status }) => status === 'processed')
  if (orderId === undefined || !providerOrder) return
  if (draw.maybe('gives back before', 0.2)) {
    await refundOnce(till, sale, orderId, Math.floor(sale.amountCents / 7), `${orderId}-1`, 'part')
  }
  await buyer(till, providerOrder, { do: 'pay_again' })
  await pause()
  const order = await readSale(till, sale, 'read')
  if (order && order.needs_decision !== 'paid_twice') {
    till.problems.push(`an order that is paid twice needs the decision ${order.needs_decision}`)
  }
  if (draw.maybe('lost', 0.4)) {
    await addFaults(till, { ...refunding, kind: draw.pick('how', ['drop_after', '503']), count: 1 })
  }
  if (draw.maybe('gives back', 0.6)) {
    await refundOnce(till, sale, orderId, null, undefined, 'refund')
  }
  await pause()
  await readSale(till, sale, 'last')
}

/** The buyer pays more than the order, by a tip or by the interest of instalments, or less. */
export async function otherAmount(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'amounts')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (!waiting) return
  const text = (cents: number) => (cents / 100).toFixed(2)
  const extra = Math.floor(sale.amountCents / 10)
  const how = draw.pick('how', ['tip', 'interest', 'less'] as const)
  const paid = {
    tip: { tip_amount: text(extra) },
    interest: { installments: 6, interest_amount: text(extra) },
    less: { paid_amount: text(sale.amountCents - extra) },
  }[how]
  if (how === 'interest') till.received.set(waiting.id, sale.amountCents)
  await buyer(till, waiting, { ...payByCard, ...paid })
  if (draw.maybe('pauses', 0.5)) await pause()
  const order = await readSale(till, sale, 'read')
  if (order?.outcome !== 'charged') return
  if (draw.maybe('lost', 0.4)) {
    await addFaults(till, {
      ...refunding,
      kind: draw.pick('kind', ['drop_after', '503']),
      count: 1,
    })
  }
  // The provider takes no partial refund of an order with a tip.
  const isPart = how !== 'tip' && draw.maybe('in part', 0.4)
  const cents = isPart ? Math.floor(sale.amountCents / 3) : null
  const key = isPart ? `${sale.reference}-refund` : undefined
  await refundOnce(till, sale, String(order.order_id), cents, key, 'refund')
  await pause()
  await readSale(till, sale, 'last')
}

/** A person says that an order was not paid, the customer is charged anew, and then the first order is paid after all. */
export async function paidAfterDecision(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'decided')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  const orderId = sale.lastOrderId
  if (!waiting || orderId === undefined) return
  await buyer(till, waiting, { do: 'hold' })
  await pause()
  await readSale(till, sale, 'read')
  const settled = await send(till, {
    label: 'settle',
    path: `/orders/${orderId}/settle`,
    body: { as: 'not_paid', reason: 'the terminal shows no sale' },
  })
  if (settled.kind !== 'answered' || settled.status !== 200) return
  if (draw.maybe('pauses', 0.5)) await pause()
  await chargeUntilKnown(till, sale, `${sale.reference}-anew`, 'anew')
  const anew = onTerminal(till)
  if (anew && draw.maybe('is paid anew', 0.8)) await buyer(till, anew, payByCard)
  await pause()
  till.forced.add(waiting.id)
  await buyer(till, waiting, { ...payByCard, force: true })
  await pause()
  const answer = await send(till, { label: 'late', path: `/orders/${orderId}` })
  if (answer.kind === 'lost' || answer.status !== 200) return
  const { outcome, needs_decision: decision } = answer.body
  if (outcome !== 'charged' || decision !== 'paid_late') {
    till.problems.push(`money after a decision answers ${outcome}, ${decision}`)
  }
  if (draw.maybe('gives back', 0.5)) {
    await refundOnce(till, sale, orderId, null, undefined, 'refund')
  }
  await pause()
}
