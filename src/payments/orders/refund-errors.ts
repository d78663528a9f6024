import { AppError, type ErrorCode, type ErrorExtra } from '../../errors/app-error.ts'
import { moneyOutcome, type OrderInError, type Situation } from '../../errors/money-outcome.ts'
import { type ProviderError, toAppError } from '../../provider/provider.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/** The error for a refund that the provider did not confirm; `isRefused` when it never will. */
export function refusedByProvider(
  order: OrderRow,
  error: ProviderError,
  isRefused: boolean,
): AppError {
  const failure = toAppError(error, 'order.refund')
  const isForNow = failure.status >= 500 || failure.code === 'RATE_LIMITED'
  const ended = isForNow ? 'refundRefusedForNow' : 'refundRefused'
  return refusal(order, failure, isRefused ? ended : 'refundUndecided')
}

/** A failure with what it says of the money in this situation. */
export function refusal(order: OrderInError, failure: AppError, situation: Situation): AppError {
  const money = moneyOutcome(situation, order)
  return new AppError(failure.code, {
    message: failure.message,
    cause: failure,
    extra: { ...failure.extra, ...money, orderId: order.id, status: order.status },
  })
}

/** The order's state after a refusal of its refund, which changed nothing. */
export function refundStanding(order: OrderInError): ErrorExtra {
  return { ...moneyOutcome('refundNotMade', order), orderId: order.id, status: order.status }
}

/** An error of this service that includes the order's state. */
export function refuseRefund(
  code: ErrorCode,
  order: OrderInError,
  extra: ErrorExtra = {},
): AppError {
  return new AppError(code, { extra: { ...refundStanding(order), ...extra } })
}
