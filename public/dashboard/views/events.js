import { name, number, relative } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, nothing, repeat } from '../../shared/lit.js'
import { empty, pageOfRows, table } from '../../shared/parts.js'
import { askNewEndpoint } from '../endpoint-actions.js'
import '../events-page-texts.js'
import { createEndpoint } from './endpoint.js'
import { endpointCard } from './endpoint-card.js'
import { secretPanels } from './endpoint-secret.js'

/** The endpoints that events are sent to, and the programs that read them; of one endpoint what it was sent. */
export function createEvents(app) {
  return app.id === undefined ? createEndpoints(app) : createEndpoint(app)
}

function createEndpoints(app) {
  let shown

  return {
    isOfOne: true,
    title: () => t('nav.events'),
    actions: () =>
      app.client !== undefined && app.may('set_up')
        ? html`<button type="button" class="button main" @click=${() => askNewEndpoint(app)}>${t('events.new')}</button>`
        : nothing,
    async load(signal) {
      const { client } = app
      if (client === undefined) return
      const [{ endpoints }, { consumers }] = await Promise.all([
        app.api.get('/events/endpoints', app.clientQuery(), signal),
        app.api.get('/events/feed/consumers', app.clientQuery(), signal),
      ])
      shown = { client, endpoints, consumers }
    },
    body() {
      if (app.client === undefined) return empty(t('events.choose'), t('events.chooseHint'))
      if (shown?.client !== app.client) return app.placeholder()
      return [
        secretPanels(app),
        html`<p class="soft">${t('events.about')}</p>`,
        endpointSection(app, shown.endpoints),
        consumerSection(app, shown.consumers),
      ]
    },
  }
}

function endpointSection(app, endpoints) {
  if (endpoints.length === 0) return empty(t('events.none'), t('events.noneHint'))
  const hrefOf = (to) => app.link('events', undefined, { ...app.query, ...to })
  const { rows, links } = pageOfRows(app.query, endpoints, hrefOf, { onPhone: 2 })
  return html`<section class="stack">
    <h2>${t('events.endpoints')}</h2>
    <ul class="orphans">${repeat(
      rows,
      ({ id }) => id,
      (one) => html`<li class="orphan panel">${endpointCard(app, one)}</li>`,
    )}</ul>
    ${links}
  </section>`
}

function consumerSection(app, consumers) {
  const hrefOf = (to) => app.link('events', undefined, { ...app.query, ...to })
  const key = 'consumers'
  const { rows, links } = pageOfRows(app.query, consumers, hrefOf, { key, onPhone: 3 })
  const list = table({
    label: t('events.consumers'),
    columns: consumerColumns(),
    rows,
    keyOf: ({ name: named }) => named,
  })
  return html`<section class="stack">
    <h2>${t('events.consumers')}</h2>
    ${consumers.length === 0 ? html`<p class="soft">${t('events.noConsumers')}</p>` : [list, links]}
  </section>`
}

function consumerColumns() {
  return [
    { id: 'name', title: t('events.consumer'), cell: (one) => name(one.name, { class: 'strong' }) },
    {
      id: 'committed',
      title: t('events.place'),
      cell: ({ committed_at: at }) => (at ? relative(at) : t('events.placeNever')),
    },
    {
      id: 'waiting',
      title: t('events.waiting'),
      cell: ({ waiting, oldest_at: oldest }) => [
        number(waiting),
        oldest ? html` <span class="soft small">(${relative(oldest)})</span>` : nothing,
      ],
    },
    {
      id: 'reader',
      title: t('events.reader'),
      cell: ({ reader }) => (reader ? name(reader, { class: 'clip' }) : '—'),
    },
  ]
}
