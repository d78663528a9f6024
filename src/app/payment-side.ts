import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import { analyzeTables } from '../db/analyze-tables.ts'
import { startDatabaseClock } from '../db/clock.ts'
import type { Database } from '../db/database.ts'
import { createEncryption, type EncryptionKey } from '../domain/encryption.ts'
import { createFleet } from '../fleet/fleet.ts'
import { buildInfo } from '../http/build-info.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import type { OpenRequestLimits } from '../http/open-request-limit.ts'
import { type BackgroundJob, createBackgroundJob } from '../jobs/background-job.ts'
import { createSingleFlight } from '../jobs/single-flight.ts'
import { createUnfinishedWork } from '../jobs/unfinished-work.ts'
import { createPaymentMetrics } from '../metrics/payment-metrics.ts'
import { createNotifications, type Notifications } from '../notifications/notifications.ts'
import type { AttemptTimer } from '../outbound/outbound.ts'
import { createKeyUses } from '../payments/api-keys/key-uses.ts'
import { openAuditKey } from '../payments/audit/audit-key.ts'
import { type ActivityChain, createActivityChain } from '../payments/audit/seal-activity.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { createEventSource } from '../payments/events/event-source.ts'
import { createAccountPauses } from '../payments/operations/account-queues.ts'
import { monotonicNow } from '../payments/operations/request-context.ts'
import { createStatusCheckNotes } from '../payments/orders/check-and-retry-times.ts'
import { createForeignOrders } from '../payments/orders/foreign-orders.ts'
import { createOrderCallLog } from '../payments/orders/order-call-log.ts'
import { createOrderChanges } from '../payments/orders/order-changes.ts'
import { createSweeper, type Sweeper } from '../payments/orders/sweeper.ts'
import { createPasswords, type PasswordCost } from '../payments/people/passwords.ts'
import {
  createPaymentWatch,
  type PaymentWatch,
} from '../payments/provider-payments/watch-payments.ts'
import {
  createSettlementJobs,
  type SettlementJobs,
} from '../payments/settlements/settlement-jobs.ts'
import { createWebhookInbox, type WebhookInbox } from '../payments/webhooks/webhook-inbox.ts'
import { createCallLog, createProviderHealth } from '../provider/client.ts'
import { createProvider, createProviderClock } from '../provider/provider.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { type Config, knownHostsOf } from './config.ts'
import { buildPaymentApi } from './payment-api.ts'

/** The address of the provider and our application there. */
export type ProviderAccess = {
  apiUrl: string
  authUrl: string
  clientId: string
  clientSecret: string
  webhookSecrets: readonly string[]
}

type PaymentSideOptions = {
  config: Config
  /** The address that the provider redirects to: the setting, or the bound port if PORT is 0. */
  publicUrl: string
  adminToken: string
  encryptionKeys: readonly EncryptionKey[]
  providerAccess: ProviderAccess
  /** Open and migrated. The caller closes it after the service. */
  database: Database
  logger: Logger
  /** The database's clock when absent. */
  now?: () => Date
  /** The clock that the database's clock is compared with; for tests. */
  monotonicMs?: () => number
  /** The clock of deadlines; for tests. `performance.now` when absent. */
  stopwatch?: () => number
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** Ends a call to the provider at its deadline; for tests. */
  providerTimer?: AttemptTimer
  /** Limits of event streams; for tests. */
  streams?: Partial<StreamLimits>
  /** How many long-polls may wait; for tests. */
  waits?: OpenRequestLimits
  /** What a new password costs; for tests. */
  passwordCost?: PasswordCost
  /** Set when the settings ask for traces. */
  tracing?: Tracing | undefined
}

export type PaymentSide = {
  app: HttpServer
  deps: PaymentDeps
  inbox: WebhookInbox
  sweeper: Sweeper
  /** Reads the provider's payments. */
  paymentWatch: PaymentWatch
  /** Fetches reports, and computes nets by new rules. */
  settlementJobs: SettlementJobs
  /** Seals the audit log. */
  chain: ActivityChain
  /** Analyzes tables that have no statistics, those of flows included. For PostgreSQL. */
  tableStatistics: BackgroundJob<void>
  notifications: Notifications
  /** Answers requests that still wait for the provider with an unknown outcome, for a stop. */
  cutShort(): void
  /** Ends background jobs and the provider's connections. Close the listener before, the database after. */
  close(): Promise<void>
}

/** A first import fills a table within seconds. */
const statisticsEveryMs = 5_000
/** How long a stop tries to store what only this process has. */
const storeWithinMs = 5_000

/**
 * Builds the payment side. Nothing runs yet: plan the search for orders, listen on `app`, then start the chain and the
 * background jobs.
 */
