import type { QueueLog } from './queue-log.ts'
import { type Claim, createSettlements, type Settled } from './settlements.ts'
import type { Tenure, Term } from './tenure.ts'

/** How one destination is worked: what may start, what an attempt is, how outcomes are written. */
export type Work<Row, Outcome> = {
  /** Attempts at a time. */
  concurrency: number
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** What is owed for these keys; a key may be missing. */
  load(pks: readonly string[]): Promise<ReadonlyMap<string, Row>>
  /** One attempt, of `timeoutMs` at most. Answers for every failure; `signal` aborts when the process has to let go. */
  attempt(pk: string, row: Row | undefined, signal: AbortSignal): Promise<Outcome>
  /** Writes the outcomes and ends the claims in one transaction. */
  settle(group: readonly Settled<Outcome>[]): Promise<void>
}

export type PumpDeps = {
  tenure: Tenure
  /** Claims up to `limit` jobs that are due, oldest first. */
  fetch(limit: number): Promise<Claim[]>
  /** Ends the claims that are still ours; their keys are woken again after `delayMs`. */
  giveBack(claims: readonly Claim[], delayMs: number): Promise<void>
  /** Claims outside `held` were left by a dead process, and rows without a job lost their wake-up: both come back. */
  recover(held: ReadonlySet<string>): Promise<void>
  pollMs: number
  recoverMs: number
  sleep(ms: number): Promise<void>
  log: QueueLog
}

export type Pump = {
  /** There may be work. */
  poke(): void
  /**
   * Takes no more; resolves when nothing is in hand, at `timeoutMs` by giving it back. A second call may shorten the time
   * of the first.
   */
  stop(timeoutMs: number): Promise<void>
}

/** An attempt that ignores its signal is not waited for any longer than this. */
const graceMs = 2_000
/** After a failure that no receiver caused, so that a bug does not become a storm. */
const refusedMs = 60_000
/** What is claimed beyond the running attempts is about this much work, so that fast receivers do not wait for us. */
const aheadMs = 50
const maxAhead = 100
const maxUnwritten = 300

/**
 * Claims wake-ups and works them. pg-boss's own workers take one job per poll, or wait for the slowest job of a batch;
 * this one refills a free place at once, asks first whether anything may start, and claims further ahead the faster the
 * receiver is.
 */
