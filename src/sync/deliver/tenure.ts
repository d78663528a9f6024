import type { Database, Trx } from '../../db/database.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import {
  acquireLease,
  findLastOwner,
  isLeaseOf,
  keepLease,
  type LeaseToken,
  releaseLease,
} from '../../repositories/leases.ts'
import type { QueueLog } from './queue.ts'

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
export type Term = {
  signal: AbortSignal
  /**
   * Does something that sends, with the permit to: nothing may leave the house unless it was given and, at the first byte,
   * still holds. It stays fresh until the work ends, however long that waits for a connection.
   */
  sending<T>(work: (permit: SendPermit) => Promise<T>): Promise<T>
  /** Whether nobody has worked the queue since it began; then nobody else does before the transaction ends. */
  holds(trx: Trx): Promise<boolean>
  /** By what a statement tells the same: undefined when it is over, null where nobody else can work the queue. */
  proof(): LeaseToken | null | undefined
}

export type Tenure = {
  /** The running term; undefined while another process has the queue, or when we can no longer be sure. */
  current(): Term | undefined
  /** Gives the right back, so that another process can begin at once. */
  stop(): Promise<void>
}

type Held = {
  lease: number
  /** The times of this process go by a clock that nobody can set. */
  beginsMs: number
  untilMs: number
  /** From before the latest question to the database that proved the lease. */
  provenMs: number
  proving: Promise<boolean> | undefined
  end: AbortController
}

/**
 * Keeps one process at a time in charge of `name`, by a lease that it renews every third of its life. `onBegin` is called
 * with each new term: whatever the one before it left behind is then nobody's. The embedded database has one process
 * only, so there the term begins at once and never ends by itself.
 *
 * A process may stand still at any moment, and the clock by which leases end may jump. So what is sent needs a proof by the
 * token of the lease that is younger than a fifth of its life, and whoever takes a lease that was not given back waits
 * that long before its term begins: nobody can still hold a proof then.
 */
