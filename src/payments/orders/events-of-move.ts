import type { Db, Trx } from '../../db/database.ts'
import {
  changesBetween,
  eventTypesOfMove,
  mayBeInDoubt,
  type OrderFacts,
} from '../../domain/event-types.ts'
import { decisionOf } from '../../domain/order-state.ts'
import { outcomeOf } from '../../errors/money-outcome.ts'
import type { OrderEventValues } from '../../repositories/events/event-log.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { OperationEnd } from '../../repositories/orders/save-order-move.ts'
import { readBeside, viewOrderFacts } from './order-view.ts'

/** The events of a move, to be written with it. `ends`: the cancel or refund that ends with the move. */
export async function eventsOfMove(
  db: Db | Trx,
  before: OrderRow,
  moved: OrderRow,
  ends: OperationEnd | undefined,
): Promise<OrderEventValues> {
  const after = ends ? afterEnd(moved, ends) : moved
  const types = eventTypesOfMove(factsOf(before), factsOf(after))
  if (mayBeInDoubt(before.standing)) types.push('order.in_doubt')
  const beside = await readBeside(db, [after])
  const operations = beside.operations.map((one) =>
    ends && one.id === ends.id ? { ...one, ...stateOf(ends) } : one,
  )
  const isNew = before.creation === 'intent'
  return {
    event_types: types.join(','),
    event_changes: JSON.stringify(
      changesBetween(isNew ? {} : changeable(before), changeable(after)),
    ),
    event_data: JSON.stringify(viewOrderFacts(after, { ...beside, operations })),
  }
}

/** At most one refund of an order is open. */
function afterEnd(order: OrderRow, ends: OperationEnd): OrderRow {
  const isRefund = ends.amount_cents !== null
  return { ...order, refund_unclear: null, ...(isRefund && { refund_open: false }) }
}

function stateOf({ state, mp_refund_id, amount_cents, finishedAt }: OperationEnd) {
  return { state, mp_refund_id, amount_cents, finished_at: finishedAt }
}

function factsOf(order: OrderRow): OrderFacts {
  return {
    isConfirmed: order.creation === 'confirmed',
    status: order.status,
    paidAfterClose: order.paid_after_close,
    refundedCents: order.refunded_cents,
    decision: decisionOf(order),
    settledAt: order.settled_at?.getTime() ?? null,
  }
}

/** What `changes` of an event shows. */
function changeable(order: OrderRow) {
  return {
    status: order.status,
    outcome: outcomeOf(order),
    paid_cents: order.paid_cents,
    refunded_cents: order.refunded_cents,
    needs_decision: decisionOf(order),
    settled_as: order.settled_as,
  }
}
