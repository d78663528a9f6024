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
const eventsLater = viewsLater(
  () => import('./events-views.js'),
  () => t('nav.events'),
)
const createTrend = later.create('trend')
const clientViews = {
  // The sales over time are a page of the first one.
  overview: (app) => (app.id === 'trend' ? createTrend(app) : createOverview(app)),
  orders: createOrders,
  stores: later.create('stores'),
  closings: later.create('closings'),
}
const adminViews = {
  ...clientViews,
  clients: later.create('clients'),
  events: eventsLater.create('events'),
  webhooks: later.create('webhooks'),
  activity: later.create('activity'),
}
/** What the role of a person adds; a flow operator sees nothing of payments. */
const viewsOf = ({ type, person, may }) => ({
  ...(type === 'admin' ? adminViews : type === 'client' ? clientViews : {}),
  ...(type === 'client' &&
    (may?.includes('set_up') ?? true) && { events: eventsLater.create('events') }),
  ...(type === 'client' && may?.includes('see_activity') && { activity: later.create('activity') }),
  ...((type === 'admin' || may?.includes('manage_people')) && { people: later.create('people') }),
  ...(person && { account: later.create('account') }),
})
const createOrder = later.create('order')
/** Views with pages of their own behind an id: of a closing, of an endpoint, of a box, of sales over time. */
const withPages = new Set(['closings', 'events', 'overview', 'stores'])
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
  const views = viewsOf(session)
  /** When the surroundings were last read; 0: they must be read again. */
  const readAt = { health: 0, clients: 0 }
  /** When a client may have come or gone, as far as was told. */
  let changedAt = 0

  /** What views see, besides what startWork adds. */
  const app = {
    api: createApi(undefined, () => {
      if (!work.isOver()) onEnd(t('signIn.ended'))
    }),
    isAdmin,
    /** Who signed in with a name and a password; null for a token. */
    person: session.person,
    /** Whether a person may do this; a token may do what it could. */
    may: (what) => session.may === null || session.may.includes(what),
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
          if (event !== 'activity' && event !== 'resync') return
          readAt.clients = 0
          changedAt = Date.now()
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
    app.name = isOrder ? 'order' : Object.hasOwn(views, name) ? name : Object.keys(views)[0]
    app.id = isOrder || withPages.has(name) ? id : undefined
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
    const at = Date.now()
    app.clients = (await app.api.get('/admin/clients', {}, signal)).clients
    // What happened meanwhile must be read again; what was given up for another view is read by that one.
    readAt.clients = changedAt > at ? 0 : at
    app.client = clientOfAddress()
  }
}
