import { name, number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { html, live, repeat } from '../../shared/lit.js'
import { empty, field, note, pageOf, pagerOfRows, tile } from '../../shared/parts.js'
import { now } from '../../shared/shop-clock.js'
import { askPauseAll, askResumeAll, reloadFiles } from '../all-flows.js'
import { picks, worstFirst } from '../flow-health.js'
import { problemText } from '../reason.js'
import { openStops, stopNotes } from '../sending.js'
import { createSteady } from '../steady.js'
import { flowCard } from './flow-card.js'
import { flowPage, readFlow } from './flow-page.js'
import { totalOwed } from './flow-parts.js'
import { flowTable } from './flow-table.js'
import { smallRunButton } from './list-parts.js'

/** More flows than this are filtered; from so many on they stand in a table. */
const manyFlows = 6
const tableFrom = 12
/** With the numbers above them, three screens of a phone, or of a desk. */
const pageSize = () => (matchMedia('(max-width: 60rem)').matches ? 10 : 25)
/** The address follows what is typed after this pause. */
const settleMs = 300
const soonMs = 120_000

/** Every flow at a glance, worst first, or all about one; what is wrong with flow files, and the switches. */
export function createFlows(app) {
  const steady = createSteady(
    ({ flow }) => flow.name,
    () => app.redraw(),
  )
  let stats
  let shown
  let timer
  let isTicking = false

  /** What is being typed, which the address does not know yet: it follows a moment later, and must not take letters back. */
  let typed
  const wanted = () => ({ ...app.query, q: typed ?? app.query.q ?? '' })

  /** Each letter is no place to come back to. */
  const type = (text) => {
    typed = text
    app.redraw()
    clearTimeout(timer)
    timer = setTimeout(() => {
      app.query = { ...wanted(), page: undefined }
      typed = undefined
      if (app.name === 'flows') location.replace(app.link('flows', app.query))
    }, settleMs)
  }

  /** While a try is near, how long it is until then is kept right. */
  const tick = (flows) => {
    const isNear = ({ sending: { next_attempt_at: next } }) =>
      next !== null && new Date(next).getTime() - now() < soonMs
    if (isTicking || !flows.some(({ destinations }) => destinations.some(isNear))) return
    isTicking = true
    setTimeout(() => {
      isTicking = false
      if (app.name === 'flows' && !document.hidden) app.redraw()
    }, 1_000)
  }

  return {
    title: () => app.query.flow ?? t('nav.flows'),
    actions: () => (app.flows && !app.query.flow ? switches(app) : null),
    async load(signal) {
      const { flow } = app.query
      if (!flow) stats = await app.api.get('/stats', {}, signal)
      else shown = await readFlow(app, flow, signal).catch(unlessUnknown)
    },
    body() {
      if (!app.flows || !(stats || app.query.flow)) return app.placeholder()
      tick(app.flows)
      if (app.query.flow) return flowPage(app, shown)
      return html`${fileProblems(app.problems)}
      ${app.withoutDefinition.length > 0 ? goneFlows(app.withoutDefinition) : null}
      ${
        app.flows.length === 0
          ? empty(
              t('flows.none'),
              html`<a href=${app.link('workbench')}>${t('flows.write')}</a> ${t('flows.noneHint')}`,
            )
          : html`${stopNotes(app, app.flows)} ${numbers(app.flows, stats)} ${filters(app, wanted(), type)} ${list(app, wanted(), steady)}`
      }`
    },
  }
}

/** That there is no such flow is said where the flow would stand. */
function unlessUnknown(error) {
  if (error.status !== 404) throw error
  return undefined
}

function switches(app) {
  const paused = app.flows.filter(({ status }) => status.paused)
  const one = (key, disabled, onclick) =>
    smallRunButton(app, { text: t(`flows.${key}`), disabled, onclick })
  return html`<div class="buttons">
    ${one('pauseAll', paused.length === app.flows.length, () => askPauseAll(app))}
    ${one('resumeAll', paused.length === 0, () => askResumeAll(app, paused))}
    ${smallRunButton(app, { text: t('stop.open'), onclick: () => openStops(app) })}
    ${one('reload', app.busy.has('* reload'), () => void reloadFiles(app))}
  </div>`
}

function filters(app, { q, state = '' }, type) {
  if (app.flows.length <= manyFlows && !q && !state) return null
  const counted = (pick) => number(app.flows.filter(picks[pick]).length)
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    ${field(
      t('flows.find'),
      html`<input name="find" type="search" autocomplete="off" spellcheck="false" .value=${live(q)}
        @input=${(event) => type(event.target.value)} />`,
    )}
    ${field(
      t('flows.show'),
      html`<select name="show" .value=${live(state)}
        @change=${(event) => app.setQuery({ state: event.target.value, page: undefined })}>
        <option value="" ?selected=${state === ''}>${t('filter.all')} (${number(app.flows.length)})</option>
        ${Object.keys(picks).map(
          (pick) =>
            html`<option value=${pick} ?selected=${state === pick}>${t(`pick.${pick}`)} (${counted(pick)})</option>`,
        )}
      </select>`,
    )}
  </form>`
}

function list(app, { q, state }, steady) {
  const text = q.trim().toLowerCase()
  const isWanted = (flow) =>
    `${flow.name} ${flow.description ?? ''} ${flow.source}`.toLowerCase().includes(text) &&
    (picks[state]?.(flow) ?? true)
  const found = worstFirst(app.flows.filter(isWanted))
  if (found.length === 0) return empty(t('flows.noMatch'))
  const size = pageSize()
  const page = Math.min(pageOf(app.query), Math.ceil(found.length / size))
  const places = steady.place(found.slice((page - 1) * size, page * size))
  const rows = places.map(({ row }) => row)
  return html`<div @pointerenter=${steady.enter} @pointerleave=${steady.leave}
    @focusin=${steady.focus} @focusout=${steady.blur}>
    ${app.flows.length >= tableFrom ? flowTable(app, rows) : cards(app, rows)}
  </div>
  ${pagerOfRows({
    ...{ page, size, total: found.length },
    hrefOf: (to) => app.link('flows', { ...app.query, ...to }),
  })}`
}

function cards(app, rows) {
  return html`<ul class="cards" aria-label=${t('nav.flows')}>
    ${repeat(
      rows,
      ({ flow }) => flow.name,
      (row) => html`<li>${flowCard(app, row)}</li>`,
    )}
  </ul>`
}

/** The pending deliveries of a flow that was renamed or whose file is gone waits for its name. */
function goneFlows(gone) {
  return note(
    'warn',
    html`<p class="strong">${t('flows.gone')}</p>
      <ul>
        ${gone.map(
          ({ name: flow, destinations }) =>
            html`<li>
              ${name(flow)}
              ${destinations.map(
                ({ name: target, waiting, delayed, failed }) =>
                  html` · ${name(target)} ${number(waiting + delayed + failed)}`,
              )}
            </li>`,
        )}
      </ul>`,
  )
}

/** A flow whose file is wrong is left out or keeps its old definition: nobody would know without this. */
function fileProblems(problems) {
  return html`<div role="alert">${problems.length > 0 ? problemList(problems) : null}</div>`
}

function problemList(problems) {
  return html`<section class="note bad" aria-label=${t('files.title')}>
    ${icon('warning')}
    <div>
      <h2>${count('files.problems', problems.length)}</h2>
      <ul class="problems">
        ${problems.map((problem) => {
          const { file, line, column, key } = problem
          const { message, hint } = problemText(problem)
          return html`<li>
              <code>${name(`${file}:${line}:${column}`)}</code>
              ${key ? html`<code class="strong">${name(key)}</code>` : null}
              <p class="clip">${name(message)}</p>
              ${hint ? html`<p class="small clip">→ ${name(hint)}</p>` : null}
            </li>`
        })}
      </ul>
    </div>
  </section>`
}

/** Of the flows that there are: what a flow owes whose file is gone stands by itself. */
function numbers(flows, { queue: { active } }) {
  const owed = totalOwed({ destinations: flows.flatMap(({ destinations }) => destinations) })
  const { waiting, delayed, failed } = owed
  const bad = flows.filter(picks.failing).length
  const today = flows.reduce((sum, flow) => sum + flow.changes_today, 0)
  const linked = (many, href) =>
    many > 0 ? html`<a href=${href}>${number(many)}</a>` : number(many)
  return html`<section class="numbers even" aria-label=${t('stats.title')}>
    ${tile(
      t('stats.trouble'),
      linked(bad, '#/flows?state=failing'),
      count('stats.flows', flows.length),
      bad > 0 ? 'alarm' : '',
    )}
    ${tile(t('stats.failed'), linked(failed, '#/errors'), t('stats.failedHint'), failed > 0 ? 'alarm' : '')}
    ${tile(
      t('stats.waiting'),
      number(waiting + delayed),
      `${count('stats.active', active)} · ${count('target.delayed', delayed)}`,
    )}
    ${tile(t('stats.today'), number(today), t('stats.todayHint'))}
  </section>`
}
