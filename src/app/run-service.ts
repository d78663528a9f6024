import { createServer } from 'node:net'
import { join } from 'node:path'
import closeWithGrace from 'close-with-grace'
import type { Logger } from 'pino'
import { openToBackups } from '../backup/open-to-backups.ts'
import type { Database } from '../db/database.ts'
import { migrate, refuseNewerDatabase } from '../db/migrate.ts'
import type { EncryptionKey } from '../domain/sealed.ts'
import { OperatorError } from '../errors/operator-error.ts'
import { product } from '../http/product.ts'
import { closeServer } from '../http/shutdown.ts'
import { requireFittingKeys } from '../payments/encryption/encryption-keys.ts'
import { rememberSetting } from '../repositories/settings.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { type Config, urlHost } from './config.ts'
import { isLoopback } from './config-schema.ts'
import { createFlowSide, type FlowSide } from './flow-side.ts'
import { createPaymentSide, type ProviderAccess } from './payment-side.ts'
import { ensureSecrets, findSecrets, keysSource, type Secrets } from './secrets-file.ts'

/** All of a stop happens within this time, or the process ends with status 1. */
const stopWithinMs = 20_000
/** Of it, what running requests get. */
const requestsWithinMs = 10_000
/** Of that, how long they may wait for the provider: the rest is for saying that the outcome is unknown. */
const providerWithinMs = 7_000

/** A start that cannot work. */
class StartError extends OperatorError {}

type Closer = { name: string; close(): Promise<unknown> }

/**
 * Starts both sides on an open database, which is closed with them when the process is told to stop. Throws an OperatorError
 * when they cannot work as they are set up, after the database was closed.
 */
export async function runService(
  config: Config,
  { logger, database, env }: { logger: Logger; database: Database; env: NodeJS.ProcessEnv },
): Promise<void> {
  // Closed in the opposite order of their making.
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
    const paymentPlace = { name: 'payment API', host: config.host, settings: 'HOST and PORT' }
    const port = config.port === 0 ? await freePort(paymentPlace) : config.port
    const publicUrl = config.publicUrlGiven
      ? config.publicUrl
      : config.publicUrl.replace(/:0$/, `:${port}`)

    await refuseNewerDatabase(database.db)
    const { adminToken, encryptionKeys, secrets } = await findKeys(config, database)
    await migrate(database, {
      anyway: config.migrateAnyway,
      log: (level, fields, message) => logger[level](fields, message),
    })
    await rememberMode(database, config)

    const { access, sandbox } = await findProvider(config, `http://127.0.0.1:${port}`, publicUrl)
    if (sandbox) closers.push({ name: 'sandbox', close: sandbox.close })
    const tracing = await findTracing(config, logger)
    if (tracing) closers.push({ name: 'tracing', close: tracing.close })
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
    let flowSide: FlowSide | undefined
    // Together: a till's long-poll and a flow's poll in progress each get their time, not one after the other.
    closers.push({
      name: 'listeners',
      close: () => {
        setTimeout(service.cutShort, providerWithinMs).unref()
        return Promise.all([
          closeServer(service.app, { deadlineMs: requestsWithinMs }),
          flowSide &&
            closeServer(flowSide.app, { deadlineMs: requestsWithinMs }).then(flowSide.close),
        ])
      },
    })
    ignoreSignals = stopAtSignal(logger, stop, started.promise)
    await service.orderSearch.plan()
    await service.app.listen({ host: config.host, port }).catch((cause: unknown) => {
      throw cannotListen(paymentPlace, port, cause)
    })
    service.chain.start()
    service.sweeper.start()
    service.orderSearch.start()
    service.paymentWatch.start()
    service.deps.fleet.start()
    service.settlementWork.start()
    service.tableCare.start()
    service.notifications.start()

    const controlPlace = {
      name: 'control API',
      host: config.syncHost,
      settings: 'SYNC_HOST and SYNC_PORT',
    }
    const syncPort = config.syncPort === 0 ? await freePort(controlPlace) : config.syncPort
    const syncUrl = `http://${urlHost(config.syncHost)}:${syncPort}`
    // What listens on loopback is reached there by who reaches the payment side there too.
    const areNear = config.publicIsLoopback && isLoopback(config.syncHost)
    const flowsUrl = config.syncPublicUrl ?? (areNear ? syncUrl : undefined)
    flowSide = await createFlowSide({
      tracing,
      config,
      publicUrl: config.syncPublicUrl ?? syncUrl,
      pages: {
        flows: flowsUrl && `${flowsUrl}/admin`,
        dashboard: flowsUrl && `${publicUrl}/dashboard`,
      },
      database,
      payments: service.deps,
      notifications: service.notifications,
      logger,
      env,
    })
    await flowSide.app.listen({ host: config.syncHost, port: syncPort }).catch((cause: unknown) => {
      throw cannotListen(controlPlace, syncPort, cause)
    })
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
    for (const warning of await database.durabilityWarnings()) logger.warn({}, warning)
    if (config.provider === 'mercadopago' && access.webhookSecrets.length === 0) {
      logger.warn({}, 'MP_WEBHOOK_SECRETS is not set: webhooks are refused, orders are polled')
    }
    startFlows(flowSide, logger)
    const door = await openToBackups(config.dataDir, service.deps)
    if (door) closers.push({ name: 'backups', close: door.close })
    started.resolve()
  } catch (error) {
    started.resolve()
    // It also hears of an ordinary end, and would call it a success.
    ignoreSignals()
    await stop()
    throw error
  }
}

