import { createSparing } from '../../domain/sparing.ts'
import { AppError } from '../../errors/app-error.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { listDelayed, listSkipped } from '../../repositories/flows/delayed-deliveries.ts'
import { type FailureGroup, groupFailures } from '../../repositories/flows/failed-deliveries.ts'
import { listPolls } from '../../repositories/flows/flow-polls.ts'
import {
  findFlowState,
  listFlowStates,
  requireFlowState,
} from '../../repositories/flows/flow-state.ts'
import { isPaused, listFlowActivity } from '../../repositories/flows/flow-switches.ts'
import { causeOf } from '../control/failure-cause.ts'
import { approveHeldDeletes, readHeldDeletes } from '../control/held-deletes.ts'
import { findItemEverywhere, reportItem } from '../control/item-report.ts'
import { listWaiting } from '../control/open-deliveries.ts'
import {
  limitFlow,
  pauseFlows,
  questionOf,
  refillDestination,
  resetFlow,
  resetItem,
  resumeFlows,
  unlimitFlow,
  writeDown,
} from '../control/switches.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import type { AlertResult, FailureView, FlowService, SyncOutcome } from '../flow-service.ts'
import { scansToDelete } from '../poll/deletes.ts'
import { forgetItems, refuseOutdated } from '../poll/plan.ts'
import { LeaseLostError } from '../poll/poll-lease.ts'
import type { Poller } from '../poll/poller.ts'
import { SourceError } from '../types.ts'
import type { EngineDeps, FlowEngine, OpenFlow } from './flow-engine.ts'
import { createFlowReports } from './flow-reports.ts'
import { createPreviews } from './previews.ts'
import { type ItemSyncDeps, syncItem } from './sync-item.ts'

export type FlowServiceDeps = Pick<
  EngineDeps,
  'database' | 'now' | 'sleep' | 'processId' | 'log' | 'deliveries' | 'audit'
> & {
  engine: FlowEngine
  /** How long who asks for a poll waits for another one to end, in milliseconds; 20 s when absent. */
  longestWaitMs?: number | undefined
  testAlerts: (flow: OpenFlow['loaded']['flow']) => Promise<AlertResult[]>
}

/** Of whoever asks for a poll while another one goes on. Longer ones are not waited for: callers give up sooner. */
const defaultWaitMs = 20_000
const waitStepMs = 250

