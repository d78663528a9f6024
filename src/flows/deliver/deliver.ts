import { setTimeout as wait } from 'node:timers/promises'
import { type Database, notify } from '../../db/database.ts'
import { type BackgroundJob, createBackgroundJob } from '../../jobs/background-job.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { Leader } from '../../jobs/leader.ts'
import type { DeliveryTarget } from '../../repositories/flows/delivery-target.ts'
import { deleteDestinationState } from '../../repositories/flows/destination-states.ts'
import { listDueTargets } from '../../repositories/flows/due-deliveries.ts'
import { deliveriesChannel, notifyDeliveries } from '../../repositories/flows/flow-events.ts'
import { countInFlight, saveInFlight } from '../../repositories/flows/leader-lease.ts'
import type { Flow } from '../definition/schema.ts'
import type { DestinationContext } from '../destinations/destination-context.ts'
import type { DestinationDefinition } from '../types.ts'
import type { AttemptDeps } from './attempt.ts'
import {
  type DestinationWork,
  openWork,
  type SavedDeliveries,
  type WorkDeps,
} from './destination-worker.ts'
import { limiterOf, type RateLimiter } from './rate-limiter.ts'
import { tryNow } from './retry-deliveries.ts'
import { createGate, createStops, type SendingGate } from './sending-gate.ts'

export type DeliveriesDeps = AttemptDeps &
  Pick<WorkDeps, 'openDestination'> & {
    database: Database
    /** Deliveries run while this process leads. */
    leader: Pick<Leader, 'current' | 'follow'>
    sleep?: (ms: number) => Promise<void>
    /** How often workers look for deliveries that became due. */
    pollMs?: number
    /** Called after the commit of outcomes; for tests. */
    onSaved?: (saved: SavedDeliveries) => void
  }

/** Asks the process that delivers for an attempt now. */
const tryChannel = 'tillbridge_try_now'
const stopMs = 30_000
const longestSwapMs = 60_000
/** A timed-out attempt needs a moment to end. */
const swapMarginMs = 5_000
const inFlightEveryMs = 1_000
/** Deliveries change by the thousand a second. Pages get one hint in this time. */
const notifyAfterMs = 500

/**
 * Delivers the changes of flows: durably, in order per item, at least once. A row of `deliveries` is its own job. The
 * leader walks over the rows of each destination: when a writer wakes it, and when it finds, looking once a second, that some are due. Only the leader sends, so
 * concurrency, rate limit and breaker of a definition hold over all processes.
 */
export class Deliveries {
  readonly #deps: DeliveriesDeps
  readonly #workDeps: WorkDeps
  readonly #stops: ReturnType<typeof createStops>
  /** Open destinations, by flow and name. */
  readonly #flows = new Map<string, Map<string, DestinationWork>>()
  /** Open flows that delete what they miss. */
  readonly #deleting = new Set<string>()
  /** With a worker, also one that finishes its attempts. */
  readonly #working = new Set<DestinationWork>()
  /** Openings and closings of each flow. */
  readonly #swaps = createKeyedQueue()
  /** By quota name and rate limit. */
  readonly #limiters = new Map<string, RateLimiter>()
  /** Flows with outcomes that pages were not notified of yet. */
  readonly #moved = new Set<string>()
  #notifyTimer: NodeJS.Timeout | undefined
  #notifying: Promise<void> | undefined
  #inFlightTimer: NodeJS.Timeout | undefined
  readonly #look: BackgroundJob<void>
  #isStopped = false
  #unlisten: (() => Promise<unknown>) | undefined
  /** For /stats of other processes. */
  #stored = 0

