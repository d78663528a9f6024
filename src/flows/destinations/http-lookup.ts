import type { Answer } from '../../outbound/guarded-request.ts'
import type { Reason } from '../../texts/reason.ts'
import type { DeliveryJob, DeliveryResult, Remembered } from '../types.ts'
import { gone, postponed, refused } from './delivery-result.ts'
import {
  compileRememberedValues,
  longestFresh,
  type RememberedValueRules,
} from './http-remembered-values.ts'
import type { Request, RequestMaker, RequestTemplate } from './http-request.ts'
import type { Judge } from './http-response.ts'

export type LookupTemplate = RequestTemplate & {
  /** Values to read from the response; default: the destination's own rules. */
  remember?: RememberedValueRules | undefined
  /**
   * Requested before every change and delete. The values are for that one request and are not stored, except those that the
   * destination remembers. These are compared: with another value, what is remembered is another item.
   */
  fresh?: boolean | undefined
}

/** Sends one request of a delivery attempt. */
export type SendRequest = (request: Request) => Promise<Answer>

/** Statuses that mean that the receiver does not have the item. */
export const notFoundStatuses = [404, 410]

/** What is known of an item before its request is built. */
type Known = {
  /** Values just found by a search, to be stored. */
  found?: Remembered | undefined
  /** The stored or just found values; undefined when the receiver does not have the item. */
  remembered: Remembered | undefined
  /** Values for this one request. */
  fresh?: Remembered | undefined
}

export type Lookups = {
  /** Whether items without remembered values are searched. */
  hasSearch: boolean
  /** The first request of a job with these stored values; undefined when there is none. */
  firstFor(remembered: Remembered | undefined): RequestMaker | undefined
  /** Sends the lookups. `failed` is the result of the attempt: a lookup failed, or the receiver no longer has the item. */
  find(job: DeliveryJob, send: SendRequest): Promise<Known | { failed: DeliveryResult }>
}

/**
 * Compiles the lookups of an item. A lookup without `{remembered.name}` is a search; the next search runs when it finds
 * nothing. A lookup with `{remembered.name}` uses the values that were found.
 */
export function compileLookups(
  templates: readonly LookupTemplate[],
  options: {
    compile: (template: RequestTemplate) => RequestMaker
    remember: RememberedValueRules | undefined
    hide: (text: string) => string
    judge: Pick<Judge, 'judge'>
  },
): Lookups {
  const steps = templates.map((template) => {
    const rules = template.remember ?? options.remember
    return {
      maker: options.compile(template),
      memory:
        rules &&
        compileRememberedValues(rules, options.hide, template.fresh ? longestFresh : undefined),
      isFresh: template.fresh ?? false,
      usesFound: usesRemembered(template),
    }
  })
  const searches = steps.filter(({ isFresh }) => !isFresh)
  const refreshes = steps.filter(({ isFresh }) => isFresh)

  const runLookup = async (
    { maker, memory }: (typeof steps)[number],
    job: DeliveryJob,
    send: SendRequest,
  ): Promise<{ status: number; values?: Remembered } | { failed: DeliveryResult }> => {
    const answer = await send(await maker.make(job))
    const { status } = answer
    // A look-up shows the state before the change, so no rule may compare it with what will be sent.
    const asked = { ...job, body: undefined }
    const judged = await options.judge.judge(maker.template, answer, asked, 'json')
    if (!judged.ok && judged.isForeign) return { failed: judged }
    if (notFoundStatuses.includes(status)) return { status }
    if (!judged.ok) return { failed: judged }
    const extracted = await memory?.of(answer, job.pk)
    if (!extracted) return { status }
    if ('values' in extracted) return { status, values: extracted.values }
    // Treating an unclear response as missing would create the item a second time.
    const why: Reason = { code: 'LOOKUP_UNCLEAR', data: { status, said: extracted.unclear } }
    const failed = extracted.mayPass
      ? postponed(why, { outage: false, status })
      : refused(why, { status })
    return { failed }
  }

  const search = async (job: DeliveryJob, send: SendRequest) => {
    let found: Remembered | undefined
    for (const step of searches) {
      if (step.usesFound !== (found !== undefined)) continue
      const result = await runLookup(step, { ...job, remembered: found }, send)
      if ('failed' in result) return result
      found = result.values && { ...found, ...result.values }
    }
    return { found }
  }

  /** Those that tell which one an item is, such as a variant of a product. */
  const pickStored = (fresh: Remembered): Remembered =>
    Object.fromEntries(
      Object.entries(fresh).filter(([name]) => Object.hasOwn(options.remember ?? {}, name)),
    )

  const refresh = async (job: DeliveryJob, remembered: Remembered, send: SendRequest) => {
    let fresh: Remembered = {}
    for (const step of refreshes) {
      const result = await runLookup(
        step,
        { ...job, remembered: { ...remembered, ...fresh } },
        send,
      )
      if ('failed' in result) return result
      const { status, values } = result
      if (notFoundStatuses.includes(status)) {
        return { failed: gone({ code: 'LOOKUP_GONE', data: { status } }, status) }
      }
      if (!values || !agree(values, remembered)) {
        const code = values ? 'LOOKUP_DIFFERS' : 'LOOKUP_INCOMPLETE'
        const why: Reason = { code, data: { status } }
        // What was remembered is not this item any more. A search may find it, but a delete takes only what was delivered.
        const isOutdated =
          job.kind === 'upsert' && job.remembered !== undefined && searches.length > 0
        return { failed: isOutdated ? gone(why, status) : refused(why, { status }) }
      }
      fresh = { ...fresh, ...values }
    }
    return { fresh }
  }

  return {
    hasSearch: searches.length > 0,
    firstFor: (remembered) => (remembered ? refreshes : searches)[0]?.maker,
    find: async (job, send) => {
      const searched = job.remembered ? { found: undefined } : await search(job, send)
      if ('failed' in searched) return searched
      const { found } = searched
      const remembered = job.remembered ?? found
      if (!remembered || refreshes.length === 0) return { found, remembered }
      const refreshed = await refresh(job, remembered, send)
      if ('failed' in refreshed) return refreshed
      const { fresh } = refreshed
      return { found: found && { ...found, ...pickStored(fresh) }, remembered, fresh }
    },
  }
}

/** Whether values that were just read are those of the same name that are remembered. */
function agree(values: Remembered, remembered: Remembered): boolean {
  return Object.entries(values).every(
    ([name, value]) =>
      !Object.hasOwn(remembered, name) || String(remembered[name]) === String(value),
  )
}

function usesRemembered({ url, headers, body = '' }: RequestTemplate): boolean {
  const texts = [url.reveal(), body, ...Object.values(headers).map(({ template }) => template)]
  return texts.some((text) => /\bremembered\./.test(text))
}
