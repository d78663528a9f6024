import { h } from '../../shared/dom.js'
import { code, duration, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { badge, facts, note } from '../../shared/parts.js'
import { differences } from './item-history.js'

const kindTones = { new: 'good', changed: 'info', deleted: 'warn' }

/** What a sync would do. `readOn` is there when more could be read than was. */
export function previewReport(preview, readOn) {
  const { scan, definition, cut_off: cutOff, destinations, sample } = preview
  if (scan === null) return note('warn', h('p', { class: 'strong' }, word('preview', definition)))
  return [
    note(
      preview.changes > 0 ? 'info' : 'good',
      h('p', { class: 'strong' }, headline(preview)),
      definition !== 'normal' && h('p', null, word('preview', definition)),
    ),
    cutOff !== null && cutNote(preview, readOn),
    figures(preview),
    deletesNote(preview.deletes),
    problemsNote(preview),
    h(
      'ul',
      { key: 'targets', class: 'targets', 'aria-label': t('flow.destinations') },
      destinations.map(destination),
    ),
    sample.length > 0 && [
      h('h3', { key: 'sample-title' }, t(isAll(preview) ? 'preview.all' : 'preview.sample')),
      h('ul', { key: 'sample', class: 'plain-list samples' }, sample.map(sampled)),
    ],
    h('p', { key: 'later', class: 'soft small' }, t('preview.later')),
  ]
}

function headline({ changes, cut_off: cutOff }) {
  if (changes === 0) return t(cutOff === null ? 'preview.none' : 'preview.noneYet')
  return count(cutOff === null ? 'preview.changes' : 'preview.atLeast', changes)
}

function cutNote({ cut_off: cutOff, rows_read: rows, duration_ms: ms }, readOn) {
  return h(
    'div',
    { key: 'cut' },
    note(
      'warn',
      h(
        'p',
        null,
        t(`preview.cut.${cutOff}`, { rows: number(rows), time: duration(ms) }),
        ' ',
        t('preview.cutText'),
      ),
      readOn &&
        h(
          'p',
          null,
          h('button', { type: 'button', class: 'button small', onclick: readOn }, t('preview.on')),
        ),
    ),
  )
}

function figures({ scan, rows_read: rows, duration_ms: ms, items, deletes }) {
  const ifAny = (value) => (value > 0 ? number(value) : null)
  return facts([
    [
      t('preview.scan'),
      scan.kind === 'full' ? t('preview.full') : [t('preview.since'), ' ', position(scan.since)],
    ],
    [t('preview.rows'), t('preview.rowsIn', { rows: number(rows), time: duration(ms) })],
    [t('preview.new'), number(items.new)],
    [t('preview.changed'), number(items.changed)],
    [t('preview.unchanged'), number(items.unchanged)],
    [t('preview.filtered'), ifAny(items.filtered)],
    [t('preview.gone'), deletes.count === null ? null : number(deletes.count)],
  ])
}

/** A cursor is a time, or any text of the source's own. */
function position(cursor) {
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(cursor) ? time(cursor) : code(cursor)
}

function deletesNote({ verdict, count: gone, reason }) {
  if (verdict !== 'hold_back') return null
  return h(
    'div',
    { key: 'held' },
    note(
      'warn',
      h('p', { class: 'strong' }, count('preview.held', gone)),
      h('p', { class: 'small clip' }, name(reason)),
    ),
  )
}

function problemsNote({ items, problems }) {
  const total = items.duplicate + items.rejected
  if (total === 0) return null
  return h(
    'div',
    { key: 'problems' },
    note(
      'bad',
      h('p', { class: 'strong' }, count('preview.problems', total)),
      reasons(problems.map(({ pk, message }) => ({ pk, reason: message }))),
      more(total - problems.length),
    ),
  )
}

function destination({ name: target, type, upserts, deletes, tried, refused, refusals }) {
  return h(
    'li',
    { key: target },
    h(
      'span',
      null,
      name(target, { class: 'strong' }),
      ' ',
      h('span', { class: 'soft small' }, type),
    ),
    h(
      'span',
      { class: 'badges' },
      badge(upserts > 0 ? 'info' : 'quiet', count('preview.send', upserts)),
      deletes > 0 && badge('warn', count('preview.delete', deletes)),
      refused > 0 && badge('bad', count('preview.refused', refused)),
    ),
    refused > 0 &&
      h('div', { class: 'refusals' }, reasons(refusals), more(refused - refusals.length)),
    tried < upserts + deletes &&
      h('p', { class: 'soft small oldest' }, t('preview.tried', { count: number(tried) })),
  )
}

function reasons(list) {
  return h(
    'ul',
    { class: 'small reasons' },
    list.map(({ pk, reason }, index) =>
      h(
        'li',
        { key: `${index} ${pk}` },
        pk === null ? t('preview.noKey') : name(pk, { class: 'strong' }),
        ': ',
        name(reason, { class: 'clip' }),
      ),
    ),
  )
}

function more(left) {
  return left > 0 && h('p', { class: 'small' }, t('errors.more', { count: number(left) }))
}

function isAll({ changes, sample, cut_off: cutOff, deletes }) {
  return cutOff === null && deletes.verdict !== 'hold_back' && sample.length === changes
}

function sampled({ pk, kind, comparison, ...compared }) {
  return h(
    'li',
    { key: `${kind} ${pk}` },
    h(
      'p',
      null,
      badge(kindTones[kind], word('previewKind', kind)),
      ' ',
      name(pk, { class: 'strong' }),
    ),
    comparison === 'compared' && differences(compared),
    comparison === 'too_large' && h('p', { class: 'soft small' }, word('comparison', comparison)),
  )
}
