import { type FieldReason, fieldSentence } from './field-reasons.ts'

/**
 * What a program does with a refused request: send the same one again (`same_request`), send it once its cause is removed
 * (`after_change`), or not send it again (`no`).
 */
export type Retry = 'same_request' | 'after_change' | 'no'

/** The same for programmers of tills. */
export const retryMeanings = {
  same_request:
    'Wait for `Retry-After`, or one second. Send the same request with the same `Idempotency-Key`.',
  after_change:
    'Show `cashier.message`, or else `error`. Send it again only when what they name is changed: other content needs a new key.',
  no: 'Do not send it again. Read the order in `order_id`, if there is one.',
} as const satisfies Record<Retry, string>

/**
 * The catalogue of all error codes. `retry` is for a request that may safely be repeated. `text` is the default message for clients, `action` what their programmer does, for
 * the documentation. Details for the operator are in `cause`, which is logged and never answered.
 */
export const errorCatalogue = {
  VALIDATION_ERROR: {
    status: 422,
    retry: 'after_change',
    text: 'The request has values that are not allowed',
    action: 'Fix what `details` names. Do not repeat the request as it is.',
  },
  BAD_REQUEST: {
    status: 400,
    retry: 'after_change',
    text: 'The request could not be read',
    action: 'Fix the form of the request: JSON in UTF-8.',
  },
  CALLER_GONE: {
    status: 400,
    retry: 'same_request',
    text: 'The client disconnected before the request began',
    action: 'Send the same request again.',
  },
  UNAUTHORIZED: {
    status: 401,
    retry: 'after_change',
    text: 'A valid x-api-token header is required',
    action: 'Check the key. Show the error to the supervisor.',
  },
  FORBIDDEN: {
    status: 403,
    retry: 'after_change',
    text: 'This token has no permission for this request',
    action: 'Use a token that may call this route.',
  },
  UNKNOWN_HOST: {
    status: 421,
    retry: 'after_change',
    text: 'Signing in is not possible under this address of the service',
    action: 'Open the address in PUBLIC_URL, or add the host name to SIGN_IN_HOSTS.',
  },
  NOT_FOUND: {
    status: 404,
    retry: 'after_change',
    text: 'Not found',
    action: 'Check the id: the order, store or box is not known here.',
  },
  CONFLICT: {
    status: 409,
    retry: 'after_change',
    text: 'The resource exists already',
    action: 'Read what exists before you change it.',
  },
  IDEMPOTENCY_CONFLICT: {
    status: 409,
    retry: 'after_change',
    text: 'This Idempotency-Key was used before with other content',
    action: 'Make a new key for a new sale. Repeat a sale with its own content.',
  },
  ORDER_ALREADY_PAID: {
    status: 409,
    retry: 'no',
    text: 'An equal order is paid already; do not charge again',
    action: 'Give the receipt of the order in `order_id`. Do not charge again.',
  },
  CONSUMER_BUSY: {
    status: 409,
    retry: 'same_request',
    text: 'Another reader of this consumer is at work',
    action:
      'Let one program read. If its reader in `held_by` is gone, ask again after `Retry-After`.',
  },
  CURSOR_EXPIRED: {
    status: 410,
    retry: 'after_change',
    text: 'Events after this cursor were deleted, or the cursor is of another database',
    action: 'Compare your sales with `GET /orders`, then read on from the cursor in `begin_after`.',
  },
  PAYLOAD_TOO_LARGE: {
    status: 413,
    retry: 'after_change',
    text: 'The body is larger than 256 KiB (a report sent as text/csv: 8 MiB)',
    action: 'Send a smaller body.',
  },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    retry: 'after_change',
    text: 'Send the body as application/json',
    action: 'Set `content-type: application/json`.',
  },
  REQUEST_TIMEOUT: {
    status: 408,
    retry: 'same_request',
    text: 'The request did not arrive in time',
    action: 'Send the same request again.',
  },
  OAUTH_DENIED: {
    status: 400,
    retry: 'after_change',
    text: 'The connection was refused at the provider',
    action: 'Start the connection again; the owner of the account must accept.',
  },
  INVITATION_INVALID: {
    status: 409,
    retry: 'no',
    text: 'The invitation is used, expired or not valid',
    action: 'Ask the administrator for a new invitation.',
  },
  OAUTH_ALREADY_CONNECTED: {
    status: 409,
    retry: 'no',
    text: 'The client is connected already',
    action: 'Nothing. Log the client out before you connect it again.',
  },
  OAUTH_NOT_CONNECTED: {
    status: 409,
    retry: 'after_change',
    text: 'The client has no connected provider account',
    action: 'Connect the client to its Mercado Pago account.',
  },
  CONNECTION_LOST: {
    status: 409,
    retry: 'after_change',
    text: 'The provider no longer accepts the connection of this client; connect it again',
    action: 'Call the supervisor: the shop must connect its account again.',
  },
  ACCOUNT_MISMATCH: {
    status: 409,
    retry: 'after_change',
    text: 'The client belongs to another provider account; an administrator can release it',
    action: 'Use the account of before, or ask the administrator to release the client.',
  },
  OAUTH_STATE_INVALID: {
    status: 400,
    retry: 'no',
    text: 'The state is unknown, used or expired; start again',
    action: 'Start the connection again, in the same browser.',
  },
  API_KEY_REQUIRED: {
    status: 403,
    retry: 'after_change',
    text: 'The client has no active API key',
    action: 'Ask the administrator for a key.',
  },
  ORDER_AT_TERMINAL: {
    status: 409,
    retry: 'no',
    text: 'The order is on the terminal: it must be canceled from the terminal',
    action: 'Cancel on the terminal, then read the order.',
  },
  ORDER_NOT_CANCELABLE: {
    status: 409,
    retry: 'no',
    text: 'The order can no longer be canceled',
    action: 'Read the order. Refund it if it was paid.',
  },
  ORDER_NOT_REFUNDABLE: {
    status: 409,
    retry: 'no',
    text: 'The order cannot be refunded in its state',
    action: 'Read the order: it is not paid, or its money is disputed.',
  },
  ORDER_ALREADY_REFUNDED: {
    status: 409,
    retry: 'no',
    text: 'The order is refunded in full already',
    action: 'Nothing: the customer has the money back.',
  },
  REFUND_IN_PROGRESS: {
    status: 409,
    retry: 'same_request',
    text: 'A refund of this order is still in progress',
    action: 'Wait, and read the order until `outcome` is known.',
  },
  PARTIAL_REFUND_NOT_SUPPORTED: {
    status: 422,
    retry: 'after_change',
    text: 'This payment method takes no partial refund; refund the whole order',
    action: 'Refund the whole order.',
  },
  REFUND_AMOUNT_EXCEEDS: {
    status: 422,
    retry: 'after_change',
    text: 'The amount is more than what is left to refund',
    action: 'Send a smaller amount.',
  },
  TERMINAL_NOT_FOUND: {
    status: 404,
    retry: 'after_change',
    text: 'No terminal is paired with this box',
    action: 'Pair a terminal with the box.',
  },
  TERMINAL_BUSY: {
    status: 409,
    retry: 'after_change',
    text: 'The terminal is busy with another order',
    action: 'Show `cashier.message`. Finish or cancel the charge in `open_order`.',
  },
  TERMINAL_NOT_PDV: {
    status: 409,
    retry: 'after_change',
    text: 'The terminal of this box is not in PDV mode; switch its operating mode first',
    action: 'Switch the terminal to PDV mode.',
  },
  ONE_PDV_PER_BOX: {
    status: 409,
    retry: 'after_change',
    text: 'A box can have only one terminal in PDV mode',
    action: 'Switch the other terminal of the box to standalone mode first.',
  },
  CLOSING_NOT_CHECKED: {
    status: 409,
    retry: 'same_request',
    text: 'The closing has no result yet; wait until it is agreed, differs or unverified',
    action: 'Read the closing again at `next_check_at`.',
  },
  CLOSING_OVERLAPS: {
    status: 409,
    retry: 'after_change',
    text: 'Another closing of this box or store covers part of this time',
    action: 'Ask for a time from `next_from` on.',
  },
  CLOSING_GAP: {
    status: 409,
    retry: 'after_change',
    text: 'Charges before this time are in no closing; close their time first',
    action: 'Close `uncovered.business_day` first.',
  },
  CLOSING_SIGNED: {
    status: 409,
    retry: 'no',
    text: 'The closing is signed, so its count does not change; add an amendment instead',
    action: 'Add an amendment to the closing.',
  },
  CHARGES_NOT_CLOSED: {
    status: 409,
    retry: 'after_change',
    text: 'Charges of this box or store are open, or in no signed closing, so it cannot be deleted',
    action:
      'Settle the orders of `orders`, close their days and sign the closings. Then delete it.',
  },
  ORPHAN_SETTLED: {
    status: 409,
    retry: 'no',
    text: 'This payment was adopted, refunded or dismissed already',
    action: 'Read the payment in `GET /orphans`.',
  },
  CLOSING_NOT_SIGNED: {
    status: 409,
    retry: 'no',
    text: 'The closing is not signed: ask for it again instead, which compares it again',
    action: 'Ask for the closing again, or sign it.',
  },
  NOT_SANDBOX: {
    status: 409,
    retry: 'no',
    text: 'Only orders of test credentials can be simulated',
    action: 'Use an order that was made with test credentials.',
  },
  RATE_LIMITED: {
    status: 429,
    retry: 'same_request',
    text: 'Too many requests; wait as Retry-After says',
    action: 'Send the same request again after `Retry-After`.',
  },
  PROVIDER_REJECTED: {
    status: 502,
    retry: 'after_change',
    text: 'The provider refused the request',
    action: 'Read `outcome`. Show the error to the supervisor.',
  },
  PROVIDER_ERROR: {
    status: 502,
    retry: 'same_request',
    text: 'The provider answered with an error',
    action: 'Send the same request again if `retry` is `same_request`.',
  },
  PROVIDER_TIMEOUT: {
    status: 504,
    retry: 'same_request',
    text: 'The provider did not answer in time',
    action: 'Send the same request again, with the same key.',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    retry: 'same_request',
    text: 'The service is not available at the moment; try again',
    action:
      'Send the same request again after `Retry-After`, if `retry` is `same_request`. Else look for the order first.',
  },
  INTERNAL_ERROR: {
    status: 500,
    retry: 'same_request',
    text: 'Internal error of the service',
    action: 'Send the same request again if `retry` is `same_request`. Report `request_id`.',
  },
} as const satisfies Record<string, { status: number; retry: Retry; text: string; action: string }>

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
  /** What the cashier must do, for TERMINAL_BUSY and ORDER_ALREADY_PAID, in the language of an Accept-Language. */
  cashier?: (acceptLanguage: string | undefined) => { message: string; action: string }
  /** For TERMINAL_BUSY: the order on the terminal; one of another application has the provider's number. */
  openOrder?: { orderId: string; externalReference: string; ageSeconds: number }
  /** Why, by a code, with its sentence in the language of an Accept-Language; of the flow control API. */
  why?: (acceptLanguage: string | undefined) => object | null
  /** The message in the language of an Accept-Language; undefined: as it is. Of the flow control API. */
  said?: (acceptLanguage: string | undefined) => string | undefined
  /** The conflicting closing, for CLOSING_OVERLAPS and CLOSING_SIGNED. */
  closing?: { id: string; number: number; state: string; from: Date; to: Date }
  /** The time with charges that no closing covers, and the day of the first of them, for CLOSING_GAP. */
  uncovered?: { from: Date; to: Date; businessDay: string }
  /** Where the next closing of the box or store begins. */
  nextFrom?: Date
  /** The first orders and unclaimed payments in the way of a deletion, and how many there are, for CHARGES_NOT_CLOSED. */
  inTheWay?: {
    orders: { orderId: string; externalReference: string; cajaId: string; status: string }[]
    payments: string[]
    total: number
  }
  /** Who has the lease of the consumer, for CONSUMER_BUSY. */
  heldBy?: { reader: string; until: Date }
  /** The cursor of the oldest event that is left, for CURSOR_EXPIRED. */
  beginAfter?: string
  retryAfterSeconds?: number
}

/** `why` is the reason of the message; undefined for a text that has no code. */
export type ErrorDetail = { path: string; message: string; why?: FieldReason }

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
export function invalid(path: string, why: FieldReason, extra: ErrorExtra = {}): AppError {
  return new AppError('VALIDATION_ERROR', { details: [detailOf(path, why)], extra })
}

export function detailOf(path: string, why: FieldReason): ErrorDetail {
  return { path, message: fieldSentence(why, 'en'), why }
}

/** The code of the answer to a failure. */
export function codeOfFailure(error: unknown): ErrorCode {
  return error instanceof AppError ? error.code : 'INTERNAL_ERROR'
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
