import { h } from '../shared/dom.js'
import { problemBox } from '../shared/errors.js'
import { name } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { icon } from '../shared/icons.js'
import { languageButton } from '../shared/language-button.js'
import { note } from '../shared/parts.js'
import { href } from '../shared/router.js'

/** Everything around a view: banner, head, ways to the other views, and the view's own title and body. */
export function frame(app, { views, view, problem, onLanguage }) {
  const current = app.name === 'order' ? 'orders' : app.name
  return [
    h('a', { key: 'skip', class: 'skip', href: '#content', onclick: skip }, t('skip')),
    sandboxBanner(app.health),
    h(
      'div',
      { key: 'frame', class: 'frame' },
      h(
        'header',
        { class: 'head' },
        h(
          'a',
          { class: 'brand', href: app.link('overview') },
          h('img', { src: '/shared/icon.svg', alt: '', width: 28, height: 28 }),
          'tillbridge',
        ),
        h(
          'div',
          { class: 'who' },
          clientPicker(app),
          connectionLamp(app),
          h(
            'span',
            { class: 'head-buttons' },
            languageButton(onLanguage),
            h(
              'button',
              { type: 'button', class: 'button quiet', onclick: () => app.signOut() },
              icon('leave'),
              t('signOut'),
            ),
          ),
        ),
      ),
      h(
        'nav',
        { class: 'ways', 'aria-label': t('nav.label') },
        views.map((way) =>
          h(
            'a',
            { key: way, href: app.link(way), 'aria-current': way === current ? 'page' : null },
            icon(way),
            h('span', null, t(`nav.${way}`)),
          ),
        ),
      ),
      h(
        'main',
        { id: 'content', tabindex: '-1' },
        lostNote(app),
        problem && problemBox(problem, startOf(app, problem)),
        view.head?.(),
        h(
          'div',
          { key: 'title', class: 'title' },
          h('h1', { id: 'title', tabindex: '-1' }, view.heading?.() ?? view.title()),
          view.actions?.(),
        ),
        h('div', { key: `view ${app.name} ${app.id ?? ''}`, class: 'view' }, view.body()),
      ),
    ),
  ]
}

/** The view as it opens by itself; without the client when that may be what is not there. An order leads back anyway. */
function startOf(app, { status }) {
  if (app.name === 'order') return undefined
  return status === 404 ? href(app.name) : app.link(app.name)
}

/** The hash is the address of the view, so the link must not change it. */
function skip(event) {
  event.preventDefault()
  document.getElementById('content').focus()
}

function sandboxBanner(health) {
  if (health?.mode !== 'sandbox') return null
  return h(
    'p',
    { key: 'sandbox', class: 'sandbox', role: 'note' },
    h('strong', null, 'SANDBOX'),
    ' ',
    t('sandbox'),
  )
}

function connectionLamp({ isLost, health }) {
  const state = isLost
    ? 'lost'
    : health?.checks?.provider.status === 'degraded'
      ? 'degraded'
      : 'live'
  return h('span', { class: `lamp ${state}` }, t(`lamp.${state}`))
}

function lostNote({ isLost }) {
  return h(
    'div',
    { key: 'lost', role: 'status' },
    isLost && note('bad', h('p', { class: 'strong' }, t('lost'))),
  )
}

function clientPicker(app) {
  if (!app.isAdmin) return h('span', { class: 'client' }, name(app.client, { class: 'clip' }))
  const clients = app.clients ?? []
  return h(
    'label',
    { class: 'client' },
    h('span', { class: 'visually-hidden' }, t('client.label')),
    h(
      'select',
      {
        name: 'client',
        value: app.scope ?? '',
        onchange: (event) => app.setScope(event.target.value),
      },
      h('option', { value: '' }, t('client.all')),
      clients.map(({ client }) => h('option', { key: client, value: client }, client)),
      // A name from the address that is no client any more must still be shown as chosen.
      app.scope &&
        !clients.some(({ client }) => client === app.scope) &&
        h('option', { key: 'unknown', value: app.scope }, app.scope),
    ),
  )
}
