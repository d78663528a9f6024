import { setImmediate } from 'node:timers/promises'

/** Longest stretch of work on items before others get their turn: tills are served by the same thread. */
const longestStretchMs = 10

/** Makes the function that long loops await at each step: it lets timers and sockets in when they have waited long. */
export function createBreather(): () => Promise<void> | undefined {
  let since = performance.now()
  return () => {
    if (performance.now() - since < longestStretchMs) return undefined
    return setImmediate().then(() => {
      since = performance.now()
    })
  }
}
