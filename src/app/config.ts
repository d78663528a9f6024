import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { OperatorError } from '../errors/operator-error.ts'
import { isIn } from '../files/fence.ts'
import { nearestWord } from '../flows/definition/did-you-mean.ts'
import { createKnownHosts, type KnownHosts } from '../http/known-hosts.ts'
import { isLoopback, type Settings, secretVariables, settingsSchema } from './config-schema.ts'

/** The settings are not usable. `message` names every wrong variable, and never contains a secret value. */
export class ConfigError extends OperatorError {
  readonly problems: readonly ConfigProblem[]

  /** `hints`: other lines of the message. */
  constructor(problems: readonly ConfigProblem[], hints: readonly string[] = []) {
    const lines = [...problems.map(({ variable, message }) => `${variable}: ${message}`), ...hints]
    super(`The settings are not usable:\n${lines.map((line) => `  ${line}`).join('\n')}`)
    this.name = 'ConfigError'
    this.problems = problems
  }
}

export type ConfigProblem = { variable: string; message: string }

/** Times are milliseconds; ports are 0 to 65535, where 0 is any free port. */
export type Config = ReturnType<typeof toConfig>

/**
 * The settings of the process, frozen. An empty or blank variable counts as unset. `folderProblems` checks the folders
 * in them, for a caller that uses these folders.
 * @throws ConfigError with every missing or wrong variable, and what is allowed.
 */
export function loadConfig(
  env: Readonly<Record<string, string | undefined>>,
  folderProblems: (config: Config) => readonly ConfigProblem[] = () => [],
): Config {
  const given: Record<string, string> = {}
  for (const name of Object.keys(settingsSchema.shape)) {
    const text = env[name]?.trim()
    if (text) given[name] = text
  }
  const problems: ConfigProblem[] = []
  for (const issue of settingsSchema.safeParse(given).error?.issues ?? []) {
    const variable = String(issue.path[0])
    if (problems.some((problem) => problem.variable === variable)) continue
    const value = secretVariables.has(variable) ? '' : `, not ${JSON.stringify(given[variable])}`
    problems.push({ variable, message: `${issue.message}${value}` })
  }
  // Wrong variables are left out, so that the rules across variables report the others at once.
  const wrong = new Set(problems.map(({ variable }) => variable))
  for (const variable of wrong) delete given[variable]
  const config = toConfig(settingsSchema.parse(given))
  const isGiven = (variable: string) => variable in given || wrong.has(variable)
  for (const problem of [...crossProblems(config, isGiven), ...folderProblems(config)]) {
    if (!problems.some(({ variable }) => variable === problem.variable)) problems.push(problem)
  }
  if (problems.length > 0) throw new ConfigError(problems, misspeltSettings(env).map(spellingHint))
  return config
}

/** What an administrator reads about a misspelt setting. */
export function spellingHint({ name, meant }: { name: string; meant: string }): string {
  return `${name}: is not a setting; did you mean ${meant}?`
}

/**
 * Names of set variables that are no settings and are spelled nearly like an unset one: probably a mistake, since
 * nothing reads them. Never values.
 */
export function misspeltSettings(
  env: Readonly<Record<string, string | undefined>>,
): { name: string; meant: string }[] {
  const settings = Object.keys(settingsSchema.shape)
  const unset = settings.filter((name) => !env[name]?.trim())
  const begin = (name: string) => name.replaceAll('_', '').slice(0, 4).toUpperCase()
  return Object.entries(env).flatMap(([name, value]) => {
    if (!value?.trim() || settings.includes(name)) return []
    const meant = nearestWord(
      name,
      unset.filter((one) => begin(one) === begin(name)),
    )
    return meant === undefined ? [] : [{ name, meant }]
  })
}

const dayMs = 24 * 3_600_000

