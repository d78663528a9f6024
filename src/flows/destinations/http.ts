import { createHash } from 'node:crypto'
import { type Answer, guardedRequest, RequestFailure } from '../../outbound/guarded-request.ts'
import { orAborted } from '../../outbound/send-attempt.ts'
import type { Reason } from '../../texts/reason.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { maskSecrets, secretsOf } from '../net/mask-secrets.ts'
import { type OAuthSettings, openTokens, TokenBlockedError } from '../oauth/access-tokens.ts'
import { TokenError } from '../oauth/token-request.ts'
import type {
  DeliveryJob,
  DeliveryResult,
  Destination,
  HttpDefinition,
  Remembered,
} from '../types.ts'
import { type ExpectedBody, isSuccess, readsJson } from './answer-origin.ts'
import { aborted, blocked, foreign, gone, postponed, refused } from './delivery-result.ts'
import type { DestinationContext } from './destination-context.ts'
import { BatchError, type BatchRules, compileBatch } from './http-batch.ts'
import { TemplateError } from './http-body.ts'
import {
  compileLookups,
  type Lookups,
  type LookupTemplate,
  notFoundStatuses,
  type SendRequest,
} from './http-lookup.ts'
import { compileRememberedValues, type RememberedValueRules } from './http-remembered-values.ts'
import {
  compileRequest,
  type Request,
  type RequestMaker,
  type RequestTemplate,
  requestKey,
} from './http-request.ts'
import { createJudge, type JudgeSettings } from './http-response.ts'
import { isHtmlPage, jsonOf } from './http-text.ts'

export type { RequestTemplate } from './http-request.ts'

export type HttpSettings = {
  /** For upserts. With `create`, only for items that exist at the receiver. */
  request: RequestTemplate
  /** For items without remembered values. */
  create?: RequestTemplate | undefined
  /** Lookups before an item is created, changed or deleted. */
  find?: readonly LookupTemplate[] | undefined
  /** With `keeps` the receiver keeps the item in another state, so its remembered values stay. */
  delete?: (RequestTemplate & { keeps?: boolean | undefined }) | undefined
  /** Values of responses that are stored with the item. */
  remember?: RememberedValueRules | undefined
  /** For upserts that are sent together. */
  batch?: (BatchRules & { size: number; request: RequestTemplate }) | undefined
  usedBy?: { flow: string; destination: string }
  /** Values of items must not lead out of the address of the connection. */
  staysBelow?: boolean
  auth?: OAuthSettings | undefined
} & Partial<Pick<HttpDefinition, 'send' | 'sign'>> &
  Pick<HttpDefinition, 'timeoutMs'> &
  Omit<JudgeSettings, 'secrets'> &
  Pick<DestinationContext, 'agent' | 'grants' | 'now'>

type Judged = { answer: Answer; judged: DeliveryResult }

/** A response with a product, its variants and texts is long, and a value to remember may be anywhere in it. */
const maxAnswerBytes = 1_048_576
/** The response to a batch contains all its items. */
const maxBatchAnswerBytes = 8 * 1_048_576
const unauthorized = 401
/** Statuses that refuse a value of the request. */
const valueRefusals: readonly number[] = [400, 422]
/** An attempt after which an answer that differs is not asked for again. */
const lastAttempt = Number.MAX_SAFE_INTEGER
/** A message shows 200 characters of a response. Processing all of a large one would block the event loop. */
const maxMessageCharacters = 4_000

/**
 * Sends each item by HTTP, by default as JSON. Every request has the header `idempotency-key`, unless the definition sets it:
 * one value for all attempts of a change. Redirects are not followed.
 */
