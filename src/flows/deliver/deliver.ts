import { notify } from '../../db/database.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import { longestRetryAfterMs } from '../../outbound/backoff.ts'
import {
  type DeliveryTarget,
  delayDeliveries,
  findDeliveries,
  findNeedsApproval,
  mayBeThere,
  type PendingDelivery,
} from '../../repositories/flows/deliveries.ts'
import { countWaiting } from '../../repositories/flows/delivery-reports.ts'
import { deleteDestinationState } from '../../repositories/flows/destination-states.ts'
import { walkDue } from '../../repositories/flows/due-deliveries.ts'
import type { FailedFilter } from '../../repositories/flows/failed-deliveries.ts'
import { findRemembered } from '../../repositories/flows/remembered-values.ts'
import { destinationIdentity } from '../definition/identity.ts'
import type { Flow } from '../definition/schema.ts'
import { type DestinationContext, openDestination } from '../destinations/index.ts'
import type { Destination, DestinationDefinition, ItemChange } from '../types.ts'
import {
  type AttemptDeps,
  attemptDelivery,
  createBatchLimits,
  hasBody,
  type OpenDestination,
  type Waiting,
} from './attempt.ts'
import { limiterOf, type RateLimiter } from './breaker.ts'
import { type DeliveryPreview, type DeliveryRecord, previewDelivery } from './delivery-preview.ts'
import {
  type ApprovalCheck,
  approvalCheckMs,
  createApprovalCheck,
  createGate,
  createStops,
  type Gate,
} from './gate.ts'
import { type GateReports, reportGate } from './gate-reports.ts'
import { compileItemBody } from './item-body.ts'
import type { FinalFailure, Outcome } from './outcome.ts'
import { DeliveryLeaseLostError } from './outcome-writer.ts'
import { createDeliveryQueue, type DeliveryQueueDeps } from './queue.ts'
import { requeueAfterLostLease, saveGroup } from './save-outcomes.ts'
import { retryFailed, tryNow } from './send-again.ts'
import type { QueuedItem, Work } from './worker.ts'

export type DeliveriesDeps = DeliveryQueueDeps &
  AttemptDeps & {
    /** Replaces the product's destinations, for tests. */
    openDestination?: (
      definition: DestinationDefinition,
      context: DestinationContext,
    ) => Destination
  }

/** Items that have reached a destination. */
export type Delivered = { flow: string; destination: string; items: number; at: Date }

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
   * counted). When it resolves, nothing uses the old context. Deliveries of a removed destination wait until it
   * returns. Rejects without any change if the definition cannot be opened.
   */
  open(flow: Flow, context: Omit<DestinationContext, 'flow'>): Promise<void>
  /** Stops deliveries of this flow, in the way `open` ends an old definition. Waiting deliveries stay. */
  close(flow: string): Promise<void>
  /** Previews for the destinations of a flow that is open in this process. */
  deliveryPreviews(flow: string): DeliveryPreview[]
  /** How many deliveries wait, counted up to `queue.maxWaiting`. At that number polls must wait. */
  waitingCount(flow: Pick<Flow, 'name' | 'queue' | 'destinations'>): Promise<number>
  /** Queues failed deliveries again with all attempts. Returns how many. */
  retryFailed(filter: FailedFilter): Promise<number>
  /**
   * Sends the waiting deliveries of a destination now. Ends pauses between attempts, and lets one start despite an
   * open breaker or a requested pause, in the process that delivers. Returns how many were delayed.
   */
  tryNow(target: DeliveryTarget): Promise<number>
  /** Deliveries that are being sent, over all processes. */
  countActive(): Promise<number>
  /**
   * Called after the commit in the process that delivers, once per failure. It is a hint for notifications: after a
   * crash in between only the database has the failure. Returns a function that unsubscribes.
   */
  onFinalFailures(listener: (finals: FinalFailure[]) => void): () => void
  /** Like onFinalFailures, for deliveries that arrived. */
  onDelivered(listener: (delivered: Delivered) => void): () => void
}

type Running = OpenDestination & {
  definition: DestinationDefinition
  keyNames: readonly string[]
  keepsHistory: boolean
  approval: ApprovalCheck
  reports: GateReports | undefined
}

