import { name } from '../shared/format.js'
import { html } from '../shared/lit.js'

/** The address of a box's page; `client` is needed where the administrator sees several. */
export function boxHref(app, { client, caja_id: id }) {
  return app.link('stores', id, { client: app.isAdmin ? (client ?? app.client) : undefined })
}

/** A box by its name, as the way to its page; `text` where it is known by another name than its id. */
export function boxLink(app, box, { text = box.caja_id, class: classes = '' } = {}) {
  return html`<a href=${boxHref(app, box)}>${name(text, { class: classes })}</a>`
}
