/**
 * Makes what long work awaits at each step: it lets timers and sockets in when the present turn of the event loop has
 * been long, and answers undefined, to go on at once, when it has not. All who await the same one share the turn and go
 * on in the order in which they stopped, one in a turn: many short works in a row, or many at once, hold up nobody longer
 * than one of them.
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
