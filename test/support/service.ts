import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { type Sandbox, startSandbox } from '../../sandbox/server.ts'
import { loadConfig } from '../../src/app/config.ts'
import {
  createPaymentSide,
  type PaymentSide,
  type ProviderAccess,
} from '../../src/app/payment-side.ts'
import type { Database } from '../../src/db/database.ts'
import type { EncryptionKey } from '../../src/domain/encryption.ts'
import type { StreamLimits } from '../../src/http/event-stream.ts'
import { createLogger } from '../../src/http/logging.ts'
import type { OpenRequestLimits } from '../../src/http/open-request-limit.ts'
import type { Tracing } from '../../src/tracing/tracing.ts'
import { openTestDatabase } from './database.ts'
import { testSettings } from './test-settings.ts'
import { createUnansweredCalls, type UnansweredCalls } from './unanswered-calls.ts'

export const adminToken = 'admin-token-for-tests-0123456789abcdef'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

/** A clock that stands on the real time until a test moves it. */
export class TestClock {
  #offsetMs = 0
  now = (): Date => new Date(Date.now() + this.#offsetMs)
  advance(ms: number): void {
    this.#offsetMs += ms
  }
  /** What follows within `ms` is of one day of the shops (UTC-3): where midnight is nearer than that, the next day begins now. */
  stayInOneDay(ms: number): void {
    const leftMs = dayMs - ((this.now().getTime() - 3 * hourMs) % dayMs)
    if (leftMs < ms) this.advance(leftMs)
  }
}

/** The true time, whatever a test does to `Date`. */
const steady = () => new Date(performance.timeOrigin + performance.now())

export type TestService = PaymentSide & {
  database: Database
  encryptionKeys: EncryptionKey[]
  clock: TestClock
  sandbox: Sandbox
  silence: UnansweredCalls
  /** What the service slept, in milliseconds, in order; a sleep returns at once. */
  sleeps: number[]
  /** Runs in each sleep of the service while it is set. */
  onSleep: { current?: (() => Promise<void>) | undefined }
  /** Lines of the service's log. */
  logLines: string[]
  stop(): Promise<void>
}

export type TestServiceOptions = {
  env?: Record<string, string>
  /** Another provider than the sandbox, for single edge answers. */
  provider?: Partial<ProviderAccess>
  /** Use this database instead of a new one; it is not closed at the end. */
  database?: Database
  /** Secrets of the sandbox application; the provider signs with the first. */
  webhookSecrets?: string[]
  /** A second process beside this one: its database, clock and keys, and the same provider. */
  twinOf?: TestService
  /** Another ADMIN_TOKEN than that of all tests. */
  adminToken?: string
  /** Base of the OAuth redirect, and the only one that the sandbox then accepts. */
  publicUrl?: string
  streams?: Partial<StreamLimits>
  waits?: OpenRequestLimits
  tracing?: Tracing
  /** By the database's clock, as a real process is, and `clock` moves nothing. */
  ownTime?: boolean
  /** How far the clock of the service is ahead of the provider's. */
  aheadMs?: number
  /** Calls that the provider leaves without an answer have their timeout at once. */
  hangsAreShort?: boolean
  /** With `hangsAreShort`: hears how long such a timeout would have been. */
  onTimeout?: (ms: number) => void
  /** What deadlines go by. */
  stopwatch?: () => number
  /** With `ownTime`: the clock of the process that nobody sets. */
  monotonicMs?: () => number
}

/** Of all services: they may follow each other on one database. */
const keysOfTests: EncryptionKey[] = [{ id: 'k1', key: randomBytes(32) }]

/**
 * The real service on a real database against the sandbox provider, without a listening socket of its own: requests go
 * through `app.inject`. Webhooks of the sandbox are handed over by `deliverWebhooks` in payment.ts, or never.
 */
export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const clock = options.twinOf?.clock ?? new TestClock()
  const silence = options.twinOf?.silence ?? createUnansweredCalls(options.onTimeout)
  const sandbox =
    options.twinOf?.sandbox ??
    (await startSandbox({
      port: 0,
      pace: { fetchMs: 0, eventMs: 0 },
      now: options.ownTime ? steady : clock.now,
      webhookRetryMs: [20],
      onHang: silence.begin,
      ...(options.webhookSecrets && { webhookSecrets: options.webhookSecrets }),
      ...(options.publicUrl && { redirectUris: [`${options.publicUrl}/oauth/callback`] }),
    }))
  const database = options.database ?? options.twinOf?.database ?? (await openTestDatabase())
  const encryptionKeys = options.twinOf?.encryptionKeys ?? keysOfTests
  const sleeps: number[] = []
  const onSleep: TestService['onSleep'] = {}
  const logLines: string[] = []
  const logger = createLogger('info', { write: (line: string) => void logLines.push(line) })
  // A test asks as fast as its machine can, and is not about limits unless it says so.
  const unlimited = { RATE_LIMIT_PER_SECOND: '1000000' }
  const config = loadConfig({ ...testSettings, ...unlimited, ...options.env })
  const service = await createPaymentSide({
    config,
    publicUrl: options.publicUrl ?? 'http://127.0.0.1:3000',
    adminToken: options.adminToken ?? adminToken,
    encryptionKeys,
    providerAccess: {
      apiUrl: sandbox.url,
      authUrl: sandbox.url,
      clientId: sandbox.info.client_id,
      clientSecret: sandbox.info.client_secret,
      webhookSecrets: sandbox.info.webhook_secrets,
      ...options.provider,
    },
    database,
    logger,
    ...(options.hangsAreShort && { providerTimer: silence.timer }),
    ...(options.streams && { streams: options.streams }),
    ...(options.waits && { waits: options.waits }),
    // A password of a test need not cost 0.1 s of a processor.
    passwordCost: { log2N: 10, r: 8, p: 1 },
    tracing: options.tracing,
    ...(!options.ownTime && {
      now: () => new Date(clock.now().getTime() + (options.aheadMs ?? 0)),
    }),
    ...(options.stopwatch && { stopwatch: options.stopwatch }),
    ...(options.monotonicMs && { monotonicMs: options.monotonicMs }),
    sleep: async (ms) => {
      sleeps.push(ms)
      await onSleep.current?.()
      // Yields, so that a loop of sleeps never starves the sockets.
      await wait(1)
    },
  })
  await service.app.ready()
  return {
    ...service,
    database,
    encryptionKeys,
    clock,
    sandbox,
    silence,
    sleeps,
    onSleep,
    logLines,
    async stop() {
      await service.app.close()
      await service.close()
      if (options.twinOf) return
      await sandbox.close()
      if (!options.database) await database.close()
    },
  }
}
