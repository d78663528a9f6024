import { t } from '../shared/i18n.js'
import { html } from '../shared/lit.js'
import { field } from '../shared/parts.js'
import { provinces } from './provinces.js'

const usual = 'Capital Federal'

/**
 * Asks for a store with its boxes, and makes both. `run(job)` carries out what was asked for; boxes are made two seconds apart,
 * as the provider wants it.
 */
export function storeForm(app, { client, run, isBusy }) {
  const submit = (event) => {
    event.preventDefault()
    const body = storeOf(new FormData(event.target))
    void run(() => app.api.post('/stores', { query: app.clientQuery(client), body }))
  }
  const text = (name, value, maxlength) =>
    html`<input name=${name} required maxlength=${maxlength} autocomplete="off" value=${value}>`
  const fields = [
    ['name', client, 100],
    ['id', 'SUC-1', 64],
    ['street', '', 150],
    ['number', '', 20],
    ['city', '', 100],
  ]
  return html`<form class="store-form" @submit=${submit}>
    ${fields.map(([name, value, most]) => field(t(`store.${name}`), text(name, value, most), name === 'city' ? t('store.cityHint') : undefined))}
    ${field(
      t('store.state'),
      html`<select name="state">${provinces.map(([state]) => html`<option ?selected=${state === usual}>${state}</option>`)}</select>`,
    )}
    ${field(t('store.boxes'), text('boxes', 'CAJA-1', 500), t('store.boxesHint'))}
    <div class="buttons"><button type="submit" class="button main" ?disabled=${isBusy}>${t(isBusy ? 'dialog.busy' : 'store.confirm')}</button></div>
  </form>`
}

function storeOf(form) {
  const of = (name) => form.get(name).trim()
  const [state, latitude, longitude] = provinces.find(([one]) => one === form.get('state'))
  const boxes = of('boxes')
    .split(',')
    .map((box) => box.trim())
    .filter(Boolean)
  return {
    name: of('name'),
    external_id: of('id'),
    location: {
      street_name: of('street'),
      street_number: of('number'),
      city_name: of('city'),
      state_name: state,
      latitude,
      longitude,
    },
    pos: [...new Set(boxes)].map((id) => ({ name: `Caja ${id}`, external_id: id })),
  }
}
