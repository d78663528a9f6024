import { AppError } from '../../errors.ts'
import { groupFailures } from '../../repositories/delivery-reports.ts'
import { insertFlowActivity, isPaused, listFlowActivity } from '../../repositories/flow-control.ts'
import { reportItem } from '../control/item-report.ts'
import {
  limitFlow,
  pauseFlows,
  resetFlow,
  resetItem,
  resumeFlows,
  unlimitFlow,
} from '../control/switches.ts'
import type { AlertResult, FlowService, SyncOutcome } from '../flow-service.ts'
import type { EngineDeps, FlowEngine, OpenFlow } from './flow-engine.ts'
import { createFlowReports } from './flow-reports.ts'
import { type ItemSyncDeps, syncItem } from './sync-item.ts'

export type FlowServiceDeps = Pick<EngineDeps, 'database' | 'now' | 'log' | 'deliveries'> & {
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

  const sync = async (name: string, { force }: { force: boolean }): Promise<SyncOutcome> => {
    const { poller } = find(name)
    if (!force && (await isPaused(deps.database.db, name))) return { changes: 0, skipped: 'paused' }
    const { changes, skipped } = await poller.request()
    return { changes, ...(skipped && { skipped }) }
  }

  const forget = async (name: string, pk: string, actor: string) => {
    find(name)
    return { existed: await resetItem(deps, name, pk, actor) }
  }

  const reset = async (name: string, actor: string) => {
    const { runtime } = find(name)
    await resetFlow(deps, name, runtime.definitionHash, actor)
  }

  return {
    ...reports,
    sync,
    syncItem: async (name, pk) => syncItem(itemDeps, find(name).runtime, pk),
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
    async testAlerts(name) {
      const { flow } = find(name).loaded
      if (flow.alerts.onJobFailed.length === 0) {
        throw new AppError('BAD_REQUEST', { message: 'The flow has no alert channels' })
      }
      return deps.testAlerts(flow)
    },
    async retryFailed(filter, actor) {
      find(filter.flow)
      const retried = await deliveries.retryFailed(filter)
      const { flow, ...rest } = filter
      const detail = Object.entries(rest)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => `${key}: ${value}`)
        .join(', ')
      await deps.database.transaction((trx) =>
        insertFlowActivity(trx, {
          at: deps.now(),
          flow,
          action: 'retried',
          actor,
          detail: `${retried} deliveries${detail && ` (${detail})`}`,
        }),
      )
      return retried
    },
    failures: async (name, limit) =>
      groupFailures(deps.database.db, find(name).loaded.flow.name, limit),
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
