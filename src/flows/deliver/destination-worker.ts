import type { Database, Db } from '../../db/database.ts'
import type { Leader } from '../../jobs/leader.ts'
import { LeaseLostError } from '../../jobs/with-lease.ts'
import { longestRetryAfterMs } from '../../outbound/retry-after.ts'
import {
  findClaimants,
  firstWaitingUpsert,
  type OpenFlows,
} from '../../repositories/flows/claims.ts'
import {
  delayDeliveries,
  findDeliveries,
  findNeedsApproval,
  type PendingDelivery,
} from '../../repositories/flows/deliveries.ts'
import type { DeliveryTarget } from '../../repositories/flows/delivery-target.ts'
import { walkDue } from '../../repositories/flows/due-deliveries.ts'
import { sentenceOf } from '../../texts/reason.ts'
import { destinationIdentity } from '../definition/identity.ts'
import type { Flow } from '../definition/schema.ts'
import type { DestinationContext } from '../destinations/destination-context.ts'
import { openDestination } from '../destinations/open-destination.ts'
import { destinationForms } from '../item/definition-hash.ts'
import type { Destination, DestinationDefinition } from '../types.ts'
import {
  type AttemptDeps,
  attemptDelivery,
  createBatchLimits,
  type OpenDestination,
  type Waiting,
} from './attempt.ts'
import { claimedOutcome, claimRuleOf } from './claim-rules.ts'
import { DeliveryWorker, type QueuedItem, type Work } from './delivery-worker.ts'
import { GateReports } from './destination-state.ts'
import { compileItemBody } from './item-body.ts'
import { requeueAfterLostLease } from './late-requests.ts'
import type { DeliveryOutcome, FinalFailure } from './retry-rules.ts'
import { saveGroup } from './save-outcomes.ts'
import { approvalCheckMs, createApprovalCheck, type SendingGate } from './sending-gate.ts'
import { createUncountedAttempts } from './uncounted-attempts.ts'

export type WorkDeps = AttemptDeps & {
  database: Database
  /** Deliveries run while this process leads. */
  leader: Pick<Leader, 'current'>
  sleep: (ms: number) => Promise<void>
  /** How often a worker looks for deliveries that became due. New deliveries wake it at once. */
  pollMs: number
  /** Called after the commit of outcomes. */
  onSaved: (saved: SavedDeliveries) => void
  /** Their items keep others from being deleted. */
  openFlows: () => OpenFlows
  /** Replaces the product's destinations, for tests. */
  openDestination?:
    | ((definition: DestinationDefinition, context: DestinationContext) => Destination)
    | undefined
}

/** What an attempt changed: how many items arrived, and which deliveries have no further attempt. */
export type SavedDeliveries = {
  flow: string
  destination: string
  delivered: number
  finals: readonly FinalFailure[]
}

/** An open destination of a flow, with the worker that sends its deliveries. */
export type DestinationWork = OpenDestination & {
  definition: DestinationDefinition
  /** Begins to send. Returns whether the destination was blocked before. */
  start(): boolean
  /** There may be deliveries. */
  wake(): void
  /** Whether it found nothing due, and waits until it is woken. */
  isIdle(): boolean
  /** Something is due. */
  lookAgain(): void
  /** How many items are being sent or wait in memory. */
  inFlight(): number
  /** Attempts under way may end until `timeoutMs`; later ones are abandoned and not counted. */
  stop(timeoutMs: number): Promise<void>
  /** Call it after `stop`. */
  close(): Promise<void>
}

/**
 * One transaction computes while the other waits for the disk. A statement for each outcome of a fast receiver would cost more
 * than its request.
 */
const onServer = { groupSize: 1_000, lanes: 2, gatherMs: 15 }

/** Deliveries looks for all idle workers with one statement. */
const idleMs = 10_000

