import type { Leader, Term } from '../../jobs/leader.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import {
  createOutcomeWriter,
  type Fence,
  type ItemOutcome,
  type WriterLimits,
} from './save-outcomes.ts'

export type QueueLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

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
  delayDeliveries(pks: readonly string[], delayMs: number, fence: Fence): Promise<void>
  /**
   * Items of different lanes are never sent at the same time: the next lane begins when all outcomes of the one before are
   * written. Without it all may run together.
   */
  laneOf?(row: Row): string
  /** For destinations that take up to `most` items in one attempt. Without it each item is sent noBatch. */
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
  save(group: readonly ItemOutcome<Outcome>[], fence: Fence): Promise<readonly string[]>
  /** The lease was lost meanwhile. The request may have arrived after one of another process. */
  lost(outcome: ItemOutcome<Outcome>): Promise<void>
}

export type WorkerDeps = {
  leader: Pick<Leader, 'current'>
  /** How often the worker looks for deliveries that became due. New deliveries wake it at once. */
  pollMs: number
  sleep(ms: number): Promise<void>
  log: QueueLog
  writerLimits?: WriterLimits
}

export type Worker = {
  /** There may be work. */
  wake(): void
  /** How many items are being sent or wait in memory. */
  inFlight(): number
  /**
   * Starts nothing more. Resolves when all items are finished; after `timeoutMs` it abandons the rest. A second call
   * may shorten the time.
   */
  stop(timeoutMs: number): Promise<void>
}

/** How long to wait for an attempt that ignores its signal. */
const graceMs = 2_000
/** The delay after an internal failure, so that a bug does not cause a retry storm. */
const refusedMs = 60_000
/** Deliveries read ahead are about this much work, so that a fast receiver never waits. */
const aheadMs = 50
const maxAhead = 100
const maxUnwritten = 300
const noBatch = { kind: '', most: 1 }
/** Their content is in memory. */
const maxReadAhead = 1_000
/** The largest share of time for walks from the beginning. A walk also passes items in flight and dead rows. */
const walkShare = 0.05

/**
 * Reads due deliveries and attempts them while this process leads. The leader works noBatch, so items in flight are
 * stored only in memory: after a crash they are still due. A free place is filled at once, after a check that an
 * attempt may start. The faster the receiver, the more is read ahead.
 */
