import { notify, type Trx } from '../../db/database.ts'
import { sentenceOf } from '../../domain/flow-reasons.ts'
import { longestRetryAfterMs } from '../../outbound/backoff.ts'
import {
  type DeliveryTarget,
  findDeliveries,
  findHeld,
  holdBack,
  mayBeThere,
  type OwedRow,
  recordChanges,
  recordNews,
} from '../../repositories/flows/deliveries.ts'
import { countWaiting } from '../../repositories/flows/delivery-reports.ts'
import { listFills } from '../../repositories/flows/destination-fills.ts'
import { deleteDestinationState } from '../../repositories/flows/destination-states.ts'
import { walkDue } from '../../repositories/flows/due-deliveries.ts'
import type { FailedFilter } from '../../repositories/flows/failed-deliveries.ts'
import { findRemembered } from '../../repositories/flows/remembered-values.ts'
import { destinationIdentity } from '../definition/identity.ts'
import type { Flow } from '../definition/schema.ts'
import { type DestinationContext, openDestination } from '../destinations/index.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { Destination, DestinationDefinition, ItemChange } from '../types.ts'
import {
  type AttemptDeps,
  attemptDelivery,
  createCompany,
  hasBody,
  type OpenDestination,
  type Waiting,
} from './attempt.ts'
import { type Cleaned, cleanDeliveries } from './clean.ts'
import type { RateLimiter } from './gate.ts'
import { createGate, createHold, type Gate, type Hold, holdLookMs, limiterOf } from './gate.ts'
import { type GateReports, reportGate } from './gate-reports.ts'
import { compileItemBody } from './item-body.ts'
import type { FinalFailure, Outcome } from './outcome.ts'
import { createDeliveryQueue, type DeliveryQueueDeps } from './queue.ts'
import { type DeliveryRecord, type Rehearsal, rehearse } from './rehearse.ts'
import { retryFailed, tryNow } from './send-again.ts'
import { makeGoodLostClaim, settleGroup } from './settle.ts'
import type { Owed, Work } from './worker.ts'

export type DeliveriesDeps = DeliveryQueueDeps &
  AttemptDeps & {
    /** Stands in for the destinations of the product. */
    openDestination?: (
      definition: DestinationDefinition,
      context: DestinationContext,
    ) => Destination
  }

/** Items that have reached a destination. */
export type Delivered = { flow: string; destination: string; items: number; at: Date }

export type Deliveries = {
  /** Before everything else. Several processes may start together. */
  start(): Promise<void>
  /**
   * Ends all work: attempts under way may end until `timeoutMs` (30 s) and are then given back without being counted. A
   * second call changes nothing.
   */
  stop(options?: { timeoutMs?: number }): Promise<void>
  /**
   * Opens the destinations of a flow and delivers what they are owed, also while the flow is paused. For a flow that is
   * open, its new definition takes over: attempts under way end with the old one (a minute at most; then they are broken
   * off, given back and not counted) and are settled before the new one begins. When it resolves, nothing of the old
   * context is in use any longer. What is owed to a destination that the flow no longer has waits until it comes back.
   * Rejects, and changes nothing, when the definition cannot be opened.
   */
  open(flow: Flow, context: Omit<DestinationContext, 'flow'>): Promise<void>
  /** Delivers no more for this flow, as `open` ends an old definition. What is owed waits; nothing is lost. */
  close(flow: string): Promise<void>
  /**
   * Writes what is owed to each destination of the flow, and wakes whoever delivers it once the transaction commits. The
   * flow has been opened in this process. Keys are distinct.
   */
  enqueue(
    trx: Trx,
    runtime: Pick<FlowRuntime, 'flow'>,
    changes: readonly ItemChange[],
    only?: string,
  ): Promise<void>
  /** As enqueue, of items of which nothing is on record, and stores their hashes; rejects where something is. */
  enqueueNews(
    trx: Trx,
    runtime: Pick<FlowRuntime, 'flow'>,
    changes: readonly ItemChange[],
  ): Promise<void>
  /** The destinations of a flow that is open in this process, to be asked what they would refuse. */
  rehearsals(flow: string): Rehearsal[]
  /** How many deliveries wait, no further than to `queue.maxWaiting`: reaching it means that polls should hold back. */
  waitingCount(flow: Pick<Flow, 'name' | 'queue' | 'destinations'>): Promise<number>
  /** Has failed deliveries tried again, with all their attempts. Answers how many. */
  retryFailed(filter: FailedFilter): Promise<number>
  /**
   * Attempts what a destination is owed now: ends the pauses between attempts and lets one start although its breaker is
   * open or it asked for silence, in whichever process delivers. Answers how many deliveries were delayed.
   */
  tryNow(target: DeliveryTarget): Promise<number>
  /** Housekeeping; see cleanDeliveries. Answers how many rows are gone. */
  clean(flow: Pick<Flow, 'name' | 'queue'>): Promise<Cleaned>
  /** Deliveries that are in hand, over all processes. */
  countActive(): Promise<number>
  /**
   * Called in the process that delivers, right after the commit, once per failure: a hint for whoever tells people. After
   * a crash in between only the database knows. Answers the function that ends it.
   */
  onFinalFailures(listener: (finals: FinalFailure[]) => void): () => void
  /** As onFinalFailures, for what arrived. */
  onDelivered(listener: (delivered: Delivered) => void): () => void
}

