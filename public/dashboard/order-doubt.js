import { ask } from '../shared/dialog.js'
import { errorSentence } from '../shared/errors.js'
import { name, relative } from '../shared/format.js'
import { t, word } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { toast } from '../shared/notices.js'
import { facts, field, note } from '../shared/parts.js'
import { now } from '../shared/shop-clock.js'
import { money } from './amounts.js'

/** Orders about which the provider is being asked now. */
const asking = new Set()

/**
 * What a person can do about an order of which no machine can tell whether the customer has paid: ask the provider now, or
 * say what he saw. What was said is shown from then on.
 */
export function doubtNote(app, order) {
  return [
    ...order.settled_refunds.map(settledRefund),
    decisionNote(app, order),
    openDoubt(app, order),
  ]
}

function settleButton(app, order) {
  return order.needs_decision === 'settled_unpaid'
    ? button(t('decision.notPaid'), () => askSettle(app, order, 'not_paid'))
    : button(t('decision.paid'), () => askSettle(app, order, 'paid'))
}

/** Money of which a person must decide: what it is, and the ways to decide. */
function decisionNote(app, order) {
  const { needs_decision: decision, charged_instead: instead } = order
  if (!decision) return nothing
  const amounts = { received: money(order.received_amount), asked: money(order.amount) }
  const insteadLink =
    instead &&
    html`<p>
      ${t('decision.instead')}
      <a href=${app.orderLink({ ...instead, client: order.client })}>${name(instead.external_reference)}</a>,
      ${money(instead.amount)}
    </p>`
  const help =
    decision === 'paid_twice'
      ? html`<a class="button" href=${app.link('closings', 'orphans')}>${t('line.orphan')}</a>`
      : ways(app, settleButton(app, order))
  return note(
    'bad',
    html`<p class="strong">${t(`decision.${decision}`, amounts)}</p>
      ${insteadLink ?? nothing}
      <p>${t(`decision.${decision}.ways`)}</p>
      <div class="buttons">${help}</div>`,
  )
}

function openDoubt(app, order) {
  const { settled, standing, refund_in_doubt: refund, order_id: id } = order
  if (refund) return refundDoubt(app, order)
  if (settled) {
    return note(
      'plain',
      html`<p class="strong">${t(`settled.said.${settled.as}`)}</p>
        <p>“${name(settled.reason)}” · ${relative(settled.at)}</p>
        <p class="small">${t('settled.proofCounts')}</p>`,
    )
  }
  if (standing !== 'in_doubt') return nothing
  return note(
    'warn',
    html`<p class="strong">${t('doubt.title')}</p>
      <p>${t(reasonOf(order))}</p>
      <div class="buttons">${ways(app, [
        button(
          asking.has(id) ? t('doubt.asking') : t('doubt.ask'),
          () => askProvider(app, order),
          asking.has(id),
        ),
        button(t('doubt.paid'), () => askSettle(app, order, 'paid')),
        button(t('doubt.notPaid'), () => askSettle(app, order, 'not_paid')),
      ])}</div>`,
  )
}

/** Ways out of a doubt, for those who may take one. */
const ways = (app, buttons) => (app.may('move_money') ? buttons : nothing)

const button = (text, onClick, isOff = false) =>
  html`<button type="button" class="button" ?disabled=${isOff} @click=${onClick}>${text}</button>`

/** A refund of which a person must say whether it was made, and which of the provider's refunds it is. */
function refundDoubt(app, order) {
  const { amount, candidates } = order.refund_in_doubt
  return note(
    'warn',
    html`<p class="strong">${t('refundDoubt.title', { amount: money(amount) })}</p>
      <p>${t(candidates.length > 0 ? 'refundDoubt.choose' : 'refundDoubt.look')}</p>
      <div class="buttons">${ways(app, [
        candidates.map(({ id, amount: given }) =>
          button(t('refundDoubt.isIt', { id, amount: given === null ? '' : money(given) }), () =>
            askSettle(app, order, 'refunded', id),
          ),
        ),
        candidates.length === 0
          ? button(t('refundDoubt.made'), () => askSettle(app, order, 'refunded'))
          : nothing,
        button(t('refundDoubt.notMade'), () => askSettle(app, order, 'not_refunded')),
      ])}</div>`,
  )
}

function settledRefund({ as, amount, refund_id: id, at, reason }) {
  return note(
    'plain',
    html`<p class="strong">${t(`settled.said.${as}`, { amount: money(amount), id: id ?? '' })}</p>
      <p>“${name(reason)}” · ${relative(at)}</p>
      <p class="small">${t('settled.proofCounts')}</p>`,
  )
}

function reasonOf({ status, given_up_at: givenUp, expires_at: end, mp_order_id: known }) {
  if (status === 'action_required') return 'doubt.terminal'
  if (known === null) return givenUp ? 'doubt.givenUp' : 'doubt.noAnswer'
  return new Date(end).getTime() < now() ? 'doubt.expired' : 'doubt.contradicted'
}

const pathOf = ({ order_id: id }, what) => `/orders/${encodeURIComponent(id)}/${what}`

async function askProvider(app, order) {
  asking.add(order.order_id)
  app.redraw()
  try {
    const read = await app.api.post(pathOf(order, 'ask'), { query: app.clientQuery(order.client) })
    const answer = read.standing === 'in_doubt' ? 'doubt.still' : 'doubt.answer'
    toast(t(read.stale ? 'doubt.silent' : answer, { status: word('status', read.status) }))
  } catch (error) {
    toast(errorSentence(error))
  }
  asking.delete(order.order_id)
  app.reload()
}

function askSettle(app, order, as, refundId) {
  const namesRefund = as === 'refunded' && refundId === undefined
  const isOfCharge = as === 'paid' || as === 'not_paid'
  // As it is shown now: a decision that another person makes meanwhile is not replaced.
  const replaced = isOfCharge ? order.settled?.at : order.refund_in_doubt?.decided_at
  ask({
    title: t(`settle.title.${as}`),
    content: (form, dialog) => [
      facts([
        [t('order.reference'), name(order.external_reference)],
        [t('order.amount'), money(order.amount)],
        [t('settle.refund'), refundId],
        [t('order.box'), name(order.caja_id)],
      ]),
      html`<p>${t(`settle.means.${as}`)}</p>`,
      namesRefund
        ? field(
            t('settle.refund'),
            html`<input name="refund" maxlength="64" autocomplete="off" ?disabled=${dialog.busy}
              @input=${(event) => {
                form.refund = event.target.value
              }}>`,
            t('settle.refundHint'),
          )
        : nothing,
      field(
        t('settle.reason'),
        html`<input name="reason" maxlength="200" autocomplete="off" ?disabled=${dialog.busy}
          @input=${(event) => {
            form.reason = event.target.value
          }}>`,
        t('settle.reasonHint'),
      ),
    ],
    confirm: t(`settle.confirm.${as}`),
    check: ({ reason }) => (reason?.trim() ? undefined : t('settle.reasonMissing')),
    async run({ reason, refund }) {
      const number = refundId ?? refund?.trim()
      await app.api.post(pathOf(order, 'settle'), {
        query: app.clientQuery(order.client),
        body: {
          as,
          reason: reason.trim(),
          ...(number && { refund_id: number }),
          ...(replaced && { replaces: replaced }),
        },
      })
      toast(t('settle.done'))
      app.reload()
    },
  })
}