export function createTenure(deps: TenureDeps, name: string, onBegin: () => void): Tenure {
  if (deps.database.engine === 'pglite') return unchallenged(onBegin)
  const { db } = deps.database
  const { processId: owner, leaseMs } = deps
  const proofMs = leaseMs / 5
  let term: Held | undefined
  let beginning: NodeJS.Timeout | undefined
  let stopped = false
  /** Whether the latest question gave it to us, also where no term came of that. */
  let isHeld = false
  let renewing: Promise<void> | undefined

  const end = (reason: string) => {
    if (!term) return
    clearTimeout(beginning)
    term.end.abort(new Error(reason))
    term = undefined
  }

  const begin = (
    lease: number,
    askedMs: number,
    before: Awaited<ReturnType<typeof findLastOwner>>,
  ) => {
    const isFree = !before || before.owner === owner || before.isGivenBack
    // Another token means that somebody had it in between.
    const isNext = lease === (before?.token ?? 0) + 1
    const waitMs = isFree && isNext ? 0 : proofMs
    term = {
      lease,
      beginsMs: performance.now() + waitMs,
      untilMs: askedMs + leaseMs,
      provenMs: askedMs,
      proving: undefined,
      end: new AbortController(),
    }
    if (waitMs === 0) onBegin()
    else beginning = setTimeout(onBegin, waitMs + 1)
  }

  const renew = async () => {
    const before = term
      ? { owner, token: term.lease, isGivenBack: false }
      : await findLastOwner(db, name)
    const askedMs = performance.now()
    const lease = await acquireLease(db, { name, owner, now: deps.now(), lengthMs: leaseMs })
    // Another number means that the lease had run out, so somebody may have worked in between.
    if (term && term.lease !== lease) end('the lease was lost')
    isHeld = lease !== undefined
    if (lease === undefined || stopped) return
    if (term) {
      term.untilMs = askedMs + leaseMs
      // A proof that was asked for after this may have had its answer before.
      term.provenMs = Math.max(term.provenMs, askedMs)
    } else begin(lease, askedMs, before)
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
  const timer = setInterval(tick, leaseMs / 3)
  tick()

  const ask = async (own: Held): Promise<boolean> => {
    const askedMs = performance.now()
    const isOurs = await isLeaseOf(db, { name, owner, token: own.lease })
    if (isOurs) own.provenMs = Math.max(own.provenMs, askedMs)
    else if (term === own) end('the lease was lost')
    return isOurs
  }
  /** One question proves the lease for all who want to send. */
  const prove = (own: Held): Promise<boolean> => {
    own.proving ??= ask(own)
      .catch((error: unknown) => {
        deps.log.warn({ err: error, lease: name }, 'a lease could not be proven')
        return false
      })
      .finally(() => {
        own.proving = undefined
      })
    return own.proving
  }
  const permitOf =
    (own: Held): SendPermit =>
    async () => {
      const isFresh = performance.now() - own.provenMs < proofMs / 2
      if (!isFresh && !(await prove(own))) return undefined
      return () => !own.end.signal.aborted && performance.now() - own.provenMs < proofMs
    }

  return {
    current: () => {
      if (term && performance.now() >= term.untilMs) {
        // The machine slept: it is ours again at once, unless somebody took it.
        end('the lease ran out')
        tick()
      }
      if (!term || performance.now() < term.beginsMs) return undefined
      const own = term
      return {
        signal: own.end.signal,
        sending: async (work) => {
          const permit = permitOf(own)
          const refreshing = setInterval(() => void permit(), proofMs / 4)
          try {
            return await work(permit)
          } finally {
            clearInterval(refreshing)
          }
        },
        holds: async (trx) => {
          const isOurs = await keepLease(trx, { name, owner, token: own.lease })
          // What it learns here a process need not wait for until its next renewal, sending on.
          if (!isOurs && term === own) {
            end('the lease was lost')
            tick()
          }
          return isOurs
        },
        proof: () => (own.end.signal.aborted ? undefined : { name, owner, token: own.lease }),
      }
    },
    stop: async () => {
      stopped = true
      clearInterval(timer)
      await renewing
      end('the work was stopped')
      if (!isHeld) return
      await releaseLease(db, { name, owner }).catch((error: unknown) =>
        deps.log.warn({ err: error, lease: name }, 'a lease was not given back; it will expire'),
      )
    },
  }
}

function unchallenged(onBegin: () => void): Tenure {
  const end = new AbortController()
  const { signal } = end
  queueMicrotask(onBegin)
  const permit: SendPermit = async () => () => !signal.aborted
  const term: Term = {
    signal,
    sending: (work) => work(permit),
    holds: async () => !signal.aborted,
    proof: () => (signal.aborted ? undefined : null),
  }
  return {
    current: () => (signal.aborted ? undefined : term),
    stop: async () => end.abort(new Error('the work was stopped')),
  }
}

export type Tenures = {
  /**
   * The tenure of this name, which all in this process who ask for it share. Its lease is given back when the last of them
   * stops. `onBegin` is called with each new term, and when there is one already.
   */
  share(name: string, onBegin: () => void): Tenure
}

type Shared = {
  /** Undefined while the one before it gives the lease back. */
  tenure: Tenure | undefined
  opened: Promise<void>
  users: Set<() => void>
}

export function createTenures(deps: TenureDeps): Tenures {
  const shared = new Map<string, Shared>()
  /** Those that give their lease back, which is of this process: it would take it from the next one here. */
  const ending = new Map<string, Promise<void>>()

  const open = (name: string): Shared => {
    const users = new Set<() => void>()
    const begin = () => {
      const tenure = createTenure(deps, name, () => {
        for (const onBegin of users) onBegin()
      })
      own.tenure = tenure
    }
    const own: Shared = { tenure: undefined, opened: Promise.resolve(), users }
    const before = ending.get(name)
    if (before) own.opened = before.then(begin)
    else begin()
    return own
  }

  const end = (name: string, own: Shared): Promise<void> => {
    if (shared.get(name) !== own) return ending.get(name) ?? Promise.resolve()
    shared.delete(name)
    const ended = own.opened.then(() => own.tenure?.stop())
    ending.set(name, ended)
    void ended.then(() => ending.get(name) === ended && ending.delete(name))
    return ended
  }

  return {
    share: (name, onBegin) => {
      const known = shared.get(name)
      const own = known ?? open(name)
      shared.set(name, own)
      // A function of its own, since two may share one.
      const begin = () => onBegin()
      own.users.add(begin)
      if (known?.tenure?.current()) queueMicrotask(begin)
      return {
        current: () => own.tenure?.current(),
        stop: async () => {
          own.users.delete(begin)
          if (own.users.size === 0) await end(name, own)
        },
      }
    },
  }
}
