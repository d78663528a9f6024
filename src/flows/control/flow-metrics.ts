import { Counter, Gauge, Registry } from 'prom-client'
import type { FlowMetrics, FlowStatus, QueueStatistics } from '../api/control-types.ts'
import { waitingSince } from './sending.ts'

/** Whether `Accept` prefers the text that Prometheus scrapes: it names it, and browsers and curl do not. */
export function wantsPrometheus(accept: string | undefined): boolean {
  return /\b(?:text\/plain|application\/openmetrics-text)\b/.test(accept ?? '')
}

/** The figures of the JSON form and the pending deliveries of each destination, with times in seconds. */
export async function prometheusText(
  {
    metrics,
    stats,
    status,
  }: {
    metrics: ReadonlyMap<string, FlowMetrics>
    stats: QueueStatistics
    status: ReadonlyMap<string, FlowStatus>
  },
  now: Date,
): Promise<string> {
  const registry = new Registry()
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `tillbridge_${name}`, help, labelNames, registers: [registry] })
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name: `tillbridge_${name}`, help, labelNames, registers: [registry] })

  const lastRun = gauge('flow_last_run_timestamp_seconds', 'Start of the last poll', ['flow'])
  const average = gauge(
    'flow_poll_duration_average_seconds',
    'Duration over the last 1,000 polls',
    ['flow'],
  )
  const p95 = gauge('flow_poll_duration_p95_seconds', 'Duration over the last 1,000 polls', [
    'flow',
  ])
  const runs = counter('flow_runs_total', 'Completed polls', ['flow'])
  const errors = counter('flow_poll_errors_total', 'Failed polls', ['flow'])
  for (const [flow, figures] of metrics) {
    if (figures.lastRun) lastRun.set({ flow }, figures.lastRun.getTime() / 1000)
    average.set({ flow }, figures.avgDuration / 1000)
    p95.set({ flow }, figures.p95Duration / 1000)
    runs.inc({ flow }, figures.totalRuns)
    errors.inc({ flow }, figures.totalErrors)
  }
  addSending(gauge, metrics)
  addPending(gauge, metrics, now)
  const paused = gauge('flow_paused', '1 while the flow is paused', ['flow'])
  const overdue = gauge(
    'flow_poll_overdue_seconds',
    'How late the next poll is; 0 while the flow is paused, polls or waits for its time',
    ['flow'],
  )
  for (const [flow, one] of status) {
    paused.set({ flow }, one.paused ? 1 : 0)
    const since = one.paused || one.polling ? null : metrics.get(flow)?.pollDueSince
    overdue.set({ flow }, since ? (now.getTime() - since.getTime()) / 1000 : 0)
  }
  const queue = gauge('deliveries', 'Deliveries by state', ['state'])
  for (const [state, count] of Object.entries(stats.queue)) queue.set({ state }, count)
  counter('deliveries_completed_total', 'Deliveries completed').inc(stats.processed)
  counter('deliveries_failed_total', 'Deliveries that failed permanently').inc(stats.errors)
  return registry.metrics()
}

const sendingStates = ['flowing', 'stopped', 'silent', 'open', 'probing'] as const

function addSending(
  gauge: (name: string, help: string, labelNames: string[]) => Gauge,
  metrics: ReadonlyMap<string, FlowMetrics>,
): void {
  const labels = ['flow', 'destination']
  const state = gauge('destination_state', '1 for the state of sending', [...labels, 'state'])
  const next = gauge(
    'destination_next_attempt_timestamp_seconds',
    'While sending is suspended: time of the next attempt',
    labels,
  )
  for (const [flow, { destinations }] of metrics) {
    for (const { name: destination, sending } of destinations) {
      for (const one of sendingStates) {
        state.set({ flow, destination, state: one }, one === sending.state ? 1 : 0)
      }
      const { nextAttemptAt } = sending
      if (nextAttemptAt) next.set({ flow, destination }, nextAttemptAt.getTime() / 1000)
    }
  }
}

function addPending(
  gauge: (name: string, help: string, labelNames: string[]) => Gauge,
  metrics: ReadonlyMap<string, FlowMetrics>,
  now: Date,
): void {
  const labels = ['flow', 'destination']
  const byState = [...labels, 'state']
  const pending = gauge('destination_pending', 'Deliveries that wait or failed', byState)
  const oldest = gauge(
    'destination_oldest_pending_seconds',
    'Age of the oldest pending delivery, counted from the last start of sending; 0 without one and while sending is stopped',
    labels,
  )
  for (const [flow, { destinations }] of metrics) {
    for (const { name: destination, open, sending } of destinations) {
      for (const state of ['waiting', 'delayed', 'failed'] as const) {
        pending.set({ flow, destination, state }, open[state])
      }
      const since =
        sending.state === 'stopped'
          ? now.getTime()
          : (waitingSince(open.oldestWaitingAt, sending)?.getTime() ?? now.getTime())
      const age = Math.max(0, (now.getTime() - since) / 1000)
      oldest.set({ flow, destination }, age)
    }
  }
}
