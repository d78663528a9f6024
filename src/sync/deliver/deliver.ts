import type { Trx } from '../../db/database.ts'
import {
  type DeliveryChange,
  findDeliveries,
  type OwedRow,
  recordChanges,
} from '../../repositories/deliveries.ts'
import { countWaiting } from '../../repositories/delivery-reports.ts'
import type { FailedFilter } from '../../repositories/failed-deliveries.ts'
import { insertItemVersions } from '../../repositories/item-history.ts'
import type { Flow } from '../definition/schema.ts'
import { type DestinationContext, openDestination } from '../destinations/index.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { Work } from '../queue/pump.ts'
import { createDeliveryQueue, type DeliveryQueueDeps } from '../queue/queue.ts'
import type { Destination, DestinationDefinition, Item } from '../types.ts'
import { type AttemptDeps, attemptDelivery, type OpenDestination } from './attempt.ts'
import { type Cleaned, cleanDeliveries } from './clean.ts'
import { createGate, type Gate } from './gate.ts'
import { compileItemBody } from './item-body.ts'
import type { FinalFailure, Outcome } from './outcome.ts'
import { type Rehearsal, rehearse } from './rehearse.ts'
import { retryFailed } from './retry-failed.ts'
import { settleOutcomes } from './settle.ts'

export type DeliveriesDeps = DeliveryQueueDeps &
  AttemptDeps & {
    /** Stands in for the destinations of the product. */
    openDestination?: (
      definition: DestinationDefinition,
      context: DestinationContext,
    ) => Destination
  }

/** A change at the source; of a deleted item `value` is what is still known of it, its key at least. */
export type ItemChange = {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  value: Item['value']
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
  ): Promise<void>
  /** The destinations of a flow that is open in this process, to be asked what they would refuse. */
  rehearsals(flow: string): Rehearsal[]
  /** How many deliveries wait, no further than to `queue.maxWaiting`: reaching it means that polls should hold back. */
  waitingCount(flow: Pick<Flow, 'name' | 'queue' | 'destinations'>): Promise<number>
  /** Has failed deliveries tried again, with all their attempts. Answers how many. */
  retryFailed(filter: FailedFilter): Promise<number>
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

