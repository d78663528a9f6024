import { silentAfterMs } from '../../fleet/health-limits.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'

/**
 * For how many milliseconds the terminal that an order waits for has not answered, as far as is known without asking anybody;
 * undefined while it may just be slow.
 */
export function silenceMs(
  { fleet, now }: Pick<PaymentDeps, 'fleet' | 'now'>,
  order: Pick<OrderRow, 'client' | 'caja_id' | 'status' | 'creation' | 'created_at' | 'checked_at'>,
): number | undefined {
  if (order.status !== 'created' || order.creation !== 'confirmed') return undefined
  const trouble = fleet.troubleOf(order.client, order.caja_id)
  const known = trouble?.cause === 'terminal_silent' ? trouble.since : null
  const lookedMs = (order.checked_at?.getTime() ?? 0) - order.created_at.getTime()
  const since = known ?? (lookedMs >= silentAfterMs ? order.created_at : null)
  return since ? Math.max(0, now().getTime() - since.getTime()) : undefined
}
