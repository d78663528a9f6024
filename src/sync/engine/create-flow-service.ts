import { createSparing } from '../../domain/sparing.ts'
import { AppError } from '../../errors.ts'
import { type FailureGroup, groupFailures } from '../../repositories/failed-deliveries.ts'
import { insertFlowActivity, isPaused, listFlowActivity } from '../../repositories/flow-control.ts'
import { withLease } from '../../repositories/with-lease.ts'
import { reportItem } from '../control/item-report.ts'
import { listWaiting } from '../control/open-deliveries.ts'
import {
  limitFlow,
  pauseFlows,
  resetFlow,
  resetItem,
  resumeFlows,
  unlimitFlow,
} from '../control/switches.ts'
import type { AlertResult, FlowService, SyncOutcome } from '../flow-service.ts'
import { forgetItems } from '../poll/forget.ts'
import { LeaseLostError } from '../poll/poll-deps.ts'
import type { EngineDeps, FlowEngine, OpenFlow } from './flow-engine.ts'
import { createFlowReports } from './flow-reports.ts'
import { createPreviews } from './previews.ts'
import { type ItemSyncDeps, syncItem } from './sync-item.ts'

export type FlowServiceDeps = Pick<
  EngineDeps,
  'database' | 'now' | 'sleep' | 'processId' | 'log' | 'deliveries'
> & {
  engine: FlowEngine
  testAlerts: (flow: OpenFlow['loaded']['flow']) => Promise<AlertResult[]>
}

/** What the control API does, on top of the flows that are open. */
export function createFlowService(deps: FlowServiceDeps): FlowService {
  const { engine, deliveries } = deps
  const reports = createFlowReports({
    database: deps.database,
    now: deps.now,
    flows: () => engine.flows(),
    countActive: () => engine.countActive(),
  })
  const itemDeps: ItemSyncDeps = {
    database: deps.database,
    now: deps.now,
    log: deps.log,
    enqueue: deliveries.enqueue,
    retryItem: (flow, pk) => deliveries.retryFailed({ flow, pk }),
  }

  const previews = createPreviews({
    database: deps.database,
    deliveries,
    now: deps.now,
    sleep: deps.sleep,
    current: (name) => engine.flows().get(name)?.runtime,
  })

  const failureGroups = new Map<string, () => Promise<FailureGroup[]>>()

  const find = (name: string): OpenFlow => {
    const flow = engine.flows().get(name)
    if (!flow) throw new AppError('NOT_FOUND', { message: 'There is no such flow' })
    return flow
  }
  const names = (which: 'all' | string) =>
    which === 'all' ? [...engine.flows().keys()] : [find(which).loaded.flow.name]
  const wake = (flows: readonly string[]) => {
    for (const name of flows) engine.flows().get(name)?.poller.wake()
  }

  const writeDown = (flow: string, action: string, actor: string, detail: string) =>
    deps.database.transaction((trx) =>
      insertFlowActivity(trx, { at: deps.now(), flow, action, actor, detail }),
    )

  const sync: FlowService['sync'] = async (name, { force }, actor): Promise<SyncOutcome> => {
    const { poller } = find(name)
    if (!force && (await isPaused(deps.database.db, name))) return { changes: 0, skipped: 'paused' }
    const { changes, skipped } = await poller.request({ force })
    if (actor !== undefined && !skipped) {
      await writeDown(name, 'synced', actor, `${changes} changes`)
    }
    return { changes, ...(skipped && { skipped }) }
  }

  const forget = async (name: string, pk: string, actor: string) => {
    find(name)
    return { existed: await resetItem(deps, name, pk, actor) }
  }

  /** Instead of a poll; while one is running here or in another process, it is left to the next. */
  const forgetNow = async (name: string) => {
    const lease = `flow:${name}`
    await withLease(deps, lease, ({ token, signal }) =>
      forgetItems(deps, name, { name: lease, token, signal }),
    ).catch((error: unknown) => {
      if (!(error instanceof LeaseLostError)) throw error
    })
  }

  const reset = async (name: string, actor: string) => {
    const { runtime, poller } = find(name)
    await resetFlow(deps, name, runtime.definitionHash, actor)
    await poller.aside(() => forgetNow(name))
  }

  return {
    ...reports,
    sync,
    async preview(name, limits, signal) {
      const preview = await previews.preview(find(name).runtime, limits, signal)
      return { ...preview, paused: await isPaused(deps.database.db, name) }
    },
    async syncItem(name, pk, actor) {
      const outcome = await syncItem(itemDeps, find(name).runtime, pk)
      if (actor !== undefined) await writeDown(name, 'item synced', actor, pk)
      return outcome
    },
    reset,
    resetItem: forget,
    async resync(name, options, actor) {
      await reset(name, actor)
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
        await writeDown(name, 'alerts tested', actor, `${arrived} of ${results.length} arrived`)
      }
      return results
    },
    async retryFailed(filter, actor) {
      find(filter.flow)
      const retried = await deliveries.retryFailed(filter)
      const { flow, ...rest } = filter
      const detail = Object.entries(rest)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => `${key}: ${value}`)
        .join(', ')
      const told = `${retried} deliveries${detail && ` (${detail})`}`
      await writeDown(flow, 'retried', actor, told)
      return retried
    },
    failures: async (name, limit) => {
      find(name)
      const count =
        failureGroups.get(name) ?? createSparing(() => groupFailures(deps.database, name))
      failureGroups.set(name, count)
      return (await count()).slice(0, limit)
    },
    waiting: async (name, limit) => listWaiting(deps.database.db, find(name).loaded.flow, limit),
    item: async (name, pk) =>
      reportItem({ db: deps.database.db, now: deps.now }, find(name).loaded.flow, pk),
    problems: () => engine.problems(),
    activity: ({ flow }, limit) => listFlowActivity(deps.database.db, { flow }, limit),
    async reload(actor) {
      await engine.reload(actor)
      return { flows: [...engine.flows().keys()], problems: engine.problems() }
    },
  }
}
