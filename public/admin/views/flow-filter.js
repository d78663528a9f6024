import { t } from '../../shared/i18n.js'
import { html, live, repeat } from '../../shared/lit.js'
import { field } from '../../shared/parts.js'

/** Chooses one flow or all; `onChoice` hears which. A flow whose file is gone has a history still. */
export function flowChoice(app, chosen, onChoice) {
  const names = (app.flows ?? []).map(({ name }) => name)
  const all = chosen === '' || names.includes(chosen) ? names : [...names, chosen]
  return field(
    t('flow.one'),
    html`<select name="flow" .value=${live(chosen)} @change=${(event) => onChoice(event.target.value)}>
      <option value="">${t('filter.all')}</option>
      ${repeat(
        all,
        (flow) => flow,
        (flow) => html`<option value=${flow} ?selected=${flow === chosen}>${flow}</option>`,
      )}
    </select>`,
  )
}

/** The same as all there is to choose; the choice stands in the address. */
export function flowFilter(app) {
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    ${flowChoice(app, app.query.flow ?? '', (flow) => app.setQuery({ flow }))}
  </form>`
}
