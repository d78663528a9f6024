import type { z } from 'zod'
import { standingAt } from '../../domain/order-state.ts'
import type { PaymentDeps } from '../../payments/deps.ts'
import { adviseCashier, silentForMs } from '../../payments/orders/cashier-texts.ts'
import { type Beside, viewOrderFacts, viewOutcome } from '../../payments/orders/order-view.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Language } from '../../texts/language.ts'
import type { OrderResponse } from './order-schemas.ts'

/** An order in the form of the API. */
export function viewOrder(
  deps: Pick<PaymentDeps, 'fleet' | 'now'>,
  order: OrderRow,
  beside: Beside,
  language: Language,
  stale = false,
): z.input<typeof OrderResponse> {
  return {
    ...viewOrderFacts(order, beside),
    ...viewMoney(deps, order, language),
    standing: standingAt(order, deps.now()),
    stale,
  }
}

/** Whether money moved, with the text for the cashier. */
export function viewMoney(
  deps: Pick<PaymentDeps, 'fleet' | 'now'>,
  order: OrderRow,
  language: Language,
) {
  const outcome = viewOutcome(order)
  const { message, action } = adviseCashier(order, language, silentForMs(deps, order))
  return { ...outcome, cashier: { message, action, retry_safe: outcome.retry_safe } }
}
