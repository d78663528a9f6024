import { count, t } from './i18n.js'
import { icon } from './icons.js'
import { content, html, nothing, repeat } from './lit.js'
import { announce } from './notices.js'

/** A word in a colored pill; `tone` is good, bad, warn, info, quiet or moved. */
export function badge(tone, text) {
  return html`<span class="badge ${tone}">${text}</span>`
}

/**
 * A table that turns into cards on a phone. `columns` are `{id, title, cell(row), numeric}`; `extra(row)` may give a
 * second line over the whole width; `kind` is a class. The roles keep it a table where CSS makes blocks of its parts.
 */
export function table({ label, columns, rows, keyOf, freshKeys, extra, kind = '' }) {
  const head = ({ title, numeric }) =>
    html`<th role="columnheader" scope="col" class=${numeric ? 'numeric' : ''}>${title}</th>`
  const cell = (row) => (column) =>
    html`<td role="cell" class="c-${column.id} ${column.numeric ? 'numeric' : ''}"
      ><span class="cell-label" aria-hidden="true">${column.title}</span
      ><div class="cell">${content(column.cell(row))}</div></td>`
  const line = (row) => {
    const more = extra?.(row)
    return html`<tr role="row" class=${freshKeys?.has(keyOf(row)) ? 'fresh' : ''}>${columns.map(cell(row))}</tr>${
      more
        ? html`<tr role="row" class="extra"><td role="cell" colspan=${columns.length}>${content(more)}</td></tr>`
        : nothing
    }`
  }
  return html`<table role="table" class=${kind} aria-label=${label}>
    <thead role="rowgroup"><tr role="row">${columns.map(head)}</tr></thead>
    <tbody role="rowgroup">${repeat(rows, keyOf, line)}</tbody>
  </table>`
}

/**
 * Which rows were not there at the last look, for a few seconds each; their coming is announced. A new question starts
 * over.
 */
export function createFreshness(lifeMs = 4000) {
  let question
  let seen = new Map()
  return (asked, keys) => {
    const now = Date.now()
    const isNew = asked !== question
    question = asked
    const arrived = isNew ? 0 : keys.filter((key) => !seen.has(key)).length
    if (arrived > 0) announce(count('fresh', arrived))
    seen = new Map(keys.map((key) => [key, isNew ? 0 : (seen.get(key) ?? now)]))
    return new Set(keys.filter((key) => now - seen.get(key) < lifeMs))
  }
}

/** Fewer rows on a phone, where each takes several lines: a page of a list is no longer than three screens. */
export const pageSize = matchMedia('(max-width: 48rem)').matches ? 11 : 25

/**
 * What a list asks for its page. The address holds a cursor, so that the way back costs the same however long the list is,
 * and the number of the page, which only tells where one is; one without a cursor counts from the start.
 */
export function pageQuery(query) {
  return query.cursor
    ? { limit: pageSize, cursor: query.cursor }
    : { limit: pageSize, offset: (pageOf(query) - 1) * pageSize }
}

/**
 * Where in the list one is, with links to the pages beside, by the cursors of the answer. `hrefOf({ page, cursor })` makes
 * their addresses; the first page has neither, since it goes on showing the newest.
 */
export function pager({ page, total, next_cursor: older, previous_cursor: newer, hrefOf }) {
  const first = { page: undefined, cursor: undefined }
  const before = page > 2 && newer ? { page: page - 1, cursor: newer } : first
  return pageLinks({
    ...{ page, total, size: pageSize, hrefOf },
    before: { text: t('pager.newer'), to: page > 1 && before },
    after: { text: t('pager.older'), to: older && { page: page + 1, cursor: older } },
  })
}

/** The same for a list that the page holds as a whole, `size` rows at a time; `key` is the name of its page in the address. */
export function pagerOfRows({ page, total, size, hrefOf, key = 'page' }) {
  const to = (other) => ({ [key]: other === 1 ? undefined : other })
  return pageLinks({
    ...{ page, total, size, hrefOf },
    before: { text: t('pager.before'), to: page > 1 && to(page - 1) },
    after: { text: t('pager.after'), to: page * size < total && to(page + 1) },
  })
}

/**
 * The tall rows of the page that the query asks for, or of the last one, and the links to the others: `{ rows, links }`. Of several
 * lists of one view each has a `key` of its own in the address, and fewer rows on a phone.
 */
export function pageOfRows(query, all, hrefOf, { key = 'page', onPhone = 8 } = {}) {
  const size = pageSize < 25 ? onPhone : pageSize
  const page = Math.min(pageOf(query, key), Math.max(1, Math.ceil(all.length / size)))
  return {
    rows: all.slice((page - 1) * size, page * size),
    links: pagerOfRows({ page, total: all.length, size, hrefOf, key }),
  }
}

function pageLinks({ page, total, size, hrefOf, before, after }) {
  if (total <= size && page === 1) return null
  const step = (place, text, rel) =>
    place
      ? html`<a class="button" href=${hrefOf(place)} rel=${rel}>${text}</a>`
      : html`<span class="button off" aria-disabled="true">${text}</span>`
  const from = (page - 1) * size + 1
  const to = Math.min(total, page * size)
  return html`<nav class="pager" aria-label=${t('pager.label')}>
    ${step(before.to, before.text, 'prev')}
    <span class="soft">${t('pager.where', { from, to, total })}</span>
    ${step(after.to, after.text, 'next')}
  </nav>`
}

/** The page of a query: a whole number from 1. */
export function pageOf(query, key = 'page') {
  return /^[1-9]\d{0,4}$/.test(query[key] ?? '') ? Number(query[key]) : 1
}

export function loading() {
  return html`<div class="loading" role="status">
    <span class="visually-hidden">${t('loading')}</span>
    <span class="bone"></span><span class="bone"></span><span class="bone"></span><span class="bone"></span>
  </div>`
}

export function empty(title, text) {
  return html`<div class="empty">
    <p class="strong">${title}</p>
    ${text ? html`<p class="soft">${content(text)}</p>` : nothing}
  </div>`
}

export function note(tone, ...children) {
  return html`<div class="note ${tone}">${tone === 'warn' ? icon('warning') : nothing}<div>${content(children)}</div></div>`
}

/** A labelled control. */
export function field(label, control, hint) {
  return html`<label class="field">
    <span class="label">${label}</span>
    ${content(control)}
    ${hint ? html`<span class="soft small">${content(hint)}</span>` : nothing}
  </label>`
}

/** Pairs of name and value. Values that are null are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined)
  const line = ([title, value]) => html`<div><dt>${title}</dt><dd>${content(value)}</dd></div>`
  return html`<dl class="facts">${known.map(line)}</dl>`
}

/** A number that is read from afar, with what it is and what it means. */
export function tile(title, value, hint, extra = '') {
  return html`<div class="tile ${extra}">
    <h2>${title}</h2>
    <p class="value">${value}</p>
    <p class="soft small">${hint}</p>
  </div>`
}

/** How many there are, said under a heading. */
export function howMany(key, total) {
  return html`<p class="soft">${count(key, total)}</p>`
}
