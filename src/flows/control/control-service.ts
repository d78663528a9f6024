import { createCachedCount } from '../../domain/cached-count.ts'
import { type HeldLease, LeaseLostError, withLease } from '../../jobs/with-lease.ts'
import { listDelayed, listSkipped } from '../../repositories/flows/delayed-deliveries.ts'
import { type FailureGroup, groupFailures } from '../../repositories/flows/failed-deliveries.ts'
import { isPaused, listFlowActivity } from '../../repositories/flows/flow-pauses-and-limits.ts'
import { listPolls } from '../../repositories/flows/flow-polls.ts'
import { type FlowStateRow, requireFlowState } from '../../repositories/flows/flow-state.ts'
import { pollLease } from '../../repositories/flows/leader-lease.ts'
import { listSendStops, type StopScope } from '../../repositories/flows/send-stops.ts'
import { controlError } from '../control-errors.ts'
import { claimRuleOf } from '../deliver/claim-rules.ts'
import { retryFailed } from '../deliver/retry-deliveries.ts'
import type { EngineDeps, FlowEngine, OpenFlow } from '../engine/flow-engine.ts'
import type { Poller } from '../poll/poll-loop.ts'
import { forgetItems, isAccepted, refuseOutdated } from '../poll/poll-plan.ts'
import { createEnqueue, type PollDeps } from '../poll/poll-writer.ts'
import { acceptUnasked, applyAnswer } from '../poll/question.ts'
import { sourceUnreadable } from '../sources/source-failures.ts'
import { type DestinationDefinition, SourceError } from '../types.ts'
import { answerQuestion } from './answer-question.ts'
import type {
  AlertResult,
  ControlService,
  DestinationReport,
  FailureView,
  SyncOutcome,
} from './control-service-types.ts'
import { reportDestination } from './destination-reports.ts'
import { createFlowReports } from './flow-reports.ts'
import { findItemEverywhere, reportItem } from './item-report.ts'
import { listWaiting } from './open-deliveries.ts'
import {
  limitFlow,
  pauseFlows,
  recordAction,
  refillDestination,
  resetFlow,
  resetItem,
  resumeFlows,
  unlimitFlow,
} from './pauses-and-limits.ts'
import { askedReason, readQuestion } from './question-view.ts'
import { inForce, startSending, stopSending } from './sending.ts'
import { syncItem } from './sync-item.ts'

export type ControlServiceDeps = Pick<
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

