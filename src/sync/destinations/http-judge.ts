import type { Reason } from '../../domain/flow-reasons.ts'
import type { Answer } from '../../outbound/exchange.ts'
import { isPassingStatus } from '../../outbound/guarded-request.ts'
import { compileExpression } from '../mapping/expression.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { hideTexts } from '../net/hidden-texts.ts'
import type { DeliveryJob, DeliveryResult } from '../types.ts'
import { describeRefusal } from './http-excerpt.ts'
import type { RequestTemplate } from './http-request.ts'
import { jsonOf, textOf } from './http-text.ts'
import { gone, postponed, refused } from './result.ts'

/** What an answer means, where the receiver has its own ways. */
export type AnswerRule = {
  /** When absent, any status that is not worth another attempt by itself. */
  status?: readonly number[] | undefined
  /** JSONata over `{ status, body, text, kind, sent, remembered }`; the rule holds when it is true. */
  when?: string | undefined
  /** `gone`: the receiver has the item no longer; what is remembered of it holds no more. */
  is: 'done' | 'final' | 'retry' | 'gone'
}

export type JudgeSettings = {
  /** Statuses worth another attempt; 408, 409, 423, 425, 429 and all from 500 when absent. */
  retryStatus?: readonly number[] | undefined
  respectRetryAfter: boolean
  answers?: readonly AnswerRule[] | undefined
  /** What answers may repeat and nobody may see. */
  secrets: () => readonly string[]
}

/** What was asked for, with which mapped body and remembered values. */
type Asked = Pick<DeliveryJob, 'kind' | 'body' | 'remembered'>

export type Judge = {
  /**
   * By the status when it is one worth another attempt, unless a rule names it; else by the first rule that holds. Rejects with
   * ExpressionError when the time of a rule was up.
   */
  judge(template: RequestTemplate, answer: Answer, asked: Asked): Promise<DeliveryResult>
  /** By a status alone. */
  judgeStatus(
    template: RequestTemplate,
    answer: Pick<Answer, 'status' | 'retryAfterSeconds'>,
    why: Reason,
  ): DeliveryResult
  /** Another attempt is asked for, after the pause that the receiver asks for. */
  judgeRetry(
    answer: Pick<Answer, 'status' | 'retryAfterSeconds'>,
    why: Reason,
  ): Extract<DeliveryResult, { ok: false }>
  /** Whether the status by itself is worth another attempt. */
  isRetried(status: number): boolean
}

const longestText = 65_536

export function createJudge(settings: JudgeSettings): Judge {
  const rules = (settings.answers ?? []).map(({ when, ...rule }) => ({
    ...rule,
    when: when === undefined ? undefined : compileExpression(when),
  }))

  const isRetried = (status: number) =>
    settings.retryStatus ? settings.retryStatus.includes(status) : isPassingStatus(status)

  const ruleFor = async (answer: Answer, asked: Asked) => {
    const { status } = answer
    for (const rule of rules) {
      // A body that a rule without a status looks for says little where the receiver is in trouble.
      if (rule.status ? !rule.status.includes(status) : isRetried(status)) continue
      if (!rule.when || (await holds(rule.when, answer, asked))) return rule.is
    }
    return undefined
  }

  const reasonOf = (answer: Answer): Reason => {
    const secrets = settings.secrets()
    const to = hideTexts(redirectOrigin(answer), secrets, '[masked]')
    const said = describeRefusal(answer, secrets)
    return {
      code: 'HTTP_STATUS',
      data: { status: answer.status, ...(to !== '' && { to }), ...(said !== '' && { said }) },
    }
  }

  const judgeRetry: Judge['judgeRetry'] = ({ status, retryAfterSeconds }, why) => {
    const wish = settings.respectRetryAfter ? retryAfterSeconds : null
    return postponed(why, {
      outage: isOutage(status),
      status,
      ...(wish !== null && { retryAfterSeconds: wish }),
    })
  }

  const judgeStatus: Judge['judgeStatus'] = (template, { status, retryAfterSeconds }, why) => {
    if (isDone(template, status)) return { ok: true, status }
    if (isRetried(status)) return judgeRetry({ status, retryAfterSeconds }, why)
    // A status that is not retried still tells that the receiver as a whole is in trouble.
    return { ...refused(explained(status, why), { status }), outage: isOutage(status) }
  }

  return {
    judgeStatus,
    judgeRetry,
    isRetried,
    judge: async (template, answer, asked) => {
      const { status } = answer
      const rule = rules.length > 0 ? await ruleFor(answer, asked) : undefined
      if (rule === 'done') return { ok: true, status }
      if (rule === 'final') return refused(reasonOf(answer), { status })
      if (rule === 'retry') return judgeRetry(answer, reasonOf(answer))
      if (rule === 'gone') return gone(reasonOf(answer), status)
      if (isDone(template, status)) return { ok: true, status }
      return judgeStatus(template, answer, reasonOf(answer))
    },
  }
}

async function holds(
  when: ReturnType<typeof compileExpression>,
  answer: Answer,
  { kind, body: sent = null, remembered = {} }: Asked,
): Promise<boolean> {
  const { status } = answer
  const text = textOf(answer).slice(0, longestText)
  try {
    const body = jsonOf(answer) ?? null
    return (await when.evaluate({ status, body, text, kind, sent, remembered })) === true
  } catch (error) {
    // An answer that it does not suit is not what it looks for. When its time was up, nobody knows.
    if (error instanceof ExpressionError && !error.outOfTime) return false
    throw error
  }
}

function isOutage(status: number): boolean {
  return status >= 500 || status === 429
}

function isDone({ okStatus }: RequestTemplate, status: number): boolean {
  return okStatus ? okStatus.includes(status) : status >= 200 && status <= 299
}

/** Mostly it is https, or a host with `www`, and the address in the file has to say so. */
function redirectOrigin({ status, headers }: Answer): string {
  if (status < 300 || status > 399) return ''
  const target = URL.parse(String(headers.location))
  return target?.host ? target.origin : ''
}

function explained(status: number, why: Reason): Reason {
  const isRedirect = why.code === 'HTTP_STATUS' && status >= 300 && status <= 399
  return isRedirect ? { ...why, code: 'HTTP_REDIRECT' } : why
}
