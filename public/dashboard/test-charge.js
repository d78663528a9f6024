import { ask } from '../shared/dialog.js'
import { h } from '../shared/dom.js'
import { t } from '../shared/i18n.js'
import { field, note } from '../shared/parts.js'
import { newIdempotencyKey } from './idempotency-key.js'
import { inDoubt } from './in-doubt.js'
import { centsOfTyped, commaOfCents } from './money.js'

/**
 * Charges a small amount on a terminal to see that a new client works, and leads to that order. However often it is tried
 * from one window, it is one charge.
 */
export function askTestCharge(app, client, boxes) {
  const key = newIdempotencyKey()
  const reference = `TEST-${Date.now()}`
  ask({
    title: t('test.title'),
    content: (form, dialog) => {
      form.box ??= boxes[0]
      form.typed ??= '100,00'
      return [
        note(
          'warn',
          h('p', null, t(app.health?.mode === 'sandbox' ? 'test.sandbox' : 'test.real')),
        ),
        field(
          t('order.box'),
          h(
            'select',
            {
              name: 'box',
              value: form.box,
              disabled: dialog.busy,
              onchange: (event) => {
                form.box = event.target.value
              },
            },
            boxes.map((box) => h('option', { key: box, value: box }, box)),
          ),
        ),
        field(
          t('order.amount'),
          h('input', {
            name: 'amount',
            inputmode: 'decimal',
            autocomplete: 'off',
            value: form.typed,
            disabled: dialog.busy,
            oninput: (event) => {
              form.typed = event.target.value
            },
          }),
          t('refund.amountHint'),
        ),
      ]
    },
    confirm: t('test.confirm'),
    check: ({ typed }) => (centsOfTyped(typed) === undefined ? t('refund.badAmount') : undefined),
    async run({ box, typed }) {
      const order = await charge(app, client, {
        key,
        body: {
          caja_id: box,
          external_reference: reference,
          amount: commaOfCents(centsOfTyped(typed)),
        },
      })
      location.hash = app.orderLink(order)
    },
  })
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
