import { ask } from '../../shared/dialog.js'
import { code, name } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { announce } from '../../shared/notices.js'
import { badge } from '../../shared/parts.js'
import { panel, smallRunButton } from '../views/list-parts.js'

/** What flows may reach: names, types and places, and a button that tries each. Credentials are never sent to the page. */
export function createConnections(app) {
  let list = []
  /** By name: `busy`, or what a try answered. */
  const tried = new Map()

  async function load(signal) {
    list = (await app.api.get('/flow-connections', {}, signal)).connections
  }

  async function tryOut(of) {
    tried.set(of, { busy: true })
    app.redraw()
    try {
      const answer = await app.api.post(`/flow-connections/${encodeURIComponent(of)}/test`, {
        body: {},
      })
      tried.set(of, answer)
    } catch (failure) {
      tried.set(of, { ok: false, message: failure.message })
    }
    announce(tried.get(of).message)
    app.redraw()
  }

  const approve = ({ name: of, asking }) =>
    ask({
      title: t('connections.approve'),
      content: () =>
        html`<p>${t('connections.approveText', { name: of, flows: asking.join(', ') })}</p>`,
      confirm: t('connections.approve'),
      danger: true,
      async run() {
        await app.api.post(`/flow-connections/${encodeURIComponent(of)}/approve`, { body: {} })
        app.reload()
      },
    })

  /** The schema with the names that each kind of part can use, for completions. */
  function named(schema) {
    const names = list.map((one) => one.name)
    return JSON.parse(JSON.stringify(schema), (key, value) =>
      key === 'connection' && names.length > 0 ? { ...value, enum: names } : value,
    )
  }

  function body() {
    if (list.length === 0) {
      return panel(t('connections.title'), html`<p>${t('connections.none')}</p>`)
    }
    const rows = list.map((one) => {
      const { name: of, type, place, asking } = one
      const result = tried.get(of)
      return html`<li>
        <div class="clip">
          ${code(of)} ${word('connections.type', type)} <span class="soft">${name(place)}</span>
          ${!result || result.busy ? null : html`<p class="small">${badge(result.ok ? 'good' : 'bad', t(result.ok ? 'connections.works' : 'connections.fails'))} ${name(result.message)}</p>`}
          ${asking.length === 0 ? null : html`<p class="small">${t('connections.asking', { flows: asking.join(', ') })}</p>`}
        </div>
        <span class="badges">
          ${asking.length === 0 ? null : smallRunButton(app, { text: t('connections.approve'), onclick: () => approve(one) })}
          ${smallRunButton(app, {
            text: t(result?.busy ? 'dialog.busy' : 'connections.try'),
            disabled: Boolean(result?.busy),
            onclick: () => void tryOut(of),
          })}
        </span>
      </li>`
    })
    return panel(t('connections.title'), html`<ul class="plain-list items">${rows}</ul>`, {
      hint: t('connections.hint'),
    })
  }

  return { load, named, body }
}
