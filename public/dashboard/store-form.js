import { t } from '../shared/i18n.js'
import { html, live, nothing } from '../shared/lit.js'
import { field } from '../shared/parts.js'
import { provinces } from './provinces.js'

const usual = 'Capital Federal'

/**
 * Asks for a store with its boxes, and makes both. `run(job)` carries out what was asked for; boxes are made two seconds apart,
 * as the provider wants it. `typed` keeps the ids of the boxes, a line each.
 */
export function storeForm(app, { client, run, isBusy, typed }) {
  typed.boxes ??= ['CAJA-1']
  const submit = (event) => {
    event.preventDefault()
    const body = storeOf(new FormData(event.target), typed.boxes)
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
    ${boxList(app, typed, isBusy)}
    <div class="buttons"><button type="submit" class="button main" ?disabled=${isBusy}>${t(isBusy ? 'dialog.busy' : 'store.confirm')}</button></div>
  </form>`
}

/** A line for each box: its id can be edited and removed, and another is added below with the next number. */
function boxList(app, typed, isBusy) {
  const { boxes } = typed
  const set = (next) => {
    typed.boxes = next
    app.redraw()
  }
  const edit = (at) => (event) => {
    // Ids that are pasted together become a line each.
    const ids = event.target.value.split(/[,;\n]/).map((id) => id.trimStart())
    set(boxes.toSpliced(at, 1, ...(ids.length > 1 ? ids.filter(Boolean) : ids)))
  }
  const line = (id, at) => html`<li class="box-line">
    <input name="box" required maxlength="64" autocomplete="off" aria-label=${t('store.boxId', { number: at + 1 })}
      .value=${live(id)} @input=${edit(at)}>
    ${
      boxes.length > 1
        ? html`<button type="button" class="button small" ?disabled=${isBusy} @click=${() => set(boxes.toSpliced(at, 1))}
          >${t('store.removeBox')}<span class="visually-hidden"> ${id}</span></button>`
        : nothing
    }
  </li>`
  return html`<fieldset class="box-lines">
    <legend>${t('store.boxes')}</legend>
    <p class="soft small">${t('store.boxesHint')}</p>
    <ol class="plain-list">${boxes.map(line)}</ol>
    <button type="button" class="button small" ?disabled=${isBusy} @click=${() => set([...boxes, nextId(boxes.at(-1))])}
      >${t('store.addBox')}</button>
  </fieldset>`
}

/** `CAJA-9` is followed by `CAJA-10`. */
function nextId(id) {
  const [, before, number] = /^(.*?)(\d+)$/.exec(id.trim()) ?? []
  return number === undefined
    ? ''
    : before + String(Number(number) + 1).padStart(number.length, '0')
}

function storeOf(form, ids) {
  const of = (name) => form.get(name).trim()
  const [state, latitude, longitude] = provinces.find(([one]) => one === form.get('state'))
  const boxes = ids.map((id) => id.trim()).filter(Boolean)
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