/** What the control API does, on top of the flows that are open. */
export function createFlowService(deps: FlowServiceDeps): FlowService {
  const { engine, deliveries, longestWaitMs = defaultWaitMs } = deps
  /** What is asked for while they load would be answered for some of them only. */
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
  const itemDeps: ItemSyncDeps = {
    database: deps.database,
    now: deps.now,
    log: deps.log,
    enqueue: deliveries.enqueue,
    enqueueNews: deliveries.enqueueNews,
    isOnFile: engine.isOnFile,
    retryItem: (flow, pk) => deliveries.retryFailed({ flow, pk }),
  }

  const previews = createPreviews({
    database: deps.database,
    deliveries,
    now: deps.now,
    sleep: deps.sleep,
    current: (name) => openFlows().get(name)?.runtime,
  })

  const failureGroups = new Map<string, () => Promise<FailureGroup[]>>()

  const find = (name: string): OpenFlow => {
    const flow = openFlows().get(name)
    if (!flow) throw new AppError('NOT_FOUND', { message: 'There is no such flow' })
    return flow
  }
  const findDestination = (name: string, destination: string) => {
    const { destinations } = find(name).loaded.flow
    if (destinations.some((one) => one.name === destination)) return
    throw new AppError('NOT_FOUND', { message: 'The flow has no such destination' })
  }
  const names = (which: 'all' | string) =>
    which === 'all' ? [...openFlows().keys()] : [find(which).loaded.flow.name]
  const wake = (flows: readonly string[]) => {
    for (const name of flows) engine.flows().get(name)?.poller.wake()
  }

  const noteDeed = (flow: string, action: string, actor: string, detail: string) =>
    deps.database.transaction((trx) =>
      writeDown(deps, trx, { at: deps.now(), flow, action, actor, detail }),
    )

  /**
   * Whether the poll that is `asked` for begins within the time that somebody waits for an answer: the one in progress here has
   * ended by then, and no other process is at it.
   */
  const beginsSoon = async (
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

  const sync: FlowService['sync'] = async (name, { force }, actor): Promise<SyncOutcome> => {
    const { poller } = find(name)
    const { db } = deps.database
    if (!force && (await isPaused(db, name))) {
      const question = await questionOf(db, name)
      return { changes: 0, skipped: 'paused', ...(question && { why: question }) }
    }
    const { running } = poller
    const asked = poller.request({ force })
    if (!(await beginsSoon(poller, running, asked))) {
      asked.catch((error: unknown) =>
        deps.log.warn({ flow: name, err: error }, 'a poll that was asked for failed'),
      )
      return { changes: 0, skipped: 'polling' }
    }
    const { changes, skipped, why } = await tellingSource(asked)
    if (actor !== undefined && !skipped) {
      await noteDeed(name, 'synced', actor, `${changes} changes`)
    }
    return { changes, ...(skipped && { skipped }), ...(why && { why }) }
  }

  const forget = async (name: string, pk: string, actor: string) => {
    find(name)
    return { existed: await resetItem(deps, name, pk, actor) }
  }

  /** Instead of a poll; while one is running here or in another process, it is left to the next. */
  const forgetNow = async (runtime: FlowRuntime) => {
    const lease = `flow:${runtime.flow.name}`
    await withLease(deps, lease, async ({ token, signal }) => {
      const state = await requireFlowState(deps.database.db, runtime.flow.name)
      await forgetItems(deps, runtime, { name: lease, token, signal }, state)
    }).catch((error: unknown) => {
      if (!(error instanceof LeaseLostError)) throw error
    })
  }

  const reset = async (name: string, actor: string, { resumes }: { resumes: boolean }) => {
    const { runtime, poller } = find(name)
    // Its definition is taken as accepted from then on, also in place of a newer one.
    const state = await findFlowState(deps.database.db, name)
    if (state) await refuseOutdated(itemDeps, runtime, state)
    await resetFlow(deps, name, runtime.definitionHash, actor, { resumes })
    await poller.aside(() => forgetNow(runtime))
  }

  const failuresOf = async (name: string) => {
    const count =
      failureGroups.get(name) ??
      createSparing(() => groupFailures(deps.database, name, undefined, causeOf))
    failureGroups.set(name, count)
    return (await count()).map((group) => ({ ...group, cause: group.cause ?? group.error }))
  }

  const { openTargets, ...shown } = reports

  return {
    ...shown,
    sync,
    async preview(name, limits, signal) {
      const preview = await previews.preview(find(name).runtime, limits, signal)
      return { ...preview, paused: await isPaused(deps.database.db, name) }
    },
    async syncItem(name, pk, actor) {
      const outcome = await tellingSource(syncItem(itemDeps, find(name).runtime, pk))
      if (actor !== undefined) await noteDeed(name, 'item synced', actor, pk)
      return outcome
    },
    reset: (name, actor) => reset(name, actor, { resumes: false }),
    resetItem: forget,
    async resync(name, { destination, ...options }, actor) {
      if (destination === undefined) await reset(name, actor, { resumes: options.force })
      else {
        findDestination(name, destination)
        await refillDestination(deps, name, destination, actor)
      }
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
      const asking = (await listFlowStates(deps.database.db)).filter(
        (state) => state.pending_definition_hash !== null || state.asked_identities !== null,
      )
      await resumeFlows(deps, flows, actor)
      wake(flows)
      // What counts as sent is what the source shows now, not what it shows whenever a poll is due.
      for (const { flow } of asking) {
        if (flows.includes(flow)) engine.flows().get(flow)?.poller.hint()
      }
      return flows
    },
    async limit(name, count, actor) {
      find(name)
      await limitFlow(deps, name, count, actor)
    },
    async unlimit(name, actor) {
      find(name)
      await unlimitFlow(deps, name, actor)
      const status = (await reports.status()).get(name)
      if (!status) throw new AppError('NOT_FOUND', { message: 'There is no such flow' })
      return status
    },
    async testAlerts(name, actor) {
      const { flow } = find(name).loaded
      if (flow.alerts.onJobFailed.length === 0) {
        throw new AppError('BAD_REQUEST', { message: 'The flow has no alert channels' })
      }
      const results = await deps.testAlerts(flow)
      const arrived = results.filter(({ ok }) => ok).length
      if (actor !== undefined) {
        await noteDeed(name, 'alerts tested', actor, `${arrived} of ${results.length} arrived`)
      }
      return results
    },
    async retryFailed(filter, actor) {
      find(filter.flow)
      const { cause, ...plain } = filter
      const isWanted =
        cause === undefined
          ? undefined
          : (error: string, pk: string) => causeOf(error, pk) === cause
      const retried = await deliveries.retryFailed({ ...plain, isWanted })
      const { flow, ...rest } = filter
      const detail = Object.entries(rest)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => `${key}: ${value}`)
        .join(', ')
      const told = `${retried} deliveries${detail && ` (${detail})`}`
      await noteDeed(flow, 'retried', actor, told)
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
      await noteDeed(name, 'tried now', actor, which.join(', '))
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
      const waitingCount = () => deliveries.waitingCount(flow)
      return listWaiting({ db: deps.database.db, now: deps.now, waitingCount }, flow, limit)
    },
    item: async (name, pk) =>
      reportItem({ db: deps.database.db, now: deps.now }, find(name).loaded.flow, pk),
    findItem: async (pk) =>
      findItemEverywhere(
        { db: deps.database.db, now: deps.now },
        [...openFlows().values()].map(({ loaded }) => loaded.flow),
        pk,
      ),
    heldDeletes: async (name) =>
      readHeldDeletes(deps.database.db, name, scansToDelete(find(name).loaded.flow)),
    async approveDeletes(name, pk, actor) {
      find(name)
      const approved = await approveHeldDeletes(deps, name, pk, actor)
      return { ...(await sync(name, { force: false })), deletes: approved }
    },
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

/** A source that cannot be read is not a failure of this service, and its words help whoever asked. */
async function tellingSource<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    throw new AppError('PROVIDER_ERROR', { message: error.message, cause: error })
  }
}
