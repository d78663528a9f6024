import type { Database, Session, Trx } from '../db/database.ts'
import { outsideTransaction } from '../db/transactions.ts'
import type { SendPermit } from '../outbound/outbound.ts'
import { leaderLease, releasePollLeases } from '../repositories/flows/leader-lease.ts'
import {
  findOwner,
  isLeaseOf,
  keepLease,
  type LeaseToken,
  releaseLease,
  renewLease,
  takeLease,
} from '../repositories/leases.ts'

type LeaderDeps = {
  database: Database
  now: () => Date
  /** Names this process as the owner. */
  processId: string
  log: { warn(fields: object, message: string): void }
  /** 7 s when absent; for tests. */
  leaseMs?: number
}

/** The period in which this process leads. */
export type Term = {
  signal: AbortSignal
  /**
   * Runs work that sends, with a permit. Nothing may be sent unless the permit was given and is still valid at the
   * first byte. The permit is renewed until the work ends, however long it waits for a connection.
   */
  sending<T>(work: (permit: SendPermit) => Promise<T>): Promise<T>
  /** Whether no other process has led since the term began. If true, none does before the transaction ends. */
  holds(trx: Trx): Promise<boolean>
  /** The proof for a statement: undefined when the term is over, null if no other process can lead. */
  proof(): LeaseToken | null | undefined
}

export type Leader = {
  /** Starts to compete for the lead. A second call has no effect. */
  start(): Promise<void>
  /** The present term; undefined while another process leads, or when this process is not sure. */
  current(): Term | undefined
  /** Calls `onBegin` with each new term, also with a present one. Returns a function that unsubscribes. */
  follow(onBegin: (term: Term) => void): () => void
  /** Releases the lead, so that another process starts at once. */
  stop(): Promise<void>
}

/** Another process follows a leader whose host is gone within 10 s: the lease ends, and others check each second. */
const defaultLeaseMs = 7_000
const checkMs = 1_000
/** A proof of the lease is valid for that long, and a leader that follows another one waits for it. */
const longestProofMs = 500
/** Makes the other processes check at once. */
const channel = 'tillbridge_leader'

/** The evidence that the lease is ours, by a clock of this process that cannot be set. */
type Own = {
  token: number
  /** The time before the latest successful check of the lease. */
  provenMs: number
  session: Session
  proving: Promise<boolean> | undefined
  end: AbortController
}

type Leading = { own: Own; term: Term; beginsMs: number; untilMs: number }

/**
 * One process at a time leads the flows of a database, by a lease that it renews every third of its life. What an
 * earlier term left behind belongs to no process. The embedded database has one process, so its term lasts from start
 * to stop.
 *
 * The leader has a connection of its own, with a lock of the lease's token. A term ends with that connection. So who gets
 * the lock knows that the leader is gone, and need not wait for the deadline. The row with its token stays the truth.
 *
 * A process may be suspended and the database's clock may jump. So sending needs a proof by the lease's token, of that
 * connection, that is at most half a second old. A process that takes a lease that was not released waits that long before
 * its term begins.
 */
export function createLeader(deps: LeaderDeps): Leader {
  const followers = new Set<(term: Term) => void>()
  const follow: Leader['follow'] = (onBegin) => {
    // A separate function, because two listeners may be the same.
    const own = (term: Term) => onBegin(term)
    followers.add(own)
    const running = leader.current()
    if (running) queueMicrotask(() => followers.has(own) && own(running))
    return () => void followers.delete(own)
  }
  const begun = (term: Term) => {
    for (const own of followers) own(term)
  }
  const leader = {
    ...(deps.database.engine === 'pglite' ? leadAlone(deps, begun) : leadByLease(deps, begun)),
    follow,
  }
  return leader
}

