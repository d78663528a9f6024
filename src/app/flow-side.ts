import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { FlowControl } from '../flows/control/flow-control.ts'
import { createFlowContext } from '../flows/definition/flow-context.ts'
import { Deliveries } from '../flows/deliver/deliver.ts'
import { FlowEngine } from '../flows/engine/flow-engine.ts'
import { createHousekeeping } from '../flows/engine/flow-housekeeping.ts'
import { type OwnDatabase, readDatabaseIdentity } from '../flows/net/postgres-connection.ts'
import { GrantKeeper } from '../flows/oauth/refresh-token-grants.ts'
import type { ControlDeps } from '../flows/routes/index.ts'
import { Workbench } from '../flows/workbench/workbench.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import { requireDatabase } from '../http/require-database.ts'
import { createLeader, type GoneLeader } from '../jobs/leader.ts'
import type { Notifications } from '../notifications/notifications.ts'
import { createClosingFeed } from '../payments/closings/closing-feed.ts'
import { shopTimeZone } from '../payments/closings/closings.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { createOrderFeed } from '../payments/orders/order-feed.ts'
import { createSettlementFeed } from '../payments/settlements/settlement-feed.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { type Config, knownHostsOf } from './config.ts'
import { buildControlApi } from './control-api.ts'
import { createControlSessions } from './control-sessions.ts'
import { createAccessAudit, createFlowAudit } from './flow-audit.ts'
import { createPaymentsPort } from './flow-payments.ts'
import { ownSecrets } from './secrets-file.ts'

export type FlowSideOptions = {
  config: Config
  /** Address under which operators reach the control API. */
  publicUrl: string
  /** Addresses of both pages, for the links between them; undefined if not known. */
  pages?: { flows: string | undefined; dashboard: string | undefined }
  /** Set when the settings ask for traces. */
  tracing?: Pick<Tracing, 'traceRequest' | 'notePoll' | 'noteAttempt'> | undefined
  database: Database
  /** The payment side, for flows that write to it or read from it. */
  payments: PaymentDeps
  /** Notifies the receivers of flows. The caller starts and stops it. */
  notifications: Pick<Notifications, 'openFlow' | 'closeFlow' | 'testFlow'>
  logger: Logger
  /** For `${env:NAME}` in flow files. */
  env: Readonly<Record<string, string | undefined>>
  /** The payment side's clock when absent. */
  now?: () => Date
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** See findGoneLeader. */
  goneLeader?: Promise<GoneLeader | undefined>
  /** Limits of event streams; for tests. */
  streams?: Partial<StreamLimits>
  /** How long a request for a poll waits for another poll to end; for tests. */
  longestWaitMs?: number
  /** How often workers look for deliveries that became due; for tests. */
  dueCheckMs?: number
}

export type FlowSide = {
  app: HttpServer
  flows: FlowControl
  /** Reads the flow files and starts to poll and to deliver. */
  start(): Promise<void>
  /** Ends the running polls and deliveries and gives the lead back. Close the listener before, the database after. */
  close(): Promise<void>
}

const shareOfFlows = 0.3

