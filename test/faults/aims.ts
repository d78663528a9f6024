import { payByCard, sandboxCall } from '../support/till.ts'
import type { ScopedRule } from './fault-plan.ts'
import {
  cancelAtTerminal,
  chargeBack,
  equalForeignOrder,
  equalPanelRefund,
  otherAmount,
  paidAfterDecision,
  providerWorks,
  secondPayment,
} from './field-aims.ts'
import {
  type Answer,
  arm,
  buyer,
  heal,
  type Lane,
  type LogicalRefund,
  leaveTerminal,
  onTerminal,
  ordersOf,
  type Sale,
  send,
  takeTerminal,
} from './lane.ts'
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
import { createSnag, type Snag } from './snags.ts'

type Rule = Omit<ScopedRule, 'user_id'>
type Play = (lane: Lane, pause: Pause) => Promise<void>

const creation = { path: '^/v1/orders$', method: 'POST' }
const reading = { path: '^/v1/orders/ORD', method: 'GET' }
const canceling = { path: '/cancel$', method: 'POST' }
const refunding = { path: '/refund$', method: 'POST' }

/** Schedules that aim at one moment each; everything about them is drawn beside it. */
export const aims = {
  'denied after the effect': deniedAfterEffect,
  'an attempt that arrives late': arrivesLate,
  'a refused token after a lost answer': tokenRefused,
  'refunds that are processing': refundsProcessing,
  'keyed refunds of one amount': keyedRefunds,
  'a race of keys': raceOfKeys,
  'a process that stands still': standsStill,
  'a database that goes away': databaseGoesAway,
  'a cancel of what never arrived': cancelsUnknown,
  'money in the panel': panel,
  'evidence that no document describes': strangeEvidence,
  'a neighbour that hangs': neighbour,
  'an attempt that arrives after all hope': arrivesTooLate,
  'a terminal that must be looked at': mustBeLookedAt,
  'a process whose wall clock is wrong': wrongClock,
  'an equal order of another application': equalForeignOrder,
  'an equal refund of the panel': equalPanelRefund,
  'a cancel at the terminal': cancelAtTerminal,
  'an order that the provider works on': providerWorks,
  'a charge-back': chargeBack,
  'a second payment of an order': secondPayment,
  'an amount that is not the order’s': otherAmount,
  'money after a decision': paidAfterDecision,
} satisfies Record<string, Play>

export type Aim = keyof typeof aims
export const aimNames = Object.keys(aims) as Aim[]

/** Codes that gateways, limits and rights answer with, whatever became of the call behind them. */
const denials = [400, 401, 403, 404, 405, 408, 409, 410, 422, 423, 425, 429, 451, 502, 504]

