import { code, duration, name, number, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, facts, note } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { differences } from './item-history.js'
import { smallButton } from './list-parts.js'

const kindTones = { new: 'good', changed: 'info', deleted: 'warn' }

/** What a sync would do. `readOn` is there when more could be read than was. */
export function previewReport(preview, readOn) {
  const { scan, definition, cut_off: cutOff, destinations, sample } = preview
  if (scan === null) return note('warn', html`<p class="strong">${word('preview', definition)}</p>`)
  const about = definition === 'none' ? null : html`<p>${word('preview', definition)}</p>`
  return html`${note(
    preview.changes > 0 ? 'info' : 'good',
    html`<p class="strong">${headline(preview)}</p>
      ${about}`,
  )}
  ${cutOff === null ? null : cutNote(preview, readOn)} ${figures(preview)}
  ${deletesNote(preview.deletes)} ${problemsNote(preview)}
  <ul class="targets" aria-label=${t('flow.destinations')}>
    ${destinations.map(destination)}
  </ul>
  ${
    sample.length === 0
      ? null
      : html`<h3>${t(isAll(preview) ? 'preview.all' : 'preview.sample')}</h3>
          <ul class="plain-list samples">
            ${sample.map(sampled)}
          </ul>`
  }
  <p class="soft small">${t('preview.later')}</p>`
}

function headline({ changes, cut_off: cutOff }) {
  if (changes === 0) return t(cutOff === null ? 'preview.none' : 'preview.noneYet')
  return count(cutOff === null ? 'preview.changes' : 'preview.atLeast', changes)
}

function cutNote({ cut_off: cutOff, rows_read: rows, duration_ms: ms }, readOn) {
  const on = readOn && smallButton({ text: t('preview.on'), onclick: readOn })
  return note(
    'warn',
    html`<p>
        ${t(`preview.cut.${cutOff}`, { rows: number(rows), time: duration(ms) })}
        ${t('preview.cutText')}
      </p>
      ${on ? html`<p>${on}</p>` : null}`,
  )
}

function figures({ scan, rows_read: rows, duration_ms: ms, items, deletes }) {
  const ifAny = (value) => (value > 0 ? number(value) : null)
  return facts([
    [
      t('preview.scan'),
      scan.kind === 'full'
        ? t('preview.full')
        : html`${t('preview.since')} ${position(scan.since)}`,
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

function deletesNote({ verdict, count: gone, reason, why }) {
  if (verdict !== 'hold_back') return null
  return note(
    'warn',
    html`<p class="strong">${count('preview.held', gone)}</p>
      <p class="small clip">${name(reasonText(why, reason))}</p>`,
  )
}

function problemsNote({ items, problems }) {
  const total = items.duplicate + items.rejected
  if (total === 0) return null
  return note(
    'bad',
    html`<p class="strong">${count('preview.problems', total)}</p>
      ${reasons(problems.map(({ pk, message, why }) => ({ pk, reason: message, why })))}
      ${more(total - problems.length)}`,
  )
}

function destination({ name: target, type, upserts, deletes, tried, skipped, refused, refusals }) {
  return html`<li>
    <span>${name(target, { class: 'strong' })} <span class="soft small">${type}</span></span>
    <span class="badges">
      ${badge(upserts > skipped ? 'info' : 'quiet', count('preview.send', upserts - skipped))}
      ${deletes > 0 ? badge('warn', count('preview.delete', deletes)) : null}
      ${skipped > 0 ? badge('quiet', count('preview.skipped', skipped)) : null}
      ${refused > 0 ? badge('bad', count('preview.refused', refused)) : null}
    </span>
    ${
      refused > 0
        ? html`<div class="refusals">${reasons(refusals)} ${more(refused - refusals.length)}</div>`
        : null
    }
    ${
      tried < upserts + deletes
        ? html`<p class="soft small oldest">${t('preview.tried', { count: number(tried) })}</p>`
        : null
    }
  </li>`
}

function reasons(list) {
  return html`<ul class="small reasons">
    ${list.map(
      ({ pk, reason, why }) =>
        html`<li>
          ${pk === null ? t('preview.noKey') : name(pk, { class: 'strong' })}:
          ${name(reasonText(why, reason), { class: 'clip' })}
        </li>`,
    )}
  </ul>`
}

function more(left) {
  return left > 0 ? html`<p class="small">${t('errors.more', { count: number(left) })}</p>` : null
}

function isAll({ changes, sample, cut_off: cutOff, deletes }) {
  return cutOff === null && deletes.verdict !== 'hold_back' && sample.length === changes
}

function sampled({ pk, kind, comparison, ...compared }) {
  return html`<li>
    <p>${badge(kindTones[kind], word('previewKind', kind))} ${name(pk, { class: 'strong' })}</p>
    ${comparison === 'compared' ? differences(compared) : null}
    ${
      comparison === 'too_large'
        ? html`<p class="soft small">${word('comparison', comparison)}</p>`
        : null
    }
  </li>`
}
