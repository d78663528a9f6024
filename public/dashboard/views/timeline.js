import { h } from '../../shared/dom.js'
import { name, number, time } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { orderTone } from './order-columns.js'

const tones = { done: 'good', refused: 'bad', unknown: 'warn', failed: 'bad', rejected: 'bad' }

/** What happened to an order, oldest first, each with its time and how long after the start. */
export function timeline({ entries }) {
  const start = new Date(entries[0]?.at).getTime()
  return h(
    'section',
    { key: 'timeline', class: 'panel' },
    h('h2', null, t('timeline.title')),
    h(
      'ol',
      { class: 'timeline' },
      entries.map((entry, index) =>
        h(
          'li',
          { key: `${entry.kind} ${entry.at} ${index}`, class: toneOf(entry) },
          h(
            'span',
            { class: 'when' },
            time(entry.at),
            index > 0 && [' ', h('span', { class: 'soft small' }, since(entry.at, start))],
          ),
          h('div', null, whatOf(entry), moreOf(entry)),
        ),
      ),
    ),
  )
}

function toneOf({ kind, to_status: status, detail }) {
  return kind === 'state' ? orderTone(status) : (tones[detail] ?? 'quiet')
}

/** `+4.2 s`, in coarser units the longer it is. */
function since(at, start) {
  const seconds = Math.max(0, (new Date(at).getTime() - start) / 1000)
  if (seconds < 120) return `+${number(Math.round(seconds * 10) / 10)} s`
  if (seconds < 7200) return `+${number(Math.round(seconds / 60))} min`
  return `+${number(Math.round(seconds / 3600))} h`
}

function whatOf({ kind, from_status: from, to_status: to, detail, amount, count }) {
  if (kind === 'state') {
    const isMove = from !== null && from !== to
    return h(
      'p',
      null,
      isMove && [badge(orderTone(from), word('status', from)), ' → '],
      badge(orderTone(to), word('status', to)),
      detail && [' ', word('detail', detail)],
    )
  }
  const values = { amount: amount === null ? '' : money(amount), count: number(count ?? 1) }
  return h(
    'p',
    null,
    t(
      kind === 'cancel' || kind === 'refund' ? `timeline.${kind}.${detail}` : `timeline.${kind}`,
      values,
    ),
    kind === 'webhook' && [' ', badge(tones[detail] ?? 'quiet', word('webhook', detail))],
  )
}

function moreOf({ kind, source, note, count, duration_ms: ms }) {
  const parts = [
    source && word('source', source),
    note && name(note),
    kind === 'webhook' && count > 1 && t('timeline.deliveries', { count }),
    ms !== null && `${number(ms)} ms`,
  ].filter(Boolean)
  if (parts.length === 0) return null
  return h(
    'p',
    { class: 'soft small' },
    parts.map((part, index) => [index > 0 && ' · ', part]),
  )
}
