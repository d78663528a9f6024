import { h } from '../../shared/dom.js'
import { name, number } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { icon } from '../../shared/icons.js'
import { empty, field } from '../../shared/parts.js'
import { askPauseAll, askResumeAll, reloadFiles } from '../all-flows.js'
import { flowCard } from './flow-card.js'

/** Every flow at a glance, what is wrong with flow files, and the switches. */
export function createFlows(app) {
  const wanted = { text: '', attention: false }
  let stats

  return {
    title: () => t('nav.flows'),
    actions: () => app.flows && switches(app),
    async load(signal) {
      stats = await app.api.get('/stats', {}, signal)
    },
    body() {
      if (!app.flows || !stats) return app.placeholder()
      return [
        fileProblems(app.problems),
        app.flows.length > 0 && numbers(stats),
        app.flows.length === 0
          ? empty(t('flows.none'), t('flows.noneHint'))
          : [filters(app, wanted), cards(app, wanted)],
      ]
    },
  }
}

function switches(app) {
  const paused = app.flows.filter(({ status }) => status.paused)
  const button = (key, disabled, onclick) =>
    h(
      'button',
      { key, type: 'button', class: 'button small', disabled, onclick },
      t(`flows.${key}`),
    )
  return h(
    'div',
    { class: 'buttons' },
    button('pauseAll', paused.length === app.flows.length, () => askPauseAll(app)),
    button('resumeAll', paused.length === 0, () => askResumeAll(app, paused)),
    button('reload', app.busy.has('* reload'), () => void reloadFiles(app)),
  )
}

/** More flows than this are not taken in at a glance. */
const manyFlows = 6

function filters(app, wanted) {
  if (app.flows.length <= manyFlows) return null
  return h(
    'form',
    { key: 'filters', class: 'filters', onsubmit: (event) => event.preventDefault() },
    field(
      t('flows.find'),
      h('input', {
        name: 'find',
        type: 'search',
        autocomplete: 'off',
        spellcheck: 'false',
        oninput: (event) => {
          wanted.text = event.target.value.trim().toLowerCase()
          app.redraw()
        },
      }),
    ),
    field(
      t('flows.show'),
      h(
        'select',
        {
          name: 'show',
          onchange: (event) => {
            wanted.attention = event.target.value === 'attention'
            app.redraw()
          },
        },
        h('option', { value: '' }, t('filter.all')),
        h('option', { value: 'attention' }, t('flows.attention')),
      ),
    ),
  )
}

function needsAttention({ status, last_error: error, destinations }) {
  return status.paused || error !== null || destinations.some(({ failed }) => failed > 0)
}

function cards(app, wanted) {
  const shown =
    app.flows.length <= manyFlows
      ? app.flows
      : app.flows.filter(
          (flow) =>
            `${flow.name} ${flow.description ?? ''}`.toLowerCase().includes(wanted.text) &&
            (!wanted.attention || needsAttention(flow)),
        )
  if (shown.length === 0) return empty(t('flows.noMatch'))
  return h(
    'ul',
    { key: 'cards', class: 'cards', 'aria-label': t('nav.flows') },
    shown.map((flow) => h('li', { key: flow.name }, flowCard(app, flow))),
  )
}

/** A flow whose file is wrong is left out or keeps its old definition: nobody would know without this. */
function fileProblems(problems) {
  return h(
    'div',
    { key: 'problems', role: 'alert' },
    problems.length > 0 &&
      h(
        'section',
        { class: 'note bad', 'aria-label': t('files.title') },
        icon('warning'),
        h(
          'div',
          null,
          h('h2', null, count('files.problems', problems.length)),
          h(
            'ul',
            { class: 'problems' },
            problems.map((problem) =>
              h(
                'li',
                { key: `${problem.file} ${problem.line} ${problem.key} ${problem.message}` },
                h('code', null, name(`${problem.file}:${problem.line}:${problem.column}`)),
                problem.key && [' ', h('code', { class: 'strong' }, name(problem.key))],
                h('p', { class: 'clip' }, name(problem.message)),
                problem.hint && h('p', { class: 'small clip' }, '→ ', name(problem.hint)),
              ),
            ),
          ),
        ),
      ),
  )
}

function numbers({ queue, processed, errors }) {
  return h(
    'section',
    { key: 'numbers', class: 'numbers even', 'aria-label': t('stats.title') },
    tile(
      t('stats.waiting'),
      number(queue.waiting + queue.active),
      count('stats.active', queue.active),
    ),
    tile(t('stats.delayed'), number(queue.delayed), t('stats.delayedHint')),
    tile(
      t('stats.failed'),
      queue.failed > 0 ? h('a', { href: '#/errors' }, number(queue.failed)) : number(queue.failed),
      t('stats.failedHint', { total: number(errors) }),
      queue.failed > 0 && 'alarm',
    ),
    tile(t('stats.processed'), number(processed), t('stats.processedHint')),
  )
}

function tile(title, value, hint, extra) {
  return h(
    'div',
    { class: `tile ${extra || ''}` },
    h('h2', null, title),
    h('p', { class: 'value' }, value),
    h('p', { class: 'soft small' }, hint),
  )
}
