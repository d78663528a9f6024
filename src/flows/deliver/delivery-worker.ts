import type { Log } from '../../domain/log.ts'
import type { Leader, Term } from '../../jobs/leader.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import {
  createOutcomeWriter,
  type ItemOutcome,
  type OutcomeWriter,
  type TermProof,
  type WriterLimits,
} from './save-outcomes.ts'

/** A waiting delivery of an item. */
export type QueuedItem<Row> = { pk: string; row: Row }

/** A walk over due deliveries, oldest first. */
export type Walk<Row> = {
  /** The next deliveries, at most `limit`. Fewer mean the end; a further call continues after it. */
  next(limit: number): Promise<readonly QueuedItem<Row>[]>
}

/** How one destination is worked: what may start, how to attempt it, and how to write outcomes. */
export type Work<Row, Outcome> = {
  /** How many attempts may run at a time. */
  concurrency: number
  /** Called when this process begins to work the destination, and again after another process did. */
  begun?(): void
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** Begins a walk over due deliveries. It may miss some that become due meanwhile. */
  walk(): Walk<Row>
  /** The waiting deliveries of these keys. A key may be missing. */
  load(pks: readonly string[]): Promise<readonly QueuedItem<Row>[]>
  /**
   * Delays these deliveries. Rejects with LeaseLostError, and writes nothing, if another process has led
   * since.
   */
  delayDeliveries(pks: readonly string[], delayMs: number, fence: TermProof): Promise<void>
  /**
   * Items of different lanes are never sent at the same time: the next lane begins when all outcomes of the one before are
   * written. Without it all may run together.
   */
  laneOf?(row: Row): string
  /** For destinations that take up to `most` items in one attempt. Without it each item is sent alone. */
  batch?: {
    most: number
    /** Items of the same kind may share an attempt, up to `most`. */
    groupOf(pk: string, row: Row): { kind: string; most: number }
  }
  /**
   * Attempts these items together, for at most `timeoutMs`. Returns an outcome for each, in order; failures are
   * outcomes too. `signal` aborts when the process must stop. Sending needs the `permit`.
   */
  attempt(
    queued: readonly QueuedItem<Row>[],
    signal: AbortSignal,
    permit: SendPermit,
  ): Promise<readonly Outcome[]>
  /**
   * Writes all outcomes or none. Rejects with LeaseLostError, and writes nothing, if another process has led
   * since. Returns the keys with another delivery that is due at once.
   */
  save(group: readonly ItemOutcome<Outcome>[], fence: TermProof): Promise<readonly string[]>
  /** The lease was lost meanwhile. The requests may have arrived after those of another process. */
  lost(group: readonly ItemOutcome<Outcome>[]): Promise<void>
}

export type WorkerDeps = {
  leader: Pick<Leader, 'current'>
  /** How often the worker looks for deliveries that became due. New deliveries wake it at once. */
  pollMs: number
  /** The same while it is idle, when the last look found nothing: for a caller that calls `lookAgain` itself. `pollMs` when absent. */
  idleMs?: number
  sleep(ms: number): Promise<void>
  log: Log
  writerLimits?: WriterLimits
}

/** How long to wait for an attempt that ignores its signal. */
const graceMs = 2_000
/** The delay after an internal failure, so that a bug does not cause a retry storm. */
const refusedMs = 60_000
/** Deliveries read ahead are about this much work, so that a fast receiver never waits. */
const aheadMs = 200
const maxAhead = 400
/** After a kill, at most so many items and those in flight are sent again. */
const maxUnwritten = 300
/** Their content is in memory. */
const maxReadAhead = 1_000
/** The largest share of time for walks from the beginning. A walk also passes items in flight and dead rows. */
const walkShare = 0.05

/** Not AbortSignal.any, which looks at its sources whenever it is asked, which is several times for each attempt. */
function brokenBy(...signals: readonly AbortSignal[]): AbortSignal {
  const broken = new AbortController()
  for (const signal of signals) {
    const end = () => broken.abort(signal.reason)
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true, signal: broken.signal })
  }
  return broken.signal
}

