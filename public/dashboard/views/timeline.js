import { h } from '../../shared/dom.js'
import { clock, duration, number, time } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { note } from '../../shared/parts.js'
import { entryClass, isTalk, moreOf, whatOf } from './timeline-entry.js'

const looking = new Set(['readOrder', 'followOrder', 'order.read'])

/** Fewer looks in a row than this are shown one by one. */
const fewLooks = 3

/**
 * What happened to an order, oldest first, each with its time and how long after the start. `decline` is why its payment
 * was refused, which the provider tells of the payment and not of the order's states.
 */
export function timeline({ entries, complete }, decline) {
  const start = new Date(entries[0]?.at).getTime()
  // Entries may bear one time and kind, and are only ever added to.
  const numbered = entries.map((entry, index) => ({
    ...entry,
    detail: entry.to_status === 'failed' ? (decline ?? entry.detail) : entry.detail,
    key: `${entry.kind} ${index}`,
  }))
  return h(
    'section',
    { key: 'timeline', class: 'panel' },
    h('h2', null, t('timeline.title')),
    !complete && note('plain', h('p', { class: 'small' }, t('timeline.incomplete'))),
    h(
      'ol',
      { class: 'timeline' },
      inGroups(numbered).map((group) =>
        group.length < fewLooks
          ? group.map((entry) => line(entry, start))
          : h('li', { key: `looks ${group[0].key}`, class: 'quiet minor' }, looks(group, start)),
      ),
    ),
  )
}

function line(entry, start) {
  return h('li', { key: entry.key, class: entryClass(entry) }, parts(entry, start))
}

function parts(entry, start) {
  return [
    h('span', { class: 'when' }, whenOf(entry, start)),
    h('div', null, h('p', null, whatOf(entry)), h('p', { class: 'soft small' }, moreOf(entry))),
  ]
}

function whenOf({ at }, start) {
  const isStart = new Date(at).getTime() === start
  return [time(at), !isStart && [' ', h('span', { class: 'soft small' }, since(at, start))]]
}

/** Somebody looked at the order, and was answered: there may be hundreds of these between two events. */
function isLook(entry) {
  const { detail, http_status: status } = entry
  return isTalk(entry) && looking.has(detail) && status !== null && status < 400
}

/** Each entry alone, and looks that follow each other together. */
function inGroups(entries) {
  const groups = []
  for (const entry of entries) {
    const last = groups.at(-1)
    if (last && isLook(entry) && isLook(last[0])) last.push(entry)
    else groups.push([entry])
  }
  return groups
}

/** Many looks as one line, which opens. */
function looks(group, start) {
  const last = group.at(-1)
  return [
    h('span', { class: 'when' }, whenOf(group[0], start)),
    h(
      'div',
      null,
      h(
        'details',
        null,
        h(
          'summary',
          null,
          t('timeline.looks', { count: number(group.length), until: clock(last.at) }),
        ),
        h(
          'ol',
          { class: 'timeline' },
          group.map((entry) => line(entry, start)),
        ),
      ),
    ),
  ]
}

/** `+19 ms`, `+4.2 s`, in coarser units the longer it is. */
function since(at, start) {
  return `+${duration(Math.max(0, new Date(at).getTime() - start))}`
}
