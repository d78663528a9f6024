import type { Trx } from '../../db/database.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import type { QueueLog } from './queue.ts'
import { type Claim, createSettlements, type Settled, type SettlementPace } from './settlements.ts'
import type { Tenure, Term } from './tenure.ts'

/** What is owed of an item. */
export type Owed<Row> = { pk: string; row: Row }

/** A walk over what is owed and due, oldest first. */
export type Walk<Row> = {
  /** The next, `limit` at most. Fewer are the end; asked again it goes on behind it. */
  next(limit: number): Promise<readonly Owed<Row>[]>
}

/** How one destination is worked: what may start, what an attempt is, how outcomes are written. */
export type Work<Row, Outcome> = {
  /** Attempts at a time. */
  concurrency: number
  /** Called when this process begins to work it, again after each time that another one did. */
  begun?(): void
  /** How many attempts may start now, and when to ask again if none may. */
  admit(): { starts: number; waitMs: number }
  /** Begins a walk over what is owed and due; it may miss what becomes so meanwhile. */
  walk(): Walk<Row>
  /** What is owed for these keys; a key may be missing. */
  load(pks: readonly string[]): Promise<readonly Owed<Row>[]>
  /** Has what is owed for these keys wait for a while. */
  holdBack(pks: readonly string[], delayMs: number): Promise<void>
  /** Where one attempt may take several items, `most` of them; without it each goes alone. */
  batch?: {
    most: number
    /** With what an item may share an attempt: those of one kind, and how many of them at most. */
    company(pk: string, row: Row): { kind: string; most: number }
  }
  /**
   * One attempt with all of these, of `timeoutMs` at most; an outcome for each, in their order. Answers for every failure;
   * `signal` aborts when the process has to let go. What it sends needs the `permit`.
   */
  attempt(
    owed: readonly Owed<Row>[],
    signal: AbortSignal,
    permit: SendPermit,
  ): Promise<readonly Outcome[]>
  /**
   * Writes the outcomes in one transaction that proves the claims. Answers the keys for which something is owed all the same,
   * and is due at once.
   */
  settle(group: readonly Settled<Outcome>[]): Promise<readonly string[]>
  /** The claim was lost meanwhile: what the attempt has sent may have arrived after what another process sent. */
  lost(settled: Settled<Outcome>): Promise<void>
}

export type WorkerDeps = {
  tenure: Tenure
  /** How often it is looked for what has become due; what is due at once announces itself. */
  pollMs: number
  sleep(ms: number): Promise<void>
  log: QueueLog
  settling?: SettlementPace
}

