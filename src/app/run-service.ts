import { flushCompileCache } from 'node:module'
import { createServer } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { migrate, refuseNewerDatabase } from '../db/migrate.ts'
import type { EncryptionKey } from '../domain/encryption.ts'
import { buildInfo } from '../http/build-info.ts'
import { closeServer } from '../http/connections.ts'
import { findGoneLeader } from '../jobs/leader.ts'
import { requireFittingKeys } from '../payments/encryption/check-encryption-keys.ts'
import { rememberSetting } from '../repositories/settings.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { type Config, urlHost } from './config.ts'
import { isLoopback } from './config-schema.ts'
import { findProvider } from './find-provider.ts'
import type { FlowSide } from './flow-side.ts'
import { createPaymentSide, type PaymentSide } from './payment-side.ts'
import { ensureSecrets, findSecrets, keysSource, type Secrets } from './secrets-file.ts'
import { StartError } from './start-error.ts'
import type { StartupLog } from './startup-log.ts'
import { startupMessage } from './startup-message.ts'

/** A stop that takes longer ends the process with status 1. */
const stopWithinMs = 20_000
/** The part of it for running requests. */
const requestsWithinMs = 10_000
/** The part of that in which they may wait for the provider. The rest is for answering that the outcome is unknown. */
const providerWithinMs = 7_000

/** For that long the payment API has the process for itself. */
const headStartMs = 200

type Closer = { name: string; close(): Promise<unknown> }

type Start = {
  config: Config
  logger: Logger
  database: Database
  /** What a stop closes, in reverse order. */
  closers: Closer[]
}

/**
 * Starts both sides on an open database. A stop of the process closes all. Throws an OperatorError when they cannot
 * work with these settings, after the database was closed.
 */
export async function runService(
  config: Config,
  {
    logger,
    startupLog,
    database,
    env,
  }: {
    logger: Logger
    /** At a terminal only. */
    startupLog: StartupLog | undefined
    database: Database
    env: NodeJS.ProcessEnv
  },
): Promise<void> {
  const closers: Closer[] = [{ name: 'database', close: () => database.close() }]
  const started = Promise.withResolvers<void>()
  let ignoreSignals = () => {}
  const stop = async () => {
    for (const { name, close } of closers.splice(0).reverse()) {
      await close().catch((error: unknown) =>
        logger.error({ err: error, part: name }, 'stop failed'),
      )
    }
  }
  try {
    const start = { config, logger, database, closers }
    const payments = await buildPayments(start)
    ignoreSignals = stopAtSignal(logger, stop, started.promise)
    await listenForPayments(start, payments)
    const flows = await listenForFlows(start, payments, env)
    await report(start, payments, flows.url, startupLog)
    startFlows(flows.side, logger)
    started.resolve()
    // Node stores what it compiled at the end of a process, and a killed one has no such end.
    flushCompileCache()
  } catch (error) {
    started.resolve()
    // It also reacts to the normal end, and would report it as a success.
    ignoreSignals()
    await stop()
    throw error
  }
}

/** The payment side, and what the listeners are closed with. */
type Payments = Awaited<ReturnType<typeof buildPayments>>

async function buildPayments(start: Start) {
  const { config, logger, database, closers } = start
  const place = { name: 'payment API', host: config.host, settings: 'HOST and PORT' }
  const port = config.port === 0 ? await freePort(place) : config.port
  const publicUrl = config.publicUrlGiven
    ? config.publicUrl
    : config.publicUrl.replace(/:0$/, `:${port}`)

  await refuseNewerDatabase(database.db)
  // The tables are missing at the first start.
  const goneLeader = findGoneLeader(database).catch(() => undefined)
  const { adminToken, encryptionKeys, secrets } = await findKeys(config, database)
  await migrate(database, {
    log: (level, fields, message) => logger[level](fields, message),
  })
  await rememberMode(database, config)

  const { access, sandbox } = await findProvider(config, `http://127.0.0.1:${port}`, publicUrl)
  if (sandbox) closers.push({ name: 'sandbox', close: sandbox.close })
  const tracing = await findTracing(config, logger)
  if (tracing) closers.push({ name: 'tracing', close: () => tracing.close() })
  const service = await createPaymentSide({
    tracing,
    config,
    publicUrl,
    adminToken,
    encryptionKeys,
    providerAccess: access,
    database,
    logger,
  })
  closers.push({ name: 'service', close: service.close })
  const flows: { side?: FlowSide } = {}
  closers.push({ name: 'listeners', close: () => closeListeners(service, flows.side) })
  return { place, port, publicUrl, access, sandbox, secrets, tracing, service, flows, goneLeader }
}

