import { createCachedCount } from '../../domain/cached-count.ts'
import type { FlowSeen } from '../../fleet/observations.ts'
import { type HeldLease, LeaseLostError, withLease } from '../../jobs/with-lease.ts'
import {
  type DelayedDelivery,
  listDelayed,
  listSkipped,
  type SkippedDelivery,
} from '../../repositories/flows/delayed-deliveries.ts'
import { type FailureGroup, groupFailures } from '../../repositories/flows/failed-deliveries.ts'
import type { FlowErrorFilter } from '../../repositories/flows/flow-errors.ts'
import {
  type FlowActivity,
  isPaused,
  listFlowActivity,
} from '../../repositories/flows/flow-pauses-and-limits.ts'
import { listPolls, type Poll } from '../../repositories/flows/flow-polls.ts'
import { type FlowStateRow, requireFlowState } from '../../repositories/flows/flow-state.ts'
import { pollLease } from '../../repositories/flows/leader-lease.ts'
import {
  listSendStops,
  type SendStop,
  type StopScope,
} from '../../repositories/flows/send-stops.ts'
import type {
  AlertResult,
  DestinationReport,
  ErrorRecord,
  FailureView,
  FlowCard,
  FlowMetrics,
  FlowProblemView,
  FlowStatus,
  FoundItem,
  ItemView,
  PendingFlow,
  QuestionView,
  QueueStatistics,
  SyncOutcome,
  WaitingView,
} from '../api/control-types.ts'
import { controlError } from '../control-errors.ts'
import { claimRuleOf } from '../deliver/claim-rules.ts'
import { reportDestination } from '../deliver/destination-reports.ts'
import { retryFailed } from '../deliver/retry-deliveries.ts'
import type { EngineDeps, FlowEngine, OpenFlow } from '../engine/flow-engine.ts'
import {
  limitFlow,
  pauseFlows,
  recordAction,
  refillDestination,
  resetFlow,
  resetItem,
  resumeFlows,
  unlimitFlow,
} from '../poll/pauses-and-limits.ts'
import type { PollDeps } from '../poll/poll-deps.ts'
import type { Poller } from '../poll/poll-loop.ts'
import { forgetItems, isAccepted, refuseOutdated } from '../poll/poll-plan.ts'
import { createEnqueue } from '../poll/poll-writer.ts'
import { acceptUnasked, applyAnswer } from '../poll/question.ts'
import { sourceUnreadable } from '../sources/source-failures.ts'
import { type DestinationDefinition, SourceError } from '../types.ts'
import { answerQuestion, type GivenAnswer } from './answer-question.ts'
import { FlowReports } from './flow-reports.ts'
import { findItemEverywhere, reportItem } from './item-report.ts'
import { listWaiting } from './open-deliveries.ts'
import { askedReason, readQuestion } from './question-view.ts'
import { inForce, startSending, stopSending } from './sending.ts'
import { syncItem } from './sync-item.ts'

type FlowControlDeps = Pick<
  EngineDeps,
  'database' | 'now' | 'sleep' | 'processId' | 'log' | 'deliveries' | 'audit'
> & {
  engine: FlowEngine
  /** How long a requested poll waits for a running one, in milliseconds; 20 s if absent. */
  longestWaitMs?: number | undefined
  testAlerts: (flow: OpenFlow['loaded']['flow']) => Promise<AlertResult[]>
}

/** The wait of a requested poll for a running one. Callers give up on a longer wait. */
const defaultWaitMs = 20_000
const waitStepMs = 250

/** The functions of the control API, on top of the open flows. Those of one flow throw NOT_FOUND for a name that no file defines. */
export class FlowControl {
  readonly #deps: FlowControlDeps
  readonly #reports: FlowReports
  readonly #itemDeps: PollDeps
  readonly #rates = new Map<string, () => Promise<DestinationReport>>()
  readonly #failureGroups = new Map<string, () => Promise<FailureGroup[]>>()

