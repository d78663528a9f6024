import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import type { EncryptionKey } from '../domain/encryption.ts'
import { isTimeZone } from '../domain/time-zone.ts'

const plainForms = new WeakSet<z.ZodType>()

/** Marks a schema whose value may be shown. Every setting with another schema is a secret. */
function plain<T extends z.ZodType>(form: T): T {
  plainForms.add(form)
  return form
}

const fits = (test: (text: string) => boolean, allowed: string) => z.string().refine(test, allowed)

const whole = (min: number, max: number) => {
  const allowed = `must be a whole number from ${min} to ${max}`
  return plain(
    z
      .string()
      .regex(/^[0-9]{1,9}$/, allowed)
      .transform(Number)
      .pipe(z.number().min(min, allowed).max(max, allowed)),
  )
}

const flag = plain(
  z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true'),
)

const oneOf = <const T extends readonly [string, ...string[]]>(names: T) =>
  plain(z.enum(names, `must be one of ${names.join(', ')}`))

const refuse = (context: z.RefinementCtx, message: string) => {
  context.addIssue({ code: 'custom', message })
  return z.NEVER
}

/** An empty entry most often comes from an unset variable in the text of the list. */
const list = z.string().transform((text, context) => {
  const entries = text.split(',').map((entry) => entry.trim())
  return entries.includes('')
    ? refuse(context, 'must be a comma list in which no entry is empty')
    : entries
})

const hostname =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$/
/** Resolvers read such a name as an address; only isIP shows whether it is one. */
const endsInNumber = /(^|\.)([0-9]+|0x[0-9a-f]*)$/i
const isHost = (text: string) =>
  isIP(text) !== 0 || (hostname.test(text) && !endsInNumber.test(text))
const host = plain(fits(isHost, 'must be an IP address (without brackets or port) or a host name'))

// Clients cannot send a header value with a space or a control character unchanged.
const headerToken = /^[\x21-\x7e]+$/
const accessToken = fits(
  (text) => headerToken.test(text),
  'must hold visible ASCII characters without spaces',
).refine((text) => text.length >= 32, 'must have at least 32 characters')

/**
 * A base address without a slash at its end. It must be in normal form: the provider and browsers compare addresses
 * character by character.
 */
const baseUrl = plain(
  z.string().transform((text, context) => {
    const url = toUrl(text)
    const isBase =
      url !== undefined &&
      ['http:', 'https:'].includes(url.protocol) &&
      url.username + url.password + url.search + url.hash === ''
    const written = isBase ? withoutSlash(url.href) : undefined
    if (written === withoutSlash(text)) return written
    return refuse(
      context,
      written === undefined
        ? 'must be an http or https address without credentials, query or fragment'
        : `must be written as ${written}`,
    )
  }),
)

/** The path is the prefix under which a reverse proxy forwards our paths. */
const publicUrl = plain(
  baseUrl.refine(
    (text) => /^(\/[A-Za-z0-9._~-]+)*$/.test(text.replace(/^https?:\/\/[^/]+/, '')),
    'must have a path of letters, digits and . _ ~ - only, or none',
  ),
)

// Access tokens are sent to these addresses, so plain http is allowed on this machine only.
const providerUrl = plain(
  baseUrl.refine(
    (text) => text.startsWith('https://') || isLoopback(new URL(text).hostname),
    'must be https (http only on loopback)',
  ),
)

const needsHost = (url: URL) => (url.hostname === '' ? 'must name a host' : undefined)
/** Without a database the driver would use the user's name. The host may be a socket folder in the query. */
const needsDatabase = (url: URL) =>
  url.pathname.length < 2 ? 'must name a database after the host, such as /tillbridge' : undefined

/** An address with a user and a password. `problemOf` returns the problem of a valid address. */
const address = (
  schemes: readonly string[],
  problemOf: (url: URL) => string | undefined = needsHost,
) =>
  z.string().transform((given, context) => {
    const text = encodePassword(given)
    const starts = schemes.map((name) => `${name}://`)
    const url = starts.some((start) => text.startsWith(start)) ? toUrl(text) : undefined
    const message =
      url === undefined
        ? `must be an address that starts with ${starts.join(' or ')}`
        : emptyPassword.test(text)
          ? 'must have a password after the colon, or no colon'
          : problemOf(url)
    return message === undefined ? text : refuse(context, message)
  })

