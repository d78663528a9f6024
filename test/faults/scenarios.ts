import { payByCard, sandboxCall } from '../support/till.ts'
import type { ScopedRule } from './fault-plan.ts'
import {
  cancelAtTerminal,
  chargeBack,
  equalForeignOrder,
  equalPanelRefund,
  otherAmount,
  paidAfterDecision,
  paymentInProcess,
  secondPayment,
} from './field-scenarios.ts'
import { createInterruption, type Interruption } from './interruption.ts'
import {
  type Body,
  cancelKnown,
  chargeUntilKnown,
  erpAmount,
  newSale,
  type Pause,
  playSale,
  readSale,
  refundOnce,
  rememberCharge,
  rememberOrder,
  soldOrder,
  waitingOrder,
} from './sale.ts'
import {
  type Answer,
  addFaults,
  buyer,
  type LogicalRefund,
  leaveTerminal,
  onTerminal,
  ordersOf,
  removeFaults,
  type Sale,
  type SimulatedTill,
  send,
  takeTerminal,
} from './simulated-till.ts'

type Rule = Omit<ScopedRule, 'user_id'>
type Play = (till: SimulatedTill, pause: Pause) => Promise<void>

const creation = { path: '^/v1/orders$', method: 'POST' }
const reading = { path: '^/v1/orders/ORD', method: 'GET' }
const canceling = { path: '/cancel$', method: 'POST' }
const refunding = { path: '/refund$', method: 'POST' }

/** Each scenario provokes one moment; everything else is drawn. */
export const scenarios = {
  'denied after the effect': deniedAfterEffect,
  'an attempt that arrives late': arrivesLate,
  'a refused token after a lost answer': tokenRefused,
  'refunds that are processing': refundsProcessing,
  'keyed refunds of one amount': keyedRefunds,
  'a race of keys': raceOfKeys,
  'a request that stalls': requestStalls,
  'a request that loses its database': databaseIsLost,
  'a cancel of what never arrived': cancelsUnknown,
  'money in the panel': panel,
  'evidence that no document describes': undocumentedEvidence,
  'another account whose calls hang': anotherAccountHangs,
  'an attempt that arrives too late': arrivesTooLate,
  'a terminal that needs a check': needsCheck,
  'a process whose wall clock is wrong': wrongClock,
  'an equal order of another application': equalForeignOrder,
  'an equal refund of the panel': equalPanelRefund,
  'a cancel at the terminal': cancelAtTerminal,
  'a payment that the provider processes': paymentInProcess,
  'a charge-back': chargeBack,
  'a second payment of an order': secondPayment,
  'an amount that is not the order’s': otherAmount,
  'money after a decision': paidAfterDecision,
} satisfies Record<string, Play>

export type ScenarioName = keyof typeof scenarios
export const scenarioNames = Object.keys(scenarios) as ScenarioName[]

/** Statuses of gateways, rate limits and permissions, whatever the effect of the call was. */
const denials = [400, 401, 403, 404, 405, 408, 409, 410, 422, 423, 425, 429, 451, 502, 504]

async function deniedAfterEffect(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  for (const call of [creation, refunding, canceling]) {
    const name = (what: string) => `denied ${call.path} ${what}`
    if (!draw.maybe(name('at all'), call === canceling ? 0.4 : 0.7)) continue
    const form = draw.pick(name('form'), ['html', 'html', 'bare', 'provider'] as const)
    await addFaults(till, {
      ...call,
      kind: 'status_after',
      status: draw.pick(name('status'), denials),
      form,
      ...(form === 'provider' && {
        code: draw.pick(name('code'), ['forbidden', 'conflict', 'limit']),
      }),
      count: draw.int(name('count'), 1, 4),
    })
  }
  await playSale(till, pause)
}

async function arrivesLate(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  till.isEager = draw.maybe('eager', 0.5)
  if (draw.maybe('taken', 0.7)) await takeTerminal(till)
  for (const call of [creation, refunding, canceling]) {
    const name = (what: string) => `late ${call.path} ${what}`
    if (!draw.maybe(name('at all'), call === creation ? 0.9 : 0.5)) continue
    await addFaults(till, late(till, call, name('how')))
  }
  await playSale(till, async () => {
    if (draw.maybe(`left ${till.history.length}`, 0.6)) await leaveTerminal(till)
    await pause()
  })
  await leaveTerminal(till)
}