export async function createPaymentSide(options: PaymentSideOptions): Promise<PaymentSide> {
  const { config, database, logger } = options
  const clock = options.now
    ? { now: options.now, stop: () => undefined }
    : await startDatabaseClock(database, {
        ...(options.monotonicMs && { monotonicMs: options.monotonicMs }),
        log: (level, fields, message) => logger[level](fields, message),
      })
  const { now } = clock
  const sleep =
    options.sleep ??
    ((ms: number, signal?: AbortSignal) => wait(ms, undefined, signal && { signal }))
  const stopwatch = options.stopwatch ?? monotonicNow
  const health = createProviderHealth(now)
  const providerClock = createProviderClock(now, logger)
  const calls = createOrderCallLog(database, now, logger)
  const changes = await createOrderChanges(database)
  const processId = randomUUID()
  const job = { database, now, sleep, processId, log: logger }
  const fleet = createFleet(job)
  const metrics = createPaymentMetrics({
    database,
    now,
    waitingTills: changes.waiting,
    publicUrl: options.publicUrl,
    dataDir: config.dataDir,
    troubleOf: fleet.troubleOf,
    build: { version: buildInfo.version, commit: buildInfo.commit, mode: config.provider },
    log: logger,
  })
  const provider = createProvider({
    ...options.providerAccess,
    timeoutMs: config.providerTimeoutMs,
    posApi: config.mpPosApi,
    now,
    monotonicMs: stopwatch,
    sleep,
    ...(options.providerTimer && { timer: options.providerTimer }),
    onDate: providerClock.note,
    observers: [
      health.note,
      metrics.recordProviderCall,
      ...(options.tracing ? [options.tracing.recordProviderCall] : []),
      calls.recordProviderCall,
      createCallLog(logger),
    ],
  })
  const events = await createEventSource(database, changes)
  const startedAt = now()
  const encryption = createEncryption(options.encryptionKeys)
  const deps: PaymentDeps = {
    database,
    provider,
    encryption,
    auditKey: await openAuditKey(database, encryption, startedAt),
    changes,
    calls,
    keyUses: createKeyUses(database, now, logger),
    statusChecks: createStatusCheckNotes(database, startedAt, now, logger),
    fleet,
    events,
    once: createSingleFlight(),
    foreignOrders: createForeignOrders(),
    passwords: createPasswords(options.passwordCost),
    unfinished: createUnfinishedWork(),
    wakeSweeper: () => sweeper.wake(),
    now,
    providerClock,
    stopwatch,
    sleep,
    log: logger,
    recordMove: metrics.recordMove,
    processId,
    startedAt,
    settings: {
      publicUrl: options.publicUrl,
      posCreateDelayMs: config.posCreateDelayMs,
      duplicateOrderGuard: config.duplicateOrderGuard,
      sendTicketNumber: config.mpSendTicketNumber,
      maskTokens: config.adminMaskTokens,
      enrolment: config.oauthEnrolment,
      oauthTargetOrigins: config.oauthTargetOrigins,
      webhookSecrets: options.providerAccess.webhookSecrets,
      // Gateways delay a request for up to a minute, six times our time limit.
      lateArrivalMs: 6 * config.providerTimeoutMs,
      searchLagMs: config.searchLagMs,
    },
  }
  const pauses = createAccountPauses()
  const rhythm = { intervalMs: config.sweepIntervalMs }
  const inbox = createWebhookInbox(deps, pauses, rhythm)
  const sweeper = createSweeper(deps, inbox, pauses, { ...rhythm, keep: config.keep })
  const paymentWatch = createPaymentWatch(deps)
  const settlementJobs = createSettlementJobs(deps)
  const chain = createActivityChain(deps)
  const tableStatistics = createBackgroundJob(job, {
    name: 'table-statistics',
    intervalMs: statisticsEveryMs,
    waitsFirst: true,
    run: (signal) => analyzeTables(database, 'never analyzed', signal),
  })
  const notifications = createNotifications(
    { ...job, mail: { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom } },
    config.alerts,
  )
  const app = await buildPaymentApi({
    deps,
    inbox,
    testAlerts: notifications.test,
    health: {
      mode: config.provider,
      sandboxUrl: config.provider === 'sandbox' ? options.providerAccess.apiUrl : undefined,
      provider: health.read,
      providerClock: providerClock.read,
    },
    metrics,
    adminToken: options.adminToken,
    knownHosts: knownHostsOf(config, options.publicUrl),
    config,
    logger,
    streams: options.streams,
    waits: options.waits,
    tracing: options.tracing,
  })
  return {
    app,
    deps,
    inbox,
    sweeper,
    paymentWatch,
    settlementJobs,
    chain,
    tableStatistics,
    notifications,
    cutShort: () => provider.cutShort(),
    async close() {
      await Promise.all([
        notifications.stop(),
        sweeper.stop(),
        paymentWatch.stop(),
        fleet.stop(),
        settlementJobs.stop(),
        tableStatistics.stop(),
      ])
      await deps.unfinished.end(storeWithinMs)
      // After everything that still writes to the log.
      await chain.stop()
      await events.close()
      await changes.close()
      await provider.close()
      await calls.close()
      await deps.keyUses.flush()
      await deps.statusChecks.flush()
      clock.stop()
    },
  }
}
