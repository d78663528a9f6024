import { pointFromCents } from '../../domain/money.ts'
import {
  actorOnOpen,
  decisionOf,
  holdsTerminal,
  isCancelRequested,
  isOpen,
  isResultUnknown,
} from '../../domain/order-state.ts'
import { isRefundUnderWay, outcomeOf } from '../../errors/money-outcome.ts'
import { silentAfterMs } from '../../fleet/health-limits.ts'
import { lengthInWords } from '../../fleet/health-texts.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { Language } from '../../texts/language.ts'
import { filled } from '../../texts/texts.ts'
import type { PaymentDeps } from '../deps.ts'

/** The cashier's next step. A till may show its own text for each. */
export type CashierAction =
  | 'wait'
  | 'ask_customer_to_pay'
  | 'look_at_terminal'
  | 'give_receipt'
  | 'charge_again'
  | 'other_payment_method'
  | 'call_supervisor'
  | 'none'

type CashierAdvice = { message: string; action: CashierAction }

/** What to do in each situation. Its text has the key `cashier.` and the situation. */
const actions = {
  unknown: 'wait',
  refund_under_way: 'wait',
  contradicted: 'call_supervisor',
  created: 'ask_customer_to_pay',
  silent: 'look_at_terminal',
  at_terminal: 'ask_customer_to_pay',
  cancel_requested: 'wait',
  action_required: 'look_at_terminal',
  processed: 'give_receipt',
  partially_refunded: 'none',
  refunded: 'none',
  canceled: 'charge_again',
  expired: 'charge_again',
  not_created: 'charge_again',
  paid_after_close: 'call_supervisor',
  paid_late: 'call_supervisor',
  paid_twice: 'call_supervisor',
  paid_less: 'call_supervisor',
  settled_unpaid: 'call_supervisor',
  settled_paid: 'give_receipt',
  settled_not_paid: 'charge_again',
  declined: 'other_payment_method',
  declined_funds: 'other_payment_method',
  declined_card: 'other_payment_method',
  declined_call_issuer: 'other_payment_method',
  declined_attempts: 'other_payment_method',
} as const satisfies Record<string, CashierAction>

type Situation = keyof typeof actions

/** Reasons of a failed payment (provider file 2.6), grouped by what a cashier can do. */
const reasons: Record<string, Situation> = {
  insufficient_amount: 'declined_funds',
  amount_limit_exceeded: 'declined_funds',
  bad_filled_card_data: 'declined_card',
  card_disabled: 'declined_card',
  required_call_for_authorize: 'declined_call_issuer',
  max_attempts_exceeded: 'declined_attempts',
}

/** The text for the cashier about an order. `silentMs`: how long its terminal has not answered. */
export function adviseCashier(
  order: OrderRow,
  language: Language,
  silentMs?: number,
): CashierAdvice {
  const situation = situationOf(order, silentMs !== undefined)
  const message = filled(language, `cashier.${situation}`, {
    for: silentMs === undefined ? undefined : lengthInWords(silentMs, language),
    paid: amountInWords(order.paid_cents, language),
    asked: amountInWords(order.amount_cents, language),
  })
  return { message, action: actions[situation] }
}

/**
 * How many milliseconds the terminal of an order has not answered, from what is known without a call; undefined while it may just
 * be slow.
 */
export function silentForMs(
  { fleet, now }: Pick<PaymentDeps, 'fleet' | 'now'>,
  order: Pick<OrderRow, 'client' | 'caja_id' | 'status' | 'creation' | 'created_at' | 'checked_at'>,
): number | undefined {
  if (order.status !== 'created' || order.creation !== 'confirmed') return undefined
  const trouble = fleet.troubleOf(order.client, order.caja_id)
  const known = trouble?.cause === 'terminal_silent' ? trouble.since : null
  const checkedMs = (order.checked_at?.getTime() ?? 0) - order.created_at.getTime()
  const since = known ?? (checkedMs >= silentAfterMs ? order.created_at : null)
  return since ? Math.max(0, now().getTime() - since.getTime()) : undefined
}

function amountInWords(cents: number, language: Language): string {
  const text = pointFromCents(cents)
  return `$ ${language === 'en' ? text : text.replace('.', ',')}`
}

/** Whether the provider is processing the payment (`processing`), or shows a detail of an open order that is unknown here. */
function isInterim({ status, status_detail }: OrderRow): boolean {
  if (!holdsTerminal(status)) return false
  return actorOnOpen(status_detail) === 'provider'
}

/** A late payment that a person has accepted, or that was refunded. */
function decidedLate(order: OrderRow): Situation {
  if (outcomeOf(order) === 'not_charged') return 'refunded'
  return order.refunded_cents > 0 ? 'partially_refunded' : 'processed'
}

function situationOf(order: OrderRow, isSilent: boolean): Situation {
  if (order.conflict !== null || order.refund_unclear !== null) return 'contradicted'
  if (isRefundUnderWay(order)) return 'refund_under_way'
  const decision = decisionOf(order)
  if (decision === 'paid_late') {
    return order.settled_as === 'not_paid' ? 'paid_late' : 'paid_after_close'
  }
  if (decision !== null) return decision
  if (order.paid_after_close) return decidedLate(order)
  // A person has decided what the provider does not show.
  if (order.settled_as !== null && isOpen(order.status)) return `settled_${order.settled_as}`
  if (isResultUnknown(order.creation)) return 'unknown'
  // Its cancel is under way: the customer must not be sent to the terminal.
  if (order.status === 'created' && order.cancel_requested_at !== null) return 'unknown'
  if (isCancelRequested(order)) return 'cancel_requested'
  if (order.status === 'created' && isSilent) return 'silent'
  if (isInterim(order)) return 'unknown'
  if (order.status !== 'failed') return order.status
  if (order.creation === 'refused') return 'not_created'
  const detail = order.payments.at(-1)?.statusDetail ?? order.status_detail ?? ''
  return reasons[detail] ?? 'declined'
}