/** The only attempt of a charge arrives later than any call may: the order is flagged, or canceled again. */
async function arrivesTooLate(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'too-late')
  await takeTerminal(till)
  const delayMs = draw.int('delay', 2 * longestWayMs, 8 * longestWayMs)
  await addFaults(till, { ...creation, kind: 'arrive_late', delay_ms: delayMs, count: 1 })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  await chargeUntilKnown(till, sale, key, 'charge')
  till.isEager = draw.maybe('eager', 0.6)
  const arrivesAt = till.testbed.clock.now().getTime() + delayMs
  for (let round = 0; till.testbed.clock.now().getTime() <= arrivesAt || round < 3; round += 1) {
    await pause()
    // The provider refuses this order while another one is open on the terminal.
    if (round === 1) await readSale(till, sale, 'read')
    if (round === 2) await leaveTerminal(till)
  }
  await readSale(till, sale, 'last')
}

/** The provider says that only the terminal's screen shows how the order ended. The cashier checks it, and charges anew. */
async function needsCheck(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'held')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (!waiting) return
  await buyer(till, waiting, { do: 'hold' })
  if (draw.maybe('pauses', 0.6)) await pause()
  await readSale(till, sale, 'read')
  const isAnswered = await cancelKnown(till, sale, 'cancel')
  if (draw.maybe('pauses again', 0.5)) await pause()
  const before = ordersOf(till).length
  await chargeUntilKnown(till, sale, undefined, 'anew')
  // A new order must be on the terminal, or paid there already. If all answers to the cancel were lost, the till gets the
  // order that is open.
  if (isAnswered && ordersOf(till).length === before)
    till.problems.push('the sale cannot be charged anew')
  await pause()
}

/** An order of that process expires by the clock of the database, which the other processes use. */
async function wrongClock(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const { clock } = till.testbed
  const sale = newSale(till, 'wrong-clock')
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  const body = {
    caja_id: 'CAJA-1',
    external_reference: sale.reference,
    amount: erpAmount(sale.amountCents),
  }
  const begunAt = clock.now().getTime()
  const interruption = createInterruption('stall', Number.POSITIVE_INFINITY)
  const answer = await send(till, { label: 'charge', path: '/orders', key, body, interruption })
  rememberOrder(sale, key, answer)
  // On a busy machine the charge may not begin in time: then there is no order.
  if (answer.kind === 'answered' && answer.body.outcome === 'not_charged') return
  for (let round = 0; round < 2; round += 1) {
    await pause()
    if (draw.maybe(`reads ${round}`, 0.5)) await readSale(till, sale, `read ${round}`)
  }
  const isOver = clock.now().getTime() - begunAt > shortestLifeMs
  if (!isOver && !onTerminal(till)) till.problems.push('an order was canceled before its expiry')
}

/** Shorter than the lifetime of any order. */
const shortestLifeMs = 120_000

/** A call whose answer is lost at once, and that arrives within the promised time. */
function late(till: SimulatedTill, call: Pick<Rule, 'path' | 'method'>, label: string): Rule {
  const { draw } = till
  const answer = draw.pick(`${label} answer`, ['cut', 'cut', 'status', 'status'] as const)
  return {
    ...call,
    kind: 'arrive_late',
    delay_ms: draw.int(`${label} delay`, 100, longestWayMs),
    answer,
    ...(answer === 'status' && { form: 'html' as const }),
    count: draw.int(`${label} count`, 1, 3),
  }
}

/** Six times the timeout of a call. For calls that arrive later nothing is promised. */
const longestWayMs = 8_500

async function tokenRefused(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  for (const call of [creation, refunding]) {
    const name = (what: string) => `token ${call.path} ${what}`
    const skip = draw.int(name('lost'), 1, 3)
    await addFaults(
      till,
      {
        ...call,
        kind: draw.pick(name('kind'), ['drop_after', 'drop_before', 'torn_body']),
        count: skip,
      },
      {
        ...call,
        kind: 'status',
        status: 401,
        code: 'unauthorized',
        skip,
        count: draw.int(name('refused'), 1, 6),
      },
    )
  }
  await playSale(till, pause)
}

