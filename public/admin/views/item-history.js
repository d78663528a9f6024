import { code, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, repeat } from '../../shared/lit.js'
import { badge, empty } from '../../shared/parts.js'
import { reasonText } from '../reason.js'

export const outcomeTones = { delivered: 'good', retry: 'warn', failed: 'bad', skipped: 'quiet' }

/** How an item changed, version by version, and what each destination answered; newest first. */
export function historyOf({ history: { content, versions, attempts } }) {
  const orphans = attempts.filter(({ version }) => version === null)
  const list = html`<ol class="versions">
    ${repeat(
      versions,
      ({ id }) => id,
      (version, index) =>
        versionOf(
          version,
          attempts.filter((attempt) => attempt.version === version.id),
          index === 0,
        ),
    )}
    ${
      orphans.length === 0
        ? null
        : html`<li class="version">
            <h3>${t('history.orphans')}</h3>
            ${attemptList(orphans)}
          </li>`
    }
  </ol>`
  return html`<section class="panel" aria-labelledby="history">
    <h2 id="history">${t('history.title')}</h2>
    ${
      versions.length + orphans.length === 0
        ? empty(t('history.none'), t('history.noneHint'))
        : list
    }
    ${content ? contentOf(content) : null}
  </section>`
}

function versionOf(version, attempts, isNewest) {
  const { seen_at: seenAt, comparison, difference_count: differing } = version
  const isCompared = comparison === 'compared'
  return html`<li class="version">
    <div class="version-head">
      <h3>${t('history.seen')} ${time(seenAt)}</h3>
      ${badge(
        isCompared ? 'info' : comparison === 'deleted' ? 'warn' : 'quiet',
        isCompared ? count('history.changed', differing) : word('comparison', comparison),
      )}
    </div>
    ${isCompared ? differences(version) : null}
    ${
      attempts.length > 0
        ? attemptList(attempts)
        : html`<p class="soft small">
            ${t(isNewest ? 'history.notYet' : 'history.overtaken')}
          </p>`
    }
  </li>`
}

/** The fields of two versions that differ, from what to what. */
export function differences({ differences: shown, difference_count: total }) {
  if (total === 0) return html`<p class="soft small">${t('history.invisible')}</p>`
  const left = total - shown.length
  return html`<ul class="differences">
      ${shown.map((one) => html`<li>${code(one.field)}<span>${turnOf(one)}</span></li>`)}
    </ul>
    ${
      left > 0
        ? html`<p class="soft small">${t('history.more', { count: number(left) })}</p>`
        : null
    }`
}

/** From what to what; one of both where there is no other. */
function turnOf({ change, from, to }) {
  if (change === 'added') return html`${t('history.added')} <ins>${valueText(to, to)}</ins>`
  if (change === 'removed') return html`${t('history.removed')} <del>${valueText(from, from)}</del>`
  return html`<del>${valueText(from, to)}</del><span class="soft" aria-hidden="true"> → </span
    ><span class="visually-hidden"> ${t('history.became')} </span><ins>${valueText(to, from)}</ins>`
}

/** A text beside another text is shown plain; whatever could be mistaken for one is shown as JSON. */
function valueText(value, other) {
  const isPlain =
    typeof value === 'string' && value.trim() === value && value !== '' && typeof other === 'string'
  return name(isPlain ? value : JSON.stringify(value), { class: 'value-text' })
}

/** What each destination answered last; its earlier answers are folded. */
function attemptList(attempts) {
  const newest = attempts.filter(
    ({ destination }, at) => attempts.findIndex((one) => one.destination === destination) === at,
  )
  const earlier = attempts.filter((attempt) => !newest.includes(attempt))
  return html`${listOf(newest)}
    ${
      earlier.length === 0
        ? null
        : html`<details class="more">
            <summary>${count('history.earlier', earlier.length)}</summary>
            ${listOf(earlier)}
          </details>`
    }`
}

function listOf(attempts) {
  return html`<ul class="attempts">
    ${attempts.map(attemptOf)}
  </ul>`
}

function attemptOf({ at, destination, outcome, kind, attempt, status, reason, why }) {
  const facts = [
    kind === 'delete' && t('history.deletion'),
    attempt > 1 && t('history.attempt', { count: number(attempt) }),
    outcome === 'delivered' && status !== null && `HTTP ${status}`,
  ]
  return html`<li>
    <span class="when">${time(at)}</span>
    <div>
      <p>
        ${name(destination, { class: 'strong' })}
        ${badge(outcomeTones[outcome], word('outcome', outcome))}
        <span class="soft small">${facts.filter(Boolean).join(' · ')}</span>
      </p>
      ${reason ? html`<p class="small clip">${name(reasonText(why, reason))}</p>` : null}
    </div>
  </li>`
}

function contentOf(content) {
  return html`<details class="more">
    <summary>${t('history.content')}</summary>
    <pre tabindex="0" aria-label=${t('history.content')}>${name(JSON.stringify(content, null, 2))}</pre>
  </details>`
}
