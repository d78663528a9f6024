import type { AttemptTimer } from '../../src/outbound/outbound.ts'
import type { HangingCall } from '../../src/sandbox/sandbox-context.ts'

export type Silence = {
  timer: AttemptTimer
  /** The provider leaves this call without an answer. */
  begin(call: HangingCall): void
}

/** However short the timeout: an answer that does come may take a busy machine so long. */
const longestMs = 10_000

/**
 * Ends an attempt as its timeout would, as soon as the provider is known to leave it without an answer: tests need not wait
 * for it, and may give the others all the time that a busy machine takes. `onTimeout` hears how long that would have been.
 */
export function createSilence(onTimeout: (ms: number) => void = () => undefined): Silence {
  const waiting = new Set<{ call: string; end: () => void }>()
  return {
    timer: (ms, end, { method, url, headers }) => {
      const { pathname, search } = new URL(url)
      const endAtOnce = () => {
        onTimeout(ms)
        end()
      }
      const attempt = { call: nameOf({ method, url: pathname + search, headers }), end: endAtOnce }
      waiting.add(attempt)
      const timeout = setTimeout(end, Math.max(ms, longestMs)).unref()
      return () => {
        waiting.delete(attempt)
        clearTimeout(timeout)
      }
    },
    begin: (call) => {
      const name = nameOf(call)
      for (const attempt of waiting) {
        if (attempt.call !== name) continue
        attempt.end()
        return
      }
    },
  }
}

/** What tells a call from others that are under way: its key, when it has one. */
function nameOf({ method, url, headers }: HangingCall): string {
  const own = Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-idempotency-key')
  return JSON.stringify([method, url, own?.[1] ?? null])
}