async function refundsProcessing(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'processing')
  const orderId = await soldOrder(till, sale)
  if (orderId === undefined) return
  const isListed = draw.maybe('told to end', 0.4)
  await addFaults(till, {
    ...refunding,
    kind: 'refund_processing',
    ends: draw.weigh('ends', { failed: 3, processed: 1 }) as 'failed' | 'processed',
    count: draw.int('count', 1, 2),
    ...(!isListed && { delay_ms: draw.int('takes', 0, 90_000) }),
  })
  if (draw.maybe('lost too', 0.4)) {
    await addFaults(till, {
      ...refunding,
      kind: draw.pick('how lost', ['drop_after', '500', 'status_after']),
      count: 1,
    })
  }
  const amountCents = draw.maybe('in part', 0.5) ? Math.floor(sale.amountCents / 4) : null
  const isKeyed = draw.maybe('keyed', 0.6)
  for (let step = 0; step < 3; step += 1) {
    const key = isKeyed ? `${sale.reference}-refund-${step}` : undefined
    await refundOnce(till, sale, orderId, amountCents, key, `refund ${step}`)
    await pause()
    await readSale(till, sale, `read ${step}`)
    if (isListed) {
      for (const order of ordersOf(till)) {
        await buyer(till, order, {
          do: 'end_refund',
          as: draw.maybe(`fails ${step}`, 0.7) ? 'failed' : 'processed',
        })
      }
    }
    await pause()
  }
}

async function keyedRefunds(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'items')
  const orderId = await soldOrder(till, sale)
  if (orderId === undefined) return
  await addFaults(
    till,
    draw.maybe('late', 0.3)
      ? late(till, refunding, 'late')
      : {
          ...refunding,
          kind: draw.pick('lost', ['drop_after', 'drop_before', 'status_after', '503']),
          status: draw.pick('status', [503, 504]),
          form: 'html',
          count: draw.int('count', 1, 6),
        },
  )
  const amountCents = Math.floor(sale.amountCents / 5)
  const keys = [1, 2, 3].map((item) => `${sale.reference}-ITEM-${item}`)
  const refunds = keys.map((): LogicalRefund => ({ orderId, amountCents, reported: 'unknown' }))
  sale.refunds.push(...refunds)
  for (let round = 0; round < 3; round += 1) {
    for (const [index, key] of keys.entries()) {
      const refund = refunds[index] as LogicalRefund
      if (refund.reported === 'done' && !draw.maybe(`again ${round} ${index}`, 0.3)) continue
      const name = `item ${index} ${round}`
      updateRefund(refund, await sendRefund(till, refund, key, name))
    }
    if (draw.maybe(`pause ${round}`, 0.5)) await pause()
    else if (round === 1) await removeFaults(till)
  }
}

async function raceOfKeys(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'race')
  const orderId = await soldOrder(till, sale)
  if (orderId === undefined) return
  await addFaults(till, {
    ...refunding,
    kind: draw.pick('kind', ['drop_after', '500', 'latency_after', 'latency']),
    delay_ms: 20,
    chance: 0.5,
    seed: draw.int('seed', 1, 1e9),
  })
  const amountCents = Math.floor(sale.amountCents / 10)
  const refunds = Array.from(
    { length: 8 },
    (): LogicalRefund => ({ orderId, amountCents, reported: 'unknown' }),
  )
  sale.refunds.push(...refunds)
  for (let round = 0; round < 3; round += 1) {
    await Promise.all(
      refunds.map(async (refund, index) => {
        const name = `key ${index} ${round}`
        updateRefund(refund, await sendRefund(till, refund, `${sale.reference}-K${index}`, name))
      }),
    )
    await pause()
  }
}

