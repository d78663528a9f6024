import { h } from '../../shared/dom.js'
import { name, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge, empty, field, table } from '../../shared/parts.js'
import { stateTones } from './item-state.js'

/** Asks for a flow, or all of them, and the key of an item; the question goes into the address. */
export function searchForm(app, typed) {
  const names = (app.flows ?? []).map((flow) => flow.name)
  const chosen = typed.flow ?? ''
  const submit = (event) => {
    event.preventDefault()
    const pk = typed.pk?.trim()
    if (pk) app.setQuery({ flow: chosen, pk })
  }
  return h(
    'form',
    { key: 'search', class: 'filters', role: 'search', onsubmit: submit },
    field(
      t('flow.one'),
      h(
        'select',
        {
          name: 'flow',
          value: chosen,
          onchange: (event) => {
            typed.flow = event.target.value
            app.redraw()
          },
        },
        h('option', { value: '' }, t('filter.all')),
        names.map((one) => h('option', { key: one, value: one }, one)),
        chosen !== '' &&
          !names.includes(chosen) &&
          h('option', { key: 'unknown', value: chosen }, chosen),
      ),
    ),
    field(
      t('item.pk'),
      h('input', {
        name: 'pk',
        type: 'search',
        required: true,
        maxlength: 1024,
        autocomplete: 'off',
        spellcheck: 'false',
        value: typed.pk ?? '',
        oninput: (event) => {
          typed.pk = event.target.value
        },
      }),
    ),
    h('button', { type: 'submit', class: 'button main' }, t('item.find')),
  )
}

/** Asks every flow for the item, and answers those that know it: `{ name, seen, destinations }`. */
export async function searchEverywhere(app, pk, signal) {
  const answers = await Promise.all(
    app.flows.map((flow) =>
      app.api.get(
        `/flow/${encodeURIComponent(flow.name)}/items/${encodeURIComponent(pk)}`,
        {},
        signal,
      ),
    ),
  )
  return answers.filter(
    ({ seen, destinations }) =>
      seen !== null || destinations.some(({ state }) => state !== 'unknown'),
  )
}

/** The flows that know an item; each leads to what is known. */
export function foundIn(app, pk, found) {
  if (found.length === 0) return empty(t('item.nowhere'), t('item.nowhereHint'))
  return table({
    label: t('item.foundIn'),
    columns: [
      {
        id: 'flow',
        title: t('flow.one'),
        cell: ({ name: flow }) =>
          h('a', { class: 'row-link', href: app.link('item', { flow, pk }) }, name(flow)),
      },
      {
        id: 'time',
        title: t('item.seen'),
        cell: ({ seen }) => time(seen?.changed_at),
      },
      {
        id: 'state',
        title: t('flow.destinations'),
        cell: ({ destinations }) =>
          destinations.map(({ name: target, state }) =>
            h(
              'p',
              { key: target },
              name(target),
              ' ',
              badge(stateTones[state], word('state', state)),
            ),
          ),
      },
    ],
    rows: found,
    keyOf: ({ name: flow }) => flow,
  })
}
