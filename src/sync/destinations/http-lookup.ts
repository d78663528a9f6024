import type { Reason } from '../../domain/flow-reasons.ts'
import type { Answer } from '../../outbound/exchange.ts'
import type { DeliveryJob, DeliveryResult, Remembered } from '../types.ts'
import type { Judge } from './http-judge.ts'
import { compileMemory, longestFresh, type MemoryRules } from './http-memory.ts'
import type { Request, RequestMaker, RequestTemplate } from './http-request.ts'
import { gone, postponed, refused } from './result.ts'

export type LookupTemplate = RequestTemplate & {
  /** What is taken of the answer; without it the destination's own rules. */
  remember?: MemoryRules | undefined
  /** Asked before every change and delete; its values hold for that one request and are not stored. */
  fresh?: boolean | undefined
}

/** Sends one request of an attempt. */
export type Ask = (request: Request) => Promise<Answer>

/** Statuses of an item that the receiver does not have. */
export const goneStatuses = [404, 410]

/** What is known of an item before its request is made. */
export type Known = {
  /** Values that were looked up now, to be stored. */
  found?: Remembered | undefined
  /** The stored values, or those that were found now; undefined when the receiver does not have the item. */
  remembered: Remembered | undefined
  /** Values for this one request. */
  fresh?: Remembered | undefined
}

export type Lookups = {
  /** Whether items are searched of which nothing is remembered. */
  hasSearch: boolean
  /** The first request that a job with these stored values makes, if any. */
  firstFor(remembered: Remembered | undefined): RequestMaker | undefined
  /** Makes the requests. `failed` is the result of the attempt: an answer failed, or says that the item is gone. */
  find(job: DeliveryJob, ask: Ask): Promise<Known | { failed: DeliveryResult }>
}

/**
 * The requests that look an item up. Those that use no `{remembered.name}` search it: the next one is asked where one finds nothing.
 * Those that do go on from what was found.
 */
export function compileLookups(
  templates: readonly LookupTemplate[],
  options: {
    compile: (template: RequestTemplate) => RequestMaker
    remember: MemoryRules | undefined
    hide: (text: string) => string
    judge: Pick<Judge, 'judge'>
  },
): Lookups {
  const steps = templates.map((template) => {
    const rules = template.remember ?? options.remember
    return {
      maker: options.compile(template),
      memory:
        rules && compileMemory(rules, options.hide, template.fresh ? longestFresh : undefined),
      isFresh: template.fresh ?? false,
      goesOn: usesRemembered(template),
    }
  })
  const searches = steps.filter(({ isFresh }) => !isFresh)
  const refreshes = steps.filter(({ isFresh }) => isFresh)

  const ask = async (
    { maker, memory }: (typeof steps)[number],
    job: DeliveryJob,
    send: Ask,
  ): Promise<{ status: number; values?: Remembered } | { failed: DeliveryResult }> => {
    const answer = await send(await maker.make(job))
    const { status } = answer
    if (goneStatuses.includes(status)) return { status }
    const judged = await options.judge.judge(maker.template, answer, job)
    if (!judged.ok) return { failed: judged }
    const told = await memory?.of(answer, job.pk)
    if (!told) return { status }
    if ('values' in told) return { status, values: told.values }
    // To take that for nothing would create the item a second time.
    const why: Reason = { code: 'LOOKUP_UNCLEAR', data: { status, said: told.unclear } }
    const failed = told.mayPass
      ? postponed(why, { outage: false, status })
      : refused(why, { status })
    return { failed }
  }

  const search = async (job: DeliveryJob, send: Ask) => {
    let found: Remembered | undefined
    for (const step of searches) {
      if (step.goesOn !== (found !== undefined)) continue
      const asked = await ask(step, { ...job, remembered: found }, send)
      if ('failed' in asked) return asked
      found = asked.values && { ...found, ...asked.values }
    }
    return { found }
  }

  const refresh = async (job: DeliveryJob, remembered: Remembered, send: Ask) => {
    let fresh: Remembered = {}
    for (const step of refreshes) {
      const asked = await ask(step, { ...job, remembered: { ...remembered, ...fresh } }, send)
      if ('failed' in asked) return asked
      const { status, values } = asked
      if (goneStatuses.includes(status)) {
        return { failed: gone({ code: 'LOOKUP_GONE', data: { status } }, status) }
      }
      if (!values) {
        const why: Reason = { code: 'LOOKUP_INCOMPLETE', data: { status } }
        return { failed: refused(why, { status }) }
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
      return 'failed' in refreshed ? refreshed : { found, remembered, fresh: refreshed.fresh }
    },
  }
}

function usesRemembered({ url, headers, body = '' }: RequestTemplate): boolean {
  const texts = [url.reveal(), body, ...Object.values(headers).map(({ template }) => template)]
  return texts.some((text) => /\bremembered\./.test(text))
}
