import { count, t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { openHistory } from '../fleet-history.js'
import { attentionLines, sinceText } from './attention-lines.js'

/** More would hide the boxes below; the rest opens at a press. */
const shownAtOnce = matchMedia('(max-width: 48rem)').matches ? 3 : 12

/** What somebody should do now, each with its cause and its button; one quiet line when there is nothing. */
export function attention(app, overview) {
  const lines = attentionLines(app, overview)
  return html`<section class="attention" aria-labelledby="attention">
    <div class="panel-head">
      <h2 id="attention">${t('attention.title')}</h2>
      <button type="button" class="button small quiet" @click=${() => openHistory(app)}>
        ${t('attention.history')}
      </button>
    </div>
    ${lines.length === 0 ? calm(overview.box_counts) : list(lines.slice(0, shownAtOnce))}
    ${
      lines.length > shownAtOnce
        ? html`<details><summary>${count('attention.more', lines.length - shownAtOnce)}</summary>
            ${list(lines.slice(shownAtOnce))}</details>`
        : nothing
    }
  </section>`
}

/** That nothing was seen to be wrong is not that everything is well: it says of how many boxes that is known. */
function calm({ total, ok }) {
  const rest = total - ok
  return html`<p class="calm">${icon('check')}<span>${count('attention.calm', ok)}${
    rest > 0 ? t('attention.calmRest', { count: rest }) : ''
  }.</span></p>`
}

function list(lines) {
  return html`<ul class="attention-lines">${repeat(lines, ({ key }) => key, line)}</ul>`
}

function line({ tone, place, text, since, help, parts }) {
  return html`<li class="attention-line ${tone}">
    <p><span class="strong">${place}</span> ${text} ${
      since ? html`<span class="soft small">${sinceText(since)}</span>` : nothing
    }</p>
    ${help ? html`<div class="buttons">${help}</div>` : nothing}
    ${
      parts
        ? html`<details><summary>${t('attention.each')}</summary>
            <ul class="attention-lines">${repeat(
              parts,
              ({ key }) => key,
              (part) => html`<li><p><span class="strong">${part.place}</span> ${part.text}</p>
                ${part.help ? html`<div class="buttons">${part.help}</div>` : nothing}</li>`,
            )}</ul></details>`
        : nothing
    }
  </li>`
}