export function openHttpDestination(settings: HttpSettings): Destination {
  const { create, batch, agent, timeoutMs, respectRetryAfter } = settings
  const { sign, now, staysBelow } = settings
  const rules = { send: settings.send ?? 'json', sign, now, staysBelow } as const
  const requests = {
    request: compileRequest(settings.request, rules),
    create: create && compileRequest(create, rules),
    delete: settings.delete && compileRequest(settings.delete, rules),
    batch: batch && compileRequest(batch.request, rules),
  }
  const parts = settings.request.parts?.map((body) =>
    compileRequest({ ...settings.request, body }, rules),
  )
  const templates = [
    ...Object.values(requests).map((one) => one?.template),
    ...(settings.find ?? []),
  ]
  const secrets = templates.flatMap((one) => (one ? secretsOf(one) : []))
  const usedBy = settings.usedBy ?? { flow: '', destination: '' }
  const tokens =
    settings.auth && openTokens(settings.auth, settings.grants, { agent, timeoutMs, usedBy })
  let shown: readonly string[] = secrets
  const hide = (text: string) => maskSecrets(text.slice(0, maxMessageCharacters), shown, '[masked]')
  const memory = settings.remember && compileRememberedValues(settings.remember, hide)
  const judge = createJudge({ ...settings, secrets: () => shown })
  const expected: ExpectedBody = readsJson(settings) ? 'object' : 'any'
  /** A list counts where it has the values to remember, as PostgREST answers. */
  const expectedIn = async (answer: Answer, pk: string): Promise<ExpectedBody> => {
    if (!memory || !Array.isArray(jsonOf(answer))) return expected
    const extracted = await memory.of(answer, pk)
    return extracted && 'values' in extracted ? 'json' : expected
  }
  const lookups =
    settings.find &&
    compileLookups(settings.find, {
      compile: (template) => compileRequest(template, rules),
      remember: settings.remember,
      hide,
      judge,
    })

  const lookUp = async (job: DeliveryJob, sendRequest: SendRequest): ReturnType<Lookups['find']> =>
    lookups ? await lookups.find(job, sendRequest) : { remembered: job.remembered }

  const send = async (
    request: Request,
    job: Pick<DeliveryJob, 'mayStart'>,
    signal: AbortSignal,
    maxBytes = maxAnswerBytes,
  ): Promise<Answer> => {
    const token = await (tokens && orAborted(signal, tokens.get()))
    if (tokens) shown = [...secrets, ...tokens.secrets()]
    const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await guardedRequest({
      ...request,
      mayCut: true,
      headers: { ...request.headers, ...bearer },
      agent,
      timeoutMs,
      maxBytes,
      signal,
      mayStart: job.mayStart,
      now: () => settings.now().getTime(),
    })
    if (token !== undefined && answer.status === unauthorized && !isHtmlPage(answer)) {
      tokens?.refused(token)
      throw new TokenError(answer.status, false)
    }
    return answer
  }

  const judgeUpsert = async (
    { template }: RequestMaker,
    answer: Answer,
    job: DeliveryJob,
  ): Promise<Judged> => {
    const body = await expectedIn(answer, job.pk)
    return { answer, judged: await judge.judge(template, answer, job, body) }
  }

  /** Sends the parts of a refused request. Returns the refusal, unless the receiver takes all parts or must be asked again. */
  const orParts = async (
    whole: Judged,
    job: DeliveryJob,
    sendRequest: SendRequest,
  ): Promise<Judged> => {
    if (!parts || whole.judged.ok || whole.judged.retryable) return whole
    if (!valueRefusals.includes(whole.answer.status)) return whole
    let result: Judged | undefined
    for (const part of parts) {
      const request = await part.make(job)
      if (request.body === undefined) continue
      // The answer shows the old values of the other parts, which is no reason for another attempt.
      const last = { ...job, attempt: lastAttempt }
      const sent = await judgeUpsert(part, await sendRequest(request), last)
      if (!sent.judged.ok && sent.judged.retryable) return sent
      if (!sent.judged.ok) result = whole
      else result ??= sent
    }
    return result ?? whole
  }

  const deliverUpsert = async (
    job: DeliveryJob,
    sendRequest: SendRequest,
  ): Promise<DeliveryResult> => {
    const known = await lookUp(job, sendRequest)
    if ('failed' in known) return known.failed
    const { found, remembered, fresh } = known
    const isNew = remembered === undefined && requests.create !== undefined
    const maker = (isNew && requests.create) || requests.request
    const jobWithValues = withRemembered(job, fresh ? { ...remembered, ...fresh } : remembered)
    const request = await maker.make(jobWithValues)
    const whole = await judgeUpsert(maker, await sendRequest(request), jobWithValues)
    const { answer, judged } =
      maker === requests.request ? await orParts(whole, jobWithValues, sendRequest) : whole
    if (!judged.ok && judged.isForeign) return judged
    if (judged.ok) {
      if (!memory) return judged
      const extracted = await memory.of(answer, job.pk)
      if (extracted && 'values' in extracted) return { ...judged, remember: extracted.values }
      if (found) return { ...judged, remember: found }
      if (remembered) return judged
      const later = await lookUp(job, sendRequest)
      if ('failed' in later) return later.failed
      if (later.found) return { ...judged, remember: later.found }
      const { status } = answer
      const data = { status, said: extracted?.unclear }
      return refused({ code: 'NOT_REMEMBERED', data }, { status })
    }
    if (!isNew && requests.create && notFoundStatuses.includes(answer.status)) {
      const { status } = answer
      return gone({ code: 'GONE', data: { status } }, status)
    }
    // The response may have values for the next attempt, such as the item's id.
    const mayHaveValues = judged.retryable && !judged.forget && !judge.isRetried(answer.status)
    const extracted = mayHaveValues ? await memory?.of(answer, job.pk) : undefined
    return extracted && 'values' in extracted ? { ...judged, remember: extracted.values } : judged
  }

  const deliverDelete = async (
    job: DeliveryJob,
    sendRequest: SendRequest,
  ): Promise<DeliveryResult> => {
    if (!requests.delete) return refused(noDelete)
    const known = await lookUp(job, sendRequest)
    if ('failed' in known) {
      // The item no longer exists at the receiver.
      return !known.failed.ok && known.failed.forget
        ? doneDelete(known.failed.status)
        : known.failed
    }
    const { remembered, fresh } = known
    // The item does not exist at the receiver.
    if (!remembered && lookups?.hasSearch) return { ok: true }
    const jobWithValues = withRemembered(job, fresh ? { ...remembered, ...fresh } : remembered)
    const answer = await sendRequest(await requests.delete.make(jobWithValues))
    const body = await expectedIn(answer, job.pk)
    const judged = await judge.judge(requests.delete.template, answer, jobWithValues, body)
    if (!judged.ok && !judged.forget) return judged
    const { status } = answer
    if (settings.delete?.keeps && judged.ok && isSuccess(status)) {
      const extracted = await memory?.of(answer, job.pk)
      const kept = extracted && 'values' in extracted ? extracted.values : remembered
      return { ok: true, status, ...(kept && { remember: kept }) }
    }
    return doneDelete(status)
  }

  const doneDelete = (status: number | undefined): DeliveryResult => ({
    ok: true,
    ...(status !== undefined && { status }),
    ...(memory && { forget: true }),
  })

  const orFailure = async <T>(signal: AbortSignal, work: () => Promise<T>) => {
    try {
      return await work()
    } catch (error) {
      if (error instanceof RequestFailure) return ofFailure(error, signal, timeoutMs)
      if (error instanceof TokenBlockedError) return blocked(error.why, error.checkAgainMs)
      // The next attempt requests a new token.
      if (error instanceof TokenError) {
        const extra = {
          ...(error.status !== undefined && { status: error.status }),
          ...(respectRetryAfter &&
            error.retryAfterSeconds !== null && { retryAfterSeconds: error.retryAfterSeconds }),
        }
        if (error.isForeign) return foreign(error.why, extra)
        return postponed(error.why, { outage: error.isOutage, ...extra })
      }
      // The machine may be busy. The result is unknown until the expression finishes.
      if (error instanceof ExpressionError && error.outOfTime) {
        const data = { said: error.why }
        return postponed({ code: 'MAPPING_TIMEOUT', data }, { outage: false })
      }
      if (error instanceof BatchError || error instanceof TemplateError) return refused(error.why)
      throw error
    }
  }

  const deliver = (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const problem = problemOf(job)
    if (problem !== undefined) return Promise.resolve(refused(problem))
    const sendRequest: SendRequest = (request) => send(request, job, signal)
    return orFailure(signal, () =>
      (job.kind === 'delete' ? deliverDelete : deliverUpsert)(job, sendRequest),
    )
  }

  const problemOf = (job: DeliveryJob): Reason | undefined => {
    const empty = emptyProblem(job)
    if (empty !== undefined) return empty
    if (job.kind === 'delete' && !requests.delete) return noDelete
    // A lookup finds the missing values later.
    const lookup = lookups?.firstFor(job.remembered)
    if (lookup) return lookup.problemOf(job)
    const isNew = job.remembered === undefined && requests.create !== undefined
    const maker =
      job.kind === 'delete' ? requests.delete : isNew ? requests.create : requests.request
    return maker?.problemOf(job)
  }

  const compiled =
    batch &&
    compileBatch(
      batch,
      {
        ...judge,
        judgeStatus: (answer, said) =>
          judge.judgeStatus(batch.request, answer, {
            code: 'HTTP_STATUS',
            data: { status: answer.status, ...(said !== '' && { said }) },
          }),
      },
      hide,
    )

  /** Returns a single result when it applies to all items; `apart` when smaller batches must follow. */
  const sendTogether = async (
    jobs: readonly DeliveryJob[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[] | DeliveryResult | 'apart'> => {
    const [first] = jobs
    if (!first || !compiled || !requests.batch) return []
    const problem = jobs.map(emptyProblem).find((found) => found !== undefined)
    if (problem !== undefined) return refused(problem)
    const { method, url } = requests.batch.template
    const address = { method, url: url.reveal() }
    // Each item gets the key that a request with only this item would have.
    const items = jobs.map((job) => ({
      ...job,
      jobKey: requestKey(job.jobKey, { ...address, body: JSON.stringify(job.body) }),
    }))
    const keys = JSON.stringify(items.map(({ jobKey }) => jobKey))
    const together: DeliveryJob = {
      ...first,
      pk: '',
      // Key of the whole request; `jobKeys` are the keys of the items.
      jobKey: createHash('sha256').update(keys).digest('hex'),
      body: await compiled.bodyOf(items),
      // All jobs are called, because each call records that its item may have arrived.
      mayStart: () => jobs.map((job) => job.mayStart()).every(Boolean),
    }
    const request = await requests.batch.make(together)
    const answer = await send(request, together, signal, maxBatchAnswerBytes)
    const body = batch?.answers === undefined ? expected : 'json'
    const whole = await judge.judge(requests.batch.template, answer, together, body)
    // The results of the items are lost with it. Smaller batches repeat the items under their own keys.
    if (whole.ok && answer.isCut && batch?.answers !== undefined) {
      return jobs.length > 1 ? 'apart' : judge.judgeRetry(answer, { code: 'BATCH_TOO_LARGE' })
    }
    return whole.ok ? compiled.resultsOf(answer, jobs) : whole
  }

  const batches: NonNullable<Destination['batches']> = {
    most: (kind) => (kind === 'upsert' ? (batch?.size ?? 1) : 1),
    deliver: async (jobs, signal) => {
      const results = await orFailure(signal, () => sendTogether(jobs, signal))
      if (results === 'apart' || !('ok' in results)) return results
      // Some items may be valid on their own.
      const isOfItems = !results.ok && !results.retryable && !results.outage
      return isOfItems ? 'apart' : jobs.map(() => results)
    },
  }

  // A destination with only a batch request sends a single item as a batch of one.
  const isBatchOnly = batch?.request === settings.request
  return {
    deliver: async (job, signal) => {
      if (!isBatchOnly || job.kind === 'delete') return await deliver(job, signal)
      const results = await orFailure(signal, () => sendTogether([job], signal))
      const empty = refused({ code: 'BATCH_EMPTY' })
      const result = results === 'apart' ? empty : 'ok' in results ? results : (results[0] ?? empty)
      // There is no other request for the item. Without an attempt it would be sent again at once, without end.
      return result.ok ? result : { ...result, apart: false }
    },
    ...(batch && { batches }),
    refusalOf: problemOf,
    close: async () => {},
  }
}

/** The same job where nothing changes: a copy would compute the keys that it may not need. */
function withRemembered(job: DeliveryJob, remembered: Remembered | undefined): DeliveryJob {
  return job.remembered === remembered ? job : { ...job, remembered }
}

const noDelete: Reason = { code: 'NO_DELETE_REQUEST' }

function emptyProblem({ kind, body }: DeliveryJob): Reason | undefined {
  const isEmpty = body === undefined || body === null
  return isEmpty && kind === 'upsert' ? { code: 'MAPPING_EMPTY' } : undefined
}

function ofFailure(
  failure: RequestFailure,
  signal: AbortSignal,
  timeoutMs: number,
): DeliveryResult {
  switch (failure.kind) {
    case 'refused_address':
      return refused({ code: 'ADDRESS_REFUSED', data: { said: failure.why } })
    case 'aborted':
      // A timeout of the delivery means that the receiver is slow. A stop of the service does not.
      return signal.reason?.name === 'TimeoutError'
        ? postponed({ code: 'NO_WHOLE_ANSWER', data: { ms: timeoutMs } }, { outage: true })
        : aborted()
    case 'network':
      // The header is invalid in every attempt.
      if (failure.code === 'UND_ERR_INVALID_ARG') return refused({ code: 'BAD_HEADER' })
      return postponed(failure.why, { outage: true })
    default:
      return postponed(failure.why, { outage: true })
  }
}
