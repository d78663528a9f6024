import { createHash } from 'node:crypto'
import { type Answer, guardedRequest, RequestFailure } from '../../outbound/guarded-request.ts'
import { orAborted } from '../../outbound/send-attempt.ts'
import type { Reason } from '../../texts/reason.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { TemplateError } from '../net/http-body.ts'
import { isHtmlPage, jsonOf } from '../net/http-text.ts'
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
  idempotencyKeyOf,
  type Request,
  type RequestMaker,
  type RequestTemplate,
} from './http-request.ts'
import { createJudge, type Judge, type JudgeSettings } from './http-response.ts'

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

/** Sends requests of one destination, and knows the texts that no message may contain. */
class HttpSender {
  readonly #settings: HttpSettings
  readonly #secrets: readonly string[]
  readonly #tokens: ReturnType<typeof openTokens> | undefined
  #shown: readonly string[]

  constructor(settings: HttpSettings, secrets: readonly string[]) {
    const { agent, auth, grants, timeoutMs, usedBy = { flow: '', destination: '' } } = settings
    this.#settings = settings
    this.#secrets = secrets
    this.#shown = secrets
    this.#tokens = auth && openTokens(auth, grants, { agent, timeoutMs, usedBy })
  }

  secrets(): readonly string[] {
    return this.#shown
  }

  hide(text: string): string {
    return maskSecrets(text.slice(0, maxMessageCharacters), this.#shown, '[masked]')
  }

  async send(
    request: Request,
    job: Pick<DeliveryJob, 'mayStart'>,
    signal: AbortSignal,
    maxBytes = maxAnswerBytes,
  ): Promise<Answer> {
    const tokens = this.#tokens
    const token = await (tokens && orAborted(signal, tokens.get()))
    if (tokens) this.#shown = [...this.#secrets, ...tokens.secrets()]
    const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await guardedRequest({
      ...request,
      mayCut: true,
      headers: { ...request.headers, ...bearer },
      agent: this.#settings.agent,
      maxBytes,
      // It has the timeout of the attempt.
      signal,
      mayStart: job.mayStart,
      now: () => this.#settings.now().getTime(),
    })
    if (token !== undefined && answer.status === unauthorized && !isHtmlPage(answer)) {
      tokens?.refused(token)
      throw new TokenError(answer.status, false)
    }
    return answer
  }
}

/** The requests of a definition, ready to be made. */
function compileRequests(settings: HttpSettings) {
  const { batch, create, delete: remove, request, send = 'json', sign, now, staysBelow } = settings
  const rules = { send, sign, now, staysBelow } as const
  const compile = (template: RequestTemplate) => compileRequest(template, rules)
  return {
    compile,
    request: compile(request),
    create: create && compile(create),
    delete: remove && compile(remove),
    batch: batch && compile(batch.request),
    parts: request.parts?.map((body) => compile({ ...request, body })),
  }
}

function compiledBatch(settings: HttpSettings, judge: Judge, hide: (text: string) => string) {
  const { batch } = settings
  if (!batch) return undefined
  const judgeStatus = (answer: Answer, said: string) =>
    judge.judgeStatus(batch.request, answer, {
      code: 'HTTP_STATUS',
      data: { status: answer.status, ...(said !== '' && { said }) },
    })
  return compileBatch(batch, { ...judge, judgeStatus }, hide)
}

/**
 * Sends each item by HTTP, by default as JSON. Every request has the header `idempotency-key`, unless the definition sets it:
 * one value for all attempts of a change. Redirects are not followed.
 */
export class HttpDestination implements Destination {
  readonly batches?: NonNullable<Destination['batches']>
  readonly #settings: HttpSettings
  readonly #requests: ReturnType<typeof compileRequests>
  readonly #sender: HttpSender
  readonly #judge: Judge
  readonly #memory: ReturnType<typeof compileRememberedValues> | undefined
  readonly #lookups: Lookups | undefined
  readonly #batch: ReturnType<typeof compiledBatch>
  readonly #expected: ExpectedBody
  /** The request is made before anything else is done, so making it shows what refusalOf would. */
  readonly #isMadeAtOnce: boolean

  constructor(settings: HttpSettings) {
    const { batch, find, remember } = settings
    const requests = compileRequests(settings)
    const { compile, request, create, delete: remove } = requests
    const templates = [
      ...[request, create, remove, requests.batch].map((one) => one?.template),
      ...(find ?? []),
    ]
    const secrets = templates.flatMap((one) => (one ? secretsOf(one) : []))
    const sender = new HttpSender(settings, secrets)
    const hide = (text: string) => sender.hide(text)
    const judge = createJudge({ ...settings, secrets: () => sender.secrets() })
    this.#settings = settings
    this.#requests = requests
    this.#sender = sender
    this.#judge = judge
    this.#memory = remember && compileRememberedValues(remember, hide)
    this.#lookups = find && compileLookups(find, { compile, remember, hide, judge })
    this.#batch = compiledBatch(settings, judge, hide)
    this.#expected = readsJson(settings) ? 'object' : 'any'
    this.#isMadeAtOnce = !find && templates.every((one) => one?.body === undefined)
    if (!batch) return
    this.batches = {
      most: (kind) => (kind === 'upsert' ? batch.size : 1),
      deliver: (jobs, signal) => this.#deliverTogether(jobs, signal),
    }
  }

