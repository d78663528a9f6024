import { statfs } from 'node:fs/promises'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Database } from '../db/database.ts'
import { whenCommitted } from '../db/transactions.ts'
import { isOpen, isPaid } from '../domain/order-state.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { ProviderCallLog } from '../provider/provider.ts'
import {
  type PaymentFigures,
  readPaymentFigures,
  readServerFigures,
  type ServerFigures,
} from '../repositories/metrics/metric-figures.ts'
import type { OrderRow } from '../repositories/orders/order-queries.ts'
import { type CertificateWatch, createCertificateWatch } from './certificate.ts'
import { processMetrics } from './process-metrics.ts'

export type Scrape = { body: string; contentType: string }

export type PaymentMetrics = {
  /** Where the listener registers its requests. */
  registry: Registry
  recordProviderCall(entry: ProviderCallLog): void
  /** Counts a move of an order by this process, after its commit. */
  recordMove(before: OrderRow, after: OrderRow): void
  /** The text for Prometheus. Never fails: without the database it has only the metrics of the process. */
  scrape(): Promise<Scrape>
}

type PaymentMetricsDeps = {
  database: Database
  now: () => Date
  waitingTills: () => number
  troubleOf: Fleet['troubleOf']
  /** The address of the service for ERPs and the provider. */
  publicUrl: string
  /** The folder of the embedded database and of its backups. */
  dataDir: string
  build: { version: string; mode: string; commit: () => Promise<string | null> }
  log: { warn(fields: object, message: string): void }
}

/** A card takes seconds, a buyer who searches for a card a minute, a forgotten charge its expiry of up to three hours. */
const chargeSeconds = [1, 2.5, 5, 10, 20, 40, 60, 120, 300, 900, 10_800]
const callSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const milliseconds = 1_000

/**
 * The metrics of the payment side. The work of this process is counted in memory; Prometheus sums the processes. The
 * state of the database is read at a scrape, in two statements, and is the same from each process.
 */
export function createPaymentMetrics(deps: PaymentMetricsDeps): PaymentMetrics {
  const registry = new Registry()
  const registers = [registry]
  const calls = new Counter({
    name: 'tillbridge_provider_calls_total',
    help: 'Attempts of calls to the provider by operation and result',
    labelNames: ['operation', 'result'],
    registers,
  })
  const callDuration = new Histogram({
    name: 'tillbridge_provider_call_duration_seconds',
    help: 'Time of an attempt of a call to the provider',
    labelNames: ['operation'],
    buckets: callSeconds,
    registers,
  })
  const charges = new Counter({
    name: 'tillbridge_charges_total',
    help: 'Ended charges by outcome and the state of their box; paid_after_close counts payments after the end',
    labelNames: ['outcome', 'box_state'],
    registers,
  })
  const duration = (name: string, help: string, labelNames: string[] = []) =>
    new Histogram({ name, help, labelNames, buckets: chargeSeconds, registers })
  const toTerminal = duration(
    'tillbridge_charge_to_terminal_seconds',
    'From the request of the till to the first answer of the terminal',
  )
  const atTerminal = duration(
    'tillbridge_charge_at_terminal_seconds',
    'From the first answer of the terminal to the end of the charge',
  )
  const toEnd = duration(
    'tillbridge_charge_seconds',
    'From the request of the till to the end of the charge',
    ['outcome'],
  )
  // Each series exists from the start: otherwise `rate()` misses the first increase.
  for (const outcome of outcomes) {
    for (const box_state of boxStates) charges.inc({ outcome, box_state }, 0)
  }

  const countMove = (before: OrderRow, after: OrderRow) => {
    const isPaidLate = after.paid_after_close && !before.paid_after_close
    const hasEnded = isOpen(before.status) && !isOpen(after.status)
    const count = (outcome: string) => {
      const trouble = deps.troubleOf(after.client, after.caja_id)
      charges.inc({ outcome, box_state: trouble?.state ?? 'ok' })
    }
    if (isPaidLate) count('paid_after_close')
    if (before.status === 'created' && after.status === 'at_terminal') {
      toTerminal.observe(secondsBetween(after.created_at, after.last_updated_at))
    }
    if (!hasEnded) return
    const outcome = outcomeOf(after)
    count(outcome)
    toEnd.observe({ outcome }, secondsBetween(after.created_at, after.last_updated_at))
    if (before.status === 'at_terminal') {
      atTerminal.observe(secondsBetween(before.last_updated_at, after.last_updated_at))
    }
  }

  const certificate = createCertificateWatch(deps.publicUrl)
  let scraping: Promise<Scrape> | undefined
  const scrape = async () => {
    const state = new Registry()
    await describeState(state, deps, certificate)
    const bodies = [registry, state, processMetrics()].map((one) => one.metrics())
    return { body: (await Promise.all(bodies)).join('\n'), contentType: registry.contentType }
  }

  return {
    registry,
    recordProviderCall({ operation, status, failure, durationMs }) {
      calls.inc({ operation, result: resultOf(status, failure) })
      callDuration.observe({ operation }, durationMs / milliseconds)
    },
    recordMove(before, after) {
      // All that is counted is a change of one of these.
      const isCounted =
        before.status !== after.status || before.paid_after_close !== after.paid_after_close
      if (isCounted) whenCommitted(() => countMove(before, after))
    },
    scrape() {
      // Simultaneous scrapes share the statement.
      scraping ??= scrape().finally(() => {
        scraping = undefined
      })
      return scraping
    },
  }
}

