import { z } from 'zod'
import type { AttemptFailure, Effect, FailureKind } from '../outbound/outbound.ts'
import { MpNote } from './payload-fields.ts'

/** What is used of the provider's three error envelopes. `codes` has the main code, then those of further errors and causes. */
type ProviderErrorBody = {
  code: string | null
  codes: readonly string[]
  message: string | null
}

const MpText = z.string().nullish().catch(null)
const MpCause = z.object({ code: MpNote }).catch({ code: null })

const MpErrorBody = z.object({
  errors: z
    .array(z.object({ code: MpNote, message: MpText }).catch({ code: null, message: null }))
    .nullish()
    .catch(null),
  error: MpNote,
  code: MpNote,
  message: MpText,
  error_description: MpText,
  cause: z.array(MpCause).nullish().catch(null),
  causes: z.array(MpCause).nullish().catch(null),
})

/** Answers and logs show the code, so only a plain name is accepted. */
const plainCode = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/

/**
 * Reads envelope A (`errors[]`), B (flat `code`) and C (`error`, `cause[]` or `causes[]`), provider file 0.5. Nulls for
 * anything else.
 */
export function parseErrorBody(body: unknown): ProviderErrorBody {
  const parsed = MpErrorBody.safeParse(body)
  if (!parsed.success) return { code: null, codes: [], message: null }
  const { errors, error, code, message, error_description, cause, causes } = parsed.data
  const first = errors?.[0]
  const main = first?.code ?? error ?? code
  const nested = [...(errors ?? []).slice(1), ...(cause ?? []), ...(causes ?? [])].map(
    (entry) => entry.code,
  )
  const codes = [main, ...nested].filter(
    (text): text is string => typeof text === 'string' && plainCode.test(text),
  )
  return {
    code: codes[0] ?? null,
    codes,
    message: first?.message ?? message ?? error_description ?? null,
  }
}

const texts: Record<FailureKind, string> = {
  refused: 'the provider refused the request',
  unauthorized: 'the provider does not accept the credential',
  rate_limited: 'the provider asks to wait',
  unreachable: 'the provider could not be reached',
  ambiguous: 'it is not known whether the provider did what was asked',
  invalid_answer: 'the provider gave an answer that cannot be read',
}

export type ProviderErrorFields = Omit<ProviderError, keyof Error | 'provesAbsence'> & {
  provesAbsence?: boolean
}

/**
 * A provider call that ended without a usable answer. Decide by `kind`, `effect` and `providerCode`. `effect` covers
 * all attempts of the call. `providerMessage` is the provider's own text: for the log only.
 */
export class ProviderError extends Error {
  declare readonly kind: FailureKind
  declare readonly effect: Effect
  /**
   * A definite refusal under the idempotency key: no earlier call under this key had an effect, or else the provider
   * would have answered with the first resource. `effect: 'none'` covers this call alone.
   */
  declare readonly provesAbsence: boolean
  declare readonly status: number | null
  /** Why the last attempt had no answer; null when it had one. */
  declare readonly failure: AttemptFailure | null
  declare readonly providerCode: string | null
  /** The main code first, then the codes of its causes. */
  declare readonly codes: readonly string[]
  declare readonly providerMessage: string | null
  declare readonly retryAfterSeconds: number | null
  declare readonly requestId: string | null
  declare readonly attempts: number

  constructor(fields: ProviderErrorFields, cause?: unknown) {
    super(texts[fields.kind], { cause })
    this.name = 'ProviderError'
    Object.assign(this, { provesAbsence: false }, fields)
  }
}

/**
 * Whether the provider answered the question. False when it was unreachable, broken or overloaded, and when it refused
 * the token. A refused token is temporary: a status check for an order of unknown outcome is still needed.
 */
export function isAnswered(error: unknown): boolean {
  if (!(error instanceof ProviderError)) return true
  if (error.kind === 'rate_limited' || error.kind === 'unauthorized') return false
  return error.status !== null && error.status < 500
}

/** For a thing that may be missing: a 404 means that there is none. */
export function undefinedIfGone(error: unknown): undefined {
  if (!(error instanceof ProviderError) || error.status !== 404) throw error
}