  async deliver(job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> {
    // A destination with only a batch request sends a single item as a batch of one.
    const isBatchOnly = this.#settings.batch?.request === this.#settings.request
    if (!isBatchOnly || job.kind === 'delete') return await this.#deliverAlone(job, signal)
    const results = await this.#orFailure(signal, () => this.#sendTogether([job], signal))
    const empty = refused({ code: 'BATCH_EMPTY' })
    const result = results === 'apart' ? empty : 'ok' in results ? results : (results[0] ?? empty)
    // There is no other request for the item. Without an attempt it would be sent again at once, without end.
    return result.ok ? result : { ...result, apart: false }
  }

  refusalOf(job: DeliveryJob): Reason | undefined {
    const empty = emptyProblem(job)
    if (empty !== undefined) return empty
    const { request, create, delete: remove } = this.#requests
    if (job.kind === 'delete' && !remove) return noDelete
    // A lookup finds the missing values later.
    const lookup = this.#lookups?.firstFor(job.remembered)
    if (lookup) return lookup.problemOf(job)
    const isNew = job.remembered === undefined && create !== undefined
    const maker = job.kind === 'delete' ? remove : isNew ? create : request
    return maker?.problemOf(job)
  }

  async close(): Promise<void> {}

  #deliverAlone(job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> {
    const problem = this.#isMadeAtOnce ? emptyProblem(job) : this.refusalOf(job)
    if (problem !== undefined) return Promise.resolve(refused(problem))
    const sendRequest: SendRequest = (request) => this.#sender.send(request, job, signal)
    return this.#orFailure(signal, () =>
      job.kind === 'delete'
        ? this.#deliverDelete(job, sendRequest)
        : this.#deliverUpsert(job, sendRequest),
    )
  }

  /** A list counts where it has the values to remember, as PostgREST answers. */
  async #expectedIn(answer: Answer, pk: string): Promise<ExpectedBody> {
    if (!this.#memory || !Array.isArray(jsonOf(answer))) return this.#expected
    const extracted = await this.#memory.of(answer, pk)
    return extracted && 'values' in extracted ? 'json' : this.#expected
  }