function leadByLease(deps: LeaderDeps, onBegin: (term: Term) => void): Omit<Leader, 'follow'> {
  const { processId: owner, leaseMs = defaultLeaseMs } = deps
  const name = leaderLease
  const proofMs = Math.min(longestProofMs, leaseMs / 5)
  let session: Session | undefined
  let leading: Leading | undefined
  let beginning: NodeJS.Timeout | undefined
  let timer: NodeJS.Timeout | undefined
  let listening: Promise<() => Promise<void>> | undefined
  let stopped = false
  /** The token of the lease that the latest check gave us, even if no term began. */
  let ours: number | undefined
  let checking: Promise<void> | undefined
  /** The last seen mark of another process's lease, and since when. */
  let seen = { mark: '', sinceMs: 0 }

  const end = (reason: string) => {
    if (!leading) return
    clearTimeout(beginning)
    leading.own.end.abort(new Error(reason))
    leading = undefined
  }

  const verify = async (own: Own): Promise<boolean> => {
    const askedMs = performance.now()
    const isProven = await isLeaseOf(own.session.db, { name, owner, token: own.token })
    if (isProven) own.provenMs = Math.max(own.provenMs, askedMs)
    else if (leading?.own === own) end('the leader lease was lost')
    return isProven
  }
  /** One check proves the lease for all senders. */
  const prove = (own: Own): Promise<boolean> => {
    own.proving ??= verify(own)
      .catch((error: unknown) => {
        deps.log.warn({ err: error, lease: name }, 'leader lease not verified')
        return false
      })
      .finally(() => {
        own.proving = undefined
      })
    return own.proving
  }
  const permitOf =
    (own: Own): SendPermit =>
    async () => {
      const isFresh = performance.now() - own.provenMs < proofMs / 2
      if (!isFresh && !(await prove(own))) return undefined
      return () => !own.end.signal.aborted && performance.now() - own.provenMs < proofMs
    }

  const termOf = (own: Own): Term => ({
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
      const isHeld = await keepLease(trx, { name, owner, token: own.token })
      // A running sender need not wait for the next renewal to notice the loss.
      if (!isHeld && leading?.own === own) {
        end('the leader lease was lost')
        tick()
      }
      return isHeld
    },
    proof: () => (own.end.signal.aborted ? undefined : { name, owner, token: own.token }),
  })

  const begin = (on: Session, token: number, askedMs: number, waitMs: number) => {
    const own: Own = {
      ...{ session: on, token, provenMs: askedMs, proving: undefined },
      end: new AbortController(),
    }
    const term = termOf(own)
    const beginsMs = performance.now() + waitMs
    leading = { own, term, beginsMs, untilMs: askedMs + leaseMs }
    if (waitMs === 0) onBegin(term)
    else beginning = setTimeout(() => onBegin(term), waitMs + 1)
  }

  const renew = async (before: Leading) => {
    const askedMs = performance.now()
    const lease = { name, owner, token: before.own.token }
    const times = { now: deps.now(), lengthMs: leaseMs }
    const isRenewed = await renewLease(before.own.session.db, lease, times)
    ours = isRenewed ? lease.token : undefined
    if (leading !== before) return
    // Another process may have led in between.
    if (!isRenewed) return end('the leader lease was lost')
    before.untilMs = askedMs + leaseMs
    // A check that was requested later may have been answered earlier.
    before.own.provenMs = Math.max(before.own.provenMs, askedMs)
  }

  const openSession = async (): Promise<Session> => {
    const opened = await deps.database.openSession()
    opened.lost.addEventListener('abort', () => {
      if (leading?.own.session !== opened) return
      end('the connection of the leader was lost')
      if (!stopped) tick()
    })
    return opened
  }

  /**
   * Whether another process leads, whatever the clocks show: it renews its lease, and a clock that is set forward must not
   * end a healthy lead. It takes no lock of a row, so that waiting processes delay no other. `gone` is the token of a leader
   * whose connection has ended.
   */
  const findLeader = async (on: Session): Promise<{ isAlive: boolean; gone?: number }> => {
    const found = await findOwner(on.db, name)
    if (!found || found.isReleased || found.owner === owner) return { isAlive: false }
    if (await on.tryLock(found.token)) {
      await on.unlock(found.token)
      return { isAlive: false, gone: found.token }
    }
    if (found.mark !== seen.mark) seen = { mark: found.mark, sinceMs: performance.now() }
    return { isAlive: performance.now() - seen.sinceMs < leaseMs / 2 }
  }

  const take = async (on: Session) => {
    const { isAlive, gone } = await findLeader(on)
    if (isAlive) return
    const askedMs = performance.now()
    const taken = await takeLease(deps.database, {
      ...{ name, owner, now: deps.now(), lengthMs: leaseMs, lock: on.tryLock },
      isGone: (before) => before.owner === owner || before.token === gone,
      alsoWrite: async (trx, before) => {
        if (before.token === gone) await releasePollLeases(trx, before.owner)
      },
    })
    ours = taken?.token
    if (!taken || stopped || on.lost.aborted) return
    begin(on, taken.token, askedMs, taken.isFree ? 0 : proofMs)
  }

  const once = async () => {
    if (leading) await renew(leading)
    if (leading || stopped) return
    if (!session || session.lost.aborted) session = await openSession()
    await take(session)
  }

  const tick = () => {
    // `holds` notices a lost lease inside a transaction, which the next check is no part of.
    checking ??= outsideTransaction(once)
      .catch((error: unknown) =>
        deps.log.warn({ err: error, lease: name }, 'leader lease not renewed'),
      )
      .finally(() => {
        if (leading && performance.now() >= leading.untilMs) end('leader lease not renewed')
        checking = undefined
      })
  }

  return {
    start: async () => {
      if (timer || stopped) return
      const isDue = () => !leading || performance.now() >= leading.untilMs - (2 * leaseMs) / 3
      timer = setInterval(() => isDue() && tick(), Math.min(checkMs, leaseMs / 3))
      tick()
      // The answer of a running check may be older than the notification.
      const checkAgain = () => void Promise.resolve(checking).then(() => leading || tick())
      listening = deps.database.listen(channel, checkAgain)
      await listening
    },
    current: () => {
      if (leading && performance.now() >= leading.untilMs) {
        // The machine slept. The lease is ours again at once, unless another process took it.
        end('the leader lease expired')
        tick()
      }
      return leading && performance.now() >= leading.beginsMs ? leading.term : undefined
    },
    stop: async () => {
      stopped = true
      clearInterval(timer)
      await (await listening)?.()
      await checking
      end('the work was stopped')
      await session?.close()
      if (ours === undefined) return
      const token = ours
      ours = undefined
      try {
        await releaseLease(deps.database.db, { name, owner, token })
        deps.database.announce(channel, '')
      } catch (error) {
        deps.log.warn({ err: error, lease: name }, 'leader lease not released; it expires')
      }
    },
  }
}

function leadAlone(
  { database }: LeaderDeps,
  onBegin: (term: Term) => void,
): Omit<Leader, 'follow'> {
  const end = new AbortController()
  const { signal } = end
  const permit: SendPermit = async () => () => !signal.aborted
  let term: Term | undefined
  return {
    start: async () => {
      if (term) return
      await releasePollLeases(database.db)
      term = {
        signal,
        sending: (work) => work(permit),
        holds: async () => !signal.aborted,
        proof: () => (signal.aborted ? undefined : null),
      }
      onBegin(term)
    },
    current: () => (signal.aborted ? undefined : term),
    stop: async () => end.abort(new Error('the work was stopped')),
  }
}