/**
 * Reads due deliveries and attempts them while this process leads. The leader works alone, so items in flight are
 * stored only in memory: after a crash they are still due. A free place is filled at once, after a check that an
 * attempt may start. The faster the receiver, the more is read ahead.
 */
export class DeliveryWorker<Row, Outcome> {
  readonly #deps: WorkerDeps
  readonly #work: Work<Row, Outcome>
  readonly #outcomes: OutcomeWriter<Outcome>
  readonly #mostUnwritten: number
  readonly #loop: Promise<void>
  readonly #inFlight = new Set<string>()
  /** Keys that are still due, or due again, after their outcome was written. */
  readonly #again = new Set<string>()
  #ready: QueuedItem<Row>[] = []
  readonly #abandon = new AbortController()
  /** Breaks the attempts of the present term off. */
  #broken = this.#abandon.signal
  readonly #deadline = Promise.withResolvers<void>()
  #running = 0
  /** Average duration of an attempt. It starts high, so that nothing is read ahead for an unknown receiver. */
  #averageMs = 1_000
  #isStopping = false
  /** Items in flight were abandoned: their outcomes must not be written. */
  #isAbandoned = false
  /** The present term, or the last one while its items end. */
  #term: Term | undefined
  readonly #fence: TermProof = {
    holds: async (trx) =>
      !this.#isAbandoned && this.#term !== undefined && (await this.#term.holds(trx)),
    proof: () => (this.#isAbandoned ? undefined : this.#term?.proof()),
  }
  #walk: Walk<Row>
  #walkedAt = Number.NEGATIVE_INFINITY
  #walkAgainMs: number
  #isWalkOver = true
  /** The last walk found nothing from its beginning. */
  #isIdle = false
  #wasWoken = false
  #wakeSignal = Promise.withResolvers<void>()
  /** With more than this in memory nothing is read. */
  #enough = 0
  #lane: string | undefined

  constructor(deps: WorkerDeps, work: Work<Row, Outcome>) {
    this.#deps = deps
    this.#work = work
    this.#walk = work.walk()
    this.#walkAgainMs = deps.pollMs
    this.#mostUnwritten = Math.max(maxUnwritten, 2 * work.concurrency * (work.batch?.most ?? 1))
    this.#outcomes = createOutcomeWriter<Outcome>({
      save: async (group) => {
        for (const pk of await work.save(group, this.#fence)) this.#again.add(pk)
      },
      lost: (group) => work.lost(group),
      onOver: (pks) => {
        this.#forget(pks)
        this.#startReady()
      },
      onRefused: (pk) => this.#delayDeliveries([pk]),
      mayWait: () => !this.#abandon.signal.aborted,
      // After the end of a term nothing may delay that what it sent is sent again.
      moreFollow: () => this.#running > 0 && !this.#broken.aborted,
      sleep: deps.sleep,
      log: deps.log,
      limits: deps.writerLimits,
    })
    this.#loop = this.#serveTerms()
  }

  /** There may be work. */
  wake(): void {
    this.#wasWoken = true
    this.#wakeSignal.resolve()
  }

  isIdle(): boolean {
    return this.#isIdle
  }

  /** Something is due: the next walk begins as soon as without a rest. */
  lookAgain(): void {
    this.#isIdle = false
    this.#wakeSignal.resolve()
  }

  /** How many items are being sent or wait in memory. */
  inFlight(): number {
    return this.#inFlight.size
  }

