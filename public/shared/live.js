/**
 * Repeats a job while somebody looks: it runs at once, again a while after each end, stops while the tab is hidden and
 * goes on at once when it is shown. A run that was overtaken by `now` is aborted, so its answer is never shown.
 */
export function createLive({ job, onFailure, intervalMs }) {
  let timer
  let running
  let stopped = false

  const run = async () => {
    clearTimeout(timer)
    running?.abort()
    const own = new AbortController()
    running = own
    try {
      await job(own.signal)
    } catch (error) {
      if (!own.signal.aborted) onFailure(error)
    }
    if (own.signal.aborted || stopped) return
    running = undefined
    if (!document.hidden) timer = setTimeout(run, intervalMs)
  }

  const onVisibility = () => {
    if (document.hidden) clearTimeout(timer)
    else if (!running) void run()
  }
  document.addEventListener('visibilitychange', onVisibility)
  addEventListener('online', onVisibility)

  return {
    /** Runs now, whatever is under way. */
    now() {
      if (!stopped) void run()
    },
    stop() {
      stopped = true
      clearTimeout(timer)
      running?.abort()
      document.removeEventListener('visibilitychange', onVisibility)
      removeEventListener('online', onVisibility)
    },
  }
}
