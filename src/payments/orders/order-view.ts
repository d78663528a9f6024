import type { Db, Trx } from '../../db/database.ts'
import {
  buyerPaidCents,
  isOwn,
  pointFromCents,
  receivedCents,
  signedPointFromCents,
} from '../../domain/money.ts'
import type { NamedAmount, Net } from '../../domain/net-amount.ts'
import { decisionOf } from '../../domain/order-state.ts'
import { orderMoneyOutcome } from '../../errors/money-outcome.ts'
import {
  type ChargedInstead,
  findChargedInstead,
  listOperations,
  type OrderOperationRow,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'

/** What is shown together with orders in responses. */
export type Beside = {
  /** Their cancels and refunds: some facts of a refund are stored only here. */
  operations: readonly OrderOperationRow[]
  /** By the id of an order that was paid late: the charge that replaced it. */
  instead: ReadonlyMap<string, ChargedInstead>
}

/** Reads what is shown together with these orders. */
export async function readBeside(db: Db | Trx, orders: readonly OrderRow[]): Promise<Beside> {
  const refunded = orders.filter(isOfRefunds)
  const late = orders.filter((order) => decisionOf(order) === 'paid_late')
  if (refunded.length === 0 && late.length === 0) return nothing
  return {
    operations: await listOperations(
      db,
      refunded.map(({ id }) => id),
    ),
    instead: await findChargedInstead(
      db,
      late.map(({ id }) => id),
    ),
  }
}

const nothing: Beside = { operations: [], instead: new Map() }

/** Whether the answer about an order shows what its cancels and refunds have stored. */
function isOfRefunds({ refunds, refund_unclear, refund_settled }: OrderRow): boolean {
  return refunds.length > 0 || refund_unclear !== null || refund_settled
}

/** An order in the form of the API, without what depends on the time and on the reader. */
export function viewOrderFacts(order: OrderRow, { operations, instead }: Beside) {
  return {
    order_id: order.id,
    external_reference: order.external_reference,
    caja_id: order.caja_id,
    sucursal_id: order.sucursal_id,
    amount: pointFromCents(order.amount_cents),
    paid_amount: pointFromCents(buyerPaidCents(order)),
    received_amount: pointFromCents(order.paid_cents),
    refunded_amount: pointFromCents(order.refunded_cents),
    description: order.description,
    ticket_number: order.ticket_number,
    status: order.status,
    status_detail: order.status_detail,
    payments: order.payments.filter(hasMethod).map((payment) => ({
      id: payment.id,
      amount: pointFromCents(payment.amountCents),
      paid_amount: payment.paidCents === null ? null : pointFromCents(payment.paidCents),
      tip_amount: pointFromCents(payment.tipCents ?? 0),
      received_amount: payment.paidCents === null ? null : pointFromCents(receivedCents(payment)),
      is_surplus: !isOwn(payment),
      status: payment.status,
      status_detail: payment.statusDetail,
      payment_method: {
        type: payment.methodType,
        installments: payment.installments,
        id: payment.methodId,
      },
    })),
    refunds: order.refunds.map((refund) => {
      const ours = operations.find((operation) => operation.mp_refund_id === refund.id)
      const isAll = refund.amountCents !== null && refund.amountCents >= order.paid_cents
      return {
        id: refund.id,
        transaction_id: refund.transactionId,
        reference_id: refund.referenceId,
        amount: refund.amountCents === null ? null : pointFromCents(refund.amountCents),
        buyer_amount: refund.buyerCents === undefined ? null : pointFromCents(refund.buyerCents),
        status: refund.status,
        type: ours?.refund_type ?? (isAll ? 'total' : 'partial'),
        created_at: ours?.created_at.toISOString() ?? null,
      }
    }),
    created_at: order.created_at.toISOString(),
    last_updated_at: order.last_updated_at.toISOString(),
    version: order.version,
    ...viewOutcome(order),
    terminal_id: order.terminal_id,
    payment_method: order.payment_method,
    expires_at: order.expires_at.toISOString(),
    mp_order_id: order.mp_order_id,
    paid_after_close: order.paid_after_close,
    needs_decision: decisionOf(order),
    charged_instead: viewInstead(instead.get(order.id)),
    net: order.net && viewNet(order.net),
    given_up_at: order.cancel_requested_at?.toISOString() ?? null,
    settled: viewSettlement(order),
    refund_in_doubt: viewRefundInDoubt(order, operations),
    settled_refunds: operations.filter(isSettledOf(order)).map(viewSettledRefund),
    client: order.client,
  }
}

function viewInstead(instead: ChargedInstead | undefined) {
  if (!instead) return null
  return {
    order_id: instead.id,
    external_reference: instead.external_reference,
    amount: pointFromCents(instead.amount_cents),
    status: instead.status,
    created_at: instead.created_at.toISOString(),
  }
}

function viewNet(net: Net) {
  const { expected, chargedBack } = net
  return {
    state: net.state,
    gross: signedPointFromCents(net.grossCents),
    fee: signedPointFromCents(net.feeCents),
    financing: signedPointFromCents(net.financingCents),
    taxes: net.taxes.map(viewNamed),
    not_classed: net.notClassed.map(viewNamed),
    unexplained: signedPointFromCents(net.unexplainedCents),
    net: signedPointFromCents(net.netCents),
    release_on: net.releaseOn,
    charged_back: chargedBack
      ? {
          taken: signedPointFromCents(chargedBack.takenCents),
          returned: signedPointFromCents(chargedBack.returnedCents),
        }
      : null,
    expected: expected && {
      gross: signedPointFromCents(expected.grossCents),
      net: expected.netCents === null ? null : signedPointFromCents(expected.netCents),
    },
  }
}

function viewNamed({ name, detail, entity, cents }: NamedAmount) {
  return { name, detail, entity, amount: signedPointFromCents(cents) }
}

/** Until the customer has chosen how to pay there is nothing to show. */
function hasMethod({ methodType }: OrderRow['payments'][number]): boolean {
  return methodType !== null
}

function viewSettlement({ settled_as, settled_at, settled_reason }: OrderRow) {
  return settled_as === null || settled_at === null || settled_reason === null
    ? null
    : { as: settled_as, at: settled_at.toISOString(), reason: settled_reason }
}

/** The refund that a person must decide on: the open one, or one whose decision the provider contradicts. */
function viewRefundInDoubt(order: OrderRow, operations: readonly OrderOperationRow[]) {
  const why = order.refund_unclear ?? order.refund_contradicted
  if (why === null) return null
  const own = operations.filter(({ order_id, kind }) => order_id === order.id && kind === 'refund')
  const refund =
    own.find(({ state }) => state === 'unknown') ?? own.findLast(isSettledOf(order)) ?? own.at(-1)
  if (!refund) return null
  return {
    why,
    type: refund.refund_type ?? ('total' as const),
    amount: pointFromCents(refund.amount_cents ?? 0),
    created_at: refund.created_at.toISOString(),
    decided_at: refund.settled_at?.toISOString() ?? null,
    candidates: (refund.possible_refunds ?? []).map(({ id, amountCents, status }) => ({
      id,
      amount: amountCents === null ? null : pointFromCents(amountCents),
      status,
    })),
  }
}

function isSettledOf({ id }: OrderRow) {
  return ({ order_id, settled_as }: OrderOperationRow) => order_id === id && settled_as !== null
}

function viewSettledRefund(operation: OrderOperationRow) {
  return {
    as: operation.settled_as as 'refunded' | 'not_refunded',
    amount: pointFromCents(operation.amount_cents ?? 0),
    refund_id: operation.mp_refund_id,
    at: (operation.settled_at as Date).toISOString(),
    reason: operation.settled_reason ?? '',
  }
}

/** Whether money moved, and whether a new charge for the same sale is safe. */
export function viewOutcome(order: OrderRow) {
  const { outcome, retrySafe } = orderMoneyOutcome(order)
  return { outcome, retry_safe: retrySafe }
}
