/** Turns last by the real clock, also while a test sets the time. */
const nowMs = performance.now.bind(performance)

/**
 * Makes the function that long work awaits at each step. After a long turn of the event loop it lets timers and
 * sockets run; otherwise it returns undefined, to continue at once. All users of one function share the turn and
 * continue in order, one per turn. So many works at once delay other requests no longer than one.
 */
export function createTurns(longestMs: number): () => Promise<void> | undefined {
  const waiting: (() => void)[] = []
  let isCalled = false
  let began = Number.NEGATIVE_INFINITY

  const callNext = () => {
    if (isCalled) return
    isCalled = true
    setImmediate(() => {
      isCalled = false
      began = nowMs()
      waiting.shift()?.()
      if (waiting.length > 0) callNext()
    })
  }
  return () => {
    if (waiting.length === 0 && nowMs() - began < longestMs) return undefined
    return new Promise((resolve) => {
      waiting.push(resolve)
      callNext()
    })
  }
}
