import type { Language } from '../../domain/language.ts'
import { pointFromCents } from '../../domain/money.ts'
import { actorOnOpen, decisionOf, isCancelRequested } from '../../domain/order-state.ts'
import { isRefundUnderWay, outcomeOf } from '../../errors/money-outcome.ts'
import { silentAfterMs } from '../../fleet/health-limits.ts'
import { lengthInWords } from '../../fleet/health-texts.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
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

export type CashierAdvice = { message: string; action: CashierAction }

type Situation =
  | 'unknown'
  | 'refund_under_way'
  | 'contradicted'
  | 'created'
  | 'silent'
  | 'at_terminal'
  | 'cancel_requested'
  | 'action_required'
  | 'processed'
  | 'partially_refunded'
  | 'refunded'
  | 'canceled'
  | 'expired'
  | 'not_created'
  | 'paid_after_close'
  | 'paid_late'
  | 'paid_twice'
  | 'paid_less'
  | 'settled_unpaid'
  | 'declined'
  | 'declined_funds'
  | 'declined_card'
  | 'declined_call_issuer'
  | 'declined_attempts'

const texts: Record<Situation, { action: CashierAction } & Record<Language, string>> = {
  unknown: {
    action: 'wait',
    es: 'El cobro se está verificando. No vuelvas a cobrar: esperá o repetí la misma operación.',
    en: 'The charge is being checked. Do not charge again: wait or repeat the same request.',
    pt: 'A cobrança está sendo verificada. Não cobre de novo: espere ou repita a mesma operação.',
  },
  refund_under_way: {
    action: 'wait',
    es: 'La devolución está en curso. No la repitas ni vuelvas a cobrar: esperá a que termine.',
    en: 'The refund is under way. Do not repeat it or charge again: wait until it ends.',
    pt: 'A devolução está em andamento. Não a repita nem cobre de novo: espere terminar.',
  },
  contradicted: {
    action: 'call_supervisor',
    es: 'Mercado Pago informa algo que no coincide con este cobro. No vuelvas a cobrar; avisá al supervisor.',
    en: 'The provider reports something that does not fit this charge. Do not charge again; tell the supervisor.',
    pt: 'O provedor informa algo que não confere com esta cobrança. Não cobre de novo; avise o supervisor.',
  },
  created: {
    action: 'ask_customer_to_pay',
    es: 'El cobro espera en la terminal. Si no aparece, presioná el botón de actualizar en ella.',
    en: 'The charge is waiting for the terminal. If it does not show up, press refresh on it.',
    pt: 'A cobrança espera na maquininha. Se não aparecer, atualize a tela dela.',
  },
  silent: {
    action: 'look_at_terminal',
    es: 'La terminal no responde desde hace {for}. Mirá si está encendida y con conexión; si no, anulá y cobrá en otra caja.',
    en: 'The terminal has not answered for {for}. See whether it is on and online; if not, cancel and charge at another box.',
    pt: 'A maquininha não responde há {for}. Veja se está ligada e com conexão; se não, cancele e cobre em outro caixa.',
  },
  at_terminal: {
    action: 'ask_customer_to_pay',
    es: 'El cobro está en la terminal. Pedile al cliente que pague; para anular, pedilo desde la caja o hacelo en la terminal.',
    en: 'The charge is on the terminal. Ask the customer to pay; to cancel, ask for it at the till or do it on the terminal.',
    pt: 'A cobrança está na maquininha. Peça ao cliente que pague; para cancelar, peça pelo caixa ou faça na maquininha.',
  },
  cancel_requested: {
    action: 'wait',
    es: 'Se pidió anular el cobro, pero la terminal todavía puede cobrarlo. No vuelvas a cobrar: esperá el resultado.',
    en: 'The cancel is requested, but the terminal may still take the money. Do not charge again: wait for the result.',
    pt: 'O cancelamento foi pedido, mas a maquininha ainda pode cobrar. Não cobre de novo: espere o resultado.',
  },
  action_required: {
    action: 'look_at_terminal',
    es: 'La terminal no confirmó el resultado. Mirá su pantalla antes de volver a cobrar.',
    en: 'The terminal did not confirm the result. Look at its screen before you charge again.',
    pt: 'A maquininha não confirmou o resultado. Olhe a tela antes de cobrar de novo.',
  },
  processed: {
    action: 'give_receipt',
    es: 'Cobro aprobado.',
    en: 'Charge approved.',
    pt: 'Cobrança aprovada.',
  },
  partially_refunded: {
    action: 'none',
    es: 'Cobro aprobado, con una devolución parcial.',
    en: 'Charge approved, with a partial refund.',
    pt: 'Cobrança aprovada, com devolução parcial.',
  },
  refunded: {
    action: 'none',
    es: 'El cobro fue devuelto por completo.',
    en: 'The charge was refunded in full.',
    pt: 'A cobrança foi devolvida por completo.',
  },
  canceled: {
    action: 'charge_again',
    es: 'El cobro fue anulado. No se cobró nada.',
    en: 'The charge was canceled. Nothing was charged.',
    pt: 'A cobrança foi cancelada. Nada foi cobrado.',
  },
  expired: {
    action: 'charge_again',
    es: 'El cobro venció sin pago. No se cobró nada.',
    en: 'The charge expired unpaid. Nothing was charged.',
    pt: 'A cobrança venceu sem pagamento. Nada foi cobrado.',
  },
  not_created: {
    action: 'charge_again',
    es: 'El cobro no llegó a crearse. No se cobró nada; podés cobrar de nuevo.',
    en: 'The charge was never created. Nothing was charged; you may charge again.',
    pt: 'A cobrança não chegou a ser criada. Nada foi cobrado; pode cobrar de novo.',
  },
  paid_after_close: {
    action: 'call_supervisor',
    es: 'Este cobro se cerró, pero después llegó el pago. No vuelvas a cobrar; avisá al supervisor.',
    en: 'This charge was closed, but was paid afterwards. Do not charge again; tell the supervisor.',
    pt: 'Esta cobrança foi encerrada, mas o pagamento chegou depois. Não cobre de novo; avise o supervisor.',
  },
  paid_late: {
    action: 'call_supervisor',
    es: 'Este cobro figuraba como no pagado, pero después llegó el pago. No vuelvas a cobrar; avisá al supervisor.',
    en: 'This charge counted as not paid, but was paid afterwards. Do not charge again; tell the supervisor.',
    pt: 'Esta cobrança foi dada como não paga, mas o pagamento chegou depois. Não cobre de novo; avise o supervisor.',
  },
  paid_twice: {
    action: 'call_supervisor',
    es: 'Mercado Pago muestra más de un pago de este cobro. No vuelvas a cobrar; avisá al supervisor.',
    en: 'The provider shows more than one payment of this charge. Do not charge again; tell the supervisor.',
    pt: 'O Mercado Pago mostra mais de um pagamento desta cobrança. Não cobre de novo; avise o supervisor.',
  },
  paid_less: {
    action: 'call_supervisor',
    es: 'El cliente pagó menos que lo pedido: {paid} de {asked}. No vuelvas a cobrar todo; avisá al supervisor.',
    en: 'The customer paid less than was asked: {paid} of {asked}. Do not charge all of it again; tell the supervisor.',
    pt: 'O cliente pagou menos que o pedido: {paid} de {asked}. Não cobre tudo de novo; avise o supervisor.',
  },
  settled_unpaid: {
    action: 'call_supervisor',
    es: 'Este cobro está marcado como pagado, y Mercado Pago muestra que no se pagó. Avisá al supervisor antes de entregar nada.',
    en: 'This charge is marked as paid, and Mercado Pago shows that it was not paid. Call the supervisor before you hand out anything.',
    pt: 'Alguém disse que esta cobrança foi paga, e o Mercado Pago mostra que não. Avise o supervisor antes de entregar algo.',
  },
  declined: {
    action: 'other_payment_method',
    es: 'Pago rechazado. Pedí otro medio de pago.',
    en: 'Payment declined. Ask for another means of payment.',
    pt: 'Pagamento recusado. Peça outro meio de pagamento.',
  },
  declined_funds: {
    action: 'other_payment_method',
    es: 'Pago rechazado: fondos o límite insuficientes. Pedí otro medio de pago.',
    en: 'Payment declined: not enough funds or limit. Ask for another means of payment.',
    pt: 'Pagamento recusado: saldo ou limite insuficiente. Peça outro meio de pagamento.',
  },
  declined_card: {
    action: 'other_payment_method',
    es: 'Pago rechazado: la tarjeta no se puede usar o sus datos no coinciden. Pedí otra tarjeta.',
    en: 'Payment declined: the card cannot be used or its data do not match. Ask for another card.',
    pt: 'Pagamento recusado: o cartão não pode ser usado ou os dados não conferem. Peça outro cartão.',
  },
  declined_call_issuer: {
    action: 'other_payment_method',
    es: 'Pago rechazado: el cliente debe autorizarlo con su banco. Luego podés cobrar de nuevo.',
    en: 'Payment declined: the customer must authorise it with the bank. Then you may charge again.',
    pt: 'Pagamento recusado: o cliente deve autorizar com o banco. Depois pode cobrar de novo.',
  },
  declined_attempts: {
    action: 'other_payment_method',
    es: 'Pago rechazado: demasiados intentos. Pedí otra tarjeta.',
    en: 'Payment declined: too many attempts. Ask for another card.',
    pt: 'Pagamento recusado: tentativas demais. Peça outro cartão.',
  },
}

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
  const text = texts[situationOf(order, silentMs !== undefined)]
  const amount = (cents: number) => amountInWords(cents, language)
  const message = text[language]
    .replace('{for}', () => lengthInWords(silentMs ?? 0, language))
    .replace('{paid}', () => amount(order.paid_cents))
    .replace('{asked}', () => amount(order.amount_cents))
  return { message, action: text.action }
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
  if (status !== 'created' && status !== 'at_terminal') return false
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
  if (order.creation === 'intent' || order.creation === 'unknown') return 'unknown'
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
