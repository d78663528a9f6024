import { h } from './dom.js'
import { count, t } from './i18n.js'
import { icon } from './icons.js'
import { announce } from './notices.js'

/** A word in a colored pill; `tone` is good, bad, warn, info, quiet or moved. */
export function badge(tone, text) {
  return h('span', { class: `badge ${tone}` }, text)
}

/**
 * A table that turns into cards on a phone. `columns` are `{id, title, cell(row), numeric}`; `extra(row)` may give a
 * second line over the whole width. The roles keep it a table where CSS makes blocks of its parts.
 */
export function table({ label, columns, rows, keyOf, freshKeys, extra }) {
  const cells = (row) =>
    columns.map((column) =>
      h(
        'td',
        {
          key: column.id,
          role: 'cell',
          class: `c-${column.id}${column.numeric ? ' numeric' : ''}`,
        },
        h('span', { class: 'cell-label', 'aria-hidden': 'true' }, column.title),
        h('div', { class: 'cell' }, column.cell(row)),
      ),
    )
  const lines = (row) => {
    const key = keyOf(row)
    const more = extra?.(row)
    return [
      h('tr', { key, role: 'row', class: freshKeys?.has(key) ? 'fresh' : null }, cells(row)),
      more &&
        h(
          'tr',
          { key: `${key} more`, role: 'row', class: 'extra' },
          h('td', { role: 'cell', colspan: columns.length }, more),
        ),
    ]
  }
  return h(
    'table',
    { role: 'table', 'aria-label': label },
    h(
      'thead',
      { role: 'rowgroup' },
      h(
        'tr',
        { role: 'row' },
        columns.map(({ id, title, numeric }) =>
          h(
            'th',
            { key: id, role: 'columnheader', scope: 'col', class: numeric && 'numeric' },
            title,
          ),
        ),
      ),
    ),
    h('tbody', { role: 'rowgroup' }, rows.map(lines)),
  )
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

export const pageSize = 25

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
  if (total <= pageSize && page === 1) return null
  const step = (place, text, rel) =>
    place
      ? h('a', { key: rel, class: 'button', href: hrefOf(place), rel }, text)
      : h('span', { key: rel, class: 'button off', 'aria-disabled': 'true' }, text)
  const first = { page: undefined, cursor: undefined }
  const from = (page - 1) * pageSize + 1
  return h(
    'nav',
    { key: 'pager', class: 'pager', 'aria-label': t('pager.label') },
    step(
      page > 1 && (page > 2 && newer ? { page: page - 1, cursor: newer } : first),
      t('pager.newer'),
      'prev',
    ),
    h(
      'span',
      { class: 'soft' },
      t('pager.where', { from, to: Math.min(total, page * pageSize), total }),
    ),
    step(older && { page: page + 1, cursor: older }, t('pager.older'), 'next'),
  )
}

/** The page of a query: a whole number from 1. */
export function pageOf(query) {
  return /^[1-9]\d{0,4}$/.test(query.page ?? '') ? Number(query.page) : 1
}

export function loading() {
  return h(
    'div',
    { key: 'loading', class: 'loading', role: 'status' },
    h('span', { class: 'visually-hidden' }, t('loading')),
    [1, 2, 3, 4].map((line) => h('span', { key: line, class: 'bone' })),
  )
}

export function empty(title, text) {
  return h(
    'div',
    { key: 'empty', class: 'empty' },
    h('p', { class: 'strong' }, title),
    text && h('p', { class: 'soft' }, text),
  )
}

export function note(tone, ...children) {
  return h(
    'div',
    { class: `note ${tone}` },
    tone === 'warn' && icon('warning'),
    h('div', null, children),
  )
}

/** A labelled control. */
export function field(label, control, hint) {
  return h(
    'label',
    { class: 'field' },
    h('span', { class: 'label' }, label),
    control,
    hint && h('span', { class: 'soft small' }, hint),
  )
}

/** Pairs of name and value. Values that are null are left out. */
export function facts(pairs) {
  return h(
    'dl',
    { class: 'facts' },
    pairs
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([title, value]) =>
        h('div', { key: title }, h('dt', null, title), h('dd', null, value)),
      ),
  )
}

/** How many there are, said under a heading. */
export function howMany(key, total) {
  return h('p', { class: 'soft' }, count(key, total))
}
