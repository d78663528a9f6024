import type { Secret } from '../../domain/secret.ts'

/** Shorter ones would tear holes into words, and are no secret. */
const leastLength = 8

/** What identifies us in a request: header values, what stands behind a scheme such as `Bearer`, what addresses refer to. */
export function secretsOf({
  url,
  headers,
}: {
  url: Secret
  headers: Readonly<Record<string, Secret>>
}): string[] {
  const values = Object.values(headers).map((value) => value.reveal())
  const behindScheme = values.map((value) => value.replace(/^\S+\s+/, ''))
  const query = URL.parse(url.reveal())?.searchParams.values() ?? []
  return [...values, ...behindScheme, ...query, ...referencedParts(url)].filter(
    ({ length }) => length >= leastLength,
  )
}

/** Parts of an address that come from a reference; the template has them not. */
function referencedParts(url: Secret): string[] {
  return url
    .reveal()
    .split(/[/?&=#]/)
    .filter((part) => !url.template.includes(part))
}

/**
 * The text without the secrets, in whatever way a server may spell them when it repeats them: percent-encoded (once or more,
 * in part or as a whole), escaped for JSON or HTML, in hex, in base64 (that of base64 too), there also as a part of something
 * longer (`user:password`), or read from base64.
 */
export function hideTexts(text: string, secrets: readonly string[], mask: string): string {
  // Longer ones first: one may be part of another.
  return [...new Set(secrets.flatMap(patternsOf))]
    .sort((left, right) => right.source.length - left.source.length)
    .reduce((shown, pattern) => shown.replace(pattern, () => mask), text)
}

/** A refusal a second for hours must not make them anew each time. */
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
  // One that is too short to be looked for elsewhere is hidden as it stands.
  return [...new Set([asPattern(secret), ...sources])].map((source) => new RegExp(source, 'gu'))
}

const htmlNames: Readonly<Record<string, string>> = {
  '"': 'quot',
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  "'": 'apos',
}

/** One character of a secret: itself, or as addresses, JSON and HTML write it. */
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

/** One character of base64, as it stands there, in base64url, in JSON or in an address. */
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

/** What base64 holds when it is a login: both parts together, and each. */
function basicParts(text: string): string[] {
  if (!/^[A-Za-z0-9+/_-]+=*$/.test(text)) return []
  const login = Buffer.from(text, 'base64').toString('utf8')
  if (!/^[^\p{C}\ufffd]+$/u.test(login)) return []
  return [login, ...login.split(':')]
}

/** The characters of base64 that a text alone decides, at each place of three that it may have in something longer. */
function base64Cores(text: string): string[] {
  return [0, 1, 2].map((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
    const end = Math.floor((bytes.length * 8) / 6)
    return bytes.toString('base64').slice(Math.ceil((before * 8) / 6), end)
  })
}
