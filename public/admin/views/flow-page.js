import { code, duration, name, number, time } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html, live } from '../../shared/lit.js'
import { badge, empty, pageOfRows, table } from '../../shared/parts.js'
import { askQuestion, flowPath, isBusy } from '../flow-actions.js'
import { healthOf } from '../flow-health.js'
import { reasonText } from '../reason.js'
import { flowCard } from './flow-card.js'
import { newest, panel, smallRunButton, waitingPart } from './list-parts.js'

const shownAtMost = 50

/** What only the page of one flow asks for: its runs, what waits to be deleted, what is not sent. */
export async function readFlow(app, flow, signal) {
  const read = (what, query) => app.api.get(flowPath({ name: flow }, what), query, signal)
  const [{ runs }, { missing_items: missing }, { skipped }] = await Promise.all([
    read('runs', { limit: shownAtMost }),
    read('question', {}),
    read('skipped', { limit: shownAtMost }),
  ])
  return { name: flow, runs, missing, skipped }
}

/** All about one flow. */
export function flowPage(app, shown) {
  const flow = app.flows.find(({ name: one }) => one === app.query.flow)
  const back = html`<p><a href=${app.link('flows')}>← ${t('flows.all')}</a></p>`
  if (!flow) return html`${back} ${empty(t('flow.unknown'), t('flow.unknownHint'))}`
  const more = shown?.name === flow.name ? details(app, flow, shown) : app.placeholder()
  return html`${back} ${flowCard(app, { flow, health: healthOf(flow) }, true)} ${more}`
}

function details(app, flow, { runs, missing, skipped }) {
  const part = (all, key) =>
    pageOfRows(app.query, all, (to) => app.link('flows', { ...app.query, ...to }), {
      key,
      onPhone: missing.length > 0 || skipped.length > 0 ? 2 : 4,
    })
  const latest = part(runs, 'page')
  const lists = [
    missing.length > 0 ? missingPanel(app, flow, missing, part(missing, 'missing')) : null,
    panel(t('flow.runsTitle'), [
      runs.length === 0 ? empty(t('runs.none')) : runTable(latest.rows),
      latest.links,
      newest(runs, shownAtMost),
    ]),
    skipped.length > 0 ? skippedPanel(app, flow, skipped, part(skipped, 'skipped')) : null,
  ]
  return waitingPart(app, lists, 'stack')
}

function runTable(runs) {
  const of = (id) => ({
    id,
    title: t(`runs.${id}`),
    numeric: true,
    cell: ({ items }) => (items === null ? '—' : number(items[id])),
  })
  return table({
    label: t('flow.runsTitle'),
    columns: [
      { id: 'time', title: t('activity.time'), cell: ({ started_at: at }) => time(at) },
      {
        id: 'kind',
        title: t('runs.kind'),
        cell: ({ kind, error }) =>
          error === null ? t(`runs.${kind}`) : badge('bad', t('runs.failed')),
      },
      {
        id: 'read',
        title: t('runs.read'),
        numeric: true,
        cell: ({ rows_read: rows }) => number(rows),
      },
      ...['new', 'changed', 'deleted', 'refused'].map(of),
      {
        id: 'lasted',
        title: t('runs.lasted'),
        numeric: true,
        cell: ({ duration_ms: ms }) => duration(ms),
      },
    ],
    rows: runs,
    keyOf: ({ id }) => id,
    extra: ({ error, why }) =>
      error && html`<p class="small clip">${name(reasonText(why, error))}</p>`,
  })
}

const itemLink = (app, flow, pk) =>
  html`<a class="clip" href=${app.link('item', { flow: flow.name, pk })}>${code(pk)}</a>`

/** The keys that are chosen, of the flow that is shown. */
const chosen = { flow: undefined, pks: new Set() }

/** The first items that the source no longer shows. Where the flow asks about them, some can be chosen for an answer. */
function missingPanel(app, flow, items, { rows, links }) {
  const isAsked = flow.question?.about === 'deletes' && app.may('run_flows')
  if (chosen.flow !== flow.name) Object.assign(chosen, { flow: flow.name, pks: new Set() })
  const picked = items.filter(({ pk }) => chosen.pks.has(pk))
  const choose = (wanted, isChosen) => {
    for (const { pk } of wanted) chosen.pks[isChosen ? 'add' : 'delete'](pk)
    app.redraw()
  }
  const box = (label, wanted) =>
    html`<label class="choice">
      <input type="checkbox" .checked=${live(wanted.every(({ pk }) => chosen.pks.has(pk)))}
        @change=${(event) => choose(wanted, event.target.checked)} />
      ${label}
    </label>`
  const content = html`${items.length > 1 && isAsked ? box(t('missing.choose'), items) : null}
    <ul class="plain-list items">
      ${rows.map(
        (item) =>
          html`<li>
            ${
              isAsked
                ? box(
                    item.name === null
                      ? html`<span class="visually-hidden">${item.pk}</span>`
                      : name(item.name),
                    [item],
                  )
                : item.name && name(item.name)
            }
            ${itemLink(app, flow, item.pk)}
          </li>`,
      )}
    </ul>
    ${links}
    ${
      isAsked
        ? html`<div class="buttons">
            ${smallRunButton(app, {
              text:
                picked.length === 0
                  ? t('missing.noneChosen')
                  : count('missing.these', picked.length),
              disabled: picked.length === 0 || isBusy(app, flow, 'answer'),
              onclick: () => askQuestion(app, flow, picked),
            })}
          </div>`
        : null
    }`
  return panel(t('missing.title'), content, { hint: t('missing.hint') })
}

function skippedPanel(app, flow, skipped, { rows, links }) {
  const list = table({
    label: t('skipped.title'),
    columns: [
      { id: 'time', title: t('activity.time'), cell: ({ at }) => time(at) },
      { id: 'pk', title: t('item.pk'), cell: ({ pk }) => itemLink(app, flow, pk) },
      {
        id: 'destination',
        title: t('item.destination'),
        cell: ({ destination }) => name(destination, { class: 'clip' }),
      },
      {
        id: 'reason',
        title: t('skipped.reason'),
        cell: ({ reason, why }) => name(reasonText(why, reason), { class: 'clip' }),
      },
    ],
    rows,
    keyOf: ({ destination, pk }) => JSON.stringify([destination, pk]),
  })
  return panel(t('skipped.title'), [list, links, newest(skipped, shownAtMost)], {
    hint: t('skipped.hint'),
  })
}
