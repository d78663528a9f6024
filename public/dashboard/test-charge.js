import { name } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { field, note } from '../shared/parts.js'
import { amountExample, money } from './amounts.js'
import { newIdempotencyKey } from './idempotency-key.js'
import { inDoubt } from './in-doubt.js'
import { centsOfTyped, commaOfCents } from './money.js'
import { askRefund, canRefund } from './order-actions.js'
import { orderBadges } from './views/order-columns.js'

/** Test charges of this session, by app and client: what is tried again without an answer is the same charge. */
const tries = new WeakMap()

function triesOf(app) {
  if (!tries.has(app)) tries.set(app, new Map())
  return tries.get(app)
}

/** Reads how the test charge of a client fares, when there is one. */
export async function readTestCharge(app, client, signal) {
  const id = triesOf(app).get(client)?.order?.order_id
  if (id === undefined) return
  const order = await app.api.get(`/orders/${id}`, app.clientQuery(client), signal)
  triesOf(app).get(client).order = order
}

/** The way to the virtual terminals, where payments are simulated. */
export function virtualTerminals({ health }) {
  if (health?.sandbox_url === undefined) return nothing
  return html`<a class="button" href=${health.sandbox_url} target="_blank" rel="noopener">${t('setUp.virtual')} ↗</a>`
}

/** Whether a test charge of the client waits for its end. */
export function isTesting(app, client) {
  const { order, isSeen } = triesOf(app).get(client) ?? {}
  return order !== undefined && !isSeen && !canRefund(order)
}

/** Charges a small amount on a terminal to see that a new client works. However often it is tried, it is one charge. */
export function testCharge(app, { client, boxes, run, isBusy }) {
  const submit = (event) => {
    event.preventDefault()
    const form = new FormData(event.target)
    const cents = centsOfTyped(form.get('amount'))
    void run(async () => {
      if (cents === undefined)
        throw Object.assign(new Error(t('amount.bad', { example: amountExample() })), { code: '' })
      const attempt = triesOf(app).get(client) ?? {
        key: newIdempotencyKey(),
        reference: `TEST-${Date.now()}`,
      }
      triesOf(app).set(client, attempt)
      attempt.order = await charge(app, client, {
        key: attempt.key,
        body: {
          caja_id: form.get('box'),
          external_reference: attempt.reference,
          amount: commaOfCents(cents),
        },
      })
    })
  }
  const warning = app.health?.mode === 'sandbox' ? 'test.sandbox' : 'test.real'
  return html`<form class="inline-form" @submit=${submit}>
    <p class="soft">${t(warning)}</p>
    ${field(t('order.box'), html`<select name="box">${boxes.map((box) => html`<option>${box}</option>`)}</select>`)}
    ${field(t('order.amount'), html`<input name="amount" inputmode="decimal" autocomplete="off" value="100">`)}
    <div class="buttons"><button type="submit" class="button main" ?disabled=${isBusy}>${t(isBusy ? 'dialog.busy' : 'test.confirm')}</button></div>
  </form>`
}

/** What became of the test charge, as it goes on; nothing without one. */
export function testChargePanel(app, client) {
  const attempt = triesOf(app).get(client)
  const { order } = attempt ?? {}
  if (order?.cashier === undefined || attempt.isSeen) return nothing
  const isPaid = canRefund(order)
  const end = () => {
    attempt.isSeen = true
    app.redraw()
  }
  return html`<section class="panel" role="status">
    <h2>${t('test.title')}: <a href=${app.orderLink({ ...order, client })}>${name(order.external_reference)}</a></h2>
    ${note(
      isPaid ? 'good' : 'plain',
      html`<p>${order.standing ? orderBadges(order) : nothing} ${order.amount ? money(order.amount) : nothing}</p>
        <p class="strong">${isPaid ? t('test.works') : order.cashier.message}</p>`,
    )}
    <div class="buttons">
      ${isPaid ? html`<button type="button" class="button" @click=${() => askRefund(app, order)}>${t('test.giveBack')}</button>` : nothing}
      ${isPaid ? nothing : virtualTerminals(app)}
      <button type="button" class="button" @click=${end}>${t('test.end')}</button>
    </div>
  </section>`
}

async function charge(app, client, { key, body }) {
  try {
    return await app.api.post('/orders', {
      query: app.clientQuery(client),
      headers: { 'idempotency-key': key },
      body,
    })
  } catch (error) {
    throw inDoubt(error)
  }
}