export type Worker = {
  /** There may be work. */
  poke(): void
  /** How many items it has in hand. */
  inHand(): number
  /**
   * Takes no more; resolves when nothing is in hand, at `timeoutMs` by letting go of it. A second call may shorten the time
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
const alone = { kind: '', most: 1 }
/** Their content is held in memory. */
const maxClaimed = 1_000
/** A walk from the beginning may cost this part of the time at most: it passes what is in hand, and what is no more. */
const walkShare = 0.05

/**
 * Takes in hand what is owed and due, and works it. The process that has the tenure is alone, so what it has in hand is noted
 * nowhere but here: after a crash it is owed and due as before. A free place is refilled at once, but first it is asked
 * whether anything may start; the faster the receiver is, the further ahead it is claimed.
 */
export function startWorker<Row, Outcome>(deps: WorkerDeps, work: Work<Row, Outcome>): Worker {
  const held = new Set<string>()
  /** Owed and due still, or again, after what was settled. */
  const again = new Set<string>()
  let ready: { owed: Owed<Row>; claim: Claim; term: Term }[] = []
  const letGo = new AbortController()
  const patience = Promise.withResolvers<void>()
  let running = 0
  /** Of attempts; high at first, so that nothing is claimed ahead before the receiver is known. */
  let averageMs = 1_000
  let stopping = false
  /** What is in hand is no longer ours, whatever comes of it. */
  let isLetGo = false
  let walk = work.walk()
  let walkedAt = Number.NEGATIVE_INFINITY
  let walkAgainMs = deps.pollMs
  let isWalkOver = true
  let wasPoked = false
  let bell = Promise.withResolvers<void>()

  const ring = () => bell.resolve()

  const pause = async (ms: number) => {
    const timer = setTimeout(ring, ms)
    await bell.promise
    clearTimeout(timer)
  }

  const dueAgain = () => [...again].filter((pk) => !held.has(pk))

  const forget = (pks: readonly string[]) => {
    for (const pk of pks) held.delete(pk)
    if (!isWalkOver || wasPoked || again.size > 0 || stopping) ring()
  }

  /** After a failure that no receiver caused. */
  const holdBack = async (pks: readonly string[]) => {
    try {
      await work.holdBack(pks, refusedMs)
    } catch (error) {
      deps.log.warn({ err: error, items: pks.length }, 'deliveries could not be held back')
      await deps.sleep(deps.pollMs)
    }
    forget(pks)
  }

  const settlements = createSettlements<Outcome>({
    settle: async (group) => {
      for (const pk of await work.settle(group)) again.add(pk)
    },
    lost: (settled) => work.lost(settled),
    onOver: (claims) => forget(claims.map(({ pk }) => pk)),
    onRefused: ({ pk }) => holdBack([pk]),
    isPatient: () => !letGo.signal.aborted,
    sleep: deps.sleep,
    log: deps.log,
    pace: deps.settling,
  })

  const attempt = async (group: typeof ready, term: Term) => {
    running += 1
    const startedAt = performance.now()
    try {
      const signal = AbortSignal.any([term.signal, letGo.signal])
      const owed = group.map((one) => one.owed)
      const outcomes = await term.sending((permit) => work.attempt(owed, signal, permit))
      if (outcomes.length !== group.length) throw new Error('an item of a batch has no outcome')
      for (const [index, outcome] of outcomes.entries()) {
        const claim = group[index]?.claim
        if (claim) settlements.add({ claim, outcome })
      }
    } catch (error) {
      const pks = group.map(({ owed }) => owed.pk)
      deps.log.error({ err: error, pks }, 'an attempt to deliver failed unexpectedly')
      await holdBack(pks)
    }
    running -= 1
    averageMs += (performance.now() - startedAt - averageMs) / 10
    startReady()
    if (!isWalkOver || wasPoked || again.size > 0 || stopping) ring()
  }

  /** The first that is ready, and those behind it that may share its attempt. */
  const nextGroup = (): typeof ready => {
    const group: typeof ready = []
    let kind: string | undefined
    let most = work.batch?.most ?? 1
    for (const one of ready) {
      const company = work.batch?.company(one.owed.pk, one.owed.row) ?? alone
      kind ??= company.kind
      const isFit = kind === company.kind && one.term === (group[0] ?? one).term
      if (!isFit || group.length >= company.most) continue
      group.push(one)
      most = Math.min(most, company.most)
      if (group.length >= most) break
    }
    const taken = new Set(group)
    ready = ready.filter((one) => !taken.has(one))
    return group
  }

  const startReady = () => {
    while (running < work.concurrency && !letGo.signal.aborted && ready.length > 0) {
      const group = nextGroup()
      const term = group[0]?.term
      if (!term) return
      // After the end of a term another process may have it already.
      if (term.signal.aborted) forget(group.map(({ owed }) => owed.pk))
      else void attempt(group, term)
    }
  }

  const room = () => {
    const batch = work.batch?.most ?? 1
    if (settlements.size() >= Math.max(maxUnwritten, 2 * work.concurrency * batch)) {
      return { jobs: 0, waitMs: deps.pollMs }
    }
    const { starts, waitMs } = work.admit()
    const mostAhead = Math.ceil(maxAhead / batch)
    const ahead = Math.min(mostAhead, Math.floor((work.concurrency * aheadMs) / averageMs))
    const places = work.concurrency + ahead - running
    const jobs = Math.min(places, starts) * batch - ready.length
    return { jobs: Math.min(jobs, maxClaimed), waitMs: starts > 0 ? Infinity : waitMs }
  }

  /** Whether there may be something to claim; from time to time the walk begins anew. */
  const mayFind = (): boolean => {
    if (isWalkOver && performance.now() - walkedAt >= walkAgainMs) {
      walk = work.walk()
      walkedAt = Number.NEGATIVE_INFINITY
      isWalkOver = false
    }
    if (wasPoked) isWalkOver = false
    wasPoked = false
    return !isWalkOver || dueAgain().length > 0
  }

  const findDue = async (limit: number): Promise<readonly Owed<Row>[]> => {
    const pks = dueAgain().slice(0, limit)
    if (pks.length > 0) {
      const found = await work.load(pks)
      for (const pk of pks) again.delete(pk)
      return found
    }
    // What is settled while this reads may be read as it was before.
    const before = new Set(held)
    const startedAt = performance.now()
    const found = await walk.next(limit)
    isWalkOver = found.length < limit
    if (walkedAt === Number.NEGATIVE_INFINITY) {
      walkedAt = performance.now()
      walkAgainMs = Math.max(deps.pollMs, (walkedAt - startedAt) / walkShare)
    }
    return found.filter(({ pk }) => !before.has(pk))
  }

  const claim = async (limit: number, term: Term, right: Claim['term']) => {
    for (const owed of await findDue(limit)) {
      held.add(owed.pk)
      ready.push({ owed, claim: { pk: owed.pk, term: right }, term })
    }
    startReady()
  }

  const serve = async (term: Term) => {
    // Whoever worked the queue before may have left anything.
    walkedAt = Number.NEGATIVE_INFINITY
    isWalkOver = true
    const right = {
      holds: async (trx: Trx) => !isLetGo && (await term.holds(trx)),
      proof: () => (isLetGo ? undefined : term.proof()),
    }
    while (!stopping && !term.signal.aborted) {
      bell = Promise.withResolvers()
      try {
        const { jobs, waitMs } = room()
        if (jobs > 0 && mayFind() && deps.tenure.current()) await claim(jobs, term, right)
        else await pause(Math.min(deps.pollMs, waitMs))
      } catch (error) {
        isWalkOver = true
        deps.log.warn({ err: error }, 'deliveries could not be claimed')
        await deps.sleep(deps.pollMs)
      }
    }
  }

  /** Nothing of a term may reach into the next: its attempts end first. */
  const drain = async () => {
    forget(ready.splice(0).map(({ owed }) => owed.pk))
    while (running > 0 || settlements.size() > 0) {
      bell = Promise.withResolvers()
      await pause(deps.pollMs)
    }
    again.clear()
  }

  const loop = (async () => {
    while (!stopping) {
      const term = deps.tenure.current()
      if (term) {
        work.begun?.()
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
      wasPoked = true
      ring()
    },
    inHand: () => held.size,
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
      isLetGo = true
      held.clear()
      await deps.tenure.stop()
    },
  }
}