async function deniedAfterEffect(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  for (const call of [creation, refunding, canceling]) {
    const name = (what: string) => `denied ${call.path} ${what}`
    if (!draw.maybe(name('at all'), call === canceling ? 0.4 : 0.7)) continue
    const form = draw.pick(name('form'), ['html', 'html', 'bare', 'provider'] as const)
    await arm(lane, {
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
  await playSale(lane, pause)
}

async function arrivesLate(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  lane.isEager = draw.maybe('eager', 0.5)
  if (draw.maybe('taken', 0.7)) await takeTerminal(lane)
  for (const call of [creation, refunding, canceling]) {
    const name = (what: string) => `late ${call.path} ${what}`
    if (!draw.maybe(name('at all'), call === creation ? 0.9 : 0.5)) continue
    await arm(lane, late(lane, call, name('how')))
  }
  await playSale(lane, async () => {
    if (draw.maybe(`left ${lane.history.length}`, 0.6)) await leaveTerminal(lane)
    await pause()
  })
  await leaveTerminal(lane)
}

/** The one attempt of a charge is on its way for longer than a call can be: the order is flagged, or taken away again. */
async function arrivesTooLate(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'too-late')
  await takeTerminal(lane)
  const delayMs = draw.int('delay', 2 * longestWayMs, 8 * longestWayMs)
  await arm(lane, { ...creation, kind: 'arrive_late', delay_ms: delayMs, count: 1 })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  await chargeUntilKnown(lane, sale, key, 'charge')
  lane.isEager = draw.maybe('eager', 0.6)
  const arrivesAt = lane.world.clock.now().getTime() + delayMs
  for (let round = 0; lane.world.clock.now().getTime() <= arrivesAt || round < 3; round += 1) {
    await pause()
    // As long as it waits for the other order the provider refuses this one for good.
    if (round === 1) await readSale(lane, sale, 'read')
    if (round === 2) await leaveTerminal(lane)
  }
  await readSale(lane, sale, 'last')
}

/** The provider says that only the terminal's screen shows how the order ended. The cashier looks, and begins anew. */
async function mustBeLookedAt(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'held')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (!waiting) return
  await buyer(lane, waiting, { do: 'hold' })
  if (draw.maybe('pauses', 0.6)) await pause()
  await readSale(lane, sale, 'read')
  const isAnswered = await cancelKnown(lane, sale, 'cancel')
  if (draw.maybe('pauses again', 0.5)) await pause()
  const held = ordersOf(lane).length
  await chargeUntilKnown(lane, sale, undefined, 'anew')
  // On the terminal, or paid there already by a buyer who was quicker than the answer. A till whose every cancel was lost gets the
  // order that waits.
  if (isAnswered && ordersOf(lane).length === held) lane.problems.push('the sale cannot begin anew')
  await pause()
}

/** What that process has begun lives as long as the others' clocks say, which they all have from the database. */
async function wrongClock(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const { clock } = lane.world
  const sale = newSale(lane, 'wrong-clock')
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  const body = {
    caja_id: 'CAJA-1',
    external_reference: sale.reference,
    amount: erpAmount(sale.amountCents),
  }
  const begunAt = clock.now().getTime()
  const snag = createSnag('stall', Number.POSITIVE_INFINITY)
  const answer = await send(lane, { label: 'charge', path: '/orders', key, body, snag })
  rememberOrder(sale, key, answer)
  // A machine that is too busy to begin in time says so: then there is no order to look after.
  if (answer.kind === 'answered' && answer.body.outcome === 'not_charged') return
  for (let round = 0; round < 2; round += 1) {
    await pause()
    if (draw.maybe(`reads ${round}`, 0.5)) await readSale(lane, sale, `read ${round}`)
  }
  const isOver = clock.now().getTime() - begunAt > shortestLifeMs
  if (!isOver && !onTerminal(lane)) lane.problems.push('an order was taken away before its time')
}

/** Less than any order lives. */
const shortestLifeMs = 120_000

/** A call whose answer is lost at once, and that arrives within the time that the provider is given to forget it. */
function late(lane: Lane, call: Pick<Rule, 'path' | 'method'>, label: string): Rule {
  const { draw } = lane
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

/** Six times what a call may take: what is later on its way than this is not promised. */
const longestWayMs = 8_500

async function tokenRefused(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  for (const call of [creation, refunding]) {
    const name = (what: string) => `token ${call.path} ${what}`
    const skip = draw.int(name('lost'), 1, 3)
    await arm(
      lane,
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
  await playSale(lane, pause)
}

async function refundsProcessing(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'processing')
  const orderId = await soldOrder(lane, sale)
  if (orderId === undefined) return
  const isListed = draw.maybe('told to end', 0.4)
  await arm(lane, {
    ...refunding,
    kind: 'refund_processing',
    ends: draw.weigh('ends', { failed: 3, processed: 1 }) as 'failed' | 'processed',
    count: draw.int('count', 1, 2),
    ...(!isListed && { delay_ms: draw.int('takes', 0, 90_000) }),
  })
  if (draw.maybe('lost too', 0.4)) {
    await arm(lane, {
      ...refunding,
      kind: draw.pick('how lost', ['drop_after', '500', 'status_after']),
      count: 1,
    })
  }
  const amountCents = draw.maybe('in part', 0.5) ? Math.floor(sale.amountCents / 4) : null
  const isKeyed = draw.maybe('keyed', 0.6)
  for (let step = 0; step < 3; step += 1) {
    const key = isKeyed ? `${sale.reference}-refund-${step}` : undefined
    await refundOnce(lane, sale, orderId, amountCents, key, `refund ${step}`)
    await pause()
    await readSale(lane, sale, `read ${step}`)
    if (isListed) {
      for (const order of ordersOf(lane)) {
        await buyer(lane, order, {
          do: 'end_refund',
          as: draw.maybe(`fails ${step}`, 0.7) ? 'failed' : 'processed',
        })
      }
    }
    await pause()
  }
}

async function keyedRefunds(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'items')
  const orderId = await soldOrder(lane, sale)
  if (orderId === undefined) return
  await arm(
    lane,
    draw.maybe('late', 0.3)
      ? late(lane, refunding, 'late')
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
  const refunds = keys.map((): LogicalRefund => ({ orderId, amountCents, told: 'unknown' }))
  sale.refunds.push(...refunds)
  for (let round = 0; round < 3; round += 1) {
    for (const [index, key] of keys.entries()) {
      const refund = refunds[index] as LogicalRefund
      if (refund.told === 'done' && !draw.maybe(`again ${round} ${index}`, 0.3)) continue
      const name = `item ${index} ${round}`
      hear(refund, await sendRefund(lane, refund, key, name))
    }
    if (draw.maybe(`pause ${round}`, 0.5)) await pause()
    else if (round === 1) await heal(lane)
  }
}

async function raceOfKeys(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'race')
  const orderId = await soldOrder(lane, sale)
  if (orderId === undefined) return
  await arm(lane, {
    ...refunding,
    kind: draw.pick('kind', ['drop_after', '500', 'latency_after', 'latency']),
    delay_ms: 20,
    chance: 0.5,
    seed: draw.int('seed', 1, 1e9),
  })
  const amountCents = Math.floor(sale.amountCents / 10)
  const refunds = Array.from(
    { length: 8 },
    (): LogicalRefund => ({ orderId, amountCents, told: 'unknown' }),
  )
  sale.refunds.push(...refunds)
  for (let round = 0; round < 3; round += 1) {
    await Promise.all(
      refunds.map(async (refund, index) => {
        const name = `key ${index} ${round}`
        hear(refund, await sendRefund(lane, refund, `${sale.reference}-K${index}`, name))
      }),
    )
    await pause()
  }
}

/** What the till believes of a refund after one more answer. Once done is done. */
function hear(refund: LogicalRefund, answer: Answer): void {
  if (refund.told === 'done' || answer.kind === 'lost') return
  if (answer.status < 300) refund.told = 'done'
  else if (answer.body.outcome === 'unknown' || answer.body.retry_safe === true) return
  // Perhaps by this very refund, whose answer was lost.
  else if (answer.body.code === 'ORDER_ALREADY_REFUNDED') return
  else refund.told = 'refused'
}

function sendRefund(
  lane: Lane,
  refund: Pick<LogicalRefund, 'orderId' | 'amountCents'>,
  key: string | undefined,
  label: string,
): Promise<Answer> {
  return send(lane, { label, path: '/orders/refund', key, body: refundBody(refund) })
}

function refundBody({
  orderId,
  amountCents,
}: Pick<LogicalRefund, 'orderId' | 'amountCents'>): Body {
  return { order_id: orderId, ...(amountCents !== null && { amount: erpAmount(amountCents) }) }
}

/** One request stands still between two of its steps for longer than its claim lasts, and then goes on. */
async function standsStill(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const snag = drawSnag(lane, 'stall')
  const trouble = await troubled(lane, snag)
  if (!trouble) return
  try {
    await Promise.race([snag.reached, trouble.answered])
    for (let round = 0; round < draw.int('rounds', 1, 3); round += 1) {
      await pause()
      if (draw.maybe(`repeats ${round}`, 0.7)) await trouble.repeat(`repeat ${round}`)
      if (draw.maybe(`leaves ${round}`, 0.7)) await leaveTerminal(lane)
      if (draw.maybe(`cancels ${round}`, 0.3))
        await cancelKnown(lane, trouble.sale, `cancel ${round}`)
    }
  } finally {
    lane.history.push('what stood still goes on')
    snag.release()
    await trouble.answered
  }
  await afterTrouble(lane, pause, trouble)
}

/** The database of one request's process goes away at one of its steps. */
async function databaseGoesAway(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const snag = drawSnag(lane, 'cut')
  const trouble = await troubled(lane, snag)
  if (!trouble) return
  await trouble.answered
  if (draw.maybe('token refused', 0.3)) {
    await arm(lane, { path: '^/v1/', kind: 'status', status: 401, code: 'unauthorized', count: 3 })
  }
  if (draw.maybe('asks nobody', 0.4)) {
    lane.isEager = true
    for (let round = 0; round < 4; round += 1) await pause()
    return
  }
  await trouble.repeat('repeat')
  await afterTrouble(lane, pause, trouble)
}

/** Between any two steps, most often between those that follow the intent. */
function drawSnag({ draw, history }: Lane, kind: Snag['kind']): Snag {
  const isAfterIntent = draw.maybe('after the intent', 0.7)
  const at = draw.int('step', 1, isAfterIntent ? 4 : 9)
  history.push(`${kind} after step ${at}${isAfterIntent ? ' from the intent on' : ''}`)
  return createSnag(
    kind,
    at,
    isAfterIntent ? /insert into "?(orders|order_operations)\b/ : undefined,
  )
}

type Trouble = {
  operation: 'charge' | 'refund' | 'cancel'
  sale: Sale
  orderId: string | undefined
  answered: Promise<void>
  /** The till sends the same again, to a sound process. */
  repeat(label: string): Promise<void>
}

/** Begins a charge, a refund or a cancel in the process with the snag. */
async function troubled(lane: Lane, snag: Snag): Promise<Trouble | undefined> {
  const { draw } = lane
  const operation = draw.weigh('operation', { charge: 4, refund: 4, cancel: 2 })
  const sale = newSale(lane, operation)
  lane.isEager = operation === 'charge' && draw.maybe('eager', 0.5)
  const key = draw.maybe('keyed', 0.6) ? `${sale.reference}-key` : undefined
  if (draw.maybe('lost too', 0.3)) {
    const call = { charge: creation, refund: refunding, cancel: canceling }[operation]
    await arm(lane, {
      ...call,
      kind: draw.pick('how lost', ['drop_after', 'drop_before', 'status_after']),
      count: 1,
    })
  }
  if (operation === 'charge') {
    if (draw.maybe('taken', 0.6)) await takeTerminal(lane)
    const ask = async (label: string, snagOfIt?: Snag) => {
      const before = new Set(ordersOf(lane).map((order) => order.id))
      const body = {
        caja_id: 'CAJA-1',
        external_reference: sale.reference,
        amount: erpAmount(sale.amountCents),
      }
      const answer = await send(lane, {
        label,
        path: '/orders',
        key,
        body,
        ...(snagOfIt && { snag: snagOfIt }),
      })
      rememberOrder(sale, key, answer)
      rememberCharge(sale, [answer], before, label)
    }
    return {
      operation,
      sale,
      orderId: undefined,
      answered: ask('troubled', snag),
      repeat: (label) => ask(label),
    }
  }
  const orderId =
    operation === 'refund' ? await soldOrder(lane, sale) : await waitingOrder(lane, sale)
  if (orderId === undefined) return undefined
  if (operation === 'cancel') {
    const body = { order_id: orderId }
    const path = '/orders/cancel'
    return {
      operation,
      sale,
      orderId,
      answered: send(lane, { label: 'troubled', path, body, snag }).then(() => {}),
      repeat: async (label) => void (await cancelKnown(lane, sale, label)),
    }
  }
  // In part only with a key: without one the second of two equal requests may be another refund.
  const isPart = key !== undefined && draw.maybe('in part', 0.6)
  const amountCents = isPart ? Math.floor(sale.amountCents / 3) : null
  const refund: LogicalRefund = { orderId, amountCents, told: 'unknown' }
  sale.refunds.push(refund)
  const body = refundBody(refund)
  const answered = send(lane, { label: 'troubled', path: '/orders/refund', key, body, snag })
  return {
    operation,
    sale,
    orderId,
    answered: answered.then((answer) => hear(refund, answer)),
    repeat: async (label) => hear(refund, await sendRefund(lane, refund, key, label)),
  }
}

async function afterTrouble(lane: Lane, pause: Pause, trouble: Trouble): Promise<void> {
  await pause()
  await readSale(lane, trouble.sale, 'read')
  await pause()
  await leaveTerminal(lane)
  if (trouble.operation === 'charge' || lane.draw.maybe('repeats later', 0.6)) {
    await trouble.repeat('later')
    await pause()
  }
}

/** A charge that never reached the provider is given up; whatever reaches the terminal after that is paid at once. */
async function cancelsUnknown(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'given-up')
  lane.isEager = true
  await arm(
    lane,
    draw.maybe('late', 0.3)
      ? { ...late(lane, creation, 'late'), count: 20 }
      : { ...creation, kind: draw.pick('kind', ['drop_before', '503', 'drop_before']), count: 20 },
  )
  if (draw.maybe('no search', 0.3))
    await arm(lane, { ...creation, method: 'GET', kind: '500', count: 3 })
  const key = draw.maybe('keyed', 0.5) ? `${sale.reference}-1` : undefined
  const body = {
    caja_id: 'CAJA-1',
    external_reference: sale.reference,
    amount: erpAmount(sale.amountCents),
  }
  const before = new Set(ordersOf(lane).map((order) => order.id))
  const answer = await send(lane, { label: 'charge', path: '/orders', key, body })
  rememberOrder(sale, key, answer)
  rememberCharge(sale, [answer], before, 'charge')
  if (draw.maybe('first pause', 0.4)) await pause()
  await cancelKnown(lane, sale, 'cancel')
  if (draw.maybe('heals at once', 0.6)) await heal(lane)
  await pause()
  if (draw.maybe('reads', 0.5)) await readSale(lane, sale, 'read')
  if (draw.maybe('cancels again', 0.4)) await cancelKnown(lane, sale, 'cancel again')
  await pause()
  await heal(lane)
  await pause()
}

/** Somebody in the provider's panel gives money back or cancels, and often no webhook tells. */
async function panel(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'panel')
  if (draw.maybe('no webhooks', 0.6)) {
    lane.hasWebhooks = false
    await arm(lane, { path: '', kind: 'missing' })
  }
  if (draw.maybe('cancels', 0.25)) {
    await waitingOrder(lane, sale)
    const waiting = onTerminal(lane)
    if (waiting) await buyer(lane, waiting, { do: 'panel_cancel' })
    if (draw.maybe('pauses', 0.5)) await pause()
    await chargeUntilKnown(lane, sale, undefined, 'again')
    await pause()
    return
  }
  const orderId = await soldOrder(lane, sale)
  if (orderId === undefined) return
  if (draw.maybe('in part before', 0.3)) {
    const cents = Math.floor(sale.amountCents / 7)
    await refundOnce(lane, sale, orderId, cents, `${sale.reference}-part`, 'part')
  }
  await panelRefund(lane, draw.maybe('all', 0.15) ? null : Math.floor(sale.amountCents / 3))
  if (draw.maybe('pauses', 0.4)) await pause()
  if (draw.maybe('lost', 0.4)) {
    await arm(lane, {
      ...refunding,
      kind: draw.pick('how lost', ['drop_after', '503', 'status_after']),
      count: 1,
    })
  }
  if (draw.maybe('unread', 0.3)) await arm(lane, { ...reading, kind: '503', count: 4 })
  const amountCents = draw.maybe('total', 0.7) ? null : Math.floor(sale.amountCents / 5)
  await refundOnce(lane, sale, orderId, amountCents, `${sale.reference}-refund`, 'refund')
  if (draw.maybe('panel again', 0.3)) await panelRefund(lane, 100)
  await pause()
  await readSale(lane, sale, 'read')
}

