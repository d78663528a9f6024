import type { Dispatcher } from 'undici'
import { RequestFailure, type RequestMethod } from '../net/request.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { describeRefusal, secretsOf } from './http-excerpt.ts'
import { type Answer, exchange } from './http-exchange.ts'
import { checkTemplate, fillHeader, fillUrl, TemplateError } from './http-template.ts'
import { postponed, refused } from './result.ts'

export type RequestTemplate = {
  method: RequestMethod
  /** With `{pk}` and `{jobKey}`. */
  url: string
  /** With `{pk}` and `{jobKey}`. */
  headers: Readonly<Record<string, string>>
  /** Statuses of success; every 2xx when absent. */
  okStatus?: readonly number[] | undefined
}

export type HttpSettings = {
  request: RequestTemplate
  delete?: RequestTemplate | undefined
  /** Of one delivery. */
  timeoutMs: number
  /** Statuses worth another attempt; 408, 425, 429 and all from 500 when absent. */
  retryStatus?: readonly number[] | undefined
  respectRetryAfter: boolean
  agent: Dispatcher
  now: () => Date
}

const maxAnswerBytes = 65_536
const retriedStatuses = [408, 425, 429]

/**
 * Sends each item as JSON. Every request carries `idempotency-key` (the same for each attempt of one content) unless the
 * definition sets that header itself. Redirects are not followed.
 *
 * @throws TemplateError when the host of an address depends on the item.
 */
export function openHttpDestination(settings: HttpSettings): Destination {
  checkTemplate(settings.request.url)
  if (settings.delete) checkTemplate(settings.delete.url)

  const deliver = async (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const made = requestOf(settings, job)
    if ('problem' in made) return refused(made.problem)
    try {
      const answer = await exchange({
        ...made.request,
        agent: settings.agent,
        timeoutMs: settings.timeoutMs,
        maxBytes: maxAnswerBytes,
        signal,
        now: () => settings.now().getTime(),
      })
      return judge(settings, made.template, answer)
    } catch (error) {
      if (error instanceof RequestFailure) return ofFailure(error, signal)
      throw error
    }
  }
  return {
    deliver,
    refusalOf(job) {
      const made = requestOf(settings, job)
      return 'problem' in made ? made.problem : undefined
    },
    close: async () => {},
  }
}

type Request = Pick<Parameters<typeof exchange>[0], 'method' | 'url' | 'headers' | 'body'>

/** The request of a job, or why there is none. */
function requestOf(
  settings: HttpSettings,
  job: DeliveryJob,
): { template: RequestTemplate; request: Request } | { problem: string } {
  const template = job.kind === 'delete' ? settings.delete : settings.request
  if (!template) return { problem: 'the destination has no delete request' }
  const isEmpty = job.body === undefined || job.body === null
  if (isEmpty && job.kind === 'upsert') return { problem: 'the mapping made nothing of the item' }
  try {
    return { template, request: fillRequest(template, job) }
  } catch (error) {
    if (error instanceof TemplateError) return { problem: error.message }
    throw error
  }
}

function fillRequest(template: RequestTemplate, job: DeliveryJob): Request {
  const { method } = template
  const hasBody =
    method !== 'GET' && method !== 'DELETE' && job.body !== undefined && job.body !== null
  const headers: Record<string, string> = {
    accept: 'application/json',
    'user-agent': 'tillbridge',
    'idempotency-key': job.jobKey,
    ...(hasBody && { 'content-type': 'application/json' }),
  }
  for (const [name, value] of Object.entries(template.headers)) {
    headers[name.toLowerCase()] = fillHeader(value, job)
  }
  return {
    method,
    url: fillUrl(template.url, job),
    headers,
    ...(hasBody && { body: JSON.stringify(job.body) }),
  }
}

function judge(settings: HttpSettings, template: RequestTemplate, answer: Answer): DeliveryResult {
  const { status, retryAfterSeconds } = answer
  const { okStatus } = template
  if (okStatus ? okStatus.includes(status) : status >= 200 && status <= 299) {
    return { ok: true, status }
  }

  const secrets = secretsOf(template)
  const reason = `HTTP ${status} ${describeRefusal(answer, secrets)}`.trim()
  const { retryStatus } = settings
  const isRetried = retryStatus
    ? retryStatus.includes(status)
    : status >= 500 || retriedStatuses.includes(status)
  // A status that is not retried still tells that the receiver as a whole is in trouble.
  const outage = status >= 500 || status === 429
  if (!isRetried) return { ...refused(explain(status, reason), { status }), outage }
  const wish = settings.respectRetryAfter ? retryAfterSeconds : null
  return postponed(reason, {
    outage,
    status,
    ...(wish !== null && { retryAfterSeconds: wish }),
  })
}

function explain(status: number, reason: string): string {
  return status >= 300 && status <= 399 ? `${reason} (redirects are not followed)` : reason
}

function ofFailure(failure: RequestFailure, signal: AbortSignal): DeliveryResult {
  switch (failure.kind) {
    case 'refused_address':
      return refused(failure.message)
    case 'aborted':
      // The caller's own clock tells about the receiver; a stop of the service does not.
      return postponed(failure.message, { outage: signal.reason?.name === 'TimeoutError' })
    case 'network':
      // A header that no request can hold: the next attempt would be the same.
      if (failure.code === 'UND_ERR_INVALID_ARG')
        return refused('a header has a value that cannot be sent')
      return postponed(failure.message, { outage: true })
    default:
      return postponed(failure.message, { outage: true })
  }
}
