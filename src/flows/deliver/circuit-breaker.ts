import type { Reason } from '../../texts/reason.ts'

/**
 * What an attempt says about the receiver. `throttled`: it works, but got too many requests (429). `unknown`: the
 * attempt did not reach it.
 */
export type AttemptReport = 'answered' | 'outage' | 'throttled' | 'unknown'

export type Breaker = {
  /** How many attempts may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Starts an attempt. Call the result once with its report. Undefined if none may start. */
  begin(): ((report: AttemptReport, cause?: Reason) => void) | undefined
  state(): 'closed' | 'open' | 'half-open'
  /** When a probe may start, in milliseconds since 1970; undefined while it is closed. */
  openUntil(): number | undefined
  /** Why it is not closed. */
  cause(): Reason | null
  /** An operator wants an attempt now: an open breaker lets its probe start at once. */
  tryNow(): void
}

export type BreakerPolicy = {
  failures: number
  /** The share of outages among the last attempts that opens the breaker, 1 to 100. */
  percent: number
  withinMs: number
  /** The longest time between two probes. */
  openForMs: number
}

const firstPauseMs = 1_000
/** The pauses grow with the outage: its end is found after another eighth of its length at most. */
const shareOfOutage = 8

const unanswered: Reason = { code: 'NO_ANSWER_AT_ALL' }

/**
 * Protects a receiver in trouble. It opens when `failures` outages make up `percent` of the last attempts, within
 * `withinMs`. Nothing starts for a second; then one probe decides. Any answer closes it, also a refusal. After an outage
 * or a 429 the next probe follows after an eighth of the time that it has been open, `openForMs` at most. Attempts that began before it opened decide nothing. While it is closed, a 429 counts only
 * if the caller reports an outage.
 */
export function createBreaker(policy: BreakerPolicy, now: () => Date): Breaker {
  /** The number of last attempts among which the outages must lie. */
  const among = Math.ceil((policy.failures * 100) / policy.percent)
  let outages: { at: number; place: number; tookMs: number }[] = []
  let ended = 0
  /** Begin of the outage, which goes on when it opens again soon after it closed. */
  let openedAt = 0
  let closedAt = Number.NEGATIVE_INFINITY
  let openUntil: number | undefined
  let probing = false
  let cause: Reason | null = null

  const state = () => {
    if (openUntil === undefined) return 'closed'
    return now().getTime() < openUntil ? 'open' : 'half-open'
  }

  const open = () => {
    const at = now().getTime()
    if (openUntil === undefined && at - closedAt >= policy.withinMs) openedAt = at
    outages = []
    const pauseMs = Math.max(firstPauseMs, (at - openedAt) / shareOfOutage)
    openUntil = at + Math.min(pauseMs, policy.openForMs)
  }

  const allowance = () => {
    const current = state()
    if (current === 'closed') return Number.POSITIVE_INFINITY
    return current === 'half-open' && !probing ? 1 : 0
  }

  /**
   * Outages within the time. The duration of the attempts is added to it, because few attempts end at a receiver that
   * does not answer.
   */
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
      closedAt = now().getTime()
      cause = null
      ended = 0
    } else if (report !== 'unknown') {
      cause = { code: 'PROBE_FAILED', data: { last } }
      open()
    }
  }

  return {
    state,
    openUntil: () => openUntil,
    allowance,
    cause: () => cause,
    tryNow: () => {
      if (openUntil !== undefined) openUntil = Math.min(openUntil, now().getTime())
    },
    waitMs: () => {
      if (allowance() > 0) return 0
      // The result of the probe is not known yet; a probe is short.
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
  openUntil: () => undefined,
  allowance: () => Number.POSITIVE_INFINITY,
  waitMs: () => 0,
  begin: () => () => {},
  cause: () => null,
  tryNow: () => {},
}
