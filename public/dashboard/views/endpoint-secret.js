import { t } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { facts, field } from '../../shared/parts.js'
import { keptBy, letGo } from '../kept.js'

/** Secrets of endpoints that were made and are not stored yet. */
export function secretPanels(app) {
  const secrets = keptBy(app).filter(({ kind }) => kind === 'endpointSecret')
  const panel = (secret) => html`<section class="panel kept">
    <h2>${t('endpointSecret.made')}</h2>
    <p>${t('endpointSecret.madeText')}</p>
    ${facts([[t('order.client'), secret.client]])}
    ${field(
      t('endpointSecret.value'),
      html`<input class="secret" readonly .value=${secret.value} @focus=${({ target }) => target.select()}>`,
    )}
    <div class="buttons">
      <button type="button" class="button main" @click=${() => letGo(app, secret)}>${t('dialog.stored')}</button>
    </div>
  </section>`
  return html`<div class="contents" role="status">${repeat(secrets, ({ value }) => value, panel)}</div>`
}