/** Updates the reported outcome of a refund by one more answer. `done` is final. */
function updateRefund(refund: LogicalRefund, answer: Answer): void {
  if (refund.reported === 'done' || answer.kind === 'lost') return
  if (answer.status < 300) refund.reported = 'done'
  else if (answer.body.outcome === 'unknown' || answer.body.retry_safe === true) return
  // Perhaps it was this refund, whose answer was lost.
  else if (answer.body.code === 'ORDER_ALREADY_REFUNDED') return
  else refund.reported = 'refused'
}

function sendRefund(
  till: SimulatedTill,
  refund: Pick<LogicalRefund, 'orderId' | 'amountCents'>,
  key: string | undefined,
  label: string,
): Promise<Answer> {
  return send(till, { label, path: '/orders/refund', key, body: refundBody(refund) })
}

function refundBody({
  orderId,
  amountCents,
}: Pick<LogicalRefund, 'orderId' | 'amountCents'>): Body {
  return { order_id: orderId, ...(amountCents !== null && { amount: erpAmount(amountCents) }) }
}

/** One request stalls between two of its steps for longer than its lease lasts, and then continues. */
async function requestStalls(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const interruption = drawInterruption(till, 'stall')
  const started = await startInterrupted(till, interruption)
  if (!started) return
  try {
    await Promise.race([interruption.reached, started.answered])
    for (let round = 0; round < draw.int('rounds', 1, 3); round += 1) {
      await pause()
      if (draw.maybe(`repeats ${round}`, 0.7)) await started.repeat(`repeat ${round}`)
      if (draw.maybe(`leaves ${round}`, 0.7)) await leaveTerminal(till)
      if (draw.maybe(`cancels ${round}`, 0.3))
        await cancelKnown(till, started.sale, `cancel ${round}`)
    }
  } finally {
    till.history.push('the stalled request continues')
    interruption.release()
    await started.answered
  }
  await finishInterrupted(till, pause, started)
}

/** One request loses its database at one of its steps. */
async function databaseIsLost(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const interruption = drawInterruption(till, 'cut')
  const started = await startInterrupted(till, interruption)
  if (!started) return
  await started.answered
  if (draw.maybe('token refused', 0.3)) {
    await addFaults(till, {
      path: '^/v1/',
      kind: 'status',
      status: 401,
      code: 'unauthorized',
      count: 3,
    })
  }
  if (draw.maybe('asks nobody', 0.4)) {
    till.isEager = true
    for (let round = 0; round < 4; round += 1) await pause()
    return
  }
  await started.repeat('repeat')
  await finishInterrupted(till, pause, started)
}

/** Between any two steps, most often between those that follow the intent. */
function drawInterruption(
  { draw, history }: SimulatedTill,
  kind: Interruption['kind'],
): Interruption {
  const isAfterIntent = draw.maybe('after the intent', 0.7)
  const at = draw.int('step', 1, isAfterIntent ? 4 : 9)
  history.push(`${kind} after step ${at}${isAfterIntent ? ' from the intent on' : ''}`)
  return createInterruption(
    kind,
    at,
    isAfterIntent ? /insert into "?(orders|order_operations)\b/ : undefined,
  )
}

type StartedOperation = {
  operation: 'charge' | 'refund' | 'cancel'
  sale: Sale
  orderId: string | undefined
  answered: Promise<void>
  /** The till sends the same again, to a process without interruption. */
  repeat(label: string): Promise<void>
}

