import { ask } from '../../shared/dialog.js'
import { h } from '../../shared/dom.js'
import { errorSentence } from '../../shared/errors.js'
import { code, name, number, relative, time } from '../../shared/format.js'
import { count, t, word } from '../../shared/i18n.js'
import { announce } from '../../shared/notices.js'
import { badge, empty, facts, field, note, table } from '../../shared/parts.js'

/** "Where is my product?": one item of one flow, what went wrong with it, and how to send it. */
export function createItem(app) {
  const typed = { flow: app.query.flow, pk: app.query.pk }
  let shown
  let result
  let busy = false

  /** `/sync/<flow>/<pk>`, or `/flow/<flow>/items/<pk>`. */
  const path = (...parts) => {
    const [what, ...between] = parts
    return `/${[what, app.query.flow, ...between, app.query.pk].map(encodeURIComponent).join('/')}`
  }

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

  const retryFailed = () =>
    work(async () => {
      const { flow, pk } = app.query
      const { retried } = await app.api.post(`/flow/${encodeURIComponent(flow)}/retry`, {
        body: { pk },
      })
      return count('retry.done', retried)
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
      if (question === undefined) return
      const [item, errors] = await Promise.all([
        app.api.get(path('flow', 'items'), {}, signal),
        app.api.get('/errors', { flow, pk, limit: 20 }, signal),
      ])
      shown = { question, item, errors }
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
                    shown.item.destinations.some(({ state }) => state === 'failed') &&
                      h(
                        'button',
                        {
                          key: 'retry',
                          type: 'button',
                          class: 'button',
                          disabled: busy,
                          onclick: () => void retryFailed(),
                        },
                        t('item.retry'),
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
                whereItIs(shown.item),
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

const stateTones = {
  waiting: 'info',
  delayed: 'warn',
  failed: 'bad',
  delivered: 'good',
  unknown: 'quiet',
}

function whereItIs({ seen, destinations }) {
  return h(
    'section',
    { key: 'where', class: 'panel' },
    h('h2', null, t('item.where')),
    facts([
      [t('item.seen'), seen ? time(seen.changed_at) : t('item.notSeen')],
      [t('item.hash'), seen && code(seen.hash)],
    ]),
    table({
      label: t('item.where'),
      columns: [
        {
          id: 'destination',
          title: t('item.destination'),
          cell: ({ name: target, type }) => [
            name(target, { class: 'strong' }),
            ' ',
            h('span', { class: 'soft small' }, type),
          ],
        },
        {
          id: 'state',
          title: t('item.state'),
          cell: ({ state, last_error: error, next_attempt_at: next }) => [
            badge(stateTones[state], word('state', state)),
            next && h('p', { class: 'soft small' }, t('item.nextAttempt'), ' ', relative(next)),
            error && h('p', { class: 'small clip' }, name(error)),
          ],
        },
        {
          id: 'sync',
          title: t('item.inSync'),
          cell: ({ in_sync: inSync }) =>
            badge(
              inSync === null ? 'quiet' : inSync ? 'good' : 'warn',
              word('inSync', String(inSync)),
            ),
        },
        {
          id: 'attempts',
          title: t('item.attempts'),
          numeric: true,
          cell: ({ attempts }) => number(attempts),
        },
        {
          id: 'time',
          title: t('item.delivered'),
          cell: ({ delivered_at: at }) => time(at),
        },
      ],
      rows: destinations,
      keyOf: ({ name: target }) => target,
    }),
    destinations.some(({ state }) => state === 'unknown') &&
      h('p', { class: 'soft small' }, t('item.unknownHint')),
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
              title: t('item.destination'),
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
