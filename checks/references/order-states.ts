import { asClientName } from '../../src/domain/client-name.ts'
import type { OrderStatus } from '../../src/domain/order.ts'
import {
  isFinal,
  orderStates,
  orderWords,
  paymentStatusFrom,
  paymentWords,
  statesThat,
} from '../../src/domain/order-state.ts'
import { outcomeOf } from '../../src/errors/money-outcome.ts'
import { compareCharges, type TheirCharge } from '../../src/payments/closings/compare-charges.ts'
import { adviseCashier, type CashierAction } from '../../src/payments/orders/cashier-texts.ts'
import { applyEvidence } from '../../src/payments/orders/state-from-provider.ts'
import { evidenceFrom, MpOrder } from '../../src/provider/order-payloads.ts'
import type { OrderRow } from '../../src/repositories/orders/order-queries.ts'

const now = new Date('2026-11-21T15:00:00Z')
const cents = 10_000

/** An order that nothing but its state is special of. */
function orderIn(status: OrderStatus): OrderRow {
  return {
    id: 'order-1',
    client: asClientName('acme'),
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    terminal_id: 'T',
    mp_user_id: 1,
    external_reference: 'T-1',
    mp_external_reference: 'T-1',
    reference_attempt: 1,
    amount_cents: cents,
    whole_amount: false,
    description: null,
    ticket_number: null,
    send_ticket_number: false,
    print_ticket: false,
    payment_method: 'all',
    expiration_minutes: 16,
    creation: 'confirmed',
    mp_order_id: 'ORD1',
    status,
    status_detail: null,
    version: 1,
    payments: [],
    refunds: [],
    paid_cents: status === 'processed' ? cents : 0,
    refunded_cents: 0,
    paid_after_close: false,
    surplus: null,
    conflict: null,
    unknown_status: null,
    cancel_requested_at: null,
    sent_at: now,
    unanswered_at: null,
    request_key: null,
    reopened_at: null,
    refund_open: false,
    denied_refunds: 0,
    created_at: now,
    last_updated_at: now,
    expires_at: now,
    standing: 'under_way',
    checked_at: now,
    checks: 0,
    next_check_at: null,
    adopted_at: null,
    sender: null,
    sender_until: null,
    settled_as: null,
    settled_at: null,
    settled_reason: null,
    refund_unclear: null,
    refund_contradicted: null,
    currency: null,
    refund_settled: false,
    net: null,
  }
}

type Case = { label: string; before?: OrderStatus; payment?: string; detail?: string; body: object }

const given = [{ id: 'REF1', transaction_id: 'PAY1', amount: '100.00', status: 'processed' }]
const part = [{ id: 'REF1', transaction_id: 'PAY1', amount: '30.00', status: 'processed' }]

/** One row for each status of the provider. */
const words: Case[] = [...orderWords.keys()].map((word) => ({
  label: `\`${word}\``,
  payment: word,
  body: { status: word, ...(word === 'refunded' && { refunds: given }) },
}))

const cases: Case[] = [
  ...words,
  {
    label: '`at_terminal`, payment `cancellation_requested`',
    payment: 'at_terminal',
    detail: 'cancellation_requested',
    body: { status: 'at_terminal' },
  },
  {
    label: '`processed`, detail `partially_refunded`',
    payment: 'processed',
    body: { status: 'processed', status_detail: 'partially_refunded', refunds: part },
  },
  {
    label: '`processed`, detail `refunded`, all refunded',
    payment: 'processed',
    body: { status: 'processed', status_detail: 'refunded', refunds: given },
  },
  {
    label: '`processed` or `refunded`, and no payment went through',
    payment: 'failed',
    body: { status: 'processed' },
  },
  {
    label: '`action_required`, `canceled`, `failed`, `expired`, and an approved payment',
    payment: 'processed',
    body: { status: 'expired' },
  },
  { label: 'any other word, order open', payment: 'new_word', body: { status: 'new_word' } },
  {
    label: 'any other word, order open, and an approved payment',
    payment: 'processed',
    body: { status: 'new_word' },
  },
  {
    label: 'any other word, order paid',
    before: 'processed',
    payment: 'processed',
    body: { status: 'new_word' },
  },
  {
    label: 'any other word, order closed unpaid',
    before: 'expired',
    payment: 'new_word',
    body: { status: 'new_word' },
  },
]

