import { fullTime, name, number, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import { badge, facts, note } from '../../shared/parts.js'
import {
  askChange,
  askDelete,
  askPing,
  askReplay,
  askResume,
  askRotate,
  askSkip,
  askStop,
} from '../endpoint-actions.js'

const tones = { active: 'good', failing: 'warn', stopped: 'bad' }

/** How an endpoint fares, with what may be done about it. */
export function endpointCard(app, endpoint, { isOwnPage = false } = {}) {
  const isStopped = endpoint.state === 'stopped'
  const state = !isStopped && endpoint.failures > 0 ? 'failing' : endpoint.state
  const reason = endpoint.stop_reason
  const address = name(endpoint.url)
  return html`
    <div class="panel-head">
      ${isOwnPage ? html`<h2>${address}</h2>` : html`<h3>${address}</h3>`}
      ${badge(tones[state], t(`events.state.${state}`))}
    </div>
    ${isStopped ? note(reason === 'person' ? 'info' : 'bad', html`<p>${t(`events.reason.${reason}`)} ${t('events.kept')}</p>`) : nothing}
    ${healthFacts(endpoint)}
    ${endpoint.missed > 0 ? note('warn', html`<p>${t('events.missedHint')}</p>`) : nothing}
    ${app.may('set_up') ? actions(app, endpoint, isStopped, isOwnPage) : nothing}
    ${isOwnPage ? nothing : html`<p><a href=${app.link('events', endpoint.id)}>${t('events.attempts')}</a></p>`}`
}

function healthFacts(endpoint) {
  const { last_success_at: success, waiting, oldest_at: oldest, failed } = endpoint
  const { resting_until: resting, former_secret_until: former } = endpoint
  const isAhead = (at) => at !== null && Date.parse(at) > Date.now()
  const isActive = endpoint.state === 'active'
  return facts([
    [t('events.gets'), filterText(endpoint)],
    [t('events.lastSuccess'), success ? relative(success) : t('events.never')],
    [
      t('events.waiting'),
      [number(waiting), oldest ? html` <span class="soft small">(${relative(oldest)})</span>` : ''],
    ],
    [t('events.failed'), failed > 0 ? number(failed) : null],
    [
      t('events.nextAttempt'),
      isActive && isAhead(endpoint.next_attempt_at) ? relative(endpoint.next_attempt_at) : null,
    ],
    [t('events.restingUntil'), isActive && isAhead(resting) ? relative(resting) : null],
    [t('events.missed'), endpoint.missed > 0 ? number(endpoint.missed) : null],
    [t('events.stopped'), endpoint.stopped_at && relative(endpoint.stopped_at)],
    [t('events.formerUntil'), isAhead(former) ? fullTime(former) : null],
  ])
}

function filterText({ types, caja_id: box, sucursal_id: store }) {
  return [
    types === null ? t('events.getsAll') : types.join(', '),
    ...(box === null ? [] : [t('events.ofBox', { box })]),
    ...(store === null ? [] : [t('events.ofStore', { store })]),
  ].join(' · ')
}

function actions(app, endpoint, isStopped, isOwnPage) {
  const button = (key, act, style = '') =>
    html`<button type="button" class="button small ${style}" @click=${() => act(app, endpoint)}>
      ${t(`events.${key}`)}<span class="visually-hidden"> (${endpoint.url})</span></button>`
  return html`<div class="buttons">
    ${isStopped ? button('resume', askResume, 'main') : nothing}
    ${button('ping', askPing)}
    ${button('replay', askReplay)}
    ${endpoint.waiting > 0 && (isStopped || endpoint.failures > 0) ? button('skip', askSkip) : nothing}
    ${
      isOwnPage
        ? [
            button('change', askChange),
            button('rotate', askRotate),
            isStopped ? nothing : button('stop', askStop, 'danger'),
            button('delete', askDelete, 'danger'),
          ]
        : nothing
    }
  </div>`
}
