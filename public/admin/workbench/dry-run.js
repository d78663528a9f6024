import { name, number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge, empty, note } from '../../shared/parts.js'
import { panel } from '../views/list-parts.js'

/** What a dry run has found: each record beside what its destinations would get. */
export function dryRunReport({ rows_read: rows, cut_off: cutOff, warnings, records }) {
  return panel(
    t('bench.runTitle'),
    html`<p>
        ${count('bench.ran', records.length)}
        ${cutOff === 'time' ? t('bench.cut.time') : null}
        <span class="soft small">${t('bench.rows', { rows: number(rows) })}</span>
      </p>
      ${warnings.map((text) => note('warn', html`<p class="clip">${name(text)}</p>`))}
      ${records.length === 0 ? empty(t('bench.noRecords')) : null}
      ${records.map(recordPart)}`,
    { hint: t('bench.runHint') },
  )
}

function recordPart({ record, pk, problem, skipped, destinations }, index) {
  const isOpen = index === 0
  return html`<details class="more record" ?open=${isOpen}>
    <summary>
      ${pk === null ? t('bench.noKey') : name(pk, { class: 'strong' })}
      ${problem ? badge('bad', t('bench.problem')) : null}
      ${skipped ? badge('quiet', t('bench.skipped')) : null}
      ${destinations.some(({ refused }) => refused) ? badge('bad', t('bench.refused')) : null}
    </summary>
    ${problem || skipped ? html`<p class="clip">${name(problem ?? skipped)}</p>` : null}
    <div class="side-by-side">
      ${shownValue(t('bench.record'), record)}
      ${destinations.map(destinationPart)}
    </div>
  </details>`
}

function destinationPart({ name: target, body, requests, skipped, refused }) {
  return html`${body === null ? null : shownValue(t('bench.body', { target }), body)}
  <div>
    <h3>${t('bench.requests', { target })}</h3>
    ${skipped ? html`<p>${badge('quiet', t('bench.skipped'))} ${name(skipped)}</p>` : null}
    ${refused ? html`<p>${badge('bad', t('bench.refused'))} <span class="clip">${name(refused)}</span></p>` : null}
    ${requests.map(requestPart)}
  </div>`
}

/** A request as its lines: method and address, headers, body. */
export function requestPart({ purpose, method, target, headers, body }) {
  const label = t(`bench.purpose.${purpose}`)
  const head = [
    [method, target].filter(Boolean).join(' '),
    ...Object.entries(headers).map(([key, value]) => `${key}: ${value}`),
  ].join('\n')
  return html`<p class="small soft">${label}</p>
    <pre tabindex="0" aria-label=${label}>${name(body === null ? head : `${head}\n\n${pretty(body)}`)}</pre>`
}

export function shownValue(title, value) {
  return html`<div>
    <h3>${title}</h3>
    <pre tabindex="0" aria-label=${title}>${name(pretty(value))}</pre>
  </div>`
}

/** JSON on lines; a text of JSON too, since bodies of requests are written without blanks. */
function pretty(value) {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2)
  try {
    return JSON.stringify(JSON.parse(value), null, 2)
  } catch {
    return value
  }
}
