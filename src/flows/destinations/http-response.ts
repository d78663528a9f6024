import type { Answer } from '../../outbound/guarded-request.ts'
import { isPassingStatus } from '../../outbound/retry.ts'
import type { Reason } from '../../texts/reason.ts'
import { shorten } from '../mapping/excerpt.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { answerText, describeRefusal, jsonOf } from '../net/http-text.ts'
import { maskSecrets } from '../net/mask-secrets.ts'
import type { DeliveryJob, DeliveryResult, HttpDefinition } from '../types.ts'
import { type ExpectedBody, foreignReason, isGraphqlFailure, isSuccess } from './answer-origin.ts'
import { foreign, gone, postponed, refused } from './delivery-result.ts'
import type { RequestTemplate } from './http-request.ts'

export type JudgeSettings = Pick<HttpDefinition['retry'], 'retryStatus' | 'respectRetryAfter'> & {
  /** A receiver's own meaning of certain responses. */
  answers?: HttpDefinition['answers']
  /** Secrets that a response may repeat and no message may contain. */
  secrets: () => readonly string[]
}

/** The kind of the request, with its mapped body and remembered values. */
type SentJob = Pick<DeliveryJob, 'kind' | 'body' | 'remembered' | 'attempt'>

export type Judge = {
  /**
   * A response that is not from this API, as its body shows, is an outage, unless a rule with `done` names it. Then a retried
   * status decides, unless a rule names it. Otherwise the first matching rule decides. Rejects with ExpressionError when a rule
   * exceeded its time limit.
   */
  judge(
    template: RequestTemplate,
    answer: Answer,
    job: SentJob,
    expected: ExpectedBody,
  ): Promise<DeliveryResult>
  /** The result of a response that is not from this API. */
  judgeForeign(answer: Answer, what: Reason): DeliveryResult
  /** The result by the status alone. */
  judgeStatus(
    template: RequestTemplate,
    answer: Pick<Answer, 'status' | 'retryAfterSeconds'>,
    why: Reason,
  ): DeliveryResult
  /** Requests another attempt, after the pause that the receiver asks for. */
  judgeRetry(
    answer: Pick<Answer, 'status' | 'retryAfterSeconds'>,
    why: Reason,
  ): Extract<DeliveryResult, { ok: false }>
  /** Whether the status alone causes another attempt. */
  isRetried(status: number): boolean
}

const longestText = 65_536
/** Of a text that a rule gives, before secrets are removed. */
const longestSaid = 4_000

