import { statfs } from 'node:fs/promises'
import { Gauge, type Registry } from 'prom-client'
import type { Database } from '../db/database.ts'
import { statesThat } from '../domain/order-state.ts'
import { subjectKinds } from '../fleet/health-states.ts'
import { endpointFares } from '../repositories/events/event-endpoints.ts'
import {
  type PaymentFigures,
  readPaymentFigures,
  readServerFigures,
  type ServerFigures,
} from '../repositories/metrics/metric-figures.ts'
import type { CertificateExpiry } from './certificate-expiry.ts'

export type StateDeps = {
  database: Database
  now: () => Date
  waitingTills: () => number
  /** The folder of the embedded database and of its backups. */
  dataDir: string
  build: { version: string; mode: string; commit: () => Promise<string | null> }
  log: { warn(fields: object, message: string): void }
}

const milliseconds = 1_000

/**
 * Registers what is read at a scrape: the state of the database, of its server, of the disk and of the certificate. A
 * part that cannot be read is left out.
 */
export async function describeState(
  registry: Registry,
  deps: StateDeps,
  certificateExpiry: CertificateExpiry,
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
    certificateExpiry(),
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
  const age: DefineAge = (name, help, since) =>
    gauge(name, help).set(since ? Math.max(0, now.getTime() - since.getTime()) / milliseconds : 0)
  describeOrders(gauge, age, figures)
  describeWebhooks(gauge, age, figures)
  describeConnections(gauge, figures)
  describePayments(gauge, figures)
  describeEndpoints(gauge, age, figures)
  describeHousekeeping(gauge, age, figures)
}

/** Defines a gauge of the seconds since a moment; 0 without one. */
type DefineAge = (name: string, help: string, since: Date | null) => void

function describeOrders(gauge: DefineGauge, age: DefineAge, figures: PaymentFigures): void {
  const open = gauge('orders_open', 'Open orders', ['status'])
  for (const status of statesThat('open')) {
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
}

function describeWebhooks(gauge: DefineGauge, age: DefineAge, figures: PaymentFigures): void {
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
}

function describeConnections(gauge: DefineGauge, figures: PaymentFigures): void {
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
    'Boxes, connections, flows and destinations by state and cause',
    ['kind', 'state', 'cause'],
  )
  for (const kind of subjectKinds) {
    states.set({ kind, state: 'ok', cause: '' }, 0)
  }
  for (const { kind, state, cause, count } of figures.states) {
    states.set({ kind, state, cause: cause ?? '' }, count)
  }
}

function describePayments(gauge: DefineGauge, figures: PaymentFigures): void {
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
}

function describeEndpoints(gauge: DefineGauge, age: DefineAge, figures: PaymentFigures): void {
  const endpoints = gauge(
    'event_endpoints',
    'Endpoints of events by state; failing: an event failed three times. stopped: by the service, which sends nothing until a person resumes it',
    ['state'],
  )
  for (const state of endpointFares) endpoints.set({ state }, figures.endpoints[state] ?? 0)
  gauge(
    'events_waiting',
    'Events that endpoints do not have yet; without those that are stopped',
  ).set(figures.eventsWaiting)
  age('events_waiting_oldest_seconds', 'Age of the oldest of these events', figures.oldestEventAt)
}

function describeHousekeeping(gauge: DefineGauge, age: DefineAge, figures: PaymentFigures): void {
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
    'When old rows were last removed without a failure; 0: never',
  ).set((figures.lastRemovalAt?.getTime() ?? 0) / milliseconds)
  gauge('audit_unsealed', 'Entries of the audit log that are not sealed in the chain yet').set(
    figures.unsealedEntries,
  )
}
