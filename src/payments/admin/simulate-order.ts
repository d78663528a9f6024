import type { OrderStatus } from '../../domain/order.ts'
import { isFinal } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import type { SimulatedEvent } from '../../provider/provider.ts'
import { findConnection } from '../../repositories/connection/connection-queries.ts'
import {
  findOrderOfAnyClient,
  type OrderRow,
  planCheck,
} from '../../repositories/orders/order-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { nextAfterSimulation } from '../orders/check-and-retry-times.ts'
import { refreshOrder } from '../orders/read.ts'
import { serviceContext } from '../request-context.ts'

/**
 * Asks the provider to simulate an event on an order of test credentials. The change comes later, by webhook or read.
 *
 * @throws NOT_FOUND, NOT_SANDBOX, CONFLICT (an ended order), ORDER_NOT_REFUNDABLE, or the provider's failure
 */
export async function simulateOrder(
  deps: PaymentDeps,
  request: { id: string; client: string | undefined; event: SimulatedEvent },
  actor: Actor,
): Promise<{ order: OrderRow; expectedWithinSeconds: number }> {
  const { db } = deps.database
  const order = await findOrderOfAnyClient(db, request.id)
  if (!order || (request.client !== undefined && order.client !== request.client)) {
    throw new AppError('NOT_FOUND', { message: 'There is no such order' })
  }
  const entry = {
    client: order.client,
    actor,
    action: 'order.simulated',
    resourceId: order.id,
    metadata: { status: request.event.status, mp_order_id: order.mp_order_id },
  }
  return auditFailure(deps, entry, async () => {
    const connection = await findConnection(db, order.client)
    if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
    if (connection.live_mode) throw new AppError('NOT_SANDBOX')
    // The order may have changed at the terminal. Then the provider would refuse the event without a clear reason.
    const { order: current } = await refreshOrder(deps, order, serviceContext(deps, 'api'))
    checkMove(current, request.event.status)
    const mpOrderId = current.mp_order_id
    if (mpOrderId === null) {
      throw new AppError('CONFLICT', { message: 'The provider has not confirmed this order yet' })
    }
    await callForClient(deps, order.client, 'order.simulate', ({ token }) =>
      deps.provider.orders.simulate(token, mpOrderId, request.event, {
        about: { client: order.client, orderId: order.id, source: 'api' },
      }),
    )
    await deps.database.transaction((trx) => recordSuccess(deps, trx, entry))
    await planCheck(db, order.id, {
      checkedAt: null,
      nextCheckAt: nextAfterSimulation(deps.now()),
    })
    return {
      order: current,
      expectedWithinSeconds: request.event.status === 'action_required' ? 40 : 10,
    }
  })
}

function checkMove(order: OrderRow, wanted: OrderStatus): void {
  if (wanted === 'refunded') {
    if (order.status !== 'processed') {
      throw new AppError('ORDER_NOT_REFUNDABLE', {
        message: 'Only a processed order can be refunded',
      })
    }
    return
  }
  if (isFinal(order.status) || order.status === 'partially_refunded') {
    throw new AppError('CONFLICT', { message: `The order has ended already: ${order.status}` })
  }
}
