/** What an attempt told about the receiver; `unknown` when it never got that far. */
export type AttemptReport = 'answered' | 'outage' | 'unknown'

export type Breaker = {
  /** How many attempts may start now. */
  allowance(): number
  /** Milliseconds until one may; 0 when one may now. */
  waitMs(): number
  /** Starts an attempt; call the result once with what came of it. Undefined when none may start. */
  begin(): ((report: AttemptReport) => void) | undefined
  state(): 'closed' | 'open' | 'half-open'
}

export type BreakerPolicy = { failures: number; withinMs: number; openForMs: number }

/**
 * Spares a receiver in trouble. After `failures` outages within `withinMs` nothing starts for `openForMs`; then one
 * attempt alone finds out: any answer, a refusal too, closes it, another outage opens it again. Attempts that were under
 * way when it opened decide nothing.
 */
export function createBreaker(policy: BreakerPolicy, now: () => Date): Breaker {
  let outages: number[] = []
  let openUntil: number | undefined
  let probing = false

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

  const count = (report: AttemptReport) => {
    if (report !== 'outage' || openUntil !== undefined) return
    const at = now().getTime()
    outages = outages.filter((earlier) => at - earlier < policy.withinMs)
    outages.push(at)
    if (outages.length >= policy.failures) open()
  }

  const judgeProbe = (report: AttemptReport) => {
    probing = false
    if (report === 'outage') open()
    else if (report === 'answered') openUntil = undefined
  }

  return {
    state,
    allowance,
    waitMs: () => {
      if (allowance() > 0) return 0
      // While the probe is out nobody knows; it is short.
      return Math.max(100, (openUntil ?? 0) - now().getTime())
    },
    begin: () => {
      if (allowance() === 0) return undefined
      if (openUntil === undefined) return count
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
}
