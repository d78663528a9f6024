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
    .describe('Whether money moved; always present on routes that move money'),
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

/**
 * What a till needs to know before it charges again. A service that knows says so in `extra`. Otherwise, on a money
 * route: a 4xx was refused before the provider could be asked, so nothing was charged, and only waiting (408, 429)
 * makes the same request succeed; after a 5xx nobody knows, and repeating is safe only where the route guards against
 * duplicates.
 */
function moneyFields(
  failure: AppError,
  money: MoneyRoute | undefined,
): Pick<ErrorExtra, 'outcome' | 'retrySafe'> {
  if (!money) return failure.extra
  const refused = failure.status < 500
  const outcome = failure.extra.outcome ?? (refused ? 'not_charged' : 'unknown')
  if (failure.extra.retrySafe !== undefined) return { outcome, retrySafe: failure.extra.retrySafe }
  if (outcome === 'unknown') return { outcome, retrySafe: money.retrySafeWhenUnknown }
  const passing = [408, 429, 503, 504].includes(failure.status)
  return { outcome, retrySafe: outcome === 'not_charged' && passing }
}
