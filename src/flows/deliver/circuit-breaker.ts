import type { Reason } from '../../texts/reason.ts'

/**
 * What an attempt says about the receiver. `throttled`: it works, but got too many requests (429). `unknown`: the
 * attempt did not reach it.
 */
export type ReceiverHealth = 'answered' | 'outage' | 'throttled' | 'unknown'

export type Breaker = {
  /** How many attempts may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Starts an attempt. Call the result once with its report. Undefined if none may start. */
  begin(): ((report: ReceiverHealth, cause?: Reason) => void) | undefined
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
 * or a 429 the next probe follows after an eighth of the time that it has been open, `openForMs` at most. Attempts that
 * began before it opened decide nothing. While it is closed, a 429 counts only if the caller reports an outage.
 */
export class CircuitBreaker implements Breaker {
  /** The number of last attempts among which the outages must lie. */
  readonly #among: number
  readonly #policy: BreakerPolicy
  readonly #now: () => Date
  #outages: { at: number; place: number; tookMs: number }[] = []
  #ended = 0
  /** Begin of the outage, which goes on when it opens again soon after it closed. */
  #openedAt = 0
  #closedAt = Number.NEGATIVE_INFINITY
  #openUntil: number | undefined
  #isProbing = false
  #cause: Reason | null = null

  constructor(policy: BreakerPolicy, now: () => Date) {
    this.#policy = policy
    this.#now = now
    this.#among = Math.ceil((policy.failures * 100) / policy.percent)
  }

  state(): 'closed' | 'open' | 'half-open' {
    if (this.#openUntil === undefined) return 'closed'
    return this.#nowMs() < this.#openUntil ? 'open' : 'half-open'
  }

  openUntil(): number | undefined {
    return this.#openUntil
  }

  cause(): Reason | null {
    return this.#cause
  }

  allowance(): number {
    const state = this.state()
    if (state === 'closed') return Number.POSITIVE_INFINITY
    return state === 'half-open' && !this.#isProbing ? 1 : 0
  }

  waitMs(): number {
    if (this.allowance() > 0) return 0
    // The result of the probe is not known yet; a probe is short.
    return Math.max(100, (this.#openUntil ?? 0) - this.#nowMs())
  }

  begin(): ((report: ReceiverHealth, cause?: Reason) => void) | undefined {
    if (this.allowance() === 0) return undefined
    if (this.#openUntil === undefined) {
      const beganAt = this.#nowMs()
      return (report, last) => this.#count(beganAt, report, last)
    }
    this.#isProbing = true
    return (report, last) => this.#judgeProbe(report, last)
  }

  tryNow(): void {
    if (this.#openUntil !== undefined) {
      this.#openUntil = Math.min(this.#openUntil, this.#nowMs())
    }
  }

  #nowMs(): number {
    return this.#now().getTime()
  }

  #open(): void {
    const at = this.#nowMs()
    const isNewOutage =
      this.#openUntil === undefined && at - this.#closedAt >= this.#policy.withinMs
    if (isNewOutage) this.#openedAt = at
    this.#outages = []
    const pauseMs = Math.max(firstPauseMs, (at - this.#openedAt) / shareOfOutage)
    this.#openUntil = at + Math.min(pauseMs, this.#policy.openForMs)
  }

  #count(beganAt: number, report: ReceiverHealth, last: Reason = unanswered): void {
    if (this.#openUntil !== undefined || report === 'unknown' || report === 'throttled') return
    this.#ended += 1
    if (report === 'answered') return
    const at = this.#nowMs()
    this.#outages.push({ at, place: this.#ended, tookMs: at - beganAt })
    this.#outages = this.#recent(at)
    const failed = this.#outages.length
    if (failed < this.#policy.failures) return
    const data = { failed, among: Math.min(this.#ended, this.#among), last }
    this.#cause = { code: 'ATTEMPTS_FAILED', data }
    this.#open()
  }

  #judgeProbe(report: ReceiverHealth, last: Reason = unanswered): void {
    this.#isProbing = false
    if (report === 'answered') {
      this.#openUntil = undefined
      this.#closedAt = this.#nowMs()
      this.#cause = null
      this.#ended = 0
    } else if (report !== 'unknown') {
      this.#cause = { code: 'PROBE_FAILED', data: { last } }
      this.#open()
    }
  }

  /**
   * Outages within the time. The duration of the attempts is added to it, because few attempts end at a receiver that
   * does not answer.
   */
  #recent(at: number) {
    let spanMs = this.#policy.withinMs
    let from = this.#outages.length
    for (const { at: earlier, place, tookMs } of this.#outages.toReversed()) {
      if (at - earlier >= spanMs || this.#ended - place >= this.#among) break
      spanMs += tookMs
      from -= 1
    }
    return this.#outages.slice(from)
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
