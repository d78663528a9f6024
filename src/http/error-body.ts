import { z } from 'zod'
import {
  type AppError,
  type ErrorCode,
  type ErrorDetail,
  errorCatalogue,
  type Retry,
  retryMeanings,
} from '../errors/app-error.ts'
import { shownFieldReason } from '../errors/field-reasons.ts'
import { type MoneyRoute, moneyOutcomeOnFailure, retryOf } from '../errors/money-outcome.ts'

const retries = Object.keys(retryMeanings) as [Retry, ...Retry[]]
const codes = Object.keys(errorCatalogue) as [ErrorCode, ...ErrorCode[]]

const detail = z.object({
  path: z.string().describe('Field, such as `location.latitude` or `pos.0.name`'),
  message: z.string(),
  why: z
    .object({
      code: z
        .enum(['FIELD_MISSING', 'FIELD_UNKNOWN', 'VALUE_WRONG'])
        .describe('Why the field is refused; decide by it, never by the text'),
      message: z.string().describe('In the language of Accept-Language'),
    })
    .optional()
    .describe('Where Accept-Language names a language (es, en, pt)'),
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
    .describe(
      'About money: whether the same request again can never charge or refund twice. Not whether it helps: that is `retry`',
    ),
  retry: z
    .enum(retries)
    .optional()
    .describe(
      'Where `retry_safe` stands. `same_request`: send it again, with the same key. `after_change`: only when what `error` names is changed. `no`: do not send it again',
    ),
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
      .describe(
        'The order that holds the terminal; of another application under its number at the provider',
      ),
    cashier: z
      .object({ message: z.string(), action: z.string() })
      .optional()
      .describe(
        'For TERMINAL_BUSY and ORDER_ALREADY_PAID: what the cashier is to do; language by Accept-Language',
      ),
    closing: z
      .object({
        id: z.uuid(),
        number: z.number(),
        state: z.string(),
        from: z.iso.datetime(),
        to: z.iso.datetime(),
      })
      .optional()
      .describe('The closing that is in the way'),
    uncovered: z
      .object({
        from: z.iso.datetime(),
        to: z.iso.datetime(),
        business_day: z.iso.date().describe('Day of the first of these charges; close it first'),
      })
      .optional()
      .describe('Time with charges that no closing of this place covers'),
    orders: z
      .array(
        z.object({
          order_id: z.uuid(),
          external_reference: z.string(),
          caja_id: z.string(),
          status: z.string(),
        }),
      )
      .optional()
      .describe('For CHARGES_NOT_CLOSED: the first orders that are open or in no signed closing'),
    payment_ids: z
      .array(z.string())
      .optional()
      .describe('For CHARGES_NOT_CLOSED: the first payments without an order in no signed closing'),
    total: z
      .number()
      .optional()
      .describe('For CHARGES_NOT_CLOSED: how many orders and payments there are'),
    next_from: z.iso.datetime().optional().describe('Where the next closing of this place begins'),
    held_by: z
      .object({ reader: z.string(), until: z.iso.datetime() })
      .optional()
      .describe('For CONSUMER_BUSY: who reads, and until when'),
    begin_after: z
      .string()
      .optional()
      .describe('For CURSOR_EXPIRED: the cursor from which all events are left'),
  })
  .meta({ id: 'ErrorBody' })

/** The 422 of values that are not allowed. */
export const ValidationErrorBody = z
  .object({ ...common, code: z.literal('VALIDATION_ERROR'), details: z.array(detail) })
  .meta({ id: 'ValidationErrorBody' })

/** The error answer of the flow control API; its specification has one field. */
export const PlainErrorBody = z
  .object({
    error: z.string().describe('In Spanish where Accept-Language asks for it, else in English'),
    why: z
      .object({
        code: z.string().describe('The reference of reasons lists them'),
        data: z.record(z.string(), z.unknown()),
        message: z.string().nullable().describe('In the language of Accept-Language'),
      })
      .optional()
      .describe('Why a source or a definition cannot be read'),
  })
  .meta({ id: 'PlainErrorBody' })