/** The functions of the control API, on top of the open flows. */
export function createControlService(deps: ControlServiceDeps): ControlService {
  const { engine, deliveries, longestWaitMs = defaultWaitMs } = deps
  /** Requests during loading would see only some of the flows. */
  const openFlows = () => {
    engine.requireLoaded()
    return engine.flows()
  }
  const reports = createFlowReports({
    database: deps.database,
    now: deps.now,
    flows: openFlows,
    countActive: () => engine.countActive(),
  })
  const itemDeps: PollDeps = {
    database: deps.database,
    now: deps.now,
    log: deps.log,
    enqueue: createEnqueue(deps),
    isOnFile: engine.isOnFile,
    isDeletedBeside: deliveries.isDeletedBeside,
  }

  const rates = new Map<string, () => Promise<DestinationReport>>()
  const failureGroups = new Map<string, () => Promise<FailureGroup[]>>()

  const find = (name: string): OpenFlow => {
    const flow = openFlows().get(name)
    if (!flow) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
    return flow
  }
  const findDestination = (name: string, destination: string) => {
    const { destinations } = find(name).loaded.flow
    if (destinations.some((one) => one.name === destination)) return
    throw controlError('NOT_FOUND', { code: 'DESTINATION_UNKNOWN' })
  }
  const ratesOf = (flow: string, definition: DestinationDefinition) => {
    const key = JSON.stringify([flow, definition.name, definition.rateLimit])
    const report =
      rates.get(key) ??
      createCachedCount(async () => {
        const { rows, ...value } = await reportDestination(
          deps.database.db,
          deps.now(),
          flow,
          definition,
          claimRuleOf(definition)?.canBeShared,
        )
        return { value, rows }
      })
    rates.set(key, report)
    return report
  }
  const refuseUnknown = ({ flow, destination }: StopScope) => {
    if (destination === null) return flow === null || find(flow)
    if (flow !== null) return findDestination(flow, destination)
    const all = [...openFlows().values()].flatMap(({ loaded }) => loaded.flow.destinations)
    if (all.some(({ name }) => name === destination)) return
    throw controlError('NOT_FOUND', { code: 'DESTINATION_NOWHERE' })
  }
  const names = (which: 'all' | string) =>
    which === 'all' ? [...openFlows().keys()] : [find(which).loaded.flow.name]
  const wake = (flows: readonly string[]) => {
    for (const name of flows) engine.flows().get(name)?.poller.wake()
  }

  const recordRequest = (flow: string, action: string, actor: string, detail: string) =>
    deps.database.transaction((trx) =>
      recordAction(deps, trx, { at: deps.now(), flow, action, actor, detail }),
    )

  /**
   * Whether the requested poll begins within the wait: the running one here has ended, and no other process polls.
   */
  const beginsInTime = async (
    poller: Poller,
    running: Promise<unknown> | undefined,
    asked: Promise<unknown>,
  ): Promise<boolean> => {
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
      await Promise.race([isNext ? answered : over, deps.sleep(waitStepMs)])
    }
    return hasBegun()
  }

  const sync: ControlService['sync'] = async (name, { force }, actor): Promise<SyncOutcome> => {
    const { poller } = find(name)
    const { db } = deps.database
    if (!force && (await isPaused(db, name))) return { changes: 0, skipped: 'paused' }
    const { running } = poller
    const asked = poller.request({ force })
    if (!(await beginsInTime(poller, running, asked))) {
      asked.catch((error: unknown) =>
        deps.log.warn({ flow: name, err: error }, 'requested poll failed'),
      )
      return { changes: 0, skipped: 'polling' }
    }
    const { changes, skipped, question } = await withSourceErrors(asked)
    if (actor !== undefined && !skipped) {
      await recordRequest(name, 'synced', actor, `${changes} changes`)
    }
    return {
      changes,
      ...(skipped && { skipped }),
      ...(question && { why: askedReason(question) }),
    }
  }

  const forget = async (name: string, pk: string, actor: string) => {
    find(name)
    return { existed: await resetItem(deps, name, pk, actor) }
  }

  /** Works under the lease of the flow's polls, unless one runs: then it does the same. */
  const betweenPolls = async (
    { poller, runtime }: OpenFlow,
    work: (lease: HeldLease, state: FlowStateRow) => Promise<unknown>,
  ) => {
    const { name } = runtime.flow
    const alone = async () => {
      await withLease(deps, pollLease(name), async (lease) => {
        await work(lease, await requireFlowState(deps.database.db, name))
      }).catch((error: unknown) => {
        if (!(error instanceof LeaseLostError)) throw error
      })
    }
    await poller.runExclusive(alone)
  }

  const reset = async (name: string, actor: string) => {
    const flow = find(name)
    await resetFlow(deps, name, actor)
    await betweenPolls(flow, (lease, state) => forgetItems(deps, name, lease, state))
  }

  /** Everything is sent again, so the question about a changed definition is answered; nothing is deleted because of it. */
  const resetAndAccept = async (name: string, actor: string) => {
    const flow = find(name)
    const { runtime } = flow
    const state = await requireFlowState(deps.database.db, name)
    await refuseOutdated(itemDeps, runtime, state)
    await reset(name, actor)
    if (isAccepted(runtime, state)) return
    await acceptUnasked(deps, runtime)
    await betweenPolls(flow, (lease, present) => applyAnswer(itemDeps, runtime, lease, present))
  }

  const failuresOf = async (name: string) => {
    const count =
      failureGroups.get(name) ?? createCachedCount(() => groupFailures(deps.database, name))
    failureGroups.set(name, count)
    return await count()
  }

  const { openTargets, ...shown } = reports

  return {
    ...shown,
    sync,
    async syncItem(name, pk, actor) {
      const outcome = await withSourceErrors(syncItem(itemDeps, find(name).runtime, pk))
      if (actor !== undefined) await recordRequest(name, 'item synced', actor, pk)
      return outcome
    },
    reset,
    resetItem: forget,
    async resync(name, { destination, ...options }, actor) {
      if (destination !== undefined) {
        findDestination(name, destination)
        const form = find(name).runtime.forms[destination] ?? ''
        await refillDestination(deps, { flow: name, destination, form }, actor)
      } else if (options.force) await resetAndAccept(name, actor)
      else await reset(name, actor)
      return sync(name, options)
    },
    async resyncItem(name, pk, options, actor) {
      await forget(name, pk, actor)
      return sync(name, options)
    },
    async pause(which, actor, reason) {
      const flows = names(which)
      await pauseFlows(deps, flows, { actor, reason })
      return flows
    },
    async resume(which, actor) {
      const flows = names(which)
      await resumeFlows(deps, flows, actor)
      wake(flows)
      return flows
    },
    question: async (name) => readQuestion(deps.database.db, find(name).runtime),
    async answer(name, given, actor) {
      const flow = find(name)
      await answerQuestion(deps, flow.runtime, given, actor)
      await betweenPolls(flow, (lease, state) => applyAnswer(itemDeps, flow.runtime, lease, state))
      flow.poller.hint()
    },
    async stopSending(scope, actor, reason) {
      refuseUnknown(scope)
      return stopSending(deps, scope, { actor, reason })
    },
    startSending: (scope, actor) => startSending(deps, scope, actor),
    async destination(name) {
      const targets = [...openFlows().values()].flatMap(({ loaded: { flow } }) =>
        flow.destinations
          .filter((one) => one.name === name)
          .map((definition) => ({ flow: flow.name, definition })),
      )
      if (targets.length === 0) {
        throw controlError('NOT_FOUND', { code: 'DESTINATION_NOWHERE' })
      }
      const found: DestinationReport[] = []
      // One after the other, because the embedded database answers no other request during a query.
      for (const { flow, definition } of targets) found.push(await ratesOf(flow, definition)())
      return found
    },
    sendStops: async () => inForce(await listSendStops(deps.database.db)),
    async limit(name, count, actor) {
      find(name)
      await limitFlow(deps, name, count, actor)
    },
    async unlimit(name, actor) {
      find(name)
      await unlimitFlow(deps, name, actor)
      const status = (await reports.status()).get(name)
      if (!status) throw controlError('NOT_FOUND', { code: 'FLOW_UNKNOWN' })
      return status
    },
    async testAlerts(name, actor) {
      const { flow } = find(name).loaded
      if (flow.alerts.onJobFailed.length === 0) {
        throw controlError('BAD_REQUEST', { code: 'NO_ALERT_CHANNELS' })
      }
      const results = await deps.testAlerts(flow)
      const arrived = results.filter(({ ok }) => ok).length
      if (actor !== undefined) {
        await recordRequest(name, 'alerts tested', actor, `${arrived} of ${results.length} arrived`)
      }
      return results
    },
    async retryFailed(filter, actor) {
      find(filter.flow)
      const retried = await retryFailed(deps, filter)
      const { flow, ...rest } = filter
      const detail = Object.entries(rest)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => `${key}: ${value}`)
        .join(', ')
      const counted = `${retried} deliveries${detail && ` (${detail})`}`
      await recordRequest(flow, 'retried', actor, counted)
      return retried
    },
    failures: async (name, limit) => {
      find(name)
      return (await failuresOf(name)).slice(0, limit)
    },
    async allFailures(only, limit) {
      const failing = (await openTargets()).filter(
        ({ flow, failed }) => failed > 0 && (only === undefined || flow === only),
      )
      const groups: (FailureView & { flow: string })[] = []
      for (const flow of new Set(failing.map((one) => one.flow))) {
        groups.push(...(await failuresOf(flow)).map((group) => ({ ...group, flow })))
      }
      return groups.sort((one, next) => next.items - one.items).slice(0, limit)
    },
    async allDelayed(only, limit) {
      const late = (await openTargets()).filter(
        ({ flow, waiting, delayed }) =>
          waiting + delayed > 0 && (only === undefined || flow === only),
      )
      return listDelayed(deps.database.db, late, limit)
    },
    async tryNow(name, destination, actor) {
      if (destination !== undefined) findDestination(name, destination)
      const all = find(name).loaded.flow.destinations.map((one) => one.name)
      const which = destination === undefined ? all : [destination]
      let due = 0
      for (const one of which) due += await deliveries.tryNow({ flow: name, destination: one })
      await recordRequest(name, 'tried now', actor, which.join(', '))
      return due
    },
    async runs(name, limit) {
      find(name)
      return listPolls(deps.database.db, name, limit)
    },
    async skipped(name, limit) {
      find(name)
      return listSkipped(deps.database.db, name, limit)
    },
    waiting: async (name, limit) => {
      const { flow } = find(name).loaded
      return listWaiting({ db: deps.database.db, now: deps.now }, flow, limit)
    },
    item: async (name, pk) =>
      reportItem({ db: deps.database.db, now: deps.now }, find(name).loaded.flow, pk),
    findItem: async (pk) =>
      findItemEverywhere(
        { db: deps.database.db, now: deps.now },
        [...openFlows().values()].map(({ loaded }) => loaded.flow),
        pk,
      ),
    problems: () => {
      engine.requireLoaded()
      return engine.problems()
    },
    activity: ({ flow }, limit) => listFlowActivity(deps.database.db, { flow }, limit),
    async reload(actor) {
      await engine.reload(actor)
      return { flows: [...engine.flows().keys()], problems: engine.problems() }
    },
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