async function describeState(
  registry: Registry,
  deps: PaymentMetricsDeps,
  certificate: CertificateWatch,
): Promise<void> {
  const gauge: DefineGauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `tillbridge_${name}`, help, labelNames, registers: [registry] })
  const { version, mode, commit } = deps.build
  gauge('build_info', 'Version and commit that run; always 1', ['version', 'commit', 'mode']).set(
    { version, commit: (await commit()) ?? '', mode },
    1,
  )
  gauge('waiting_tills', 'Requests that wait for a change of an order').set(deps.waitingTills())

  const pool = deps.database.connections()
  const connections = gauge('database_connections', 'Connections to the database', ['state'])
  connections.set({ state: 'busy' }, pool.busy)
  connections.set({ state: 'idle' }, pool.idle)
  gauge('database_connections_most', 'Most connections of the pool').set(pool.most)
  gauge('database_waiting', 'Requests that wait for a database connection').set(pool.waiting)

  const now = deps.now()
  const unless = (message: string) => (error: unknown) => {
    deps.log.warn({ err: error }, message)
    return undefined
  }
  const [figures, takesWrites, server, disk, endsAt] = await Promise.all([
    readPaymentFigures(deps.database.db, now).catch(
      unless('the figures of the database could not be read'),
    ),
    deps.database.takesWrites(),
    readServerFigures(deps.database.db).catch(
      unless("the figures of the database's server could not be read"),
    ),
    // With PostgreSQL the folder may not exist.
    statfs(deps.dataDir).catch(() => undefined),
    certificate.endsAt(),
  ])
  // As in /health: without writes no charge can be made.
  const isUp = figures !== undefined && takesWrites
  gauge('database_up', '1 when the database answers and takes writes').set(isUp ? 1 : 0)
  if (figures) describeFigures(gauge, figures, now)
  if (server) describeServer(gauge, server)
  if (disk) {
    gauge('disk_bytes', 'Size of the disk with DATA_DIR').set(disk.blocks * disk.bsize)
    gauge('disk_free_bytes', 'What the service may still write there').set(disk.bavail * disk.bsize)
  }
  // A gauge without a value would be 0, which is a valid time.
  if (endsAt) {
    gauge(
      'certificate_ends_timestamp_seconds',
      'When the certificate of PUBLIC_URL ends, seen in the last hour',
    ).set(endsAt.getTime() / milliseconds)
  }
}

type DefineGauge = (name: string, help: string, labelNames?: string[]) => Gauge

function describeServer(gauge: DefineGauge, server: ServerFigures): void {
  gauge('database_bytes', 'Size of the database').set(server.databaseBytes)
  gauge('server_connections', 'Connections of all clients to the database server').set(
    server.connections,
  )
  gauge('server_connections_most', 'Most connections of the database server (max_connections)').set(
    server.connectionsMost,
  )
}