/** Asks the process that delivers for an attempt now. */
const tryChannel = 'tillbridge_try_now'
const longestSwapMs = 60_000
/** A timed-out attempt needs a moment to end. */
const swapMarginMs = 5_000

/** Delivers the changes of flows: durably, in order per item, at least once. */
export function createDeliveries(deps: DeliveriesDeps): Deliveries {
  const { database, log, now } = deps
  const queue = createDeliveryQueue(deps)
  const stops = createStops(deps, () => queue.wakeAll())
  const openOne = deps.openDestination ?? openDestination
  /** Open destinations, by flow and name. */
  const flows = new Map<string, Map<string, Running>>()
  /** The last opening or closing of each flow. They run one after the other. */
  const turns = new Map<string, Promise<void>>()
  const finalListeners = new Set<(finals: FinalFailure[]) => void>()
  const deliveredListeners = new Set<(delivered: Delivered) => void>()
  /** By quota name and rate limit. */
  const limiters = new Map<string, RateLimiter>()
  let stopped = false
  let unlisten: (() => Promise<void>) | undefined

  /** Kept for the life of the process, so that an unused quota does not start again at zero. */
  const limiterFor = (definition: DestinationDefinition): RateLimiter => {
    const budget = budgetOf(definition)
    if (budget === undefined) return limiterOf(definition, steadyTime)
    const key = JSON.stringify([budget, definition.rateLimit])
    const limiter = limiters.get(key) ?? limiterOf(definition, steadyTime)
    limiters.set(key, limiter)
    return limiter
  }

  const inTurn = (flow: string, work: () => Promise<void>): Promise<void> => {
    const turn = (turns.get(flow) ?? Promise.resolve()).then(work)
    const done = turn.catch(() => undefined)
    turns.set(flow, done)
    void done.then(() => turns.get(flow) === done && turns.delete(flow))
    return turn
  }

  const tryThrough = ({ flow, destination }: DeliveryTarget) =>
    flows.get(flow)?.get(destination)?.gate.tryNow()

  const notifyListeners = <T>(listeners: Iterable<(event: T) => void>, event: T) => {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        log.error({ err: error }, 'delivery event listener failed')
      }
    }
  }

  const workOf = (running: Running): Work<Waiting, Outcome> => {
    const { flow, definition, keyNames, keepsHistory } = running
    const target = { flow, destination: definition.name, identity: running.identity }
    const furthestMs = 2 * Math.max(definition.retry.maxMs, longestRetryAfterMs)
    // Values that an earlier definition remembered may be incomplete; then they are looked up again.
    const names = 'remember' in definition ? Object.keys(definition.remember ?? {}) : []
    const withRemembered = async (
      rows: readonly PendingDelivery[],
    ): Promise<QueuedItem<Waiting>[]> => {
      const known = remembers(definition)
        ? await findRemembered(
            database.db,
            target,
            rows.map(({ pk }) => pk),
          )
        : undefined
      return rows.map((row) => {
        if (!known) return { pk: row.pk, row }
        const values = known.get(row.pk)
        const isWhole = values && names.every((name) => Object.hasOwn(values, name))
        return { pk: row.pk, row: { ...row, remembered: isWhole ? values : undefined } }
      })
    }
    return {
      concurrency: definition.concurrency,
      ...(running.destination.batches && {
        batch: {
          most: running.destination.batches.most('upsert'),
          groupOf: (pk, row) => {
            const { kind } = row
            // A new item may need another request than an existing one.
            const word = row.remembered ? `${kind} of one that is known` : kind
            return { kind: word, most: running.batchLimits.most(pk, kind) }
          },
        },
      }),
      begun: () => {
        running.termBeganAt = now()
        running.reports?.write()
      },
      admit: () =>
        running.approval.isClosed() ? { starts: 0, waitMs: approvalCheckMs } : running.gate.admit(),
      walk: () => {
        const walk = walkDue(database.db, target, furthestMs)
        return {
          next: async (limit) => withRemembered(running.approval.pass(await walk.next(limit))),
        }
      },
      load: async (pks) => {
        const rows = await findDeliveries(database.db, target, pks)
        return withRemembered(
          running.approval.pass(rows).filter(({ state }) => state === 'waiting'),
        )
      },
      delayDeliveries: (pks, delayMs, fence) =>
        database.transaction(async (trx) => {
          await delayDeliveries(trx, target, pks, delayMs)
          if (!(await fence.holds(trx))) throw new DeliveryLeaseLostError()
        }),
      attempt: (queued, signal, permit) => attemptDelivery(deps, running, queued, signal, permit),
      save: async (group, fence) => {
        const at = now()
        const { delivered, finals, again } = await saveGroup(
          database,
          { ...target, keepsHistory },
          group,
          at,
          fence,
        )
        if (delivered > 0) notifyListeners(deliveredListeners, { ...target, items: delivered, at })
        if (finals.length > 0) {
          logFinals(log, target, finals)
          notifyListeners(finalListeners, finals)
        }
        return again
      },
      lost: (outcome) =>
        requeueAfterLostLease({ database, queue, now, log }, { ...target, keyNames }, outcome),
    }
  }

  /** The stored record of an item at a destination; undefined for an upsert that is sent in any case. */
  const recordOf = async (
    { flow, definition }: Running,
    { pk, kind, isForced }: Pick<ItemChange, 'pk' | 'kind' | 'isForced'>,
  ): Promise<DeliveryRecord | undefined> => {
    if (kind === 'upsert' && isForced) return undefined
    const target = { flow, destination: definition.name }
    const [row] = await findDeliveries(database.db, target, [pk])
    const remembered = remembers(definition)
      ? (await findRemembered(database.db, target, [pk])).get(pk)
      : undefined
    return {
      isThere: row !== undefined && mayBeThere(row),
      has: (body) => row !== undefined && hasBody(row, body),
      fields: row?.delivered_fields ?? null,
      remembered,
    }
  }

  const closeOne = async ({ flow, definition, destination }: Running) => {
    try {
      await destination.close()
    } catch (error) {
      log.warn({ err: error, flow, destination: definition.name }, 'destination not closed')
    }
  }

  const prepare = (flow: Flow, context: Omit<DestinationContext, 'flow'>): Map<string, Running> => {
    const before = flows.get(flow.name)
    const prepared = new Map<string, Running>()
    try {
      for (const definition of flow.destinations) {
        const { name } = definition
        const destination = openOne(definition, { ...context, flow })
        const identity = destinationIdentity(definition)
        prepared.set(name, {
          flow: flow.name,
          identity,
          keyFields: flow.item.key.length,
          keyNames: flow.item.key,
          definition,
          keepsHistory: keepsHistory(flow),
          body: compileItemBody(definition, {
            key: flow.item.key,
            deletes: flow.deletes.mode === 'delete',
          }),
          destination,
          batchLimits: createBatchLimits(destination),
          approval: createApprovalCheck(() =>
            findNeedsApproval(database.db, { flow: flow.name, destination: name, identity }),
          ),
          gate: gateFor(definition, before?.get(name), {
            limiterFor,
            isStopped: () => stops.isStopped(flow.name, name),
          }),
          reports: undefined,
        })
      }
    } catch (error) {
      for (const running of prepared.values()) void closeOne(running)
      throw error
    }
    return prepared
  }

  const end = async (running: Running) => {
    const { flow, definition } = running
    const timeoutMs = Math.min(definition.timeoutMs + swapMarginMs, longestSwapMs)
    await queue.unwork(flow, definition.name, { timeoutMs })
    await running.reports?.stop()
    await closeOne(running)
  }

  const open = async (flow: Flow, context: Omit<DestinationContext, 'flow'>) => {
    if (stopped) throw new Error('deliveries are stopped')
    const next = prepare(flow, context)
    const before = flows.get(flow.name) ?? new Map<string, Running>()
    flows.set(flow.name, next)
    const swap = async (name: string) => {
      const [old, running] = [before.get(name), next.get(name)]
      if (old) await end(old)
      if (stopped) return
      if (!running)
        return deleteDestinationState(database.db, { flow: flow.name, destination: name })
      // Not earlier: the old definition would report the same block again.
      const wasBlocked = running.gate.unblock()
      running.reports = reportGate(deps, { flow: flow.name, destination: name }, running.gate)
      await queue.work(flow.name, name, workOf(running))
      if (wasBlocked) await tryNow({ database, queue, now }, { flow: flow.name, destination: name })
      if (stopped) await queue.unwork(flow.name, name)
    }
    await Promise.all([...new Set([...before.keys(), ...next.keys()])].map(swap))
  }

  const close = async (flow: string) => {
    const running = [...(flows.get(flow)?.values() ?? [])]
    flows.delete(flow)
    await Promise.all(running.map(end))
    await deleteDestinationState(database.db, { flow })
  }

  const stop = async (options?: { timeoutMs?: number }) => {
    stopped = true
    await unlisten?.()
    unlisten = undefined
    await queue.stop(options)
    await stops.stop()
    await Promise.all(turns.values())
    const running = [...flows.values()].flatMap((destinations) => [...destinations.values()])
    flows.clear()
    await Promise.all(running.map(({ reports }) => reports?.stop()))
    await Promise.all(running.map(closeOne))
  }

  return {
    async start() {
      await stops.start()
      await queue.start()
      unlisten = await database.listen(tryChannel, (payload) => {
        const [flow, destination] = JSON.parse(payload) as [string, string]
        tryThrough({ flow, destination })
      })
    },
    stop,
    open: (flow, context) => inTurn(flow.name, () => open(flow, context)),
    close: (flow) => inTurn(flow, () => close(flow)),
    deliveryPreviews: (flow) =>
      [...(flows.get(flow)?.values() ?? [])].map((running) => ({
        name: running.definition.name,
        type: running.definition.type,
        check: async (change) => previewDelivery(running, change, await recordOf(running, change)),
      })),
    waitingCount: ({ name, queue: { maxWaiting }, destinations }) =>
      countWaiting(
        database.db,
        name,
        destinations.map((destination) => destination.name),
        maxWaiting,
      ),
    retryFailed: (filter) => retryFailed({ database, queue, now }, filter),
    async tryNow(target) {
      tryThrough(target)
      await database.transaction((trx) =>
        notify(trx, tryChannel, JSON.stringify([target.flow, target.destination])),
      )
      return tryNow({ database, queue, now }, target)
    },
    countActive: () => queue.countActive(),
    onFinalFailures: (listener) => added(finalListeners, listener),
    onDelivered: (listener) => added(deliveredListeners, listener),
  }
}

