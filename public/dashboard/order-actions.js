import { ask, openDialog } from '../shared/dialog.js'
import { name } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts, field } from '../shared/parts.js'
import { amountExample, money, moneyOfCents } from './amounts.js'
import { newIdempotencyKey } from './idempotency-key.js'
import { inDoubt } from './in-doubt.js'
import { centsOfTyped, commaOfCents, sumsOf } from './money.js'
import { paidStates } from './order-states.js'

/**
 * Keys of refunds whose outcome is not known yet, by order and amount: trying again, even from a new window, must ask
 * for the same refund and never for a second one. A known outcome ends the key.
 */
const openKeys = new Map()
/** Refusals (4xx) that do not tell what became of an earlier try. */
const undecided = new Set(['REFUND_IN_PROGRESS', 'REQUEST_TIMEOUT', 'RATE_LIMITED'])

/** Answers of a cancel that asking again does not change. */
const tooLate = new Set(['ORDER_AT_TERMINAL', 'ORDER_NOT_CANCELABLE'])

/** Whether this page offers to cancel the order. One on the terminal is asked for once. */
export function canCancel({ status, status_detail: detail, given_up_at: givenUp, settled }) {
  const mayBe =
    status === 'created' || (status === 'at_terminal' && detail !== 'cancellation_requested')
  return mayBe && givenUp === null && settled === null
}

/** Whether there may be money to give back. */
export function canRefund(order) {
  return paidStates.includes(order.status) || order.needs_decision === 'paid_late'
}

export function askCancel(app, order) {
  ask({
    title: t('cancel.title'),
    content: (form) => [
      html`<p>${t(order.status === 'at_terminal' ? 'cancel.textAtTerminal' : 'cancel.text')}</p>`,
      about(order),
      reasonField(app, form),
    ],
    check: (form) => reasonMissing(app, form),
    confirm: t('cancel.confirm'),
    danger: true,
    async run(form) {
      try {
        // One that has just reached the terminal is only asked to be canceled there.
        const { status } = await cancel(app, order, form.reason)
        const text = status === 'canceled' ? 'cancel.done' : 'cancel.requested'
        toast(t(text, { reference: order.external_reference }))
      } catch (error) {
        if (!tooLate.has(error.code)) throw error
        tellTooLate(error, order)
      }
      app.reload()
    },
  })
}

/** It cannot be canceled here any more, and the window that asked has gone with its button: only what helps is left to say. */
function tellTooLate({ code }, order) {
  openDialog((dialog) => [
    html`<h2 id="dialog-title">${t('cancel.tooLate')}</h2>
      <p role="alert">${t(code === 'ORDER_AT_TERMINAL' ? 'cancel.refusedAtTerminal' : 'cancel.ended')}</p>`,
    about(order),
    html`<div class="buttons">
      <button type="button" class="button main" autofocus @click=${() => dialog.close()}>${t('cancel.understood')}</button>
    </div>`,
  ])
}

export function askRefund(app, order) {
  const { paid, refunded } = sumsOf(order)
  const left = Math.max(0, paid - refunded)
  ask({
    title: t('refund.title'),
    content: (form, dialog) => {
      form.kind ??= 'total'
      const choose = (kind) => () => {
        form.kind = kind
        dialog.redraw()
      }
      return [
        about(order),
        facts([
          [t('refund.paid'), moneyOfCents(paid)],
          [t('refund.refunded'), refunded > 0 ? moneyOfCents(refunded) : null],
          [t('refund.left'), moneyOfCents(left)],
        ]),
        html`<fieldset ?disabled=${dialog.busy}>
          <legend>${t('refund.howMuch')}</legend>
          ${radio('total', t('refund.total', { amount: moneyOfCents(left) }), form, choose)}
          ${radio('partial', t('refund.partial'), form, choose)}
        </fieldset>`,
        form.kind === 'partial' &&
          field(
            t('refund.amount'),
            html`<input name="amount" inputmode="decimal" autocomplete="off" placeholder=${amountExample()} ?disabled=${dialog.busy}
              @input=${(event) => {
                form.typed = event.target.value
                dialog.redraw()
              }}>`,
            t('amount.hint', { example: amountExample() }),
          ),
        reasonField(app, form),
      ]
    },
    confirm: (form) => {
      const cents = form.kind === 'partial' ? centsOfTyped(form.typed ?? '') : left
      return cents === undefined
        ? t('refund.confirm')
        : t('refund.confirmAmount', { amount: moneyOfCents(cents) })
    },
    danger: true,
    check: (form) => {
      const missing = reasonMissing(app, form)
      if (missing || form.kind !== 'partial') return missing
      const cents = centsOfTyped(form.typed ?? '')
      if (cents === undefined) return t('amount.bad', { example: amountExample() })
      return cents > left ? t('refund.tooMuch', { amount: moneyOfCents(left) }) : undefined
    },
    async run(form) {
      const amount = form.kind === 'partial' ? commaOfCents(centsOfTyped(form.typed)) : undefined
      const answer = await refund(app, order, amount, form.reason)
      toast(t('refund.done', { amount: money(answer.amount) }))
      app.reload()
    },
  })
}

/** People say why, for the log; with a token it may be left out. */
function reasonField(app, form) {
  const onReason = (event) => {
    form.reason = event.target.value
  }
  return field(
    t('why.label'),
    html`<input name="reason" maxlength="300" autocomplete="off" ?required=${app.person !== null} @input=${onReason}>`,
    t('why.hint'),
  )
}

function reasonMissing(app, { reason }) {
  return app.person && !reason?.trim() ? t('why.missing') : undefined
}

const reasonHeader = (reason) =>
  reason?.trim() ? { 'x-reason': encodeURIComponent(reason.trim()) } : {}

async function cancel(app, order, reason) {
  try {
    return await app.api.post('/orders/cancel', {
      query: app.clientQuery(order.client),
      headers: reasonHeader(reason),
      body: { order_id: order.order_id },
    })
  } catch (error) {
    throw inDoubt(error)
  }
}

async function refund(app, order, amount, reason) {
  const attempt = `${order.order_id} ${amount ?? 'total'}`
  const key = openKeys.get(attempt) ?? newIdempotencyKey()
  openKeys.set(attempt, key)
  try {
    const answer = await app.api.post('/orders/refund', {
      query: app.clientQuery(order.client),
      headers: { 'idempotency-key': key, ...reasonHeader(reason) },
      body: { order_id: order.order_id, ...(amount !== undefined && { amount }) },
    })
    openKeys.delete(attempt)
    return answer
  } catch (error) {
    // A refusal moved nothing; without an answer, or after a failure of the service, nobody knows.
    if (error.status < 500 && !undecided.has(error.code)) openKeys.delete(attempt)
    throw inDoubt(error)
  }
}

function radio(kind, label, form, choose) {
  return html`<label class="choice">
    <input type="radio" name="kind" .checked=${form.kind === kind} @change=${choose(kind)}>
    <span>${label}</span>
  </label>`
}

function about(order) {
  return facts([
    [t('order.reference'), name(order.external_reference)],
    [t('order.amount'), money(order.amount)],
    [t('order.box'), name(order.caja_id)],
    [t('order.client'), name(order.client)],
  ])
}