const meanings: Record<OrderStatus, string> = {
  created: 'The charge waits for the terminal.',
  at_terminal: 'The terminal shows the charge.',
  processed: 'The customer has paid.',
  action_required: 'The terminal did not confirm the result: look at its screen.',
  canceled: 'Canceled before payment.',
  failed: 'Declined, or never created.',
  expired: 'The time for payment is over.',
  partially_refunded: 'A part of the payment was refunded.',
  refunded: 'The whole payment was refunded.',
}

const advice: Record<CashierAction, string> = {
  wait: 'wait',
  ask_customer_to_pay: 'ask the customer to pay',
  look_at_terminal: 'look at the terminal',
  give_receipt: 'give the receipt',
  charge_again: 'charge again',
  other_payment_method: 'ask for another means of payment',
  call_supervisor: 'call the supervisor',
  none: 'nothing',
}

async function rowOf({ label, before = 'created', payment = '', detail, body }: Case) {
  const { refunds = [], ...rest } = body as { refunds?: typeof given; status: string }
  const paid = { id: 'PAY1', amount: '100.00', status: payment, status_detail: detail ?? null }
  const refundedCents = refunds.reduce((sum, { amount }) => sum + Number(amount) * 100, 0)
  const evidence = evidenceFrom(
    MpOrder.parse({ id: 'ORD1', ...rest, transactions: { payments: [paid], refunds } }),
  )
  const known = orderIn(before)
  const after = applyEvidence(known, evidence, now).move?.after ?? known
  const outcome = outcomeOf(after)
  const isSame = after.status === before && before !== rest.status
  const isListed = after.status_detail !== null && after.status_detail !== after.status
  const word = evidence.status === null ? 'the word' : `\`${after.status_detail}\``
  const shownDetail = isListed && !('status_detail' in rest) ? `, ${word} in \`status_detail\`` : ''
  return [
    label,
    (isSame ? 'stays as it was' : `\`${after.status}\``) + shownDetail,
    isFinal(after.status) ? 'yes' : 'no',
    `\`${outcome}\``,
    advice[adviseCashier(after, 'en').action],
    await closingOf(after, payment, refundedCents, refunds.length > 0),
    accountOf(payment, refundedCents),
  ].join(' | ')
}

/** As the database derives `standing`, for the orders of this page. */
function isInDoubt({ conflict, status, unknown_status: unknown }: OrderRow): boolean {
  return conflict !== null || status === 'action_required' || unknown !== null
}

async function closingOf(
  after: OrderRow,
  payment: string,
  refundedCents: number,
  isGiven: boolean,
) {
  const refund = {
    id: null,
    amount: { cents: refundedCents, text: null },
    at: now.toISOString(),
    status: 'approved',
  }
  const their: TheirCharge = {
    payment_id: '1',
    order_id: 'order-1',
    surplus_of: null,
    caja_id: 'CAJA-1',
    status: paymentStatusFrom(payment),
    amount_cents: cents,
    refunded_cents: refundedCents,
    net_cents: null,
    method_type: 'credit_card',
    installments: 1,
    refunds: isGiven ? [refund] : [],
    sold_at: now,
  }
  const { lines, totals } = await compareCharges({
    ours: [
      {
        orderId: 'order-1',
        reference: 'T-1',
        cajaId: 'CAJA-1',
        sucursalId: 'SUC-1',
        status: after.status,
        outcome: outcomeOf(after),
        settledAs: null,
        hasConflict: after.conflict !== null,
        isRefundOpen: false,
        amountCents: cents,
        paidCents: after.paid_cents,
        refundedCents: after.refunded_cents,
        method: 'credit_card',
        installments: 1,
        isInDoubt: isInDoubt(after),
        undecided: null,
        insteadOrderId: null,
        paymentIds: ['1'],
        createdAt: now,
      },
    ],
    theirs: payment === 'created' ? [] : [their],
    span: { from: new Date(now.getTime() - 3600_000), to: new Date(now.getTime() + 3600_000) },
    cajaId: 'CAJA-1',
    sucursalId: 'SUC-1',
    declared: {},
  })
  if (lines.length > 0) return lines.map(({ kind }) => `line \`${kind}\``).join(', ')
  if (totals.here.count === 0) return 'nothing'
  return totals.refunds.count === 0 ? 'a charge' : 'a charge and a refund'
}