/** `coded` is the shape of the payment API, `plain` that of the flow control API. */
export type ErrorStyle = 'coded' | 'plain'

/** For `plain`: the sentence and the reason of a failure in the language of an Accept-Language; without, as the failure says it. */
export type CompleteFailure = (
  failure: AppError,
  acceptLanguage: string | undefined,
) => { error?: string | undefined; why?: object | null | undefined }

type Answer = { status: number; body: Record<string, unknown> }

/** Status and body of a failure. `money` is the route's own setting, undefined elsewhere. */
export function answerFor(
  failure: AppError,
  {
    style,
    requestId,
    money,
    acceptLanguage,
    complete = ({ extra }, accepted) => ({ why: extra.why?.(accepted) }),
  }: {
    style: ErrorStyle
    requestId: string
    money?: MoneyRoute | undefined
    acceptLanguage?: string | undefined
    complete?: CompleteFailure | undefined
  },
): Answer {
  if (style === 'plain') return plainAnswer(failure, complete(failure, acceptLanguage))
  const { orderId, status, openOrder, cashier, closing, uncovered, nextFrom, inTheWay } =
    failure.extra
  const { beginAfter, heldBy } = failure.extra
  const { outcome, retrySafe } = money ? moneyOutcomeOnFailure(failure, money) : failure.extra
  return {
    status: failure.status,
    body: {
      error: failure.message,
      code: failure.code,
      ...(failure.details && {
        details: failure.details.map((one) => shownDetail(one, acceptLanguage)),
      }),
      request_id: requestId,
      ...(outcome !== undefined && { outcome }),
      ...(retrySafe !== undefined && {
        retry_safe: retrySafe,
        retry: retryOf(failure.code, retrySafe),
      }),
      ...(orderId !== undefined && { order_id: orderId }),
      ...(status !== undefined && { status }),
      ...(openOrder && {
        open_order: {
          order_id: openOrder.orderId,
          external_reference: openOrder.externalReference,
          age_seconds: openOrder.ageSeconds,
        },
      }),
      ...(cashier && { cashier: cashier(acceptLanguage) }),
      ...(closing && { closing: { ...closing, ...isoSpan(closing) } }),
      ...(uncovered && {
        uncovered: { ...isoSpan(uncovered), business_day: uncovered.businessDay },
      }),
      ...(inTheWay && {
        orders: inTheWay.orders.map((order) => ({
          order_id: order.orderId,
          external_reference: order.externalReference,
          caja_id: order.cajaId,
          status: order.status,
        })),
        payment_ids: inTheWay.payments,
        total: inTheWay.total,
      }),
      ...(nextFrom && { next_from: nextFrom.toISOString() }),
      ...(heldBy && { held_by: { ...heldBy, until: heldBy.until.toISOString() } }),
      ...(beginAfter !== undefined && { begin_after: beginAfter }),
    },
  }
}

/** Programs name no language (none, or `*`): for them a detail is a path and an English message. */
function shownDetail({ path, message, why }: ErrorDetail, acceptLanguage: string | undefined) {
  const shown = why && shownFieldReason(why, acceptLanguage)
  return { path, message, ...(shown && { why: shown }) }
}

function isoSpan({ from, to }: { from: Date; to: Date }) {
  return { from: from.toISOString(), to: to.toISOString() }
}

/** The control API has no 422: an invalid request is 400 there, with everything in the one field. */
function plainAnswer(failure: AppError, given: ReturnType<CompleteFailure>): Answer {
  const details = failure.details?.map(({ path, message }) => `${path}: ${message}`)
  const { error = details ? details.join('; ') : failure.message, why } = given
  return {
    status: failure.status === 422 ? 400 : failure.status,
    body: { error, ...(why && { why }) },
  }
}