/** Begins a charge, a refund or a cancel in the third process, with the interruption. */
async function startInterrupted(
  till: SimulatedTill,
  interruption: Interruption,
): Promise<StartedOperation | undefined> {
  const { draw } = till
  const operation = draw.weigh('operation', { charge: 4, refund: 4, cancel: 2 })
  const sale = newSale(till, operation)
  till.isEager = operation === 'charge' && draw.maybe('eager', 0.5)
  const key = draw.maybe('keyed', 0.6) ? `${sale.reference}-key` : undefined
  if (draw.maybe('lost too', 0.3)) {
    const call = { charge: creation, refund: refunding, cancel: canceling }[operation]
    await addFaults(till, {
      ...call,
      kind: draw.pick('how lost', ['drop_after', 'drop_before', 'status_after']),
      count: 1,
    })
  }
  if (operation === 'charge') {
    if (draw.maybe('taken', 0.6)) await takeTerminal(till)
    const request = async (label: string, own?: Interruption) => {
      const before = new Set(ordersOf(till).map((order) => order.id))
      const body = {
        caja_id: 'CAJA-1',
        external_reference: sale.reference,
        amount: erpAmount(sale.amountCents),
      }
      const answer = await send(till, {
        label,
        path: '/orders',
        key,
        body,
        ...(own && { interruption: own }),
      })
      rememberOrder(sale, key, answer)
      rememberCharge(sale, [answer], before, label)
    }
    return {
      operation,
      sale,
      orderId: undefined,
      answered: request('interrupted', interruption),
      repeat: (label) => request(label),
    }
  }
  const orderId =
    operation === 'refund' ? await soldOrder(till, sale) : await waitingOrder(till, sale)
  if (orderId === undefined) return undefined
  if (operation === 'cancel') {
    const body = { order_id: orderId }
    const path = '/orders/cancel'
    return {
      operation,
      sale,
      orderId,
      answered: send(till, { label: 'interrupted', path, body, interruption }).then(() => {}),
      repeat: async (label) => void (await cancelKnown(till, sale, label)),
    }
  }
  // In part only with a key: without one the second of two equal requests may be another refund.
  const isPart = key !== undefined && draw.maybe('in part', 0.6)
  const amountCents = isPart ? Math.floor(sale.amountCents / 3) : null
  const refund: LogicalRefund = { orderId, amountCents, reported: 'unknown' }
  sale.refunds.push(refund)
  const body = refundBody(refund)
  const answered = send(till, {
    label: 'interrupted',
    path: '/orders/refund',
    key,
    body,
    interruption,
  })
  return {
    operation,
    sale,
    orderId,
    answered: answered.then((answer) => updateRefund(refund, answer)),
    repeat: async (label) => updateRefund(refund, await sendRefund(till, refund, key, label)),
  }
}

async function finishInterrupted(
  till: SimulatedTill,
  pause: Pause,
  started: StartedOperation,
): Promise<void> {
  await pause()
  await readSale(till, started.sale, 'read')
  await pause()
  await leaveTerminal(till)
  if (started.operation === 'charge' || till.draw.maybe('repeats later', 0.6)) {
    await started.repeat('later')
    await pause()
  }
}

/** The till cancels a charge that never reached the provider. Any order that reaches the terminal later is paid at once. */
async function cancelsUnknown(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'given-up')
  till.isEager = true
  await addFaults(
    till,
    draw.maybe('late', 0.3)
      ? { ...late(till, creation, 'late'), count: 20 }
      : { ...creation, kind: draw.pick('kind', ['drop_before', '503', 'drop_before']), count: 20 },
  )
  if (draw.maybe('no search', 0.3))
    await addFaults(till, { ...creation, method: 'GET', kind: '500', count: 3 })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  const body = {
    caja_id: 'CAJA-1',
    external_reference: sale.reference,
    amount: erpAmount(sale.amountCents),
  }
  const before = new Set(ordersOf(till).map((order) => order.id))
  const answer = await send(till, { label: 'charge', path: '/orders', key, body })
  rememberOrder(sale, key, answer)
  rememberCharge(sale, [answer], before, 'charge')
  if (draw.maybe('first pause', 0.4)) await pause()
  await cancelKnown(till, sale, 'cancel')
  if (draw.maybe('heals at once', 0.6)) await removeFaults(till)
  await pause()
  if (draw.maybe('reads', 0.5)) await readSale(till, sale, 'read')
  if (draw.maybe('cancels again', 0.4)) await cancelKnown(till, sale, 'cancel again')
  await pause()
  await removeFaults(till)
  await pause()
}