/** A clock that is set back must not prolong an open breaker or a requested pause. */
const steadyTime = () => new Date(performance.now())

/** The gate outlives its destination: a reload must not close a breaker or double a rate limit. */
function gateFor(
  definition: DestinationDefinition,
  before: Running | undefined,
  by: {
    limiterFor: (definition: DestinationDefinition) => RateLimiter
    isStopped: () => boolean
  },
): Gate {
  const rules = (one: DestinationDefinition) =>
    JSON.stringify([one.rateLimit, one.breaker, budgetOf(one)])
  const isSame = before && rules(before.definition) === rules(definition)
  if (isSame) return before.gate
  return createGate(definition, steadyTime, by.limiterFor(definition), by.isStopped)
}

function budgetOf(definition: DestinationDefinition): string | undefined {
  return definition.type === 'http' ? definition.budget : undefined
}

function remembers(definition: DestinationDefinition): boolean {
  return definition.type === 'http' && definition.remember !== undefined
}

function keepsHistory({ queue }: Pick<Flow, 'queue'>): boolean {
  return queue.keepHistoryMs > 0
}

const failuresShown = 3

/**
 * One line for all permanent failures of a group, so that a receiver that refuses everything does not flood the log.
 */
function logFinals(
  log: DeliveriesDeps['log'],
  target: { flow: string; destination: string },
  finals: readonly FinalFailure[],
): void {
  const shown = finals.slice(0, failuresShown).map(({ pk, status, attempts, why }) => ({
    ...{ pk, status, attempts, code: why.code },
    reason: sentenceOf(why, 'en'),
  }))
  log.warn({ ...target, failed: finals.length, first: shown }, 'deliveries failed permanently')
}

function added<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
