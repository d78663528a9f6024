import type { StoredReason } from '../../domain/flow-reasons.ts'
import { AppError } from '../../errors/app-error.ts'
import { LeaseLostError } from './poll-lease.ts'

/** `why`: what a paused flow waits to be told. */
export type PollOutcome = {
  changes: number
  rowsRead: number
  skipped?: 'paused'
  why?: StoredReason
}

export type Poller = {
  start(): void
  /** Ends the loop after the poll in progress. */
  stop(): Promise<void>
  /**
   * Polls now. While a poll runs, every request shares the one after it, since what they ask for may have changed behind
   * the running one's back. A paused flow is polled only when one of them says `force`. Rejects with the poll's failure.
   */
  request(options: { force: boolean }): Promise<PollOutcome>
  /**
   * Does something that no poll of this process may run beside; polls that are asked for meanwhile follow it. Answers false,
   * and does nothing, while a poll runs.
   */
  aside(work: () => Promise<void>): Promise<boolean>
  /** Looks at the clock again at once: something about the flow was changed. */
  wake(): void
  /** Something may have changed at the source: the next poll is due now, if the flow may be polled. */
  hint(): void
  readonly isPolling: boolean
  /** Whether the poll in progress was asked for and has not begun, since another process polls the flow. */
  readonly isWaiting: boolean
  /** The poll in progress. */
  readonly running: Promise<unknown> | undefined
}

export type PollerDeps = {
  /**
   * One poll under the flow's lease, with `begun` called once it has that; undefined when another process holds it. It skips a
   * flow that is paused by then, unless `force`: the poll that it waited for may have been the last of a limit.
   */
  poll: (options: { force: boolean; begun: () => void }) => Promise<PollOutcome | undefined>
  /** Waits until a poll by the timer may begin, beside those of other flows; the result is called at its end. */
  takeTurn?: (signal: AbortSignal) => Promise<() => void>
  /** Whether the timer may poll now: not paused, inside its window. Asked only when a poll is due. */
  mayPoll: () => Promise<boolean>
  /** End of the last poll by any process; null when there was none since this one started. */
  lastPollAt: () => Promise<Date | null>
  intervalMs: () => number
  /** When a poll is planned after one that ended then; null for never. */
  plannedAfter: (last: Date) => Date | null
  now: () => Date
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
  onFailure: (error: unknown) => void
}

/** How often the clock and the pause set are looked at: another process may have changed them. */
const lookMs = 1_000
const waitForLeaseMs = 250
const longestLeaseWaitMs = 30 * 60_000

/** Polls a flow at its interval, never twice at once, and on request. After downtime there is one poll, not a burst. */
export function createPoller(deps: PollerDeps): Poller {
  const stopped = new AbortController()
  let sleeping = new AbortController()
  let loop: Promise<void> | undefined
  let current: Promise<PollOutcome> | undefined
  let next: Promise<PollOutcome> | undefined
  let forcesNext = false
  let isWaiting = false
  let isHinted = false
  /** After a poll: hints in a row are one. */
  let isResting = false

  const nap = async (ms: number) => {
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
    throw new AppError('SERVICE_UNAVAILABLE', { message: 'Another process is polling this flow' })
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
    if (isHinted) return (await deps.mayPoll()) ? 0 : lookMs
    const last = await deps.lastPollAt()
    const now = deps.now()
    // A last poll that lies more than an interval ahead was written before the clock was set back.
    const isAhead = last !== null && last.getTime() - now.getTime() > deps.intervalMs()
    const planned = last === null || isAhead ? now : deps.plannedAfter(last)
    if (planned === null) return lookMs
    const dueMs = planned.getTime() - now.getTime()
    if (dueMs > 0) return Math.min(lookMs, dueMs)
    return (await deps.mayPoll()) ? 0 : lookMs
  }

  const turn = async () => {
    const ms = await waitMs()
    if (ms > 0) return nap(ms)
    const endTurn = await deps.takeTurn?.(stopped.signal)
    try {
      // Somebody may have asked for it meanwhile.
      if (current !== undefined) {
        await current.catch(() => undefined)
        return undefined
      }
      isHinted = false
      const poll = () => deps.poll({ force: false, begun })
      await run(async () => (await poll()) ?? { changes: 0, rowsRead: 0 })
    } finally {
      endTurn?.()
    }
    // No interval is shorter, and when another process was at it, its end will show in the database.
    isResting = true
    return nap(lookMs).finally(() => {
      isResting = false
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
      if (!isResting) sleeping.abort()
    },
    request,
    async aside(work) {
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
          await turn().catch(async (error) => {
            if (stopped.signal.aborted && error === stopped.signal.reason) return
            deps.onFailure(error)
            await nap(lookMs)
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

/** Another process took the flow over in the middle of the poll: who asked for one waits as for any other that goes on there. */
function unlessLost(error: unknown): undefined {
  if (!(error instanceof LeaseLostError)) throw error
}
