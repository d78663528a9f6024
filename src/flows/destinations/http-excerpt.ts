import { scrub } from '../../http/logging.ts'
import type { Answer } from '../../outbound/exchange.ts'
import { hideTexts } from '../net/hidden-texts.ts'
import { textOf } from './http-text.ts'

const maxLength = 200
const readable = /^(text\/plain|application\/json|application\/[\w.+-]+\+json)\s*(;|$)/i

/**
 * Describes a refusal for operators: the media type and, for plain text and JSON, up to 200 printable characters. The given
 * secrets are removed, because a receiver may repeat them.
 */
export function describeRefusal(answer: Answer, secrets: readonly string[]): string {
  const header = answer.headers['content-type']
  const type = (Array.isArray(header) ? header[0] : header)?.trim() ?? ''
  const media = printable(type.split(';', 1)[0] ?? '').slice(0, 60)
  const text = readable.test(type) ? readText(textOf(answer), secrets) : ''
  return [media && `(${media})`, text.slice(0, maxLength)].filter(Boolean).join(' ')
}

function readText(body: string, secrets: readonly string[]): string {
  return scrub(hideTexts(printable(body), secrets, '[masked]'))
}

function printable(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, ' ').trim()
}