export function createJudge(settings: JudgeSettings): Judge {
  const rules = (settings.answers ?? []).map(({ when, ...rule }) => ({
    ...rule,
    when: when === undefined ? undefined : compileExpression(when),
  }))

  const isRetried = (status: number) =>
    settings.retryStatus ? settings.retryStatus.includes(status) : isPassingStatus(status)

  const ruleFor = async (answer: Answer, job: SentJob) => {
    const { status } = answer
    for (const rule of rules) {
      // A rule without a status looks at the body, which means little in the response of a failing server.
      if (rule.status ? !rule.status.includes(status) : isRetried(status)) continue
      const found = rule.when ? await evaluate(rule.when, answer, job) : true
      if (found === true) return { is: rule.is, said: '' }
      if (typeof found === 'string' && found !== '') return { is: rule.is, said: shownText(found) }
    }
    return undefined
  }

  const shownText = (text: string) =>
    shorten(maskSecrets(text.slice(0, longestSaid), settings.secrets(), '[masked]'), 200)

  const reasonOfRule = (answer: Answer, said: string): Reason => {
    const { status } = answer
    if (said === '') return reasonOf(answer)
    return isSuccess(status)
      ? { code: 'ANSWER_DIFFERS', data: { status, said } }
      : { code: 'HTTP_STATUS', data: { status, said } }
  }

  /** A success that differs from what was sent may come from a cache. So the first one is repeated. */
  const judgeFinal = (answer: Answer, said: string, { attempt }: SentJob): DeliveryResult => {
    const why = reasonOfRule(answer, said)
    const mayPass = why.code === 'ANSWER_DIFFERS' && attempt <= 1
    return mayPass ? judgeRetry(answer, why) : refused(why, { status: answer.status })
  }

  const reasonOf = (answer: Answer): Reason => {
    const secrets = settings.secrets()
    const to = maskSecrets(redirectOrigin(answer), secrets, '[masked]')
    const said = describeRefusal(answer, secrets)
    return {
      code: 'HTTP_STATUS',
      data: { status: answer.status, ...(to !== '' && { to }), ...(said !== '' && { said }) },
    }
  }

  const judgeForeign: Judge['judgeForeign'] = (answer, what) => {
    const { status, retryAfterSeconds } = answer
    const to = maskSecrets(redirectOrigin(answer), settings.secrets(), '[masked]')
    const pauseSeconds = settings.respectRetryAfter ? retryAfterSeconds : null
    return foreign(
      { code: 'FOREIGN_ANSWER', data: { status, what, ...(to !== '' && { to }) } },
      { status, ...(pauseSeconds !== null && { retryAfterSeconds: pauseSeconds }) },
    )
  }

  const judgeRetry: Judge['judgeRetry'] = ({ status, retryAfterSeconds }, why) => {
    const pauseSeconds = settings.respectRetryAfter ? retryAfterSeconds : null
    return postponed(why, {
      outage: isOutage(status),
      status,
      ...(pauseSeconds !== null && { retryAfterSeconds: pauseSeconds }),
    })
  }

  const judgeStatus: Judge['judgeStatus'] = (template, { status, retryAfterSeconds }, why) => {
    if (isDone(template, status)) return { ok: true, status }
    if (isRetried(status)) return judgeRetry({ status, retryAfterSeconds }, why)
    // A status excluded from retries can still mean an outage of the receiver.
    return { ...refused(explained(status, why), { status }), outage: isOutage(status) }
  }

  return {
    judgeStatus,
    judgeRetry,
    judgeForeign,
    isRetried,
    judge: async (template, answer, job, expected) => {
      const { status } = answer
      const rule = rules.length > 0 ? await ruleFor(answer, job) : undefined
      if (rule?.is === 'done') return { ok: true, status }
      // A rule that matches shows that the definition knows this body, unless it is a page.
      const what = foreignReason(answer, rule ? 'any' : expected)
      if (what) return judgeForeign(answer, what)
      if (isGraphqlFailure(answer)) {
        return { ...judgeRetry(answer, reasonOf(answer)), outage: true }
      }
      if (rule?.is === 'final') return judgeFinal(answer, rule.said, job)
      if (rule?.is === 'retry') return judgeRetry(answer, reasonOfRule(answer, rule.said))
      if (rule?.is === 'gone') return gone(reasonOfRule(answer, rule.said), status)
      if (isDone(template, status)) return { ok: true, status }
      return judgeStatus(template, answer, reasonOf(answer))
    },
  }
}

/** True, or a text that says what is wrong, when the rule holds. */
async function evaluate(
  when: ReturnType<typeof compileExpression>,
  answer: Answer,
  { kind, body: sent = null, remembered = {} }: SentJob,
): Promise<unknown> {
  const { status } = answer
  const text = answerText(answer).slice(0, longestText)
  try {
    const body = jsonOf(answer) ?? null
    return await when.evaluate({ status, body, text, kind, sent, remembered })
  } catch (error) {
    // A rule that fails on a response does not apply. After a timeout it is unknown whether it applies.
    if (error instanceof ExpressionError && !error.outOfTime) return false
    throw error
  }
}

function isOutage(status: number): boolean {
  return status >= 500 || status === 429
}

function isDone({ okStatus }: RequestTemplate, status: number): boolean {
  return okStatus ? okStatus.includes(status) : isSuccess(status)
}

/** Usually the target is https or has `www`, and the flow file must use that address. */
function redirectOrigin({ status, headers }: Answer): string {
  if (status < 300 || status > 399) return ''
  const target = URL.parse(String(headers.location))
  return target?.host ? target.origin : ''
}

function explained(status: number, why: Reason): Reason {
  const isRedirect = why.code === 'HTTP_STATUS' && status >= 300 && status <= 399
  return isRedirect ? { ...why, code: 'HTTP_REDIRECT' } : why
}
