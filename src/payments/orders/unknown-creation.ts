import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/**
 * 504: the provider may have the order. The till asks for this order, or repeats the same request; that is safe unless
 * neither a key nor the guard against duplicates makes the repetition the same order (`repeatable`).
 */
export function unknownCreation(order: OrderRow, cause: unknown, repeatable = true): AppError {
  const advice = repeatable
    ? 'ask for it by its order_id or repeat the same request'
    : 'ask for it by its order_id and do not charge again'
  return new AppError('PROVIDER_TIMEOUT', {
    message: `The provider did not confirm the order in time; ${advice}`,
    cause,
    extra: {
      ...moneyOutcome(repeatable ? 'chargeUndecided' : 'chargeUndecidedOnce'),
      orderId: order.id,
      status: order.status,
    },
  })
}
