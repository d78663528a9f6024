import { z } from 'zod'
import { parseAmount, parseDuration } from './amounts.ts'
import { apiError } from './errors.ts'
import { isRecord, readBody, single, text } from './validation-errors.ts'

const defaultExpirySeconds = 900

function amountText(hasCents: boolean) {
  return text((value) => parseAmount(value, hasCents) !== undefined).transform(
    (value) => parseAmount(value) ?? 0,
  )
}

function isExpiry(value: string): boolean {
  const seconds = parseDuration(value)
  return seconds !== undefined && seconds >= 30 && seconds <= 10_800
}

const PaymentMethod = z
  .strictObject({
    default_type: text((type) =>
      ['credit_card', 'debit_card', 'qr', 'voucher_card'].includes(type),
    ).optional(),
    default_installments: z.int().nullish(),
    installments_cost: text((payer) => payer === 'seller' || payer === 'buyer').optional(),
  })
  .refine(
    ({ default_type: type, default_installments: count }) =>
      count == null || (type === 'credit_card' && count >= 1 && count <= 99),
    {
      path: ['default_installments'],
      error: 'goes with credit_card only',
      when: ({ value }) =>
        isRecord(value) &&
        (value.default_installments == null || Number.isInteger(value.default_installments)),
    },
  )

/** The table of provider facts 2.1. */
function orderBody(hasCents: boolean) {
  return z.strictObject({
    type: text((type) => type === 'point'),
    external_reference: text((reference) => /^[A-Za-z0-9_-]{1,64}$/.test(reference)),
    description: text((description) => [...description].length <= 150).optional(),
    expiration_time: text(isExpiry).optional(),
    transactions: z.strictObject({
      payments: single(z.strictObject({ amount: amountText(hasCents) })),
    }),
    config: z.strictObject({
      payment_method: PaymentMethod.optional(),
      point: z.strictObject({
        terminal_id: text(),
        // The provider prints by default.
        print_on_terminal: text(
          (print) => print === 'seller_ticket' || print === 'no_ticket',
        ).default('seller_ticket'),
        ticket_number: text().optional(),
      }),
    }),
    integration_data: z
      .strictObject({
        platform_id: text().optional(),
        integrator_id: text().optional(),
        sponsor: z.strictObject({ id: text() }).optional(),
      })
      .optional(),
    taxes: z.array(z.strictObject({ payer_condition: text() })).default([]),
  })
}
const OrderBody = orderBody(true)
const WholeOrderBody = orderBody(false)

/** The content of a valid body of POST /v1/orders. Amount in cents, expiry in seconds. */
export type OrderRequest = ReturnType<typeof readOrderBody>

/** Checks the body. Throws one 400 that names every error. */
export function readOrderBody(body: unknown, hasCents = true) {
  if (body === undefined) {
    throw apiError(400, 'required_properties', 'The request body is required.')
  }
  if (isRecord(body) && Object.keys(body).length === 0) {
    throw apiError(400, 'minimum_properties', 'The object has fewer properties than allowed.')
  }
  const order = readBody(hasCents ? OrderBody : WholeOrderBody, body)
  const { point, payment_method: method } = order.config
  return {
    externalReference: order.external_reference,
    description: order.description ?? null,
    expirationTime: order.expiration_time ?? null,
    expirySeconds: parseDuration(order.expiration_time ?? '') ?? defaultExpirySeconds,
    amountCents: order.transactions.payments[0]?.amount ?? 0,
    terminalId: point.terminal_id,
    printOnTerminal: point.print_on_terminal,
    ticketNumber: point.ticket_number ?? null,
    paymentMethodConfig: method
      ? {
          defaultType: method.default_type ?? null,
          defaultInstallments: method.default_installments ?? null,
          installmentsCost: method.installments_cost ?? null,
        }
      : null,
    integrationData: {
      platformId: order.integration_data?.platform_id ?? null,
      integratorId: order.integration_data?.integrator_id ?? null,
      sponsorId: order.integration_data?.sponsor?.id ?? null,
    },
    taxes: order.taxes.map((tax) => ({ payerCondition: tax.payer_condition })),
  }
}

function refundBody(hasCents: boolean) {
  const part = z.strictObject({ id: text(), amount: amountText(hasCents) })
  return z.strictObject({ transactions: single(part) })
}
const RefundBody = refundBody(true)
const WholeRefundBody = refundBody(false)

/**
 * Reads the body of a refund: none or `{}` for everything, else exactly one payment with its amount in cents
 * (provider facts 2.4).
 */
export function readRefundBody(body: unknown, hasCents: boolean) {
  if (body === undefined || (isRecord(body) && Object.keys(body).length === 0)) return undefined
  return readBody(hasCents ? RefundBody : WholeRefundBody, body).transactions[0]
}
