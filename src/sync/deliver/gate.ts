import type { Reason } from '../../domain/flow-reasons.ts'
import type { DestinationDefinition } from '../types.ts'
import { type AttemptReport, type Breaker, createBreaker, neverOpen } from './breaker.ts'

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

/** Whether a flow is held, as far as whoever delivers it knows. */
export type Hold = {
  /** While it is, nothing starts. */
  isClosed(): boolean
  /** These rows, or none when they show that their flow is held. */
  pass<Row extends { held: boolean }>(rows: readonly Row[]): readonly Row[]
}

/** How often somebody who waits for a held flow looks whether it goes on. */
export const holdLookMs = 500

/**
 * Keeps the deliveries of a held flow back. Each row tells, as it is read, whether its flow is held; from then on the database is
 * asked now and then.
 */
export function createHold(isHeld: () => Promise<boolean>): Hold {
  let closed = false
  let lookedMs = 0
  let looking = false

  const look = async () => {
    looking = true
    try {
      closed = await isHeld()
    } catch {
      // The database is away; nothing can be delivered meanwhile either.
    } finally {
      lookedMs = performance.now()
      looking = false
    }
  }

  return {
    isClosed() {
      if (closed && !looking && performance.now() - lookedMs >= holdLookMs) void look()
      return closed
    },
    pass(rows) {
      if (!rows[0]?.held) return rows
      closed = true
      lookedMs = performance.now()
      return []
    },
  }
}

export type RateLimiter = {
  /** How many may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Counts a start; false, and nothing is counted, when none is allowed. */
  take(): boolean
}

/**
 * At most `max` starts in any stretch of `perMs`, wherever it begins. (A token bucket that refills steadily would let
 * nearly twice as many through in its first stretch.) It remembers the last `max` starts and nothing across restarts.
 * One process at a time works a destination, so this holds for all of them together; a takeover begins anew.
 */
export function createRateLimiter(
  limit: { max: number; perMs: number },
  now: () => Date,
): RateLimiter {
  /** A ring of the last starts; `oldest` is where the next is written. */
  const starts: number[] = []
  let oldest = 0

  const countRecent = (since: number) => {
    // Written in order of time, so the recent ones follow each other up to the newest.
    let low = 0
    let high = starts.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((starts[(oldest + middle) % starts.length] ?? 0) > since) high = middle
      else low = middle + 1
    }
    return starts.length - low
  }

  const allowance = () => limit.max - countRecent(now().getTime() - limit.perMs)

  return {
    allowance,
    waitMs: () => {
      if (allowance() > 0) return 0
      return Math.max(1, (starts[oldest] ?? 0) + limit.perMs - now().getTime())
    },
    take: () => {
      if (allowance() <= 0) return false
      const at = now().getTime()
      if (starts.length < limit.max) starts.push(at)
      else {
        starts[oldest] = at
        oldest = (oldest + 1) % limit.max
      }
      return true
    },
  }
}

/** For a destination without a limit. */
export const unlimited: RateLimiter = {
  allowance: () => Number.POSITIVE_INFINITY,
  waitMs: () => 0,
  take: () => true,
}