const emptyPassword = /^[a-z]+:\/\/[^:@/?#]*:@/
/** A user and a password with a character that ends the host for a URL parser. */
const unencoded = /^([a-z]+:\/\/[^:@/?#]*:)([^@/?#]*[/?#].*)@([^@/?#]+(?:\/[^@]*)?)$/s
const portAndQuery = /^[0-9]{1,5}(\/[^?#]*)?\?/

/** The address with its password encoded: `/`, `?` and `#` would end the host. */
function encodePassword(text: string): string {
  const [, start, password, rest] = unencoded.exec(text) ?? []
  if (password === undefined || portAndQuery.test(password)) return text
  return `${start}${encodeURIComponent(password)}@${rest}`
}

const origins = plain(
  list.pipe(
    z.array(
      z.string().refine((text) => {
        const url = toUrl(text)
        if (!url || url.origin === 'null' || url.href !== `${url.origin}/`) return false
        return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))
      }, 'must be a comma list of https origins such as https://erp.example (http only on loopback)'),
    ),
  ),
)

const proxies = plain(
  list.pipe(
    z.array(
      z
        .string()
        .refine(
          isProxyEntry,
          'must be a comma list of IP addresses, CIDR ranges (from /8, of IPv6 from /16) or the word loopback',
        ),
    ),
  ),
)

const headerPairs = list.transform((entries, context): Record<string, string> => {
  const pairs = entries.map((entry) => /^([A-Za-z0-9-]+)=([\x21-\x7e]+)$/.exec(entry))
  if (pairs.includes(null)) return refuse(context, 'must be a comma list of name=value')
  return Object.fromEntries(pairs.map((pair) => [pair?.[1] as string, pair?.[2] as string]))
})

const mailPart = '[^\\s@<>",;\\p{Cc}]+'
const mailbox = new RegExp(`^${mailPart}@${mailPart}$`, 'u')
const sender = new RegExp(`^(${mailPart}@${mailPart}|[^<>\\p{Cc}]*<${mailPart}@${mailPart}>)$`, 'u')

const timeOfDay = '([01][0-9]|2[0-3]):[0-5][0-9]'
const quietHoursForm = new RegExp(`^(${timeOfDay})-(${timeOfDay}) (\\S+)$`)
const quietHours = plain(
  fits((text) => {
    const [, from, , to, , timezone] = quietHoursForm.exec(text) ?? []
    return timezone !== undefined && from !== to && isTimeZone(timezone)
  }, 'must be two different times and a time zone, such as 22:00-07:00 America/Argentina/Buenos_Aires').transform(
    (text) => {
      const [times = '', timezone = ''] = text.split(' ')
      const [from = '', to = ''] = times.split('-')
      return { from, to, timezone }
    },
  ),
)

const keys = list.transform((entries, context): EncryptionKey[] => {
  const found = new Map<string, EncryptionKey>()
  for (const entry of entries) {
    const [, id, text] = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/]{43}=)$/.exec(entry) ?? []
    if (id === undefined || text === undefined || found.has(id)) {
      return refuse(
        context,
        'must be a comma list of id:base64, each id 1 to 32 of A-Z a-z 0-9 _ - and used once, each key 32 bytes',
      )
    }
    found.set(id, { id, key: Buffer.from(text, 'base64') })
  }
  return [...found.values()]
})

/**
 * Every setting, as text from the environment. `prefault` is the default as in `.env.example`. A setting without one is
 * optional, and its description says what applies then.
 */
export const settingsSchema = z.object({
  HOST: host.prefault('127.0.0.1').describe('address on which the payment API listens'),
  PORT: whole(0, 65535).prefault('3000').describe('port of the payment API; 0 takes any free one'),
  SYNC_HOST: host.prefault('127.0.0.1').describe('address on which the flow control API listens'),
  SYNC_PORT: whole(0, 65535)
    .prefault('8080')
    .describe('port of the flow control API; 0 takes any free one'),
  SYNC_PUBLIC_URL: publicUrl
    .optional()
    .describe(
      'address under which browsers reach the page of the flows, for the links between both pages; default http://SYNC_HOST:SYNC_PORT where that and PUBLIC_URL are loopback, else no links',
    ),
  PUBLIC_URL: publicUrl
    .optional()
    .describe(
      'base of the OAuth redirect (/oauth/callback), with the path below which a proxy serves the service, if any; default http://HOST:PORT',
    ),
  ADMIN_TOKEN: accessToken
    .optional()
    .describe(
      'administrator token, at least 32 characters; required with DATABASE_URL, else made once and kept in DATA_DIR',
    ),
  SYNC_TOKEN: accessToken
    .optional()
    .describe(
      'token of the flow control API, at least 32 characters; required when SYNC_HOST is not loopback; with TRUST_PROXY, or behind any proxy, the control API refuses every request without it',
    ),
  SYNC_AUTH: oneOf(['auto', 'none'])
    .prefault('auto')
    .describe('auto: the control API requires SYNC_TOKEN when it is set; none: never'),
  METRICS_TOKEN: accessToken
    .optional()
    .describe(
      'token that opens GET /metrics of both listeners and nothing else, at least 32 characters',
    ),
  DATABASE_URL: address(['postgres', 'postgresql'], needsDatabase)
    .optional()
    .describe(
      'PostgreSQL, direct or through a pooler in session mode; unset uses the embedded database in DATA_DIR',
    ),
  DATA_DIR: plain(z.string())
    .prefault('./data')
    .describe('embedded database and generated secrets'),
  ALLOW_EMBEDDED_DATABASE: flag
    .prefault('false')
    .describe(
      'true: real cards may be charged on the embedded database, which loses sales in a power cut; false: PROVIDER=mercadopago needs DATABASE_URL',
    ),
  ENCRYPTION_KEYS: keys
    .optional()
    .describe(
      'comma list id:base64 of 32-byte keys, the first encrypts; an id names one key for ever; required with DATABASE_URL, else made once and kept in DATA_DIR',
    ),
  PROVIDER: oneOf(['mercadopago', 'sandbox'])
    .optional()
    .describe(
      'mercadopago or sandbox; default mercadopago when MP_CLIENT_ID is set, else sandbox; must be named when PUBLIC_URL is not loopback',
    ),
  OAUTH_ENROLMENT: oneOf(['open', 'invite'])
    .optional()
    .describe(
      'how a new client connects: open (without an invitation) or invite (the administrator invites); default open when HOST and PUBLIC_URL are loopback, else invite; open elsewhere stops the start',
    ),
  OAUTH_TARGET_ORIGINS: origins
    .optional()
    .describe(
      'comma list of origins that target_url may lead to, in addition to our own and loopback',
    ),
  MP_CLIENT_ID: plain(z.string()).optional().describe('application id at Mercado Pago'),
  MP_CLIENT_SECRET: z.string().optional().describe('application secret at Mercado Pago'),
  MP_WEBHOOK_SECRETS: list
    .optional()
    .describe('comma list of webhook secrets, so that one can be replaced without a gap'),
  MP_API_URL: providerUrl
    .optional()
    .describe(
      'API of the provider; default https://api.mercadopago.com, under PROVIDER=sandbox the built-in provider',
    ),
  MP_AUTH_URL: providerUrl
    .optional()
    .describe(
      'consent page of the provider; default https://auth.mercadopago.com, under PROVIDER=sandbox the built-in provider',
    ),
  MP_POS_API: oneOf(['v2', 'v1'])
    .prefault('v2')
    .describe('how boxes are created at the provider: v2 (idempotent) or v1'),
  MP_SEND_TICKET_NUMBER: flag
    .prefault('true')
    .describe('send ticket_number to the provider; some countries refuse the field'),
  PROVIDER_TIMEOUT_MS: whole(100, 60_000)
    .prefault('10000')
    .describe('longest wait for the provider per attempt, 100 to 60000'),
  SEARCH_LAG_MS: whole(0, 3_600_000)
    .prefault('60000')
    .describe(
      "how long the provider's payment search may not show what was just paid, 60000 to 3600000; with PROVIDER=sandbox from 0",
    ),
  SANDBOX_PORT: whole(0, 65535)
    .prefault('3001')
    .describe('port of the built-in provider, which listens on loopback only'),
  POS_CREATE_DELAY_MS: whole(0, 60_000)
    .prefault('2000')
    .describe('pause between the boxes created by one request, 0 to 60000'),
  SWEEP_INTERVAL_MS: whole(100, 3_600_000)
    .prefault('2000')
    .describe('interval between status checks of open orders, 100 to 3600000'),
  DUPLICATE_ORDER_GUARD: oneOf(['on', 'off'])
    .prefault('on')
    .describe('on: an equal order that is open is returned and a paid one refused; off: never'),
  KEEP_ORDERS_DAYS: whole(365, 36_500)
    .prefault('3650')
    .describe('days for which orders are kept, with all that belongs to them, 365 to 36500'),
  KEEP_TIMELINE_DAYS: whole(1, 3_650)
    .prefault('30')
    .describe('days for which the calls in the timelines of orders are kept, 1 to 3650'),
  KEEP_WEBHOOKS_DAYS: whole(7, 3_650)
    .prefault('90')
    .describe('days for which webhooks of the provider are kept, 7 to 3650'),
  KEEP_AUDIT_DAYS: whole(30, 36_500)
    .optional()
    .describe(
      'days for which entries of the audit log are kept, 30 to 36500; unset keeps them for ever',
    ),
  ADMIN_MASK_TOKENS: flag
    .prefault('false')
    .describe('mask the OAuth tokens in the administrator view of a client'),
  RATE_LIMIT_PER_SECOND: whole(1, 1_000_000)
    .prefault('200')
    .describe('requests per second and API key'),
  AUTH_FAILURES_PER_MINUTE: whole(1, 1_000_000)
    .prefault('60')
    .describe('failed authentications per minute and address'),
  FLOWS_DIR: plain(z.string())
    .prefault('./flows')
    .describe('folder of the *.flow.yaml files; a missing folder counts as empty'),
  CONNECTIONS_FILE: plain(z.string())
    .prefault('./connections.yaml')
    .describe(
      'what flows may reach by name: databases, base addresses, SFTP servers, folders, alert channels; a missing file counts as empty',
    ),
  FLOWS_START_PAUSED: flag.prefault('false').describe('pause every flow at start'),
  FLOW_ITEMS_IN_MEMORY: whole(0, 100_000_000)
    .prefault('2000000')
    .describe(
      'hashes of items kept in memory between the polls of all flows, 30 bytes each; 0: every poll looks each item up',
    ),
  FLOWS_WORKBENCH: flag
    .optional()
    .describe(
      'who may change and try flow files in the browser; false: no one; true: all, without a token too; unset: people who signed in, and SYNC_TOKEN',
    ),
  SMTP_URL: address(['smtp', 'smtps']).optional().describe('mail server for alert mail'),
  MAIL_FROM: plain(
    fits(
      (text) => sender.test(text),
      'must be a mail address, such as caja@shop.example or Caja <caja@shop.example>',
    ),
  )
    .optional()
    .describe('sender of alert mail'),
  ALERT_MAIL_TO: list
    .pipe(
      z
        .array(z.string().regex(mailbox, 'must be mail addresses'))
        .max(50, 'must be at most 50 mail addresses'),
    )
    .optional()
    .describe(
      'comma list of mail addresses that get alerts about charges and flows; needs SMTP_URL and MAIL_FROM',
    ),
  ALERT_SLACK_URL: address(['https', 'http'])
    .optional()
    .describe('incoming webhook of Slack that gets alerts about charges and flows'),
  ALERT_WEBHOOK_URL: address(['https', 'http'])
    .optional()
    .describe('address that gets alerts about charges and flows as signed JSON'),
  ALERT_WEBHOOK_SECRET: fits(
    (text) =>
      text.length >= 16 &&
      (!text.startsWith('whsec_') || /^whsec_[A-Za-z0-9+/]+={0,2}$/.test(text)),
    'must have at least 16 characters, and after whsec_ be base64',
  )
    .optional()
    .describe('secret of the signature of those alerts, by Standard Webhooks'),
  ALERT_LANGUAGE: oneOf(['es', 'en']).prefault('es').describe('language of these alerts'),
  ALERT_QUIET_HOURS: quietHours
    .optional()
    .describe(
      'when these alerts wait, such as 22:00-07:00 America/Argentina/Buenos_Aires; a problem that ends meanwhile is not notified',
    ),
  ALERT_PRIVATE_NETWORK: flag
    .prefault('false')
    .describe('these alerts may go to loopback and private addresses'),
  EVENTS_PRIVATE_NETWORK: flag
    .prefault('false')
    .describe('events may be sent to loopback and private addresses, and by http'),
  SIGN_IN_HOSTS: plain(list.pipe(z.array(fits(isHost, 'must be a comma list of host names'))))
    .optional()
    .describe(
      'comma list of further host names for sign-in and for connecting shops; always allowed: PUBLIC_URL, SYNC_PUBLIC_URL, IP addresses and localhost',
    ),
  TRUST_PROXY: proxies
    .optional()
    .describe(
      'comma list of proxies whose X-Forwarded-For counts: addresses, CIDR ranges, loopback',
    ),
  OTEL_EXPORTER_OTLP_ENDPOINT: baseUrl
    .optional()
    .describe('collector that gets traces by OTLP over HTTP (at /v1/traces); unset sends none'),
  OTEL_EXPORTER_OTLP_HEADERS: headerPairs
    .optional()
    .describe('comma list name=value of headers for the collector, such as its key'),
  LOG_LEVEL: oneOf(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .prefault('info')
    .describe(
      'lowest level that is logged: fatal, error, warn, info, debug (with every call to the provider) or trace',
    ),
})

export type Settings = z.output<typeof settingsSchema>

/** Settings with a secret: their values are never repeated in a message or given to a flow. */
export const secretVariables: ReadonlySet<string> = new Set(
  Object.entries(settingsSchema.shape).flatMap(([name, field]) => (isPlain(field) ? [] : [name])),
)

/** Name, default (empty when there is none) and meaning of every setting; `.env.example` must agree. */
export const settings: readonly { name: string; default: string; meaning: string }[] =
  Object.entries(settingsSchema.shape).map(([name, field]) => ({
    name,
    default: field instanceof z.ZodPrefault ? String(field.def.defaultValue) : '',
    meaning: field.description ?? '',
  }))

/** Whether only this machine can reach the name: 127.0.0.0/8, ::1 or localhost. Brackets of a URL are allowed. */
export function isLoopback(name: string): boolean {
  const bare = name.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/** Defaults and options wrap a schema. */
function isPlain(field: z.core.$ZodType): boolean {
  if (plainForms.has(field as z.ZodType)) return true
  const { def } = field._zod
  return 'innerType' in def && isPlain(def.innerType as z.core.$ZodType)
}

function toUrl(text: string): URL | undefined {
  return URL.parse(text) ?? undefined
}

function isProxyEntry(text: string): boolean {
  if (text === 'loopback') return true
  const [address = '', bits, ...more] = text.split('/')
  const version = isIP(address)
  if (version === 0 || more.length > 0) return false
  if (bits === undefined) return true
  if (!/^[1-9][0-9]{0,2}$/.test(bits) || Number(bits) > (version === 4 ? 32 : 128)) return false
  return Number(bits) >= fewestBits(address)
}

/** A range as wide as half of the Internet would let any caller choose the address that the audit log shows. */
function fewestBits(address: string): number {
  const parsed = ipaddr.parse(address)
  const range = parsed.range()
  if (parsed.kind() === 'ipv4') return 8
  if (range === 'ipv4Mapped') return 96 + 8
  return range === 'uniqueLocal' ? 7 : range === 'linkLocal' ? 10 : 16
}

function withoutSlash(text: string): string {
  return text.replace(/\/+$/, '')
}
