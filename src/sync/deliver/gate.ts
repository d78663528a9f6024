import type { DestinationDefinition, ServerBudget } from '../types.ts'
import { type AttemptReport, type Breaker, createBreaker, neverOpen } from './breaker.ts'
import { createRateLimiter, type RateLimiter, unlimited } from './rate-limit.ts'
import { createRequestBudget, type RequestBudget } from './request-budget.ts'
import { createServerQuota, noQuota, type ServerQuota } from './server-quota.ts'

/** What else is known of an attempt that did not succeed. */
export type AttemptNote = {
  /** Why, for people. */
  cause?: string
  /** How long the receiver asked to be left alone, in milliseconds. */
  wishMs?: number
  /** It said so of itself, not of the one request (503). */
  isOfAll?: boolean
  /** What its answer said of the requests that it still takes. */
  budget?: ServerBudget | undefined
  /** Nothing can be sent to it, and it is worth another look after so many milliseconds. */
  blockedMs?: number
}

/**
 * Whether attempts start: `open` the breaker keeps them all back, or something else that nobody gets past, `probing` one alone finds out whether the receiver is
 * back, `silent` it asked for that, `slowed` by what it takes.
 */
export type GateState = 'flowing' | 'slowed' | 'silent' | 'open' | 'probing'

export type GateStatus = {
  state: GateState
  /** For people; null while it flows. */
  cause: string | null
  /** Milliseconds until the next attempt may start; null when one may now. */
  waitMs: number | null
  /** Requests a second that the receiver is found to take; null while it has not complained. */
  perSecond: number | null
}

/** Decides what may start at a destination: by its rate limit, its breaker, what it takes or says that it takes, and whether it asked for silence. */
export type Gate = {
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** Starts an attempt; call `report` once with what came of it. `waitMs` when none may start yet. */
  begin(): { report(report: AttemptReport, note?: AttemptNote): void } | { waitMs: number }
  status(): GateStatus
  /** Somebody wants an attempt now, whatever the breaker or the receiver's wish for silence says; its pace stays. */
  tryNow(): void
  /** What nobody got past may be gone, as with another definition. Answers whether there was such a thing. */
  unblock(): boolean
  /** This process begins to work the destination, or another one with its budget; before, somebody else may have. */
  takeOver(term: object): void
  /** Calls `onChange` whenever another state begins, or the same for another reason, instead of the one given before. */
  follow(onChange: () => void): void
}

/**
 * One that asks for an hour may mean one item only, and nobody could lift such a silence: after a minute the next attempt
 * finds out. The item itself waits as long as was asked.
 */
const longestHushMs = 60_000
/** Retry-After is about the request that it answers, unless nobody gets through: eight of the last ten, or the first three. */
const lastAnswers = 10
const unheardAtLeast = 3
const unheardShare = 0.8

type PaceRules = Pick<DestinationDefinition, 'rateLimit'> &
  Partial<Pick<DestinationDefinition, 'type'>>

/** How fast a destination may be asked; destinations with one `budget` share one. */
export type Pace = { limiter: RateLimiter; found: RequestBudget; told: ServerQuota }

export function createPace({ rateLimit, type }: PaceRules, now: () => Date): Pace {
  return {
    limiter: rateLimit ? createRateLimiter(rateLimit, now) : unlimited,
    found: createRequestBudget(now),
    told: type === 'http' ? createServerQuota(now) : noQuota,
  }
}

type GateRules = PaceRules & Pick<DestinationDefinition, 'breaker'>

/** Where so few may be asked that the failures of the definition would never lie within its time, it is twice what they take. */
function breakerOf({ breaker, rateLimit }: GateRules, now: () => Date): Breaker {
  if (!breaker) return neverOpen
  const failuresMs = rateLimit ? (breaker.failures * rateLimit.perMs) / rateLimit.max : 0
  return createBreaker({ ...breaker, withinMs: Math.max(breaker.withinMs, 2 * failuresMs) }, now)
}

