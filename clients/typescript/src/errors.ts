import type { components } from './api.ts'

type ErrorBody = components['schemas']['ErrorBody']

/** The service refused a request. Decide by `retry`, `outcome` and `code`, never by the text. */
export class TillbridgeError extends Error {
  override readonly name = 'TillbridgeError'
  readonly status: number
  readonly code: ErrorBody['code']
  /** Whether the customer is charged. On routes that move money. */
  readonly outcome: ErrorBody['outcome']
  /** What to do: the same request again, again after a change, or not again. */
  readonly retry: NonNullable<ErrorBody['retry']>
  /** Whether the same request again can never charge or refund twice. */
  readonly retrySafe: boolean | undefined
  /** What the cashier is to do. */
  readonly cashier: ErrorBody['cashier']
  /** All that was answered, such as `order_id` and `open_order`. */
  readonly body: ErrorBody
  /** How long to wait before the same request. */
  readonly retryAfterMs: number

  constructor(status: number, body: ErrorBody, retryAfterMs: number) {
    super(`${body.code}: ${body.error}`)
    this.status = status
    this.code = body.code
    this.outcome = body.outcome
    this.retry = body.retry ?? (passes(status) ? 'same_request' : 'after_change')
    this.retrySafe = body.retry_safe
    this.cashier = body.cashier
    this.body = body
    this.retryAfterMs = retryAfterMs
  }
}

/** Errors of routes that move no money have no `retry`. */
function passes(status: number): boolean {
  return status === 408 || status === 429 || status >= 502
}

/** No answer came, or none that can be read: the outcome is not known. Send the same request with the same key later. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
  readonly outcome = 'unknown'
  readonly retry = 'same_request'
  readonly retryAfterMs = 1_000
}
