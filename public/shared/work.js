import { ConnectionError } from './api.js'
import { t } from './i18n.js'
import { createLive } from './live.js'
import { announce } from './notices.js'
import { loading } from './parts.js'
import { currentRoute } from './router.js'

/**
 * What both pages do while somebody works: follow the address, keep the visible view fresh, and tell when that cannot be
 * done. `app` is what views see, and gets here what they have in common.
 *
 * `placeOf(route)` takes its questions from the address into `app`, and answers `{place, create}` of the view; `load(signal,
 * view)` reads all that is shown; `frame(state)` is the whole page, of `{view, problem, place}`; `onLost` hears of a lost
 * connection; `later` fetch what is not needed at first, once something is shown. `live` says how often to look, and which stream to listen to.
 */
export function startWork(app, { placeOf, load, frame, redraw, onLost, later, live: looking }) {
  const state = { view: undefined, place: undefined, problem: undefined }
  let isOver = false
  let waiting = later

  Object.assign(app, {
    redraw: () => {
      if (!isOver) redraw()
    },
    isLost: false,
    /** The address asks for something else than what is shown. */
    isWaiting: false,
    /** What a view shows that has no data yet. */
    placeholder: () => (state.problem ? null : loading()),
  })
  const live = createLive({ job, onFailure: fail, ...looking })
  addEventListener('hashchange', onAddress)
  follow()
  live.now()

  return {
    view: () => frame(state),
    now: live.now,
    isOver: () => isOver,
    stop() {
      isOver = true
      live.stop()
      removeEventListener('hashchange', onAddress)
    },
  }

  /** Answers whether it is another view than before. */
  function follow() {
    const { place, create } = placeOf(currentRoute())
    app.isWaiting = true
    state.problem = undefined
    if (state.place === place) return false
    state.place = place
    state.view = create(app)
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

  async function job(signal) {
    await load(signal, state.view)
    if (app.isLost) announce(t('lost.over'))
    Object.assign(app, { isLost: false, isWaiting: false })
    state.problem = undefined
    app.redraw()
    nameTab()
    // What does not come now is asked for when it is needed.
    requestAnimationFrame(() => {
      for (const fetchIt of waiting) fetchIt().catch(() => undefined)
      waiting = []
    })
  }

  /** What is shown stays; above it is told that it may be old. The next try comes by itself. */
  function fail(error) {
    if (isOver) return
    if (error instanceof ConnectionError) {
      if (!app.isLost) announce(t('lost'))
      app.isLost = true
      onLost?.()
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