/** Opens a destination. Rejects if its definition cannot be opened; nothing is sent before `start`. */
export function openWork(
  deps: WorkDeps,
  flow: Flow,
  definition: DestinationDefinition,
  context: Omit<DestinationContext, 'flow'>,
  { gate, keyName }: { gate: SendingGate; keyName: string },
): DestinationWork {
  const { database, log } = deps
  const target = { flow: flow.name, destination: definition.name }
  const identity = destinationIdentity(definition)
  const destination = (deps.openDestination ?? openDestination)(definition, { ...context, flow })
  const open: OpenDestination = {
    flow: flow.name,
    keyName,
    identity,
    keyFields: flow.item.key.length,
    definition,
    body: compileItemBody(definition, {
      key: flow.item.key,
      deletes: flow.deletes.mode === 'delete',
    }),
    claims: claimRuleOf(definition),
    deletes: flow.deletes.mode === 'delete',
    destination,
    batchLimits: createBatchLimits(destination),
    uncounted: createUncountedAttempts(),
    gate,
  }
  let reports: GateReports | undefined
  let worker: DeliveryWorker<Waiting, DeliveryOutcome> | undefined
  const begun = () => {
    open.termBeganAt = deps.now()
    reports?.write()
  }
  return {
    ...open,
    definition,
    start() {
      // Not earlier: the old definition would report the same block again.
      const wasBlocked = gate.unblock()
      reports = new GateReports(deps, target, gate)
      worker = new DeliveryWorker(
        {
          leader: deps.leader,
          ...{ pollMs: deps.pollMs, idleMs },
          sleep: deps.sleep,
          log,
          // The embedded database runs one statement at a time, and other requests must not wait long.
          ...(database.engine === 'postgres' && { writerLimits: onServer }),
        },
        workOf(deps, flow, open, definition, begun),
      )
      return wasBlocked
    },
    wake: () => worker?.wake(),
    isIdle: () => worker?.isIdle() ?? false,
    lookAgain: () => worker?.lookAgain(),
    inFlight: () => worker?.inFlight() ?? 0,
    stop: async (timeoutMs) => await worker?.stop(timeoutMs),
    async close() {
      await reports?.stop()
      try {
        await destination.close()
      } catch (error) {
        log.warn({ err: error, ...target }, 'destination not closed')
      }
    },
  }
}

