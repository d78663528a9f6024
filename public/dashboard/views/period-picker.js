import { t, word } from '../../shared/i18n.js'
import { html, live, nothing } from '../../shared/lit.js'
import { dayOf } from '../../shared/shop-clock.js'
import { periods } from '../period.js'

/** Links to the spans that have a name, and two days for any other. */
export function periodPicker(app, { name, first, last }) {
  const set = (period) => ({
    ...app.query,
    period: period === 'today' ? undefined : period,
    from: undefined,
    to: undefined,
  })
  const change = ({ target: { form } }) => {
    const [from, to] = [form.elements.from.value, form.elements.to.value]
    if (from && to) app.setQuery({ period: undefined, from, to: to < from ? from : to })
  }
  const day = (field, label, value) => html`<label class="field">
    <span class="label">${label}</span>
    <input type="date" name=${field} .value=${live(value)} max=${dayOf()} @change=${change}>
  </label>`
  return html`<nav class="periods" aria-label=${t('period.label')}>
    ${periods.map(
      (one) => html`<a class="button small" href=${app.link(app.name, app.id, set(one))}
        aria-current=${one === name ? 'true' : nothing}>${word('period', one)}</a>`,
    )}
    <details class="filters" ?open=${name === 'custom'}>
      <summary class="button small">${word('period', 'custom')}</summary>
      <form class="filters" @submit=${(event) => event.preventDefault()}>
        ${day('from', t('filter.from'), first)} ${day('to', t('filter.to'), last)}
      </form>
    </details>
  </nav>`
}