function describeFigures(gauge: DefineGauge, figures: PaymentFigures, now: Date): void {
  const age = (name: string, help: string, since: Date | null) =>
    gauge(name, help).set(since ? Math.max(0, secondsBetween(since, now)) : 0)
  const open = gauge('orders_open', 'Open orders', ['status'])
  for (const status of ['created', 'at_terminal', 'action_required']) {
    open.set({ status }, figures.open[status] ?? 0)
  }
  gauge('orders_unknown', 'Charges whose result at the provider is unknown').set(figures.unknown)
  age(
    'orders_unknown_oldest_seconds',
    'Age of the oldest of these operations charges',
    figures.oldestUnknownAt,
  )
  const operations = gauge('operations_open', 'Cancels and refunds of unknown outcome', ['kind'])
  for (const kind of ['cancel', 'refund']) {
    operations.set({ kind }, figures.openOperations[kind] ?? 0)
  }
  age(
    'operations_open_oldest_seconds',
    'Age of the oldest of these operations',
    figures.oldestOperationAt,
  )
  age('sweeper_lag_seconds', 'How late the status check of due orders is', figures.dueSince)
  gauge('webhooks_waiting', 'Webhooks that are stored and not processed').set(
    figures.webhooksWaiting,
  )
  age(
    'webhook_lag_seconds',
    'Age of the oldest webhook that is not processed',
    figures.oldestWebhookAt,
  )
  gauge(
    'webhook_last_received_timestamp_seconds',
    'Time of the last signed webhook; 0 without one',
  ).set((figures.lastWebhookAt?.getTime() ?? 0) / milliseconds)
  const connections = gauge('connections', 'Connections of clients to the provider', ['status'])
  for (const status of ['connected', 'lost']) {
    connections.set({ status }, figures.connections[status] ?? 0)
  }
  if (figures.connectionEndsAt) {
    gauge(
      'connection_expires_timestamp_seconds',
      'When the first token of a connection ends; tokens are renewed long before',
    ).set(figures.connectionEndsAt.getTime() / milliseconds)
  }
  const states = gauge(
    'fleet_state',
    'Boxes, connections, kinds of calls, flows and destinations by state and cause',
    ['kind', 'state', 'cause'],
  )
  for (const kind of ['box', 'connection', 'provider', 'flow', 'destination']) {
    states.set({ kind, state: 'ok', cause: '' }, 0)
  }
  for (const { kind, state, cause, count } of figures.states) {
    states.set({ kind, state, cause: cause ?? '' }, count)
  }
  gauge('orphans_open', 'Payments at the provider that match no order and are not settled').set(
    figures.openOrphans,
  )
  gauge('chargebacks_undecided', 'Charge-backs that are open, or whose case is not known').set(
    figures.undecidedChargebacks,
  )
  gauge(
    'payments_unreadable',
    'Payments of the provider of the last 30 days that cannot be read',
  ).set(figures.unreadablePayments)
  age(
    'notification_lag_seconds',
    'Age of the oldest notification that is not sent',
    figures.oldestNotificationAt,
  )
  gauge(
    'backup_last_timestamp_seconds',
    'Time of the data in the last finished backup; 0 without one',
  ).set((figures.lastBackupAt?.getTime() ?? 0) / milliseconds)
  gauge(
    'removal_last_timestamp_seconds',
    'When old rows were last removed and archived without a failure; 0: never',
  ).set((figures.lastRemovalAt?.getTime() ?? 0) / milliseconds)
  gauge('audit_unsealed', 'Entries of the audit log that are not sealed in the chain yet').set(
    figures.unsealedEntries,
  )
}

const boxStates = ['ok', 'attention', 'down'] as const

const outcomes = [
  'paid',
  'canceled',
  'failed',
  'expired',
  'not_created',
  'paid_after_close',
] as const

function outcomeOf({ status, status_detail }: OrderRow): string {
  if (isPaid(status) || status === 'refunded') return 'paid'
  return status_detail === 'not_created' ? 'not_created' : status
}

/** The result of an attempt as a label. The provider's text has too many values for one. */
function resultOf(status: number | null, failure: string | null): string {
  if (status === null) return failure ?? 'no_answer'
  if (status === 429) return 'limited'
  if (status >= 500) return 'failed'
  if (status >= 400) return 'refused'
  return failure ?? 'ok'
}

function secondsBetween(from: Date, to: Date): number {
  return (to.getTime() - from.getTime()) / milliseconds
}
