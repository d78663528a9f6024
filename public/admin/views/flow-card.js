import { h } from '../../shared/dom.js'
import { duration, name, number, relative } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { badge, facts, note } from '../../shared/parts.js'
import {
  askLimit,
  askPause,
  askReset,
  askResync,
  isBusy,
  removeLimit,
  resume,
  sync,
  testAlerts,
} from '../flow-actions.js'
import { openPreview } from '../sync-preview.js'
import { spark } from './spark.js'

/** One flow: how it is, what it is doing, what it owes to whom, and what can be done. */
export function flowCard(app, flow) {
  const { status } = flow
  return h(
    'article',
    { class: `panel flow ${toneOf(status)}`, 'aria-labelledby': `flow-${flow.name}` },
    h(
      'div',
      { key: 'head', class: 'flow-head' },
      h('h2', { id: `flow-${flow.name}` }, name(flow.name)),
      h('span', { class: 'badges' }, stateBadges(status)),
    ),
    flow.description && h('p', { key: 'about', class: 'soft small clip' }, name(flow.description)),
    status.paused && pausedNote(status),
    h('div', { key: 'progress' }, flow.progress ? progressOf(flow) : null),
    h('div', { key: 'facts' }, figures(flow)),
    h('div', { key: 'targets' }, destinations(flow)),
    flow.last_error &&
      h(
        'div',
        { key: 'error' },
        note(
          'bad',
          h('p', { class: 'small strong' }, t('flow.lastError')),
          h('p', { class: 'small clip' }, name(flow.last_error)),
        ),
      ),
    h('div', { key: 'result', class: 'result' }, resultOf(app, flow)),
    h('div', { key: 'buttons', class: 'flow-buttons' }, buttons(app, flow)),
  )
}

function toneOf({ paused, runLimit }) {
  if (paused) return 'is-paused'
  return runLimit === null ? 'is-running' : 'is-limited'
}

/** `Running`, `Paused`, or `N/M` while a limit counts; a limit that is used up stays beside the pause it caused. */
export function stateBadges({ paused, runLimit, runCount, polling }) {
  const limit =
    runLimit === null
      ? null
      : h(
          'span',
          { key: 'limit', class: 'badge info' },
          `${number(runCount)}/${number(runLimit)}`,
          h('span', { class: 'visually-hidden' }, ` ${t('flow.runs')}`),
        )
  return [
    polling && h('span', { key: 'polling', class: 'badge good pulse' }, t('flow.polling')),
    limit,
    paused
      ? h('span', { key: 'paused' }, badge('warn', t('flow.paused')))
      : limit === null && h('span', { key: 'running' }, badge('good', t('flow.running'))),
  ]
}

function pausedNote({ paused_at: at, paused_by: by, reason }) {
  return h(
    'div',
    { key: 'paused' },
    note(
      'warn',
      h(
        'p',
        { class: 'small' },
        by === null ? t('flow.pausedSince') : t('flow.pausedBy', { who: word('actor', by) }),
        ' ',
        at && relative(at),
      ),
      reason && h('p', { class: 'clip' }, name(word('reason', reason))),
    ),
  )
}

function progressOf({ progress }) {
  return h(
    'div',
    { class: 'progress' },
    h('span', { class: 'progress-bar', 'aria-hidden': 'true' }),
    h(
      'p',
      { class: 'small' },
      t('flow.progress', { rows: number(progress.rows_read), changes: number(progress.changes) }),
      ' · ',
      relative(progress.started_at),
    ),
  )
}

function figures(flow) {
  const { durations } = flow
  const last = durations.at(-1)
  return [
    facts([
      [
        t('flow.lastRun'),
        flow.last_poll_at === null ? t('flow.never') : relative(flow.last_poll_at),
      ],
      [t('flow.nextRun'), nextRun(flow)],
      [t('flow.changesToday'), number(flow.changes_today)],
      [t('flow.items'), number(flow.items)],
      [
        t('flow.lastSuccess'),
        flow.last_success_at !== flow.last_poll_at
          ? flow.last_success_at === null
            ? t('flow.never')
            : relative(flow.last_success_at)
          : null,
      ],
    ]),
    last !== undefined &&
      h(
        'div',
        { class: 'durations' },
        spark(durations),
        h(
          'span',
          { class: 'soft small' },
          t('flow.duration', {
            last: duration(last),
            top: duration(Math.max(...durations)),
          }),
        ),
      ),
  ]
}

