import { z } from 'zod'
import { type AppError, type ErrorCode, type ErrorExtra, errorCatalogue } from '../errors.ts'
import type { MoneyRoute } from './access.ts'

const codes = Object.keys(errorCatalogue) as [ErrorCode, ...ErrorCode[]]

const detail = z.object({
  path: z.string().describe('Field, such as `location.latitude` or `pos.0.name`'),
  message: z.string(),
})

const common = {
  error: z.string().describe('What went wrong, for people'),
  request_id: z.string().describe('Quote it when asking for help'),
  outcome: z
    .enum(['charged', 'not_charged', 'unknown'])
    .optional()
    .describe('Whether the customer is charged; always present on routes that move money'),
  retry_safe: z
    .boolean()
    .optional()
    .describe('Whether repeating the same request is of use and can never charge twice'),
}

/** Any error answer. */
export const ErrorBody = z
  .object({
    ...common,
    code: z.enum(codes),
    details: z.array(detail).optional(),
    order_id: z.string().optional().describe('Always the order of this request'),
    status: z.string().optional().describe('State of that order'),
    open_order: z
      .object({
        order_id: z.string(),
        external_reference: z.string(),
        age_seconds: z.number(),
      })
      .optional()
      .describe('The order that holds the terminal'),
  })
  .meta({ id: 'ErrorBody' })

/** The 422 of values that are not allowed. */
export const ValidationErrorBody = z
  .object({ ...common, code: z.literal('VALIDATION_ERROR'), details: z.array(detail) })
  .meta({ id: 'ValidationErrorBody' })

/** The error answer of the flow control API, whose specification gives it one field. */
export const PlainErrorBody = z.object({ error: z.string() }).meta({ id: 'PlainErrorBody' })

/** `coded` is the shape of the payment API, `plain` that of the flow control API. */
export type ErrorStyle = 'coded' | 'plain'

type Answer = { status: number; body: Record<string, unknown> }

/** Status and body of a failure. `money` is the route's own setting, undefined elsewhere. */
export function answerFor(
  failure: AppError,
  {
    style,
    requestId,
    money,
  }: { style: ErrorStyle; requestId: string; money?: MoneyRoute | undefined },
): Answer {
  if (style === 'plain') return plainAnswer(failure)
  const { orderId, status, openOrder } = failure.extra
  const { outcome, retrySafe } = moneyFields(failure, money)
  return {
    status: failure.status,
    body: {
      error: failure.message,
      code: failure.code,
      ...(failure.details && { details: failure.details }),
      request_id: requestId,
      ...(outcome !== undefined && { outcome }),
      ...(retrySafe !== undefined && { retry_safe: retrySafe }),
      ...(orderId !== undefined && { order_id: orderId }),
      ...(status !== undefined && { status }),
      ...(openOrder && {
        open_order: {
          order_id: openOrder.orderId,
          external_reference: openOrder.externalReference,
          age_seconds: openOrder.ageSeconds,
        },
      }),
    },
  }
}

/** The control API knows no 422: an invalid request is 400 there, and says all in its one field. */
function plainAnswer(failure: AppError): Answer {
  const details = failure.details?.map(({ path, message }) => `${path}: ${message}`)
  const error = details ? details.join('; ') : failure.message
  return { status: failure.status === 422 ? 400 : failure.status, body: { error } }
}

/** Refused for who asks or when, not for what: an equal request may have got through before. */
const refusedUnread: ReadonlySet<number> = new Set([401, 403, 408, 429])
/** Of them, those that only want the same request later. */
const passing: ReadonlySet<number> = new Set([408, 429])

/**
 * What a till needs to know before it charges again. A service that knows says so in `extra`. Otherwise, on a money
 * route: what was refused for its content was never charged, nor was an equal request before it. What was refused unread
 * did nothing either, but says nothing of the request whose answer the till has lost and which it is repeating now; it
 * may be sent again if only waiting helps. Nor does a cancel or refund that could not be read say that its order, which
 * nobody has looked for, is not paid. After a 5xx nobody knows, and repeating is safe only where the route guards
 * against duplicates.
 */
function moneyFields(
  failure: AppError,
  money: MoneyRoute | undefined,
): Pick<ErrorExtra, 'outcome' | 'retrySafe'> {
  if (!money) return failure.extra
  const { status, extra } = failure
  const isUnread = refusedUnread.has(status)
  const isForContent = status < 500 && !isUnread
  const isDenial = isForContent && (!money.namesOrder || failure.code === 'NOT_FOUND')
  const outcome = extra.outcome ?? (isDenial ? 'not_charged' : 'unknown')
  if (extra.retrySafe !== undefined) return { outcome, retrySafe: extra.retrySafe }
  if (isUnread) return { outcome, retrySafe: passing.has(status) }
  if (isForContent && extra.outcome === undefined) return { outcome, retrySafe: false }
  if (outcome === 'unknown') return { outcome, retrySafe: money.retrySafeWhenUnknown }
  return { outcome, retrySafe: outcome === 'not_charged' && [503, 504].includes(status) }
}