async function panelRefund(lane: Lane, amountCents: number | null): Promise<void> {
  for (const order of ordersOf(lane)) {
    const known = new Set(order.refunds.map((refund) => refund.id))
    await buyer(lane, order, {
      do: 'refund',
      ...(amountCents !== null && { amount: (amountCents / 100).toFixed(2) }),
    })
    const after = ordersOf(lane).find(({ id }) => id === order.id)
    for (const { id } of after?.refunds ?? []) if (!known.has(id)) lane.panelRefunds.add(String(id))
  }
}

/** The provider shows states and payments that contradict each other, and the box must sell on. */
async function strangeEvidence(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  const sale = newSale(lane, 'strange')
  await waitingOrder(lane, sale)
  const waiting = onTerminal(lane)
  if (!waiting) return
  const isPaid = draw.maybe('paid', 0.5)
  const isEarly = draw.maybe('early', 0.5)
  const end = () => buyer(lane, waiting, isPaid ? payByCard : { do: 'cancel' })
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
  lane.strange.add(waiting.id)
  lane.history.push(`the provider shows ${JSON.stringify(shown)} for ${waiting.id}`)
  const { services } = lane.world
  const path = `/_sandbox/orders/${waiting.id}/shown`
  await sandboxCall(services[0], 'PUT', path, shown)
  await pause()
  await readSale(lane, sale, 'read')
  if (draw.maybe('cashier cancels', 0.4)) await cancelKnown(lane, sale, 'cancel')
  if (!isEarly) await end()
  await pause()
  if (draw.maybe('truth again', 0.5)) await sandboxCall(services[0], 'PUT', path, null)
  await readSale(lane, sale, 'read again')
}

async function neighbour(lane: Lane, pause: Pause): Promise<void> {
  const { draw } = lane
  await arm(lane, {
    path: draw.pick('path', ['/', '^/v1/orders', '^/terminals']),
    kind: draw.pick('kind', ['hang_before', 'hang_after']),
    count: 2,
    skip: draw.int('skip', 0, 4),
  })
  await playSale(lane, pause)
}
