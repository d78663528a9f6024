import { scrub } from '../../http/scrub.ts'
import type { Answer } from './http-exchange.ts'

const maxLength = 200
const readable = /^(text\/plain|application\/json|application\/[\w.+-]+\+json)\s*(;|$)/i

/**
 * What a refusal says, for people: the media type and, of plain text and JSON, up to 200 printable characters, without
 * the given secrets, which a receiver may repeat.
 */
export function describeRefusal(answer: Answer, secrets: readonly string[]): string {
  const header = answer.headers['content-type']
  const type = (Array.isArray(header) ? header[0] : header)?.trim() ?? ''
  const media = printable(type.split(';', 1)[0] ?? '').slice(0, 60)
  const text = readable.test(type) ? masked(printable(answer.body.toString('utf8')), secrets) : ''
  return [media && `(${media})`, text.slice(0, maxLength)].filter(Boolean).join(' ')
}

/** What identifies us in a request: header values, what stands behind a scheme such as `Bearer`, values of the query. */
export function secretsOf(template: {
  url: string
  headers: Readonly<Record<string, string>>
}): string[] {
  const headers = Object.values(template.headers)
  const behindScheme = headers.map((value) => value.replace(/^\S+\s+/, ''))
  const query = URL.parse(template.url)?.searchParams.values() ?? []
  // Shorter ones would tear holes into words and be no secret.
  return [...headers, ...behindScheme, ...query].filter((part) => part.length >= 8)
}

function masked(text: string, secrets: readonly string[]): string {
  let clean = text
  for (const secret of secrets) clean = clean.replaceAll(secret, '[masked]')
  return scrub(clean)
}

function printable(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, ' ').trim()
}