  /**
   * Starts nothing more. Resolves when all items are finished; after `timeoutMs` it abandons the rest. A second call
   * may shorten the time.
   */
  async stop(timeoutMs: number): Promise<void> {
    this.#isStopping = true
    this.#wakeSignal.resolve()
    const timers = [
      setTimeout(() => this.#abandon.abort(new Error('the service stops')), timeoutMs),
      setTimeout(this.#deadline.resolve, timeoutMs + graceMs),
    ]
    await Promise.race([this.#loop, this.#deadline.promise])
    for (const timer of timers) clearTimeout(timer)
    this.#abandon.abort(new Error('the service stops'))
    this.#isAbandoned = true
    this.#inFlight.clear()
  }

  async #serveTerms(): Promise<void> {
    while (!this.#isStopping) {
      this.#term = this.#deps.leader.current()
      if (this.#term) {
        this.#broken = brokenBy(this.#term.signal, this.#abandon.signal)
        this.#work.begun?.()
        await this.#serve(this.#term)
        await this.#drain()
      } else {
        this.#wakeSignal = Promise.withResolvers()
        await this.#pause(this.#deps.pollMs)
      }
    }
  }

  async #pause(ms: number) {
    const timer = setTimeout(() => this.#wakeSignal.resolve(), ms)
    await this.#wakeSignal.promise
    clearTimeout(timer)
  }

  #dueAgain() {
    return [...this.#again].filter((pk) => !this.#inFlight.has(pk))
  }

  /** Something became free. */
  #goOn() {
    if (this.#isStopping) this.#wakeSignal.resolve()
    else if (
      this.#ready.length <= this.#enough &&
      (!this.#isWalkOver || this.#wasWoken || this.#again.size > 0)
    )
      this.#wakeSignal.resolve()
  }

  #forget(pks: readonly string[]) {
    for (const pk of pks) this.#inFlight.delete(pk)
    this.#goOn()
  }

  /** After an internal failure. */
  async #delayDeliveries(pks: readonly string[]) {
    try {
      await this.#work.delayDeliveries(pks, refusedMs, this.#fence)
    } catch (error) {
      this.#deps.log.warn({ err: error, items: pks.length }, 'deliveries not postponed')
      await this.#deps.sleep(this.#deps.pollMs)
    }
    this.#forget(pks)
  }

  async #attempt(group: readonly QueuedItem<Row>[], own: Term) {
    this.#running += 1
    const startedAt = performance.now()
    try {
      const signal = this.#broken
      const outcomes = await own.sending((permit) => this.#work.attempt(group, signal, permit))
      if (outcomes.length !== group.length) throw new Error('an item of a batch has no outcome')
      for (const [index, outcome] of outcomes.entries()) {
        const pk = group[index]?.pk
        if (pk !== undefined) this.#outcomes.add({ pk, outcome })
      }
    } catch (error) {
      const pks = group.map(({ pk }) => pk)
      this.#deps.log.error({ err: error, pks }, 'unexpected error of a delivery attempt')
      await this.#delayDeliveries(pks)
    }
    this.#running -= 1
    this.#averageMs += (performance.now() - startedAt - this.#averageMs) / 10
    this.#startReady()
    this.#goOn()
  }

  /** The first ready item, and later ones that may share its attempt. */
  #nextGroup(): QueuedItem<Row>[] {
    const group: QueuedItem<Row>[] = []
    if (!this.#work.batch) {
      const first = this.#ready.shift()
      if (first) group.push(first)
      return group
    }
    let kind: string | undefined
    let { most } = this.#work.batch
    for (const one of this.#ready) {
      const groupOf = this.#work.batch.groupOf(one.pk, one.row)
      kind ??= groupOf.kind
      if (kind !== groupOf.kind || group.length >= groupOf.most) continue
      group.push(one)
      most = Math.min(most, groupOf.most)
      if (group.length >= most) break
    }
    const taken = new Set(group)
    this.#ready = this.#ready.filter((one) => !taken.has(one))
    return group
  }

  /** Whether the lane of the next item is free. */
  #entersLane(): boolean {
    const [next] = this.#ready
    if (!next || !this.#work.laneOf) return true
    const wanted = this.#work.laneOf(next.row)
    if (wanted !== this.#lane && (this.#running > 0 || this.#outcomes.size() > 0)) return false
    this.#lane = wanted
    return true
  }

  #startReady() {
    while (
      this.#running < this.#work.concurrency &&
      !this.#broken.aborted &&
      this.#ready.length > 0
    ) {
      // After the end of a term another process may send already.
      if (!this.#term || this.#term.signal.aborted || !this.#entersLane()) return
      if (this.#outcomes.size() >= this.#mostUnwritten) return
      void this.#attempt(this.#nextGroup(), this.#term)
    }
  }

  /** How many deliveries to read now: none while more than half of those read ahead are left. */
  #room() {
    const batch = this.#work.batch?.most ?? 1
    const { starts, waitMs } = this.#work.admit()
    const mostAhead = Math.ceil(maxAhead / batch)
    const ahead = Math.min(
      mostAhead,
      Math.floor((this.#work.concurrency * aheadMs) / this.#averageMs),
    )
    const most = Math.min(this.#work.concurrency + ahead - this.#running, starts) * batch
    this.#enough = most / 2
    const jobs =
      this.#ready.length > this.#enough ? 0 : Math.min(most - this.#ready.length, maxReadAhead)
    return { jobs, waitMs: starts > 0 ? Infinity : waitMs }
  }

  /** Whether there may be deliveries to read. The walk restarts from time to time. */
  #mayFind(): boolean {
    const againMs = this.#isIdle
      ? Math.max(this.#walkAgainMs, this.#deps.idleMs ?? 0)
      : this.#walkAgainMs
    if (this.#isWalkOver && performance.now() - this.#walkedAt >= againMs) {
      this.#walk = this.#work.walk()
      this.#walkedAt = Number.NEGATIVE_INFINITY
      this.#isWalkOver = false
    }
    if (this.#wasWoken) this.#isWalkOver = false
    this.#wasWoken = false
    return !this.#isWalkOver || this.#dueAgain().length > 0
  }

  async #findDue(limit: number): Promise<readonly QueuedItem<Row>[]> {
    const pks = this.#dueAgain().slice(0, limit)
    if (pks.length > 0) {
      const found = await this.#work.load(pks)
      for (const pk of pks) this.#again.delete(pk)
      return found
    }
    // An item that finishes during this read may appear in it as waiting.
    const before = new Set(this.#inFlight)
    const startedAt = performance.now()
    const found = await this.#walk.next(limit)
    this.#isWalkOver = found.length < limit
    const isFirst = this.#walkedAt === Number.NEGATIVE_INFINITY
    if (found.length > 0) this.#isIdle = false
    else if (isFirst) this.#isIdle = true
    if (isFirst) {
      this.#walkedAt = performance.now()
      this.#walkAgainMs = Math.max(this.#deps.pollMs, (this.#walkedAt - startedAt) / walkShare)
    }
    return found.filter(({ pk }) => !before.has(pk))
  }

  async #readAhead(limit: number) {
    for (const item of await this.#findDue(limit)) {
      this.#inFlight.add(item.pk)
      this.#ready.push(item)
    }
    this.#startReady()
  }

  async #serve({ signal }: Term) {
    // The process that worked the queue before may have left deliveries anywhere.
    this.#walkedAt = Number.NEGATIVE_INFINITY
    this.#isWalkOver = true
    this.#isIdle = false
    while (!this.#isStopping && !signal.aborted) {
      this.#wakeSignal = Promise.withResolvers()
      try {
        const { jobs, waitMs } = this.#room()
        if (jobs > 0 && this.#mayFind() && this.#deps.leader.current()) await this.#readAhead(jobs)
        else await this.#pause(Math.min(this.#deps.pollMs, waitMs))
      } catch (error) {
        this.#isWalkOver = true
        this.#deps.log.warn({ err: error }, 'deliveries not claimed')
        await this.#deps.sleep(this.#deps.pollMs)
      }
    }
  }

  /** Ends the attempts of a term, so that none reaches into the next. */
  async #drain() {
    this.#forget(this.#ready.splice(0).map(({ pk }) => pk))
    while (this.#running > 0 || this.#outcomes.size() > 0) {
      this.#wakeSignal = Promise.withResolvers()
      await this.#pause(this.#deps.pollMs)
    }
    this.#again.clear()
  }
}
