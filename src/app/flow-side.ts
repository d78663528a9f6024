import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { createControlService } from '../flows/control/control-service.ts'
import type { ControlService } from '../flows/control/control-service-types.ts'
import { createFlowContext } from '../flows/definition/flow-context.ts'
import { createDeliveries } from '../flows/deliver/deliver.ts'
import { createFlowEngine } from '../flows/engine/flow-engine.ts'
import { createHousekeeping } from '../flows/engine/flow-housekeeping.ts'
import { type OwnDatabase, readDatabaseIdentity } from '../flows/net/postgres-connection.ts'
import { createGrantKeeper } from '../flows/oauth/refresh-token-grants.ts'
import { createWorkbench } from '../flows/workbench/workbench.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import { requireDatabase } from '../http/require-database.ts'
import { createLeader } from '../jobs/leader.ts'
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
  tracing?: Pick<Tracing, 'observe' | 'notePoll' | 'noteAttempt'> | undefined
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
  /** Limits of event streams; for tests. */
  streams?: Partial<StreamLimits>
  /** How long a request for a poll waits for another poll to end; for tests. */
  longestWaitMs?: number
  /** How often workers look for deliveries that became due; for tests. */
  dueCheckMs?: number
}

export type FlowSide = {
  app: HttpServer
  flows: ControlService
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
  const mail = { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom }
  // Its renewals wait for no poll.
  const leader = createLeader({ database, now, processId: payments.processId, log })
  const deliveries = createDeliveries({
    ...{ ...common, leader },
    random: Math.random,
    trace: options.tracing,
    ...(options.dueCheckMs !== undefined && { pollMs: options.dueCheckMs }),
  })
  const grants = createGrantKeeper({ ...common, encryption: payments.encryption })
  const definitions = {
    flowsDir: config.flowsDir,
    files: createFlowContext(options.env, mail, ownSecrets(config), config.connectionsFile),
    // The embedded database has no server that a flow could connect to.
    ownDatabase: config.databaseUrl === undefined ? undefined : ownDatabaseOf(flowDatabase),
    payments: createPaymentsPort(payments),
    grants,
    feeds: {
      'payments.orders': createOrderFeed(database.db),
      'payments.settlements': createSettlementFeed(database.db),
      'payments.closings': createClosingFeed(database.db),
    },
  }
  const engine = createFlowEngine({
    ...common,
    ...definitions,
    startPaused: config.flowsStartPaused,
    deliveries,
    leader,
    notifications: options.notifications,
    trace: options.tracing,
  })
  const housekeeping = createHousekeeping({ ...common, stopwatch: payments.stopwatch, engine })
  const flows = createControlService({
    ...common,
    // A request waits for the answer.
    database,
    engine,
    deliveries,
    longestWaitMs: options.longestWaitMs,
    testAlerts: options.notifications.testFlow,
  })
  const workbench = createWorkbench({
    ...common,
    ...definitions,
    setting: config.flowsWorkbench,
    // Reached from anywhere, and there is no check of the caller.
    isOpenToAll: config.syncAuth === 'none',
    engine,
    testAlerts: options.notifications.testFlow,
  })
  const sessions = createControlSessions(
    payments,
    options.publicUrl,
    knownHostsOf(config, options.publicUrl, payments.settings.publicUrl),
    config.authFailuresPerMinute,
  )
  const app = await buildControlApi({
    flows,
    workbench,
    listen: database.listen,
    streams: options.streams,
    now,
    requireDatabase: () => requireDatabase(database),
    access: {
      auth: config.syncAuth,
      syncToken: config.syncToken,
      isBehindProxy: config.trustProxy.length > 0,
      metricsToken: config.metricsToken,
      authFailuresPerMinute: config.authFailuresPerMinute,
      audit: createAccessAudit({ database, auditKey: payments.auditKey, now, log }),
      findPerson: sessions.findPerson,
    },
    addSessionRoutes: sessions.addRoutes,
    publicUrl: options.publicUrl,
    dashboardPage: options.pages?.dashboard,
    shopTimeZone: () => shopTimeZone(payments, null),
    tracing: options.tracing,
    trustProxy: config.trustProxy,
    logger: options.logger,
  })
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

function ownDatabaseOf({ db }: Database): OwnDatabase {
  return () => readDatabaseIdentity(async (text) => (await sql.raw(text).execute(db)).rows)
}

/** For all flows together: a pool for each of hundreds of flows would leave no connection for charges. */
function connectionsOf(database: Database): number {
  return Math.max(1, Math.floor(database.connections().most * shareOfFlows))
}
