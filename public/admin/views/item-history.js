import { h } from '../../shared/dom.js'
import { code, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { badge, empty } from '../../shared/parts.js'

const outcomeTones = { delivered: 'good', retry: 'warn', failed: 'bad' }

/** How an item changed, version by version, and what each destination answered; newest first. */
export function historyOf({ history: { content, versions, attempts } }) {
  const orphans = attempts.filter(({ version }) => version === null)
  return h(
    'section',
    { key: 'history', class: 'panel', 'aria-labelledby': 'history' },
    h('h2', { id: 'history' }, t('history.title')),
    versions.length + orphans.length === 0
      ? empty(t('history.none'), t('history.noneHint'))
      : h(
          'ol',
          { key: 'versions', class: 'versions' },
          versions.map((version, index) =>
            versionOf(
              version,
              attempts.filter((attempt) => attempt.version === version.id),
              index === 0,
            ),
          ),
          orphans.length > 0 &&
            h(
              'li',
              { key: 'orphans', class: 'version' },
              h('h3', null, t('history.orphans')),
              attemptList(orphans),
            ),
        ),
    content && contentOf(content),
  )
}

function versionOf(version, attempts, isNewest) {
  const { id, seen_at: seenAt, comparison, difference_count: differing } = version
  const isCompared = comparison === 'compared'
  return h(
    'li',
    { key: id, class: 'version' },
    h(
      'div',
      { class: 'version-head' },
      h('h3', null, t('history.seen'), ' ', time(seenAt)),
      badge(
        isCompared ? 'info' : comparison === 'deleted' ? 'warn' : 'quiet',
        isCompared ? count('history.changed', differing) : word('comparison', comparison),
      ),
    ),
    isCompared && differences(version),
    attempts.length > 0
      ? attemptList(attempts)
      : h('p', { class: 'soft small' }, t(isNewest ? 'history.notYet' : 'history.overtaken')),
  )
}

/** The fields of two versions that differ, from what to what. */
export function differences({ differences: shown, difference_count: total }) {
  if (total === 0) return h('p', { class: 'soft small' }, t('history.invisible'))
  return [
    h(
      'ul',
      { class: 'differences' },
      shown.map((one) =>
        h('li', { key: one.field }, code(one.field), h('span', null, turnOf(one))),
      ),
    ),
    total > shown.length &&
      h('p', { class: 'soft small' }, t('history.more', { count: number(total - shown.length) })),
  ]
}

/** From what to what; one of both where there is no other. */
function turnOf({ change, from, to }) {
  if (change === 'added') return [t('history.added'), ' ', h('ins', null, valueText(to, to))]
  if (change === 'removed') {
    return [t('history.removed'), ' ', h('del', null, valueText(from, from))]
  }
  return [
    h('del', null, valueText(from, to)),
    h('span', { class: 'soft', 'aria-hidden': 'true' }, ' → '),
    h('span', { class: 'visually-hidden' }, ` ${t('history.became')} `),
    h('ins', null, valueText(to, from)),
  ]
}

/** A text beside another text is shown plain; whatever could be mistaken for one is shown as JSON. */
function valueText(value, other) {
  const isPlain =
    typeof value === 'string' && value.trim() === value && value !== '' && typeof other === 'string'
  return name(isPlain ? value : JSON.stringify(value), { class: 'value-text' })
}

function attemptList(attempts) {
  return h(
    'ul',
    { class: 'attempts' },
    attempts.map(({ at, destination, outcome, kind, attempt, status, reason }, index) =>
      h(
        'li',
        { key: `${at} ${destination} ${attempt} ${index}` },
        h('span', { class: 'when' }, time(at)),
        h(
          'div',
          null,
          h(
            'p',
            null,
            name(destination, { class: 'strong' }),
            ' ',
            badge(outcomeTones[outcome], word('outcome', outcome)),
            ' ',
            h(
              'span',
              { class: 'soft small' },
              [
                kind === 'delete' && t('history.deletion'),
                attempt > 1 && t('history.attempt', { count: number(attempt) }),
                outcome === 'delivered' && status !== null && `HTTP ${status}`,
              ]
                .filter(Boolean)
                .join(' · '),
            ),
          ),
          reason && h('p', { class: 'small clip' }, name(reason)),
        ),
      ),
    ),
  )
}

function contentOf(content) {
  return h(
    'details',
    { key: 'content', class: 'more' },
    h('summary', null, t('history.content')),
    h(
      'pre',
      { tabindex: '0', 'aria-label': t('history.content') },
      name(JSON.stringify(content, null, 2)),
    ),
  )
}