/** At the same time: a long-poll and a running poll each get the whole time. */
function closeListeners(service: PaymentSide, flows: FlowSide | undefined): Promise<unknown> {
  setTimeout(service.cutShort, providerWithinMs).unref()
  return Promise.all([
    closeServer(service.app, { deadlineMs: requestsWithinMs }),
    flows && closeServer(flows.app, { deadlineMs: requestsWithinMs }).then(flows.close),
  ])
}

async function listenForPayments(
  { config, database }: Start,
  { service, place, port }: Payments,
): Promise<void> {
  await service.app.listen({ host: config.host, port }).catch((cause: unknown) => {
    throw cannotListen(place, port, cause)
  })
  service.chain.start()
  service.sweeper.start()
  service.paymentWatch.start()
  service.endpoints.start()
  service.deps.fleet.start()
  service.settlementJobs.start()
  // The embedded database analyzes its tables itself.
  if (database.engine === 'postgres') service.tableStatistics.start()
  service.notifications.start()
}

async function listenForFlows(
  { config, logger, database }: Start,
  { service, publicUrl, tracing, flows, goneLeader }: Payments,
  env: NodeJS.ProcessEnv,
): Promise<{ side: FlowSide; url: string }> {
  // The modules of flows load here and not before: loading blocks the event loop, and tills wait for this start.
  await wait(headStartMs)
  const { createFlowSide } = await import('./flow-side.ts')
  const { syncHost: host } = config
  const place = { name: 'control API', host, settings: 'SYNC_HOST and SYNC_PORT' }
  const port = config.syncPort === 0 ? await freePort(place) : config.syncPort
  const url = `http://${urlHost(host)}:${port}`
  // If both listeners are on loopback, who reaches one reaches the other.
  const areNear = config.publicIsLoopback && isLoopback(host)
  const reachedAt = config.syncPublicUrl ?? (areNear ? url : undefined)
  const side = await createFlowSide({
    tracing,
    config,
    publicUrl: config.syncPublicUrl ?? url,
    pages: {
      flows: reachedAt && `${reachedAt}/admin`,
      dashboard: reachedAt && `${publicUrl}/dashboard`,
    },
    database,
    payments: service.deps,
    notifications: service.notifications,
    logger,
    env,
    goneLeader,
  })
  flows.side = side
  await side.app.listen({ host, port }).catch((cause: unknown) => {
    throw cannotListen(place, port, cause)
  })
  return { side, url }
}

/** Says at the terminal and in the log that the service is ready, and where. */
async function report(
  { config, logger, database }: Start,
  { port, publicUrl, access, sandbox, secrets }: Payments,
  syncUrl: string,
  startupLog: StartupLog | undefined,
): Promise<void> {
  const tokenFile = config.adminToken === undefined && secrets ? resolve(secrets.path) : undefined
  if (startupLog) {
    process.stdout.write(
      startupMessage({
        url: `http://${urlHost(config.host)}:${port}`,
        syncUrl,
        publicUrl,
        mode: config.provider,
        sandboxUrl: sandbox?.url,
        database:
          config.databaseUrl === undefined
            ? `embedded, in ${resolve(config.dataDir)}`
            : 'PostgreSQL (DATABASE_URL)',
        tokenFile,
      }),
    )
    startupLog.show()
  }
  logger.info(
    {
      url: `http://${config.host}:${port}`,
      syncUrl,
      publicUrl,
      mode: config.provider,
      database: database.engine,
      ...(sandbox && { sandbox: sandbox.url }),
      ...(secrets && config.adminToken === undefined && { secrets: secrets.path }),
    },
    'tillbridge is ready',
  )
  for (const warning of await database.settingWarnings()) logger.warn({}, warning)
  if (config.provider === 'mercadopago' && access.webhookSecrets.length === 0) {
    logger.warn({}, 'MP_WEBHOOK_SECRETS is not set: webhooks are refused, orders are polled')
  }
}

