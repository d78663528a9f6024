import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import { analyzeTables } from '../db/analyze-tables.ts'
import { startDatabaseClock } from '../db/clock.ts'
import type { Database } from '../db/database.ts'
import { createEncryption, type EncryptionKey } from '../domain/encryption.ts'
import { Fleet } from '../fleet/fleet.ts'
import { buildInfo } from '../http/build-info.ts'
import type { HttpServer } from '../http/create-server.ts'
import type { StreamLimits } from '../http/event-stream.ts'
import type { OpenRequestLimits } from '../http/open-request-limit.ts'
import { type BackgroundJob, createBackgroundJob } from '../jobs/background-job.ts'
import { createSingleFlight } from '../jobs/single-flight.ts'
import { createUnfinishedWork } from '../jobs/unfinished-work.ts'
import { createPaymentMetrics } from '../metrics/payment-metrics.ts'
import { Notifications } from '../notifications/notifications.ts'
import type { AttemptTimer } from '../outbound/outbound.ts'
import { openAuditKey } from '../payments/audit/audit-key.ts'
import { type ActivityChain, createActivityChain } from '../payments/audit/seal-activity.ts'
import { createSweeper, type Sweeper } from '../payments/background/sweeper.ts'
import { PaymentWatch } from '../payments/background/watch-payments.ts'
import type { PaymentDeps } from '../payments/deps.ts'
import { EndpointDispatcher } from '../payments/events/endpoint-dispatcher.ts'
import { createAccountPauses } from '../payments/operations/account-queues.ts'
import { createEndpointClient } from '../payments/process/endpoint-client.ts'
import { createEventSource } from '../payments/process/event-source.ts'
import { createForeignOrders } from '../payments/process/foreign-orders.ts'
import { createKeyUses } from '../payments/process/key-uses.ts'
import { createOrderCallLog } from '../payments/process/order-call-log.ts'
import { createOrderChanges } from '../payments/process/order-changes.ts'
import { createPasswords, type PasswordCost } from '../payments/process/passwords.ts'
import { createStatusCheckNotes } from '../payments/process/status-check-notes.ts'
import { monotonicNow } from '../payments/request-context.ts'
import {
  createSettlementJobs,
  type SettlementJobs,
} from '../payments/settlements/settlement-jobs.ts'
import { createWebhookInbox, type WebhookInbox } from '../payments/webhooks/webhook-inbox.ts'
import { createCallLog, createProviderHealth } from '../provider/client.ts'
import { createProvider, createProviderClock, type ProviderCallLog } from '../provider/provider.ts'
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
  /** Sends events to endpoints. */
  endpoints: EndpointDispatcher
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
  const { config, logger } = options
  const base = await createBase(options)
  const provider = createProviderSide(options, base)
  const deps = await createDeps(options, base, provider, () => jobs.sweeper.wake())
  const jobs = createJobs(options, base, deps)
  const app = await buildPaymentApi({
    deps,
    inbox: jobs.inbox,
    testAlerts: () => jobs.notifications.test(),
    health: {
      mode: config.provider,
      sandboxUrl: config.provider === 'sandbox' ? options.providerAccess.apiUrl : undefined,
      provider: provider.health.read,
      providerClock: provider.clock.read,
    },
    metrics: base.metrics,
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
    ...jobs,
    cutShort: () => provider.client.cutShort(),
    async close() {
      await Promise.all([
        jobs.notifications.stop(),
        jobs.sweeper.stop(),
        jobs.paymentWatch.stop(),
        jobs.endpoints.stop(),
        deps.fleet.stop(),
        jobs.settlementJobs.stop(),
        jobs.tableStatistics.stop(),
      ])
      await deps.unfinished.end(storeWithinMs)
      // After everything that still writes to the log.
      await jobs.chain.stop()
      await deps.events.close()
      await deps.changes.close()
      await provider.client.close()
      await deps.endpointClient.close()
      await deps.calls.close()
      await deps.keyUses.flush()
      await deps.statusChecks.flush()
      base.stopClock()
    },
  }
}

type Base = Awaited<ReturnType<typeof createBase>>

/** Time, what background jobs need, how everything fares, and its figures. */
async function createBase(options: PaymentSideOptions) {
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
  const changes = await createOrderChanges(database)
  const job = { database, now, sleep, processId: randomUUID(), log: logger }
  const fleet = new Fleet(job)
  const metrics = createPaymentMetrics({
    database,
    now,
    waitingTills: changes.waiting,
    publicUrl: options.publicUrl,
    dataDir: config.dataDir,
    fleet,
    build: { version: buildInfo.version, commit: buildInfo.commit, mode: config.provider },
    log: logger,
  })
  return {
    job,
    stopwatch: options.stopwatch ?? monotonicNow,
    stopClock: clock.stop,
    changes,
    calls: createOrderCallLog(database, now, logger),
    fleet,
    metrics,
  }
}

