import type { Reason } from '../../domain/flow-reasons.ts'
import type { Answer } from '../../outbound/exchange.ts'
import { shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import type { DeliveryJob, DeliveryResult, Remembered } from '../types.ts'
import type { Judge as StatusJudge } from './http-judge.ts'
import { jsonOf } from './http-text.ts'
import { gone, postponed, refused } from './result.ts'

/** What a batch is made of, and what its answer says of each item. */
export type BatchRules = {
  /** JSONata over `{ items, pks, jobKeys, remembered }`; without it the list of the items' bodies. */
  body?: string | undefined
  /** JSONata over `{ status, body }`, a list with an entry per item; without it the status is that of them all. */
  answers?: string | undefined
}

export type Batch = {
  /** The body of a request. Rejects with BatchError. */
  bodyOf(jobs: readonly DeliveryJob[]): Promise<unknown>
  /** What became of each item, by an answer that says that the batch was taken. */
  resultsOf(answer: Answer, jobs: readonly DeliveryJob[]): Promise<readonly DeliveryResult[]>
}

/** The rules of a batch do not suit what they are given; `message` is for the operator. */
export class BatchError extends Error {}

type Judge = Pick<StatusJudge, 'judgeRetry' | 'isRetried'> & {
  /** What a status of an item means, with what was said beside it. */
  judgeStatus(answer: Pick<Answer, 'status' | 'retryAfterSeconds'>, said: string): DeliveryResult
}
/** Takes out what an answer may repeat and nobody may see; before anything is cut, or a part of it would be left. */
type Hide = (text: string) => string

export function compileBatch(rules: BatchRules, judge: Judge, hide: Hide): Batch {
  const body = rules.body === undefined ? undefined : compileExpression(rules.body)
  const answers = rules.answers === undefined ? undefined : compileExpression(rules.answers)
  return {
    async bodyOf(jobs) {
      const items = jobs.map((job) => job.body)
      if (!body) return items
      const [pks, jobKeys] = [jobs.map(({ pk }) => pk), jobs.map(({ jobKey }) => jobKey)]
      const remembered = jobs.map((job) => job.remembered ?? {})
      const made = await evaluate('body', hide, () =>
        body.evaluate({ items, pks, jobKeys, remembered }),
      )
      if (made === undefined || made === null) throw new BatchError('batch.body gives nothing')
      return made
    },
    async resultsOf(answer, jobs) {
      const { status } = answer
      if (!answers) return jobs.map(() => ({ ok: true, status }))
      try {
        const document = jsonOf(answer)
        if (document === undefined) throw new BatchError('the answer to the batch is no JSON')
        const found = await evaluate('answers', hide, () =>
          answers.evaluate({ status, body: document }),
        )
        // JSONata makes a list of one into its entry.
        const list = Array.isArray(found) ? found : found === undefined ? [] : [found]
        if (list.length === jobs.length)
          return list.map((entry) => resultOf(entry, answer, judge, hide))
        throw new BatchError(`the answer tells of ${list.length} items of ${jobs.length}`)
      } catch (error) {
        if (!(error instanceof BatchError)) throw error
        // Nobody knows what became of them; under their keys they may be sent again.
        const why: Reason = { code: 'BATCH_UNREADABLE', data: { said: error.message } }
        return jobs.map(() => judge.judgeRetry(answer, why))
      }
    },
  }
}

/**
 * An entry: a status, `true` or nothing for done, `false` for refused, or `{ ok, status, error, remember, is }`, where an
 * `error` alone is a refusal for good. `is: "retry"` asks for another attempt, which knows by then what is to be remembered: so
 * an item that is there already, under an id that nobody heard of, is changed instead of created. `is: "gone"` has it created anew.
 * `is: "apart"` has it sent by the request for single items, where it is looked for.
 */
function resultOf(entry: unknown, answer: Answer, judge: Judge, hide: Hide): DeliveryResult {
  const { status, retryAfterSeconds } = answer
  const byStatus = (own: number, said: string) =>
    judge.judgeStatus({ status: own, retryAfterSeconds }, said)
  if (entry === null || entry === true) return { ok: true, status }
  if (entry === false) return refused({ code: 'BATCH_REFUSED' }, { status })
  if (typeof entry === 'number') return byStatus(entry, '')
  if (typeof entry !== 'object') {
    const data = { said: shorten(hide(String(entry)), 200) }
    return refused({ code: 'BATCH_UNKNOWN', data }, { status })
  }
  const { ok, status: own, error, remember, is } = entry as Record<string, unknown>
  const said = error === undefined || error === null ? '' : wordsOf(error, hide)
  const saidOr = (code: 'BATCH_GONE' | 'BATCH_APART' | 'BATCH_AGAIN' | 'BATCH_REFUSED'): Reason =>
    said === '' ? { code } : { code: 'BATCH_SAID', data: { said } }
  const done = (): DeliveryResult =>
    isRemembered(remember) ? { ok: true, status, remember } : { ok: true, status }
  // The same order as of a single item: a status that may pass comes before what is said beside it.
  if (typeof own === 'number' && judge.isRetried(own)) {
    const failure = byStatus(own, said)
    return isRemembered(remember) ? { ...failure, remember } : failure
  }
  if (is === 'gone') return gone(saidOr('BATCH_GONE'), status)
  if (is === 'apart') {
    return { ...postponed(saidOr('BATCH_APART'), { outage: false, status }), apart: true }
  }
  if (is === 'retry') {
    const failure = judge.judgeRetry(answer, saidOr('BATCH_AGAIN'))
    return isRemembered(remember) ? { ...failure, remember } : failure
  }
  if (typeof own === 'number') {
    const judged = byStatus(own, said)
    return judged.ok ? { ...done(), ...judged } : judged
  }
  if (ok === true || (ok === undefined && said === '')) return done()
  return refused(saidOr('BATCH_REFUSED'), { status })
}

function isRemembered(value: unknown): value is Remembered {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((one) => ['string', 'number', 'boolean'].includes(typeof one))
  )
}

function wordsOf(error: unknown, hide: Hide): string {
  return shorten(hide(typeof error === 'string' ? error : JSON.stringify(error)), 200)
}

async function evaluate(name: string, hide: Hide, work: () => Promise<unknown>): Promise<unknown> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ExpressionError) || error.outOfTime) throw error
    throw new BatchError(`batch.${name} failed: ${shorten(hide(error.message), 200)}`, {
      cause: error,
    })
  }
}