  constructor(deps: FlowControlDeps) {
    const { database, now, log, engine, deliveries } = deps
    this.#deps = deps
    this.#reports = new FlowReports({
      database,
      now,
      flows: () => this.#openFlows(),
      countActive: () => engine.countActive(),
    })
    this.#itemDeps = {
      ...{ database, now, log },
      enqueue: createEnqueue(deps),
      isOnFile: (runtime) => engine.isOnFile(runtime),
      isDeletedBeside: (flow) => deliveries.isDeletedBeside(flow),
    }
  }

  status(): Promise<Map<string, FlowStatus>> {
    return this.#reports.status()
  }

  metrics(): Promise<Map<string, FlowMetrics>> {
    return this.#reports.metrics()
  }

  stats(): Promise<QueueStatistics> {
    return this.#reports.stats()
  }

  errors(filter: FlowErrorFilter): Promise<ErrorRecord[]> {
    return this.#reports.errors(filter)
  }

  /** The observed state of each flow. */
  observed(): Promise<FlowSeen[]> {
    return this.#reports.observed()
  }

  cards(): Promise<FlowCard[]> {
    return this.#reports.cards()
  }

  /** Flows without a definition that have pending deliveries. They wait until the name is back. */
  withoutDefinition(): Promise<PendingFlow[]> {
    return this.#reports.withoutDefinition()
  }

  /** Polls now; a paused flow only with `force`. Records a request of an `actor`. `destination`: counts what it is sent. */
  async sync(
    name: string,
    { force, destination }: { force: boolean; destination?: string | undefined },
    actor?: string,
  ): Promise<SyncOutcome & { deliveries?: number }> {
    const { poller } = this.#find(name)
    const { db } = this.#deps.database
    if (!force && (await isPaused(db, name))) return { changes: 0, skipped: 'paused' }
    const { running } = poller
    const asked = poller.request({ force })
    if (!(await this.#beginsInTime(poller, running, asked))) {
      asked.catch((error: unknown) =>
        this.#deps.log.warn({ flow: name, err: error }, 'requested poll failed'),
      )
      return { changes: 0, skipped: 'polling' }
    }
    const { changes, resent, skipped, question } = await withSourceErrors(asked)
    if (actor !== undefined && !skipped) {
      await this.#recordRequest(name, 'synced', actor, `${changes} changes`)
    }
    return {
      changes,
      ...(destination !== undefined && { deliveries: changes + (resent?.[destination] ?? 0) }),
      ...(skipped && { skipped }),
      ...(question && { why: askedReason(question) }),
    }
  }

  async syncItem(
    name: string,
    pk: string,
    actor?: string,
  ): Promise<{ found: boolean; changed: boolean; jobs: number }> {
    const { runtime } = this.#find(name)
    const outcome = await withSourceErrors(syncItem(this.#itemDeps, runtime, pk))
    if (actor !== undefined) await this.#recordRequest(name, 'item synced', actor, pk)
    return outcome
  }

  async reset(name: string, actor: string): Promise<void> {
    const flow = this.#find(name)
    await resetFlow(this.#deps, name, actor)
    await this.#betweenPolls(flow, (lease, state) => forgetItems(this.#deps, name, lease, state))
  }

  async resetItem(name: string, pk: string, actor: string): Promise<{ existed: boolean }> {
    this.#find(name)
    return { existed: await resetItem(this.#deps, name, pk, actor) }
  }

  /** Sends everything again, to all destinations or to one. */
  async resync(
    name: string,
    { destination, force }: { force: boolean; destination?: string | undefined },
    actor: string,
  ): Promise<SyncOutcome & { deliveries?: number }> {
    if (destination !== undefined) {
      this.#findDestination(name, destination)
      const form = this.#find(name).runtime.forms[destination] ?? ''
      await refillDestination(this.#deps, { flow: name, destination, form }, actor)
    } else if (force) await this.#resetAndAccept(name, actor)
    else await this.reset(name, actor)
    return this.sync(name, { force, destination })
  }

  async resyncItem(
    name: string,
    pk: string,
    options: { force: boolean },
    actor: string,
  ): Promise<SyncOutcome> {
    await this.resetItem(name, pk, actor)
    return this.sync(name, options)
  }

  async pause(which: 'all' | string, actor: string, reason: string | null): Promise<string[]> {
    const flows = this.#names(which)
    await pauseFlows(this.#deps, flows, { actor, reason })
    return flows
  }

  async resume(which: 'all' | string, actor: string): Promise<string[]> {
    const flows = this.#names(which)
    await resumeFlows(this.#deps, flows, actor)
    this.#wake(flows)
    return flows
  }

  /** What a changed definition would send, and whether an operator must answer. */
  async question(name: string): Promise<QuestionView> {
    return readQuestion(this.#deps.database.db, this.#find(name).runtime)
  }

  /** Answers the question of this number (answerQuestion), and polls soon unless the flow is paused. */
  async answer(name: string, given: GivenAnswer, actor: string): Promise<void> {
    const flow = this.#find(name)
    const { runtime, poller } = flow
    await answerQuestion(this.#deps, runtime, given, actor)
    await this.#betweenPolls(flow, (lease, state) =>
      applyAnswer(this.#itemDeps, runtime, lease, state),
    )
    poller.hint()
  }

  /**
   * Stops sending; polls go on and deliveries wait. Throws NOT_FOUND for an unknown flow, and for a destination that
   * no flow in scope has. Returns the stop in force. This process then begins no attempt in its scope; the others follow
   * when they are notified.
   */
  async stopSending(scope: StopScope, actor: string, reason: string | null): Promise<SendStop> {
    this.#refuseUnknown(scope)
    const stop = await stopSending(this.#deps, scope, { actor, reason })
    await this.#deps.deliveries.readStops()
    return stop
  }

  /** Ends the stop of exactly this scope. Returns other stops that still cover it. */
  async startSending(scope: StopScope, actor: string): Promise<SendStop[]> {
    const others = await startSending(this.#deps, scope, actor)
    await this.#deps.deliveries.readStops()
    return others
  }

  /** One report for each flow with a destination of this name. Throws NOT_FOUND if none has it. */
  async destination(name: string): Promise<DestinationReport[]> {
    const targets = [...this.#openFlows().values()].flatMap(({ loaded: { flow } }) =>
      flow.destinations
        .filter((one) => one.name === name)
        .map((definition) => ({ flow: flow.name, definition })),
    )
    if (targets.length === 0) throw controlError('NOT_FOUND', { code: 'DESTINATION_NOWHERE' })
    const found: DestinationReport[] = []
    // One after the other, because the embedded database answers no other request during a query.
    for (const { flow, definition } of targets) {
      found.push(await this.#ratesOf(flow, definition)())
    }
    return found
  }

  /** The stops in force, the widest first. */
  async sendStops(): Promise<SendStop[]> {
    return inForce(await listSendStops(this.#deps.database.db))
  }

  async limit(name: string, count: number, actor: string): Promise<void> {
    this.#find(name)
    await limitFlow(this.#deps, name, count, actor)
  }

  async unlimit(name: string, actor: string): Promise<FlowStatus> {
    this.#find(name)
    await unlimitFlow(this.#deps, name, actor)
    const status = (await this.status()).get(name)
    if (!status) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
    return status
  }

  async testAlerts(name: string, actor?: string): Promise<AlertResult[]> {
    const { flow } = this.#find(name).loaded
    if (flow.alerts.onJobFailed.length === 0) {
      throw controlError('BAD_REQUEST', { code: 'NO_ALERT_CHANNELS' })
    }
    const results = await this.#deps.testAlerts(flow)
    if (actor === undefined) return results
    const arrived = results.filter(({ ok }) => ok).length
    const detail = `${arrived} of ${results.length} arrived`
    await this.#recordRequest(name, 'alerts tested', actor, detail)
    return results
  }

  /** Sends failed deliveries again: of a flow, a destination, an item, or a group. Returns how many. */
  async retryFailed(filter: Parameters<typeof retryFailed>[1], actor: string): Promise<number> {
    this.#find(filter.flow)
    const retried = await retryFailed(this.#deps, filter)
    const { flow, ...rest } = filter
    const detail = Object.entries(rest)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => `${key}: ${value}`)
      .join(', ')
    const counted = `${retried} deliveries${detail && ` (${detail})`}`
    await this.#recordRequest(flow, 'retried', actor, counted)
    return retried
  }

  /** Permanent failures of a flow that were not sent again, by code and status, the largest group first. */
  async failures(name: string, limit: number): Promise<FailureView[]> {
    this.#find(name)
    return (await this.#failuresOf(name)).slice(0, limit)
  }

  /** Permanent failures of all flows, or of one, by code and status, the largest group first. */
  async allFailures(
    only: string | undefined,
    limit: number,
  ): Promise<(FailureView & { flow: string })[]> {
    const failing = (await this.#reports.openTargets()).filter(
      ({ flow, failed }) => failed > 0 && (only === undefined || flow === only),
    )
    const groups: (FailureView & { flow: string })[] = []
    for (const flow of new Set(failing.map((one) => one.flow))) {
      groups.push(...(await this.#failuresOf(flow)).map((group) => ({ ...group, flow })))
    }
    return groups.sort((one, next) => next.items - one.items).slice(0, limit)
  }

  /** Delayed deliveries of all flows, or of one, the oldest first. */
  async allDelayed(only: string | undefined, limit: number): Promise<DelayedDelivery[]> {
    const late = (await this.#reports.openTargets()).filter(
      ({ flow, waiting, delayed }) =>
        waiting + delayed > 0 && (only === undefined || flow === only),
    )
    return listDelayed(this.#deps.database.db, late, limit)
  }

  /**
   * Sends waiting deliveries of one destination, or of all, now, also during a requested pause. Returns how many were
   * delayed.
   */
  async tryNow(name: string, destination: string | undefined, actor: string): Promise<number> {
    if (destination !== undefined) this.#findDestination(name, destination)
    const all = this.#find(name).loaded.flow.destinations.map((one) => one.name)
    const which = destination === undefined ? all : [destination]
    let due = 0
    for (const one of which) {
      due += await this.#deps.deliveries.tryNow({ flow: name, destination: one })
    }
    await this.#recordRequest(name, 'tried now', actor, which.join(', '))
    return due
  }

  /** The last polls, newest first. */
  async runs(name: string, limit: number): Promise<Poll[]> {
    this.#find(name)
    return listPolls(this.#deps.database.db, name, limit)
  }

  /** What is not sent to a destination, and why, the latest first. */
  async skipped(name: string, limit: number): Promise<SkippedDelivery[]> {
    this.#find(name)
    return listSkipped(this.#deps.database.db, name, limit)
  }

  async waiting(name: string, limit: number): Promise<WaitingView> {
    return listWaiting(this.#readDeps(), this.#find(name).loaded.flow, limit)
  }

  async item(name: string, pk: string): Promise<ItemView> {
    return reportItem(this.#readDeps(), this.#find(name).loaded.flow, pk)
  }

  /** The flows that have an item. */
  async findItem(pk: string): Promise<FoundItem[]> {
    const flows = [...this.#openFlows().values()].map(({ loaded }) => loaded.flow)
    return findItemEverywhere(this.#readDeps(), flows, pk)
  }

  problems(): FlowProblemView[] {
    this.#deps.engine.requireLoaded()
    return this.#deps.engine.problems()
  }

  activity({ flow }: { flow?: string | undefined }, limit: number): Promise<FlowActivity[]> {
    return listFlowActivity(this.#deps.database.db, { flow }, limit)
  }

  /** Reads the flow files again. Returns their problems. */
  async reload(actor: string): Promise<{ flows: string[]; problems: FlowProblemView[] }> {
    const { engine } = this.#deps
    await engine.reload(actor)
    return { flows: [...engine.flows().keys()], problems: engine.problems() }
  }

  #readDeps() {
    return { db: this.#deps.database.db, now: this.#deps.now }
  }

  /** Requests during loading would see only some of the flows. */
  #openFlows() {
    this.#deps.engine.requireLoaded()
    return this.#deps.engine.flows()
  }

  #find(name: string): OpenFlow {
    const flow = this.#openFlows().get(name)
    if (!flow) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
    return flow
  }

  #findDestination(name: string, destination: string) {
    const { destinations } = this.#find(name).loaded.flow
    if (destinations.some((one) => one.name === destination)) return
    throw controlError('NOT_FOUND', { code: 'DESTINATION_UNKNOWN' })
  }

  #ratesOf(flow: string, definition: DestinationDefinition) {
    const key = JSON.stringify([flow, definition.name, definition.rateLimit])
    const report =
      this.#rates.get(key) ??
      createCachedCount(async () => {
        const { rows, ...value } = await reportDestination(
          this.#deps.database.db,
          this.#deps.now(),
          flow,
          definition,
          claimRuleOf(definition)?.canBeShared,
        )
        return { value, rows }
      })
    this.#rates.set(key, report)
    return report
  }

  #refuseUnknown({ flow, destination }: StopScope) {
    if (destination === null) return flow === null || this.#find(flow)
    if (flow !== null) return this.#findDestination(flow, destination)
    const all = [...this.#openFlows().values()].flatMap(({ loaded }) => loaded.flow.destinations)
    if (all.some(({ name }) => name === destination)) return
    throw controlError('NOT_FOUND', { code: 'DESTINATION_NOWHERE' })
  }

  #names(which: 'all' | string) {
    return which === 'all' ? [...this.#openFlows().keys()] : [this.#find(which).loaded.flow.name]
  }

  #wake(flows: readonly string[]) {
    for (const name of flows) this.#deps.engine.flows().get(name)?.poller.wake()
  }

  #recordRequest(flow: string, action: string, actor: string, detail: string) {
    return this.#deps.database.transaction((trx) =>
      recordAction(this.#deps, trx, { at: this.#deps.now(), flow, action, actor, detail }),
    )
  }

  /**
   * Whether the requested poll begins within the wait: the running one here has ended, and no other process polls.
   */
  async #beginsInTime(
    poller: Poller,
    running: Promise<unknown> | undefined,
    asked: Promise<unknown>,
  ): Promise<boolean> {
    const { longestWaitMs = defaultWaitMs } = this.#deps
    let isNext = running === undefined
    const over = running
      ?.catch(() => undefined)
      .then(() => {
        isNext = true
      })
    let isAnswered = false
    const answered = asked
      .catch(() => undefined)
      .then(() => {
        isAnswered = true
      })
    const hasBegun = () => isAnswered || (isNext && !poller.isWaiting)
    for (let waitedMs = 0; !hasBegun() && waitedMs < longestWaitMs; waitedMs += waitStepMs) {
      await Promise.race([isNext ? answered : over, this.#deps.sleep(waitStepMs)])
    }
    return hasBegun()
  }

  /** Works under the lease of the flow's polls, unless one runs: then it does the same. */
  async #betweenPolls(
    { poller, runtime }: OpenFlow,
    work: (lease: HeldLease, state: FlowStateRow) => Promise<unknown>,
  ) {
    const { name } = runtime.flow
    const alone = async () => {
      await withLease(this.#deps, pollLease(name), async (lease) => {
        await work(lease, await requireFlowState(this.#deps.database.db, name))
      }).catch((error: unknown) => {
        if (!(error instanceof LeaseLostError)) throw error
      })
    }
    await poller.runExclusive(alone)
  }

  /** Everything is sent again, so the question about a changed definition is answered; nothing is deleted because of it. */
  async #resetAndAccept(name: string, actor: string) {
    const flow = this.#find(name)
    const { runtime } = flow
    const state = await requireFlowState(this.#deps.database.db, name)
    await refuseOutdated(this.#itemDeps, runtime, state)
    await this.reset(name, actor)
    if (isAccepted(runtime, state)) return
    await acceptUnasked(this.#deps, runtime)
    await this.#betweenPolls(flow, (lease, present) =>
      applyAnswer(this.#itemDeps, runtime, lease, present),
    )
  }

  async #failuresOf(name: string) {
    const count =
      this.#failureGroups.get(name) ??
      createCachedCount(() => groupFailures(this.#deps.database, name))
    this.#failureGroups.set(name, count)
    return await count()
  }
}

/** An unreadable source is not a failure of this service, and its error text helps the caller. */
async function withSourceErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    throw sourceUnreadable(error)
  }
}
