import { Secret } from '../../domain/flow-secret.ts'

/** Shorter texts are not secrets, and masking them would damage ordinary words. */
const leastLength = 8

/** The secrets of a request: header values, the part after a scheme such as `Bearer`, and references in addresses. */
export function secretsOf({
  url,
  headers,
}: {
  url: Secret
  headers: Readonly<Record<string, Secret>>
}): string[] {
  const values = Object.values(headers).map((value) => value.reveal())
  const afterScheme = values.map((value) => value.replace(/^\S+\s+/, ''))
  const query = URL.parse(url.reveal())?.searchParams.values() ?? []
  return [...values, ...afterScheme, ...query, ...referencedParts(url)].filter(
    ({ length }) => length >= leastLength,
  )
}

/** The secrets anywhere in a part of a definition. */
export function secretsIn(part: unknown): Secret[] {
  if (part instanceof Secret) return [part]
  if (typeof part !== 'object' || part === null) return []
  return Object.values(part).flatMap(secretsIn)
}

/** Parts of an address that come from a reference and are not in the template. */
function referencedParts(url: Secret): string[] {
  return url
    .reveal()
    .split(/[/?&=#]/)
    .filter((part) => !url.template.includes(part))
}

/**
 * Masks the secrets in a text, in all encodings that a server may use when it repeats them: percent-encoded (once or more, in
 * part or completely), escaped for JSON or HTML, hex, base64 (also twice). Base64 is found as a part of a longer text
 * (`user:password`) too, and decoded.
 */
export function maskSecrets(text: string, secrets: readonly string[], mask: string): string {
  // Longest first, because one secret may be part of another.
  return [...new Set(secrets.flatMap(patternsOf))]
    .sort((left, right) => right.source.length - left.source.length)
    .reduce((shown, pattern) => shown.replace(pattern, () => mask), text)
}

/** Cached, because a failing flow may need the patterns every second for hours. */
const known = new Map<string, RegExp[]>()
const mostKnown = 500

function patternsOf(secret: string): RegExp[] {
  if (secret === '') return []
  const found = known.get(secret) ?? makePatterns(secret)
  if (known.size >= mostKnown) known.clear()
  known.set(secret, found)
  return found
}

function makePatterns(secret: string): RegExp[] {
  const readings = [secret, percentDecoded(secret), ...basicParts(secret)].filter(
    ({ length }) => length >= leastLength,
  )
  const sources = readings.flatMap((reading) => {
    const cores = base64Cores(reading)
    return [
      [...reading].map(spelledCharacter).join(''),
      hexOf(reading),
      ...[...cores, ...cores.flatMap(base64Cores)]
        .filter(({ length }) => length >= leastLength)
        .map((core) => [...core].map(base64Character).join('\\s{0,2}')),
    ]
  })
  // A secret too short for the other encodings is still masked literally.
  return [...new Set([asPattern(secret), ...sources])].map((source) => new RegExp(source, 'gu'))
}

const htmlNames: Readonly<Record<string, string>> = {
  '"': 'quot',
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  "'": 'apos',
}

/** One character of a secret: literal, or as addresses, JSON and HTML encode it. */
function spelledCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const bytes = [...Buffer.from(character)].map((byte) => `%(?:25)*${hexDigits(byte, 2)}`).join('')
  const units = Array.from({ length: character.length }, (_, index) =>
    hexDigits(character.charCodeAt(index), 4),
  )
  const html = htmlNames[character]
  return `(?:${[
    `\\\\*${asPattern(character)}`,
    bytes,
    units.map((unit) => `\\\\+u${unit}`).join(''),
    `&#(?:0*${code}|[xX]0*${hexDigits(code, 1)});`,
    ...(html ? [`&${html};`] : []),
    ...(character === ' ' ? ['\\+'] : []),
  ].join('|')})`
}

/** In either case, padded to `length` digits. */
function hexDigits(value: number, length: number): string {
  return value
    .toString(16)
    .padStart(length, '0')
    .replace(/[a-f]/g, (digit) => `[${digit}${digit.toUpperCase()}]`)
}

function asPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

function hexOf(text: string): string {
  return [...Buffer.from(text)].map((byte) => hexDigits(byte, 2)).join('[\\s:-]?')
}

/** One base64 character: literal, as base64url, or encoded for JSON or an address. */
function base64Character(character: string): string {
  if (character === '+') return '(?:[+ \\-]|%(?:25)*2[bB]|\\\\+u002[bB])'
  if (character === '/') return '(?:\\\\*\\/|_|%(?:25)*2[fF])'
  return character
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The secret of a base64 login: the whole text and each part. */
function basicParts(text: string): string[] {
  if (!/^[A-Za-z0-9+/_-]+=*$/.test(text)) return []
  const login = Buffer.from(text, 'base64').toString('utf8')
  if (!/^[^\p{C}\ufffd]+$/u.test(login)) return []
  return [login, ...login.split(':')]
}

/** The base64 characters that depend on the text alone, for each of its three offsets in a longer text. */
function base64Cores(text: string): string[] {
  return [0, 1, 2].map((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
    const end = Math.floor((bytes.length * 8) / 6)
    return bytes.toString('base64').slice(Math.ceil((before * 8) / 6), end)
  })
}
