import { createHash } from 'node:crypto'
import type { Dispatcher } from 'undici'
import type { Reason } from '../../domain/flow-reasons.ts'
import { type Answer, exchange } from '../../outbound/exchange.ts'
import { orAborted, RequestFailure } from '../../outbound/guarded-request.ts'
import { ExpressionError } from '../mapping/expression-error.ts'
import { hideTexts, secretsOf } from '../net/hidden-texts.ts'
import type { GrantKeeper } from '../oauth/grant-keeper.ts'
import { TokenError } from '../oauth/token-request.ts'
import { type OAuthSettings, openTokens, TokenBlockedError } from '../oauth/tokens.ts'
import type { DeliveryJob, DeliveryResult, Destination } from '../types.ts'
import { BatchError, type BatchRules, compileBatch } from './http-batch.ts'
import type { BodyForm } from './http-body.ts'
import { type AnswerRule, createJudge } from './http-judge.ts'
import { type Ask, compileLookups, goneStatuses, type LookupTemplate } from './http-lookup.ts'
import { compileMemory, type MemoryRules } from './http-memory.ts'
import {
  compileRequest,
  type Request,
  type RequestTemplate,
  requestKey,
  type Signing,
} from './http-request.ts'
import { TemplateError } from './http-template.ts'
import { blocked, givenUp, gone, postponed, refused } from './result.ts'

export type { RequestTemplate } from './http-request.ts'

export type HttpSettings = {
  /** For changes; where there is `create`, for those of items that are there. */
  request: RequestTemplate
  /** For items of which nothing is remembered. */
  create?: RequestTemplate | undefined
  /** Requests that look an item up before it is created, changed or deleted. */
  find?: readonly LookupTemplate[] | undefined
  /** With `keeps` the receiver still has the item, in another state, and what is remembered of it stays. */
  delete?: (RequestTemplate & { keeps?: boolean | undefined }) | undefined
  /** What is kept of the answers, by the item. */
  remember?: MemoryRules | undefined
  /** For upserts that go together. */
  batch?: (BatchRules & { size: number; request: RequestTemplate }) | undefined
  send?: BodyForm
  sign?: Signing | undefined
  auth?: OAuthSettings | undefined
  /** Keep the tokens of an `auth` that are renewed. */
  grants?: Pick<GrantKeeper, 'tokens'> | undefined
  usedBy?: { flow: string; destination: string }
  answers?: readonly AnswerRule[] | undefined
  /** Of one delivery. */
  timeoutMs: number
  /** Statuses worth another attempt; 408, 409, 423, 425, 429 and all from 500 when absent. */
  retryStatus?: readonly number[] | undefined
  respectRetryAfter: boolean
  agent: Dispatcher
  now: () => Date
}

/** A product with all its variants and texts is long; what is to be remembered of it may stand anywhere. */
const maxAnswerBytes = 1_048_576
/** An answer to a batch repeats its items. */
const maxBatchAnswerBytes = 8 * 1_048_576
const unauthorized = 401
/** Of what an answer says 200 characters are shown; all of a large one would hold others up. */
const longestWords = 4_000

/**
 * Sends each item, as JSON unless told otherwise. Every request carries `idempotency-key` (the same for each attempt of one
 * change) unless the definition sets that header itself. Redirects are not followed.
 *
 * @throws TemplateError when the host of an address depends on the item.
 */
