import {
  chargesOf,
  judgeEnd,
  judgeNewKey,
  judgeOnePayment,
  judgePauses,
  judgeRepeats,
  type Problems,
  refundsOf,
} from './judge.ts'
import { otherSale, type Stage } from './stage.ts'

/** One of the ten cases that a till must pass: docs/how-to/test-a-till.md shows the same table. */
export type Case = {
  id: string
  happens: string
  /** What the till must do. */
  must: string
  play(stage: Stage): Promise<Problems>
}

const amount = '1234,50'

/** One charge, whatever happens meanwhile: done at the end, one key, one payment. */
async function playOneCharge(stage: Stage, { times }: { times: number }): Promise<Problems> {
  const { isDone } = await stage.run('charge', stage.newTicket(), amount)
  return [
    ...judgeRepeats(chargesOf(stage.sent()), { what: 'charge', times }),
    ...judgeEnd(isDone, true, 'at the end'),
    ...judgeOnePayment(await stage.orders()),
  ]
}

/** The situation of the sandbox holds until the till has its first answer. */
async function playSituation(stage: Stage, situation: string): Promise<Problems> {
  await stage.sandbox('POST', `/situations/${situation}`)
  const played = playOneCharge(stage, { times: 2 })
  await stage.until(() => chargesOf(stage.sent()).some(({ answer }) => answer !== undefined))
  await stage.sandbox('DELETE', '/faults')
  return [...(await played), ...judgePauses(chargesOf(stage.sent()), 1000)]
}

/** A charge of another application is on the terminal; answers its id. */
async function takeTerminal(stage: Stage): Promise<string> {
  const { id } = await stage.sandbox('POST', '/orders', {
    type: 'point',
    external_reference: otherSale,
    transactions: { payments: [{ amount: '5.00' }] },
    config: { point: { terminal_id: await stage.terminalId() } },
  })
  return String(id)
}

async function playBusy(stage: Stage): Promise<Problems> {
  const ticket = stage.newTicket()
  const other = await takeTerminal(stage)
  const first = stage.till.start('charge', ticket, amount)
  const isBusy = () =>
    chargesOf(stage.sent()).some(({ answer }) => answer?.body?.code === 'TERMINAL_BUSY')
  await Promise.race([stage.until(isBusy), first.ended])
  const ended = await endsWithin(first.ended, stage.till.busyMs)
  const pauses = judgePauses(chargesOf(stage.sent()), 1000)
  await stage.sandbox('POST', `/orders/${other}/act`, { do: 'cancel' })
  const { isDone } =
    ended === undefined ? await first.ended : await stage.run('charge', ticket, amount)
  return [
    ...judgeEnd(ended?.isDone ?? false, false, 'while the terminal is busy'),
    ...pauses,
    ...judgeEnd(isDone, true, 'when the terminal is free'),
    ...judgeOnePayment(await stage.orders([other])),
  ]
}

async function endsWithin<T>(ended: Promise<T>, ms: number): Promise<T | undefined> {
  if (ms === Infinity) return await ended
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  return await Promise.race([ended, late]).finally(() => clearTimeout(timer))
}

async function playCancel(stage: Stage): Promise<Problems> {
  const ticket = stage.newTicket()
  stage.buyer.does = 'nothing'
  await stage.holdTerminal()
  const charge = stage.till.start('charge', ticket, amount)
  const isThere = async () => (await stage.orders()).length > 0
  if (!(await stage.until(isThere))) return ['the till sent no charge']
  stage.line.loseAnswers(1)
  const canceled = await stage.run('cancel', ticket)
  const waited = await charge.ended
  stage.buyer.does = 'pay'
  const again = await stage.run('charge', ticket, amount)
  const orders = await stage.orders()
  return [
    ...judgeEnd(canceled.isDone, true, 'after the cancel'),
    ...(orders[0]?.status === 'canceled' ? [] : ['the order is not canceled']),
    ...judgeEnd(waited.isDone, false, 'for the charge that was canceled'),
    ...judgeNewKey(chargesOf(stage.sent())),
    ...judgeEnd(again.isDone, true, 'for the second charge'),
    ...judgeOnePayment(orders),
  ]
}

