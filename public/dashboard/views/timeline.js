import { clock, duration, number, time } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { note } from '../../shared/parts.js'
import '../history-page-texts.js'
import { entryClass, isKey, isTalk, moreOf, whatOf } from './timeline-entry.js'

const looking = new Set(['readOrder', 'order.read'])

/** Fewer looks in a row than this are shown one by one. */
const fewLooks = 3

/**
 * What happened to an order, oldest first, each with its time and how long after the start: what came about first, and
 * folded below it every request and call by which it did. `decline` is why its payment was refused, which the provider tells
 * of the payment and not of the order's states.
 */
export function timeline({ entries, complete }, decline) {
  const start = new Date(entries[0]?.at).getTime()
  // Entries may bear one time and kind, and are only ever added to.
  const numbered = entries.map((entry, index) => ({
    ...entry,
    detail: entry.to_status === 'failed' ? (decline ?? entry.detail) : entry.detail,
    key: `${entry.kind} ${index}`,
  }))
  const keys = numbered.filter(isKey)
  const keyOf = ({ key }) => key
  return html`<section class="panel">
    <h2>${t('timeline.title')}</h2>
    <ol class="timeline">${repeat(keys, keyOf, (entry) => line(entry, start))}</ol>
    <details class="every-step">
      <summary>${t('timeline.all', { count: number(numbered.length) })}</summary>
      ${complete ? nothing : note('plain', html`<p class="small">${t('timeline.incomplete')}</p>`)}
      <ol class="timeline">${repeat(inGroups(numbered), ([first]) => first.key, group(start))}</ol>
    </details>
  </section>`
}

const group = (start) => (entries) =>
  entries.length < fewLooks
    ? entries.map((entry) => line(entry, start))
    : html`<li class="quiet minor">${looks(entries, start)}</li>`

function line(entry, start) {
  return html`<li class=${entryClass(entry)}>
    <span class="when">${whenOf(entry, start)}</span>
    <div><p>${whatOf(entry)}</p><p class="soft small">${moreOf(entry)}</p></div>
  </li>`
}

function whenOf({ at }, start) {
  const isStart = new Date(at).getTime() === start
  return html`${time(at)} ${isStart ? nothing : html`<span class="soft small">${since(at, start)}</span>`}`
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
function looks(entries, start) {
  const until = clock(entries.at(-1).at)
  return html`<span class="when">${whenOf(entries[0], start)}</span>
    <div><details>
      <summary>${t('timeline.looks', { count: number(entries.length), until })}</summary>
      <ol class="timeline">${entries.map((entry) => line(entry, start))}</ol>
    </details></div>`
}

/** `+19 ms`, `+4.2 s`, in coarser units the longer it is. */
function since(at, start) {
  return `+${duration(Math.max(0, new Date(at).getTime() - start))}`
}
