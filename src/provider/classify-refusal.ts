import type { Judgement } from '../outbound/outbound.ts'
import { errorRows, isMoneyOperation } from './error-codes.ts'
import { parseErrorBody } from './provider-error.ts'

/** The key is in use or was used: an earlier call of ours may have made a resource under it. */
const keyIsKnown: ReadonlySet<string> = new Set([
  'idempotency_key_already_used',
  'idempotency_validation_failed',
  'resource_locked',
  'conflict',
])

/**
 * Refusals that an earlier attempt of ours can have caused, and the one that is decided before the key is checked. They
 * have no effect, and prove nothing about earlier attempts.
 */
const saysNothing: ReadonlySet<string> = new Set([
  'PA_UNAUTHORIZED_RESULT_FROM_POLICIES',
  'order_already_canceled',
  'order_already_refunded',
  'refund_in_progress',
  'movement_operations_pending',
])

/** Refusals that the provider documents as made before it reads a request (file 0.5), by their status. */
const beforeTheKey: ReadonlyMap<number, ReadonlySet<string>> = new Map([
  [401, new Set(['unauthorized'])],
  [429, new Set(['too_many_requests', 'local_rate_limited', 'usage_quota_exceeded'])],
])

/**
 * What a 4xx answer to a write under an idempotency key proves. The provider answers a repeated key with the first
 * resource (provider file 2.1 and 7), so a definite refusal means that nothing was made.
 *
 * Where money moves, only a code that the provider documents for this operation counts. A 403 or 404 without one comes
 * from a proxy between, which may have forwarded the request.
 */
export function judgeRefusal(operation: string, status: number, body: unknown): Judgement {
  const { code } = parseErrorBody(body)
  if (status === 423 || (code !== null && keyIsKnown.has(code))) return 'ambiguous'
  if (isMoneyOperation(operation)) {
    if (code === null) return 'ambiguous'
    if (saysNothing.has(code) || beforeTheKey.get(status)?.has(code)) return 'silent'
    return errorRows[operation].some(({ on }) => on === code) ? 'proof' : 'ambiguous'
  }
  if (status === 401 || status === 429) return 'silent'
  if (code === null) return status === 409 ? 'ambiguous' : 'silent'
  return saysNothing.has(code) ? 'silent' : 'proof'
}
