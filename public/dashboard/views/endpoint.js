import { code, duration, name, time } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, nothing } from '../../shared/lit.js'
import {
  badge,
  createFreshness,
  empty,
  howMany,
  pageOf,
  pager,
  pageSize,
  table,
} from '../../shared/parts.js'
import { askReplayOne } from '../endpoint-actions.js'
import '../events-page-texts.js'
import { endpointCard } from './endpoint-card.js'
import { secretPanels } from './endpoint-secret.js'

const outcomes = ['success', 'failed']

/** One endpoint: how it fares, and what it was sent; of one event also its data. */
export function createEndpoint(app) {
  const fresh = createFreshness()
  let shown

  return {
    isOfOne: true,
    title: () => t('nav.events'),
    async load(signal) {
      if (app.isAdmin && app.client === undefined) return
      const { id, query, client } = app
      const path = `/events/endpoints/${encodeURIComponent(id)}`
      const question = { ...app.clientQuery(), ...attemptsQuery(query) }
      const [endpoint, list] = await Promise.all([
        app.api.get(path, app.clientQuery(), signal),
        query.event
          ? app.api.get(
              `${path}/events/${encodeURIComponent(query.event)}`,
              app.clientQuery(),
              signal,
            )
          : app.api.get(`${path}/attempts`, question, signal),
      ])
      const place = { question: JSON.stringify([id, query]), page: pageOf(query) }
      shown = { id, client, event: query.event, ...place, endpoint, list }
    },
    body() {
      const isShown = shown?.id === app.id && shown.client === app.client
      if (!isShown || shown.event !== app.query.event) return app.placeholder()
      return [
        secretPanels(app),
        html`<p><a href=${app.link('events')}>${t('events.back')}</a></p>`,
        html`<section class="panel">${endpointCard(app, shown.endpoint, { isOwnPage: true })}</section>`,
        shown.event ? eventSection(app, shown) : attemptSection(app, shown, fresh),
      ]
    },
  }
}

function outcomeOf({ outcome }) {
  return outcomes.includes(outcome) ? outcome : undefined
}

function attemptsQuery(query) {
  return {
    outcome: outcomeOf(query),
    limit: pageSize,
    ...(query.cursor && { cursor: query.cursor }),
  }
}

function attemptSection(app, { endpoint, list, page, question }, fresh) {
  const { attempts, total, ...place } = list
  const hrefOf = (to) => app.link('events', endpoint.id, { ...app.query, ...to })
  const keys = attempts.map(keyOf)
  return html`<section class="stack">
    <h2>${t('events.attemptsTitle')}</h2>
    ${outcomeFilter(app)}
    ${
      attempts.length === 0
        ? empty(t('events.noAttempts'))
        : [
            howMany('events.attemptsCount', total),
            attemptTable(app, endpoint, attempts, fresh(question, keys)),
            pager({ page, total, ...place, hrefOf }),
          ]
    }
    <p class="soft small">${t('events.attemptsHint')}</p>
  </section>`
}

const keyOf = ({ event_id: id, at }) => `${id} ${at}`

function outcomeFilter(app) {
  const chosen = outcomeOf(app.query) ?? 'all'
  const change = ({ target }) =>
    app.setQuery({ outcome: target.value, page: undefined, cursor: undefined })
  const option = (outcome) =>
    html`<option value=${outcome} ?selected=${outcome === chosen}>${t(`events.outcome.${outcome}`)}</option>`
  return html`<form class="filters" @submit=${(event) => event.preventDefault()}>
    <label class="field"><span class="label">${t('events.outcome')}</span>
      <select name="outcome" @change=${change}>${['all', ...outcomes].map(option)}</select></label>
  </form>`
}

function attemptTable(app, endpoint, attempts, freshKeys) {
  return table({
    kind: 'brief',
    label: t('events.attemptsTitle'),
    columns: [
      { id: 'time', title: t('events.time'), cell: ({ at }) => time(at) },
      {
        id: 'event',
        title: t('events.event'),
        cell: ({ type, event_id: event }) =>
          event === null
            ? name(type)
            : html`<a href=${app.link('events', endpoint.id, { event })}>${name(type)}</a>`,
      },
      { id: 'result', title: t('events.result'), cell: resultOf },
      {
        id: 'took',
        title: t('events.took'),
        numeric: true,
        cell: ({ duration_ms: ms }) => duration(ms),
      },
      {
        id: 'answer',
        title: t('events.answer'),
        cell: ({ answer }) => (answer ? html`<span class="clip">${code(answer)}</span>` : '—'),
      },
    ],
    rows: attempts,
    keyOf,
    freshKeys,
  })
}

function resultOf({ success, status, failure }) {
  return badge(
    success ? 'good' : 'bad',
    status === null ? t(`events.failure.${failure}`) : String(status),
  )
}

function eventSection(app, { endpoint, list: { event, attempts } }) {
  return html`<section class="stack">
    <div class="panel-head">
      <h2>${t('events.oneEvent', { type: event.type })}</h2>
      ${
        app.may('set_up')
          ? html`<button type="button" class="button small" @click=${() => askReplayOne(app, endpoint, event)}>${t('events.replay')}</button>`
          : nothing
      }
    </div>
    <p>${code(event.id)} · ${time(event.at)}</p>
    ${attemptTable(app, endpoint, attempts)}
    <details>
      <summary>${t('events.data')}</summary>
      <pre tabindex="0" role="group" aria-label=${t('events.data')}>${JSON.stringify(event, null, 2)}</pre>
    </details>
    <p><a href=${app.link('events', endpoint.id)}>${t('events.allAttempts')}</a></p>
  </section>`
}
