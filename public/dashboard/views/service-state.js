import { code, number, relative, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge, facts } from '../../shared/parts.js'
import { shownZone } from '../../shared/shop-clock.js'

/** On a phone it opens at a press: what is sold comes first. */
const isWide = matchMedia('(min-width: 48.01rem)').matches

const tones = { ok: 'good', degraded: 'warn', unknown: 'quiet' }

/** How the service itself is: which provider it charges at, and whether provider, database and webhooks are well. */
export function serviceState({ health }, { webhooks }) {
  if (!health) return nothing
  const { checks } = health
  return html`<details class="panel service" ?open=${isWide}>
    <summary><h2>${t('service.title')}</h2></summary>
    ${facts([
      [
        t('service.mode'),
        badge(health.mode === 'sandbox' ? 'warn' : 'good', word('mode', health.mode)),
      ],
      [t('service.answered'), time(health.timestamp)],
      [t('service.provider'), checks && providerState(checks.provider)],
      [t('service.database'), checks && databaseState(checks.database)],
      [t('service.webhooks'), webhookState(webhooks)],
      [t('service.waiting'), checks && number(checks.waiting_tills)],
      [t('service.zone'), shownZone()],
      [t('service.version'), health.version && code(health.version)],
    ])}
  </details>`
}

const state = (status) => badge(tones[status], word('health', status))

function providerState({ status, last_answer_at: at }) {
  return html`${state(status)} ${
    at ? html`<span class="soft small">${t('service.lastAnswer')} ${relative(at)}</span>` : nothing
  }`
}

function databaseState({ status, engine, warnings }) {
  return html`${state(status)} ${word('engine', engine)}${warnings.map(
    (warning) => html`<p class="soft small">${warningText(warning)}</p>`,
  )}`
}

function webhookState({ last_received_at: at, rejected }) {
  return html`${at ? html`${t('service.lastWebhook')} ${relative(at)}` : t('service.noWebhook')} ${
    rejected > 0 ? badge('warn', count('service.rejected', rejected)) : nothing
  }`
}

/** The service says it in English: `fsync is off: data may be lost when the power fails`. */
function warningText(warning) {
  const [, setting, value] = /^(\w+) is ([\w-]+): data may be lost/.exec(warning) ?? []
  return setting === undefined ? warning : t('service.notDurable', { setting, value })
}
