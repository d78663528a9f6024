import { h } from '../../shared/dom.js'
import { code, name, number, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { table } from '../../shared/parts.js'

const shownAtMost = 50

/** What a destination did not take yet, of this flow or of all: the oldest of each flow. */
export async function readDelayed(app, flow, signal) {
  const late = app.flows.filter(
    (one) => (!flow || one.name === flow) && one.destinations.some(({ delayed }) => delayed > 0),
  )
  const answers = await Promise.all(
    late.map((one) =>
      app.api.get(`/flow/${encodeURIComponent(one.name)}/waiting`, { limit: shownAtMost }, signal),
    ),
  )
  return answers.flatMap(({ name: own, waiting }) =>
    waiting
      // What is due just now is no delay, unless it failed before.
      .filter(({ attempts, next_attempt_at: next }) => attempts > 0 || next !== null)
      .map((one) => ({ ...one, flow: own })),
  )
}

/** What waits for another attempt, and why; nothing when nothing does. */
export function delayedPanel(app, delayed) {
  if (delayed.length === 0) return null
  const rows = delayed.slice(0, shownAtMost)
  return h(
    'section',
    { key: 'delayed', class: 'panel' },
    h(
      'div',
      { class: 'panel-head' },
      h('h2', null, t('delayed.title')),
      h('p', { class: 'soft small' }, t('stats.delayedHint')),
    ),
    table({
      label: t('delayed.title'),
      columns: columns(app),
      rows,
      keyOf: ({ flow, destination, pk }) => JSON.stringify([flow, destination, pk]),
    }),
    rows.length === shownAtMost &&
      h('p', { class: 'soft small center' }, t('delayed.oldest', { count: shownAtMost })),
  )
}

function columns(app) {
  return [
    {
      id: 'flow',
      title: t('flow.one'),
      cell: ({ flow, destination }) => [
        name(flow, { class: 'strong' }),
        h('br'),
        name(destination, { class: 'soft small' }),
      ],
    },
    {
      id: 'pk',
      title: t('item.pk'),
      cell: ({ flow, pk }) =>
        h('a', { class: 'clip', href: app.link('item', { flow, pk }) }, code(pk)),
    },
    {
      id: 'error',
      title: t('errors.error'),
      cell: ({ last_error: error }) =>
        error === null
          ? h('span', { class: 'soft' }, t('delayed.noError'))
          : name(error, { class: 'clip' }),
    },
    {
      id: 'attempts',
      title: t('item.attempts'),
      numeric: true,
      cell: ({ attempts }) => number(attempts),
    },
    {
      id: 'next',
      title: t('item.nextAttempt'),
      cell: ({ next_attempt_at: next }) => (next === null ? t('flow.now') : relative(next)),
    },
  ]
}
