import type { OrderStatus } from './order.ts'

/**
 * Which state may follow which, as a reachability relation: the provider sends no event for `at_terminal` and events
 * arrive late or never, so evidence may skip states that nobody saw. An order that was refunded before we read it
 * jumps, therefore every state that can still become paid reaches the refunded ones too.
 */
const reachable: Record<OrderStatus, readonly OrderStatus[]> = {
  created: [
    'at_terminal',
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  at_terminal: [
    'processed',
    'canceled',
    'failed',
    'expired',
    'action_required',
    'refunded',
    'partially_refunded',
  ],
  action_required: ['processed', 'failed', 'canceled', 'expired', 'refunded', 'partially_refunded'],
  processed: ['partially_refunded', 'refunded'],
  partially_refunded: ['refunded'],
  canceled: [],
  failed: [],
  expired: [],
  refunded: [],
}

/** Whether evidence of `to` may move an order that stands at `from`. */
export function canMove(from: OrderStatus, to: OrderStatus): boolean {
  return reachable[from].includes(to)
}

/** States in which the terminal may still be holding the order. */
export function isOpen(status: OrderStatus): boolean {
  return status === 'created' || status === 'at_terminal' || status === 'action_required'
}

/** States in which the provider may take a cancel. */
export function mayBeCanceled(status: OrderStatus): boolean {
  return status === 'created' || status === 'at_terminal'
}

/** The detail of an order whose cancel the provider has passed to its terminal, which may still take the money. */
export const cancelRequested = 'cancellation_requested'

/** Whether the provider has taken a cancel of this order that the terminal has not carried out yet. */
export function isCancelRequested(order: {
  status: OrderStatus
  status_detail: string | null
}): boolean {
  return order.status === 'at_terminal' && order.status_detail === cancelRequested
}

/** States in which the customer's money is with the shop, at least in part. */
export function isPaid(status: OrderStatus): boolean {
  return status === 'processed' || status === 'partially_refunded'
}

/** States that end an order without a charge. */
export function isClosedUnpaid(status: OrderStatus): boolean {
  return status === 'canceled' || status === 'failed' || status === 'expired'
}

/** States that nothing at the provider changes any more, so reading again is of no use. */
export function isUntouchable(status: OrderStatus): boolean {
  return isClosedUnpaid(status) || status === 'refunded'
}
