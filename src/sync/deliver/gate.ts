import type { Reason } from '../../domain/flow-reasons.ts'
import type { DestinationDefinition } from '../types.ts'
import { type AttemptReport, type Breaker, createBreaker, neverOpen } from './breaker.ts'
import { createRateLimiter, type RateLimiter, unlimited } from './rate-limit.ts'

/** What else is known of an attempt that did not succeed. */
export type AttemptNote = {
  cause?: Reason
  /** How long the receiver asked to be left alone, in milliseconds. */
  wishMs?: number
  /** It said so of itself, not of the one request (503). */
  isOfAll?: boolean
  /** Nothing can be sent to it, and it is worth another look after so many milliseconds. */
  blockedMs?: number
}

/**
 * Whether attempts start: `open` the breaker keeps them all back, or something else that nobody gets past, `probing` one alone finds out whether the receiver is
 * back, `silent` it asked for that.
 */
export type GateState = 'flowing' | 'silent' | 'open' | 'probing'

export type GateStatus = {
  state: GateState
  /** Null while it flows. */
  cause: Reason | null
  /** Milliseconds until the next attempt may start; null when one may now. */
  waitMs: number | null
}

/** Decides what may start at a destination: by its rate limit, its breaker, and whether it asked for silence. */
export type Gate = {
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** Starts an attempt; call `report` once with what came of it. `waitMs` when none may start yet. */
  begin(): { report(report: AttemptReport, note?: AttemptNote): void } | { waitMs: number }
  status(): GateStatus
  /** Somebody wants an attempt now, whatever the breaker or the receiver's wish for silence says; its rate limit stays. */
  tryNow(): void
  /** What nobody got past may be gone, as with another definition. Answers whether there was such a thing. */
  unblock(): boolean
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

type GateRules = Pick<DestinationDefinition, 'rateLimit' | 'breaker'>

/** The rate limit of a definition. */
export function limiterOf(
  { rateLimit }: Pick<DestinationDefinition, 'rateLimit'>,
  now: () => Date,
): RateLimiter {
  return rateLimit ? createRateLimiter(rateLimit, now) : unlimited
}

/** Where so few may be asked that the failures of the definition would never lie within its time, it is twice what they take. */
function breakerOf({ breaker, rateLimit }: GateRules, now: () => Date): Breaker {
  if (!breaker) return neverOpen
  const failuresMs = rateLimit ? (breaker.failures * rateLimit.perMs) / rateLimit.max : 0
  return createBreaker({ ...breaker, withinMs: Math.max(breaker.withinMs, 2 * failuresMs) }, now)
}

export function createGate(
  definition: GateRules,
  now: () => Date,
  limiter: RateLimiter = limiterOf(definition, now),
): Gate {
  const breaker = breakerOf(definition, now)
  let hushedUntil = 0
  let hushCause: Reason | null = null
  let blockedUntil = 0
  let blockedCause: Reason | null = null
  let lately: boolean[] = []
  let told = ''
  let tell = () => {}

  const waitMs = () =>
    Math.max(
      hushedUntil - now().getTime(),
      blockedUntil - now().getTime(),
      limiter.waitMs(),
      breaker.waitMs(),
      0,
    )

  const stateNow = (): GateState => {
    if (blockedUntil > now().getTime()) return 'open'
    const current = breaker.state()
    if (current !== 'closed') return current === 'open' ? 'open' : 'probing'
    return hushedUntil > now().getTime() ? 'silent' : 'flowing'
  }

  const causeOf = (state: GateState) => {
    if (state === 'open' && blockedUntil > now().getTime()) return blockedCause
    if (state === 'open' || state === 'probing') return breaker.cause()
    return state === 'silent' ? hushCause : null
  }

  const tellChange = () => {
    const state = stateNow()
    // A silence that is prolonged has another end.
    const mark = JSON.stringify([state, causeOf(state), hushedUntil, blockedUntil])
    if (mark === told) return
    told = mark
    tell()
  }

  const hush = (ms: number, cause: Reason | undefined) => {
    const until = now().getTime() + Math.min(ms, longestHushMs)
    if (until <= hushedUntil) return
    hushedUntil = until
    hushCause = cause ?? null
  }

  /** Answers whether nobody gets through, since it takes no more requests now. */
  const note = (
    report: AttemptReport,
    { cause, wishMs: wish = 0, isOfAll = false }: AttemptNote,
  ): boolean => {
    const isUnheard = report === 'throttled' || (report !== 'answered' && wish > 0)
    lately = [...lately, isUnheard].slice(-lastAnswers)
    const unheard = lately.filter(Boolean).length
    const nobody = unheard >= unheardAtLeast && unheard >= lately.length * unheardShare
    if (wish > 0 && (isOfAll || nobody)) hush(wish, cause)
    return nobody
  }

  return {
    admit: () => {
      const ms = waitMs()
      return {
        starts: ms > 0 ? 0 : Math.min(limiter.allowance(), breaker.allowance()),
        waitMs: ms,
      }
    },
    begin: () => {
      const ms = waitMs()
      if (ms > 0) return { waitMs: ms }
      const report = breaker.begin()
      // All have just said that one may start.
      if (!report || !limiter.take()) throw new Error('an attempt began that may not')
      return {
        report: (what, about = {}) => {
          if (about.blockedMs !== undefined) {
            blockedUntil = now().getTime() + about.blockedMs
            blockedCause = about.cause ?? null
          }
          const nobody = what !== 'unknown' && note(what, about)
          // A receiver that takes nothing from anybody is down, whatever it calls it.
          report(what === 'throttled' && nobody ? 'outage' : what, about.cause)
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
        waitMs: ms > 0 && state !== 'flowing' ? ms : null,
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
    follow: (onChange) => {
      tell = onChange
    },
  }
}
