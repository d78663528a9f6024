import { z } from 'zod'
import { centsFromErp } from '../domain/money.ts'
import { invalid } from '../errors/app-error.ts'
import { fieldMessage } from '../errors/field-reasons.ts'

const plainText = fieldMessage({ code: 'TEXT_NOT_PLAIN' })
/**
 * Written out, in a form that every tool reads. The pattern is published, and \\p{Cc} has another or no meaning for tools without
 * Unicode classes or a flag for them.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const withoutControls = /^[^\x00-\x1f\x7f-\x9f]*$/

/**
 * Text without control characters: it appears in logs, on paper and on terminals. It also has no byte order mark in front, which
 * the embedded database drops when it reads a value: an id would not be found, and the audit log would look changed.
 */
export function limitedText(min: number, max: number) {
  return z
    .string()
    .min(min)
    .max(max)
    .regex(withoutControls, plainText)
    .refine((value) => !value.startsWith('\ufeff'), plainText)
}

export const ClientNameSchema = limitedText(1, 100)
  .refine((name) => name.trim() === name, fieldMessage({ code: 'TEXT_WITH_OUTER_SPACE' }))
  .describe('Name of the client (tenant)')
  .meta({ example: 'acme' })

/** An ERP's id of a store or box, as the ERP writes it. */
export const ErpId = limitedText(1, 64).describe('Id in the ERP').meta({ example: 'SUC-1' })

/** Our order id (UUID) or the provider's (`ORD…`). */
export const OrderId = limitedText(1, 100)
  .describe('Order id of this service, or of the provider')
  .meta({ example: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7' })

export const ErpAmount = z
  .string()
  .regex(/^[0-9]{1,12},[0-9]{1,2}$/, { error: fieldMessage({ code: 'AMOUNT_FORM' }), abort: true })
  // Refuses zero in a valid form.
  .refine((amount) => centsFromErp(amount) !== undefined, fieldMessage({ code: 'AMOUNT_ZERO' }))
  .describe('Decimal comma, more than zero')
  .meta({ example: '1234,50' })

export const PointAmount = z
  .string()
  .regex(/^[0-9]+\.[0-9]{2}$/)
  .describe('Decimal point, two decimals')
  .meta({ example: '1234.50' })

export const SignedSum = z
  .string()
  .regex(/^-?[0-9]+\.[0-9]{2}$/)
  .describe('Decimal point, two decimals; may be less than zero')

export const SignedAmount = SignedSum.meta({ example: '1234.50' })

/** A calendar day, without a time. */
export const Day = z.iso.date().meta({ example: '2026-12-05' })

/** A time of an answer. Handlers may give a Date: the serializer writes it in this form. */
export const Timestamp: z.ZodType<Date | string, Date | string> = z.iso
  .datetime()
  .meta({ example: '2026-11-21T14:30:00.000Z' })

/** A whole number in a query string. Only here coercion is right: a query contains only text. */
export function queryInteger(min: number, max: number) {
  return z.coerce.number().int().min(min).max(max)
}

/** The number of entries to return. */
export function queryLimit(max: number, standard: number) {
  return queryInteger(1, max).default(standard).describe('How many entries at most')
}

/** The number of entries to skip. */
export function queryOffset(max: number) {
  return queryInteger(0, max).default(0).describe('How many entries to leave out first')
}

/** The part of a list that is wanted. */
export const PartQuery = { limit: queryLimit(200, 50), offset: queryOffset(1_000_000) }

const dayMs = 86_400_000
/** A month and a day, so that a whole month fits in any time zone. */
export const longestSpanMs = 32 * dayMs

/** The time that figures are of. */
export const SpanQuery = {
  from: z.iso.datetime({ offset: true }).describe('Start of the time'),
  to: z.iso
    .datetime({ offset: true })
    .optional()
    .describe('Its end, at most 32 days later; now unless given'),
}

/**
 * The time of a `SpanQuery`.
 *
 * @throws VALIDATION_ERROR when it is too long, or ends before it begins
 */
export function spanOf(query: { from: string; to?: string | undefined }, now: Date) {
  const from = new Date(query.from)
  const to = query.to === undefined ? now : new Date(query.to)
  const lengthMs = to.getTime() - from.getTime()
  if (!(lengthMs > 0 && lengthMs <= longestSpanMs)) throw invalid('to', { code: 'SPAN_WRONG' })
  return { from, to }
}

/** For routes that answer with a stream, and tools that show a response only at its end. */
export const StreamQuery = {
  max_seconds: queryInteger(1, 900)
    .optional()
    .describe('Ends the stream after so long, with the reason `time`'),
}

/** The query of every client route: the administrator names the client. */
export const ClientQuery = {
  client: ClientNameSchema.optional().describe(
    'With the admin token: the client to act for. With a client key it may only name its own client',
  ),
}

/** The query of routes about all clients or one. */
export const AnyClientQuery = {
  client: ClientNameSchema.optional().describe(
    'Of this client only. With a client key it may only name its own client',
  ),
}

/** That of client routes that name no other. */
export const ClientOnlyQuery = z.object(ClientQuery)
