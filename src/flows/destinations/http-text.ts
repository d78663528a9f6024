import { parseExactJson } from '../../domain/json.ts'
import type { GuardedAnswer } from '../../outbound/guarded-request.ts'

type Body = Pick<GuardedAnswer, 'headers' | 'body'>

/** Decodes a response by its charset, else as UTF-8. A byte order mark is removed. */
export function textOf({ headers, body }: Body): string {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(String(headers['content-type'] ?? ''))?.[1]
  return decoderOf(charset).decode(body)
}

/** The JSON of a response; undefined when it is not JSON. */
export function jsonOf(answer: Body): unknown {
  try {
    return parseExactJson(textOf(answer))
  } catch {
    return undefined
  }
}

function decoderOf(charset = 'utf-8'): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset)
  } catch {
    return new TextDecoder()
  }
}
