import { h } from '../../shared/dom.js'
import { code, name, number, relative, time } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { createFreshness, empty, note, table } from '../../shared/parts.js'
import { askRetry, retry } from '../retry.js'
import { delayedPanel, readDelayed } from './delayed.js'
import { flowFilter } from './flow-filter.js'

const shownAtMost = 100
const keysShown = 50
/** Three lines of it may not be all. */
const longText = 160

/** What could not be delivered, by cause, and the latest errors whatever became of them. */
export function createErrors(app) {
  const fresh = createFreshness()
  let shown

  return {
    title: () => t('nav.errors'),
    actions: () => shown && retryAll(app, shown.groups),
    async load(signal) {
      const { flow } = app.query
      const failing = app.flows.filter(
        ({ name, destinations }) =>
          (!flow || name === flow) && destinations.some(({ failed }) => failed > 0),
      )
      const [delayed, latest, ...answers] = await Promise.all([
        readDelayed(app, flow, signal),
        app.api.get('/errors', { flow, limit: shownAtMost }, signal),
        ...failing.map(({ name }) =>
          app.api.get(`/flow/${encodeURIComponent(name)}/failures`, { limit: shownAtMost }, signal),
        ),
      ])
      shown = { question: flow ?? '', groups: groupByCause(answers), delayed, latest }
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
        delayedPanel(app, shown.delayed),
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

/**
 * Failed deliveries of one flow and destination that say the same but for numbers: an error that quotes an item or a time
 * differs each time.
 */
function groupByCause(answers) {
  const groups = new Map()
  for (const { name: flow, failures } of answers) {
    for (const { destination, error, items, last_at: at, pks } of failures) {
      const key = JSON.stringify([flow, destination, error.replace(/\d+/g, '0')])
      const group = groups.get(key)
      if (!group) {
        groups.set(key, { key, flow, destination, errors: [error], items, last_at: at, pks })
        continue
      }
      group.errors.push(error)
      group.items += items
      group.pks = [...group.pks, ...pks].slice(0, keysShown)
      if (at > group.last_at) group.last_at = at
    }
  }
  return [...groups.values()].sort((a, b) => b.items - a.items)
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
  const { flow, destination, errors, items, pks } = group
  const [error] = errors
  const send = (label, filters) =>
    h(
      'button',
      {
        type: 'button',
        class: 'button small',
        onclick: (event) => void retry(app, filters, event.currentTarget),
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
    note(
      'bad',
      h('p', { class: 'clip' }, name(error)),
      errors.length > 1 && h('p', { class: 'small' }, count('errors.similar', errors.length - 1)),
    ),
    h(
      'div',
      { class: 'buttons' },
      send(
        count('retry.group', items),
        errors.map((text) => ({ flow, destination, error: text })),
      ),
    ),
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
            send(t('retry.one'), [{ flow, destination, pk }]),
          ),
        ),
      ),
      items > pks.length &&
        h('p', { class: 'soft small' }, t('errors.more', { count: number(items - pks.length) })),
      error.length > longText &&
        h('pre', { tabindex: '0', 'aria-label': t('errors.whole') }, name(error)),
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
