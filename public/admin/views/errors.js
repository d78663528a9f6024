import { code, name, number, relative } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge, createFreshness, empty, note, pageOfRows } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { askRetry, retry } from '../retry.js'
import { createSteady } from '../steady.js'
import { delayedPanel, readDelayed } from './delayed.js'
import { errorTable } from './error-table.js'
import { flowFilter } from './flow-filter.js'
import { newest, panel, smallRunButton, waitingPart } from './list-parts.js'

const shownAtMost = 100
/** Three lines of it may not be all. */
const longText = 160

/** What could not be delivered, by code and status, and the latest errors whatever became of them. */
export function createErrors(app) {
  const fresh = createFreshness()
  const steady = createSteady(
    ({ key }) => key,
    () => app.redraw(),
  )
  let shown

  return {
    title: () => t('nav.errors'),
    actions: () => retryAll(app),
    async load(signal) {
      const { flow } = app.query
      const [delayed, latest, { failures }] = await Promise.all([
        readDelayed(app, flow, signal),
        app.api.get('/errors', { flow, limit: shownAtMost }, signal),
        app.api.get('/flows/failures', { flow, limit: shownAtMost }, signal),
      ])
      const groups = failures.map((one) => ({ ...one, key: keyOf(one) }))
      shown = { question: flow ?? '', groups, delayed, latest }
    },
    body: () =>
      html`${flowFilter(app)}
      ${shown ? lists(app, shown, { fresh, steady }) : app.placeholder()}`,
  }
}

function lists(app, { question, groups, delayed, latest }, { fresh, steady }) {
  const keys = latest.map(({ id }) => id)
  const part = (all, key) =>
    pageOfRows(app.query, all, (to) => app.link('errors', { ...app.query, ...to }), {
      key,
      onPhone: 2,
    })
  const failed = part(groups, 'page')
  const places = steady.place(failed.rows)
  const newer = part(latest, 'latest')
  const latestTable = () =>
    errorTable(app, t('errors.latest'), newer.rows, {
      isOfMany: true,
      freshKeys: fresh(question, keys),
    })
  return html`${waitingPart(
    app,
    html`<section
      class="groups"
      @pointerenter=${steady.enter}
      @pointerleave=${steady.leave}
      @focusin=${steady.focus}
      @focusout=${steady.blur}
    >
      <h2>${t('errors.failed')}</h2>
      ${
        places.length === 0
          ? empty(t('errors.none'), t('errors.noneHint'))
          : repeat(
              places,
              ({ row }) => row.key,
              ({ row, isGone }) => groupPanel(app, row, isGone),
            )
      }
      ${newest(groups, shownAtMost, 'errors.most')}
    </section>
    ${failed.links}`,
  )}
  ${delayedPanel(app, delayed, part(delayed, 'delayed'))}
  ${panel(t('errors.latest'), [
    latest.length === 0 ? empty(t('errors.noneLatest')) : latestTable(),
    newer.links,
    newest(latest, shownAtMost),
  ])}`
}

const keyOf = ({ flow, destination, status, why }) =>
  JSON.stringify([flow, destination, status, why?.code])

function retryAll(app) {
  const filters = (app.flows ?? [])
    .filter(({ name: flow }) => !app.query.flow || flow === app.query.flow)
    .filter(({ destinations }) => destinations.some(({ failed }) => failed > 0))
    .map(({ name: flow }) => ({ flow }))
  return filters.length === 0
    ? null
    : html`<div class="buttons">
        ${smallRunButton(app, { text: t('retry.all'), onclick: () => askRetry(app, filters) })}
      </div>`
}

function groupPanel(app, group, isGone) {
  const { flow, destination, error, why, status, items, pks } = group
  const send = (text, filter) =>
    smallRunButton(app, {
      text,
      disabled: isGone,
      onclick: (event) => void retry(app, [{ flow, destination, ...filter }], event.currentTarget),
    })
  return html`<article class="panel ${isGone ? 'gone' : ''}">
    <div class="panel-head">
      <h3>
        <a href=${app.link('errors', { flow })}>${name(flow)}</a> → ${name(destination)}
      </h3>
      <span class="soft small">
        ${isGone ? badge('good', t('errors.gone')) : null}
        ${count('errors.items', items)} · ${relative(group.last_at)}
      </span>
    </div>
    ${note(
      'bad',
      html`<p class="clip">${name(reasonText(why, error))}</p>
        ${items > 1 ? html`<p class="small">${t('errors.similar')}</p>` : null}`,
    )}
    <div class="buttons">${send(count('retry.group', items), { code: why?.code, status })}</div>
    <details class="more">
      <summary>${t('errors.which')}</summary>
      <ul class="plain-list items">
        ${repeat(
          pks,
          (pk) => pk,
          (pk) =>
            html`<li>
              <a href=${app.link('item', { flow, pk })} class="clip">${code(pk)}</a>
              ${send(t('retry.one'), { pk })}
            </li>`,
        )}
      </ul>
      ${
        items > pks.length
          ? html`<p class="soft small">
              ${t('errors.more', { count: number(items - pks.length) })}
            </p>`
          : null
      }
      ${
        error.length > longText
          ? html`<pre tabindex="0" aria-label=${t('errors.whole')}>${name(error)}</pre>`
          : null
      }
    </details>
  </article>`
}
