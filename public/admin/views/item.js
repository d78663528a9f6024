import { ask } from '../../shared/dialog.js'
import { errorSentence } from '../../shared/errors.js'
import { code, name } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { announce } from '../../shared/notices.js'
import { empty, facts, note } from '../../shared/parts.js'
import { historyOf } from './item-history.js'
import { requestsOf } from './item-requests.js'
import { createItemSearch, foundIn, searchEverywhere } from './item-search.js'
import { errorsOf, whereItIs } from './item-state.js'
import { verdictOf } from './item-verdict.js'
import { runButton } from './list-parts.js'

/** "Where is my product?": one item of one flow, what went wrong with it, and how to send it. */
export function createItem(app) {
  const search = createItemSearch(app)
  let shown
  let result
  let busy = false

  /** `/sync/<flow>/<pk>`, or `/flow/<flow>/items/<pk>`. */
  const path = (...parts) => {
    const [what, ...between] = parts
    return `/${[what, flowOf(), ...between, app.query.pk].map(encodeURIComponent).join('/')}`
  }
  /** Of all flows the only one that knows the item needs not be chosen. */
  const flowOf = () => app.query.flow || shown?.flow

  const work = async (run) => {
    if (busy) return
    const of = questionOf(app)
    busy = true
    result = undefined
    app.redraw()
    try {
      result = { tone: 'good', text: await run(), of }
    } catch (error) {
      result = { tone: 'bad', text: errorSentence(error), of }
    }
    busy = false
    announce(result.text)
    app.redraw()
    app.reload()
  }

  const syncItem = () =>
    work(async () => {
      const { found, changed, jobs } = await app.api.post(path('sync'))
      if (!found) return t('item.notFound')
      if (changed) return count('item.changed', jobs)
      return jobs > 0 ? count('item.again', jobs) : t('item.unchanged')
    })

  const retryFailed = () =>
    work(async () => {
      const [flow, { pk }] = [flowOf(), app.query]
      const { retried } = await app.api.post(`/flow/${encodeURIComponent(flow)}/retry`, {
        body: { pk },
      })
      return count('retry.done', retried)
    })

  const sendAgain = () => {
    const flow = app.flows?.find((one) => one.name === flowOf())
    ask({
      title: t('item.resend'),
      content: () =>
        html`${facts([
          [t('flow.one'), name(flowOf())],
          [t('item.pk'), code(app.query.pk)],
        ])}
        ${note(
          'warn',
          html`<p>${t('item.resendText')}</p>
            <ul>
              ${(flow?.destinations ?? []).map((target) => html`<li>${name(target.name)}</li>`)}
            </ul>`,
        )}`,
      confirm: t('item.resend'),
      danger: true,
      async run() {
        await app.api.delete(path('reset'))
        void syncItem()
      },
    })
  }

  return {
    title: () => t('nav.item'),
    async load(signal) {
      const { pk } = app.query
      const question = questionOf(app)
      if (question === undefined) return
      const found = app.query.flow ? undefined : await searchEverywhere(app, pk, signal)
      const flow = app.query.flow || (found?.length === 1 ? found[0].name : undefined)
      if (!flow) {
        shown = { question, found }
        return
      }
      const of = `/flow/${encodeURIComponent(flow)}/items/${encodeURIComponent(pk)}`
      const [item, errors] = await Promise.all([
        app.api.get(of, {}, signal),
        app.api.get('/errors', { flow, pk, limit: 20 }, signal),
      ])
      // Made again only when something became of the item.
      const state = JSON.stringify([
        question,
        item.seen,
        item.destinations,
        item.history.attempts[0],
      ])
      const requests =
        shown?.state === state ? shown.requests : await app.api.get(`${of}/requests`, {}, signal)
      shown = { question, flow, item, errors, state, requests }
    },
    body: () => html`${search()} ${answer(questionOf(app))}`,
  }

  function answer(question) {
    if (question === undefined) return empty(t('item.ask'), t('item.askHint'))
    if (shown?.question !== question) return app.placeholder()
    if (shown.found) return foundIn(app, app.query.pk, shown.found)
    return html`<section class="panel">
        <h2>${name(flowOf())} · ${code(app.query.pk)}</h2>
        ${verdictOf(shown.item)}
        <div role="status">
          ${result?.of === question ? note(result.tone, html`<p>${result.text}</p>`) : null}
        </div>
        <div class="buttons">${mainButton()}</div>
        ${app.may('run_flows') ? more() : null}
      </section>
      ${requestsOf(shown.requests)} ${whereItIs(shown.item)} ${historyOf(shown.item)} ${errorsOf(app, shown.errors)}`
  }

  function more() {
    return html`<details class="more">
      <summary>${t('item.more')}</summary>
      <div class="buttons">${otherButtons()}</div>
      <p class="soft small">${t('item.syncHint')}</p>
    </details>`
  }

  function hasFailed() {
    return shown.item.destinations.some(({ state }) => state === 'failed')
  }

  function sync(extra) {
    const text = t(busy ? 'dialog.busy' : 'item.sync')
    return runButton(app, { text, extra, disabled: busy, onclick: () => void syncItem() })
  }

  /** What is needed now. */
  function mainButton() {
    if (!hasFailed()) return sync('main')
    const onclick = () => void retryFailed()
    return runButton(app, { text: t('item.retry'), extra: 'main', disabled: busy, onclick })
  }

  function otherButtons() {
    return html`${hasFailed() ? sync('') : null}
    ${runButton(app, { text: t('item.resend'), extra: 'danger', disabled: busy, onclick: sendAgain })}`
  }
}

/** The item that the address asks for, in one flow or in all; undefined while it asks for none. */
function questionOf({ query: { flow, pk } }) {
  return pk ? JSON.stringify([flow ?? '', pk]) : undefined
}
