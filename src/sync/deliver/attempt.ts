import type { OwedRow } from '../../repositories/deliveries.ts'
import { splitKey } from '../item/key.ts'
import { shorten } from '../mapping/excerpt.ts'
import { MappingError } from '../mapping.ts'
import type { QueueLog } from '../queue/queue-log.ts'
import type { DeliveryJob, DeliveryResult, Destination, DestinationDefinition } from '../types.ts'
import { backoffMs, wishMs } from './backoff.ts'
import type { Gate } from './gate.ts'
import type { ItemBody } from './item-body.ts'
import { jobKey } from './job-key.ts'
import type { Failure, Outcome, Tried } from './outcome.ts'

export type AttemptDeps = {
  now: () => Date
  /** From 0 to below 1; spreads the pauses between attempts. */
  random: () => number
  log: QueueLog
  /**
   * How long an attempt may go on beyond its time, in milliseconds. It is waited for, since a second one beside it could
   * overtake it; a store with many boxes takes minutes at the provider.
   */
  overrunMs?: number
}

/** A destination that is open, with all that an attempt needs of its definition. */
export type OpenDestination = {
  flow: string
  /** How many fields the items' key has. */
  keyFields: number
  definition: Pick<DestinationDefinition, 'name' | 'retry' | 'timeoutMs'>
  destination: Destination
  body: ItemBody
  gate: Gate
}

type Answer = DeliveryResult | 'thrown' | 'overdue'
type Refusal = Extract<DeliveryResult, { ok: false }>

const longestOverrunMs = 5 * 60_000
const longestReason = 1_000

/**
 * One attempt to deliver a row. Never rejects for what the item, its mapping or the destination does. When `signal` aborts
 * the attempt is broken off and does not count, unless the destination has answered that it arrived.
 */
export async function attemptDelivery(
  deps: AttemptDeps,
  target: OpenDestination,
  pk: string,
  row: OwedRow | undefined,
  signal: AbortSignal,
): Promise<Outcome> {
  if (row?.state !== 'waiting') return { kind: 'nothing' }
  const { version, kind, hash, payload: item } = row
  if (item === null) throw new Error('a delivery that waits has no item')
  const { definition, gate } = target
  const attempt = row.attempts + 1
  const tried: Tried = { version, change: kind, hash }

  let body: unknown
  try {
    body = await target.body(kind, item)
  } catch (error) {
    if (!(error instanceof MappingError)) throw error
    const failed = failure(error.message, attempt)
    return error.outOfTime
      ? again(deps, definition, tried, failed)
      : { kind: 'final', ...tried, failure: failed }
  }
  const begun = gate.begin()
  if ('waitMs' in begun) return { kind: 'postponed', version, delayMs: begun.waitMs }

  const job = jobOf(target, { pk, kind, hash, item, body, attempt })
  const answer = await ask(deps, target, job, signal)
  if (typeof answer === 'object' && answer.ok) {
    begun.report('answered')
    return { kind: 'delivered', ...tried, attempts: attempt, status: answer.status ?? null }
  }
  if (signal.aborted) {
    begun.report('unknown')
    return { kind: 'postponed', version, delayMs: 0 }
  }
  const refusal = refusalOf(answer, definition.timeoutMs)
  if (answer === 'thrown') begun.report('unknown')
  else begun.report(refusal.outage ? 'outage' : 'answered')
  const { retryable, reason, status, retryAfterSeconds } = refusal
  if (refusal.outage) gate.hush(wishMs(retryAfterSeconds))
  const failed = failure(reason, attempt, status)
  if (!retryable) return { kind: 'final', ...tried, failure: failed }
  return again(deps, definition, tried, failed, retryAfterSeconds)
}

/** What a destination is asked to do. */
export function jobOf(
  { flow, keyFields, definition }: Pick<OpenDestination, 'flow' | 'keyFields' | 'definition'>,
  owed: Pick<DeliveryJob, 'pk' | 'kind' | 'item' | 'body' | 'attempt'> & { hash: string },
): DeliveryJob {
  const { hash, ...rest } = owed
  const { pk, kind } = rest
  const destination = definition.name
  const key = splitKey(pk, keyFields) ?? [pk]
  return { ...rest, flow, destination, key, jobKey: jobKey({ flow, destination, pk, hash, kind }) }
}

/** Another attempt, later, while there are any left. */
function again(
  { random }: AttemptDeps,
  { retry }: OpenDestination['definition'],
  tried: Tried,
  failed: Failure,
  retryAfterSeconds?: number,
): Outcome {
  if (failed.attempts >= retry.attempts) return { kind: 'final', ...tried, failure: failed }
  const delayMs = backoffMs(retry, failed.attempts, { random, retryAfterSeconds })
  return { kind: 'retry', ...tried, failure: failed, delayMs }
}

/** The destination's answer, within its time and what it may overrun. */
async function ask(
  deps: AttemptDeps,
  { destination, definition }: OpenDestination,
  job: DeliveryJob,
  signal: AbortSignal,
): Promise<Answer> {
  const { flow, pk } = job
  const about = { flow, destination: job.destination, pk }
  const own = new AbortController()
  const overdue = Promise.withResolvers<Answer>()
  let patience: NodeJS.Timeout | undefined
  const giveUp = (reason: unknown) => {
    if (patience) return
    own.abort(reason)
    patience = setTimeout(() => {
      deps.log.error(about, 'a destination does not end its attempt; it is no longer waited for')
      overdue.resolve('overdue')
    }, deps.overrunMs ?? longestOverrunMs)
  }
  const letGo = () => giveUp(signal.reason)
  signal.addEventListener('abort', letGo, { once: true })
  if (signal.aborted) letGo()
  const timer = setTimeout(
    () => giveUp(new DOMException('the attempt took too long', 'TimeoutError')),
    definition.timeoutMs,
  )
  const deliver = async (): Promise<Answer> => {
    try {
      return await destination.deliver(job, own.signal)
    } catch (error) {
      // Told to break off, it may do so by throwing.
      if (own.signal.aborted) return 'overdue'
      deps.log.error({ ...about, err: error }, 'a destination failed unexpectedly')
      return 'thrown'
    }
  }
  try {
    return await Promise.race([deliver(), overdue.promise])
  } finally {
    clearTimeout(timer)
    clearTimeout(patience)
    signal.removeEventListener('abort', letGo)
  }
}

function refusalOf(answer: Answer, timeoutMs: number): Refusal {
  if (answer === 'overdue') {
    const reason = `no answer within ${timeoutMs / 1_000} s`
    return { ok: false, retryable: true, outage: true, reason }
  }
  if (typeof answer === 'object' && !answer.ok) return answer
  // What an error says may hold data or addresses; only our own words are kept.
  const reason = 'the destination failed unexpectedly; see the log'
  return { ok: false, retryable: true, outage: false, reason }
}

function failure(reason: string, attempts: number, status?: number): Failure {
  return { reason: reasonText(reason), status: status ?? null, attempts }
}

/** A reason as it is kept: not too long, and without NUL, which the database holds in no text. */
export function reasonText(reason: string): string {
  return shorten(reason.replaceAll('\0', ''), longestReason)
}
