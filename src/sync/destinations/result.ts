import type { Reason } from '../../domain/flow-reasons.ts'
import type { DeliveryResult } from '../types.ts'

type Failure = Extract<DeliveryResult, { ok: false }>

/** Another attempt cannot help: the item, or the definition, has to change first. */
export function refused(why: Reason, extra: { status?: number } = {}): Failure {
  return { ok: false, retryable: false, outage: false, why, ...extra }
}

/** Another attempt may help. `outage`: the receiver itself is in trouble, not only this item. */
export function postponed(
  why: Reason,
  extra: { outage: boolean; status?: number; retryAfterSeconds?: number },
): Failure {
  return { ok: false, retryable: true, why, ...extra }
}

/**
 * Nothing can be sent to the destination, whatever the item: no attempt counts, and it is looked again after
 * `lookAgainMs`.
 */
export function blocked(why: Reason, lookAgainMs: number): Failure {
  return { ...postponed(why, { outage: false }), blockedMs: lookAgainMs }
}

/** The receiver has the item no longer: the next attempt creates it anew. */
export function gone(why: Reason, status: number): Failure {
  return { ...postponed(why, { outage: false, status }), forget: true }
}

/** Nothing was sent, since the right to was lost before the first byte. */
export function withheld(): Failure {
  return postponed({ code: 'PERMIT_LOST' }, { outage: false })
}

/** Whoever stops or takes over broke it off before it began. */
export function givenUp(): Failure {
  return postponed({ code: 'GIVEN_UP' }, { outage: false })
}

/** A mapped object with at least one field, as rows of tables and files need; undefined for all else. */
export function asObject(body: unknown): Record<string, unknown> | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined
  return body as Record<string, unknown>
}

/** What kind of value stands where another was expected; for messages. */
export function kindOfValue(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : typeof value
}
