import { code, duration, name, number, time } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, empty, facts, table } from '../../shared/parts.js'
import { askApproveDeletes, flowPath, isBusy } from '../flow-actions.js'
import { healthOf } from '../flow-health.js'
import { reasonText } from '../reason.js'
import { flowCard } from './flow-card.js'
import { newest, panel, smallButton, waitingPart } from './list-parts.js'

const shownAtMost = 50

/** What only the page of one flow asks for: its runs, what waits to be deleted, what is not sent. */
export async function readFlow(app, flow, signal) {
  const read = (what, query) => app.api.get(flowPath({ name: flow }, what), query, signal)
  const [{ runs }, deletes, { skipped }] = await Promise.all([
    read('runs', { limit: shownAtMost }),
    read('deletes', {}),
    read('skipped', { limit: shownAtMost }),
  ])
  return { name: flow, runs, deletes, skipped }
}

/** All about one flow. */
export function flowPage(app, shown) {
  const flow = app.flows.find(({ name: one }) => one === app.query.flow)
  const back = html`<p><a href=${app.link('flows')}>← ${t('flows.all')}</a></p>`
  if (!flow) return html`${back} ${empty(t('flow.unknown'), t('flow.unknownHint'))}`
  const more = shown?.name === flow.name ? details(app, flow, shown) : app.placeholder()
  return html`${back} ${flowCard(app, { flow, health: healthOf(flow) }, true)} ${more}`
}

function details(app, flow, { runs, deletes, skipped }) {
  const lists = [
    deletes.missing > 0 ? missingPanel(app, flow, deletes) : null,
    panel(t('flow.runsTitle'), [
      runs.length === 0 ? empty(t('runs.none')) : runTable(runs),
      newest(runs, shownAtMost),
    ]),
    skipped.length > 0 ? skippedPanel(app, flow, skipped) : null,
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

/** Items that the source no longer shows. Each delete can be let through by itself. */
function missingPanel(app, flow, { missing, pks, scans, approved_at: approvedAt }) {
  const approve = (pk) =>
    smallButton({
      text: t('held.one'),
      disabled: isBusy(app, flow, 'approve'),
      onclick: () => askApproveDeletes(app, flow, pk),
    })
  const content = html`${facts([
    [t('missing.scans'), number(scans)],
    [t('missing.approved'), approvedAt && time(approvedAt)],
  ])}
    <ul class="plain-list items">
      ${pks.map((pk) => html`<li>${itemLink(app, flow, pk)} ${approve(pk)}</li>`)}
    </ul>
    ${missing > pks.length ? html`<p class="soft small">${t('errors.more', { count: number(missing - pks.length) })}</p>` : null}`
  return panel(t('missing.title'), content, { hint: t('missing.hint') })
}

function skippedPanel(app, flow, skipped) {
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
    rows: skipped,
    keyOf: ({ destination, pk }) => JSON.stringify([destination, pk]),
  })
  return panel(t('skipped.title'), [list, newest(skipped, shownAtMost)], {
    hint: t('skipped.hint'),
  })
}
