import type { Judgement } from '../outbound/outbound.ts'
import { isMoneyOperation, type ProviderOperation, rowsOfRefusal } from './error-codes.ts'
import { parseErrorBody } from './provider-error.ts'

/**
 * What a 4xx answer to a write under an idempotency key proves, by the table of codes. The provider answers a repeated key with
 * the first resource (provider file 2.1 and 7), so a definite refusal means that nothing was made.
 *
 * Where money moves, only a code that the provider documents for this operation counts. A 403 or 404 without one comes
 * from a proxy between, which may have forwarded the request.
 */
export function judgeRefusal(
  operation: ProviderOperation,
  status: number,
  body: unknown,
): Judgement {
  const { code, codes } = parseErrorBody(body)
  if (status === 423) return 'ambiguous'
  const proofs = rowsOfRefusal(operation, status, codes).rows.map(({ proves }) => proves)
  if (proofs.includes('unknown')) return 'ambiguous'
  if (isMoneyOperation(operation)) {
    if (proofs.length === 0) return 'ambiguous'
    return proofs.includes('nothing') ? 'silent' : 'proof'
  }
  if (status === 401 || status === 429 || proofs.includes('nothing')) return 'silent'
  if (code === null) return status === 409 ? 'ambiguous' : 'silent'
  return 'proof'
}
