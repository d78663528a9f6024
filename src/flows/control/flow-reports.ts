import type { Database } from '../../db/database.ts'
import { createCachedCount } from '../../domain/cached-count.ts'
import { dueSince, startOfDay } from '../../domain/time-window.ts'
import type { FlowSeen } from '../../fleet/observations.ts'
import {
  countDone,
  countOpenDeliveries,
  type TargetCounts,
} from '../../repositories/flows/delivery-reports.ts'
import { type FlowErrorFilter, listFlowErrors } from '../../repositories/flows/flow-errors.ts'
import { countItemsByFlow } from '../../repositories/flows/flow-items.ts'
import { readSwitches, type SwitchState } from '../../repositories/flows/flow-pauses-and-limits.ts'
import {
  type LatestPolls,
  listTotals,
  readLatestPolls,
  readPollFigures,
  sumChangesSince,
} from '../../repositories/flows/flow-polls.ts'
import {
  type FlowStateRow,
  listFlowStates,
  listProgress,
} from '../../repositories/flows/flow-state.ts'
import type {
  ErrorRecord,
  FileWait,
  FlowCard,
  FlowMetrics,
  FlowStatus,
  OpenCounts,
  QueueStatistics,
} from '../api/control-types.ts'
import { withOpen } from '../deliver/destination-reports.ts'
import type { OpenFlow } from '../engine/flow-engine.ts'
import { plannedAfter } from '../engine/poll-schedule.ts'
import { findLostAccesses, ofSource } from '../oauth/lost-access.ts'
import { openQuestion } from './question-view.ts'
import { readSending, waitingSince } from './sending.ts'

type ReportDeps = {
  database: Database
  now: () => Date
  flows: () => ReadonlyMap<string, OpenFlow>
  /** Deliveries that any process is sending. */
  countActive: () => Promise<number>
}

const sparkPoints = 30
/** Running polls write progress every second. Older progress is of a process that died. */
const freshMs = 60_000

const noSwitches: SwitchState = {
  paused: false,
  pausedAt: null,
  pausedBy: null,
  reason: null,
  why: null,
  runLimit: null,
  runCount: 0,
}

const nothingOpen: OpenCounts = { waiting: 0, delayed: 0, failed: 0, oldestWaitingAt: null }

/** What the control API reads about the open flows. */
export class FlowReports {
  readonly #deps: ReportDeps
  readonly #db: Database['db']
  readonly #itemCounts
  readonly #openCounts
  readonly #doneCount

