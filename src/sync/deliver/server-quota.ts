import type { ServerBudget } from '../types.ts'

/** How many requests a server says that it still takes. */
export type ServerQuota = {
  /** How many requests may start now. */
  allowance(): number
  /** Milliseconds until some may; 0 when one may now. */
  waitMs(): number
  /** Counts a start. Call the result once: was there an answer at all, and what did it say of the budget, if it did. */
  take(): (isAnswered: boolean, budget?: ServerBudget) => void
  /** For people, while the budget holds requests back, or did so lately. */
  cause(): string | null
}

/** A server that does not say when: one more request finds out. */
const unknownResetMs = 1_000
/** Of a server that counts in whole seconds, or whose end lies in what is being sent. */
const leastResetMs = 50
/** No window is longer; nobody could lift a silence of days. */
const longestResetMs = 3600_000
const shownForMs = 60_000
const unheardMs = 20

/**
 * Keeps to the budget that answers tell of (`remaining` requests until `reset`). It reads a bucket that leaks as a window that
 * ends when the bucket is empty: the same number of requests in the long run, and never one too many. An answer counts without
 * the requests that may have come after it. Until the first answer one request goes alone, since nobody knows what is left.
 */
export function createServerQuota(now: () => Date): ServerQuota {
  let isHeard = false
  let limit: number | undefined
  let remaining: number | undefined
  let resetsAt = 0
  let started = 0
  let learntFrom = 0
  let heldAt = Number.NEGATIVE_INFINITY
  const open = new Set<number>()

  const atMs = () => now().getTime()

  const turnWindow = () => {
    if (remaining === undefined || atMs() < resetsAt) return
    if (limit === undefined) {
      if (remaining <= 0) remaining = 1
    } else remaining = Math.max(1, limit - open.size)
    resetsAt = atMs() + unknownResetMs
  }

  const allowance = () => {
    if (!isHeard) return open.size === 0 ? 1 : 0
    if (remaining === undefined) return Number.POSITIVE_INFINITY
    if (remaining <= 0) turnWindow()
    if (remaining <= 0) heldAt = atMs()
    return Math.max(0, remaining)
  }

  const learn = (id: number, budget: ServerBudget) => {
    if (id < learntFrom) return
    learntFrom = id
    const earlier = [...open].filter((other) => other < id).length
    remaining = budget.remaining - (started - id) - earlier
    limit = budget.limit ?? limit
    const resetMs = Math.max(leastResetMs, budget.resetMs ?? unknownResetMs)
    resetsAt = atMs() + Math.min(resetMs, longestResetMs)
  }

  return {
    allowance,
    waitMs: () => {
      if (allowance() > 0) return 0
      // While the first request is out nobody knows.
      return isHeard ? Math.max(1, resetsAt - atMs()) : unheardMs
    },
    take: () => {
      allowance()
      started += 1
      const id = started
      open.add(id)
      if (remaining !== undefined) remaining -= 1
      return (isAnswered, budget) => {
        open.delete(id)
        isHeard ||= isAnswered
        if (budget) learn(id, budget)
      }
    },
    cause: () => {
      if (atMs() - heldAt > shownForMs) return null
      const of = limit === undefined ? '' : ` of ${limit}`
      return `its answers say how many requests${of} it still takes, and no more are sent`
    },
  }
}

/** For destinations that say nothing of the kind. */
export const noQuota: ServerQuota = {
  allowance: () => Number.POSITIVE_INFINITY,
  waitMs: () => 0,
  take: () => () => {},
  cause: () => null,
}
