import { t, word } from '../shared/i18n.js'
import { html, nothing } from '../shared/lit.js'
import { boxHref } from './box-link.js'
import { askMode } from './box-mode.js'
import { openFreeing } from './free-terminal.js'

/** A link that looks like a button, for what helps on another view. */
export function linkButton(href, text) {
  return html`<a class="button small" href=${href}>${text}</a>`
}

function actionButton(text, onClick) {
  return html`<button type="button" class="button small main" @click=${onClick}>${text}</button>`
}

/** The button that helps against the trouble of a box. */
export function helpWithBox(app, box, boxName) {
  const { action, client, caja_id: id, terminal_id: terminal, order_id: order } = box
  const text = word('help', action)
  const toOrder = order && linkButton(app.orderLink({ order_id: order, client }), text)
  const ofClient = { client: app.isAdmin ? client : undefined }
  switch (action) {
    case 'set_pdv':
      if (!app.may('switch_terminals')) return toBox()
      return actionButton(text, () =>
        askMode(
          app,
          { client, caja_id: id, name: boxName, terminals: terminal ? [terminal] : [] },
          'PDV',
        ),
      )
    case 'free_terminal':
      if (app.isAdmin && terminal) {
        return actionButton(text, () => openFreeing(app, client, terminal))
      }
      return toOrder || toBox()
    case 'pair_terminal':
      return toBox()
    case 'read_refusal':
      return app.isAdmin
        ? linkButton(app.link('activity', undefined, { status: 'failed', ...ofClient }), text)
        : toCharges()
    default:
      return toOrder || toCharges()
  }

  function toBox() {
    return linkButton(boxHref(app, box), t('help.pair_terminal'))
  }
  function toCharges() {
    const query = { caja_id: id, ...ofClient }
    return linkButton(app.link('orders', undefined, query), t('attention.help.orders'))
  }
}

/** The button that helps against the trouble of a connection, the provider, a flow or a destination. */
export function helpWith(app, { action, client, flow }) {
  const text = word('help', action)
  if (flow !== undefined) {
    const page = app.health?.flows_page
    return page ? linkButton(`${page}#/flows?flow=${encodeURIComponent(flow)}`, text) : nothing
  }
  if (!app.isAdmin) return nothing
  switch (action) {
    case 'reconnect':
    case 'pin_account':
      return linkButton(app.link('clients', undefined, { client }), text)
    case 'look_at_payments':
      return linkButton(app.link('closings', undefined, { client }), text)
    case 'check_endpoint':
      return linkButton(app.link('events', undefined, { client }), text)
    case 'check_webhook_address':
      return linkButton(app.link('webhooks', undefined, { client }), text)
    default:
      return linkButton(app.link('activity', undefined, { status: 'failed' }), text)
  }
}
