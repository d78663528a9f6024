import type { Reason } from '../../domain/flow-reasons.ts'

/**
 * What an attempt told about the receiver: `throttled` it is well, but was asked too often (429); `unknown` when the attempt
 * never got that far.
 */
export type AttemptReport = 'answered' | 'outage' | 'throttled' | 'unknown'

export type Breaker = {
  /** How many attempts may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Starts an attempt; call the result once with what came of it. Undefined when none may start. */
  begin(): ((report: AttemptReport, cause?: Reason) => void) | undefined
  state(): 'closed' | 'open' | 'half-open'
  /** Why it is not closed. */
  cause(): Reason | null
  /** Somebody wants to know now: one that is open lets its one attempt start at once. */
  tryNow(): void
}

export type BreakerPolicy = {
  failures: number
  /** Of the attempts in which the failures are counted, 1 to 100. */
  percent: number
  withinMs: number
  openForMs: number
}

const unanswered: Reason = { code: 'CONNECTION_FAILED', data: { said: 'no answer' } }

/**
 * Spares a receiver in trouble. When `failures` outages make up `percent` of the attempts that ended last, within `withinMs`,
 * nothing starts for `openForMs`; then one attempt alone finds out: any answer, a refusal too, closes it, another outage or
 * a 429 opens it again. Attempts that were under way when it opened decide nothing. A 429 counts while it is closed only if
 * the caller reports it as an outage.
 */
export function createBreaker(policy: BreakerPolicy, now: () => Date): Breaker {
  /** In so many attempts the outages have to lie: the share, as a number of attempts. */
  const among = Math.ceil((policy.failures * 100) / policy.percent)
  let outages: { at: number; place: number; tookMs: number }[] = []
  let ended = 0
  let openUntil: number | undefined
  let probing = false
  let cause: Reason | null = null

  const state = () => {
    if (openUntil === undefined) return 'closed'
    return now().getTime() < openUntil ? 'open' : 'half-open'
  }

  const open = () => {
    outages = []
    openUntil = now().getTime() + policy.openForMs
  }

  const allowance = () => {
    const current = state()
    if (current === 'closed') return Number.POSITIVE_INFINITY
    return current === 'half-open' && !probing ? 1 : 0
  }

  /** Those that lie within the time, to which what the attempts themselves took is added: a receiver that hangs lets few end. */
  const recent = (at: number) => {
    let spanMs = policy.withinMs
    let from = outages.length
    for (const { at: earlier, place, tookMs } of outages.toReversed()) {
      if (at - earlier >= spanMs || ended - place >= among) break
      spanMs += tookMs
      from -= 1
    }
    return outages.slice(from)
  }

  const count = (beganAt: number, report: AttemptReport, last: Reason = unanswered) => {
    if (openUntil !== undefined || report === 'unknown' || report === 'throttled') return
    ended += 1
    if (report === 'answered') return
    const at = now().getTime()
    outages.push({ at, place: ended, tookMs: at - beganAt })
    outages = recent(at)
    if (outages.length < policy.failures) return
    const data = { failed: outages.length, among: Math.min(ended, among), last }
    cause = { code: 'ATTEMPTS_FAILED', data }
    open()
  }

  const judgeProbe = (report: AttemptReport, last: Reason = unanswered) => {
    probing = false
    if (report === 'answered') {
      openUntil = undefined
      cause = null
      ended = 0
    } else if (report !== 'unknown') {
      cause = { code: 'PROBE_FAILED', data: { last } }
      open()
    }
  }

  return {
    state,
    allowance,
    cause: () => cause,
    tryNow: () => {
      if (openUntil !== undefined) openUntil = Math.min(openUntil, now().getTime())
    },
    waitMs: () => {
      if (allowance() > 0) return 0
      // While the probe is out nobody knows; it is short.
      return Math.max(100, (openUntil ?? 0) - now().getTime())
    },
    begin: () => {
      if (allowance() === 0) return undefined
      if (openUntil === undefined) {
        const beganAt = now().getTime()
        return (report, last) => count(beganAt, report, last)
      }
      probing = true
      return judgeProbe
    },
  }
}

/** For a destination without a breaker. */
export const neverOpen: Breaker = {
  state: () => 'closed',
  allowance: () => Number.POSITIVE_INFINITY,
  waitMs: () => 0,
  begin: () => () => {},
  cause: () => null,
  tryNow: () => {},
}
