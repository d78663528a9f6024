import { setTimeout as wait } from 'node:timers/promises'
import { type Database, notify } from '../../db/database.ts'
import { createKeyedQueue } from '../../jobs/keyed-queue.ts'
import type { Leader } from '../../jobs/leader.ts'
import type { DeliveryTarget } from '../../repositories/flows/deliveries.ts'
import { deleteDestinationState } from '../../repositories/flows/destination-states.ts'
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
import { createGate, createStops, type Gate } from './sending-gate.ts'

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

export type Deliveries = {
  /** Call it before anything else. Several processes may start together. */
  start(): Promise<void>
  /**
   * Ends all work. Attempts under way may end until `timeoutMs` (30 s); later ones are abandoned and not counted. A
   * second call has no effect.
   */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /**
   * Opens the destinations of a flow and sends their deliveries, also while the flow is paused. For an open flow, the
   * new definition replaces the old one. Attempts under way end first (after a minute they are abandoned and not
   * counted). When the promise resolves, nothing uses the old context. Deliveries of a removed destination wait until
   * it returns.
   * `keyName` is the first name of a renamed flow.
   * @throws at once, without any change, if the definition cannot be opened.
   */
  open(flow: Flow, context: Omit<DestinationContext, 'flow'>, keyName?: string): Promise<void>
  /** Stops deliveries of this flow, in the way `open` ends an old definition. Waiting deliveries stay. */
  close(flow: string): Promise<void>
  /** Whether another open flow deletes at a place that this one writes to. */
  isDeletedBeside(flow: string): boolean
  /**
   * Sends the waiting deliveries of a destination now. Ends pauses between attempts, and lets one start despite an
   * open breaker or a requested pause, in the process that delivers. Returns how many were delayed.
   */
  tryNow(target: DeliveryTarget): Promise<number>
  /** Deliveries that are being sent, over all processes. */
  countActive(): Promise<number>
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
 * leader walks over the rows of each destination: when a writer wakes it, and once a second. Only the leader sends, so
 * concurrency, rate limit and breaker of a definition hold over all processes.
 */
export function createDeliveries(deps: DeliveriesDeps): Deliveries {
  const { database, log, now, leader } = deps
  const stops = createStops(deps, () => wakeAll())
  /** Open destinations, by flow and name. */
  const flows = new Map<string, Map<string, DestinationWork>>()
  /** Open flows that delete what they miss. */
  const deleting = new Set<string>()
  /** With a worker, also one that finishes its attempts. */
  const working = new Set<DestinationWork>()
  /** Openings and closings of each flow. */
  const swaps = createKeyedQueue()
  /** By quota name and rate limit. */
  const limiters = new Map<string, RateLimiter>()
  /** Flows with outcomes that pages were not notified of yet. */
  const moved = new Set<string>()
  let notifyTimer: NodeJS.Timeout | undefined
  let notifying: Promise<void> | undefined
  let inFlightTimer: NodeJS.Timeout | undefined
  let stopped = false
  let unlisten: (() => Promise<unknown>) | undefined

  const find = ({ flow, destination }: DeliveryTarget) => flows.get(flow)?.get(destination)

  const wakeAll = () => {
    for (const work of working) work.wake()
  }

  /** Where items of a flow have identities. */
  const placesOf = (flow: string) =>
    [...(flows.get(flow)?.values() ?? [])].flatMap((work) => (work.claims ? [work.identity] : []))

  const inFlight = () => [...working].reduce((sum, work) => sum + work.inFlight(), 0)

  /** For /stats of other processes. */
  let stored = 0
  const storeInFlight = async () => {
    const lease = leader.current()?.proof()
    const count = inFlight()
    if (!lease || count === stored) return
    stored = count
    await saveInFlight(database.db, lease, count).catch((error: unknown) =>
      log.warn({ err: error }, 'claimed deliveries of this process not stored'),
    )
  }

  const notifyPages = async () => {
    notifyTimer = undefined
    const names = [...moved]
    moved.clear()
    await notifyDeliveries(database.db, names).catch((error: unknown) =>
      log.warn({ err: error }, 'delivery events not sent to the page'),
    )
  }

  const workDeps: WorkDeps = {
    ...deps,
    sleep: deps.sleep ?? ((ms) => wait(ms)),
    pollMs: deps.pollMs ?? 1_000,
    openFlows: () => ({
      deleting: [...deleting],
      keeping: [...flows.keys()].filter((flow) => !deleting.has(flow)),
    }),
    onSaved(saved) {
      deps.onSaved?.(saved)
      moved.add(saved.flow)
      notifyTimer ??= setTimeout(() => {
        notifying = notifyPages()
      }, notifyAfterMs)
    },
  }

  /** Kept for the life of the process, so that an unused quota does not start again at zero. */
  const limiterFor = (definition: DestinationDefinition): RateLimiter => {
    const budget = budgetOf(definition)
    if (budget === undefined) return limiterOf(definition, steadyTime)
    const key = JSON.stringify([budget, definition.rateLimit])
    const limiter = limiters.get(key) ?? limiterOf(definition, steadyTime)
    limiters.set(key, limiter)
    return limiter
  }

  /** The gate outlives its destination: a reload must not close a breaker or double a rate limit. */
  const gateFor = (flow: string, definition: DestinationDefinition): Gate => {
    const { name: destination } = definition
    const before = find({ flow, destination })
    if (before && gateRules(before.definition) === gateRules(definition)) return before.gate
    const isStopped = () => stops.isStopped(flow, destination)
    return createGate(definition, steadyTime, limiterFor(definition), isStopped)
  }

  const openAll = (flow: Flow, context: Omit<DestinationContext, 'flow'>, keyName: string) => {
    const opened = new Map<string, DestinationWork>()
    try {
      for (const definition of flow.destinations) {
        const gate = gateFor(flow.name, definition)
        opened.set(
          definition.name,
          openWork(workDeps, flow, definition, context, { gate, keyName }),
        )
      }
    } catch (error) {
      for (const work of opened.values()) void work.close()
      throw error
    }
    return opened
  }

  const end = async (work: DestinationWork) => {
    await work.stop(Math.min(work.definition.timeoutMs + swapMarginMs, longestSwapMs))
    working.delete(work)
    await work.close()
  }

  const open: Deliveries['open'] = (flow, context, keyName = flow.name) => {
    if (stopped) throw new Error('deliveries are stopped')
    const next = openAll(flow, context, keyName)
    const before = flows.get(flow.name) ?? new Map<string, DestinationWork>()
    flows.set(flow.name, next)
    if (flow.deletes.mode === 'delete') deleting.add(flow.name)
    else deleting.delete(flow.name)
    const swap = async (destination: string) => {
      const target = { flow: flow.name, destination }
      const [old, work] = [before.get(destination), next.get(destination)]
      if (old) await end(old)
      if (stopped) return
      if (!work) return deleteDestinationState(database.db, target)
      // A later definition came meanwhile.
      if (find(target) !== work) return
      working.add(work)
      const wasBlocked = work.start()
      if (wasBlocked) await tryNow({ database, now }, target)
    }
    return swaps.run(flow.name, async () => {
      await Promise.all([...new Set([...before.keys(), ...next.keys()])].map(swap))
    })
  }

  const close = (flow: string): Promise<void> => {
    const before = [...(flows.get(flow)?.values() ?? [])]
    flows.delete(flow)
    deleting.delete(flow)
    return swaps.run(flow, async () => {
      await Promise.all(before.map(end))
      await deleteDestinationState(database.db, { flow })
    })
  }

  return {
    async start() {
      await stops.start()
      const unlistenWakes = await database.listen(
        deliveriesChannel,
        (payload) => {
          const [flow = '', destination = ''] = payload.split('/')
          find({ flow, destination })?.wake()
        },
        wakeAll,
      )
      const unlistenTries = await database.listen(tryChannel, (payload) => {
        const [flow, destination] = JSON.parse(payload) as [string, string]
        find({ flow, destination })?.gate.tryNow()
      })
      const unfollow = leader.follow(() => {
        stored = 0
        wakeAll()
      })
      inFlightTimer = setInterval(() => void storeInFlight(), inFlightEveryMs).unref()
      unlisten = () => {
        unfollow()
        return Promise.all([unlistenWakes(), unlistenTries()])
      }
    },
    async stop({ timeoutMs = stopMs } = {}) {
      stopped = true
      await Promise.all([...working].map((work) => work.stop(timeoutMs)))
      clearInterval(inFlightTimer)
      await unlisten?.()
      unlisten = undefined
      await stops.stop()
      await swaps.idle()
      const opened = [...flows.values()].flatMap((works) => [...works.values()])
      flows.clear()
      working.clear()
      await Promise.all(opened.map((work) => work.close()))
      clearTimeout(notifyTimer)
      await notifying
    },
    open,
    close,
    isDeletedBeside(flow) {
      const places = placesOf(flow)
      const others = [...deleting].filter((other) => other !== flow)
      return others.some((other) => placesOf(other).some((place) => places.includes(place)))
    },
    async tryNow(target) {
      find(target)?.gate.tryNow()
      await database.transaction((trx) =>
        notify(trx, tryChannel, JSON.stringify([target.flow, target.destination])),
      )
      return tryNow({ database, now }, target)
    },
    countActive: async () =>
      leader.current() ? inFlight() : inFlight() + (await countInFlight(database.db, now())),
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
