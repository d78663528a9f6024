import type { Effect, FailureKind } from './outbound-error.ts'
import type { AttemptFailure } from './retry.ts'
import type { AttemptResult } from './send-attempt.ts'

/**
 * What a refusal proves about this and earlier attempts of the same write. `proof`: none of them had an effect.
 * `silent`: it had no effect itself and proves nothing about the others. `ambiguous`: an effect may exist.
 */
export type Judgement = 'proof' | 'silent' | 'ambiguous'

export type ReadResult =
  | { success: true; status: number; failure: null; body: unknown }
  | { success: false; status: number | null; failure: AttemptFailure | null; body: unknown }

/** Takes off a byte order mark, which JSON.parse refuses. */
const utf8 = new TextDecoder()

/** A refusal counts by its status even when its body is incomplete or no JSON; a success does not. */
export function readResult(result: AttemptResult): ReadResult {
  if (!result.ok) {
    const refused = result.status !== null && (result.status < 200 || result.status > 299)
    if (refused) return { success: false, status: result.status, failure: null, body: null }
    return { success: false, status: null, failure: result.failure, body: null }
  }
  const json = parseJson(utf8.decode(result.body))
  if (result.status < 200 || result.status > 299) {
    return { success: false, status: result.status, failure: null, body: json ?? null }
  }
  if (json === undefined) return { success: false, status: null, failure: 'not_json', body: null }
  return { success: true, status: result.status, failure: null, body: json }
}

function parseJson(text: string): unknown {
  if (text.trim() === '') return null
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** `byCode` judges the 4xx answers that the other side's own codes explain; without it their status decides. */
export function judgeResult(
  read: ReadResult,
  sent: boolean,
  byCode: ((status: number, body: unknown) => Judgement) | undefined,
): Judgement {
  if (read.status === null) return sent ? 'ambiguous' : 'silent'
  if (read.status < 400 || read.status >= 500 || read.status === 408) return 'ambiguous'
  return byCode?.(read.status, read.body) ?? judgeByStatus(read.status)
}

/** 423 means that a request under the same key may still run. */
function judgeByStatus(status: number): Judgement {
  if (status === 423) return 'ambiguous'
  return status === 401 || status === 429 ? 'silent' : 'proof'
}

/** The failure kind of a call from its last attempt. */
export function kindOf(
  { status, failure }: Pick<ReadResult, 'status' | 'failure'>,
  effect: Effect,
): FailureKind {
  if (failure === 'oversize' || failure === 'not_json') return 'invalid_answer'
  const lost = effect === 'unknown' ? 'ambiguous' : 'unreachable'
  if (status === null || status >= 500 || status === 408) return lost
  if (status < 400) return 'invalid_answer'
  if (status === 401) return 'unauthorized'
  return status === 429 ? 'rate_limited' : 'refused'
}
