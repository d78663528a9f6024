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
 * Masks the secrets in a text that a server or a driver wrote: plain, percent-encoded and base64, each also as JSON writes it.
 * Base64 is found within a longer text (`user:password`) too.
 */
export function maskSecrets(text: string, secrets: readonly string[], mask: string): string {
  // Longest first, because one secret may be part of another.
  return [...new Set(secrets.flatMap(formsOf))]
    .sort((left, right) => right.length - left.length)
    .reduce((shown, form) => shown.replaceAll(form, () => mask), text)
}

function formsOf(secret: string): string[] {
  const readings = [secret, percentDecoded(secret), ...basicParts(secret)].filter(
    ({ length }) => length >= leastLength,
  )
  const forms = readings.flatMap((reading) => [
    reading,
    JSON.stringify(reading).slice(1, -1),
    ...percentEncoded(reading),
    ...base64Cores(reading),
  ])
  // A secret too short for the other forms is still masked.
  return [secret, ...forms.flatMap((form) => [form, form.replaceAll('/', '\\/')])].filter(Boolean)
}

/** In an address and in a form, with escapes in capitals and in small letters. */
function percentEncoded(text: string): string[] {
  const inForm = new URLSearchParams({ '': text }).toString().slice(1)
  const inAddress = text.isWellFormed() ? encodeURIComponent(text) : inForm
  return [inAddress, inForm].flatMap((form) => [
    form,
    form.replace(/%../g, (found) => found.toLowerCase()),
  ])
}

/** The decoded text; the text itself where it is no percent encoding. */
export function percentDecoded(text: string): string {
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

/** The characters of base64 and base64url that depend on the text alone, for each of its three offsets in a longer text. */
function base64Cores(text: string): string[] {
  return [0, 1, 2]
    .flatMap((before) => {
      const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)])
      const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6)]
      return [bytes.toString('base64').slice(from, to), bytes.toString('base64url').slice(from, to)]
    })
    .filter(({ length }) => length >= leastLength)
}
