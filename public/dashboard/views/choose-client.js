import { name } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'

/** What is of one client only: whoever sees several says which. */
export function chooseClient(app, question = t('closings.choose')) {
  const way = ({ client }) =>
    html`<a class="button" href=${app.link(app.name, app.id, { client })}>${name(client, { class: 'clip' })}</a>`
  return html`<div class="empty">
    <p class="strong">${question}</p>
    ${
      app.clients?.length === 0
        ? html`<p class="soft">${t('clients.none')}</p>`
        : html`<p class="buttons center">${(app.clients ?? []).map(way)}</p>`
    }
  </div>`
}