export function openHttpDestination(settings: HttpSettings): Destination {
  const { create, batch, agent, timeoutMs, respectRetryAfter } = settings
  const rules = { send: settings.send ?? 'json', sign: settings.sign, now: settings.now } as const
  const requests = {
    request: compileRequest(settings.request, rules),
    create: create && compileRequest(create, rules),
    delete: settings.delete && compileRequest(settings.delete, { ...rules, isDelete: true }),
    batch: batch && compileRequest(batch.request, rules),
  }
  if (batch) checkBatchAddress(batch.request.url.reveal())
  const templates = [
    ...Object.values(requests).map((one) => one?.template),
    ...(settings.find ?? []),
  ]
  const secrets = templates.flatMap((one) => (one ? secretsOf(one) : []))
  const usedBy = settings.usedBy ?? { flow: '', destination: '' }
  const tokens =
    settings.auth && openTokens(settings.auth, settings.grants, { agent, timeoutMs, usedBy })
  let shown: readonly string[] = secrets
  const hide = (text: string) => hideTexts(text.slice(0, longestWords), shown, '[masked]')
  const memory = settings.remember && compileMemory(settings.remember, hide)
  const judge = createJudge({ ...settings, secrets: () => shown })
  const lookups = compileLookups(settings.find ?? [], {
    compile: (template) => compileRequest(template, rules),
    remember: settings.remember,
    hide,
    judge,
  })

  const send = async (
    request: Request,
    job: Pick<DeliveryJob, 'mayStart'>,
    signal: AbortSignal,
    maxBytes = maxAnswerBytes,
  ): Promise<Answer> => {
    const token = await (tokens && orAborted(signal, tokens.get()))
    if (tokens) shown = [...secrets, ...tokens.secrets()]
    const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await exchange({
      ...request,
      headers: { ...request.headers, ...bearer },
      agent,
      timeoutMs,
      maxBytes,
      signal,
      mayStart: job.mayStart,
      now: () => settings.now().getTime(),
    })
    if (token !== undefined && answer.status === unauthorized) {
      tokens?.refused(token)
      throw new TokenError(answer.status, false)
    }
    return answer
  }

  const deliverUpsert = async (job: DeliveryJob, ask: Ask): Promise<DeliveryResult> => {
    const known = await lookups.find(job, ask)
    if ('failed' in known) return known.failed
    const { found, remembered, fresh } = known
    const isNew = remembered === undefined && requests.create !== undefined
    const maker = (isNew && requests.create) || requests.request
    const asked = { ...job, remembered: fresh ? { ...remembered, ...fresh } : remembered }
    const answer = await ask(await maker.make(asked))
    const judged = await judge.judge(maker.template, answer, asked)
    if (judged.ok) {
      if (!memory) return judged
      const told = await memory.of(answer, job.pk)
      if (told && 'values' in told) return { ...judged, remember: told.values }
      if (found) return { ...judged, remember: found }
      if (remembered) return judged
      const later = await lookups.find(job, ask)
      if ('failed' in later) return later.failed
      if (later.found) return { ...judged, remember: later.found }
      const { status } = answer
      const data = { status, ...(told && { said: told.unclear }) }
      return refused({ code: 'NOT_REMEMBERED', data }, { status })
    }
    if (!isNew && requests.create && goneStatuses.includes(answer.status)) {
      const { status } = answer
      return gone({ code: 'GONE', data: { status } }, status)
    }
    // What it says of the item now is what the next attempt goes on from.
    const isTold = judged.retryable && !judged.forget && !judge.isRetried(answer.status)
    const told = isTold ? await memory?.of(answer, job.pk) : undefined
    return told && 'values' in told ? { ...judged, remember: told.values } : judged
  }

  const deliverDelete = async (job: DeliveryJob, ask: Ask): Promise<DeliveryResult> => {
    if (!requests.delete) return refused(noDelete)
    const known = await lookups.find(job, ask)
    if ('failed' in known) {
      // It is no longer there.
      return !known.failed.ok && known.failed.forget
        ? doneDelete(known.failed.status)
        : known.failed
    }
    const { remembered, fresh } = known
    // It was never there, or is no longer.
    if (!remembered && lookups.hasSearch) return { ok: true }
    const asked = { ...job, remembered: fresh ? { ...remembered, ...fresh } : remembered }
    const answer = await ask(await requests.delete.make(asked))
    const judged = await judge.judge(requests.delete.template, answer, asked)
    if (!judged.ok && !judged.forget) return judged
    const { status } = answer
    if (settings.delete?.keeps && judged.ok && isSuccess(status)) {
      const told = await memory?.of(answer, job.pk)
      const kept = told && 'values' in told ? told.values : remembered
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
      if (error instanceof TokenBlockedError) return blocked(error.why, error.lookAgainMs)
      // The next attempt asks for another one.
      if (error instanceof TokenError) {
        return postponed(error.why, {
          outage: error.isOutage,
          ...(error.status !== undefined && { status: error.status }),
          ...(respectRetryAfter &&
            error.retryAfterSeconds !== null && { retryAfterSeconds: error.retryAfterSeconds }),
        })
      }
      // On a busy machine: it has to be evaluated to the end before anything is known.
      if (error instanceof ExpressionError && error.outOfTime) {
        const data = { said: error.message }
        return postponed({ code: 'MAPPING_TIMEOUT', data }, { outage: false })
      }
      if (error instanceof BatchError || error instanceof TemplateError) {
        return refused({ code: 'TEMPLATE_FAILED', data: { said: error.message } })
      }
      throw error
    }
  }

  const deliver = (job: DeliveryJob, signal: AbortSignal): Promise<DeliveryResult> => {
    const problem = problemOf(job)
    if (problem !== undefined) return Promise.resolve(refused(problem))
    const ask: Ask = (request) => send(request, job, signal)
    return orFailure(signal, () =>
      (job.kind === 'delete' ? deliverDelete : deliverUpsert)(job, ask),
    )
  }

  const problemOf = (job: DeliveryJob): Reason | undefined => {
    const empty = emptyProblem(job)
    if (empty !== undefined) return empty
    if (job.kind === 'delete' && !requests.delete) return noDelete
    // What is looked up first is known later.
    const lookup = lookups.firstFor(job.remembered)
    if (lookup) return unmade(lookup.problemOf(job))
    const isNew = job.remembered === undefined && requests.create !== undefined
    const maker =
      job.kind === 'delete' ? requests.delete : isNew ? requests.create : requests.request
    return unmade(maker?.problemOf(job))
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

  /** One result for all of them when that is all there is to say. */
  const sendTogether = async (
    jobs: readonly DeliveryJob[],
    signal: AbortSignal,
  ): Promise<readonly DeliveryResult[] | DeliveryResult> => {
    const [first] = jobs
    if (!first || !compiled || !requests.batch) return []
    const problem = jobs.map(emptyProblem).find((found) => found !== undefined)
    if (problem !== undefined) return refused(problem)
    const { method, url } = requests.batch.template
    const address = { method, url: url.reveal() }
    // Each is the key of a request that would have this item alone.
    const items = jobs.map((job) => ({
      ...job,
      jobKey: requestKey(job.jobKey, { ...address, body: JSON.stringify(job.body) }),
    }))
    const keys = JSON.stringify(items.map(({ jobKey }) => jobKey))
    const together: DeliveryJob = {
      ...first,
      pk: '',
      // One for the request; `jobKeys` are the items' own.
      jobKey: createHash('sha256').update(keys).digest('hex'),
      body: await compiled.bodyOf(items),
      // Each has to be asked: it notes that it may have arrived.
      mayStart: () => jobs.map((job) => job.mayStart()).every(Boolean),
    }
    const request = await requests.batch.make(together)
    const answer = await send(request, together, signal, maxBatchAnswerBytes)
    const whole = await judge.judge(requests.batch.template, answer, together)
    return whole.ok ? compiled.resultsOf(answer, jobs) : whole
  }

  const batches: NonNullable<Destination['batches']> = {
    most: (kind) => (kind === 'upsert' ? (batch?.size ?? 1) : 1),
    deliver: async (jobs, signal) => {
      const results = await orFailure(signal, () => sendTogether(jobs, signal))
      if (!('ok' in results)) return results
      // Some of them may be fine by themselves.
      const isOfItems = !results.ok && !results.retryable && !results.outage
      return isOfItems ? 'apart' : jobs.map(() => results)
    },
  }

  // A receiver of batches alone gets one of a single item.
  const isBatchOnly = batch?.request === settings.request
  return {
    deliver: async (job, signal) => {
      if (!isBatchOnly || job.kind === 'delete') return await deliver(job, signal)
      const results = await orFailure(signal, () => sendTogether([job], signal))
      return 'ok' in results ? results : (results[0] ?? refused({ code: 'BATCH_EMPTY' }))
    },
    ...(batch && { batches }),
    refusalOf: problemOf,
    close: async () => {},
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

const noDelete: Reason = { code: 'NO_DELETE_REQUEST' }

function unmade(said: string | undefined): Reason | undefined {
  return said === undefined ? undefined : { code: 'TEMPLATE_FAILED', data: { said } }
}

function emptyProblem({ kind, body }: DeliveryJob): Reason | undefined {
  const isEmpty = body === undefined || body === null
  return isEmpty && kind === 'upsert' ? { code: 'MAPPING_EMPTY' } : undefined
}

/** @throws TemplateError when the address of a batch depends on an item, of which there are many. */
function checkBatchAddress(address: string): void {
  if (/\{\+?(pk|body\.|remembered\.)/.test(address)) {
    throw new TemplateError(
      'the address of a batch cannot depend on an item: give batch a request of its own',
    )
  }
}

function ofFailure(
  failure: RequestFailure,
  signal: AbortSignal,
  timeoutMs: number,
): DeliveryResult {
  const said = failure.message
  switch (failure.kind) {
    case 'refused_address':
      return refused({ code: 'ADDRESS_REFUSED', data: { said } })
    case 'aborted':
      // The caller's own clock tells about the receiver; a stop of the service does not.
      return signal.reason?.name === 'TimeoutError'
        ? postponed({ code: 'NO_WHOLE_ANSWER', data: { ms: timeoutMs } }, { outage: true })
        : givenUp()
    case 'network':
      // A header that no request can hold: the next attempt would be the same.
      if (failure.code === 'UND_ERR_INVALID_ARG') return refused({ code: 'BAD_HEADER' })
      return postponed({ code: 'CONNECTION_FAILED', data: { said } }, { outage: true })
    default:
      return postponed({ code: 'CONNECTION_FAILED', data: { said } }, { outage: true })
  }
}
