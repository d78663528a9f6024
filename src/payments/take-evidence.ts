import type { Trx } from '../db/database.ts'
import { pointFromCents } from '../domain/money.ts'
import {
  isFailedRefund,
  isPendingRefund,
  type OrderEvidence,
  type ProviderRefund,
} from '../domain/order.ts'
import {
  finishRefund,
  listOperations,
  type OrderOperationRow,
} from '../repositories/order-operations.ts'
import type { OrderRow } from '../repositories/orders.ts'
import { recordFailure, recordSuccess } from './activity.ts'
import { type Applied, applyEvidence, type EvidenceSource } from './apply-evidence.ts'
import { type Actor, type PaymentDeps, serviceActor } from './deps.ts'

/**
 * Applies evidence to the locked row, and ends what hangs on it: a refund of ours that the provider had taken and that is
 * now through, or has failed.
 */
export async function takeEvidence(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
): Promise<Applied> {
  const applied = await applyEvidence(trx, order, evidence, source, deps.now())
  const before = new Map(order.refunds.map((refund) => [refund.id, refund.status]))
  const ended = applied.order.refunds.filter(
    ({ id, status }) => before.get(id) !== status && !isPendingRefund(status),
  )
  if (applied.changed && ended.length > 0) await endRefunds(deps, trx, applied.order, ended)
  return applied
}

async function endRefunds(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  ended: readonly ProviderRefund[],
): Promise<void> {
  const operations = await listOperations(trx, [order.id])
  for (const refund of ended) {
    const operation = operations.find(({ mp_refund_id }) => mp_refund_id === refund.id)
    if (operation?.state !== 'done') continue
    const hasFailed = isFailedRefund(refund.status)
    if (!hasFailed && operation.finished_at !== null) continue
    await finishRefund(trx, operation.id, { hasFailed, at: deps.now() })
    const actor = serviceActor(deps.now())
    if (hasFailed) await recordRefundFailed(deps, trx, order, operation, actor)
    else await recordRefunded(deps, trx, order, operation, actor)
  }
}

/** The audit entry of a refund that is through. */
export async function recordRefunded(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<void> {
  await recordSuccess(deps, trx, refundEntry(order, operation, actor))
}

async function recordRefundFailed(
  deps: PaymentDeps,
  trx: Trx,
  order: OrderRow,
  operation: OrderOperationRow,
  actor: Actor,
): Promise<void> {
  const message = 'The provider had taken the refund, and it failed; its amount is not given back'
  await recordFailure(deps, trx, refundEntry(order, operation, actor), message)
}

function refundEntry(order: OrderRow, operation: OrderOperationRow, actor: Actor) {
  return {
    client: order.client,
    actor,
    action: 'order.refunded',
    resourceType: 'order',
    resourceId: order.id,
    metadata: {
      mp_order_id: order.mp_order_id,
      type: operation.refund_type,
      amount: pointFromCents(operation.amount_cents as number),
      caja_id: order.caja_id,
    },
  }
}
