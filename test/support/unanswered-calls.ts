import type { HangingCall } from '../../sandbox/sandbox-context.ts'
import type { AttemptTimer } from '../../src/outbound/outbound.ts'

export type UnansweredCalls = {
  timer: AttemptTimer
  /** The provider does not answer this call. */
  begin(call: HangingCall): void
}

/** The shortest timeout that is used: on a busy machine an answer may take this long. */
const longestMs = 10_000

/**
 * Ends an attempt as its timeout would, as soon as the provider is known not to answer it. So tests need not wait, and
 * other attempts have time on a busy machine. `onTimeout` receives the timeout of the attempt.
 */
export function createUnansweredCalls(
  onTimeout: (ms: number) => void = () => undefined,
): UnansweredCalls {
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

/** Identifies a call among the running ones: by its key, if it has one. */
function nameOf({ method, url, headers }: HangingCall): string {
  const own = Object.entries(headers).find(([name]) => name.toLowerCase() === 'x-idempotency-key')
  return JSON.stringify([method, url, own?.[1] ?? null])
}
