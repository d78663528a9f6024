import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import { requireDatabase } from '../http/require-database.ts'
import type { Notifications } from '../notifications/notifications.ts'
import { createClosingFeed } from '../payments/closings/closing-feed.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { createOrderFeed } from '../payments/orders/order-feed.ts'
import { createSettlementFeed } from '../payments/settlements/settlement-feed.ts'
import { createFlowNews } from '../sync/control/flow-news.ts'
import { createFlowContext } from '../sync/definition/context.ts'
import { createDeliveries } from '../sync/deliver/deliver.ts'
import { createFlowService } from '../sync/engine/create-flow-service.ts'
import { createFlowEngine } from '../sync/engine/flow-engine.ts'
import { createHousekeeping } from '../sync/engine/housekeeping.ts'
import type { FlowService } from '../sync/flow-service.ts'
import { createGrantKeeper } from '../sync/oauth/grant-keeper.ts'
import type { Tracing } from '../tracing/tracing.ts'
import type { Config } from './config.ts'
import { buildControlApi } from './control-api.ts'
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
}

export type FlowSide = {
  app: HttpServer
  flows: FlowService
  /** Reads the flow files and starts to poll and to deliver. */
  start(): Promise<void>
  /** Ends the running polls and releases the leases of deliveries. Close the listener before, the database after. */
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
  const audit = createFlowAudit({ database, sealer: payments.sealer, now })
  const flowDatabase = database.withConnectionLimit(connectionsOf(database))
  const common = { database: flowDatabase, now, sleep, log, audit, processId: payments.processId }
  const mail = { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom }
  const deliveries = createDeliveries({ ...common, random: Math.random, trace: options.tracing })
  const grants = createGrantKeeper({ ...common, sealer: payments.sealer })
  const engine = createFlowEngine({
    ...common,
    flowsDir: config.flowsDir,
    files: createFlowContext(options.env, mail, ownSecrets(config.dataDir)),
    startPaused: config.flowsStartPaused,
    deliveries,
    notifications: options.notifications,
    payments: createPaymentsPort(payments),
    grants,
    trace: options.tracing,
    feeds: {
      listOrderChanges: createOrderFeed(database.db),
      listSettlementChanges: createSettlementFeed(database.db),
      listClosingChanges: createClosingFeed(database.db),
    },
  })
  const housekeeping = createHousekeeping({ ...common, engine, deliveries })
  const flows = createFlowService({
    ...common,
    // A request waits for the answer.
    database,
    engine,
    deliveries,
    longestWaitMs: options.longestWaitMs,
    testAlerts: options.notifications.testFlow,
  })
  const news = await createFlowNews({ database, deliveries, log })
  const app = await buildControlApi({
    flows,
    news,
    streams: options.streams,
    now,
    requireDatabase: () => requireDatabase(database),
    access: {
      auth: config.syncAuth,
      syncToken: config.syncToken,
      isBehindProxy: config.trustProxy.length > 0,
      metricsToken: config.metricsToken,
      authFailuresPerMinute: config.authFailuresPerMinute,
      audit: createAccessAudit({ database, sealer: payments.sealer, now, log }),
    },
    publicUrl: options.publicUrl,
    dashboardPage: options.pages?.dashboard,
    tracing: options.tracing,
    trustProxy: config.trustProxy,
    logger: options.logger,
    adminRoot: fileURLToPath(new URL('../../public/admin', import.meta.url)),
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
      await news.close()
    },
  }
}

/** For all flows together: a pool for each of hundreds of flows would leave no connection for charges. */
function connectionsOf(database: Database): number {
  return Math.max(1, Math.floor(database.connections().most * shareOfFlows))
}
