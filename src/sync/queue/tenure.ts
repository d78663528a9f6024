import type { Database } from '../../db/database.ts'
import { acquireLease, releaseLease } from '../../repositories/leases.ts'
import type { QueueLog } from './queue-log.ts'

export type TenureDeps = {
  database: Database
  now: () => Date
  /** Names this process as the owner. */
  processId: string
  log: QueueLog
  /** Longest time a dead process can hold up the others. */
  leaseMs: number
}

/** The right to work a queue, from its beginning to its loss. */
export type Term = { signal: AbortSignal }

export type Tenure = {
  /** The running term; undefined while another process has the queue, or when we can no longer be sure. */
  current(): Term | undefined
  /** Gives the right back, so that another process can begin at once. */
  stop(): Promise<void>
}

/**
 * Keeps one process at a time in charge of `name`, by a lease that it renews every third of its life. `onBegin` is called
 * with each new term: whatever the one before it left behind is then nobody's. The embedded database has one process
 * only, so there the term begins at once and never ends by itself.
 */
export function createTenure(deps: TenureDeps, name: string, onBegin: () => void): Tenure {
  if (deps.database.engine === 'pglite') return unchallenged(onBegin)
  const { db } = deps.database
  let term: { lease: number; untilMs: number; end: AbortController } | undefined
  let stopped = false
  let renewing: Promise<void> | undefined

  const end = (reason: string) => {
    if (!term) return
    term.end.abort(new Error(reason))
    term = undefined
  }

  const renew = async () => {
    // Our own end of it goes by a clock that nobody can set, from before the question was asked.
    const untilMs = performance.now() + deps.leaseMs
    const claim = { name, owner: deps.processId, now: deps.now(), lengthMs: deps.leaseMs }
    const lease = await acquireLease(db, claim)
    // Another number means that the lease had run out, so somebody may have worked in between.
    if (term && term.lease !== lease) end('the lease was lost')
    if (lease === undefined || stopped) return
    if (term) term.untilMs = untilMs
    else {
      term = { lease, untilMs, end: new AbortController() }
      onBegin()
    }
  }

  const tick = () => {
    renewing ??= renew()
      .catch((error: unknown) =>
        deps.log.warn({ err: error, lease: name }, 'a lease could not be renewed'),
      )
      .finally(() => {
        if (term && performance.now() >= term.untilMs) end('the lease could not be renewed')
        renewing = undefined
      })
  }
  const timer = setInterval(tick, deps.leaseMs / 3)
  tick()

  return {
    current: () => {
      if (term && performance.now() >= term.untilMs) {
        // The machine slept: it is ours again at once, unless somebody took it.
        end('the lease ran out')
        tick()
      }
      return term && { signal: term.end.signal }
    },
    stop: async () => {
      stopped = true
      clearInterval(timer)
      await renewing
      if (!term) return
      end('the work was stopped')
      await releaseLease(db, { name, owner: deps.processId }).catch((error: unknown) =>
        deps.log.warn({ err: error, lease: name }, 'a lease was not given back; it will expire'),
      )
    },
  }
}

function unchallenged(onBegin: () => void): Tenure {
  const end = new AbortController()
  queueMicrotask(onBegin)
  return {
    current: () => (end.signal.aborted ? undefined : { signal: end.signal }),
    stop: async () => end.abort(new Error('the work was stopped')),
  }
}
