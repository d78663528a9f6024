import { code, name, number } from '../../shared/format.js'
import { t } from '../../shared/i18n.js'
import { html, live } from '../../shared/lit.js'
import { badge, empty, field, pageOfRows, table } from '../../shared/parts.js'
import { createBench, readOnlyNote, whyReadOnly } from '../workbench/bench.js'
import { panel } from './list-parts.js'

/** Flow files: the list of them, and one of them or a new one in an editor. */
export function createWorkbench(app) {
  const bench = createBench(app)
  const chosen = { template: 'woocommerce', from: 'sql-table', name: '' }
  let list
  const asked = { text: '' }

  const isOpen = () => Boolean(app.query.file || app.query.template)

  const start = (event) => {
    event.preventDefault()
    const isShop = list.templates.find((one) => one.name === chosen.template)?.takes_source
    app.setQuery({
      template: chosen.template,
      from: isShop ? chosen.from : undefined,
      name: chosen.name || 'articulos',
    })
  }

  return {
    title: () => app.query.file ?? t('nav.workbench'),
    async load(signal) {
      if (isOpen()) return bench.load(signal)
      list = await app.api.get('/flow-files', {}, signal)
    },
    body() {
      if (isOpen()) return bench.body()
      if (!list) return app.placeholder()
      const readOnly = whyReadOnly(app, list)
      return html`${readOnly ? readOnlyNote(readOnly) : null}
      ${newFlow(list, chosen, { start, redraw: app.redraw })} ${files(app, list, asked)}`
    },
  }
}

function newFlow({ templates, sources }, chosen, { start, redraw }) {
  const isShop = templates.find((one) => one.name === chosen.template)?.takes_source
  const choice = (key, options) =>
    html`<select
      name=${key}
      @change=${(event) => {
        chosen[key] = event.target.value
        redraw()
      }}
    >
      ${options.map((one) => html`<option value=${one} ?selected=${one === chosen[key]}>${t(`bench.of.${one}`)}</option>`)}
    </select>`
  const form = html`<form class="filters" @submit=${start}>
    ${field(
      t('bench.template'),
      choice(
        'template',
        templates.map((one) => one.name),
      ),
    )}
    ${isShop ? field(t('bench.from'), choice('from', sources)) : null}
    ${field(
      t('bench.name'),
      html`<input name="name" pattern="[a-z0-9][a-z0-9_\\-]*" maxlength="64" placeholder="articulos"
        autocomplete="off" spellcheck="false" title=${t('bench.nameHint')}
        @input=${(event) => {
          chosen.name = event.target.value
        }} />`,
    )}
    <button type="submit" class="button main">${t('bench.start')}</button>
  </form>`
  return panel(t('bench.new'), form, { hint: t('bench.newHint') })
}

/** With so few files nobody has to search. */
const few = 8

/** Those with findings first. */
const byUrgency = (a, b) =>
  b.problems - a.problems || a.file.localeCompare(b.file, undefined, { numeric: true })

function files(app, { folder, files: all }, asked) {
  const wanted = asked.text.trim().toLowerCase()
  const found = all.filter((one) => `${one.file} ${one.flow ?? ''}`.toLowerCase().includes(wanted))
  const { rows, links } = pageOfRows(app.query, found.toSorted(byUrgency), (to) =>
    app.link('workbench', { ...app.query, ...to }),
  )
  const list = table({
    label: t('bench.files'),
    columns: [
      {
        id: 'file',
        title: t('bench.file'),
        cell: ({ file }) =>
          html`<a class="row-link" href=${app.link('workbench', { file })}>${name(file)}</a>`,
      },
      {
        id: 'flow',
        title: t('flow.one'),
        cell: ({ flow }) =>
          flow === null
            ? badge('quiet', t('bench.noFlow'))
            : html`<a href=${app.link('flows', { flow })}>${name(flow)}</a>`,
      },
      {
        id: 'problems',
        title: t('bench.findings'),
        cell: ({ problems }) =>
          problems > 0 ? badge('bad', number(problems)) : badge('good', t('bench.right')),
      },
    ],
    rows,
    keyOf: ({ file }) => file,
  })
  const type = (event) => {
    asked.text = event.target.value
    app.query = { ...app.query, page: undefined }
    app.redraw()
  }
  const search = html`<input type="search" name="find" autocomplete="off" spellcheck="false" aria-label=${t('bench.find')}
    placeholder=${t('bench.find')} .value=${live(asked.text)} @input=${type} />`
  const content =
    all.length === 0
      ? empty(t('bench.noFiles'))
      : [
          all.length > few ? search : null,
          found.length === 0 ? empty(t('bench.noMatch')) : list,
          links,
        ]
  return panel(t('bench.files'), content, { hint: code(folder) })
}
