export type RequestBudget = {
  /** How many requests may start now. */
  allowance(): number
  /** Milliseconds until some may; 0 when one may now. */
  waitMs(): number
  /** Counts a start. Call the result once with whether the receiver refused it as too many; not at all when that is not known. */
  take(): (isRefused: boolean) => void
  /** Requests a second; undefined while the receiver has not complained. */
  perSecond(): number | undefined
  /** Whether it cannot get smaller. */
  isLeast(): boolean
}

/** Below that a receiver is not busy but in trouble, which the breaker sees to. */
const leastPerSecond = 1
/**
 * So many refusals among the answers are let pass: receivers say 429 now and then for reasons that no pace mends. Of few
 * answers more may be 429 by chance alone, which the deviations allow for.
 */
const toleratedShare = 0.04
const deviations = 2.5
/** A share of fewer answers says nothing. */
const answersAtLeast = 40
const windowMs = 1_000
const longestWindowMs = 60_000
/** By how much of what was too much it grows with each window; by a part of itself after that many without a complaint. */
const step = 0.01
const carefulWindows = 20
const boldGrowth = 1.04
/** What may start at once, as a part of a second's worth: fewer wake-ups for the same pace. */
const burstSeconds = 0.05

/**
 * The pace that a receiver bears, found out by its 429: additive increase, multiplicative decrease. It is without limit until
 * more than a twentieth of the answers are 429. Then it shrinks to the part that was taken, by a half at most, and grows
 * again slowly. Answers to what began before it shrank decide nothing. Twice as wide as what is used, it is gone.
 */
export function createRequestBudget(now: () => Date): RequestBudget {
  let rate = Number.POSITIVE_INFINITY
  /** What was too much. */
  let ceiling = 0
  let cuts = 0
  let quietWindows = 0
  let tokens = 0
  let filledAt = now().getTime()
  /** Starts of about the last second. */
  let recent = 0
  let recentAt = filledAt
  let usual = 0
  let window = { since: filledAt, answers: 0, refused: 0 }

  const burst = () => Math.max(1, rate * burstSeconds)

  const fill = () => {
    const at = now().getTime()
    if (Number.isFinite(rate)) {
      tokens = Math.min(burst(), tokens + ((at - filledAt) * rate) / 1_000)
    }
    filledAt = at
  }

  const usedPerSecond = () => recent * Math.exp((recentAt - now().getTime()) / 1_000)

  const newWindow = () => {
    window = { since: now().getTime(), answers: 0, refused: 0 }
  }

  const cut = () => {
    fill()
    if (!Number.isFinite(rate)) tokens = 0
    ceiling = Math.max(leastPerSecond, Math.min(rate, Math.max(usedPerSecond(), leastPerSecond)))
    const taken = 1 - window.refused / window.answers
    rate = Math.max(leastPerSecond, ceiling * Math.min(Math.max(taken, 0.5), 0.95))
    tokens = Math.min(tokens, burst())
    cuts += 1
    quietWindows = 0
    usual = Math.min(usual, rate)
    newWindow()
  }

  /** A window is over without far too many refusals. */
  const endWindow = () => {
    const { answers, refused } = window
    const tolerated = answers * toleratedShare
    usual = answers
    newWindow()
    if (!Number.isFinite(rate)) return
    fill()
    if (refused > tolerated) {
      const isChance = refused <= tolerated + Math.sqrt(tolerated) / 2
      if (!isChance) rate = Math.max(leastPerSecond, rate * (1 - refused / answers / 2))
      return
    }
    quietWindows += 1
    rate = quietWindows > carefulWindows ? rate * boldGrowth : rate + ceiling * step
    if (rate > 2 * Math.max(usedPerSecond(), leastPerSecond)) rate = Number.POSITIVE_INFINITY
  }

  const count = (isRefused: boolean) => {
    window.answers += 1
    if (isRefused) window.refused += 1
    const among = Math.max(window.answers, usual, answersAtLeast)
    const tolerated = among * toleratedShare
    if (window.refused > tolerated + deviations * Math.sqrt(tolerated)) return cut()
    const ageMs = now().getTime() - window.since
    const isFull = ageMs >= windowMs && window.answers >= answersAtLeast
    if (isFull || ageMs >= longestWindowMs) endWindow()
  }

  return {
    allowance: () => {
      if (!Number.isFinite(rate)) return Number.POSITIVE_INFINITY
      fill()
      return Math.floor(tokens)
    },
    waitMs: () => {
      if (!Number.isFinite(rate)) return 0
      fill()
      if (tokens >= 1) return 0
      return Math.max(1, Math.ceil(((Math.max(1, burst() / 2) - tokens) * 1_000) / rate))
    },
    take: () => {
      fill()
      if (Number.isFinite(rate)) tokens -= 1
      const at = now().getTime()
      recent = recent * Math.exp((recentAt - at) / 1_000) + 1
      recentAt = at
      const begunAfter = cuts
      return (isRefused) => {
        if (begunAfter === cuts) count(isRefused)
      }
    },
    perSecond: () => (Number.isFinite(rate) ? rate : undefined),
    isLeast: () => rate <= leastPerSecond,
  }
}
