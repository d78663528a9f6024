import { listen } from './event-stream.js'

/** Events of a burst are answered together, and a flood of them with one run per second. */
const settleMs = 100
const betweenMs = 1_000

/**
 * Repeats a job while somebody looks: it runs at once, again when the service tells that something happened, and a while
 * after each end: `quietMs` while the service can tell, `intervalMs` while it cannot. It stops while the tab is hidden
 * and goes on at once when it is shown. A run that was overtaken by `now` is aborted, so its answer is never shown.
 *
 * The stream is opened beside the first run, so that nobody waits for it. A run that goes on when the stream opens need not be
 * repeated once the stream greets: what happened in the moment between both is read by the next run.
 *
 * `stream` is `{ path, token, onEvent }` of the events to hear; `path` is a function, asked at each run, and `onEvent` hears
 * the name of each event before the run that follows it.
 */
export function createLive({ job, onFailure, intervalMs, quietMs, stream }) {
  let timer
  let running
  let isDue = false
  let ranAt = 0
  let stopped = false
  let listener
  let listensTo
  let canHear = false
  /** The stream's first word asks to look at everything; that is being done when a run began with it or after it. */
  let isGreeted = false
  let hasLooked = false
  /** The stream is requested for the first time, and neither open nor lost. */
  let isOpening = false

  const run = async () => {
    clearTimeout(timer)
    running?.abort()
    const own = new AbortController()
    running = own
    isDue = false
    ranAt = Date.now()
    if (!document.hidden) attend()
    hasLooked = canHear || isOpening
    try {
      await job(own.signal)
    } catch (error) {
      if (!own.signal.aborted) onFailure(error)
    }
    if (own.signal.aborted || stopped) return
    running = undefined
    if (!document.hidden) plan()
  }

  /** The next run: soon when something happened meanwhile. */
  const plan = () => {
    clearTimeout(timer)
    const soonMs = Math.max(settleMs, ranAt + betweenMs - Date.now())
    timer = setTimeout(run, isDue ? soonMs : canHear ? quietMs : intervalMs)
  }

  /** What runs now may have looked already, so it is not enough; nor is it aborted, or a flood would never be shown. */
  const onNews = () => {
    if (isDue || stopped) return
    isDue = true
    if (!running) plan()
  }

  /** Holds the stream of what is shown now. A hidden tab holds none: browsers give a host only six connections. */
  const attend = () => {
    const path = stream.path()
    if (listener && listensTo === path) return
    ignore()
    listensTo = path
    isOpening = true
    listener = listen({
      path,
      token: stream.token,
      onEvent(event) {
        const isGreeting = event === 'resync' && !isGreeted
        isGreeted = true
        if (isGreeting && hasLooked) return
        stream.onEvent?.(event)
        onNews()
      },
      onOpen() {
        canHear = true
        isGreeted = false
        hasLooked &&= isOpening && running !== undefined
        isOpening = false
      },
      onLost(wasOpen) {
        canHear = false
        isOpening = false
        if (wasOpen) onNews()
      },
    })
  }
  const ignore = () => {
    listener?.stop()
    listener = undefined
    canHear = false
    isOpening = false
  }

  const onVisibility = () => {
    if (document.hidden) {
      clearTimeout(timer)
      ignore()
    } else if (!running) void run()
  }
  /** The network went or came: an old stream may hang for long, and what is shown may be wrong. */
  const onNetwork = () => {
    ignore()
    onVisibility()
  }
  document.addEventListener('visibilitychange', onVisibility)
  addEventListener('online', onNetwork)
  addEventListener('offline', onNetwork)

  return {
    /** Runs now, whatever is under way. */
    now() {
      if (!stopped) void run()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
      running?.abort()
      ignore()
      document.removeEventListener('visibilitychange', onVisibility)
      removeEventListener('online', onNetwork)
      removeEventListener('offline', onNetwork)
    },
  }
}
