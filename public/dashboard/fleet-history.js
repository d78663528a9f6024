import { openDialog } from '../shared/dialog.js'
import { errorBox } from '../shared/errors.js'
import { name, time } from '../shared/format.js'
import { t, word } from '../shared/i18n.js'
import { html, nothing, repeat } from '../shared/lit.js'
import { badge, empty, loading } from '../shared/parts.js'
import { boxLink } from './box-link.js'

const tones = { ok: 'good', attention: 'warn', down: 'bad', unknown: 'quiet', gone: 'quiet' }
const perPage = 50

/** When something stopped working and when it came back: of a box `{client, caja_id, name}`, or of all that is shown. */
export function openHistory(app, box) {
  const state = { changes: undefined, older: null, failure: undefined }
  const dialog = openDialog((self) => view(app, self, state, box, read))
  void read()

  async function read() {
    state.failure = undefined
    try {
      const { changes, next_before: older } = await app.api.get('/health/fleet/changes', {
        client: box?.client ?? app.scope,
        caja_id: box?.caja_id,
        before: state.older ?? undefined,
        limit: perPage,
      })
      state.changes = [...(state.changes ?? []), ...changes]
      state.older = older
    } catch (error) {
      state.failure = error
    }
    dialog.redraw()
  }
}

function view(app, dialog, { changes, older, failure }, box, read) {
  return html`<div class="stack history">
    <h2 id="dialog-title">${t('history.title')}${box ? html` · ${name(box.name)}` : nothing}</h2>
    ${failure ? errorBox(failure, () => void read()) : nothing}
    ${
      changes
        ? changes.length === 0
          ? empty(t('history.none'), t('history.noneHint'))
          : html`<ol class="history-lines" tabindex="0" aria-label=${t('history.title')}>${repeat(
              changes,
              ({ id }) => id,
              (change) => historyLine(app, change, box),
            )}</ol>`
        : failure
          ? nothing
          : loading()
    }
    <div class="buttons">
      ${older === null ? nothing : html`<button type="button" class="button" @click=${() => void read()}>${t('history.more')}</button>`}
      <button type="button" class="button" @click=${() => dialog.close()}>${t('dialog.back')}</button>
    </div>
  </div>`
}

/** One change of a state; of a box `{client, caja_id}` its name is left out. */
export function historyLine(app, change, box) {
  const { at, from, to, message } = change
  const before = from && [word('state', from.state), from.cause && word('cause', from.cause)]
  return html`<li>
    <p>${time(at)} ${badge(tones[to.state], word('state', to.state))}</p>
    ${box ? nothing : html`<p class="strong">${subjectOf(app, change)}</p>`}
    <p>${message ?? (to.cause ? word('cause', to.cause) : nothing)}</p>
    ${before ? html`<p class="soft small">${t('history.from', { state: before.filter(Boolean).join(', ') })}</p>` : nothing}
  </li>`
}

/** What a change is of, in names. */
function subjectOf(app, { kind, client, flow, name: own }) {
  switch (kind) {
    case 'box':
      return html`${name(client)} · ${boxLink(app, { client, caja_id: own })}`
    case 'connection':
      return html`${t('subject.connection')} · ${name(client)}`
    case 'destination':
      return html`${name(flow)} → ${name(own)}`
    default:
      return name(own)
  }
}
