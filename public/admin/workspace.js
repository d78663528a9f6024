import { ConnectionError, createApi } from '../shared/api.js'
import { t } from '../shared/i18n.js'
import { createLive } from '../shared/live.js'
import { announce } from '../shared/notices.js'
import { loading } from '../shared/parts.js'
import { currentRoute, href } from '../shared/router.js'
import { frame } from './frame.js'
import { createActivity } from './views/activity.js'
import { createErrors } from './views/errors.js'
import { createFlows } from './views/flows.js'
import { createItem } from './views/item.js'

const views = {
  flows: createFlows,
  errors: createErrors,
  item: createItem,
  activity: createActivity,
}
const refreshMs = 2000
/** While the service tells what changes: for what it does not tell, such as retries that wait. */
const quietMs = 10_000

/**
 * The operator's page: it follows the address, keeps the flows and the visible view fresh, and hands every view what it
 * needs. `onUnauthorized` is called when the service asks for another token than `token`.
 */
export function startWorkspace({ token, redraw, onLanguage, onUnauthorized, onSignOut }) {
  const state = { view: undefined, problem: undefined }
  let isOver = false

  /** What views see. */
  const app = {
    api: createApi(token, () => {
      if (!isOver) onUnauthorized()
    }),
    hasToken: token !== undefined,
    redraw: () => {
      if (!isOver) redraw()
    },
    name: '',
    query: {},
    /** Every flow at a glance, of the last look. */
    flows: undefined,
    problems: [],
    isLost: false,
    /** The address asks for something else than what is shown. */
    isWaiting: false,
    /** What became of the last thing that was done to a flow, by its name: `{ tone, text }`. */
    results: new Map(),
    /** What is being done now, as `<flow> <action>`. */
    busy: new Set(),
    /** What a view shows that has no data yet. */
    placeholder: () => (state.problem ? null : loading()),
    reload: () => live.now(),
    signOut: onSignOut,
    link: (name, query) => href(name, undefined, query),
    setQuery(changes) {
      location.hash = app.link(app.name, { ...app.query, ...changes })
    },
  }

  const live = createLive({
    job: load,
    onFailure: fail,
    intervalMs: refreshMs,
    quietMs,
    stream: { path: () => '/flows/events', token },
  })
  addEventListener('hashchange', onAddress)
  follow()
  live.now()

  return {
    view: () => frame(app, { views: Object.keys(views), ...state, onLanguage }),
    reload: app.reload,
    stop() {
      isOver = true
      live.stop()
      removeEventListener('hashchange', onAddress)
    },
  }

  /** Takes the view and its questions from the address. Answers whether it is another view than before. */
  function follow() {
    const { name, query } = currentRoute()
    const next = Object.hasOwn(views, name) ? name : 'flows'
    app.query = query
    app.isWaiting = true
    state.problem = undefined
    if (next === app.name) return false
    app.name = next
    state.view = views[next](app)
    return true
  }

  function onAddress() {
    const isMove = follow()
    live.now()
    redraw()
    nameTab()
    if (!isMove) return
    scrollTo(0, 0)
    document.getElementById('title')?.focus({ preventScroll: true })
  }

  async function load(signal) {
    const { flows, problems } = await app.api.get('/flows', {}, signal)
    app.flows = flows
    app.problems = problems
    await state.view.load(signal)
    if (app.isLost) announce(t('lost.over'))
    Object.assign(app, { isLost: false, isWaiting: false })
    state.problem = undefined
    app.redraw()
    nameTab()
  }

  /** What is shown stays; above it is told that it may be old. The next try comes by itself. */
  function fail(error) {
    if (isOver) return
    if (error instanceof ConnectionError) {
      if (!app.isLost) announce(t('lost'))
      app.isLost = true
    } else {
      app.isLost = false
      state.problem = error
      if (error.code === undefined) reportError(error)
    }
    redraw()
  }

  function nameTab() {
    if (!isOver) document.title = `${state.view.title()} · tillbridge`
  }
}