export function startWorker<Row, Outcome>(deps: WorkerDeps, work: Work<Row, Outcome>): Worker {
  const inFlight = new Set<string>()
  /** Keys that are still due, or due again, after their outcome was written. */
  const again = new Set<string>()
  let ready: QueuedItem<Row>[] = []
  const abandon = new AbortController()
  const deadline = Promise.withResolvers<void>()
  let running = 0
  /** Average duration of an attempt. It starts high, so that nothing is read ahead for an unknown receiver. */
  let averageMs = 1_000
  let stopping = false
  /** Items in flight were abandoned: their outcomes must not be written. */
  let isAbandoned = false
  /** The present term, or the last one while its items end. */
  let term: Term | undefined
  const fence: Fence = {
    holds: async (trx) => !isAbandoned && term !== undefined && (await term.holds(trx)),
    proof: () => (isAbandoned ? undefined : term?.proof()),
  }
  let walk = work.walk()
  let walkedAt = Number.NEGATIVE_INFINITY
  let walkAgainMs = deps.pollMs
  let isWalkOver = true
  let wasWoken = false
  let wakeSignal = Promise.withResolvers<void>()

  const wakeUp = () => wakeSignal.resolve()

  const pause = async (ms: number) => {
    const timer = setTimeout(wakeUp, ms)
    await wakeSignal.promise
    clearTimeout(timer)
  }

  const dueAgain = () => [...again].filter((pk) => !inFlight.has(pk))

  const forget = (pks: readonly string[]) => {
    for (const pk of pks) inFlight.delete(pk)
    if (!isWalkOver || wasWoken || again.size > 0 || stopping) wakeUp()
  }

  /** After an internal failure. */
  const delayDeliveries = async (pks: readonly string[]) => {
    try {
      await work.delayDeliveries(pks, refusedMs, fence)
    } catch (error) {
      deps.log.warn({ err: error, items: pks.length }, 'deliveries not postponed')
      await deps.sleep(deps.pollMs)
    }
    forget(pks)
  }

  const outcomeWriter = createOutcomeWriter<Outcome>({
    save: async (group) => {
      for (const pk of await work.save(group, fence)) again.add(pk)
    },
    lost: (outcome) => work.lost(outcome),
    onOver: (pks) => {
      forget(pks)
      startReady()
    },
    onRefused: (pk) => delayDeliveries([pk]),
    mayWait: () => !abandon.signal.aborted,
    sleep: deps.sleep,
    log: deps.log,
    limits: deps.writerLimits,
  })

  const attempt = async (group: readonly QueuedItem<Row>[], own: Term) => {
    running += 1
    const startedAt = performance.now()
    try {
      const signal = AbortSignal.any([own.signal, abandon.signal])
      const outcomes = await own.sending((permit) => work.attempt(group, signal, permit))
      if (outcomes.length !== group.length) throw new Error('an item of a batch has no outcome')
      for (const [index, outcome] of outcomes.entries()) {
        const pk = group[index]?.pk
        if (pk !== undefined) outcomeWriter.add({ pk, outcome })
      }
    } catch (error) {
      const pks = group.map(({ pk }) => pk)
      deps.log.error({ err: error, pks }, 'unexpected error of a delivery attempt')
      await delayDeliveries(pks)
    }
    running -= 1
    averageMs += (performance.now() - startedAt - averageMs) / 10
    startReady()
    if (!isWalkOver || wasWoken || again.size > 0 || stopping) wakeUp()
  }

  /** The first ready item, and later ones that may share its attempt. */
  const nextGroup = (): QueuedItem<Row>[] => {
    const group: QueuedItem<Row>[] = []
    let kind: string | undefined
    let most = work.batch?.most ?? 1
    for (const one of ready) {
      const groupOf = work.batch?.groupOf(one.pk, one.row) ?? noBatch
      kind ??= groupOf.kind
      if (kind !== groupOf.kind || group.length >= groupOf.most) continue
      group.push(one)
      most = Math.min(most, groupOf.most)
      if (group.length >= most) break
    }
    const taken = new Set(group)
    ready = ready.filter((one) => !taken.has(one))
    return group
  }

  let lane: string | undefined
  /** Whether the lane of the next item is free. */
  const entersLane = (): boolean => {
    const [next] = ready
    if (!next || !work.laneOf) return true
    const wanted = work.laneOf(next.row)
    if (wanted !== lane && (running > 0 || outcomeWriter.size() > 0)) return false
    lane = wanted
    return true
  }

  const startReady = () => {
    // After the end of a term another process may send already.
    while (running < work.concurrency && !abandon.signal.aborted && ready.length > 0) {
      if (!term || term.signal.aborted || !entersLane()) return
      void attempt(nextGroup(), term)
    }
  }

  const room = () => {
    const batch = work.batch?.most ?? 1
    if (outcomeWriter.size() >= Math.max(maxUnwritten, 2 * work.concurrency * batch)) {
      return { jobs: 0, waitMs: deps.pollMs }
    }
    const { starts, waitMs } = work.admit()
    const mostAhead = Math.ceil(maxAhead / batch)
    const ahead = Math.min(mostAhead, Math.floor((work.concurrency * aheadMs) / averageMs))
    const places = work.concurrency + ahead - running
    const jobs = Math.min(places, starts) * batch - ready.length
    return { jobs: Math.min(jobs, maxReadAhead), waitMs: starts > 0 ? Infinity : waitMs }
  }

  /** Whether there may be deliveries to read. The walk restarts from time to time. */
  const mayFind = (): boolean => {
    if (isWalkOver && performance.now() - walkedAt >= walkAgainMs) {
      walk = work.walk()
      walkedAt = Number.NEGATIVE_INFINITY
      isWalkOver = false
    }
    if (wasWoken) isWalkOver = false
    wasWoken = false
    return !isWalkOver || dueAgain().length > 0
  }

  const findDue = async (limit: number): Promise<readonly QueuedItem<Row>[]> => {
    const pks = dueAgain().slice(0, limit)
    if (pks.length > 0) {
      const found = await work.load(pks)
      for (const pk of pks) again.delete(pk)
      return found
    }
    // An item that finishes during this read may appear in it as waiting.
    const before = new Set(inFlight)
    const startedAt = performance.now()
    const found = await walk.next(limit)
    isWalkOver = found.length < limit
    if (walkedAt === Number.NEGATIVE_INFINITY) {
      walkedAt = performance.now()
      walkAgainMs = Math.max(deps.pollMs, (walkedAt - startedAt) / walkShare)
    }
    return found.filter(({ pk }) => !before.has(pk))
  }

  const readAhead = async (limit: number) => {
    for (const item of await findDue(limit)) {
      inFlight.add(item.pk)
      ready.push(item)
    }
    startReady()
  }

  const serve = async ({ signal }: Term) => {
    // The process that worked the queue before may have left deliveries anywhere.
    walkedAt = Number.NEGATIVE_INFINITY
    isWalkOver = true
    while (!stopping && !signal.aborted) {
      wakeSignal = Promise.withResolvers()
      try {
        const { jobs, waitMs } = room()
        if (jobs > 0 && mayFind() && deps.leader.current()) await readAhead(jobs)
        else await pause(Math.min(deps.pollMs, waitMs))
      } catch (error) {
        isWalkOver = true
        deps.log.warn({ err: error }, 'deliveries not claimed')
        await deps.sleep(deps.pollMs)
      }
    }
  }

  /** Ends the attempts of a term, so that none reaches into the next. */
  const drain = async () => {
    forget(ready.splice(0).map(({ pk }) => pk))
    while (running > 0 || outcomeWriter.size() > 0) {
      wakeSignal = Promise.withResolvers()
      await pause(deps.pollMs)
    }
    again.clear()
  }

  const loop = (async () => {
    while (!stopping) {
      term = deps.leader.current()
      if (term) {
        work.begun?.()
        await serve(term)
        await drain()
      } else {
        wakeSignal = Promise.withResolvers()
        await pause(deps.pollMs)
      }
    }
  })()

  return {
    wake: () => {
      wasWoken = true
      wakeUp()
    },
    inFlight: () => inFlight.size,
    stop: async (timeoutMs) => {
      stopping = true
      wakeUp()
      const timers = [
        setTimeout(() => abandon.abort(new Error('the service stops')), timeoutMs),
        setTimeout(deadline.resolve, timeoutMs + graceMs),
      ]
      await Promise.race([loop, deadline.promise])
      for (const timer of timers) clearTimeout(timer)
      abandon.abort(new Error('the service stops'))
      isAbandoned = true
      inFlight.clear()
    },
  }
}
