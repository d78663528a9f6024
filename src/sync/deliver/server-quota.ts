import type { ServerBudget } from '../types.ts'

/** How many requests a server says that it still takes. */
export type ServerQuota = {
  /** How many attempts may start now, of as many requests each as one was seen to make lately. */
  allowance(): number
  /** Milliseconds until some may; 0 when one may now. */
  waitMs(): number
  /** Counts the start of an attempt. Call the result once: was there an answer at all, and what did it say of the budget, if it did. */
  take(): (isAnswered: boolean, budget?: ServerBudget) => void
  /** For people, while the budget holds requests back, or did so lately. */
  cause(): string | null
  /** What was told before this term of ours counts no more: another process may have sent. The same term again changes nothing. */
  begin(term: object): void
}

/** A server that does not say when: one more request finds out. */
const unknownResetMs = 1_000
/** Of a server that counts in whole seconds, or whose end lies in what is being sent. */
const leastResetMs = 50
/** No window is longer; nobody could lift a silence of days. */
const longestResetMs = 3600_000
const shownForMs = 60_000
const unheardMs = 20
/** A shop is filled with items that are looked for first, and then knows them. */
const lastAttempts = 32

/** An attempt under way, and those begun before it that were answered since: how many requests they were told remain. */
type Attempt = { requests: number; earlier: { requests: number; told: number }[] }

const requestsOf = (attempts: readonly { requests: number }[]) =>
  attempts.reduce((sum, { requests }) => sum + requests, 0)

/**
 * Keeps to the budget that answers tell of (`remaining` requests until `reset`). It reads a bucket that leaks as a window that
 * ends when the bucket is empty: the same number of requests in the long run, and never one too many. An answer counts without
 * the requests that may have come after it; requests overtake each other on the way. Until the first answer one attempt goes
 * alone, since nobody knows what is left, nor how many requests one makes.
 */
export function createServerQuota(now: () => Date): ServerQuota {
  let isHeard = false
  let limit: number | undefined
  let remaining: number | undefined
  let resetsAt = 0
  let started = 0
  let learntFrom = 0
  let forgottenTo = 0
  let term: object | undefined
  /** What that answer told; nothing that is compared with the window before. */
  let learntTold = Number.POSITIVE_INFINITY
  let heldAt = Number.NEGATIVE_INFINITY
  /** Requests of one attempt, the most that were seen lately: one that looks for the item first makes two. */
  let each = 1
  let lately: number[] = []
  const open = new Map<number, Attempt>()

  const atMs = () => now().getTime()

  const turnWindow = () => {
    if (remaining === undefined || atMs() < resetsAt) return
    if (limit === undefined) remaining = Math.max(each, remaining)
    else remaining = Math.max(each, limit - requestsOf([...open.values()]))
    learntTold = Number.POSITIVE_INFINITY
    resetsAt = atMs() + unknownResetMs
  }

  const allowance = () => {
    if (!isHeard) return open.size === 0 ? 1 : 0
    if (remaining === undefined) return Number.POSITIVE_INFINITY
    if (remaining < each) turnWindow()
    if (remaining < each) heldAt = atMs()
    return Math.max(0, Math.floor(remaining / each))
  }

  const learn = (id: number, budget: ServerBudget, attempt: Attempt) => {
    const told = budget.remaining
    for (const [other, later] of open) {
      if (other > id) later.earlier.push({ requests: attempt.requests, told })
    }
    lately = [...lately, budget.requests ?? 1].slice(-lastAttempts)
    each = Math.max(...lately)
    const resetMs = Math.max(leastResetMs, budget.resetMs ?? unknownResetMs)
    const resetAt = atMs() + Math.min(resetMs, longestResetMs)
    if (id < learntFrom) {
      // What of it arrived before the one that was learnt from was counted there already.
      const after = Math.max(0, learntTold - told)
      if (told <= learntTold) resetsAt = Math.max(resetsAt, resetAt)
      if (remaining !== undefined) remaining += Math.max(0, attempt.requests - after)
      return
    }
    learntFrom = id
    learntTold = told
    const stillOut = [...open].filter(([other]) => other < id).map(([, earlier]) => earlier)
    // They were told of less, so they arrived after this one, although they were begun and answered before.
    const overtaken = attempt.earlier.filter((earlier) => earlier.told < told)
    const since = told - overtaken.reduce((least, one) => Math.min(least, one.told), told)
    remaining =
      told - (started - id) * each - requestsOf(stillOut) - Math.min(since, requestsOf(overtaken))
    limit = budget.limit ?? limit
    // What came into a bucket later, as these did, is out of it later.
    const isOvertaken = attempt.earlier.some((earlier) => earlier.told <= told)
    resetsAt = isOvertaken ? Math.max(resetsAt, resetAt) : resetAt
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
      const attempt: Attempt = { requests: each, earlier: [] }
      open.set(id, attempt)
      if (remaining !== undefined) remaining -= each
      return (isAnswered, budget) => {
        open.delete(id)
        isHeard ||= isAnswered && id > forgottenTo
        if (budget) learn(id, budget, attempt)
      }
    },
    begin: (next) => {
      if (next === term) return
      term = next
      isHeard = false
      remaining = undefined
      forgottenTo = started
      learntFrom = started + 1
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
  begin: () => {},
}