/** Builds the flow side. Nothing runs yet: listen on `app`, then start. */
export async function createFlowSide(options: FlowSideOptions): Promise<FlowSide> {
  const { config, database, payments } = options
  const now = options.now ?? payments.now
  const sleep =
    options.sleep ??
    ((ms: number, signal?: AbortSignal) => wait(ms, undefined, signal && { signal }))
  const log = options.logger.child({ part: 'flows' })
  const audit = createFlowAudit({ database, auditKey: payments.auditKey, now })
  const flowDatabase = database.withConnectionLimit(connectionsOf(database))
  const common = { database: flowDatabase, now, sleep, log, audit, processId: payments.processId }
  // Its renewals wait for no poll.
  const leader = createLeader({
    ...{ database, now, processId: payments.processId, log },
    ...(options.goneLeader && { gone: options.goneLeader }),
  })
  const deliveries = new Deliveries({
    ...{ ...common, leader },
    random: Math.random,
    trace: options.tracing,
    ...(options.dueCheckMs !== undefined && { pollMs: options.dueCheckMs }),
  })
  const grants = new GrantKeeper({ ...common, encryption: payments.encryption })
  const definitions = { ...definitionsOf(options, flowDatabase), grants }
  const engine = new FlowEngine({
    ...common,
    ...definitions,
    startPaused: config.flowsStartPaused,
    itemsInMemory: config.flowItemsInMemory,
    deliveries,
    leader,
    notifications: options.notifications,
    trace: options.tracing,
  })
  const housekeeping = createHousekeeping({ ...common, stopwatch: payments.stopwatch, engine })
  const flows = new FlowControl({
    ...common,
    // A request waits for the answer.
    database,
    engine,
    deliveries,
    longestWaitMs: options.longestWaitMs,
    testAlerts: (flow) => options.notifications.testFlow(flow),
  })
  const workbench = new Workbench({
    ...common,
    ...definitions,
    setting: config.flowsWorkbench,
    // Reached from anywhere, and there is no check of the caller.
    isOpenToAll: config.syncAuth === 'none',
    engine,
    testAlerts: (flow) => options.notifications.testFlow(flow),
  })
  const app = await buildListener(options, { flows, workbench, now, log })
  return {
    app,
    flows,
    async start() {
      await engine.load()
      payments.fleet.watchFlows(() => flows.observed(), options.pages?.flows)
      engine.start()
      housekeeping.start()
    },
    async close() {
      await engine.stop()
      await grants.stop()
      await housekeeping.stop()
    },
  }
}

type Listened = Pick<ControlDeps, 'flows' | 'workbench' | 'now'> & { log: Logger }

/** The control API over what operators read and steer. */
function buildListener(
  options: FlowSideOptions,
  { flows, workbench, now, log }: Listened,
): Promise<HttpServer> {
  const { config, database, payments } = options
  const sessions = createControlSessions(payments, options.publicUrl)
  return buildControlApi({
    flows,
    workbench,
    listen: database.listen,
    streams: options.streams,
    now,
    requireDatabase: () => requireDatabase(database),
    access: {
      ...accessOf(options),
      audit: createAccessAudit({ database, auditKey: payments.auditKey, now, log }),
      findPerson: sessions.findPerson,
    },
    authFailuresPerMinute: config.authFailuresPerMinute,
    sessionRoutes: sessions.routes,
    publicUrl: options.publicUrl,
    dashboardPage: options.pages?.dashboard,
    shopTimeZone: () => shopTimeZone(payments, null),
    tracing: options.tracing,
    trustProxy: config.trustProxy,
    logger: options.logger,
  })
}

/** What definitions of flows are read with, and may reach. */
function definitionsOf({ config, env, database, payments }: FlowSideOptions, own: Database) {
  const mail = { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom }
  return {
    flowsDir: config.flowsDir,
    files: createFlowContext(env, mail, ownSecrets(config), config.connectionsFile),
    // The embedded database has no server that a flow could connect to.
    ownDatabase: config.databaseUrl === undefined ? undefined : ownDatabaseOf(own),
    payments: createPaymentsPort(payments),
    feeds: {
      'payments.orders': createOrderFeed(database.db),
      'payments.settlements': createSettlementFeed(database.db),
      'payments.closings': createClosingFeed(database.db),
    },
  }
}

/** Who is let in to the control API, by the settings. */
function accessOf({ config, publicUrl, payments }: FlowSideOptions) {
  return {
    auth: config.syncAuth,
    syncToken: config.syncToken,
    isBehindProxy: config.trustProxy.length > 0,
    metricsToken: config.metricsToken,
    knownHosts: knownHostsOf(config, publicUrl, payments.settings.publicUrl),
  }
}

function ownDatabaseOf({ db }: Database): OwnDatabase {
  return () => readDatabaseIdentity(async (text) => (await sql.raw(text).execute(db)).rows)
}

/** For all flows together: a pool for each of hundreds of flows would leave no connection for charges. */
function connectionsOf(database: Database): number {
  return Math.max(1, Math.floor(database.connections().most * shareOfFlows))
}