type Running = OpenDestination & {
  definition: DestinationDefinition
  keyNames: readonly string[]
  keepsHistory: boolean
  hold: Hold
  reports: GateReports | undefined
}

/** Tells the process that works a destination that somebody wants an attempt now. */
const tryChannel = 'tillbridge_try_now'
const longestSwapMs = 60_000
/** An attempt that has used up its time still needs a moment to say so. */
const swapMarginMs = 5_000

/** Brings the changes of flows to their destinations: durable, in order per item, at least once. */
export function createDeliveries(deps: DeliveriesDeps): Deliveries {
  const { database, log, now } = deps
  const queue = createDeliveryQueue(deps)
  const openOne = deps.openDestination ?? openDestination
  /** What runs, by flow and destination. */
  const flows = new Map<string, Map<string, Running>>()
  /** The last opening or closing of each flow: they follow each other. */
  const turns = new Map<string, Promise<void>>()
  const finalListeners = new Set<(finals: FinalFailure[]) => void>()
  const deliveredListeners = new Set<(delivered: Delivered) => void>()
  /** By their budget and the limit. */
  const limiters = new Map<string, RateLimiter>()
  let stopped = false
  let unlisten: (() => Promise<void>) | undefined

  /** Kept as long as the process: a budget that nobody uses for a while is not a new one. */
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

  const letTry = ({ flow, destination }: DeliveryTarget) =>
    flows.get(flow)?.get(destination)?.gate.tryNow()

  const tell = <T>(listeners: Iterable<(event: T) => void>, event: T) => {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        log.error({ err: error }, 'a listener of deliveries failed')
      }
    }
  }

  const workOf = (running: Running): Work<Waiting, Outcome> => {
    const { flow, definition, keyNames, keepsHistory } = running
    const target = { flow, destination: definition.name, identity: running.identity }
    const furthestMs = 2 * Math.max(definition.retry.maxMs, longestRetryAfterMs)
    // Of what a former definition remembered something may be missing: then it is looked for again.
    const names = 'remember' in definition ? Object.keys(definition.remember ?? {}) : []
    const withMemory = async (rows: readonly OwedRow[]): Promise<Owed<Waiting>[]> => {
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
          company: (pk, row) => {
            const { kind } = row
            // One that is new may need another request than one that is there.
            const word = row.remembered ? `${kind} of one that is known` : kind
            return { kind: word, most: running.company.most(pk, kind) }
          },
        },
      }),
      begun: () => {
        running.termBeganAt = now()
        running.reports?.write()
      },
      admit: () =>
        running.hold.isClosed() ? { starts: 0, waitMs: holdLookMs } : running.gate.admit(),
      walk: () => {
        const walk = walkDue(database.db, target, furthestMs)
        return { next: async (limit) => withMemory(running.hold.pass(await walk.next(limit))) }
      },
      load: async (pks) => {
        const rows = await findDeliveries(database.db, target, pks)
        return withMemory(running.hold.pass(rows).filter(({ state }) => state === 'waiting'))
      },
      holdBack: (pks, delayMs) =>
        database.transaction((trx) => holdBack(trx, target, pks, delayMs)),
      attempt: (owed, signal, permit) => attemptDelivery(deps, running, owed, signal, permit),
      settle: async (group) => {
        const at = now()
        const { delivered, finals, again } = await settleGroup(
          database,
          { ...target, keepsHistory },
          group,
          at,
        )
        if (delivered > 0) tell(deliveredListeners, { ...target, items: delivered, at })
        if (finals.length > 0) {
          logFinals(log, target, finals)
          tell(finalListeners, finals)
        }
        return again
      },
      lost: (settled) =>
        makeGoodLostClaim({ database, queue, now, log }, { ...target, keyNames }, settled),
    }
  }

  /** What the deliveries of an item have left on record at a destination; undefined of an upsert that is sent anew. */
  const recordOf = async (
    { flow, definition }: Running,
    { pk, kind, isAnew }: Pick<ItemChange, 'pk' | 'kind' | 'isAnew'>,
  ): Promise<DeliveryRecord | undefined> => {
    if (kind === 'upsert' && isAnew) return undefined
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
      log.warn({ err: error, flow, destination: definition.name }, 'a destination did not close')
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
          company: createCompany(destination),
          hold: createHold(() =>
            findHeld(database.db, { flow: flow.name, destination: name, identity }),
          ),
          gate: gateFor(definition, before?.get(name), limiterFor),
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
      // Not sooner: the old definition would find its way blocked once more.
      const wasBlocked = running.gate.unblock()
      running.reports = reportGate(deps, { flow: flow.name, destination: name }, running.gate)
      await queue.work(flow.name, name, workOf(running), budgetOf(running.definition))
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
    await Promise.all(turns.values())
    const running = [...flows.values()].flatMap((destinations) => [...destinations.values()])
    flows.clear()
    await Promise.all(running.map(({ reports }) => reports?.stop()))
    await Promise.all(running.map(closeOne))
  }

  const owe = async (
    record: typeof recordChanges,
    trx: Trx,
    flow: Flow,
    changes: readonly ItemChange[],
    only?: string,
  ) => {
    if (changes.length === 0) return
    // In order, so that two writers never wait for each other crosswise.
    const destinations = flow.destinations
      .map(({ name }) => name)
      .filter((name) => only === undefined || name === only)
      .sort()
    // What is filled has not had yet what it has no row of.
    const isGone = changes.some(({ kind }) => kind === 'delete')
    const filled = isGone ? (await listFills(trx, flow.name)).map((one) => one.destination) : []
    const to = { flow: flow.name, destinations, keepsHistory: keepsHistory(flow), filled }
    await record(trx, to, changes, now())
    for (const name of destinations) queue.wake(flow.name, name)
  }

  return {
    async start() {
      await queue.start()
      unlisten = await database.listen(tryChannel, (payload) => {
        const [flow, destination] = JSON.parse(payload) as [string, string]
        letTry({ flow, destination })
      })
    },
    stop,
    open: (flow, context) => inTurn(flow.name, () => open(flow, context)),
    close: (flow) => inTurn(flow, () => close(flow)),
    enqueue: (trx, { flow }, changes, only) => owe(recordChanges, trx, flow, changes, only),
    enqueueNews: (trx, { flow }, changes) => owe(recordNews, trx, flow, changes),
    rehearsals: (flow) =>
      [...(flows.get(flow)?.values() ?? [])].map((running) => ({
        name: running.definition.name,
        type: running.definition.type,
        foresee: async (change) => rehearse(running, change, await recordOf(running, change)),
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
      letTry(target)
      await database.transaction((trx) =>
        notify(trx, tryChannel, JSON.stringify([target.flow, target.destination])),
      )
      return tryNow({ database, queue, now }, target)
    },
    clean: (flow) => cleanDeliveries(deps, flow),
    countActive: () => queue.countActive(),
    onFinalFailures: (listener) => added(finalListeners, listener),
    onDelivered: (listener) => added(deliveredListeners, listener),
  }
}

/** A clock that is set back must not keep a breaker open, nor a receiver silent. */
const steadyTime = () => new Date(performance.now())

/** A reload must not open a breaker, or let through twice what a rate limit allows: the gate outlives its destination. */
function gateFor(
  definition: DestinationDefinition,
  before: Running | undefined,
  limiterFor: (definition: DestinationDefinition) => RateLimiter,
): Gate {
  const rules = (one: DestinationDefinition) =>
    JSON.stringify([one.rateLimit, one.breaker, budgetOf(one)])
  const isSame = before && rules(before.definition) === rules(definition)
  return isSame ? before.gate : createGate(definition, steadyTime, limiterFor(definition))
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

/** One line for what failed for good together: a receiver that refuses everything must not flood the log. */
function logFinals(
  log: DeliveriesDeps['log'],
  target: { flow: string; destination: string },
  finals: readonly FinalFailure[],
): void {
  const shown = finals.slice(0, failuresShown).map(({ pk, status, attempts, why }) => ({
    ...{ pk, status, attempts, code: why.code },
    reason: sentenceOf(why, 'en'),
  }))
  log.warn({ ...target, failed: finals.length, first: shown }, 'deliveries failed for good')
}

function added<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
