import { createApi } from '../shared/api.js'
import { readOtherTexts, t } from '../shared/i18n.js'
import { viewsLater } from '../shared/later.js'
import { href } from '../shared/router.js'
import { setZone } from '../shared/shop-clock.js'
import { startWork } from '../shared/work.js'
import { dashboardFrame } from './frame.js'
import { forgetAll } from './kept.js'
import { createOrders } from './views/orders.js'
import { createOverview } from './views/overview.js'

const later = viewsLater(
  () => import('./later-views.js'),
  ({ name }) => t(`nav.${name === 'order' ? 'orders' : name}`),
)
const clientViews = {
  overview: createOverview,
  orders: createOrders,
  stores: later.create('stores'),
  closings: later.create('closings'),
}
const adminViews = {
  ...clientViews,
  clients: later.create('clients'),
  webhooks: later.create('webhooks'),
  activity: later.create('activity'),
}
const createOrder = later.create('order')
const refreshMs = 5000
/** While the service tells what happens: for what it does not tell, such as the time that goes by. */
const quietMs = 15_000
/** State of the service and names of the clients change seldom, or are told of. */
const surroundingsMs = 15_000

/**
 * The dashboard of one session: it follows the address, keeps the visible view fresh and hands every view what
 * it needs. `onEnd(reason)` is called when the session is over, `onSignOut` when somebody ends it.
 */
export function startWorkspace({ session, redraw, onLanguage, onEnd, onSignOut }) {
  setZone(session.time_zone)
  const isAdmin = session.type === 'admin'
  const views = isAdmin ? adminViews : clientViews
  /** When the surroundings were last read; 0: they must be read again. */
  const readAt = { health: 0, clients: 0 }

  /** What views see, besides what startWork adds. */
  const app = {
    api: createApi(undefined, () => {
      if (!work.isOver()) onEnd(t('signIn.ended'))
    }),
    isAdmin,
    name: 'overview',
    id: undefined,
    query: {},
    /** The client that the administrator chose in the head; undefined for all. */
    scope: undefined,
    /** The one client whose data is shown; undefined when several are. */
    client: undefined,
    clients: undefined,
    health: undefined,
    /** Somebody did something, so nothing may be spared. */
    isForced: false,
    /** Filters of the list of orders that one came from. */
    ordersQuery: {},
    reload() {
      app.isForced = true
      work.now()
    },
    signOut: onSignOut,
    /** Whether there is a view of this name for this session. */
    has: (name) => Object.hasOwn(views, name),
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
    /** Numbers of a span, and how everything fares: of one client, or for the administrator of all. */
    getOverview: (query, signal) =>
      // Of the one that was chosen: asked for a client, even for the only one, it leaves out the flows.
      app.api.get('/overview', { client: app.scope, ...query }, signal),
  }

  const work = startWork(app, {
    placeOf,
    load,
    frame: (state) => dashboardFrame(app, { views: Object.keys(views), ...state, onLanguage }),
    redraw,
    later: [later.ready, readOtherTexts],
    onLost: () => Object.assign(readAt, { health: 0, clients: 0 }),
    live: {
      intervalMs: refreshMs,
      quietMs,
      stream: {
        path: () =>
          // A client that is only invited is nobody yet, and its connection is news of all.
          app.scope === undefined || app.name === 'clients'
            ? '/events'
            : `/events?client=${encodeURIComponent(app.scope)}`,
        // A client may be new. What is being read now may have been read before.
        onEvent(event) {
          if (event === 'activity' || event === 'resync') readAt.clients = 0
        },
      },
    },
  })
  return {
    ...work,
    reload: app.reload,
    stop() {
      forgetAll()
      work.stop()
    },
  }

  /** Takes the view and its questions from the address. */
  function placeOf({ name, id, query }) {
    const isOrder = name === 'orders' && id !== undefined
    app.name = isOrder ? 'order' : Object.hasOwn(views, name) ? name : 'overview'
    app.id = isOrder || name === 'closings' ? id : undefined
    app.query = query
    app.scope = isAdmin && query.client ? query.client : undefined
    app.client = clientOfAddress()
    if (app.name === 'orders') app.ordersQuery = query
    return {
      place: `${app.name} ${app.id ?? ''}`,
      create: isOrder ? createOrder : views[app.name],
    }
  }

  /** With one client only there is nothing to choose. */
  function clientOfAddress() {
    if (!isAdmin) return session.client
    return app.scope ?? (app.clients?.length === 1 ? app.clients[0].client : undefined)
  }

  async function load(signal, view) {
    const { client } = app
    const isDue = (at) => app.isForced || Date.now() - at > surroundingsMs
    // At once: on a slow line each question after another is a wait that shows nothing.
    await Promise.all([
      isDue(readAt.health) && readHealth(signal),
      isAdmin && isDue(readAt.clients) && readClients(signal),
      view.load(signal),
    ])
    // The names of the clients may tell whose data it is about: what is asked of the only one, or of all, is the same.
    if (app.client !== client) {
      app.redraw()
      if (view.isOfOne) await view.load(signal)
    }
    app.isForced = false
  }

  async function readHealth(signal) {
    app.health = await app.api.get('/health', {}, signal)
    readAt.health = Date.now()
  }

  async function readClients(signal) {
    // Before it is read: what happens meanwhile must be read again.
    readAt.clients = Date.now()
    try {
      app.clients = (await app.api.get('/admin/clients', {}, signal)).clients
    } catch (error) {
      readAt.clients = 0
      throw error
    }
    app.client = clientOfAddress()
  }
}
