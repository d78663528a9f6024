import type { StoredQuestion } from '../../db/column-types.ts'
import { LeaseLostError } from '../../jobs/with-lease.ts'
import { controlError } from '../control-errors.ts'

/**
 * `resent`: deliveries of items that the source did not change, by destination. `question`: the one about a changed definition
 * that is asked then.
 */
export type PollOutcome = {
  changes: number
  rowsRead: number
  resent?: Readonly<Record<string, number>>
  skipped?: 'paused'
  question?: StoredQuestion | undefined
}

export type Poller = {
  start(): void
  /** Ends the loop after the present poll. */
  stop(): Promise<void>
  /**
   * Polls now. Requests during a poll share the next one, because the source may have changed behind the present
   * read. A paused flow is polled only with `force`. Rejects with the poll's failure.
   */
  request(options: { force: boolean }): Promise<PollOutcome>
  /**
   * Runs work while no poll of this process runs; polls requested meanwhile follow. Returns false, without running
   * it, during a poll.
   */
  runExclusive(work: () => Promise<void>): Promise<boolean>
  /** Checks the schedule again at once, after a change of the flow. */
  wake(): void
  /** The source may have changed: the next poll is due now, if the flow may be polled. */
  hint(): void
  readonly isPolling: boolean
  /** Whether a requested poll waits because another process polls the flow. */
  readonly isWaiting: boolean
  /** The present poll. */
  readonly running: Promise<unknown> | undefined
}

export type PollerDeps = {
  /**
   * One poll under the flow's lease; `begun` is called once it has the lease. Undefined if another process holds it.
   * It skips a paused flow unless `force`, because an awaited poll may have used up a limit.
   */
  poll: (options: { force: boolean; begun: () => void }) => Promise<PollOutcome | undefined>
  /** Whether this process polls by the timer. One process of a database does. */
  leads: () => boolean
  /** Waits until a timed poll may start, because polls of all flows are limited. Call the result at its end. */
  takeSlot?: (signal: AbortSignal) => Promise<() => void>
  /** Whether the timer may poll now: not paused, inside its window. Asked only when a poll is due. */
  mayPoll: () => Promise<boolean>
  /** End of the last poll by any process; null without one since this process started. */
  lastPollAt: () => Promise<Date | null>
  intervalMs: () => number
  /** When the next poll is planned after one that ended then; null for never. */
  plannedAfter: (last: Date) => Date | null
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
  onFailure: (error: unknown) => void
}

/** How often the schedule and the pauses are checked, because other processes may change them. */
const checkMs = 1_000
/** Before a poll that is due later than in a minute nothing but a clock that is set forward can bring it nearer. */
const farMs = 60_000
const farCheckMs = 10_000
const waitForLeaseMs = 250
const longestLeaseWaitMs = 30 * 60_000

/**
 * Polls a flow at its interval while this process leads, and on request in any process. Polls of a flow never
 * overlap. After downtime there is one poll, not a burst.
 */
export function createPoller(deps: PollerDeps): Poller {
  const stopped = new AbortController()
  let sleeping = new AbortController()
  let loop: Promise<void> | undefined
  let current: Promise<PollOutcome> | undefined
  let next: Promise<PollOutcome> | undefined
  let forcesNext = false
  let isWaiting = false
  let isHinted = false
  /** True right after a poll: several hints count as one. */
  let isAfterPoll = false

  const sleepUntilWoken = async (ms: number) => {
    sleeping = new AbortController()
    const signal = AbortSignal.any([sleeping.signal, stopped.signal])
    await deps.sleep(ms, signal).catch(() => undefined)
  }

  const begun = () => {
    isWaiting = false
  }

  const pollByRequest = async ({ force }: { force: boolean }): Promise<PollOutcome> => {
    for (let waitedMs = 0; waitedMs < longestLeaseWaitMs; waitedMs += waitForLeaseMs) {
      isWaiting = true
      const outcome = await deps.poll({ force, begun }).catch(unlessLost)
      if (outcome) return outcome
      if (stopped.signal.aborted) break
      await deps.sleep(waitForLeaseMs, stopped.signal).catch(() => undefined)
    }
    throw controlError('SERVICE_UNAVAILABLE', { code: 'POLLED_ELSEWHERE' })
  }

  const run = (work: () => Promise<PollOutcome>): Promise<PollOutcome> => {
    const started = work().finally(() => {
      current = undefined
      isWaiting = false
    })
    current = started
    return started
  }

  const request = ({ force }: { force: boolean }): Promise<PollOutcome> => {
    if (current === undefined) return run(() => pollByRequest({ force }))
    forcesNext ||= force
    next ??= current
      .catch(() => undefined)
      .then(() => {
        const options = { force: forcesNext }
        next = undefined
        forcesNext = false
        return request(options)
      })
    return next
  }

  const waitMs = async () => {
    if (isHinted) return (await deps.mayPoll()) ? 0 : checkMs
    const last = await deps.lastPollAt()
    const now = deps.now()
    // A last poll more than an interval ahead was recorded before the clock was set back.
    const isAhead = last !== null && last.getTime() - now.getTime() > deps.intervalMs()
    const planned = last === null || isAhead ? now : deps.plannedAfter(last)
    if (planned === null) return checkMs
    const dueMs = planned.getTime() - now.getTime()
    if (dueMs > farMs) return farCheckMs
    if (dueMs > 0) return Math.min(checkMs, dueMs)
    return (await deps.mayPoll()) ? 0 : checkMs
  }

  const step = async () => {
    // A hint concerns only the process that got it.
    if (!deps.leads() && !isHinted) return sleepUntilWoken(checkMs)
    const ms = await waitMs()
    if (ms > 0) return sleepUntilWoken(ms)
    const releaseSlot = await deps.takeSlot?.(stopped.signal)
    try {
      // A request may have started a poll meanwhile.
      if (current !== undefined) {
        await current.catch(() => undefined)
        return undefined
      }
      isHinted = false
      const poll = () => deps.poll({ force: false, begun })
      await run(async () => (await poll()) ?? { changes: 0, rowsRead: 0 })
    } finally {
      releaseSlot?.()
    }
    // No interval is shorter. If another process polled, its end shows in the database.
    isAfterPoll = true
    return sleepUntilWoken(checkMs).finally(() => {
      isAfterPoll = false
    })
  }

  return {
    get isPolling() {
      return current !== undefined
    },
    get isWaiting() {
      return isWaiting
    },
    get running() {
      return current
    },
    wake: () => sleeping.abort(),
    hint() {
      isHinted = true
      if (!isAfterPoll) sleeping.abort()
    },
    request,
    async runExclusive(work) {
      if (current !== undefined) return false
      await run(async () => {
        await work()
        return { changes: 0, rowsRead: 0 }
      })
      return true
    },
    start() {
      loop ??= (async () => {
        while (!stopped.signal.aborted) {
          await step().catch(async (error) => {
            if (stopped.signal.aborted && error === stopped.signal.reason) return
            deps.onFailure(error)
            await sleepUntilWoken(checkMs)
          })
        }
      })()
    },
    async stop() {
      stopped.abort()
      await loop
      await Promise.allSettled([current, next])
    },
  }
}

/** Another process took over the flow during the poll. The requester waits as for any running poll. */
function unlessLost(error: unknown): undefined {
  if (!(error instanceof LeaseLostError)) throw error
}
