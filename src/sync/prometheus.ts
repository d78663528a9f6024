import { Gauge, Registry } from 'prom-client'
import type { FlowMetrics, FlowStatus, QueueStatistics } from './flow-service.ts'

/** Whether `Accept` prefers the text that Prometheus scrapes: it names it, and browsers and curl do not. */
export function wantsPrometheus(accept: string | undefined): boolean {
  return /\b(?:text\/plain|application\/openmetrics-text)\b/.test(accept ?? '')
}

/** The same figures as the JSON form, in seconds where Prometheus expects them. */
export async function prometheusText(
  metrics: Map<string, FlowMetrics>,
  stats: QueueStatistics,
  status: Map<string, FlowStatus>,
): Promise<{ body: string; contentType: string }> {
  const registry = new Registry()
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `tillbridge_${name}`, help, labelNames, registers: [registry] })

  const lastRun = gauge('flow_last_run_timestamp_seconds', 'Start of the last poll', ['flow'])
  const average = gauge('flow_poll_duration_average_seconds', 'Of the last 1,000 polls', ['flow'])
  const p95 = gauge('flow_poll_duration_p95_seconds', 'Of the last 1,000 polls', ['flow'])
  const runs = gauge('flow_runs_total', 'Completed polls', ['flow'])
  const errors = gauge('flow_poll_errors_total', 'Failed polls', ['flow'])
  for (const [flow, figures] of metrics) {
    if (figures.lastRun) lastRun.set({ flow }, figures.lastRun.getTime() / 1000)
    average.set({ flow }, figures.avgDuration / 1000)
    p95.set({ flow }, figures.p95Duration / 1000)
    runs.set({ flow }, figures.totalRuns)
    errors.set({ flow }, figures.totalErrors)
  }
  const paused = gauge('flow_paused', '1 while the flow is paused', ['flow'])
  for (const [flow, one] of status) paused.set({ flow }, one.paused ? 1 : 0)
  const queue = gauge('deliveries', 'Deliveries by state', ['state'])
  for (const [state, count] of Object.entries(stats.queue)) queue.set({ state }, count)
  gauge('deliveries_completed_total', 'Deliveries completed').set(stats.processed)
  gauge('deliveries_failed_total', 'Deliveries failed for good').set(stats.errors)
  return { body: await registry.metrics(), contentType: registry.contentType }
}
