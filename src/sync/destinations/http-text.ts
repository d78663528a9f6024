import { parseExactJson } from '../../domain/json.ts'
import type { GuardedAnswer } from '../../outbound/guarded-request.ts'

type Body = Pick<GuardedAnswer, 'headers' | 'body'>

/** The text of an answer by the charset that it names, else UTF-8, without the mark that some servers begin with. */
export function textOf({ headers, body }: Body): string {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(String(headers['content-type'] ?? ''))?.[1]
  return decoderOf(charset).decode(body)
}

/** The document of an answer; undefined when it is no JSON. */
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
