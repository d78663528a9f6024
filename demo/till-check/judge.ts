import type { LedgerOrder } from '../../sandbox/ledger.ts'
import type { SentRequest } from './line.ts'

/** What a till did wrong, a sentence each. None: it did right. */
export type Problems = string[]

const keyOf = ({ headers }: SentRequest) => headers['idempotency-key']
const contentOf = ({ body }: SentRequest) => JSON.stringify(body)

/** The charges that a till sent. */
export const chargesOf = (sent: readonly SentRequest[]) =>
  sent.filter(({ method, path }) => method === 'POST' && path === '/orders')

/** The refunds that a till sent. */
export const refundsOf = (sent: readonly SentRequest[]) =>
  sent.filter(({ method, path }) => method === 'POST' && path === '/orders/refund')

/** One request, sent `times` at least, is always the same: key and content. */
export function judgeRepeats(
  requests: readonly SentRequest[],
  { what, times = 1 }: { what: 'charge' | 'refund'; times?: number },
): Problems {
  const [first] = requests
  if (first === undefined) return [`the till sent no ${what}`]
  const keys = new Set(requests.map(keyOf))
  const problems: Problems = []
  if (keys.has(undefined)) problems.push(`the till sent a ${what} without Idempotency-Key`)
  if (requests.length < times) problems.push(`the till did not send the ${what} again`)
  if (keys.size > 1) problems.push(`the till sent the ${what} again with another Idempotency-Key`)
  else if (new Set(requests.map(contentOf)).size > 1)
    problems.push(`the till sent the ${what} again with another content`)
  return problems
}

/** A charge after one that failed has a new key. */
export function judgeNewKey(charges: readonly SentRequest[]): Problems {
  if (charges.length < 2) return ['the till did not charge the ticket again']
  return new Set(charges.map(keyOf)).size < 2
    ? ['the till charged again with the Idempotency-Key of the charge that failed']
    : []
}

/** The buyer paid once. */
export function judgeOnePayment(orders: readonly LedgerOrder[]): Problems {
  const paid = orders.filter(({ paid_amount: amount }) => amount !== null)
  if (paid.length === 1) return []
  return [
    paid.length === 0 ? 'the sale is not charged' : `the sale is charged ${paid.length} times`,
  ]
}

/** The till ended as it must. */
export function judgeEnd(isDone: boolean, must: boolean, after: string): Problems {
  if (isDone === must) return []
  return [must ? `the till does not say done ${after}` : `the till says done ${after}`]
}

/** Of a second of which a timer may be early. */
const marginMs = 100

/** After an answer that says when, or `leastMs`, and not before. */
export function judgePauses(charges: readonly SentRequest[], leastMs: number): Problems {
  const early = charges.some(({ answer }, index) => {
    const next = charges[index + 1]
    if (next === undefined || answer === undefined || answer.status < 400) return false
    return next.sentAt < answer.at + Math.max(answer.retryAfterMs, leastMs) - marginMs
  })
  return early
    ? ['the till sent the charge again too early: wait for Retry-After, or one second']
    : []
}
