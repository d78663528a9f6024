/**
 * Makes the function that long work awaits at each step. When the present turn of the event loop has been long, it lets
 * timers and sockets run; else it returns undefined, to continue at once. All users of one function share the turn and
 * continue in the order in which they stopped, one in a turn. So many short works in a row, or many at once, delay
 * others no longer than one of them.
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
      began = performance.now()
      waiting.shift()?.()
      if (waiting.length > 0) callNext()
    })
  }
  return () => {
    if (waiting.length === 0 && performance.now() - began < longestMs) return undefined
    return new Promise((resolve) => {
      waiting.push(resolve)
      callNext()
    })
  }
}
