import { name } from '../shared/format.js'
import { html } from '../shared/lit.js'
import { boxLink } from './box-link.js'

/**
 * What boxes are called, by the figures of the day: `nameOf(box)` is its own name, `placeOf(box)` "store · box" as the way
 * to its page, with the client before it where several are shown. A box that is not known there is called by its id.
 */
export function nameOfBox(app, boxes) {
  const keyOf = ({ client, caja_id: id }) => JSON.stringify([client, id])
  const known = new Map(boxes.map((box) => [keyOf(box), box]))
  const nameOf = (box) => known.get(keyOf(box))?.name ?? box.caja_id ?? ''
  return {
    nameOf,
    placeOf(box) {
      const store = known.get(keyOf(box))?.store_name
      const parts = [
        app.isAdmin && app.client === undefined ? box.client : undefined,
        store,
      ].filter(Boolean)
      const before = parts.map((part) => html`${name(part)} · `)
      return html`${before}${box.caja_id ? boxLink(app, box, { text: nameOf(box) }) : nameOf(box)}`
    },
  }
}