  constructor(deps: DeliveriesDeps) {
    this.#deps = deps
    this.#stops = createStops(deps, () => this.#wakeAll())
    const pollMs = deps.pollMs ?? 1_000
    this.#look = createBackgroundJob(
      { sleep: (ms, signal) => wait(ms, undefined, { signal }), log: deps.log },
      { name: 'due-deliveries', intervalMs: pollMs, run: () => this.#findDue() },
    )
    this.#workDeps = {
      ...deps,
      sleep: deps.sleep ?? ((ms) => wait(ms)),
      pollMs,
      openFlows: () => ({
        deleting: [...this.#deleting],
        keeping: [...this.#flows.keys()].filter((flow) => !this.#deleting.has(flow)),
      }),
      onSaved: (saved) => {
        deps.onSaved?.(saved)
        this.#moved.add(saved.flow)
        this.#notifyTimer ??= setTimeout(() => {
          this.#notifying = this.#notifyPages()
        }, notifyAfterMs)
      },
    }
  }

  /** Call it before anything else. Several processes may start together. */
  async start(): Promise<void> {
    const { database, leader } = this.#deps
    await this.#stops.start()
    const unlistenWakes = await database.listen(
      deliveriesChannel,
      (payload) => {
        const [flow = '', destination = ''] = payload.split('/')
        this.#find({ flow, destination })?.wake()
      },
      () => this.#wakeAll(),
    )
    const unlistenTries = await database.listen(tryChannel, (payload) => {
      const [flow, destination] = JSON.parse(payload) as [string, string]
      this.#find({ flow, destination })?.gate.tryNow()
    })
    const unfollow = leader.follow(() => {
      this.#stored = 0
      this.#wakeAll()
    })
    this.#look.start()
    this.#inFlightTimer = setInterval(() => void this.#storeInFlight(), inFlightEveryMs).unref()
    this.#unlisten = () => {
      unfollow()
      return Promise.all([unlistenWakes(), unlistenTries()])
    }
  }

  /**
   * Call it after a stop of sending began or ended: what is committed holds in this process when it returns. If the database cannot
   * be read, that is logged, and it holds from the next read on.
   */
  async readStops(): Promise<void> {
    await this.#stops.refresh()
  }

  /**
   * Ends all work. Attempts under way may end until `timeoutMs` (30 s); later ones are abandoned and not counted. A
   * second call has no effect.
   */
  async stop({ timeoutMs = stopMs }: { timeoutMs?: number } = {}): Promise<void> {
    this.#isStopped = true
    await this.#look.stop()
    await Promise.all([...this.#working].map((work) => work.stop(timeoutMs)))
    clearInterval(this.#inFlightTimer)
    await this.#unlisten?.()
    this.#unlisten = undefined
    await this.#stops.stop()
    await this.#swaps.idle()
    const opened = [...this.#flows.values()].flatMap((works) => [...works.values()])
    this.#flows.clear()
    this.#working.clear()
    await Promise.all(opened.map((work) => work.close()))
    clearTimeout(this.#notifyTimer)
    await this.#notifying
  }

  /**
   * Opens the destinations of a flow and sends their deliveries, also while the flow is paused. For an open flow, the
   * new definition replaces the old one. Attempts under way end first (after a minute they are abandoned and not
   * counted). When the promise resolves, nothing uses the old context. Deliveries of a removed destination wait until
   * it returns.
   * `keyName` is the first name of a renamed flow.
   * @throws at once, without any change, if the definition cannot be opened.
   */
  open(
    flow: Flow,
    context: Omit<DestinationContext, 'flow'>,
    keyName: string = flow.name,
  ): Promise<void> {
    if (this.#isStopped) throw new Error('deliveries are stopped')
    const next = this.#openAll(flow, context, keyName)
    const before = this.#flows.get(flow.name) ?? new Map<string, DestinationWork>()
    this.#flows.set(flow.name, next)
    if (flow.deletes.mode === 'delete') this.#deleting.add(flow.name)
    else this.#deleting.delete(flow.name)
    const names = new Set([...before.keys(), ...next.keys()])
    return this.#swaps.run(flow.name, async () => {
      await Promise.all(
        [...names].map((destination) =>
          this.#swap(
            { flow: flow.name, destination },
            before.get(destination),
            next.get(destination),
          ),
        ),
      )
    })
  }

  /** Stops deliveries of this flow, in the way `open` ends an old definition. Waiting deliveries stay. */
  close(flow: string): Promise<void> {
    const before = [...(this.#flows.get(flow)?.values() ?? [])]
    this.#flows.delete(flow)
    this.#deleting.delete(flow)
    return this.#swaps.run(flow, async () => {
      await Promise.all(before.map((work) => this.#end(work)))
      await deleteDestinationState(this.#deps.database.db, { flow })
    })
  }

  /** Whether another open flow deletes at a place that this one writes to. */
  isDeletedBeside(flow: string): boolean {
    const places = this.#placesOf(flow)
    const others = [...this.#deleting].filter((other) => other !== flow)
    return others.some((other) => this.#placesOf(other).some((place) => places.includes(place)))
  }

  /**
   * Sends the waiting deliveries of a destination now. Ends pauses between attempts, and lets one start despite an
   * open breaker or a requested pause, in the process that delivers. Returns how many were delayed.
   */
  async tryNow(target: DeliveryTarget): Promise<number> {
    const { database, now } = this.#deps
    this.#find(target)?.gate.tryNow()
    await database.transaction((trx) =>
      notify(trx, tryChannel, JSON.stringify([target.flow, target.destination])),
    )
    return tryNow({ database, now }, target)
  }

  /** Deliveries that are being sent, over all processes. */
  async countActive(): Promise<number> {
    const { database, leader, now } = this.#deps
    const own = this.#inFlight()
    return leader.current() ? own : own + (await countInFlight(database.db, now()))
  }

  async #swap(
    target: DeliveryTarget,
    old: DestinationWork | undefined,
    work: DestinationWork | undefined,
  ): Promise<void> {
    const { database, now } = this.#deps
    if (old) await this.#end(old)
    if (this.#isStopped) return
    if (!work) return deleteDestinationState(database.db, target)
    // A later definition came meanwhile.
    if (this.#find(target) !== work) return
    this.#working.add(work)
    const wasBlocked = work.start()
    if (wasBlocked) await tryNow({ database, now }, target)
  }

  /** Wakes the idle workers for which something has become due. */
  async #findDue() {
    const resting = [...this.#working].filter((work) => work.isIdle())
    if (resting.length === 0 || !this.#deps.leader.current()) return
    const targets = resting.map((work) => ({ flow: work.flow, destination: work.definition.name }))
    for (const target of await listDueTargets(this.#deps.database.db, targets)) {
      this.#find(target)?.lookAgain()
    }
  }

  #find({ flow, destination }: DeliveryTarget) {
    return this.#flows.get(flow)?.get(destination)
  }

  #wakeAll() {
    for (const work of this.#working) work.wake()
  }

  /** Where items of a flow have identities. */
  #placesOf(flow: string) {
    return [...(this.#flows.get(flow)?.values() ?? [])].flatMap((work) =>
      work.claims ? [work.identity] : [],
    )
  }

  #inFlight() {
    return [...this.#working].reduce((sum, work) => sum + work.inFlight(), 0)
  }

  async #storeInFlight() {
    const lease = this.#deps.leader.current()?.proof()
    const count = this.#inFlight()
    if (!lease || count === this.#stored) return
    this.#stored = count
    await saveInFlight(this.#deps.database.db, lease, count).catch((error: unknown) =>
      this.#deps.log.warn({ err: error }, 'claimed deliveries of this process not stored'),
    )
  }

  async #notifyPages() {
    this.#notifyTimer = undefined
    const names = [...this.#moved]
    this.#moved.clear()
    await notifyDeliveries(this.#deps.database.db, names).catch((error: unknown) =>
      this.#deps.log.warn({ err: error }, 'delivery events not sent to the page'),
    )
  }

  /** Kept for the life of the process, so that an unused quota does not start again at zero. */
  #limiterFor(definition: DestinationDefinition): RateLimiter {
    const budget = budgetOf(definition)
    if (budget === undefined) return limiterOf(definition, steadyTime)
    const key = JSON.stringify([budget, definition.rateLimit])
    const limiter = this.#limiters.get(key) ?? limiterOf(definition, steadyTime)
    this.#limiters.set(key, limiter)
    return limiter
  }

  /** The gate outlives its destination: a reload must not close a breaker or double a rate limit. */
  #gateFor(flow: string, definition: DestinationDefinition): SendingGate {
    const { name: destination } = definition
    const before = this.#find({ flow, destination })
    if (before && gateRules(before.definition) === gateRules(definition)) return before.gate
    const isStopped = () => this.#stops.isStopped(flow, destination)
    return createGate(definition, steadyTime, this.#limiterFor(definition), isStopped)
  }

  #openAll(flow: Flow, context: Omit<DestinationContext, 'flow'>, keyName: string) {
    const opened = new Map<string, DestinationWork>()
    try {
      for (const definition of flow.destinations) {
        const gate = this.#gateFor(flow.name, definition)
        opened.set(
          definition.name,
          openWork(this.#workDeps, flow, definition, context, { gate, keyName }),
        )
      }
    } catch (error) {
      for (const work of opened.values()) void work.close()
      throw error
    }
    return opened
  }

  async #end(work: DestinationWork) {
    await work.stop(Math.min(work.definition.timeoutMs + swapMarginMs, longestSwapMs))
    this.#working.delete(work)
    await work.close()
  }
}

/** A clock that is set back must not prolong an open breaker or a requested pause. */
const steadyTime = () => new Date(performance.now())

function gateRules(definition: DestinationDefinition): string {
  return JSON.stringify([definition.rateLimit, definition.breaker, budgetOf(definition)])
}

function budgetOf(definition: DestinationDefinition): string | undefined {
  return definition.type === 'http' ? definition.budget : undefined
}
