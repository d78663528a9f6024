import { name, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html, live } from '../../shared/lit.js'
import { badge, empty, field, pageOfRows, table } from '../../shared/parts.js'
import { flowChoice } from './flow-filter.js'
import { stateTones } from './item-state.js'

/** A key is asked for once somebody has stopped typing for so long. */
const settleMs = 300

/** Asks for a flow, or all of them, and the key of an item, while it is typed; the question goes into the address. */
export function createItemSearch(app) {
  const typed = {}
  let address
  let timer

  const ask = () => {
    clearTimeout(timer)
    app.setQuery({ flow: typed.flow, pk: typed.pk?.trim() })
  }
  /** Each letter is no place to come back to. */
  const type = ({ target }) => {
    typed.pk = target.value
    clearTimeout(timer)
    timer = setTimeout(() => {
      if (!target.isConnected) return
      location.replace(app.link('item', { flow: typed.flow, pk: typed.pk.trim() }))
    }, settleMs)
  }

  return () => {
    const { flow = '', pk = '' } = app.query
    if (address !== JSON.stringify([flow, pk])) {
      address = JSON.stringify([flow, pk])
      // What is typed on meanwhile is not taken back.
      Object.assign(typed, { flow, pk: typed.pk?.trim() === pk ? typed.pk : pk })
    }
    return html`<form
      class="filters"
      role="search"
      @submit=${(event) => {
        event.preventDefault()
        ask()
      }}
    >
      ${flowChoice(app, typed.flow, (chosen) => {
        typed.flow = chosen
        ask()
      })}
      ${field(
        t('item.pk'),
        html`<input
          name="pk"
          type="search"
          maxlength="1024"
          autocomplete="off"
          spellcheck="false"
          .value=${live(typed.pk)}
          @input=${type}
        />`,
      )}
      <button type="submit" class="button main">${t('item.find')}</button>
    </form>`
  }
}

/** The flows that know an item, whichever they are; those in which it failed come first. */
export async function searchEverywhere(app, pk, signal) {
  const { flows } = await app.api.get(`/flows/items/${encodeURIComponent(pk)}`, {}, signal)
  const failed = ({ destinations }) => destinations.filter(({ state }) => state === 'failed').length
  return flows.toSorted((left, right) => failed(right) - failed(left))
}

/** The flows that know an item; each leads to what is known. */
export function foundIn(app, pk, found) {
  if (found.length === 0) return empty(t('item.nowhere'), t('item.nowhereHint'))
  const { rows, links } = pageOfRows(app.query, found, (to) =>
    app.link('item', { ...app.query, ...to }),
  )
  const list = table({
    label: t('item.foundIn'),
    columns: [
      {
        id: 'flow',
        title: t('flow.one'),
        cell: ({ name: flow }) =>
          html`<a class="row-link" href=${app.link('item', { flow, pk })}>${name(flow)}</a>`,
      },
      { id: 'time', title: t('item.seen'), cell: ({ changed_at: at }) => time(at) },
      {
        id: 'state',
        title: t('flow.destinations'),
        cell: ({ destinations }) =>
          destinations.map(
            ({ name: target, state }) =>
              html`<p>${name(target)} ${badge(stateTones[state], word('state', state))}</p>`,
          ),
      },
    ],
    rows,
    keyOf: ({ name: flow }) => flow,
  })
  return [list, links]
}
