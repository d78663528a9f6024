import { ApiError } from '../../shared/api.js'
import { errorLines } from '../../shared/errors.js'
import { t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { startOfToday } from '../../shared/shop-clock.js'
import { connectAddress, invite, makeKey } from '../client-actions.js'
import { storeForm } from '../store-form.js'
import { testCharge, virtualTerminals } from '../test-charge.js'

/** How far one client is on the way to its first charge; undefined when it has charged before. */
export async function readSetUp(app, row, signal) {
  const isConnected = row.connection === 'connected'
  // Of a client that was only invited nothing is known here.
  if (row.connection === 'none') return stateOf(row, { total: 0, boxes: [], terminals: [] })
  const { total } = await app.getOrders({ limit: 1 }, signal)
  if (total > 0 && isConnected && row.active_keys > 0) return undefined
  const { boxes } = await app.getOverview({ from: startOfToday() }, signal)
  const terminals = boxes.length > 0 && isConnected ? await readTerminals(app, row, signal) : []
  return stateOf(row, { total, boxes, terminals })
}

function stateOf(row, { total, boxes, terminals }) {
  const ready = terminals.filter(({ operating_mode: mode }) => mode === 'PDV')
  return {
    row,
    boxes: boxes.map(({ caja_id: box }) => box),
    terminals,
    ready: [...new Set(ready.map(({ caja_id: box }) => box))],
    done: {
      connect: row.connection === 'connected',
      key: row.active_keys > 0,
      boxes: boxes.length > 0,
      terminal: ready.length > 0,
      charge: total > 0,
    },
  }
}

/** The terminals of the client's boxes. What the provider does not tell is not there yet. */
async function readTerminals(app, { client }, signal) {
  try {
    const { terminals } = await app.api.get('/terminals', { client }, signal)
    return terminals.filter(({ caja_id: box }) => box !== null)
  } catch (error) {
    if (error instanceof ApiError && error.status !== 401) return []
    throw error
  }
}

/**
 * The steps of one client to its first charge, done here one after the other. `work` says what is being done and what came of
 * the last try.
 */
export function createSetUp(app) {
  const work = { busy: false, failure: undefined, typed: {} }

  /** Does one thing at a time; a failure is shown at the step. */
  const run = async (job) => {
    if (work.busy) return
    Object.assign(work, { busy: true, failure: undefined })
    app.redraw()
    try {
      await job()
      app.reload()
    } catch (failure) {
      work.failure = failure
    }
    work.busy = false
    app.redraw()
  }

  const button = (text, job, style = 'main') =>
    html`<button type="button" class="button ${style}" ?disabled=${work.busy} @click=${() => run(job)}>${text}</button>`

  /** Only the name is asked for; everything else comes step by step. */
  const begin = () => {
    const submit = (event) => {
      event.preventDefault()
      const client = work.typed.client?.trim()
      if (!client) return
      void run(async () => {
        await invite(app, client)
        work.typed = {}
        location.hash = app.link('clients', undefined, { client })
      })
    }
    const named = work.typed.client?.trim()
    const onInput = (event) => {
      work.typed.client = event.target.value
      app.redraw()
    }
    return html`<section class="panel">
      <h2>${t('setUp.new')}</h2>
      <form class="inline-form" @submit=${submit}>
        <label class="field">
          <span class="label">${t('invite.name')}</span>
          <input name="client" required maxlength="100" autocomplete="off" autofocus @input=${onInput}>
          <span class="soft small">${t('invite.nameHint')}</span>
        </label>
        <div class="buttons">
          <button type="submit" class="button main" ?disabled=${work.busy || !named}>${t('invite.confirm')}</button>
          ${named ? html`<a class="button" href=${connectAddress(named)}>${t('clients.connectHere')}</a>` : nothing}
        </div>
        <p class="soft small">${t('invite.text')}</p>
      </form>
      ${failure()}
    </section>`
  }

  const failure = () =>
    html`<div role="alert">${
      work.failure
        ? html`<div class="note bad"><div>${errorLines(work.failure)}</div></div>`
        : nothing
    }</div>`

  const actions = {
    connect: ({ row: { client } }, invited) => html`
      ${button(t(invited ? 'clients.inviteAgain' : 'invite.confirm'), () => invite(app, client), invited ? '' : 'main')}
      <a class="button" href=${connectAddress(client)}>${t('clients.connectHere')}</a>`,
    key: ({ row: { client } }) =>
      button(t('clients.newKey'), () => makeKey(app, client, { description: 'ERP' })),
    boxes: ({ row: { client } }) =>
      storeForm(app, { client, run, isBusy: work.busy, typed: work.typed }),
    terminal: ({ row: { client }, terminals }) =>
      terminals.length === 0
        ? html`<p class="soft" role="status">${t('setUp.terminalWait')}</p>${virtualTerminals(app)}`
        : repeat(
            terminals,
            ({ id }) => id,
            ({ id, caja_id: box }) => html`<p>
              <strong>${box}</strong> · <code>${id}</code>
              ${button(t('setUp.toPdv', { box }), () =>
                app.api.patch('/terminals/operating-mode', {
                  query: app.clientQuery(client),
                  body: { caja_id: box, operating_mode: 'PDV' },
                }),
              )}</p>`,
          ),
    charge: ({ row: { client }, ready }) =>
      testCharge(app, { client, boxes: ready, run, work, isBusy: work.busy }),
  }

  const panel = (state, invitations) => {
    const { row, done } = state
    const steps = Object.keys(done)
    const next = steps.find((step) => !done[step])
    const step = (name) => {
      const isNext = name === next
      return html`<li class=${done[name] ? 'good' : 'quiet'} aria-current=${isNext ? 'step' : nothing}>
        <p class=${isNext ? 'strong' : ''}>${
          done[name]
            ? html`${icon('check')}<span class="visually-hidden">${t('setUp.done')}</span> `
            : nothing
        }${t(`setUp.${name}`)}</p>
        ${
          isNext
            ? html`<p class="soft">${t(`setUp.${name}Hint`)}</p>
              <div class="buttons">${actions[name](state, invitations.length > 0)}</div>
              ${failure()}`
            : nothing
        }
      </li>`
    }
    return html`<section class="panel">
      <h2>${t('setUp.title', { client: row.client })}</h2>
      <ol class="steps">${repeat(steps, (name) => name, step)}</ol>
    </section>`
  }

  return { begin, panel }
}
