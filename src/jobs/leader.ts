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
  /** A leader that was found gone before: the wait for its last proof began then. */
  gone?: Promise<GoneLeader | undefined>
}

/** The token of a leader whose connection had ended at this time, by performance.now(). */
export type GoneLeader = { token: number; atMs: number }

/**
 * Looks, early in the start of a process, whether the last leader is gone: its last proof ends while the rest is loaded. It takes
 * nothing.
 */
export async function findGoneLeader(
  database: Pick<Database, 'engine' | 'openSession'>,
): Promise<GoneLeader | undefined> {
  if (database.engine === 'pglite') return undefined
  const session = await database.openSession()
  try {
    const found = await findOwner(session.db, leaderLease)
    if (!found || found.isReleased || !(await session.tryLock(found.token))) return undefined
    return { token: found.token, atMs: performance.now() }
  } finally {
    await session.close()
  }
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
const name = leaderLease
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
  const begun = (term: Term) => {
    for (const own of followers) own(term)
  }
  const leading =
    deps.database.engine === 'pglite' ? leadAlone(deps, begun) : new LeaseLeader(deps, begun)
  return {
    start: () => leading.start(),
    current: () => leading.current(),
    stop: () => leading.stop(),
    follow(onBegin) {
      // A separate function, because two listeners may be the same.
      const own = (term: Term) => onBegin(term)
      followers.add(own)
      const running = leading.current()
      if (running) queueMicrotask(() => followers.has(own) && own(running))
      return () => void followers.delete(own)
    },
  }
}

/** Leads by a lease in the table of leases, with the lock of a connection. */
class LeaseLeader implements Omit<Leader, 'follow'> {
  readonly #deps: LeaderDeps
  readonly #onBegin: (term: Term) => void
  readonly #owner: string
  readonly #leaseMs: number
  readonly #proofMs: number
  #session: Session | undefined
  #leading: Leading | undefined
  #beginning: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined
  #listening: Promise<() => Promise<void>> | undefined
  #isStopped = false
  /** The token of the lease that the latest check gave us, even if no term began. */
  #ours: number | undefined
  #checking: Promise<void> | undefined
  /** The last seen mark of another process's lease, and since when. */
  #seen = { mark: '', sinceMs: 0 }

  constructor(deps: LeaderDeps, onBegin: (term: Term) => void) {
    const { processId, leaseMs = defaultLeaseMs } = deps
    this.#deps = deps
    this.#onBegin = onBegin
    this.#owner = processId
    this.#leaseMs = leaseMs
    this.#proofMs = Math.min(longestProofMs, leaseMs / 5)
  }