async function playRefund(stage: Stage): Promise<Problems> {
  const ticket = stage.newTicket()
  const charged = await stage.run('charge', ticket, amount)
  stage.line.loseAnswers(1)
  const part = await stage.run('refund', ticket, '234,50')
  const parts = refundsOf(stage.sent())
  const rest = await stage.run('refund', ticket)
  const third = await stage.run('refund', ticket)
  const [order] = await stage.orders()
  return [
    ...judgeEnd(charged.isDone, true, 'after the charge'),
    ...judgeRepeats(parts, { what: 'refund', times: 2 }),
    ...judgeEnd(part.isDone, true, 'after the first refund'),
    ...judgeEnd(rest.isDone, true, 'after the second refund'),
    ...judgeEnd(third.isDone, false, 'after a third refund, of which nothing is left'),
    ...(order?.refunds.length === 2 && order.refunded_amount === order.paid_amount
      ? []
      : [`the shop refunded ${order?.refunded_amount} of ${order?.paid_amount}`]),
  ]
}

/** In the order in which they are played; the first one finds the terminal. */
export const cases: readonly Case[] = [
  {
    id: 'paid',
    happens: 'The customer pays',
    must: 'say that it is charged',
    play: (stage) => playOneCharge(stage, { times: 1 }),
  },
  {
    id: 'declined',
    happens: 'The bank declines the card; then the ticket is charged again',
    must: 'say that it is not charged; charge with a new key',
    async play(stage) {
      const ticket = stage.newTicket()
      stage.buyer.does = 'decline'
      const declined = await stage.run('charge', ticket, amount)
      stage.buyer.does = 'pay'
      const paid = await stage.run('charge', ticket, amount)
      return [
        ...judgeEnd(declined.isDone, false, 'though the bank declined'),
        ...judgeNewKey(chargesOf(stage.sent())),
        ...judgeEnd(paid.isDone, true, 'for the second charge'),
        ...judgeOnePayment(await stage.orders()),
      ]
    },
  },
  {
    id: 'canceled',
    happens:
      'The cashier cancels at the till, and the answer is lost; then the ticket is charged again',
    must: 'say that it is not charged; charge with a new key',
    play: playCancel,
  },
  {
    id: 'answer_lost',
    happens: 'The answer to the charge is lost twice on the way to the till',
    must: 'send the same request with the same key until it is answered',
    async play(stage) {
      stage.line.loseAnswers(2)
      return await playOneCharge(stage, { times: 3 })
    },
  },
  {
    id: 'killed',
    happens: 'The till is killed after it sent the charge, and starts again',
    must: 'send the same request with the same key after its start',
    async play(stage) {
      const charge = stage.till.start('charge', stage.newTicket(), amount)
      stage.line.beforeAnswer(charge.kill)
      await charge.ended
      const { isDone } = await stage.run('resume')
      return [
        ...judgeRepeats(chargesOf(stage.sent()), { what: 'charge', times: 2 }),
        ...judgeEnd(isDone, true, 'after its start'),
        ...judgeOnePayment(await stage.orders()),
      ]
    },
  },
  {
    id: 'network_down',
    happens: 'The network fails while the customer pays',
    must: 'read the order again until its outcome is known',
    async play(stage) {
      stage.line.cutReads(3)
      return await playOneCharge(stage, { times: 1 })
    },
  },
  {
    id: 'provider_down',
    happens: 'Mercado Pago is down: 504 PROVIDER_TIMEOUT',
    must: 'send the same request with the same key, after one second',
    play: (stage) => playSituation(stage, 'provider_down'),
  },
  {
    id: 'throttled',
    happens: 'Mercado Pago has too many requests: 429 RATE_LIMITED',
    must: 'send the same request with the same key, after Retry-After',
    play: (stage) => playSituation(stage, 'provider_throttles'),
  },
  {
    id: 'terminal_busy',
    happens: 'Another charge is on the terminal: 409 TERMINAL_BUSY',
    must: 'say that it is not charged; charge when the terminal is free',
    play: playBusy,
  },
  {
    id: 'refunded',
    happens: 'A part is refunded, and the answer is lost; then the rest; then a third time',
    must: 'send the same refund with the same key; refund the rest; refuse the third',
    play: playRefund,
  },
]