function nextRun({ status, next_poll_at: at, poll_interval_ms: interval }) {
  if (status.paused) return t('flow.nextPaused')
  const every = h(
    'span',
    { class: 'every soft small' },
    t('flow.every', { time: duration(interval) }),
  )
  if (status.polling) return [t('flow.now'), every]
  if (at === null || new Date(at).getTime() < Date.now()) return [t('flow.soon'), every]
  return [relative(at), every]
}

function destinations(flow) {
  return h(
    'ul',
    { class: 'targets', 'aria-label': t('flow.destinations') },
    flow.destinations.map((destination) => {
      const { waiting, delayed, failed, oldest_waiting_at: oldest } = destination
      return h(
        'li',
        { key: destination.name },
        h(
          'span',
          { class: 'target' },
          h('span', { class: 'strong' }, name(destination.name)),
          ' ',
          h('span', { class: 'soft small' }, destination.type),
        ),
        h(
          'span',
          { class: 'badges' },
          waiting > 0 && badge('info', count('target.waiting', waiting)),
          delayed > 0 &&
            h(
              'a',
              {
                class: 'badge warn',
                href: `#/errors?flow=${encodeURIComponent(flow.name)}`,
              },
              count('target.delayed', delayed),
            ),
          failed > 0 &&
            h(
              'a',
              {
                class: 'badge bad',
                href: `#/errors?flow=${encodeURIComponent(flow.name)}`,
              },
              count('target.failed', failed),
            ),
          waiting + delayed + failed === 0 && badge('quiet', t('target.idle')),
        ),
        oldest &&
          h('span', { class: 'soft small oldest' }, t('target.oldest'), ' ', relative(oldest)),
      )
    }),
  )
}

/** What became of the last thing that was done here, until somebody puts it away. */
function resultOf(app, flow) {
  const result = app.results.get(flow.name)
  if (!result) return null
  return h(
    'div',
    { class: `note ${result.tone}` },
    h('div', null, h('p', { class: 'small clip' }, name(result.text))),
    h(
      'button',
      {
        type: 'button',
        class: 'button quiet small close',
        'aria-label': t('flow.dismiss'),
        onclick: () => {
          app.results.delete(flow.name)
          app.redraw()
        },
      },
      '✕',
    ),
  )
}

function buttons(app, flow) {
  const { status } = flow
  const button = (action, onclick, extra = '') =>
    h(
      'button',
      {
        key: action,
        type: 'button',
        class: `button small ${extra}`,
        disabled: isBusy(app, flow, action),
        onclick,
      },
      isBusy(app, flow, action) ? t('dialog.busy') : t(`do.${action}`),
    )
  return [
    h(
      'div',
      { key: 'first', class: 'buttons' },
      button('sync', () => sync(app, flow), 'main'),
      button('preview', () => openPreview(app, flow)),
      status.paused
        ? button('resume', () => void resume(app, flow))
        : button('pause', () => askPause(app, flow)),
      status.runLimit === null
        ? button('limit', () => askLimit(app, flow))
        : button('unlimit', () => void removeLimit(app, flow)),
    ),
    h(
      'details',
      { key: 'more', class: 'more' },
      h('summary', null, t('flow.more')),
      h(
        'div',
        { class: 'buttons' },
        flow.has_alerts && button('alerts', () => testAlerts(app, flow)),
        button('reset', () => askReset(app, flow), 'danger'),
        button('resync', () => askResync(app, flow), 'danger'),
        h(
          'a',
          { key: 'log', class: 'button small', href: app.link('activity', { flow: flow.name }) },
          t('nav.activity'),
        ),
      ),
    ),
  ]
}