  async start(): Promise<void> {
    if (this.#timer || this.#isStopped) return
    this.#timer = setInterval(
      () => this.#isDue() && this.#tick(),
      Math.min(checkMs, this.#leaseMs / 3),
    )
    this.#tick()
    // The answer of a running check may be older than the notification.
    const checkAgain = () =>
      void Promise.resolve(this.#checking).then(() => this.#leading || this.#tick())
    this.#listening = this.#deps.database.listen(channel, checkAgain)
    await this.#listening
  }

  current(): Term | undefined {
    const leading = this.#leading
    if (!leading) return undefined
    if (performance.now() >= leading.untilMs) {
      // The machine slept. The lease is ours again at once, unless another process took it.
      this.#end('the leader lease expired')
      this.#tick()
      return undefined
    }
    return performance.now() >= leading.beginsMs ? leading.term : undefined
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    await (await this.#listening)?.()
    await this.#checking
    this.#end('the work was stopped')
    await this.#session?.close()
    if (this.#ours === undefined) return
    const token = this.#ours
    this.#ours = undefined
    try {
      await releaseLease(this.#deps.database.db, { name, owner: this.#owner, token })
      this.#deps.database.announce(channel, '')
    } catch (error) {
      this.#deps.log.warn({ err: error, lease: name }, 'leader lease not released; it expires')
    }
  }

  #isDue(): boolean {
    const { untilMs } = this.#leading ?? { untilMs: 0 }
    return performance.now() >= untilMs - (2 * this.#leaseMs) / 3
  }

  #tick(): void {
    // `holds` notices a lost lease inside a transaction, which the next check is no part of.
    this.#checking ??= outsideTransaction(() => this.#check())
      .catch((error: unknown) =>
        this.#deps.log.warn({ err: error, lease: name }, 'leader lease not renewed'),
      )
      .finally(() => {
        const isOver = this.#leading && performance.now() >= this.#leading.untilMs
        if (isOver) this.#end('leader lease not renewed')
        this.#checking = undefined
      })
  }

  async #check(): Promise<void> {
    if (this.#leading) await this.#renew(this.#leading)
    if (this.#leading || this.#isStopped) return
    if (!this.#session || this.#session.lost.aborted) this.#session = await this.#openSession()
    await this.#take(this.#session)
  }

  async #openSession(): Promise<Session> {
    const opened = await this.#deps.database.openSession()
    opened.lost.addEventListener('abort', () => {
      if (this.#leading?.own.session !== opened) return
      this.#end('the connection of the leader was lost')
      if (!this.#isStopped) this.#tick()
    })
    return opened
  }

  /** How long a proof of the former leader may still be valid. */
  #proofLeftMs(found: GoneLeader | undefined, gone: number | undefined): number {
    if (gone === undefined || found?.token !== gone) return this.#proofMs
    return Math.max(0, this.#proofMs - (performance.now() - found.atMs))
  }

  async #take(on: Session): Promise<void> {
    // Before the check below, since both try the same lock.
    const foundGone = await this.#deps.gone
    const { isAlive, gone } = await this.#findLeader(on)
    if (isAlive) return
    const owner = this.#owner
    const askedMs = performance.now()
    const taken = await takeLease(this.#deps.database, {
      ...{ name, owner, now: this.#deps.now(), lengthMs: this.#leaseMs, lock: on.tryLock },
      isGone: (before) => before.owner === owner || before.token === gone,
      alsoWrite: async (trx, before) => {
        if (before.token === gone) await releasePollLeases(trx, before.owner)
      },
    })
    this.#ours = taken?.token
    if (!taken || this.#isStopped || on.lost.aborted) return
    this.#begin(on, taken.token, askedMs, taken.isFree ? 0 : this.#proofLeftMs(foundGone, gone))
  }

  /**
   * Whether another process leads, whatever the clocks show: it renews its lease, and a clock that is set forward must not
   * end a healthy lead. It takes no lock of a row, so that waiting processes delay no other. `gone` is the token of a leader
   * whose connection has ended.
   */
  async #findLeader(on: Session): Promise<{ isAlive: boolean; gone?: number }> {
    const found = await findOwner(on.db, name)
    if (!found || found.isReleased || found.owner === this.#owner) return { isAlive: false }
    if (await on.tryLock(found.token)) {
      await on.unlock(found.token)
      return { isAlive: false, gone: found.token }
    }
    if (found.mark !== this.#seen.mark) {
      this.#seen = { mark: found.mark, sinceMs: performance.now() }
    }
    return { isAlive: performance.now() - this.#seen.sinceMs < this.#leaseMs / 2 }
  }

  #begin(on: Session, token: number, askedMs: number, waitMs: number): void {
    const own: Own = {
      ...{ session: on, token, provenMs: askedMs, proving: undefined },
      end: new AbortController(),
    }
    const term = this.#termOf(own)
    const beginsMs = performance.now() + waitMs
    this.#leading = { own, term, beginsMs, untilMs: askedMs + this.#leaseMs }
    if (waitMs === 0) this.#onBegin(term)
    else this.#beginning = setTimeout(() => this.#onBegin(term), waitMs + 1)
  }

  async #renew(before: Leading): Promise<void> {
    const askedMs = performance.now()
    const lease = { name, owner: this.#owner, token: before.own.token }
    const times = { now: this.#deps.now(), lengthMs: this.#leaseMs }
    const isRenewed = await renewLease(before.own.session.db, lease, times)
    this.#ours = isRenewed ? lease.token : undefined
    if (this.#leading !== before) return
    // Another process may have led in between.
    if (!isRenewed) return this.#end('the leader lease was lost')
    before.untilMs = askedMs + this.#leaseMs
    // A check that was requested later may have been answered earlier.
    before.own.provenMs = Math.max(before.own.provenMs, askedMs)
  }

  #end(reason: string): void {
    if (!this.#leading) return
    clearTimeout(this.#beginning)
    this.#leading.own.end.abort(new Error(reason))
    this.#leading = undefined
  }

  #termOf(own: Own): Term {
    const { signal } = own.end
    const lease = { name, owner: this.#owner, token: own.token }
    return {
      signal,
      proof: () => (signal.aborted ? undefined : lease),
      holds: async (trx) => {
        const isHeld = await keepLease(trx, lease)
        // A running sender need not wait for the next renewal to notice the loss.
        if (!isHeld && this.#leading?.own === own) {
          this.#end('the leader lease was lost')
          this.#tick()
        }
        return isHeld
      },
      sending: sendingWith(() => this.#permit(own), this.#proofMs / 4),
    }
  }

  async #permit(own: Own): Promise<(() => boolean) | undefined> {
    const isFresh = performance.now() - own.provenMs < this.#proofMs / 2
    if (!isFresh && !(await this.#prove(own))) return undefined
    return () => !own.end.signal.aborted && performance.now() - own.provenMs < this.#proofMs
  }

  /** One check proves the lease for all senders. */
  #prove(own: Own): Promise<boolean> {
    own.proving ??= this.#verify(own)
      .catch((error: unknown) => {
        this.#deps.log.warn({ err: error, lease: name }, 'leader lease not verified')
        return false
      })
      .finally(() => {
        own.proving = undefined
      })
    return own.proving
  }

  async #verify(own: Own): Promise<boolean> {
    const askedMs = performance.now()
    const isProven = await isLeaseOf(own.session.db, {
      name,
      owner: this.#owner,
      token: own.token,
    })
    if (isProven) own.provenMs = Math.max(own.provenMs, askedMs)
    else if (this.#leading?.own === own) this.#end('the leader lease was lost')
    return isProven
  }
}

/** Renews the permit while any work runs: one timer for all, because thousands of works begin in a second. */
function sendingWith(permit: SendPermit, everyMs: number): Term['sending'] {
  let working = 0
  let renewing: NodeJS.Timeout | undefined
  return async (work) => {
    working += 1
    renewing ??= setInterval(() => void permit(), everyMs)
    try {
      return await work(permit)
    } finally {
      working -= 1
      if (working === 0) {
        clearInterval(renewing)
        renewing = undefined
      }
    }
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