  constructor(deps: ReportDeps) {
    const { db } = deps.database
    this.#deps = deps
    this.#db = db
    this.#itemCounts = createCachedCount(async () => {
      const value = await countItemsByFlow(db)
      return { value, rows: [...value.values()].reduce((sum, count) => sum + count, 0) }
    })
    this.#openCounts = createCachedCount(async () => {
      const value = await countOpenDeliveries(deps.database, deps.now())
      return {
        value,
        rows: value.reduce((sum, one) => sum + one.waiting + one.delayed + one.failed, 0),
      }
    })
    this.#doneCount = createCachedCount(async () => {
      const value = await countDone(db)
      return { value, rows: value }
    })
  }

  async status() {
    const flows = this.#deps.flows()
    const switches = await readSwitches(this.#db, [...flows.keys()])
    const since = new Date(this.#deps.now().getTime() - freshMs)
    const progress = await listProgress(this.#db)
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

  async metrics() {
    const figures = new Map((await readPollFigures(this.#db)).map((one) => [one.flow, one]))
    const totals = new Map((await listTotals(this.#db)).map((one) => [one.flow, one]))
    const sending = await readSending(this.#db, this.#deps.now())
    const open = new Map(
      (await this.#openCounts()).map((one) => [`${one.flow}\n${one.destination}`, one]),
    )
    const states = new Map((await listFlowStates(this.#db)).map((one) => [one.flow, one]))
    return new Map(
      [...this.#deps.flows()].map(([name, { loaded }]): [string, FlowMetrics] => {
        const { window } = loaded.flow
        const lastPollAt = states.get(name)?.last_poll_at
        const planned = lastPollAt && plannedAfter(loaded.flow, lastPollAt)
        const one = figures.get(name)
        const total = totals.get(name)
        const destinations = loaded.flow.destinations.map((one) => ({
          name: one.name,
          sending: sending(name, one.name),
          open: open.get(`${name}\n${one.name}`) ?? nothingOpen,
        }))
        return [
          name,
          {
            lastRun: one?.lastRun ?? null,
            avgDuration: one?.avgDurationMs ?? 0,
            p95Duration: one?.p95DurationMs ?? 0,
            totalRuns: total?.runs ?? 0,
            totalErrors: total?.poll_errors ?? 0,
            pollDueSince: planned ? dueSince(window, planned, this.#deps.now()) : null,
            destinations,
          },
        ]
      }),
    )
  }

  async stats(): Promise<QueueStatistics> {
    const open = await this.#openCounts()
    const totals = await listTotals(this.#db)
    const active = await this.#deps.countActive()
    const sum = (count: (target: TargetCounts) => number) =>
      open.reduce((total, target) => total + count(target), 0)
    return {
      queue: {
        // Deliveries that are being sent are among the due rows.
        waiting: Math.max(0, sum((target) => target.waiting) - active),
        active,
        completed: await this.#doneCount(),
        failed: sum((target) => target.failed),
        delayed: sum((target) => target.delayed),
      },
      processed: totals.reduce((total, one) => total + one.jobs_completed, 0),
      errors: totals.reduce((total, one) => total + one.jobs_failed, 0),
    }
  }

  async errors(filter: FlowErrorFilter): Promise<ErrorRecord[]> {
    return (await listFlowErrors(this.#db, filter)).map(
      ({ flow: entity, at: timestamp, ...row }): ErrorRecord => ({ ...row, entity, timestamp }),
    )
  }

  /** Since the start of the day in each flow's time zone. */
  async #changesToday() {
    const sums = new Map<string, Map<string, number>>()
    for (const [, { loaded }] of this.#deps.flows()) {
      const timezone = timezoneOf(loaded.flow)
      if (sums.has(timezone)) continue
      sums.set(timezone, await sumChangesSince(this.#db, startOfDay(timezone, this.#deps.now())))
    }
    return (flow: Flow) => sums.get(timezoneOf(flow))?.get(flow.name) ?? 0
  }

  async cards() {
    const loaded = [...this.#deps.flows().values()].map((one) => one.loaded)
    const facts: CardFacts = {
      status: await this.status(),
      states: new Map((await listFlowStates(this.#db)).map((one) => [one.flow, one])),
      polls: await readLatestPolls(
        this.#db,
        loaded.map(({ flow }) => flow.name),
        sparkPoints,
      ),
      progress: new Map((await listProgress(this.#db)).map((one) => [one.flow, one])),
      open: Map.groupBy(await this.#openCounts(), ({ flow }) => flow),
      items: await this.#itemCounts(),
      changesToday: await this.#changesToday(),
      sending: await readSending(this.#db, this.#deps.now()),
    }
    return [...this.#deps.flows().values()].map((one) => cardOf(one, facts))
  }

  async withoutDefinition() {
    const flows = this.#deps.flows()
    const byFlow = Map.groupBy(await this.#openCounts(), ({ flow }) => flow)
    return [...byFlow]
      .filter(([name]) => !flows.has(name))
      .map(([name, targets]) => ({
        name,
        destinations: targets.map(({ flow: _, destination, ...counts }) => ({
          name: destination,
          ...counts,
        })),
      }))
  }

  async observed(): Promise<FlowSeen[]> {
    const opened = [...this.#deps.flows().values()]
    const flows = opened.map(({ loaded }) => loaded.flow)
    const names = flows.map(({ name }) => name)
    const statuses = await this.status()
    const states = new Map((await listFlowStates(this.#db)).map((one) => [one.flow, one]))
    const polls = await readLatestPolls(this.#db, names, 1)
    const open = Map.groupBy(await this.#openCounts(), ({ flow }) => flow)
    const sending = await readSending(this.#db, this.#deps.now())
    const lostAccess = await findLostAccesses(this.#db, flows)
    return opened.map(({ loaded: { flow }, runtime }) => {
      const { name, pollIntervalMs, window } = flow
      const { paused, pausedAt, runLimit, runCount, polling } = statuses.get(name) ?? {
        ...noSwitches,
        polling: false,
      }
      const state = states.get(name)
      const lastPollAt = state?.last_poll_at ?? null
      const planned = lastPollAt && plannedAfter(flow, lastPollAt)
      const targets = new Map(open.get(name)?.map((one) => [one.destination, one]))
      return {
        flow: name,
        pollIntervalMs,
        isPaused: paused,
        pausedAt,
        isLimited: runLimit !== null && runCount >= runLimit,
        isPolling: polling,
        askedAt: (state && openQuestion(runtime, state)?.askedAt) ?? null,
        accessLost: lostAccess(name, ofSource),
        dueSince: planned && dueSince(window, planned, this.#deps.now()),
        lastPollAt,
        lastSuccessAt: state?.last_success_at ?? null,
        lastError: state?.waiting_why ? null : (polls.get(name)?.error ?? null),
        destinations: withOpen(flow.destinations, [...targets.keys()]).map((one) => {
          const { waiting, delayed, failed, oldestWaitingAt } = targets.get(one.name) ?? nothingOpen
          const now = sending(name, one.name)
          return {
            name: one.name,
            accessLost: lostAccess(name, one.name),
            sending: now,
            pending: waiting + delayed,
            oldestWaitingAt: waitingSince(oldestWaitingAt, now),
            failed,
          }
        }),
      }
    })
  }

  /** Pending deliveries of the defined flows, by destination. */
  async openTargets() {
    const flows = this.#deps.flows()
    return (await this.#openCounts()).filter(({ flow }) => flows.has(flow))
  }
}

type CardFacts = {
  status: ReadonlyMap<string, FlowStatus>
  states: ReadonlyMap<string, FlowStateRow>
  polls: ReadonlyMap<string, LatestPolls>
  progress: ReadonlyMap<string, { started_at: Date; rows_read: number; changes: number }>
  open: ReadonlyMap<string, readonly TargetCounts[]>
  items: ReadonlyMap<string, number>
  changesToday: (flow: Flow) => number
  sending: Awaited<ReturnType<typeof readSending>>
}

type Flow = OpenFlow['loaded']['flow']

function timezoneOf({ window }: Flow): string {
  return window?.timezone ?? 'UTC'
}

function cardOf({ loaded: { flow, file }, runtime }: OpenFlow, facts: CardFacts): FlowCard {
  const { name, pollIntervalMs } = flow
  const status = facts.status.get(name) ?? { ...noSwitches, polling: false }
  const state = facts.states.get(name)
  const progress = facts.progress.get(name)
  const lastPollAt = state?.last_poll_at ?? null
  const targets = new Map(facts.open.get(name)?.map((target) => [target.destination, target]))
  return {
    name,
    file,
    description: flow.description ?? null,
    source: flow.source.type,
    pollIntervalMs,
    status,
    lastPollAt,
    lastSuccessAt: state?.last_success_at ?? null,
    nextPollAt: status.paused || lastPollAt === null ? null : plannedAfter(flow, lastPollAt),
    // Earlier failures are over: the source was found, but its file is not complete yet.
    lastError: state?.waiting_why ? null : (facts.polls.get(name)?.error ?? null),
    lastErrorWhy: state?.waiting_why ? null : (facts.polls.get(name)?.why ?? null),
    waitingFor: state ? waitOf(flow, state) : null,
    items: facts.items.get(name) ?? 0,
    changesToday: facts.changesToday(flow),
    durations: facts.polls.get(name)?.durations ?? [],
    progress: progress
      ? {
          startedAt: progress.started_at,
          rowsRead: progress.rows_read,
          changes: progress.changes,
        }
      : null,
    destinations: withOpen(flow.destinations, [...targets.keys()]).map((destination) => {
      const target = targets.get(destination.name)
      return {
        name: destination.name,
        type: destination.type,
        waiting: target?.waiting ?? 0,
        delayed: target?.delayed ?? 0,
        failed: target?.failed ?? 0,
        oldestWaitingAt: target?.oldestWaitingAt ?? null,
        sending: facts.sending(name, destination.name),
      }
    }),
    question: state ? openQuestion(runtime, state) : null,
    hasAlerts: flow.alerts.onJobFailed.length > 0,
  }
}

/** The most polls that fit into the longest settle time at the shortest interval. */
const mostPolls = 10_000

function waitOf(flow: Flow, state: FlowStateRow): FileWait | null {
  const { waiting_why: why, waiting_since: since, last_poll_at: lastAt } = state
  if (!why || !since || !lastAt) return null
  const end = typeof why.data?.until === 'string' ? new Date(why.data.until) : null
  let until = end && plannedAfter(flow, lastAt)
  for (let polls = 0; end && until && until < end && polls < mostPolls; polls += 1) {
    until = plannedAfter(flow, until)
  }
  return { why, since, until }
}
