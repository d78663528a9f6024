import type { Database } from '../../db/database.ts'
import {
  countDone,
  countOpenDeliveries,
  type TargetCounts,
} from '../../repositories/delivery-reports.ts'
import { listFlowErrors } from '../../repositories/flow-errors.ts'
import { countItems } from '../../repositories/flow-items.ts'
import {
  listDurations,
  type PollFigures,
  readPollFigures,
  sumChangesSince,
} from '../../repositories/flow-polls.ts'
import { type FlowStateRow, listFlowStates, listProgress } from '../../repositories/flow-state.ts'
import { listTotals } from '../../repositories/flow-totals.ts'
import { readSwitches, type SwitchState } from '../control/switches.ts'
import type {
  ErrorRecord,
  FlowCard,
  FlowMetrics,
  FlowService,
  FlowStatus,
  QueueStatistics,
} from '../flow-service.ts'
import type { OpenFlow } from './flow-engine.ts'
import { startOfDay } from './window.ts'

export type ReportDeps = {
  database: Database
  now: () => Date
  flows: () => ReadonlyMap<string, OpenFlow>
  /** Deliveries that some process has in hand. */
  countActive: () => Promise<number>
}

const sparkPoints = 30
/** Progress is written every second; older than that it was left by a process that died. */
const freshMs = 60_000

const noSwitches: SwitchState = {
  paused: false,
  pausedAt: null,
  pausedBy: null,
  reason: null,
  runLimit: null,
  runCount: 0,
}

/** What the control API reads about the flows that are open. */
export function createFlowReports(
  deps: ReportDeps,
): Pick<FlowService, 'status' | 'metrics' | 'stats' | 'errors' | 'cards'> {
  const { db } = deps.database

  const status = async () => {
    const flows = deps.flows()
    const switches = await readSwitches(deps, [...flows.keys()])
    const since = new Date(deps.now().getTime() - freshMs)
    const progress = await listProgress(db)
    const elsewhere = new Set(
      progress.filter((one) => one.updated_at > since).map(({ flow }) => flow),
    )
    return new Map(
      [...flows].map(([name, { poller }]): [string, FlowStatus] => [
        name,
        {
          ...(switches.get(name) ?? noSwitches),
          polling: poller.isPolling || elsewhere.has(name),
        },
      ]),
    )
  }

  const metrics = async () => {
    const figures = new Map((await readPollFigures(db)).map((one) => [one.flow, one]))
    const totals = new Map((await listTotals(db)).map((one) => [one.flow, one]))
    return new Map(
      [...deps.flows().keys()].map((name): [string, FlowMetrics] => {
        const one = figures.get(name)
        const total = totals.get(name)
        return [
          name,
          {
            lastRun: one?.lastRun ?? null,
            avgDuration: one?.avgDurationMs ?? 0,
            p95Duration: one?.p95DurationMs ?? 0,
            totalRuns: total?.runs ?? 0,
            totalErrors: total?.poll_errors ?? 0,
          },
        ]
      }),
    )
  }

  const stats = async (): Promise<QueueStatistics> => {
    const open = await countOpenDeliveries(db, deps.now())
    const totals = await listTotals(db)
    const active = await deps.countActive()
    const sum = (count: (target: TargetCounts) => number) =>
      open.reduce((total, target) => total + count(target), 0)
    return {
      queue: {
        // Those in hand are among the rows that are due.
        waiting: Math.max(0, sum((target) => target.waiting) - active),
        active,
        completed: await countDone(db),
        failed: sum((target) => target.failed),
        delayed: sum((target) => target.delayed),
      },
      processed: totals.reduce((total, one) => total + one.jobs_completed, 0),
      errors: totals.reduce((total, one) => total + one.jobs_failed, 0),
    }
  }

  const errors: FlowService['errors'] = async (filter) =>
    (await listFlowErrors(db, filter)).map(
      (row): ErrorRecord => ({
        id: row.id,
        entity: row.flow,
        adapter: row.adapter,
        pk: row.pk,
        error: row.error,
        timestamp: row.at,
        attempts: row.attempts,
      }),
    )

  const cards = async () => {
    const now = deps.now()
    const common: CardFacts = {
      status: await status(),
      states: new Map((await listFlowStates(db)).map((one) => [one.flow, one])),
      figures: new Map((await readPollFigures(db)).map((one) => [one.flow, one])),
      progress: new Map((await listProgress(db)).map((one) => [one.flow, one])),
      open: Map.groupBy(await countOpenDeliveries(db, now), ({ flow }) => flow),
    }
    const made: FlowCard[] = []
    for (const [name, { loaded }] of deps.flows()) {
      const timezone = loaded.flow.window?.timezone ?? 'UTC'
      const changes = await sumChangesSince(db, startOfDay(timezone, now))
      made.push(
        cardOf(loaded.flow, common, {
          items: await countItems(db, name),
          changesToday: changes.get(name) ?? 0,
          durations: await listDurations(db, name, sparkPoints),
        }),
      )
    }
    return made
  }

  return { status, metrics, stats, errors, cards }
}

type CardFacts = {
  status: ReadonlyMap<string, FlowStatus>
  states: ReadonlyMap<string, FlowStateRow>
  figures: ReadonlyMap<string, PollFigures>
  progress: ReadonlyMap<string, { started_at: Date; rows_read: number; changes: number }>
  open: ReadonlyMap<string, readonly TargetCounts[]>
}

function cardOf(
  flow: OpenFlow['loaded']['flow'],
  facts: CardFacts,
  own: Pick<FlowCard, 'items' | 'changesToday' | 'durations'>,
): FlowCard {
  const { name, pollIntervalMs } = flow
  const status = facts.status.get(name) ?? { ...noSwitches, polling: false }
  const state = facts.states.get(name)
  const progress = facts.progress.get(name)
  const lastPollAt = state?.last_poll_at ?? null
  const targets = new Map(facts.open.get(name)?.map((target) => [target.destination, target]))
  return {
    name,
    description: flow.description ?? null,
    pollIntervalMs,
    status,
    lastPollAt,
    lastSuccessAt: state?.last_success_at ?? null,
    nextPollAt:
      status.paused || lastPollAt === null ? null : new Date(lastPollAt.getTime() + pollIntervalMs),
    lastError: facts.figures.get(name)?.lastError ?? null,
    progress: progress
      ? {
          startedAt: progress.started_at,
          rowsRead: progress.rows_read,
          changes: progress.changes,
        }
      : null,
    destinations: flow.destinations.map((destination) => {
      const target = targets.get(destination.name)
      return {
        name: destination.name,
        type: destination.type,
        waiting: target?.waiting ?? 0,
        delayed: target?.delayed ?? 0,
        failed: target?.failed ?? 0,
        oldestWaitingAt: target?.oldestWaitingAt ?? null,
      }
    }),
    hasAlerts: flow.alerts.onJobFailed.length > 0,
    ...own,
  }
}
