import { ConnectionError, createApi } from '../shared/api.js'
import { t } from '../shared/i18n.js'
import { createLive } from '../shared/live.js'
import { announce } from '../shared/notices.js'
import { loading } from '../shared/parts.js'
import { currentRoute, href } from '../shared/router.js'
import { frame } from './frame.js'
import { createActivity } from './views/activity.js'
import { createClients } from './views/clients.js'
import { createOrder } from './views/order.js'
import { createOrders } from './views/orders.js'
import { createOverview } from './views/overview.js'
import { createStores } from './views/stores.js'
import { createWebhooks } from './views/webhooks.js'

const clientViews = { overview: createOverview, orders: createOrders, stores: createStores }
const adminViews = {
  ...clientViews,
  clients: createClients,
  webhooks: createWebhooks,
  activity: createActivity,
}
const refreshMs = 5000
/** While the service tells what happens: for what it does not tell, such as the time that goes by. */
const quietMs = 15_000
/** State of the service and names of the clients change seldom. */
const surroundingsMs = 15_000

/**
 * The dashboard of one session: it follows the address, keeps the visible view fresh and hands every view what
 * it needs. `onEnd(reason)` is called when the session is over, `onSignOut` when somebody ends it.
 */
export function startWorkspace({ session, redraw, onLanguage, onEnd, onSignOut }) {
  const isAdmin = session.type === 'admin'
  const views = isAdmin ? adminViews : clientViews
  const state = { view: undefined, place: undefined, problem: undefined, surroundingsAt: 0 }
  let isOver = false

  /** What views see. */
  const app = {
    api: createApi(undefined, () => end(t('signIn.ended'))),
    isAdmin,
    redraw: () => {
      if (!isOver) redraw()
    },
    name: 'overview',
    id: undefined,
    query: {},
    /** The client that the administrator chose in the head; undefined for all. */
    scope: undefined,
    /** The one client whose data is shown; undefined when several are. */
    client: undefined,
    clients: undefined,
    health: undefined,
    isLost: false,
    /** The address asks for something else than what is shown. */
    isWaiting: false,
    /** Somebody did something, so nothing may be spared. */
    isForced: false,
    /** Filters of the list of orders that one came from. */
    ordersQuery: {},
    /** What a view shows that has no data yet. */
    placeholder: () => (state.problem ? null : loading()),
    reload() {
      app.isForced = true
      live.now()
    },
    signOut: onSignOut,
    link: (name, id, query) => href(name, id, { client: app.scope, ...query }),
    orderLink: (order) =>
      app.link('orders', order.order_id, { of: isAdmin ? order.client : undefined }),
    setQuery(changes) {
      location.hash = app.link(app.name, app.id, { ...app.query, ...changes })
    },
    setScope(client) {
      location.hash = href(app.name === 'order' ? 'orders' : app.name, undefined, { client })
    },
    /** The query that names a client for client routes; a client key needs none. */
    clientQuery: (client = app.client) => (isAdmin ? { client } : {}),
    /** A page of orders: of one client, or for the administrator of all. */
    getOrders: (query, signal) =>
      isAdmin
        ? app.api.get('/admin/orders', { ...query, client: app.client }, signal)
        : app.api.get('/orders', query, signal),
    /** Numbers of a span: of one client, or for the administrator of all. */
    getStatistics: (query, signal) =>
      isAdmin
        ? app.api.get('/admin/statistics', { ...query, client: app.client }, signal)
        : app.api.get('/statistics', query, signal),
  }

  const live = createLive({
    job: load,
    onFailure: fail,
    intervalMs: refreshMs,
    quietMs,
    stream: {
      path: () =>
        app.scope === undefined ? '/events' : `/events?client=${encodeURIComponent(app.scope)}`,
    },
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

  function end(reason) {
    if (!isOver) onEnd(reason)
  }

  /** Takes the view and its questions from the address. Answers whether it is another view than before. */
  function follow() {
    const { name, id, query } = currentRoute()
    const isOrder = name === 'orders' && id !== undefined
    app.name = isOrder ? 'order' : Object.hasOwn(views, name) ? name : 'overview'
    app.id = isOrder ? id : undefined
    app.query = query
    app.scope = isAdmin && query.client ? query.client : undefined
    app.client = clientOfAddress()
    app.isWaiting = true
    if (app.name === 'orders') app.ordersQuery = query
    state.problem = undefined
    const place = `${app.name} ${app.id ?? ''}`
    if (state.place === place) return false
    state.place = place
    state.view = isOrder ? createOrder(app) : views[app.name](app)
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

  /** With one client only there is nothing to choose. */
  function clientOfAddress() {
    if (!isAdmin) return session.client
    return app.scope ?? (app.clients?.length === 1 ? app.clients[0].client : undefined)
  }

  async function load(signal) {
    const { client } = app
    const isDue = app.isForced || Date.now() - state.surroundingsAt > surroundingsMs
    // At once: on a slow line each question after another is a wait that shows nothing.
    await Promise.all([isDue && readSurroundings(signal), state.view.load(signal)])
    // The names of the clients may tell whose data it is about; whose order it is, the order tells.
    if (app.client !== client && app.name !== 'order') {
      redraw()
      await state.view.load(signal)
    }
    if (app.isLost) announce(t('lost.over'))
    Object.assign(app, { isLost: false, isWaiting: false, isForced: false })
    state.problem = undefined
    redraw()
    nameTab()
  }

  async function readSurroundings(signal) {
    const [health, clients] = await Promise.all([
      app.api.get('/health', {}, signal),
      isAdmin ? app.api.get('/admin/clients', {}, signal) : undefined,
    ])
    app.health = health
    app.clients = clients?.clients
    app.client = clientOfAddress()
    state.surroundingsAt = Date.now()
  }

  /** What is shown stays; above it is told that it may be old. The next try comes by itself. */
  function fail(error) {
    if (isOver) return
    if (error instanceof ConnectionError) {
      if (!app.isLost) announce(t('lost'))
      app.isLost = true
      state.surroundingsAt = 0
    } else {
      app.isLost = false
      state.problem = error
      if (error.code === undefined) reportError(error)
    }
    redraw()
  }

  function nameTab() {
    document.title = `${state.view.title()} · tillbridge`
  }
}
