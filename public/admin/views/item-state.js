import { h } from '../../shared/dom.js'
import { code, name, number, relative, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge, empty, facts, table } from '../../shared/parts.js'

export const stateTones = {
  waiting: 'info',
  delayed: 'warn',
  failed: 'bad',
  delivered: 'good',
  unknown: 'quiet',
}

/** What the source showed last of an item, and what each destination got of it. */
export function whereItIs({ seen, destinations }) {
  return h(
    'section',
    { key: 'where', class: 'panel' },
    h('h2', null, t('item.where')),
    facts([
      [t('item.seen'), seen ? time(seen.changed_at) : t('item.notSeen')],
      [t('item.hash'), seen && code(seen.hash)],
    ]),
    table({
      label: t('item.where'),
      columns: [
        {
          id: 'destination',
          title: t('item.destination'),
          cell: ({ name: target, type }) => [
            name(target, { class: 'strong' }),
            ' ',
            h('span', { class: 'soft small' }, type),
          ],
        },
        {
          id: 'state',
          title: t('item.state'),
          cell: ({ state, last_error: error, next_attempt_at: next }) => [
            badge(stateTones[state], word('state', state)),
            next && h('p', { class: 'soft small' }, t('item.nextAttempt'), ' ', relative(next)),
            error && h('p', { class: 'small clip' }, name(error)),
          ],
        },
        {
          id: 'sync',
          title: t('item.inSync'),
          cell: ({ in_sync: inSync }) =>
            badge(
              inSync === null ? 'quiet' : inSync ? 'good' : 'warn',
              word('inSync', String(inSync)),
            ),
        },
        {
          id: 'attempts',
          title: t('item.attempts'),
          numeric: true,
          cell: ({ attempts }) => number(attempts),
        },
        {
          id: 'time',
          title: t('item.delivered'),
          cell: ({ delivered_at: at }) => time(at),
        },
      ],
      rows: destinations,
      keyOf: ({ name: target }) => target,
    }),
    destinations.some(({ state }) => state === 'unknown') &&
      h('p', { class: 'soft small' }, t('item.unknownHint')),
  )
}

/** What went wrong with an item, newest first. */
export function errorsOf(errors) {
  return h(
    'section',
    { key: 'errors', class: 'panel' },
    h('h2', null, t('item.errors')),
    errors.length === 0
      ? empty(t('item.noErrors'))
      : table({
          label: t('item.errors'),
          columns: [
            { id: 'time', title: t('activity.time'), cell: ({ timestamp }) => time(timestamp) },
            {
              id: 'adapter',
              title: t('item.destination'),
              cell: ({ adapter }) =>
                adapter === 'source' ? t('errors.source') : name(adapter, { class: 'clip' }),
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
          ],
          rows: errors,
          keyOf: ({ id }) => id,
        }),
  )
}
