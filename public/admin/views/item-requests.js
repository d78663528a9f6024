import { name, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html } from '../../shared/lit.js'
import { badge } from '../../shared/parts.js'
import { reasonText } from '../reason.js'
import { requestPart } from '../workbench/dry-run.js'
import { outcomeTones } from './item-history.js'
import { panel } from './list-parts.js'

/** Record, mapped body, request and answer of one item side by side, for each destination. */
export function requestsOf({ record, destinations }) {
  return destinations.map((one) =>
    panel(
      t('item.sides', { target: one.name }),
      html`<p>${badge(...changeOf(one))}</p>
        <div class="side-by-side">
          ${marked(t('bench.record'), record, one.record_changes)}
          ${one.body === null ? null : marked(t('item.body'), one.body, one.body_changes)}
          ${requestColumn(one)} ${answerColumn(one)}
        </div>`,
      { hint: t('item.sidesHint') },
    ),
  )
}

/** What the record differs in from the one that arrived last. */
function changeOf({ record_changes: changes }) {
  if (!changes) return ['quiet', t('item.neverSent')]
  const { comparison, difference_count: differing } = changes
  if (comparison !== 'compared') return ['quiet', word('comparison', comparison)]
  return differing === 0
    ? ['good', t('item.sameAsSent')]
    : ['warn', count('item.changedSince', differing)]
}

function requestColumn({ requests, skipped, refused }) {
  return html`<div>
    <h3>${t('item.request')}</h3>
    ${skipped ? html`<p>${badge('quiet', t('bench.skipped'))} ${name(skipped)}</p>` : null}
    ${refused ? html`<p>${badge('bad', t('bench.refused'))} <span class="clip">${name(refused)}</span></p>` : null}
    ${requests.map(requestPart)}
  </div>`
}

function answerColumn({ answer }) {
  return html`<div>
    <h3>${t('item.answer')}</h3>
    ${
      answer === null
        ? html`<p class="soft">${t('item.noAnswer')}</p>`
        : html`<p>
              ${badge(outcomeTones[answer.outcome], word('outcome', answer.outcome))}
              ${answer.status === null ? null : html`<span class="strong">HTTP ${answer.status}</span>`}
            </p>
            <p>${time(answer.at)}</p>
            ${answer.reason ? html`<p class="clip">${name(reasonText(answer.why, answer.reason))}</p>` : null}`
    }
  </div>`
}

/** The fields of a value, one a line; those that changed are marked and have what they were. */
function marked(title, value, changes) {
  const isFields = typeof value === 'object' && value !== null && !Array.isArray(value)
  const before = changedFields(changes?.differences ?? [])
  const fields = isFields ? Object.entries(value) : [['', value]]
  const gone = [...before].filter(([field]) => isFields && !Object.hasOwn(value, field))
  return html`<div>
    <h3>${title}</h3>
    <pre tabindex="0" aria-label=${title}>${fields.map(([field, one]) => fieldLine(field, one, before.get(field)))}${gone.map(
      ([field, { from }]) => html`<del>${name(lineOf(field, from))}</del>\n`,
    )}</pre>
  </div>`
}

function fieldLine(field, value, change) {
  const line = name(lineOf(field, value))
  if (!change) return html`${line}\n`
  const was = change.isWhole && change.from !== undefined ? JSON.stringify(change.from) : undefined
  return html`<mark><span class="visually-hidden">${t('item.changedField')} </span>${line}</mark>${
    was === undefined ? null : html` <del>${name(was)}</del>`
  }\n`
}

function lineOf(field, value) {
  const text = JSON.stringify(value, null, 2) ?? 'null'
  return field === '' ? text : `${field}: ${text}`
}

/** The fields at the top that differ; `isWhole` where the difference is not inside of one. */
function changedFields(differences) {
  const found = new Map()
  for (const { field, from } of differences) {
    const [whole, quoted, plain] = /^(?:\["((?:[^"\\]|\\.)*)"\]|([^.[]+))/.exec(field) ?? ['']
    const top = quoted === undefined ? plain : JSON.parse(`"${quoted}"`)
    if (top !== undefined) found.set(top, { from, isWhole: whole === field })
  }
  return found
}