export function createGate(
  definition: GateRules,
  now: () => Date,
  { limiter, found: budget, told: quota }: Pace = createPace(definition, now),
): Gate {
  const breaker = breakerOf(definition, now)
  let hushedUntil = 0
  let hushCause: string | null = null
  let blockedUntil = 0
  let blockedCause: string | null = null
  let slowCause: string | null = null
  let lately: boolean[] = []
  let told = ''
  let tell = () => {}

  const waitMs = () =>
    Math.max(
      hushedUntil - now().getTime(),
      blockedUntil - now().getTime(),
      limiter.waitMs(),
      breaker.waitMs(),
      budget.waitMs(),
      quota.waitMs(),
      0,
    )

  const stateNow = (): GateState => {
    if (blockedUntil > now().getTime()) return 'open'
    const current = breaker.state()
    if (current !== 'closed') return current === 'open' ? 'open' : 'probing'
    if (hushedUntil > now().getTime()) return 'silent'
    return budget.perSecond() === undefined && quota.cause() === null ? 'flowing' : 'slowed'
  }

  const causeOf = (state: GateState) => {
    if (state === 'open' && blockedUntil > now().getTime()) return blockedCause
    if (state === 'open' || state === 'probing') return breaker.cause()
    if (state === 'silent') return hushCause
    if (state !== 'slowed') return null
    return budget.perSecond() === undefined ? quota.cause() : slowCause
  }

  const tellChange = () => {
    const state = stateNow()
    // A pace that is found out changes all the time; a silence that is prolonged has another end.
    const about =
      state === 'slowed' ? Math.round(Math.log2(budget.perSecond() ?? 1)) : causeOf(state)
    const mark = JSON.stringify([state, about, hushedUntil, blockedUntil])
    if (mark === told) return
    told = mark
    tell()
  }

  const hush = (ms: number, cause: string | undefined) => {
    const until = now().getTime() + Math.min(ms, longestHushMs)
    if (until <= hushedUntil) return
    hushedUntil = until
    hushCause = cause ?? null
  }

  const note = (
    report: AttemptReport,
    { cause, wishMs: wish = 0, isOfAll = false }: AttemptNote,
  ) => {
    lately = [...lately, report !== 'answered' && wish > 0].slice(-lastAnswers)
    const unheard = lately.filter(Boolean).length
    const nobody = unheard >= unheardAtLeast && unheard >= lately.length * unheardShare
    if (wish > 0 && (isOfAll || nobody)) hush(wish, cause)
    if (report === 'throttled') slowCause = `too many requests for it: ${cause ?? 'HTTP 429'}`
  }

  return {
    admit: () => {
      const ms = waitMs()
      const starts =
        ms > 0
          ? 0
          : Math.min(
              limiter.allowance(),
              breaker.allowance(),
              budget.allowance(),
              quota.allowance(),
            )
      return { starts, waitMs: ms }
    },
    begin: () => {
      const ms = waitMs()
      if (ms > 0) return { waitMs: ms }
      const report = breaker.begin()
      // All have just said that one may start.
      if (!report || !limiter.take()) throw new Error('an attempt began that may not')
      const paced = budget.take()
      const answered = quota.take()
      return {
        report: (what, about = {}) => {
          const wasLeast = budget.isLeast()
          const isAnswered = what === 'answered' || what === 'throttled'
          answered(isAnswered || about.budget !== undefined, about.budget)
          if (isAnswered) paced(what === 'throttled')
          if (about.blockedMs !== undefined) {
            blockedUntil = now().getTime() + about.blockedMs
            blockedCause = about.cause ?? null
          }
          if (what !== 'unknown') note(what, about)
          report(what === 'throttled' && wasLeast ? 'outage' : what, about.cause)
          tellChange()
        },
      }
    },
    status: () => {
      const state = stateNow()
      const ms = waitMs()
      return {
        state,
        cause: causeOf(state),
        waitMs: ms > 0 && state !== 'slowed' && state !== 'flowing' ? ms : null,
        perSecond: budget.perSecond() ?? null,
      }
    },
    tryNow: () => {
      hushedUntil = 0
      blockedUntil = 0
      breaker.tryNow()
      tellChange()
    },
    unblock: () => {
      const wasBlocked = blockedUntil > 0
      blockedUntil = 0
      return wasBlocked
    },
    takeOver: (term) => quota.begin(term),
    follow: (onChange) => {
      tell = onChange
    },
  }
}
