import { errorSentence } from '../shared/errors.js'
import { code, name } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { html, nothing, repeat } from '../shared/lit.js'
import { naturally } from './views/finder.js'

/** The stores of a client as a person picks them, `{ id, name }`, in natural order. */
export async function readStores(app, client) {
  const { stores } = await app.api.get('/stores', app.clientQuery(client))
  return stores
    .map(({ external_id: id, name: called }) => ({ id, name: called }))
    .toSorted((a, b) => naturally.compare(a.name, b.name) || naturally.compare(a.id, b.id))
}

/** With so few stores nobody has to search. */
const few = 6

/**
 * Stores of `client` by their names, of which some are picked: `form.stores` holds their ids. They are read when the picker is first
 * drawn; one that is not there any more stays picked until somebody takes it out.
 */
export function storePicker(app, client, form, dialog) {
  form.stores ??= []
  if (form.storesRead === undefined) {
    form.storesRead = { list: [] }
    void read()
  }
  const { list, failure, isThere } = form.storesRead
  const known = new Set(list.map(({ id }) => id))
  const gone = isThere ? form.stores.filter((id) => !known.has(id)) : []
  const all = [...list, ...gone.map((id) => ({ id, name: id }))]
  const wanted = (form.wanted ?? '').trim().toLowerCase()
  const found = all.filter((one) => `${one.name} ${one.id}`.toLowerCase().includes(wanted))
  const pick = (id) => (event) => {
    form.stores = event.target.checked
      ? [...form.stores, id]
      : form.stores.filter((one) => one !== id)
    dialog.redraw()
  }
  const choice = ({ id, name: called }) => html`<li><label class="choice">
    <input type="checkbox" name="store" value=${id} .checked=${form.stores.includes(id)} ?disabled=${dialog.busy} @change=${pick(id)}>
    <span>${name(called)}${called.includes(id) ? nothing : html` ${code(id)}`}</span>
  </label></li>`
  return html`<fieldset class="store-picker">
    <legend>${t('people.stores')} <span class="soft small" role="status">${count('people.storesPicked', form.stores.length)}</span></legend>
    ${
      all.length > few
        ? html`<input type="search" autocomplete="off" aria-label=${t('people.storesFind')} placeholder=${t('people.storesFind')}
            @input=${(event) => {
              form.wanted = event.target.value
              dialog.redraw()
            }}
            @keydown=${(event) => {
              // It searches here, and does not send the form.
              if (event.key === 'Enter') event.preventDefault()
            }}>`
        : nothing
    }
    ${failure ? html`<p class="note bad">${errorSentence(failure)}</p>` : nothing}
    ${isThere || failure ? nothing : html`<p class="soft">${t('loading')}</p>`}
    ${isThere && found.length === 0 ? html`<p class="soft">${t('people.noStore')}</p>` : nothing}
    <ul class="plain-list">${repeat(found, ({ id }) => id, choice)}</ul>
  </fieldset>`

  async function read() {
    try {
      form.storesRead = { list: await readStores(app, client), isThere: true }
    } catch (error) {
      form.storesRead = { list: [], failure: error }
    }
    dialog.redraw()
  }
}