/**
 * From the first request on: a signal that comes while the rest still starts waits for it, and cuts nobody. Returns what
 * undoes it.
 */
function stopAtSignal(
  logger: Logger,
  stop: () => Promise<void>,
  started: Promise<void>,
): () => void {
  // Left to itself it would also end the process at SIGHUP, which has the flow files read again.
  const grace = closeWithGrace(
    { delay: stopWithinMs, logger: false, skip: ['SIGHUP'] },
    async ({ err, signal }) => {
      if (err) logger.fatal({ err }, 'the process cannot go on')
      else logger.info({ signal }, 'stopping')
      await started
      await stop()
      logger.info({}, 'stopped')
    },
  )
  return grace.uninstall
}

/** Tills come first: flows begin after the listeners, and what keeps them from beginning stops nothing else. */
function startFlows(flowSide: FlowSide, logger: Logger): void {
  flowSide.start().catch((error: unknown) => {
    logger.error({ err: error }, 'the flows cannot start; mend it and restart, tills are served')
  })
  process.on('SIGHUP', () => {
    flowSide.flows.reload('SIGHUP').catch((error: unknown) => {
      logger.error({ err: error }, 'the flow files could not be read again')
    })
  })
}

type Keys = {
  adminToken: string
  encryptionKeys: readonly EncryptionKey[]
  secrets: Secrets | undefined
}

/**
 * The administrator token and the encryption keys, made at the first start of the embedded database. Throws
 * EncryptionKeysError when what is stored needs others: before anything is changed, the file of secrets included, since a
 * service with the wrong keys would look well and fail every charge.
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

/** Refuses a database that has served the other provider: a shop must never charge into a sandbox, or the reverse. */
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

type Found = { access: ProviderAccess; sandbox?: { url: string; close(): Promise<void> } }

/** The real provider, a sandbox that runs elsewhere, or the built-in one, which is loaded only then. */
async function findProvider(config: Config, localUrl: string, publicUrl: string): Promise<Found> {
  if (config.provider === 'mercadopago') {
    return {
      access: {
        apiUrl: config.mpApiUrl as string,
        authUrl: config.mpAuthUrl as string,
        clientId: config.mpClientId as string,
        clientSecret: config.mpClientSecret as string,
        webhookSecrets: config.mpWebhookSecrets,
      },
    }
  }
  if (config.mpApiUrl !== undefined && config.mpAuthUrl !== undefined) {
    const response = await fetch(`${config.mpApiUrl}/_sandbox/info`).catch((cause: unknown) => {
      throw new StartError(`No sandbox answers at MP_API_URL ${config.mpApiUrl}`, { cause })
    })
    return { access: accessOf(config.mpApiUrl, config.mpAuthUrl, await response.json()) }
  }
  const { startSandbox } = await import('../sandbox/server.ts')
  const sandbox = await startSandbox({
    port: config.sandboxPort,
    dataDir: join(config.dataDir, 'sandbox'),
    webhookUrl: `${localUrl}/webhooks`,
    redirectUris: [`${publicUrl}/oauth/callback`],
  }).catch((cause: unknown) => {
    throw new StartError(`The sandbox cannot start on port ${config.sandboxPort}`, { cause })
  })
  return { access: accessOf(sandbox.url, sandbox.url, sandbox.info), sandbox }
}

function accessOf(apiUrl: string, authUrl: string, info: unknown): ProviderAccess {
  const given = info as {
    client_id: string
    client_secret: string
    webhook_secrets: string[]
  }
  return {
    apiUrl,
    authUrl,
    clientId: given.client_id,
    clientSecret: given.client_secret,
    webhookSecrets: given.webhook_secrets,
  }
}

/** Loaded on demand: few ask for it, and every start would wait for it. */
async function findTracing(
  { traces: { endpoint, headers } }: Config,
  log: Logger,
): Promise<Tracing | undefined> {
  if (endpoint === undefined) return undefined
  const { startTracing } = await import('../tracing/tracing.ts')
  return startTracing({ endpoint, headers, version: product.version, log })
}

/** Where a listener is to be, and what says so. */
type Place = { name: string; host: string; settings: string }

function cannotListen({ name, host, settings }: Place, port: number, cause: unknown): StartError {
  return new StartError(`The ${name} cannot listen on ${urlHost(host)}:${port} (${settings})`, {
    cause,
  })
}

/** The sandbox must know our address before we listen, so an open port is chosen first. */
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
