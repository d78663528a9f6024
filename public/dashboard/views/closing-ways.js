import { t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'

/** From the closings of a day to what belongs to them: charges without an order, charge-backs, and what is left of a month. */
export function closingWays(app, current) {
  const ways = [
    [undefined, t('closings.tabDay')],
    ['orphans', t('closings.tabOrphans')],
    ['chargebacks', t('closings.tabChargebacks')],
    // The net of a month is of the client as a whole.
    ...(app.person?.stores ? [] : [['net', t('closings.tabNet')]]),
  ]
  return html`<nav class="tabs" aria-label=${t('closings.ways')}>
    ${ways.map(
      ([id, text]) =>
        html`<a href=${app.link('closings', id)} aria-current=${id === current ? 'page' : nothing}>${text}</a>`,
    )}
  </nav>`
}