/**
 * Stops the process at a signal. A signal during the start waits until the start is complete. Returns a function that
 * removes the handlers.
 */
function stopAtSignal(
  logger: Logger,
  stop: () => Promise<void>,
  started: Promise<void>,
): () => void {
  // By default it would also end the process at SIGHUP, which reloads the flow files.
  const grace = closeWithGrace(
    { delay: stopWithinMs, logger: false, skip: ['SIGHUP'] },
    async ({ err, signal }) => {
      if (err) logger.fatal({ err }, 'unrecoverable error: the process stops')
      else logger.info({ signal }, 'stopping')
      await started
      await stop()
      logger.info({}, 'stopped')
    },
  )
  return grace.uninstall
}

/** Flows start after the listeners. An error in their start does not stop the payment side. */
function startFlows(flowSide: FlowSide, logger: Logger): void {
  flowSide.start().catch((error: unknown) => {
    logger.error(
      { err: error },
      'flows not started; the payment API works. Fix the error and restart',
    )
  })
  process.on('SIGHUP', () => {
    flowSide.flows.reload('SIGHUP').catch((error: unknown) => {
      logger.error({ err: error }, 'flow files not reloaded')
    })
  })
}

type Keys = {
  adminToken: string
  encryptionKeys: readonly EncryptionKey[]
  secrets: Secrets | undefined
}

/**
 * The administrator token and the encryption keys; with the embedded database they are created at the first start.
 * Throws EncryptionKeysError before any change when the stored data needs other keys: with wrong keys the service would
 * start and fail every charge.
 */
async function findKeys(config: Config, database: Database): Promise<Keys> {
  const isEmbedded = config.databaseUrl === undefined
  const found = isEmbedded ? await findSecrets(config.dataDir) : undefined
  await requireFittingKeys(database.db, {
    keys: config.encryptionKeys ?? found?.encryptionKeys ?? [],
    source: keysSource(config, found),
  })
  const secrets = found ?? (isEmbedded ? await ensureSecrets(config.dataDir) : undefined)
  const adminToken = config.adminToken ?? secrets?.adminToken
  const encryptionKeys = config.encryptionKeys ?? secrets?.encryptionKeys
  if (adminToken === undefined || encryptionKeys === undefined) {
    throw new StartError('ADMIN_TOKEN and ENCRYPTION_KEYS are required')
  }
  return { adminToken, encryptionKeys, secrets }
}

/** Refuses a database of the other provider mode: a shop must never charge in a sandbox by mistake, or the reverse. */
async function rememberMode(database: Database, config: Config): Promise<void> {
  const remembered = await database.transaction((trx) =>
    rememberSetting(trx, 'provider_mode', config.provider, new Date()),
  )
  if (remembered !== config.provider) {
    throw new StartError(
      `This database belongs to PROVIDER=${remembered}, and the settings say ${config.provider}. ` +
        'Set PROVIDER and the MP_ variables as before, or use another database',
    )
  }
}

/** Loaded on demand, to keep the start fast. */
async function findTracing(
  { traces: { endpoint, headers } }: Config,
  log: Logger,
): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined
  const { Tracing } = await import('../tracing/tracing.ts')
  return new Tracing({ endpoint, headers, version: buildInfo.version, log })
}

/** The address of a listener, and its settings for a message. */
type Place = { name: string; host: string; settings: string }

function cannotListen({ name, host, settings }: Place, port: number, cause: unknown): StartError {
  return new StartError(`The ${name} cannot listen on ${urlHost(host)}:${port} (${settings})`, {
    cause,
  })
}

/** The sandbox needs our address before we listen, so a free port is chosen first. */
async function freePort(place: Place): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve, reject) => {
    probe.once('error', (cause) => reject(cannotListen(place, 0, cause)))
    probe.listen(0, place.host, resolve)
  })
  const address = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return typeof address === 'object' && address !== null ? address.port : 0
}
