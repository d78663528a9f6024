const masked = '[masked]'

/** Names whose values must not be in a log, at any depth and in any text. */
const secretNames = [
  'x-api-token',
  'authorization',
  'proxy-authorization',
  'cookie',
  'set-cookie',
  'x-signature',
  'access_token',
  'accessToken',
  'refresh_token',
  'refreshToken',
  'client_secret',
  'clientSecret',
  'code_verifier',
  'codeVerifier',
  'api_key',
  'apiKey',
  'adminToken',
  'syncToken',
  'encryptionKeys',
  'webhookSecrets',
  'password',
  'secret',
  'token',
]

/** Names that are secret in a URL or a form only: elsewhere `code` is an error code and `state` an order's. */
const secretParameters = [...secretNames, 'code', 'state', 'invitation', 'signature', 'key']

const names = (list: readonly string[]) =>
  list.map((name) => name.replace(/[-_]/g, '[-_]')).join('|')

const replacements: readonly [RegExp, string][] = [
  [/\bmk_[0-9a-f]{64}\b/gi, `mk_${masked}`],
  [/\b(APP_USR|TEST|TG)-[A-Za-z0-9_-]{4,}/g, `$1-${masked}`],
  [/\b(Bearer|Basic)\s+[^\s"'\\,]+/gi, `$1 ${masked}`],
  // name=value in URLs, forms and messages.
  [
    new RegExp(`(?<![A-Za-z0-9_-])(${names(secretParameters)})=[^&\\s"'\\\\,;]+`, 'gi'),
    `$1=${masked}`,
  ],
  // "name":"value" of this line, or of JSON inside a string.
  [
    new RegExp(
      `(\\\\*"(?:${names(secretNames)})\\\\*"\\s*:\\s*\\\\*")(?:[^"\\\\]|\\\\[^"])+`,
      'gi',
    ),
    `$1${masked}`,
  ],
  // Passwords in connection addresses.
  [/(:\/\/[^:@/\s"\\]*):[^@/\s"\\]+@/g, `$1:${masked}@`],
]

/** Characters that JSON allows, but a terminal or a log viewer could take for a new line or a command. */
const unsafe = /[\u007f-\u009f\u2028\u2029]/g

/**
 * The last measure: masks what looks like a secret in a finished log line. Redaction by name and allow-listed
 * serializers come first; this finds secrets in error texts and addresses.
 */
export function scrub(line: string): string {
  let clean = line
  for (const [pattern, replacement] of replacements) clean = clean.replace(pattern, replacement)
  return clean.replace(unsafe, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Paths for pino's redaction, for bindings of child loggers; its wildcards would cost 50 us a line (measured). */
export const redactPaths: readonly string[] = secretNames.map((name) => `["${name}"]`)

const secretNameSet: ReadonlySet<string> = new Set(secretNames)
const maxDepth = 6

/**
 * A copy of the fields of a log line with the values under secret names masked, of any type, down to six levels.
 * Instances of classes are left to their serializers.
 */
export function maskFields(fields: Record<string, unknown>): Record<string, unknown> {
  return maskObject(fields, 0)
}

function maskObject(fields: Record<string, unknown>, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      secretNameSet.has(name) ? masked : maskValue(value, depth + 1),
    ]),
  )
}

function maskValue(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) return value.map((entry) => maskValue(entry, depth + 1))
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  return maskObject(value as Record<string, unknown>, depth)
}
