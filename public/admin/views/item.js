import { ask } from '../../shared/dialog.js'
import { h } from '../../shared/dom.js'
import { errorSentence } from '../../shared/errors.js'
import { code, name, number, time } from '../../shared/format.js'
import { count, t } from '../../shared/i18n.js'
import { announce } from '../../shared/notices.js'
import { empty, facts, field, note, table } from '../../shared/parts.js'

/** "Where is my product?": one item of one flow, what went wrong with it, and how to send it. */
export function createItem(app) {
  const typed = { flow: app.query.flow, pk: app.query.pk }
  let shown
  let result
  let busy = false

  const path = (what) =>
    `/${what}/${encodeURIComponent(app.query.flow)}/${encodeURIComponent(app.query.pk)}`

  const work = async (run) => {
    if (busy) return
    busy = true
    result = undefined
    app.redraw()
    try {
      result = { tone: 'good', text: await run(), of: questionOf(app) }
    } catch (error) {
      result = { tone: 'bad', text: errorSentence(error), of: questionOf(app) }
    }
    busy = false
    announce(result.text)
    app.redraw()
    app.reload()
  }

  const syncItem = () =>
    work(async () => {
      const { found, changed, jobs } = await app.api.post(path('sync'))
      if (!found) return t('item.notFound')
      if (changed) return count('item.changed', jobs)
      return jobs > 0 ? count('item.again', jobs) : t('item.unchanged')
    })

  const sendAgain = () => {
    const flow = app.flows?.find(({ name }) => name === app.query.flow)
    ask({
      title: t('item.resend'),
      content: () => [
        facts([
          [t('flow.one'), name(app.query.flow)],
          [t('item.pk'), code(app.query.pk)],
        ]),
        note(
          'warn',
          h('p', null, t('item.resendText')),
          h(
            'ul',
            null,
            (flow?.destinations ?? []).map((target) =>
              h('li', { key: target.name }, name(target.name)),
            ),
          ),
        ),
      ],
      confirm: t('item.resend'),
      danger: true,
      async run() {
        await app.api.delete(path('reset'))
        void syncItem()
      },
    })
  }

  return {
    title: () => t('nav.item'),
    async load(signal) {
      const { flow, pk } = app.query
      const question = questionOf(app)
      const errors = flow && pk ? await app.api.get('/errors', { flow, pk, limit: 20 }, signal) : []
      shown = { question, errors }
    },
    body() {
      const question = questionOf(app)
      return [
        searchForm(app, typed),
        question === undefined
          ? empty(t('item.ask'), t('item.askHint'))
          : shown?.question === question
            ? [
                h(
                  'section',
                  { key: 'item', class: 'panel' },
                  h(
                    'div',
                    { class: 'panel-head' },
                    h('h2', null, name(app.query.flow), ' · ', code(app.query.pk)),
                  ),
                  h(
                    'div',
                    { key: 'result', role: 'status' },
                    result?.of === question && note(result.tone, h('p', null, result.text)),
                  ),
                  h(
                    'div',
                    { key: 'buttons', class: 'buttons' },
                    h(
                      'button',
                      {
                        key: 'sync',
                        type: 'button',
                        class: 'button main',
                        disabled: busy,
                        onclick: () => void syncItem(),
                      },
                      t(busy ? 'dialog.busy' : 'item.sync'),
                    ),
                    h(
                      'button',
                      {
                        key: 'again',
                        type: 'button',
                        class: 'button danger',
                        disabled: busy,
                        onclick: sendAgain,
                      },
                      t('item.resend'),
                    ),
                  ),
                  h('p', { class: 'soft small' }, t('item.syncHint')),
                ),
                errorsOf(shown.errors),
              ]
            : app.placeholder(),
      ]
    },
  }
}

/** The item that the address names; undefined while it names none. */
function questionOf({ query: { flow, pk } }) {
  return flow && pk ? JSON.stringify([flow, pk]) : undefined
}

function searchForm(app, typed) {
  const names = (app.flows ?? []).map((flow) => flow.name)
  const chosen = typed.flow ?? names[0] ?? ''
  const submit = (event) => {
    event.preventDefault()
    const pk = typed.pk?.trim()
    if (chosen && pk) app.setQuery({ flow: chosen, pk })
  }
  return h(
    'form',
    { key: 'search', class: 'filters', role: 'search', onsubmit: submit },
    field(
      t('flow.one'),
      h(
        'select',
        {
          name: 'flow',
          value: chosen,
          onchange: (event) => {
            typed.flow = event.target.value
            app.redraw()
          },
        },
        names.map((one) => h('option', { key: one, value: one }, one)),
        chosen !== '' &&
          !names.includes(chosen) &&
          h('option', { key: 'unknown', value: chosen }, chosen),
      ),
    ),
    field(
      t('item.pk'),
      h('input', {
        name: 'pk',
        type: 'search',
        required: true,
        maxlength: 1024,
        autocomplete: 'off',
        spellcheck: 'false',
        value: typed.pk ?? '',
        oninput: (event) => {
          typed.pk = event.target.value
        },
      }),
    ),
    h('button', { type: 'submit', class: 'button main' }, t('item.find')),
  )
}

function errorsOf(errors) {
  return h(
    'section',
    { key: 'errors', class: 'panel' },
    h('h2', null, t('item.errors')),
    errors.length === 0
      ? empty(t('item.noErrors'))
      : table({
          label: t('item.errors'),
          columns: [
            { id: 'time', title: t('activity.time'), cell: ({ timestamp }) => time(timestamp) },
            {
              id: 'adapter',
              title: t('flow.destinations'),
              cell: ({ adapter }) =>
                adapter === 'source' ? t('errors.source') : name(adapter, { class: 'clip' }),
            },
            {
              id: 'error',
              title: t('errors.error'),
              cell: ({ error }) => name(error, { class: 'clip' }),
            },
            {
              id: 'attempts',
              title: t('errors.attempts'),
              numeric: true,
              cell: ({ attempts }) => number(attempts),
            },
          ],
          rows: errors,
          keyOf: ({ id }) => id,
        }),
  )
}
