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
