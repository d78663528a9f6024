import { AppError, type ErrorCode, withExtra } from '../../errors/app-error.ts'
import { moneyOutcome, type OrderInError } from '../../errors/money-outcome.ts'
import { busyWith } from '../../payments/orders/busy-terminal.ts'
import { chargeTooSlow } from '../../payments/orders/choose-terminal.ts'
import { alreadyPaid, otherSale } from '../../payments/orders/duplicate-charge.ts'
import { refusal, refuseRefund } from '../../payments/orders/refund-errors.ts'
import { inProgress, standing } from '../../payments/orders/refund-intent.ts'
import { noSuchBox } from '../../payments/orders/sale.ts'
import { notCancelable } from '../../payments/orders/send-cancel.ts'
import { unknownCreation } from '../../payments/orders/send-charge.ts'
import { providerErrors } from '../authentication.ts'

/**
 * The errors of the routes that move money, each with what it says of the money, for the API description. They are made by
 * the functions that make the answers. `test/payment/published-errors.test.ts` provokes them.
 */
const waiting: OrderInError = {
  id: '5d0f7c1e-2b44-4f0a-9c39-61c1f6a0e2d7',
  creation: 'confirmed',
  status: 'created',
  conflict: null,
  paid_after_close: false,
  paid_cents: 0,
  refunded_cents: 0,
  refund_open: false,
  refunds: [],
}
const paid = { ...waiting, status: 'processed' as const, paid_cents: 123_450 }
const canceled = { ...waiting, status: 'canceled' as const }
const refunded = { ...paid, status: 'refunded' as const, refunded_cents: 123_450 }
const ofOrder = { orderId: waiting.id }

const notCharged = moneyOutcome('chargeNotMade')
const providerRefuses = new AppError('PROVIDER_REJECTED')
const providerFails = new AppError('PROVIDER_ERROR')

/** Of `POST /orders`. */
export const chargeErrors: readonly AppError[] = [
  withExtra(noSuchBox(), notCharged),
  new AppError('OAUTH_NOT_CONNECTED', { extra: notCharged }),
  new AppError('CONNECTION_LOST', { extra: notCharged }),
  new AppError('ACCOUNT_MISMATCH', { extra: notCharged }),
  new AppError('TERMINAL_NOT_FOUND', { extra: notCharged }),
  new AppError('TERMINAL_NOT_PDV', { extra: notCharged }),
  busyWith('own', undefined, {
    openOrder: { ...ofOrder, externalReference: '0001-00004711', ageSeconds: 95 },
  }),
  busyWith('unknown', undefined),
  otherSale(),
  alreadyPaid(paid),
  // The provider has refused the order.
  withExtra(providerRefuses, { ...notCharged, ...ofOrder }),
  withExtra(providerFails, { ...notCharged, ...ofOrder }),
  new AppError('RATE_LIMITED', { extra: { ...notCharged, ...ofOrder } }),
  // Before its order was made.
  withExtra(providerRefuses, notCharged),
  withExtra(providerFails, notCharged),
  chargeTooSlow(),
  // A later charge of its box was refused.
  new AppError('SERVICE_UNAVAILABLE', { extra: notCharged }),
  unknownCreation(waiting, undefined),
]

/** Of `POST /orders/cancel`. */
export const cancelErrors: readonly AppError[] = [
  ...(['OAUTH_NOT_CONNECTED', 'CONNECTION_LOST', 'ACCOUNT_MISMATCH'] as const).map(
    (code) => new AppError(code, { extra: { ...moneyOutcome('cancelUndecided'), ...ofOrder } }),
  ),
  notCancelable({ ...waiting, status: 'at_terminal' }),
  notCancelable(paid),
  notCancelable({ ...waiting, status: 'expired' }),
  ...(['PROVIDER_REJECTED', 'PROVIDER_ERROR', 'PROVIDER_TIMEOUT', 'RATE_LIMITED'] as const).map(
    (code) =>
      new AppError(code, {
        extra: {
          ...moneyOutcome('cancelRefused', waiting),
          ...ofOrder,
          status: waiting.status,
        },
      }),
  ),
]

/** Of `POST /orders/refund`. */
export const refundErrors: readonly AppError[] = [
  ...(['OAUTH_NOT_CONNECTED', 'CONNECTION_LOST', 'ACCOUNT_MISMATCH'] as const).map((code) =>
    refusal(paid, new AppError(code), 'refundRefusedForNow'),
  ),
  refusal(paid, new AppError('ACCOUNT_MISMATCH'), 'refundRefused'),
  refuseRefund('ORDER_NOT_REFUNDABLE', canceled),
  refuseRefund('ORDER_NOT_REFUNDABLE', waiting),
  refusal(paid, new AppError('ORDER_NOT_REFUNDABLE'), 'refundRefused'),
  refuseRefund('ORDER_ALREADY_REFUNDED', refunded),
  inProgress(paid),
  refusal(paid, new AppError('PARTIAL_REFUND_NOT_SUPPORTED'), 'refundRefused'),
  refuseRefund('REFUND_AMOUNT_EXCEEDS', paid),
  new AppError('IDEMPOTENCY_CONFLICT', { extra: standing(paid) }),
  refusal(paid, providerRefuses, 'refundRefusedForNow'),
  refusal(paid, providerFails, 'refundRefusedForNow'),
  refusal(paid, new AppError('RATE_LIMITED'), 'refundRefusedForNow'),
  refusal(paid, new AppError('PROVIDER_TIMEOUT'), 'refundUndecided'),
]

/** Of `POST /orphans/{orphanId}/refund`: before the payment is an order, and then as of any refund of all that was paid. */
export const refundOrphanErrors: readonly (ErrorCode | AppError)[] = [
  ...providerErrors.map((code) => new AppError(code)),
  'ORPHAN_SETTLED',
  refusal(paid, new AppError('ORDER_NOT_REFUNDABLE'), 'refundRefused'),
  inProgress(paid),
  refusal(paid, providerRefuses, 'refundRefusedForNow'),
  refusal(paid, new AppError('PROVIDER_TIMEOUT'), 'refundUndecided'),
]