function toConfig(given: Settings) {
  const publicUrl = given.PUBLIC_URL ?? `http://${urlHost(given.HOST)}:${given.PORT}`
  const publicIsLoopback = isLoopback(new URL(publicUrl).hostname)
  return Object.freeze({
    host: given.HOST,
    port: given.PORT,
    /** Without a slash at its end. Ends in `:0` when it is not set and PORT is 0: then use the bound port. */
    publicUrl,
    publicUrlGiven: given.PUBLIC_URL !== undefined,
    publicIsLoopback,
    /** undefined only with the embedded database: see secrets-file.ts. */
    adminToken: given.ADMIN_TOKEN,
    syncHost: given.SYNC_HOST,
    syncPort: given.SYNC_PORT,
    /** undefined when not given: see run-service.ts. */
    syncPublicUrl: given.SYNC_PUBLIC_URL,
    syncToken: given.SYNC_TOKEN,
    syncAuth: given.SYNC_AUTH,
    metricsToken: given.METRICS_TOKEN,
    /** undefined: the embedded database in dataDir. */
    databaseUrl: given.DATABASE_URL,
    dataDir: given.DATA_DIR,
    allowEmbeddedDatabase: given.ALLOW_EMBEDDED_DATABASE,
    /** The first one encrypts. undefined only with the embedded database: see secrets-file.ts. */
    encryptionKeys: given.ENCRYPTION_KEYS,
    ...providerOf(given),
    oauthEnrolment:
      given.OAUTH_ENROLMENT ?? (publicIsLoopback && isLoopback(given.HOST) ? 'open' : 'invite'),
    oauthTargetOrigins: Object.freeze(
      (given.OAUTH_TARGET_ORIGINS ?? []).map((text) => new URL(text).origin),
    ),
    alerts: alertsOf(given),
    eventsPrivateNetwork: given.EVENTS_PRIVATE_NETWORK,
    sandboxPort: given.SANDBOX_PORT,
    posCreateDelayMs: given.POS_CREATE_DELAY_MS,
    sweepIntervalMs: given.SWEEP_INTERVAL_MS,
    duplicateOrderGuard: given.DUPLICATE_ORDER_GUARD === 'on',
    keep: keepOf(given),
    adminMaskTokens: given.ADMIN_MASK_TOKENS,
    rateLimitPerSecond: given.RATE_LIMIT_PER_SECOND,
    authFailuresPerMinute: given.AUTH_FAILURES_PER_MINUTE,
    flowsDir: given.FLOWS_DIR,
    connectionsFile: given.CONNECTIONS_FILE,
    flowsStartPaused: given.FLOWS_START_PAUSED,
    flowItemsInMemory: given.FLOW_ITEMS_IN_MEMORY,
    flowsWorkbench: given.FLOWS_WORKBENCH,
    smtpUrl: given.SMTP_URL,
    mailFrom: given.MAIL_FROM,
    signInHosts: Object.freeze(given.SIGN_IN_HOSTS ?? []),
    trustProxy: Object.freeze(given.TRUST_PROXY ?? []),
    traces: Object.freeze({
      endpoint: given.OTEL_EXPORTER_OTLP_ENDPOINT,
      headers: given.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    }),
    logLevel: given.LOG_LEVEL,
  })
}

function providerOf(given: Settings) {
  const provider = given.PROVIDER ?? (given.MP_CLIENT_ID ? 'mercadopago' : 'sandbox')
  const live = provider === 'mercadopago'
  return {
    provider,
    providerNamed: given.PROVIDER !== undefined,
    mpClientId: given.MP_CLIENT_ID,
    mpClientSecret: given.MP_CLIENT_SECRET,
    mpWebhookSecrets: Object.freeze(given.MP_WEBHOOK_SECRETS ?? []),
    /** undefined with `sandbox` when not set: the built-in provider is started on sandboxPort. */
    mpApiUrl: given.MP_API_URL ?? (live ? 'https://api.mercadopago.com' : undefined),
    mpAuthUrl: given.MP_AUTH_URL ?? (live ? 'https://auth.mercadopago.com' : undefined),
    mpPosApi: given.MP_POS_API,
    mpSendTicketNumber: given.MP_SEND_TICKET_NUMBER,
    providerTimeoutMs: given.PROVIDER_TIMEOUT_MS,
    searchLagMs: given.SEARCH_LAG_MS,
  } as const
}

function alertsOf(given: Settings) {
  return Object.freeze({
    mailTo: Object.freeze(given.ALERT_MAIL_TO ?? []),
    slackUrl: given.ALERT_SLACK_URL,
    webhookUrl: given.ALERT_WEBHOOK_URL,
    webhookSecret: given.ALERT_WEBHOOK_SECRET,
    locale: given.ALERT_LANGUAGE,
    quietHours: given.ALERT_QUIET_HOURS,
    allowPrivateNetwork: given.ALERT_PRIVATE_NETWORK,
  })
}

function keepOf(given: Settings) {
  return Object.freeze({
    ordersMs: given.KEEP_ORDERS_DAYS * dayMs,
    callsMs: given.KEEP_TIMELINE_DAYS * dayMs,
    webhooksMs: given.KEEP_WEBHOOKS_DAYS * dayMs,
    /** undefined: entries of the audit log are kept for ever. */
    auditMs: given.KEEP_AUDIT_DAYS && given.KEEP_AUDIT_DAYS * dayMs,
  })
}

type Refuse = (variable: string, message: string) => void
type IsGiven = (variable: keyof Settings) => boolean

/** Checks settings that require or exclude each other. `isGiven` is true also for a wrong value. */
function crossProblems(config: Config, isGiven: IsGiven): ConfigProblem[] {
  const problems: ConfigProblem[] = []
  const refuse: Refuse = (variable, message) => problems.push({ variable, message })
  if (isGiven('DATABASE_URL')) requireKeys(config, refuse)
  if (isIn(resolve(config.connectionsFile), resolve(config.flowsDir))) {
    refuse('CONNECTIONS_FILE', 'must not be in FLOWS_DIR, which people may change in the browser')
  }
  checkOpenness(config, refuse)
  if (config.provider === 'mercadopago') checkProvider(config, isGiven, refuse)
  else checkSandbox(config, refuse)
  checkAlerts(config, isGiven, refuse)
  return problems
}

