import { h } from '../../shared/dom.js'
import { code, name, number, relative, time } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { createFreshness, empty, note, table } from '../../shared/parts.js'
import { askRetry, retry } from '../retry.js'
import { flowFilter } from './flow-filter.js'

const shownAtMost = 100

/** What could not be delivered, by cause, and the latest errors whatever became of them. */
export function createErrors(app) {
  const fresh = createFreshness()
  let shown

  return {
    title: () => t('nav.errors'),
    actions: () => shown && retryAll(app, shown.groups),
    async load(signal) {
      const { flow } = app.query
      const latest = await app.api.get('/errors', { flow, limit: shownAtMost }, signal)
      shown = { question: flow ?? '', groups: groupByCause(latest), latest }
    },
    body() {
      if (!shown) return [flowFilter(app), app.placeholder()]
      return [
        flowFilter(app),
        h(
          'section',
          { key: 'groups', class: app.isWaiting ? 'groups waiting' : 'groups' },
          h('h2', null, t('errors.failed')),
          shown.groups.length === 0
            ? empty(t('errors.none'), t('errors.noneHint'))
            : shown.groups.map((group) => groupPanel(app, group)),
        ),
        h(
          'section',
          { key: 'latest', class: 'panel' },
          h('div', { class: 'panel-head' }, h('h2', null, t('errors.latest'))),
          shown.latest.length === 0
            ? empty(t('errors.noneLatest'))
            : table({
                label: t('errors.latest'),
                columns: columns(app),
                rows: shown.latest,
                keyOf: ({ id }) => id,
                freshKeys: fresh(
                  shown.question,
                  shown.latest.map(({ id }) => id),
                ),
              }),
          shown.latest.length === shownAtMost &&
            h('p', { class: 'soft small center' }, t('list.newest', { count: shownAtMost })),
        ),
      ]
    },
  }
}

/** Failed deliveries of one flow and destination that say the same. */
function groupByCause(errors) {
  const groups = new Map()
  for (const { entity, adapter, error, pk, timestamp } of errors) {
    if (adapter === 'source') continue
    const key = `${entity} ${adapter} ${error}`
    const group = groups.get(key) ?? {
      key,
      flow: entity,
      destination: adapter,
      error,
      last_at: timestamp,
      pks: [],
    }
    if (!group.pks.includes(pk)) group.pks.push(pk)
    groups.set(key, group)
  }
  return [...groups.values()].map((group) => ({ ...group, items: group.pks.length }))
}

function retryAll(app, groups) {
  const flows = [...new Set(groups.map(({ flow }) => flow))]
  if (flows.length === 0) return null
  return h(
    'div',
    { class: 'buttons' },
    h(
      'button',
      {
        type: 'button',
        class: 'button',
        onclick: () =>
          askRetry(
            app,
            flows.map((flow) => ({ flow })),
          ),
      },
      t('retry.all'),
    ),
  )
}

function groupPanel(app, group) {
  const { flow, destination, error, items, pks } = group
  const send = (label, filter) =>
    h(
      'button',
      {
        type: 'button',
        class: 'button small',
        onclick: (event) => void retry(app, filter, event.currentTarget),
      },
      label,
    )
  return h(
    'article',
    { key: group.key, class: 'panel' },
    h(
      'div',
      { class: 'panel-head' },
      h(
        'h3',
        null,
        h('a', { href: app.link('errors', { flow }) }, name(flow)),
        ' → ',
        name(destination),
      ),
      h(
        'span',
        { class: 'soft small' },
        count('errors.items', items),
        ' · ',
        relative(group.last_at),
      ),
    ),
    note('bad', h('p', { class: 'clip' }, name(error))),
    h('div', { class: 'buttons' }, send(count('retry.group', items), { flow, destination, error })),
    h(
      'details',
      { class: 'more' },
      h('summary', null, t('errors.which')),
      h(
        'ul',
        { class: 'plain-list items' },
        pks.map((pk) =>
          h(
            'li',
            { key: pk },
            h('a', { href: app.link('item', { flow, pk }), class: 'clip' }, code(pk)),
            send(t('retry.one'), { flow, destination, pk }),
          ),
        ),
      ),
      items > pks.length &&
        h('p', { class: 'soft small' }, t('errors.more', { count: number(items - pks.length) })),
    ),
  )
}

function columns(app) {
  return [
    { id: 'time', title: t('activity.time'), cell: ({ timestamp }) => time(timestamp) },
    {
      id: 'flow',
      title: t('flow.one'),
      cell: ({ entity, adapter }) => [
        name(entity, { class: 'strong' }),
        h('br'),
        adapter === 'source'
          ? h('span', { class: 'soft small' }, t('errors.source'))
          : name(adapter, { class: 'soft small' }),
      ],
    },
    {
      id: 'pk',
      title: t('item.pk'),
      cell: ({ entity, pk }) =>
        pk === ''
          ? code(pk)
          : h('a', { class: 'clip', href: app.link('item', { flow: entity, pk }) }, code(pk)),
    },
    {
      id: 'error',
      title: t('errors.error'),
      cell: ({ error }) => name(error, { class: 'clip' }),
    },
    {
      id: 'attempts',
      title: t('errors.attempts'),
      numeric: true,
      cell: ({ attempts }) => number(attempts),
    },
  ]
}
