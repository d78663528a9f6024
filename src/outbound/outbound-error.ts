import type { AttemptFailure } from './retry.ts'

/**
 * Named by what the caller does next. `refused`: correct the request. `unauthorized`: renew the credential.
 * `rate_limited`: wait. `unreachable`: nothing happened, try later. `ambiguous`: a write that may have worked, check.
 * `invalid_answer`: the other side broke its contract.
 */
export type FailureKind =
  | 'refused'
  | 'unauthorized'
  | 'rate_limited'
  | 'unreachable'
  | 'ambiguous'
  | 'invalid_answer'

/** Whether the request, over all its attempts, can have changed anything on the other side. */
export type Effect = 'none' | 'unknown'

type OutboundFailure = {
  kind: FailureKind
  effect: Effect
  /** A definite refusal under the idempotency key: no earlier call with this key had an effect either. */
  provesAbsence: boolean
  status: number | null
  failure: AttemptFailure | null
  /** The parsed JSON of a refusal; null without one. */
  body: unknown
  headers: Record<string, string | string[] | undefined>
  retryAfterSeconds: number | null
  attempts: number
}

/** An outgoing call that ended without a usable 2xx. Contains no header and no body of the request. */
export class OutboundError extends Error implements OutboundFailure {
  readonly kind: FailureKind
  readonly effect: Effect
  readonly provesAbsence: boolean
  readonly status: number | null
  readonly failure: AttemptFailure | null
  readonly body: unknown
  readonly headers: Record<string, string | string[] | undefined>
  readonly retryAfterSeconds: number | null
  readonly attempts: number

  constructor(fields: OutboundFailure, cause?: unknown) {
    super(`outgoing call failed: ${fields.kind}`, { cause })
    this.name = 'OutboundError'
    this.kind = fields.kind
    this.effect = fields.effect
    this.provesAbsence = fields.provesAbsence
    this.status = fields.status
    this.failure = fields.failure
    this.body = fields.body
    this.headers = fields.headers
    this.retryAfterSeconds = fields.retryAfterSeconds
    this.attempts = fields.attempts
  }
}
