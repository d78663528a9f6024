/**
 * The catalogue of all error codes. `text` is the default message for clients; details for the operator are in `cause`,
 * which is logged and never answered.
 */
export const errorCatalogue = {
  VALIDATION_ERROR: { status: 422, text: 'The request has values that are not allowed' },
  BAD_REQUEST: { status: 400, text: 'The request could not be read' },
  CALLER_GONE: { status: 400, text: 'The caller hung up before this was begun' },
  UNAUTHORIZED: { status: 401, text: 'A valid x-api-token header is required' },
  FORBIDDEN: { status: 403, text: 'This token may not do that' },
  NOT_FOUND: { status: 404, text: 'Not found' },
  CONFLICT: { status: 409, text: 'It exists already' },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    text: 'This Idempotency-Key was used before with other content',
  },
  ORDER_ALREADY_PAID: { status: 409, text: 'An equal order is paid already; do not charge again' },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    text: 'The body is larger than 256 KiB (a report sent as text/csv: 8 MiB)',
  },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, text: 'Send the body as application/json' },
  REQUEST_TIMEOUT: { status: 408, text: 'The request did not arrive in time' },
  OAUTH_DENIED: { status: 400, text: 'The connection was refused at the provider' },
  INVITATION_INVALID: { status: 409, text: 'The invitation is used, expired or not valid' },
  OAUTH_ALREADY_CONNECTED: { status: 409, text: 'The client is connected already' },
  OAUTH_NOT_CONNECTED: { status: 409, text: 'The client has no connected provider account' },
  CONNECTION_LOST: {
    status: 409,
    text: 'The provider no longer accepts the connection of this client; connect it again',
  },
  ACCOUNT_MISMATCH: {
    status: 409,
    text: 'The client belongs to another provider account; an administrator can release it',
  },
  OAUTH_STATE_INVALID: { status: 400, text: 'The state is unknown, used or expired; start again' },
  API_KEY_REQUIRED: { status: 403, text: 'The client has no active API key' },
  ORDER_AT_TERMINAL: {
    status: 409,
    text: 'The order is on the terminal: it must be canceled from the terminal',
  },
  ORDER_NOT_CANCELABLE: { status: 409, text: 'The order can no longer be canceled' },
  ORDER_NOT_REFUNDABLE: { status: 409, text: 'The order cannot be refunded in its state' },
  ORDER_ALREADY_REFUNDED: { status: 409, text: 'The order is refunded in full already' },
  REFUND_IN_PROGRESS: { status: 409, text: 'A refund of this order is still in progress' },
  PARTIAL_REFUND_NOT_SUPPORTED: {
    status: 422,
    text: 'This payment method takes no partial refund; refund the whole order',
  },
  REFUND_AMOUNT_EXCEEDS: { status: 422, text: 'The amount is more than what is left to refund' },
  TERMINAL_NOT_FOUND: { status: 404, text: 'No terminal is paired with this box' },
  TERMINAL_BUSY: { status: 409, text: 'The terminal holds another order' },
  TERMINAL_NOT_PDV: {
    status: 409,
    text: 'The terminal of this box is not in PDV mode; switch its operating mode first',
  },
  ONE_PDV_PER_BOX: { status: 409, text: 'A box can hold only one terminal in PDV mode' },
  CLOSING_NOT_CHECKED: {
    status: 409,
    text: 'The closing has no result yet; wait until it is agreed, differs or unverified',
  },
  CLOSING_OVERLAPS: {
    status: 409,
    text: 'Another closing of this box or store covers part of this time',
  },
  CLOSING_GAP: {
    status: 409,
    text: 'Charges before this time are in no closing; close their time first',
  },
  CLOSING_SIGNED: {
    status: 409,
    text: 'The closing is signed, so its count does not change; add an amendment instead',
  },
  ORPHAN_SETTLED: {
    status: 409,
    text: 'Something else was done about this charge already',
  },
  CLOSING_NOT_SIGNED: {
    status: 409,
    text: 'The closing is not signed: open it again instead, which compares it anew',
  },
  NOT_SANDBOX: { status: 409, text: 'Only orders of test credentials can be simulated' },
  RATE_LIMITED: { status: 429, text: 'Too many requests; wait as Retry-After says' },
  PROVIDER_REJECTED: { status: 502, text: 'The provider refused the request' },
  PROVIDER_ERROR: { status: 502, text: 'The provider answered with an error' },
  PROVIDER_TIMEOUT: { status: 504, text: 'The provider did not answer in time' },
  SERVICE_UNAVAILABLE: { status: 503, text: 'The service cannot work at the moment; try again' },
  INTERNAL_ERROR: { status: 500, text: 'Something failed on our side' },
} as const satisfies Record<string, { status: number; text: string }>

