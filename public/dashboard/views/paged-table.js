import { html } from '../../shared/lit.js'
import { pager, table } from '../../shared/parts.js'

/**
 * A page of a long list, with the ways to the pages beside. `shown` is what the service answered, with the `question` that it
 * was asked and the `page`; the rest is as `table` takes it.
 */
export function pagedTable(app, { question, total, ...place }, { rows, keyOf, fresh, ...form }) {
  return html`${table({ kind: 'brief', ...form, rows, keyOf, freshKeys: fresh(question, rows.map(keyOf)) })}
    ${pager({
      ...place,
      total,
      hrefOf: (to) => app.link(app.name, undefined, { ...app.query, ...to }),
    })}`
}