  async #lookUp(job: DeliveryJob, sendRequest: SendRequest): ReturnType<Lookups['find']> {
    return this.#lookups
      ? await this.#lookups.find(job, sendRequest)
      : { remembered: job.remembered }
  }

  async #judgeUpsert(
    { template }: RequestMaker,
    answer: Answer,
    job: DeliveryJob,
  ): Promise<Judged> {
    const body = await this.#expectedIn(answer, job.pk)
    return { answer, judged: await this.#judge.judge(template, answer, job, body) }
  }

  /** Sends the parts of a refused request. Returns the refusal, unless the receiver takes all parts or must be asked again. */
  async #orParts(whole: Judged, job: DeliveryJob, sendRequest: SendRequest): Promise<Judged> {
    if (!this.#requests.parts || whole.judged.ok || whole.judged.retryable) return whole
    if (!valueRefusals.includes(whole.answer.status)) return whole
    let result: Judged | undefined
    for (const part of this.#requests.parts) {
      const request = await part.make(job)
      if (request.body === undefined) continue
      // The answer shows the old values of the other parts, which is no reason for another attempt.
      const last = { ...job, attempt: lastAttempt }
      const sent = await this.#judgeUpsert(part, await sendRequest(request), last)
      if (!sent.judged.ok && sent.judged.retryable) return sent
      if (!sent.judged.ok) result = whole
      else result ??= sent
    }
    return result ?? whole
  }

  async #deliverUpsert(job: DeliveryJob, sendRequest: SendRequest): Promise<DeliveryResult> {
    const known = await this.#lookUp(job, sendRequest)
    if ('failed' in known) return known.failed
    const { found, remembered, fresh } = known
    const isNew = remembered === undefined && this.#requests.create !== undefined
    const maker = (isNew && this.#requests.create) || this.#requests.request
    const jobWithValues = withRemembered(job, fresh ? { ...remembered, ...fresh } : remembered)
    const request = await maker.make(jobWithValues)
    const whole = await this.#judgeUpsert(maker, await sendRequest(request), jobWithValues)
    const { answer, judged } =
      maker === this.#requests.request
        ? await this.#orParts(whole, jobWithValues, sendRequest)
        : whole
    if (!judged.ok && judged.isForeign) return judged
    if (judged.ok) {
      if (!this.#memory) return judged
      const extracted = await this.#memory.of(answer, job.pk)
      if (extracted && 'values' in extracted) return { ...judged, remember: extracted.values }
      if (found) return { ...judged, remember: found }
      if (remembered) return judged
      const later = await this.#lookUp(job, sendRequest)
      if ('failed' in later) return later.failed
      if (later.found) return { ...judged, remember: later.found }
      const { status } = answer
      const data = { status, said: extracted?.unclear }
      return refused({ code: 'NOT_REMEMBERED', data }, { status })
    }
    if (!isNew && this.#requests.create && notFoundStatuses.includes(answer.status)) {
      const { status } = answer
      return gone({ code: 'GONE', data: { status } }, status)
    }
    // The response may have values for the next attempt, such as the item's id.
    const mayHaveValues =
      judged.retryable && !judged.forget && !this.#judge.isRetried(answer.status)
    const extracted = mayHaveValues ? await this.#memory?.of(answer, job.pk) : undefined
    return extracted && 'values' in extracted ? { ...judged, remember: extracted.values } : judged
  }

  async #deliverDelete(job: DeliveryJob, sendRequest: SendRequest): Promise<DeliveryResult> {
    if (!this.#requests.delete) return refused(noDelete)
    const known = await this.#lookUp(job, sendRequest)
    if ('failed' in known) {
      // The item no longer exists at the receiver.
      return !known.failed.ok && known.failed.forget
        ? this.#doneDelete(known.failed.status)
        : known.failed
    }
    const { remembered, fresh } = known
    // The item does not exist at the receiver.
    if (!remembered && this.#lookups?.hasSearch) return { ok: true }
    const jobWithValues = withRemembered(job, fresh ? { ...remembered, ...fresh } : remembered)
    const answer = await sendRequest(await this.#requests.delete.make(jobWithValues))
    const body = await this.#expectedIn(answer, job.pk)
    const judged = await this.#judge.judge(
      this.#requests.delete.template,
      answer,
      jobWithValues,
      body,
    )
    if (!judged.ok && !judged.forget) return judged
    const { status } = answer
    if (this.#settings.delete?.keeps && judged.ok && isSuccess(status)) {
      const extracted = await this.#memory?.of(answer, job.pk)
      const kept = extracted && 'values' in extracted ? extracted.values : remembered
      return { ok: true, status, ...(kept && { remember: kept }) }
    }
    return this.#doneDelete(status)
  }

  async #orFailure<T>(signal: AbortSignal, work: () => Promise<T>) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof RequestFailure) return ofFailure(error, signal, this.#settings.timeoutMs)
      if (error instanceof TokenBlockedError) return blocked(error.why, error.checkAgainMs)
      // The next attempt requests a new token.
      if (error instanceof TokenError) {
        const extra = {
          ...(error.status !== undefined && { status: error.status }),
          ...(this.#settings.respectRetryAfter &&
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

  /** Returns a single result when it applies to all items; `apart` when smaller batches must follow. */
  async #sendTogether(
    jobs: readonly DeliveryJob[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[] | DeliveryResult | 'apart'> {
    const [first] = jobs
    if (!first || !this.#batch || !this.#requests.batch) return []
    const problem = jobs.map(emptyProblem).find((found) => found !== undefined)
    if (problem !== undefined) return refused(problem)
    const { method, url } = this.#requests.batch.template
    const address = { method, url: url.reveal() }
    // Each item gets the key that a request with only this item would have.
    const items = jobs.map((job) => ({
      ...job,
      jobKey: idempotencyKeyOf(job.jobKey, { ...address, body: JSON.stringify(job.body) }),
    }))
    const keys = JSON.stringify(items.map(({ jobKey }) => jobKey))
    const together: DeliveryJob = {
      ...first,
      pk: '',
      // Key of the whole request; `jobKeys` are the keys of the items.
      jobKey: createHash('sha256').update(keys).digest('hex'),
      body: await this.#batch.bodyOf(items),
      // All jobs are called, because each call records that its item may have arrived.
      mayStart: () => jobs.map((job) => job.mayStart()).every(Boolean),
    }
    const request = await this.#requests.batch.make(together)
    const answer = await this.#sender.send(request, together, signal, maxBatchAnswerBytes)
    const body = this.#settings.batch?.answers === undefined ? this.#expected : 'json'
    const whole = await this.#judge.judge(this.#requests.batch.template, answer, together, body)
    // The results of the items are lost with it. Smaller batches repeat the items under their own keys.
    if (whole.ok && answer.isCut && this.#settings.batch?.answers !== undefined) {
      return jobs.length > 1 ? 'apart' : this.#judge.judgeRetry(answer, { code: 'BATCH_TOO_LARGE' })
    }
    return whole.ok ? this.#batch.resultsOf(answer, jobs) : whole
  }

  #doneDelete(status: number | undefined): DeliveryResult {
    return {
      ok: true,
      ...(status !== undefined && { status }),
      ...(this.#memory && { forget: true }),
    }
  }

  async #deliverTogether(
    jobs: readonly DeliveryJob[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[] | 'apart'> {
    const results = await this.#orFailure(signal, () => this.#sendTogether(jobs, signal))
    if (results === 'apart' || !('ok' in results)) return results
    // Some items may be valid on their own.
    const isOfItems = !results.ok && !results.retryable && !results.outage
    return isOfItems ? 'apart' : jobs.map(() => results)
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