type ProviderSide = ReturnType<typeof createProviderSide>

/** The provider's API, and what observes its calls. */
function createProviderSide(options: PaymentSideOptions, { job, stopwatch, metrics, calls }: Base) {
  const { config, logger, tracing } = options
  const health = createProviderHealth(job.now)
  const clock = createProviderClock(job.now, logger)
  const client = createProvider({
    ...options.providerAccess,
    timeoutMs: config.providerTimeoutMs,
    posApi: config.mpPosApi,
    now: job.now,
    monotonicMs: stopwatch,
    sleep: job.sleep,
    ...(options.providerTimer && { timer: options.providerTimer }),
    onDate: clock.note,
    observers: [
      health.note,
      metrics.recordProviderCall,
      ...(tracing ? [(call: ProviderCallLog) => tracing.recordProviderCall(call)] : []),
      calls.recordProviderCall,
      createCallLog(logger),
    ],
  })
  return { client, health, clock }
}

/** What the rules of money are given. */
async function createDeps(
  options: PaymentSideOptions,
  { job, stopwatch, changes, calls, fleet, metrics }: Base,
  provider: ProviderSide,
  wakeSweeper: () => void,
): Promise<PaymentDeps> {
  const { database, logger } = options
  const { now, sleep, processId } = job
  const startedAt = now()
  const encryption = createEncryption(options.encryptionKeys)
  return {
    database,
    provider: provider.client,
    encryption,
    auditKey: await openAuditKey(database, encryption, startedAt),
    changes,
    calls,
    keyUses: createKeyUses(database, now, logger),
    statusChecks: createStatusCheckNotes(database, startedAt, now, logger),
    fleet,
    events: await createEventSource(database, changes),
    endpointClient: createEndpointClient(
      { now, stopwatch, recordAttempt: metrics.recordEventAttempt },
      { allowPrivateNetwork: options.config.eventsPrivateNetwork },
    ),
    once: createSingleFlight(),
    foreignOrders: createForeignOrders(),
    passwords: createPasswords(options.passwordCost),
    unfinished: createUnfinishedWork(),
    wakeSweeper,
    now,
    providerClock: provider.clock,
    stopwatch,
    sleep,
    log: logger,
    recordMove: metrics.recordMove,
    processId,
    startedAt,
    settings: settingsOf(options),
  }
}

function settingsOf({
  config,
  publicUrl,
  providerAccess,
}: PaymentSideOptions): PaymentDeps['settings'] {
  return {
    publicUrl,
    posCreateDelayMs: config.posCreateDelayMs,
    duplicateOrderGuard: config.duplicateOrderGuard,
    sendTicketNumber: config.mpSendTicketNumber,
    maskTokens: config.adminMaskTokens,
    enrolment: config.oauthEnrolment,
    oauthTargetOrigins: config.oauthTargetOrigins,
    webhookSecrets: providerAccess.webhookSecrets,
    // Gateways delay a request for up to a minute, six times our time limit.
    lateArrivalMs: 6 * config.providerTimeoutMs,
    searchLagMs: config.searchLagMs,
  }
}

/** What works beside the requests. */
function createJobs({ config, database }: PaymentSideOptions, { job }: Base, deps: PaymentDeps) {
  const pauses = createAccountPauses()
  const inbox = createWebhookInbox(deps, pauses)
  return {
    inbox,
    sweeper: createSweeper(deps, inbox, pauses, {
      intervalMs: config.sweepIntervalMs,
      keep: config.keep,
    }),
    paymentWatch: new PaymentWatch(deps),
    endpoints: new EndpointDispatcher(deps),
    settlementJobs: createSettlementJobs(deps),
    chain: createActivityChain(deps),
    tableStatistics: createBackgroundJob(job, {
      name: 'table-statistics',
      intervalMs: statisticsEveryMs,
      waitsFirst: true,
      run: (signal) => analyzeTables(database, 'never analyzed', signal),
    }),
    notifications: new Notifications(
      { ...job, mail: { smtpUrl: config.smtpUrl, mailFrom: config.mailFrom } },
      config.alerts,
    ),
  }
}