/** A person refunds or cancels in the provider's panel, often without a webhook. */
async function panel(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'panel')
  if (draw.maybe('no webhooks', 0.6)) {
    till.hasWebhooks = false
    await addFaults(till, { path: '', kind: 'missing' })
  }
  if (draw.maybe('cancels', 0.25)) {
    await waitingOrder(till, sale)
    const waiting = onTerminal(till)
    if (waiting) await buyer(till, waiting, { do: 'panel_cancel' })
    if (draw.maybe('pauses', 0.5)) await pause()
    await chargeUntilKnown(till, sale, undefined, 'again')
    await pause()
    return
  }
  const orderId = await soldOrder(till, sale)
  if (orderId === undefined) return
  if (draw.maybe('in part before', 0.3)) {
    const cents = Math.floor(sale.amountCents / 7)
    await refundOnce(till, sale, orderId, cents, `${sale.reference}-part`, 'part')
  }
  await panelRefund(till, draw.maybe('all', 0.15) ? null : Math.floor(sale.amountCents / 3))
  if (draw.maybe('pauses', 0.4)) await pause()
  if (draw.maybe('lost', 0.4)) {
    await addFaults(till, {
      ...refunding,
      kind: draw.pick('how lost', ['drop_after', '503', 'status_after']),
      count: 1,
    })
  }
  if (draw.maybe('unread', 0.3)) await addFaults(till, { ...reading, kind: '503', count: 4 })
  const amountCents = draw.maybe('total', 0.7) ? null : Math.floor(sale.amountCents / 5)
  await refundOnce(till, sale, orderId, amountCents, `${sale.reference}-refund`, 'refund')
  if (draw.maybe('panel again', 0.3)) await panelRefund(till, 100)
  await pause()
  await readSale(till, sale, 'read')
}

async function panelRefund(till: SimulatedTill, amountCents: number | null): Promise<void> {
  for (const order of ordersOf(till)) {
    const known = new Set(order.refunds.map((refund) => refund.id))
    await buyer(till, order, {
      do: 'refund',
      ...(amountCents !== null && { amount: (amountCents / 100).toFixed(2) }),
    })
    const after = ordersOf(till).find(({ id }) => id === order.id)
    for (const { id } of after?.refunds ?? []) if (!known.has(id)) till.panelRefunds.add(String(id))
  }
}

/** The provider shows states and payments that contradict each other, and the box must still be able to charge. */
async function undocumentedEvidence(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  const sale = newSale(till, 'strange')
  await waitingOrder(till, sale)
  const waiting = onTerminal(till)
  if (!waiting) return
  const isPaid = draw.maybe('paid', 0.5)
  const isEarly = draw.maybe('early', 0.5)
  const end = () => buyer(till, waiting, isPaid ? payByCard : { do: 'cancel' })
  if (isEarly) await end()
  const [payment] = waiting.payments
  const [failed, approved] = [
    { ...payment, id: 'PAY01STRANGE', status: 'failed', status_detail: 'rejected_by_issuer' },
    { ...payment, status: 'processed', paid_amount: waiting.amount },
  ]
  const shown = draw.pick<Body>('shown', [
    { status: 'under_review', status_detail: 'under_review' },
    { status: 'under_review', transactions: { payments: [] } },
    {
      status: 'processed',
      status_detail: 'accredited',
      transactions: { payments: [failed, approved] },
    },
    { transactions: { payments: [{ ...payment, amount: '1.00' }] } },
    { external_reference: 'another' },
  ])
  till.contradictory.add(waiting.id)
  till.history.push(`the provider shows ${JSON.stringify(shown)} for ${waiting.id}`)
  const { services } = till.testbed
  const path = `/_sandbox/orders/${waiting.id}/shown`
  await sandboxCall(services[0], 'PUT', path, shown)
  await pause()
  await readSale(till, sale, 'read')
  if (draw.maybe('cashier cancels', 0.4)) await cancelKnown(till, sale, 'cancel')
  if (!isEarly) await end()
  await pause()
  if (draw.maybe('truth again', 0.5)) await sandboxCall(services[0], 'PUT', path, null)
  await readSale(till, sale, 'read again')
}

async function anotherAccountHangs(till: SimulatedTill, pause: Pause): Promise<void> {
  const { draw } = till
  await addFaults(till, {
    path: draw.pick('path', ['/', '^/v1/orders', '^/terminals']),
    kind: draw.pick('kind', ['hang_before', 'hang_after']),
    count: 2,
    skip: draw.int('skip', 0, 4),
  })
  await playSale(till, pause)
}
