import { z } from 'zod'

/** The parts of the provider's three error envelopes that matter. `codes` holds the main code, then those of the causes. */
export type ErrorBody = { code: string | null; codes: readonly string[]; message: string | null }

const MpCode = z.union([z.string(), z.number()]).transform(String).nullish().catch(null)
const MpText = z.string().nullish().catch(null)
const MpCause = z.object({ code: MpCode }).catch({ code: null })

const MpErrorBody = z.object({
  errors: z
    .array(z.object({ code: MpCode, message: MpText }).catch({ code: null, message: null }))
    .nullish()
    .catch(null),
  error: MpCode,
  code: MpCode,
  message: MpText,
  error_description: MpText,
  cause: z.array(MpCause).nullish().catch(null),
  causes: z.array(MpCause).nullish().catch(null),
})

/** A code goes into answers and logs, so nothing but a plain name passes. */
const plainCode = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/

/**
 * Reads envelope A (`errors[]`), B (flat `code`) and C (`error`, `cause[]` or `causes[]`), provider file 0.5. Anything else
 * gives nulls.
 */
export function parseErrorBody(body: unknown): ErrorBody {
  // An attempt that succeeded has none.
  if (body === undefined) return { code: null, codes: [], message: null }
  const parsed = MpErrorBody.safeParse(body)
  if (!parsed.success) return { code: null, codes: [], message: null }
  const { errors, error, code, message, error_description, cause, causes } = parsed.data
  const first = errors?.[0]
  const main = first?.code ?? error ?? code
  const nested = [...(cause ?? []), ...(causes ?? [])].map((entry) => entry.code)
  const codes = [main, ...nested].filter(
    (text): text is string => typeof text === 'string' && plainCode.test(text),
  )
  return {
    code: codes[0] ?? null,
    codes,
    message: first?.message ?? message ?? error_description ?? null,
  }
}