function workOf(
  deps: WorkDeps,
  flow: Flow,
  open: OpenDestination,
  definition: DestinationDefinition,
  begun: () => void,
): Work<Waiting, DeliveryOutcome> {
  const { database, log, now } = deps
  const { db } = database
  const { destination, batchLimits, gate } = open
  const target = {
    flow: flow.name,
    destination: definition.name,
    accepted: { identity: open.identity, form: destinationForms(flow)[definition.name] ?? '' },
  }
  const outcomeTarget = {
    ...target,
    keepsHistory: flow.queue.keepHistoryMs > 0,
    isReadOnce: isReadOnce(flow.source),
  }
  const approval = createApprovalCheck(
    () => findNeedsApproval(db, target),
    () => {
      const { flow, destination } = target
      log.warn(
        { flow, destination },
        'deliveries need approval: the destination or its definition changed',
      )
    },
  )
  const furthestMs = 2 * Math.max(definition.retry.maxMs, longestRetryAfterMs)
  // An earlier definition may have remembered fewer values: where they can be looked up, all are needed.
  const needed =
    definition.type === 'http' && definition.find ? Object.keys(definition.remember ?? {}) : []
  const withRemembered = (rows: readonly PendingDelivery[]): QueuedItem<Waiting>[] =>
    rows.map((row) => {
      const values = remembers(definition) ? row.remembered : null
      const isWhole = values && needed.every((name) => Object.hasOwn(values, name))
      // The row itself: a copy of so many columns costs as much as reading them.
      const waiting: Waiting = Object.assign(row, { remembered: isWhole ? values : undefined })
      return { pk: row.pk, row: waiting }
    })
  const { claims } = open
  // Also where the definition deletes nothing any more: deletes that wait since before still go.
  const deletesFollow = claims && (claims.isFixed ? 'unidentified' : 'all')
  return {
    concurrency: definition.concurrency,
    // The identity of an upsert under way is not stored yet.
    ...(deletesFollow && { laneOf: ({ kind }: Waiting) => kind }),
    ...(destination.batches && {
      batch: {
        most: destination.batches.most('upsert'),
        groupOf: (pk, row) => {
          const { kind } = row
          // A new item may need another request than an existing one.
          const word = row.remembered ? `${kind} of one that is known` : kind
          return { kind: word, most: batchLimits.most(pk, kind) }
        },
      },
    }),
    begun,
    admit: () => (approval.isClosed() ? { starts: 0, waitMs: approvalCheckMs } : gate.admit()),
    walk: () => {
      const walk = walkDue(database, target, furthestMs, { deletesFollow })
      return { next: async (limit) => withRemembered(approval.pass(await walk.next(limit))) }
    },
    load: async (pks) => {
      const rows = await findDeliveries(db, target, pks)
      const due = approval.pass(rows).filter(({ state }) => state === 'waiting')
      const follows = due.some(({ kind }) => kind === 'delete') ? deletesFollow : undefined
      const first = follows && (await firstWaitingUpsert(db, target, follows))
      const mayGo = ({ kind, change_number: change }: PendingDelivery) =>
        kind === 'upsert' || first === undefined || change < first
      return withRemembered(due.filter(mayGo))
    },
    delayDeliveries: (pks, delayMs, fence) =>
      database.transaction(async (trx) => {
        await delayDeliveries(trx, target, pks, delayMs)
        if (!(await fence.holds(trx))) throw new LeaseLostError()
      }),
    attempt: async (queued, signal, permit) => {
      const mayBeClaimed = deletesFollow && queued.some(({ row }) => row.kind === 'delete')
      if (!mayBeClaimed) return await attemptDelivery(deps, open, queued, signal, permit)
      const refused = await refuseClaimed(db, target, queued, deps.openFlows())
      const others = queued.filter(({ pk }) => !refused.has(pk))
      const made = await attemptDelivery(deps, open, others, signal, permit)
      const outcomes = new Map(others.map(({ pk }, index) => [pk, made[index]]))
      return queued.map(({ pk }) => refused.get(pk) ?? outcomes.get(pk) ?? { kind: 'nothing' })
    },
    save: async (group, fence) => {
      const { delivered, finals, again } = await saveGroup(
        database,
        outcomeTarget,
        group,
        now(),
        fence,
      )
      if (finals.length > 0) logFinals(log, target, finals)
      if (delivered + finals.length > 0) {
        deps.onSaved({ flow: target.flow, destination: target.destination, delivered, finals })
      }
      return again
    },
    lost: (group) =>
      requeueAfterLostLease(
        { database, now, log },
        { ...outcomeTarget, keyNames: flow.item.key },
        group,
      ),
  }
}

/** Whether the source gives each item once: files that are moved or deleted after their read. */
export const isReadOnce = (source: Flow['source']): boolean =>
  'after' in source && source.after !== 'keep'

/** The outcomes of deletes that must not be sent, because another living item has the identity of theirs. */
async function refuseClaimed(
  db: Db,
  target: DeliveryTarget,
  queued: readonly QueuedItem<Waiting>[],
  flows: OpenFlows,
): Promise<Map<string, DeliveryOutcome>> {
  const deletes = queued.filter(({ row }) => row.kind === 'delete')
  const pks = deletes.map(({ pk }) => pk)
  const claimants = await findClaimants(db, target, pks, flows)
  return new Map(
    deletes.flatMap(({ pk, row: { version, kind, hash, attempts } }) => {
      const claimant = claimants.get(pk)
      return claimant
        ? [[pk, claimedOutcome({ version, change: kind, hash }, attempts, claimant)]]
        : []
    }),
  )
}

/** Whether responses of a destination have values that are stored with the items. */
export function remembers(definition: DestinationDefinition): boolean {
  return definition.type === 'http' && definition.remember !== undefined
}

const failuresShown = 3

/**
 * One line for all permanent failures of a group, so that a receiver that refuses everything does not flood the log.
 */
function logFinals(
  log: WorkDeps['log'],
  { flow, destination }: { flow: string; destination: string },
  finals: readonly FinalFailure[],
): void {
  const first = finals.slice(0, failuresShown).map(({ pk, status, attempts, why }) => ({
    ...{ pk, status, attempts, code: why.code },
    reason: sentenceOf(why, 'en'),
  }))
  log.warn({ flow, destination, failed: finals.length, first }, 'deliveries failed permanently')
}
