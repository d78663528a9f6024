import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import { startDatabaseClock } from './db/clock.ts'
import type { Database } from './db/database.ts'
import { createSealer, type EncryptionKey } from './domain/sealed.ts'
import type { HttpServer } from './http/create-server.ts'
import type { StreamLimits } from './http/event-stream.ts'
import type { PlaceLimits } from './http/places.ts'
import { buildPaymentApi } from './payment-api.ts'
import { createAccountPauses } from './payments/account-pauses.ts'
import type { PaymentDeps } from './payments/deps.ts'
import { createLastingWork } from './payments/lasting-work.ts'
import { createNews } from './payments/news.ts'
import { createOrderCalls } from './payments/order-calls.ts'
import { createOrderChanges } from './payments/order-changes.ts'
import { createOrderSearch, type OrderSearch } from './payments/search-orders.ts'
import { createSingleFlight } from './payments/single-flight.ts'
import { createStrangers } from './payments/strangers.ts'
import { createSweeper, type Sweeper } from './payments/sweeper.ts'
import { createWebhookInbox, type WebhookInbox } from './payments/webhook-inbox.ts'
import { createProviderHealth } from './provider/health.ts'
import { createProvider, type ProviderCallLog } from './provider/provider.ts'

/** Where the provider is and who we are there. */
export type ProviderAccess = {
  apiUrl: string
  authUrl: string
  clientId: string
  clientSecret: string
  webhookSecrets: readonly string[]
}

export type ServiceOptions = {
  config: Config
  /** The address that the provider redirects to; the setting, or the bound port when that is open. */
  publicUrl: string
  adminToken: string
  encryptionKeys: readonly EncryptionKey[]
  providerAccess: ProviderAccess
  /** Open and migrated. The caller closes it after the service. */
  database: Database
  logger: Logger
  /** The database's clock when absent. */
  now?: () => Date
  /** What the database's clock is measured against; for tests. */
  monotonicMs?: () => number
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** How long and how many streams of events may be; for tests. */
  streams?: Partial<StreamLimits>
  /** How many long-polls may wait; for tests. */
  waits?: PlaceLimits
}

export type Service = {
  app: HttpServer
  deps: PaymentDeps
  inbox: WebhookInbox
  sweeper: Sweeper
  orderSearch: OrderSearch
  /** Requests that still wait for the provider are answered now, with an unknown outcome: for a stop that must not wait. */
  cutShort(): void
  /** Ends background work and the provider's connections. Close the listener before, the database after. */
  close(): Promise<void>
}

/** How long a stop goes on trying to store what only this process has. */
const storeWithinMs = 5_000

/**
 * Puts the payment side together. Nothing runs yet: plan the search for orders, listen on `app`, and start the sweeper and
 * the search.
 */
export async function createService(options: ServiceOptions): Promise<Service> {
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
  const health = createProviderHealth(now)
  const calls = createOrderCalls(database, logger)
  const provider = createProvider({
    apiUrl: options.providerAccess.apiUrl,
    authUrl: options.providerAccess.authUrl,
    clientId: options.providerAccess.clientId,
    clientSecret: options.providerAccess.clientSecret,
    timeoutMs: config.providerTimeoutMs,
    posApi: config.mpPosApi,
    now,
    sleep,
    log: (entry) => {
      health.note(entry)
      calls.noteProviderCall(entry, now())
      logProviderCall(logger, entry)
    },
  })
  const changes = await createOrderChanges(database)
  const news = await createNews(database, changes)
  const deps: PaymentDeps = {
    database,
    provider,
    sealer: createSealer(options.encryptionKeys),
    changes,
    calls,
    news,
    once: createSingleFlight(),
    strangers: createStrangers(),
    lasting: createLastingWork(),
    now,
    sleep,
    log: logger,
    processId: randomUUID(),
    settings: {
      publicUrl: options.publicUrl,
      posCreateDelayMs: config.posCreateDelayMs,
      duplicateOrderGuard: config.duplicateOrderGuard,
      sendTicketNumber: config.mpSendTicketNumber,
      maskTokens: config.adminMaskTokens,
      enrolment: config.oauthEnrolment,
      oauthTargetOrigins: config.oauthTargetOrigins,
      webhookSecrets: options.providerAccess.webhookSecrets,
      // Gateways hold a request for up to a minute, six times what we wait.
      lateArrivalMs: 6 * config.providerTimeoutMs,
    },
  }
  const pauses = createAccountPauses()
  const rhythm = { intervalMs: config.sweepIntervalMs }
  const inbox = createWebhookInbox(deps, pauses, rhythm)
  const sweeper = createSweeper(deps, inbox, pauses, rhythm)
  const orderSearch = createOrderSearch(deps)
  const app = await buildPaymentApi({
    deps,
    inbox,
    health: { mode: config.provider, provider: health.read },
    adminToken: options.adminToken,
    rateLimitPerSecond: config.rateLimitPerSecond,
    authFailuresPerMinute: config.authFailuresPerMinute,
    trustProxy: config.trustProxy,
    logger,
    dashboardRoot: fileURLToPath(new URL('../public/dashboard', import.meta.url)),
    streams: options.streams,
    waits: options.waits,
  })
  return {
    app,
    deps,
    inbox,
    sweeper,
    orderSearch,
    cutShort: () => provider.cutShort(),
    async close() {
      await Promise.all([sweeper.stop(), orderSearch.stop()])
      await deps.lasting.end(storeWithinMs)
      await news.close()
      await changes.close()
      await provider.close()
      await calls.close()
      clock.stop()
    },
  }
}

function logProviderCall(logger: Logger, { about, ...call }: ProviderCallLog): void {
  const failed = call.status === null || call.status >= 500
  const entry = { ...call, ...about }
  if (failed) logger.warn(entry, 'provider call failed')
  else logger.info(entry, 'provider call')
}
