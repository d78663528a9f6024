import { name } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'

/** From the closings of a day to what belongs to them: charges without an order, and what is left of a month. */
export function closingWays(app, current) {
  const ways = [
    [undefined, t('closings.tabDay')],
    ['orphans', t('closings.tabOrphans')],
    ['net', t('closings.tabNet')],
  ]
  return html`<nav class="tabs" aria-label=${t('closings.ways')}>
    ${ways.map(
      ([id, text]) =>
        html`<a href=${app.link('closings', id)} aria-current=${id === current ? 'page' : nothing}>${text}</a>`,
    )}
  </nav>`
}

/** Closings are of one client: whoever sees several says which. */
export function chooseClient(app) {
  return html`<div class="empty">
    <p class="strong">${t('closings.choose')}</p>
    <p class="buttons center">
      ${app.clients?.map(
        ({ client }) =>
          html`<a class="button" href=${app.link('closings', app.id, { client })}
            >${name(client, { class: 'clip' })}</a
          >`,
      )}
    </p>
  </div>`
}