export type ErrorCode = keyof typeof errorCatalogue

/** Whether money moved, as far as is known: only `unknown` may be either. */
export type Outcome = 'charged' | 'not_charged' | 'unknown'

/** Fields of an error answer besides `error`, `code` and `details`; they are published in the OpenAPI description. */
export type ErrorExtra = {
  outcome?: Outcome
  retrySafe?: boolean
  /** The order of this request, never of another client. */
  orderId?: string
  status?: string
  /** What the cashier must do, for TERMINAL_BUSY, in the language of an Accept-Language. */
  cashier?: (acceptLanguage: string | undefined) => { message: string; action: string }
  /** For TERMINAL_BUSY: the order on the terminal; one of another application has the provider's number. */
  openOrder?: { orderId: string; externalReference: string; ageSeconds: number }
  /** The conflicting closing, for CLOSING_OVERLAPS and CLOSING_SIGNED. */
  closing?: { id: string; number: number; state: string; from: Date; to: Date }
  /** The time with charges that no closing covers, and the day of the first of them, for CLOSING_GAP. */
  uncovered?: { from: Date; to: Date; businessDay: string }
  /** Where the next closing of the box or store begins. */
  nextFrom?: Date
  retryAfterSeconds?: number
}

export type ErrorDetail = { path: string; message: string }

/** A failure that is answered to the client. Services throw it by code; the error handler of the listener writes the body. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly details: readonly ErrorDetail[] | undefined
  readonly extra: ErrorExtra

  constructor(
    code: ErrorCode,
    options: {
      message?: string | undefined
      details?: readonly ErrorDetail[]
      extra?: ErrorExtra
      cause?: unknown
    } = {},
  ) {
    super(options.message ?? errorCatalogue[code].text, { cause: options.cause })
    this.name = 'AppError'
    this.code = code
    this.status = errorCatalogue[code].status
    this.details = options.details
    this.extra = options.extra ?? {}
  }
}

/** A 422 for one field. */
export function invalid(path: string, message: string): AppError {
  return new AppError('VALIDATION_ERROR', { details: [{ path, message }] })
}

/** An unexpected failure with what is known about the money. It is answered like its `cause` (500 or 503), plus `extra`. */
export class OutcomeError extends Error {
  readonly extra: ErrorExtra

  constructor(cause: unknown, extra: ErrorExtra) {
    super('unexpected failure', { cause })
    this.name = 'OutcomeError'
    this.extra = extra
  }
}

/** The same failure with what is known about the money, unless it has that already. */
export function addOutcome(error: unknown, extra: ErrorExtra): AppError | OutcomeError {
  if (error instanceof OutcomeError) return error
  return error instanceof AppError ? withExtra(error, extra) : new OutcomeError(error, extra)
}

/** The same error with fields of `extra` that it lacks. */
export function withExtra(error: AppError, extra: ErrorExtra): AppError {
  return new AppError(error.code, {
    message: error.message,
    ...(error.details && { details: error.details }),
    cause: error.cause,
    extra: { ...extra, ...error.extra },
  })
}
