import { kindOf, type Reason } from '../../texts/reason.ts'
import type { DeliveryResult } from '../types.ts'

type Failure = Extract<DeliveryResult, { ok: false }>

/** Another attempt cannot succeed until the item or the definition changes. */
export function refused(why: Reason, extra: { status?: number } = {}): Failure {
  return { ok: false, retryable: false, outage: false, why, ...extra }
}

/** Another attempt may succeed. `outage`: the receiver itself is failing, and not only this item. */
export function postponed(
  why: Reason,
  extra: { outage: boolean; status?: number; retryAfterSeconds?: number },
): Failure {
  return { ok: false, retryable: true, why, ...extra }
}

/**
 * What answered is not this API, such as a page of a proxy: an outage. No attempt is counted, because the item may be right.
 */
export function foreign(
  why: Reason,
  extra: { status?: number; retryAfterSeconds?: number } = {},
): Failure {
  return { ...postponed(why, { outage: true, ...extra }), isForeign: true }
}

/** The destination cannot be used for any item. No attempt is counted, and the destination is tried again after `checkAgainMs`. */
export function blocked(why: Reason, checkAgainMs: number): Failure {
  return { ...postponed(why, { outage: false }), blockedMs: checkAgainMs }
}

/** The receiver no longer has the item: the next attempt creates it again. */
export function gone(why: Reason, status: number): Failure {
  return { ...postponed(why, { outage: false, status }), forget: true }
}

/** Nothing was sent: the permission to send was lost before the first byte. */
export function withheld(): Failure {
  return postponed({ code: 'PERMIT_LOST' }, { outage: false })
}

/** A stop or another process canceled the delivery before it was sent. */
export function aborted(): Failure {
  return postponed({ code: 'GIVEN_UP' }, { outage: false })
}

/** What a mapping returned instead of an object. */
export function kindOfMade(value: unknown): Reason {
  return value === undefined ? { code: 'KIND_NOTHING' } : kindOf(value)
}

/** A mapped object with at least one field, as tables and files need it; else undefined. */
export function asObject(body: unknown): Record<string, unknown> | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined
  return body as Record<string, unknown>
}
