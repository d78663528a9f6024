import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { Config } from './config.ts'
import type { Database } from './db/database.ts'
import { createSealer, type EncryptionKey } from './domain/sealed.ts'
import type { HttpServer } from './http/create-server.ts'
import { buildPaymentApi } from './payment-api.ts'
import type { PaymentDeps } from './payments/deps.ts'
import { createOrderChanges } from './payments/order-changes.ts'
import { createSingleFlight } from './payments/single-flight.ts'
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
  now?: () => Date
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
}

export type Service = {
  app: HttpServer
  deps: PaymentDeps
  inbox: WebhookInbox
  sweeper: Sweeper
  /** Ends background work and the provider's connections. Close the listener before, the database after. */
  close(): Promise<void>
}

/** Puts the payment side together. Nothing runs yet: listen on `app` and start the sweeper. */
export async function createService(options: ServiceOptions): Promise<Service> {
  const { config, database, logger } = options
  const now = options.now ?? (() => new Date())
  const sleep =
    options.sleep ??
    ((ms: number, signal?: AbortSignal) => wait(ms, undefined, signal && { signal }))
  const health = createProviderHealth(now)
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
      logProviderCall(logger, entry)
    },
  })
  const changes = await createOrderChanges(database)
  const deps: PaymentDeps = {
    database,
    provider,
    sealer: createSealer(options.encryptionKeys),
    changes,
    once: createSingleFlight(),
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
    },
  }
  const inbox = createWebhookInbox(deps)
  const sweeper = createSweeper(deps, inbox, { intervalMs: config.sweepIntervalMs })
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
  })
  return {
    app,
    deps,
    inbox,
    sweeper,
    async close() {
      await sweeper.stop()
      await inbox.idle()
      await changes.close()
      await provider.close()
    },
  }
}

function logProviderCall(logger: Logger, entry: ProviderCallLog): void {
  const failed = entry.status === null || entry.status >= 500
  if (failed) logger.warn(entry, 'provider call failed')
  else logger.info(entry, 'provider call')
}
