import { parseExactJson } from '../../domain/json.ts'
import { scrub } from '../../http/logging.ts'
import type { Answer, GuardedAnswer } from '../../outbound/guarded-request.ts'
import { maskSecrets } from './mask-secrets.ts'

type Body = Pick<GuardedAnswer, 'headers' | 'body'>

/** Decodes a response by its charset, else as UTF-8. A byte order mark is removed. */
export function answerText({ headers, body }: Body): string {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(String(headers['content-type'] ?? ''))?.[1]
  return decoderOf(charset).decode(body)
}

/** The JSON of a response; undefined when it is not JSON. */
export function jsonOf(answer: Body): unknown {
  try {
    return parseExactJson(answerText(answer))
  } catch {
    return undefined
  }
}

const longestPrologue = 4_096
const htmlStart = /^(?:\s|<\?xml[^>]*>|<!--[\s\S]*?-->)*<(?:!doctype\s+html|html)\b/i

/** Whether the body begins as an HTML document, whatever the content type says: PHP sends JSON as `text/html` by default. */
export function isHtmlPage({ headers, body }: Body): boolean {
  return (
    body.length > 0 &&
    htmlStart.test(answerText({ headers, body: body.subarray(0, longestPrologue) }))
  )
}

function decoderOf(charset = 'utf-8'): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder()
  }
}

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
  const text = readable.test(type) ? readText(answerText(answer), secrets) : ''
  return [media && `(${media})`, text.slice(0, maxLength)].filter(Boolean).join(' ')
}

function readText(body: string, secrets: readonly string[]): string {
  return scrub(maskSecrets(printable(body), secrets, '[masked]'))
}

function printable(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, ' ').trim()
}
