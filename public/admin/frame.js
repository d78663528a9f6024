import { h } from '../shared/dom.js'
import { problemBox } from '../shared/errors.js'
import { number } from '../shared/format.js'
import { count, t } from '../shared/i18n.js'
import { icon } from '../shared/icons.js'
import { languageButton } from '../shared/language-button.js'
import { note } from '../shared/parts.js'

/** Everything around a view: head, ways to the other views, and the view's own title and body. */
export function frame(app, { views, view, problem, onLanguage }) {
  return [
    h('a', { key: 'skip', class: 'skip', href: '#content', onclick: skip }, t('skip')),
    h(
      'div',
      { key: 'frame', class: 'frame' },
      h(
        'header',
        { class: 'head' },
        h(
          'a',
          { class: 'brand', href: app.link('flows') },
          h('img', { src: '/shared/icon.svg', alt: '', width: 28, height: 28 }),
          'tillbridge',
          h('span', { class: 'soft' }, t('brand.flows')),
        ),
        h(
          'div',
          { class: 'who' },
          h('span', { class: `lamp ${app.isLost ? 'lost' : ''}` }, t(lampText(app))),
          h(
            'span',
            { class: 'head-buttons' },
            languageButton(onLanguage),
            app.hasToken &&
              h(
                'button',
                { key: 'out', type: 'button', class: 'button quiet', onclick: () => app.signOut() },
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
            { key: way, href: app.link(way), 'aria-current': way === app.name ? 'page' : null },
            icon(way),
            h('span', null, t(`nav.${way}`)),
            way === 'errors' && failedCount(app),
          ),
        ),
      ),
      h(
        'main',
        { id: 'content', tabindex: '-1' },
        h(
          'div',
          { key: 'lost', role: 'status' },
          app.isLost && note('bad', h('p', { class: 'strong' }, t('lost'))),
        ),
        problem && problemBox(problem, app.link(app.name)),
        h(
          'div',
          { key: 'title', class: 'title' },
          h('h1', { id: 'title', tabindex: '-1' }, view.title()),
          view.actions?.(),
        ),
        h('div', { key: `view ${app.name}`, class: 'view' }, view.body()),
      ),
    ),
  ]
}

function lampText({ isLost, flows }) {
  if (isLost) return 'lamp.lost'
  return flows === undefined ? 'lamp.connecting' : 'lamp.live'
}

/** The hash is the address of the view, so the link must not change it. */
function skip(event) {
  event.preventDefault()
  document.getElementById('content').focus()
}

function failedCount({ flows = [] }) {
  const failed = flows
    .flatMap(({ destinations }) => destinations)
    .reduce((sum, destination) => sum + destination.failed, 0)
  if (failed === 0) return null
  return h(
    'span',
    { class: 'badge bad count' },
    h('span', { 'aria-hidden': 'true' }, number(failed)),
    h('span', { class: 'visually-hidden' }, count('nav.failed', failed)),
  )
}