export function startPump<Row, Outcome>(deps: PumpDeps, work: Work<Row, Outcome>): Pump {
  const held = new Map<string, Claim>()
  const ready: { claim: Claim; row: Row | undefined; term: Term }[] = []
  const letGo = new AbortController()
  const patience = Promise.withResolvers<void>()
  let running = 0
  /** Of attempts; high at first, so that nothing is claimed ahead before the receiver is known. */
  let averageMs = 1_000
  let stopping = false
  let emptied = false
  /** Claims of which we do not know, or could not give back, because the answer of the database was lost. */
  let mayHaveLost = false
  let bell = Promise.withResolvers<void>()

  const ring = () => bell.resolve()

  const pause = async (ms: number) => {
    const timer = setTimeout(ring, ms)
    await bell.promise
    clearTimeout(timer)
  }

  const giveBack = async (claims: readonly Claim[], delayMs: number) => {
    try {
      if (claims.length > 0) await deps.giveBack(claims, delayMs)
    } catch (error) {
      mayHaveLost = true
      deps.log.warn({ err: error, items: claims.length }, 'deliveries could not be given back')
    }
    forget(claims)
  }

  const forget = (claims: readonly Claim[]) => {
    for (const { id } of claims) held.delete(id)
    if (!emptied || stopping) ring()
  }

  const settlements = createSettlements<Outcome>({
    settle: (group) => work.settle(group),
    onOver: forget,
    onRefused: (claim) => giveBack([claim], refusedMs),
    isPatient: () => !letGo.signal.aborted,
    sleep: deps.sleep,
    log: deps.log,
  })

  const attempt = async (next: (typeof ready)[number]) => {
    const { claim, row, term } = next
    running += 1
    const startedAt = performance.now()
    try {
      const signal = AbortSignal.any([term.signal, letGo.signal])
      settlements.add({ claim, outcome: await work.attempt(claim.pk, row, signal) })
    } catch (error) {
      deps.log.error({ err: error, pk: claim.pk }, 'an attempt to deliver failed unexpectedly')
      await giveBack([claim], refusedMs)
    }
    running -= 1
    averageMs += (performance.now() - startedAt - averageMs) / 10
    startReady()
    if (!emptied || stopping) ring()
  }

  const startReady = () => {
    while (running < work.concurrency && !letGo.signal.aborted) {
      const next = ready.shift()
      if (!next) return
      // After the end of a term another process may have it already.
      if (next.term.signal.aborted) void giveBack([next.claim], 0)
      else void attempt(next)
    }
  }

  const room = () => {
    if (settlements.size() >= maxUnwritten) return { jobs: 0, waitMs: deps.pollMs }
    const { starts, waitMs } = work.admit()
    const ahead = Math.min(maxAhead, Math.floor((work.concurrency * aheadMs) / averageMs))
    const places = work.concurrency + ahead - running
    return { jobs: Math.min(places, starts) - ready.length, waitMs: starts > 0 ? Infinity : waitMs }
  }

  const claim = async (limit: number, term: Term) => {
    const claims = await deps.fetch(limit)
    emptied = claims.length < limit
    if (claims.length === 0) return
    for (const one of claims) held.set(one.id, one)
    let rows: ReadonlyMap<string, Row>
    try {
      rows = await work.load(claims.map(({ pk }) => pk))
    } catch (error) {
      await giveBack(claims, 0)
      throw error
    }
    for (const one of claims) ready.push({ claim: one, row: rows.get(one.pk), term })
    startReady()
  }

  const serve = async (term: Term) => {
    let recoveredAt = Number.NEGATIVE_INFINITY
    while (!stopping && !term.signal.aborted) {
      bell = Promise.withResolvers()
      try {
        if (mayHaveLost || performance.now() - recoveredAt >= deps.recoverMs) {
          await deps.recover(new Set(held.keys()))
          mayHaveLost = false
          recoveredAt = performance.now()
        }
        const { jobs, waitMs } = room()
        if (jobs > 0 && deps.tenure.current()) await claim(jobs, term)
        if (jobs > 0 && !emptied) continue
        await pause(Math.min(deps.pollMs, waitMs))
      } catch (error) {
        mayHaveLost = true
        deps.log.warn({ err: error }, 'deliveries could not be claimed')
        await deps.sleep(deps.pollMs)
      }
    }
  }

  /** Nothing of a term may reach into the next: its attempts end first. */
  const drain = async () => {
    await giveBack(
      ready.splice(0).map(({ claim }) => claim),
      0,
    )
    while (running > 0 || settlements.size() > 0) {
      bell = Promise.withResolvers()
      await pause(deps.pollMs)
    }
  }

  const loop = (async () => {
    while (!stopping) {
      const term = deps.tenure.current()
      if (term) {
        await serve(term)
        await drain()
      } else {
        bell = Promise.withResolvers()
        await pause(deps.pollMs)
      }
    }
  })()

  return {
    poke: () => {
      emptied = false
      ring()
    },
    stop: async (timeoutMs) => {
      stopping = true
      ring()
      const timers = [
        setTimeout(() => letGo.abort(new Error('the service stops')), timeoutMs),
        setTimeout(patience.resolve, timeoutMs + graceMs),
      ]
      await Promise.race([loop, patience.promise])
      for (const timer of timers) clearTimeout(timer)
      letGo.abort(new Error('the service stops'))
      await giveBack([...held.values()], 0)
      await deps.tenure.stop()
    },
  }
}
