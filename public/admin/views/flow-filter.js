import { h } from '../../shared/dom.js'
import { t } from '../../shared/i18n.js'
import { field } from '../../shared/parts.js'

/** Chooses one flow or all; the choice stands in the address. */
export function flowFilter(app) {
  const names = (app.flows ?? []).map(({ name }) => name)
  const { flow = '' } = app.query
  return h(
    'form',
    { key: 'filters', class: 'filters', onsubmit: (event) => event.preventDefault() },
    field(
      t('flow.one'),
      h(
        'select',
        {
          name: 'flow',
          value: flow,
          onchange: (event) => app.setQuery({ flow: event.target.value }),
        },
        h('option', { value: '' }, t('filter.all')),
        names.map((name) => h('option', { key: name, value: name }, name)),
        // A flow whose file is gone has a history still.
        flow !== '' && !names.includes(flow) && h('option', { key: 'unknown', value: flow }, flow),
      ),
    ),
  )
}