/** The movements of the provider's reports. */
function accountOf(payment: string, refundedCents: number): string {
  const word = paymentWords.get(payment)
  if (payment === 'charged_back') {
    return '`SETTLEMENT`, `CHARGEBACK`; `CHARGEBACK_CANCEL` if the shop wins'
  }
  if (word?.money === 'none' && word.isFinal) return 'nothing'
  if (word?.money !== 'in' && word?.money !== 'out') return 'nothing yet'
  return refundedCents > 0 ? '`SETTLEMENT`, `REFUND`' : '`SETTLEMENT`'
}

/** The module public/dashboard/order-states.js: the lists of states that the pages use. */
export function orderStatesModule(): string {
  const lists = {
    orderStatuses: Object.keys(orderStates),
    openStates: statesThat('open'),
    statesOnTerminal: statesThat('holdsTerminal'),
    receivedStates: statesThat('received'),
    paidStates: statesThat('paid'),
    finalStates: statesThat('final'),
  }
  const lines = Object.entries(lists).map(([name, states]) => {
    const [before, between, after] = states.length > 5 ? ['\n  ', ',\n  ', ',\n'] : ['', ', ', '']
    const quoted = states.map((state) => `'${state}'`).join(between)
    return `export const ${name} = [${before}${quoted}${after}]`
  })
  return `// Generated by \`npm run docs:references\` from src/domain/order-state.ts.\n${lines.join('\n')}\n`
}

/** The page docs/reference/order-states.md: every status, and what each answer of the provider makes of an order. */
export async function orderStatesPage(): Promise<string> {
  const rows = await Promise.all(cases.map(rowOf))
  const head = ['Provider', '`status`', 'Final', '`outcome`', 'Till', 'Closing', 'Accountant']
  return `# Order states

Reference for programmers of an ERP. \`npm run docs:references\` writes this page from the code.
[Charge from an ERP](../how-to/charge-from-an-erp.md) says how a till uses it.

## Status

| \`status\` | Meaning |
|---|---|
${Object.entries(meanings)
  .map(([status, meaning]) => `| \`${status}\` | ${meaning} |`)
  .join('\n')}

A till decides by \`outcome\` and \`retry_safe\`, never by \`status\`.

| Field | Value | Meaning |
|---|---|---|
| \`outcome\` | \`charged\` | The customer has paid. |
| | \`not_charged\` | The customer has not paid, and no charge will appear later. |
| | \`unknown\` | The customer may still pay, or the result is not known yet. |
| \`retry_safe\` | \`true\` | On an order: a new charge of this sale is safe. On an error: the same request is safe. |
| | \`false\` | Do not charge again before \`outcome\` is known. |

## What Mercado Pago says, and what follows

"Closing" is the line that a [closing](../how-to/close-a-day.md) shows. "Accountant" names the movements of Mercado Pago's
[reports](settlements.md#reports).

| ${head.join(' | ')} |
|${'---|'.repeat(head.length)}
${rows.map((row) => `| ${row} |`).join('\n')}

An open order in a word that the service does not know is \`in_doubt\` in \`standing\`: [a person may decide](../how-to/decide-an-unclear-charge.md) at once.

A charge-back does not change the sale. [Its case](charge-backs.md) decides who gets the money.
`
}
