import { isRecord } from '../../domain/json.ts'
import type { Answer } from '../../outbound/guarded-request.ts'
import { type Reason, ReasonError } from '../../texts/reason.ts'
import { shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError, shortReason } from '../mapping/expression-error.ts'
import { jsonOf } from '../net/http-text.ts'
import type { DeliveryJob, DeliveryResult, HttpDefinition, Remembered } from '../types.ts'
import { gone, postponed, refused } from './delivery-result.ts'
import type { Judge } from './http-response.ts'

/** How a batch request is built and its response is read. */
export type BatchRules = Pick<NonNullable<HttpDefinition['batch']>, 'body' | 'answers'>

type Batch = {
  /** The body of the request. Rejects with BatchError. */
  bodyOf(jobs: readonly DeliveryJob[]): Promise<unknown>
  /** The result of each item, from a successful response. */
  resultsOf(answer: Answer, jobs: readonly DeliveryJob[]): Promise<readonly DeliveryResult[]>
}

/** A batch expression failed or returned an unexpected value. */
export class BatchError extends ReasonError {}

type BatchJudge = Pick<Judge, 'judgeRetry' | 'judgeForeign' | 'isRetried'> & {
  /** The result for an item's own status, with the text of its entry. */
  judgeStatus(answer: Pick<Answer, 'status' | 'retryAfterSeconds'>, said: string): DeliveryResult
}
/** Removes secrets that a response may repeat. Called before a text is shortened, because a part of a secret is a secret too. */
type Hide = (text: string) => string

export function compileBatch(rules: BatchRules, judge: BatchJudge, hide: Hide): Batch {
  const body = rules.body === undefined ? undefined : compileExpression(rules.body)
  const answers = rules.answers === undefined ? undefined : compileExpression(rules.answers)
  return {
    async bodyOf(jobs) {
      const items = jobs.map((job) => job.body)
      if (!body) return items
      const [pks, jobKeys] = [jobs.map(({ pk }) => pk), jobs.map(({ jobKey }) => jobKey)]
      const remembered = jobs.map((job) => job.remembered ?? {})
      const made = await evaluate('BATCH_BODY_FAILED', hide, () =>
        body.evaluate({ items, pks, jobKeys, remembered }),
      )
      if (made === undefined || made === null) throw new BatchError({ code: 'BATCH_BODY_NOTHING' })
      return made
    },
    async resultsOf(answer, jobs) {
      const { status } = answer
      if (!answers) return jobs.map(() => ({ ok: true, status }))
      try {
        const document = jsonOf(answer)
        if (document === undefined) throw new BatchError({ code: 'BATCH_NO_JSON' })
        const [items, pks] = [jobs.map(({ body: sent }) => sent), jobs.map(({ pk }) => pk)]
        const found = await evaluate('BATCH_ANSWERS_FAILED', hide, () =>
          answers.evaluate({ status, body: document, items, pks }),
        )
        // JSONata returns a list of one entry as that entry.
        const list = Array.isArray(found) ? found : found === undefined ? [] : [found]
        if (list.length === jobs.length)
          return list.map((entry) => resultOf(entry, answer, judge, hide))
        if (!isRecord(document)) {
          return jobs.map(() => judge.judgeForeign(answer, { code: 'BODY_NO_OBJECT' }))
        }
        const data = { count: list.length, items: jobs.length }
        throw new BatchError({ code: 'BATCH_COUNT', data })
      } catch (error) {
        if (!(error instanceof BatchError)) throw error
        // The results of the items are unknown. Another attempt is safe, because they keep their idempotency keys.
        return jobs.map(() => judge.judgeRetry(answer, error.why))
      }
    },
  }
}

/**
 * Reads an entry. A number is a status; `true` or null means done, `false` refused. An object is `{ ok, status, error,
 * remember, is }`; an `error` alone is a permanent refusal.
 *
 * - `is: "retry"`: another attempt with the remembered values. An existing item with an unknown id is then changed instead of
 *   created.
 * - `is: "gone"`: the next attempt creates the item again.
 * - `is: "apart"`: the item is sent again in a request for single items, which looks it up first.
 */
function resultOf(entry: unknown, answer: Answer, judge: BatchJudge, hide: Hide): DeliveryResult {
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
  const reasonOr = (
    code: 'BATCH_GONE' | 'BATCH_APART' | 'BATCH_AGAIN' | 'BATCH_REFUSED',
  ): Reason => (said === '' ? { code } : { code: 'BATCH_SAID', data: { said } })
  const done = (): DeliveryResult =>
    isRemembered(remember) ? { ok: true, status, remember } : { ok: true, status }
  // As for single items, a temporary status takes precedence over the rest of the entry.
  if (typeof own === 'number' && judge.isRetried(own)) {
    const failure = byStatus(own, said)
    return isRemembered(remember) ? { ...failure, remember } : failure
  }
  if (is === 'gone') return gone(reasonOr('BATCH_GONE'), status)
  if (is === 'apart') {
    return { ...postponed(reasonOr('BATCH_APART'), { outage: false, status }), apart: true }
  }
  if (is === 'retry') {
    const failure = judge.judgeRetry(answer, reasonOr('BATCH_AGAIN'))
    return isRemembered(remember) ? { ...failure, remember } : failure
  }
  if (typeof own === 'number') {
    const judged = byStatus(own, said)
    if (!judged.ok) return judged
    // The status of an entry may only repeat that of the whole response.
    if (ok === true || ok === undefined) return { ...done(), ...judged }
  }
  if (ok === true || (ok === undefined && said === '')) return done()
  return refused(reasonOr('BATCH_REFUSED'), { status })
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

async function evaluate(
  code: 'BATCH_BODY_FAILED' | 'BATCH_ANSWERS_FAILED',
  hide: Hide,
  work: () => Promise<unknown>,
): Promise<unknown> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof ExpressionError) || error.outOfTime) throw error
    const what = shortReason(error, { most: 200, hide })
    throw new BatchError({ code, data: { what } }, { cause: error })
  }
}
