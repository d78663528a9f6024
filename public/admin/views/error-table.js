import { code, name, number, time } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { table } from '../../shared/parts.js'
import { reasonText } from '../reason.js'

/** Errors, newest first: of one item, or with `isOfMany` each with its flow and item. */
export function errorTable(app, label, rows, { isOfMany = false, freshKeys } = {}) {
  const whose = isOfMany ? [flow, item(app)] : [place]
  return table({
    label,
    columns: [
      { id: 'time', title: t('activity.time'), cell: ({ timestamp }) => time(timestamp) },
      ...whose.map((column) => ({ ...column, title: t(column.title) })),
      {
        id: 'error',
        title: t('errors.error'),
        cell: ({ error, why }) => name(reasonText(why, error), { class: 'clip' }),
      },
      {
        id: 'attempts',
        title: t('errors.attempts'),
        numeric: true,
        cell: ({ attempts }) => number(attempts),
      },
    ],
    rows,
    keyOf: ({ id }) => id,
    freshKeys,
  })
}

const placeOf = (adapter, extra) =>
  adapter === 'source'
    ? html`<span class=${extra}>${t('errors.source')}</span>`
    : name(adapter, { class: extra })

const place = {
  id: 'adapter',
  title: 'item.destination',
  cell: ({ adapter }) => placeOf(adapter, 'clip'),
}
const flow = {
  id: 'flow',
  title: 'flow.one',
  cell: ({ entity, adapter }) =>
    html`${name(entity, { class: 'strong' })}<br />${placeOf(adapter, 'soft small')}`,
}
const item = (app) => ({
  id: 'pk',
  title: 'item.pk',
  cell: ({ entity, pk }) =>
    pk === ''
      ? code(pk)
      : html`<a class="clip" href=${app.link('item', { flow: entity, pk })}>${code(pk)}</a>`,
})
