import { addressOf } from './place.js'

/**
 * Listens to a stream of server-sent events of this page's own listener. Not with EventSource, which can send no token and
 * does not tell a refusal from a lost connection.
 *
 * `onEvent` hears of every event, `onOpen` of the connection, and `onLost(wasOpen)` that there is none. It comes back by
 * itself, at first soon, then ever more rarely, until `stop`, or until the service says that this caller may not listen.
 */
export function listen({ path, token, onEvent, onOpen, onLost }) {
  const stopped = new AbortController()
  let failures = 0
  let isOpen = false

  const follow = async () => {
    const silence = new AbortController()
    let timer
    const hear = () => {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), silentMs)
    }
    hear()
    try {
      const response = await fetch(addressOf(path), {
        headers: {
          accept: 'text/event-stream',
          ...(token !== undefined && { 'x-api-token': token }),
        },
        signal: AbortSignal.any([stopped.signal, silence.signal]),
        credentials: 'same-origin',
        redirect: 'error',
        cache: 'no-store',
      })
      if (!response.ok) return !refusals.has(response.status)
      isOpen = true
      onOpen()
      let unread = ''
      for await (const chunk of textOf(response.body)) {
        hear()
        failures = 0
        const blocks = (unread + chunk).split('\n\n')
        unread = blocks.pop()
        for (const block of blocks) {
          const name = /^event: (.*)$/m.exec(block)?.[1]
          if (name === 'end') return !block.includes('"access"')
          if (name !== undefined) onEvent(name)
        }
      }
    } catch {
      // Lost, or stopped: both end here, and only one of them tries again.
    } finally {
      clearTimeout(timer)
      silence.abort()
    }
    return true
  }

  const run = async () => {
    while (!stopped.signal.aborted) {
      const mayAgain = await follow()
      if (stopped.signal.aborted) return
      onLost(isOpen)
      isOpen = false
      if (!mayAgain) return
      await pause(Math.min(longestPauseMs, firstPauseMs * 2 ** failures))
      failures += 1
    }
  }
  void run()

  return {
    stop: () => stopped.abort(),
  }

  function pause(ms) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        stopped.signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      stopped.signal.addEventListener('abort', done)
    })
  }
}

/** The service breaks a silence every 15 s; after more than two of them the connection is gone, whatever the socket says. */
const silentMs = 40_000
const firstPauseMs = 1_000
const longestPauseMs = 30_000
/** Trying again changes nothing: what is shown tells by itself that the token is no longer good. */
const refusals = new Set([401, 403, 404])

async function* textOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield value
  }
}