/** With a server the keys are settings, not a file beside the database. */
function requireKeys(config: Config, refuse: Refuse): void {
  if (config.adminToken === undefined) {
    refuse('ADMIN_TOKEN', 'is required with DATABASE_URL: at least 32 characters')
  }
  if (config.encryptionKeys === undefined) {
    refuse(
      'ENCRYPTION_KEYS',
      'is required with DATABASE_URL: id:base64 of 32 random bytes, for example k1:$(openssl rand -base64 32)',
    )
  }
}

/** What is reached from other machines is named and guarded. */
function checkOpenness(config: Config, refuse: Refuse): void {
  if (!config.publicIsLoopback && !config.providerNamed) {
    refuse(
      'PROVIDER',
      'must be named (mercadopago or sandbox) because PUBLIC_URL, or HOST when it is unset, is not loopback',
    )
  }
  if (config.oauthEnrolment === 'open' && !(config.publicIsLoopback && isLoopback(config.host))) {
    refuse(
      'OAUTH_ENROLMENT',
      'must be invite unless both HOST and PUBLIC_URL are loopback: with open, any visitor could connect a foreign account under the name of a shop',
    )
  }
  if (
    config.syncAuth === 'auto' &&
    !isLoopback(config.syncHost) &&
    config.syncToken === undefined
  ) {
    refuse(
      'SYNC_TOKEN',
      'is required because SYNC_HOST is not loopback; set it, or SYNC_AUTH=none to leave the control API open',
    )
  }
}

/** What the pages write in place of a value that is yours. A database belongs to the provider of its first start for ever. */
const placeholder = '…'

function checkProvider(config: Config, isGiven: IsGiven, refuse: Refuse): void {
  // A search found nothing after 1 s and all after 36 s (seen once): an earlier search would seem complete without
  // being so.
  if (config.searchLagMs < 60_000) {
    refuse('SEARCH_LAG_MS', 'must be 60000 or more with PROVIDER=mercadopago')
  }
  const needed = 'is required with PROVIDER=mercadopago'
  if (config.mpClientId === undefined) refuse('MP_CLIENT_ID', needed)
  if (config.mpClientSecret === undefined) refuse('MP_CLIENT_SECRET', needed)
  for (const [variable, values] of [
    ['MP_CLIENT_ID', [config.mpClientId]],
    ['MP_CLIENT_SECRET', [config.mpClientSecret]],
    ['MP_WEBHOOK_SECRETS', config.mpWebhookSecrets],
  ] as const) {
    if (values.some((value) => value?.includes(placeholder))) {
      refuse(
        variable,
        `still has the ${placeholder} of the page: write the value of your application`,
      )
    }
  }
  if (!config.publicUrl.startsWith('https:') && !config.publicIsLoopback) {
    refuse(
      'PUBLIC_URL',
      `must be https with PROVIDER=mercadopago (http only on loopback), not ${config.publicUrl}`,
    )
  }
  if (!isGiven('DATABASE_URL') && !config.allowEmbeddedDatabase) {
    refuse(
      'DATABASE_URL',
      `${needed}: the embedded database loses sales in a power cut; ALLOW_EMBEDDED_DATABASE=true takes it all the same`,
    )
  }
}

function checkSandbox(config: Config, refuse: Refuse): void {
  const bothOrNone =
    'MP_API_URL and MP_AUTH_URL are set together or not at all with PROVIDER=sandbox'
  for (const [variable, url, other] of [
    ['MP_API_URL', config.mpApiUrl, config.mpAuthUrl],
    ['MP_AUTH_URL', config.mpAuthUrl, config.mpApiUrl],
  ] as const) {
    if (url !== undefined && !isLoopback(new URL(url).hostname)) {
      refuse(
        variable,
        'must be a loopback address with PROVIDER=sandbox: the sandbox listens on loopback only',
      )
    } else if (url === undefined && other !== undefined) {
      refuse(variable, `is missing: ${bothOrNone}`)
    }
  }
}

function checkAlerts(config: Config, isGiven: IsGiven, refuse: Refuse): void {
  if (config.alerts.mailTo.length > 0 && !(isGiven('SMTP_URL') && isGiven('MAIL_FROM'))) {
    refuse('ALERT_MAIL_TO', 'needs SMTP_URL and MAIL_FROM')
  }
  if (config.alerts.webhookSecret !== undefined && !isGiven('ALERT_WEBHOOK_URL')) {
    refuse('ALERT_WEBHOOK_SECRET', 'needs ALERT_WEBHOOK_URL')
  }
}

/** The host names under which people sign in at a listener with these addresses, the first of which browsers open. */
export function knownHostsOf(config: Config, ...addresses: [string, ...string[]]): KnownHosts {
  return createKnownHosts({
    addresses:
      config.syncPublicUrl === undefined ? addresses : [...addresses, config.syncPublicUrl],
    names: [urlHost(config.host), urlHost(config.syncHost), ...config.signInHosts],
  })
}

export function urlHost(host: string): string {
  return isIP(host) === 6 ? `[${host}]` : host
}
