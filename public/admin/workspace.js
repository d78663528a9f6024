import { createApi } from '../shared/api.js'
import { readOtherTexts, t } from '../shared/i18n.js'
import { viewsLater } from '../shared/later.js'
import { readSession } from '../shared/person-session.js'
import { href } from '../shared/router.js'
import { setZone } from '../shared/shop-clock.js'
import { startWork } from '../shared/work.js'
import { flowsFrame } from './frame.js'
import { createFlows } from './views/flows.js'

const later = viewsLater(
  () => import('./later-views.js'),
  ({ name }) => t(`nav.${name}`),
)
const views = {
  flows: createFlows,
  destinations: later.create('destinations'),
  errors: later.create('errors'),
  item: later.create('item'),
  workbench: later.create('workbench'),
  activity: later.create('activity'),
}
const refreshMs = 2000
/** While the service tells what changes: for what it does not tell, such as retries that wait. */
const quietMs = 10_000

/**
 * The operator's page: it follows the address, keeps the flows and the visible view fresh, and hands every view what it
 * needs. `onUnauthorized(wasSignedIn)` is called when the service takes neither `token` nor the session of the browser.
 */
export function startWorkspace({ token, redraw, onLanguage, onUnauthorized, onSignIn, onSignOut }) {
  /** Of a person; undefined until it is read. A token decides alone. */
  let session = token === undefined ? undefined : { person: null, may: null }
  /** What views see, besides what startWork adds. */
  const app = {
    api: createApi(token, () => {
      if (!work.isOver()) onUnauthorized(token !== undefined || Boolean(app.person))
    }),
    hasToken: token !== undefined,
    /** Who signed in with a name and a password; null for nobody. */
    person: null,
    /** Whether a person may do this; without a session it is the token that counts, or nobody is asked. */
    may: (what) => !session?.may || session.may.includes(what),
    name: 'flows',
    query: {},
    /** Every flow at a glance, of the last look. */
    flows: undefined,
    problems: [],
    withoutDefinition: [],
    /** Address of the dashboard of payments, once it is known. */
    dashboardPage: undefined,
    /** What became of the last thing that was done to a flow, by its name: `{ tone, text }`. */
    results: new Map(),
    /** What is being done now, as `<flow> <action>`. */
    busy: new Set(),
    reload: () => work.now(),
    signIn: onSignIn,
    signOut: () => onSignOut(app.person),
    link: (name, query) => href(name, undefined, query),
    setQuery(changes) {
      location.hash = app.link(app.name, { ...app.query, ...changes })
    },
  }

  const work = startWork(app, {
    placeOf({ name, query }) {
      app.name = Object.hasOwn(views, name) ? name : 'flows'
      app.query = query
      return { place: app.name, create: views[app.name] }
    },
    // At once: on a slow line each question after another is a wait that shows nothing.
    load: (signal, view) => Promise.all([readWho(), readFlows(signal), view.load(signal)]),
    frame: (state) => flowsFrame(app, { views: Object.keys(views), ...state, onLanguage }),
    redraw,
    later: [later.ready, readOtherTexts],
    live: {
      intervalMs: refreshMs,
      quietMs,
      stream: { path: () => '/flows/events', token },
    },
  })
  return { ...work, reload: app.reload }

  async function readWho() {
    session ??= await readSession()
    app.person = session.person
  }

  async function readFlows(signal) {
    const answer = await app.api.get('/flows', {}, signal)
    app.flows = answer.flows
    app.problems = answer.problems
    app.withoutDefinition = answer.without_definition
    app.dashboardPage = answer.dashboard_page ?? undefined
    setZone(answer.time_zone)
  }
}
