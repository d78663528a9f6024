import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import { buildControlApi } from './control-api.ts'
import type { Database } from './db/database.ts'
import { createPaymentsPort } from './flow-payments.ts'
import type { HttpServer } from './http/create-server.ts'
import type { StreamLimits } from './http/event-stream.ts'
import { requireDatabase } from './http/require-database.ts'
import type { PaymentDeps } from './payments/deps.ts'
import { createOrderFeed } from './payments/order-feed.ts'
import { createAlerts } from './sync/alerts/alerts.ts'
import { createFlowNews } from './sync/control/flow-news.ts'
import { createDeliveries } from './sync/deliver/deliver.ts'
import { createFlowService } from './sync/engine/create-flow-service.ts'
import { createFlowEngine } from './sync/engine/flow-engine.ts'
import { createHousekeeping } from './sync/engine/housekeeping.ts'
import { isInWindow } from './sync/engine/window.ts'
import type { FlowService } from './sync/flow-service.ts'

export type FlowSideOptions = {
  config: Config
  /** Address under which operators reach the control API. */
  publicUrl: string
  database: Database
  /** The payment side, for flows that feed it or read its orders. */
  payments: PaymentDeps
  logger: Logger
  /** For `${env:NAME}` in flow files. */
  env: Readonly<Record<string, string | undefined>>
  /** The payment side's clock when absent. */
  now?: () => Date
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** How long and how many streams of events may be; for tests. */
  streams?: Partial<StreamLimits>
}

export type FlowSide = {
  app: HttpServer
  flows: FlowService
  /** Reads the flow files and begins to poll and to deliver. */
  start(): Promise<void>
  /** Ends the polls in progress, gives back what is in hand. Close the listener before, the database after. */
  close(): Promise<void>
}

/** Puts the flow side together. Nothing runs yet: listen on `app` and start. */
export async function createFlowSide(options: FlowSideOptions): Promise<FlowSide> {
  const { config, database, payments } = options
  const now = options.now ?? payments.now
  const sleep =
    options.sleep ??
    ((ms: number, signal?: AbortSignal) => wait(ms, undefined, signal && { signal }))
  const log = options.logger.child({ part: 'flows' })
  const common = { database, now, sleep, log, processId: payments.processId }
  const mail = { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom }
  const deliveries = createDeliveries({ ...common, random: Math.random })
  const alerts = createAlerts({ ...common, mail, isInWindow })
  const engine = createFlowEngine({
    ...common,
    flowsDir: config.flowsDir,
    files: { env: options.env, readFile: (path) => readFileSync(path, 'utf8'), mail },
    startPaused: config.flowsStartPaused,
    deliveries,
    alerts,
    payments: createPaymentsPort(payments),
    orders: { listOrderChanges: createOrderFeed(database.db) },
  })
  const housekeeping = createHousekeeping({ ...common, engine, deliveries })
  const flows = createFlowService({
    ...common,
    engine,
    deliveries,
    testAlerts: (flow) => alerts.test(flow),
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
      authFailuresPerMinute: config.authFailuresPerMinute,
    },
    publicUrl: options.publicUrl,
    trustProxy: config.trustProxy,
    logger: options.logger,
    adminRoot: fileURLToPath(new URL('../public/admin', import.meta.url)),
  })
  return {
    app,
    flows,
    async start() {
      await engine.load()
      engine.start()
      alerts.start()
      housekeeping.start()
    },
    async close() {
      await engine.stop()
      await Promise.all([alerts.stop(), housekeeping.stop()])
      await news.close()
    },
  }
}