type Running = OpenDestination & { definition: DestinationDefinition; keepsHistory: boolean }

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
  let stopped = false

  const inTurn = (flow: string, work: () => Promise<void>): Promise<void> => {
    const turn = (turns.get(flow) ?? Promise.resolve()).then(work)
    const done = turn.catch(() => undefined)
    turns.set(flow, done)
    void done.then(() => turns.get(flow) === done && turns.delete(flow))
    return turn
  }

  const tell = <T>(listeners: Iterable<(event: T) => void>, event: T) => {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        log.error({ err: error }, 'a listener of deliveries failed')
      }
    }
  }

  const workOf = (running: Running): Work<OwedRow, Outcome> => {
    const { flow, definition, keepsHistory } = running
    const target = { flow, destination: definition.name }
    return {
      concurrency: definition.concurrency,
      admit: running.gate.admit,
      load: async (pks) => {
        const rows = await findDeliveries(database.db, target, pks)
        return new Map(rows.map((row) => [row.pk, row]))
      },
      attempt: (pk, row, signal) => attemptDelivery(deps, running, pk, row, signal),
      settle: async (group) => {
        const at = now()
        const { delivered, finals } = await database.transaction((trx) =>
          settleOutcomes(trx, queue, { ...target, keepsHistory }, group, at),
        )
        if (delivered > 0) tell(deliveredListeners, { ...target, items: delivered, at })
        if (finals.length > 0) {
          logFinals(log, target, finals)
          tell(finalListeners, finals)
        }
      },
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
        prepared.set(name, {
          flow: flow.name,
          keyFields: flow.item.key.length,
          definition,
          keepsHistory: keepsHistory(flow),
          body: compileItemBody(definition),
          destination: openOne(definition, { ...context, flow }),
          gate: gateFor(definition, before?.get(name)),
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
    await closeOne(running)
  }

  const open = async (flow: Flow, context: Omit<DestinationContext, 'flow'>) => {
    if (stopped) throw new Error('deliveries are stopped')
    const next = prepare(flow, context)
    try {
      await Promise.all([...next.keys()].map((name) => queue.ensureQueue(flow.name, name)))
    } catch (error) {
      await Promise.all([...next.values()].map(closeOne))
      throw error
    }
    const before = flows.get(flow.name) ?? new Map<string, Running>()
    flows.set(flow.name, next)
    const swap = async (name: string) => {
      const [old, running] = [before.get(name), next.get(name)]
      if (old) await end(old)
      if (!running || stopped) return
      await queue.work(flow.name, name, workOf(running))
      if (stopped) await queue.unwork(flow.name, name)
    }
    await Promise.all([...new Set([...before.keys(), ...next.keys()])].map(swap))
  }

  const close = async (flow: string) => {
    const running = [...(flows.get(flow)?.values() ?? [])]
    flows.delete(flow)
    await Promise.all(running.map(end))
  }

  const stop = async (options?: { timeoutMs?: number }) => {
    stopped = true
    await queue.stop(options)
    await Promise.all(turns.values())
    const running = [...flows.values()].flatMap((destinations) => [...destinations.values()])
    flows.clear()
    await Promise.all(running.map(closeOne))
  }

  const enqueue: Deliveries['enqueue'] = async (trx, { flow }, changes) => {
    if (changes.length === 0) return
    // In the order of their keys, so that two writers never wait for each other crosswise.
    const names = flow.destinations.map(({ name }) => name).sort()
    const ordered = changes.toSorted((a, b) => (a.pk < b.pk ? -1 : 1))
    const rows = names.flatMap((destination) =>
      ordered.map<DeliveryChange>(({ pk, kind, hash, value }) => ({
        flow: flow.name,
        destination,
        pk,
        kind,
        hash,
        payload: value,
      })),
    )
    const at = now()
    await recordChanges(trx, rows, at)
    const pks = ordered.map(({ pk }) => pk)
    const [first] = names
    if (first !== undefined && keepsHistory(flow)) {
      // What is owed is the same to all of them.
      await insertItemVersions(trx, { flow: flow.name, destination: first }, pks, at)
    }
    for (const name of names) await queue.wake(trx, flow.name, name, pks)
  }

  return {
    start: () => queue.start(),
    stop,
    open: (flow, context) => inTurn(flow.name, () => open(flow, context)),
    close: (flow) => inTurn(flow, () => close(flow)),
    enqueue,
    rehearsals: (flow) =>
      [...(flows.get(flow)?.values() ?? [])].map((running) => ({
        name: running.definition.name,
        type: running.definition.type,
        refusalOf: (change) => rehearse(running, change),
      })),
    waitingCount: ({ name, queue: { maxWaiting }, destinations }) =>
      countWaiting(
        database.db,
        name,
        destinations.map((destination) => destination.name),
        maxWaiting,
      ),
    retryFailed: (filter) => retryFailed({ database, queue, now }, filter),
    clean: (flow) => cleanDeliveries(deps, flow),
    countActive: () => queue.countActive(),
    onFinalFailures: (listener) => added(finalListeners, listener),
    onDelivered: (listener) => added(deliveredListeners, listener),
  }
}

/** A clock that is set back must not keep a breaker open, nor a receiver silent. */
const steadyTime = () => new Date(performance.now())

/** A reload must not open a breaker, or let through twice what a rate limit allows: the gate outlives its destination. */
function gateFor(definition: DestinationDefinition, before: Running | undefined): Gate {
  const rules = ({ rateLimit, breaker }: DestinationDefinition) =>
    JSON.stringify([rateLimit, breaker])
  const isSame = before && rules(before.definition) === rules(definition)
  return isSame ? before.gate : createGate(definition, steadyTime)
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
  const shown = finals
    .slice(0, failuresShown)
    .map(({ pk, status, attempts, reason }) => ({ pk, status, attempts, reason }))
  log.warn({ ...target, failed: finals.length, first: shown }, 'deliveries failed for good')
}

function added<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
