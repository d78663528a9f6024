import { code, duration, name, number } from '../../shared/format.js'
import { t, word } from '../../shared/i18n.js'
import { badge } from '../../shared/parts.js'
import { money } from '../amounts.js'
import { whoText } from '../who.js'
import { orderTone } from './order-columns.js'

const tones = { done: 'good', refused: 'bad', unknown: 'warn', failed: 'bad', rejected: 'bad' }

/** Requests to us and calls to the provider: how it came about, where the other entries are what came about. */
export function isTalk({ kind }) {
  return kind === 'request' || kind === 'call'
}

/** What came about, and not how: the steps that somebody reads who wants to know what happened. */
export function isKey({ kind, detail }) {
  if (kind === 'webhook') return detail === 'failed' || detail === 'rejected'
  return !['request', 'call', 'checked', 'sent'].includes(kind)
}

/** The tone of an entry's dot; `minor` for one that a reader may skip. */
export function entryClass(entry) {
  const { kind, to_status: to, detail, http_status: status } = entry
  if (isTalk(entry)) return status === null || status >= 500 ? 'bad minor' : 'quiet minor'
  if (kind === 'state') return orderTone(to)
  return kind === 'checked' ? 'quiet minor' : (tones[detail] ?? 'quiet')
}

/** What an entry tells, in a line. */
export function whatOf(entry) {
  const { kind, from_status: from, to_status: to, detail, amount, count, note: remark } = entry
  if (isTalk(entry)) return [talkOf(entry), ' ', answerBadge(entry.http_status)]
  if (kind === 'state') {
    const isMove = from !== null && from !== to
    return [
      isMove ? [badge(orderTone(from), word('status', from)), ' → '] : '',
      badge(orderTone(to), word('status', to)),
      detail && detail !== to ? [' ', word('detail', detail)] : '',
    ]
  }
  if (kind === 'action') {
    return t('timeline.action', { who: whoText(entry.who), what: word('action', detail) })
  }
  const key = kind === 'cancel' || kind === 'refund' ? `${kind}.${detail}` : kind
  return [
    t(`timeline.${key}`, {
      amount: amount === null ? '' : money(amount),
      count: number(count ?? 1),
    }),
    ...(kind === 'webhook'
      ? [
          remark ? [': ', name(word('event', remark))] : '',
          [' ', badge(tones[detail] ?? 'quiet', word('webhook', detail))],
        ]
      : []),
  ]
}

function talkOf({ kind, source, detail }) {
  return kind === 'request'
    ? t('timeline.request', { who: word('caller', source), what: word('request', detail) })
    : t('timeline.call', { what: word('call', detail) })
}

function answerBadge(status) {
  if (status === null) return badge('bad', t('timeline.noAnswer'))
  return badge(status < 400 ? 'quiet' : status < 500 ? 'warn' : 'bad', String(status))
}

/** A request that was refused tells the code of the error. */
function remarkText(kind, remark) {
  const refusal = kind === 'request' ? word('error', remark) : remark
  return refusal === remark ? word('remark', remark) : refusal
}

/** What else is known of it: who brought it, why it failed, how long it took. */
export function moreOf(entry) {
  const { kind, source, note: remark, count, duration_ms: ms, http_status: status } = entry
  const isRefused = isTalk(entry) && (status === null || status >= 400)
  const parts = [
    kind === 'state' && source && word('source', source),
    kind === 'call' && word('cause', source),
    kind !== 'webhook' && remark && remark !== String(status) && name(remarkText(kind, remark)),
    kind === 'webhook' && count > 1 && t('timeline.deliveries', { count }),
    kind === 'call' && count > 1 && t('timeline.attempt', { count: number(count) }),
    ms !== null && duration(ms),
    isRefused && entry.request_id && code(entry.request_id),
  ].filter(Boolean)
  return parts.map((part, index) => [index > 0 ? ' · ' : '', part])
}
