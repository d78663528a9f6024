import { setTimeout as wait } from 'node:timers/promises'
import { payByCard } from '../support/till.ts'
import {
  type Answer,
  buyer,
  onTerminal,
  openSale,
  type Sending,
  type SimulatedTill,
  send,
} from './simulated-till.ts'

/**
 * One sale after the other until `stop`; the sale under way is finished. With `isPatient` a till that gets no answer
 * gives up only some time after the stop, when there are no faults any more.
 */
export async function sell(
  till: SimulatedTill,
  stop: AbortSignal,
  isPatient = false,
): Promise<void> {
  let stoppedAt = Number.POSITIVE_INFINITY
  stop.addEventListener('abort', () => {
    stoppedAt = performance.now()
  })
  const givesUp: GivesUp = (since) =>
    performance.now() > (isPatient ? Math.max(since, stoppedAt) : since) + patienceMs
  for (let number = 0; !stop.aborted; number += 1) {
    await sellOnce(till, number, givesUp).catch((error: unknown) => {
      till.problems.push(`the till itself failed: ${error instanceof Error ? error.stack : error}`)
    })
  }
}

/** Whether a till that began to ask at this moment gives up. */
type GivesUp = (since: number) => boolean

type Kind = 'pay' | 'pay and refund' | 'cancel'

async function sellOnce(till: SimulatedTill, number: number, givesUp: GivesUp): Promise<void> {
  const { draw } = till
  const persist = (sending: Sending) => untilAnswered(till, sending, givesUp)
  const label = (name: string) => `sale ${number} ${name}`
  const sale = openSale(
    till,
    `K${till.shop.mpUserId}-${number}`,
    draw.int(label('amount'), 500, 90_000),
  )
  const key = draw.maybe(label('keyed'), 0.5) ? `${sale.reference}-charge` : undefined
  const amount = (sale.amountCents / 100).toFixed(2).replace('.', ',')
  const charged = await persist({
    label: label('charge'),
    path: '/orders',
    key,
    body: { caja_id: 'CAJA-1', external_reference: sale.reference, amount },
  })
  if (charged.status >= 300) {
    till.problems.push(`${label('charge')} ended with ${charged.status} ${charged.body.code}`)
    return
  }
  const orderId = String(charged.body.order_id)
  if (key !== undefined) sale.ordersByKey.set(key, new Set([orderId]))
  const kind = draw.weigh<Kind>(label('kind'), { pay: 1, 'pay and refund': 3, cancel: 3 })
  if (kind === 'cancel') {
    const path = '/orders/cancel'
    const canceled = await persist({
      label: label('cancel'),
      path,
      body: { order_id: orderId },
    })
    if (canceled.status === 200) sale.canceled.add(orderId)
    else till.problems.push(`${label('cancel')} ended with ${canceled.status}`)
    return
  }
  const waiting = onTerminal(till)
  if (waiting) await buyer(till, waiting, payByCard)
  const read = await persist({ label: label('read'), path: `/orders/${orderId}` })
  if (read.body.status !== 'processed' || kind === 'pay') return
  const isPart = draw.maybe(label('in part'), 0.5)
  const amountCents = isPart ? Math.floor(sale.amountCents / 3) : null
  const refund = { orderId, amountCents, reported: 'unknown' as 'done' | 'unknown' }
  sale.refunds.push(refund)
  const refunded = await persist({
    label: label('refund'),
    path: '/orders/refund',
    key: `${sale.reference}-refund`,
    body: {
      order_id: orderId,
      ...(amountCents !== null && { amount: (amountCents / 100).toFixed(2).replace('.', ',') }),
    },
  })
  if (refunded.status === 200) refund.reported = 'done'
}

/** Longer than any outcome may take after a kill. */
const patienceMs = 90_000

/** Repeats a request until it is answered with anything but outcome `unknown` or `retry_safe`. */
async function untilAnswered(
  till: SimulatedTill,
  sending: Sending,
  givesUp: GivesUp,
): Promise<Extract<Answer, { kind: 'answered' }>> {
  const since = performance.now()
  for (;;) {
    const answer = await send(till, sending)
    till.history.length = 0
    const isOpen =
      answer.kind === 'lost' ||
      answer.body.outcome === 'unknown' ||
      (answer.status >= 400 && answer.body.retry_safe === true)
    const isAnswered = answer.kind === 'answered' && (answer.status < 300 || !isOpen)
    const isLast = givesUp(since)
    if (answer.kind === 'answered' && (isAnswered || isLast)) return answer
    if (isLast) return { kind: 'answered', status: 504, body: { code: 'no answer' } }
    await wait(50)
  }
}
