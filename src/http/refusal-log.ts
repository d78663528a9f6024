import type { FastifyBaseLogger } from 'fastify'

/** Writes lines about refused requests of unknown callers: a flood of them must not fill the log. */
export type RefusalLog = {
  /** `write` is called for the first request of a cause in a minute. The others of this minute are counted in one line at its end. */
  note(cause: string, write: (text: string) => void): void
  /** Writes what is counted now, and from then on every line. */
  end(): void
}

const minuteMs = 60_000

/** `cause`: a code of the catalogue, so that there are few. */
export function createRefusalLog(log: () => FastifyBaseLogger): RefusalLog {
  const counts = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let hasEnded = false

  const writeCounts = () => {
    for (const [cause, count] of counts) {
      if (count === 0) {
        counts.delete(cause)
        continue
      }
      log().info({ code: cause, count }, 'further requests of unknown callers refused')
      counts.set(cause, 0)
    }
  }
  const tick = () => {
    writeCounts()
    timer = counts.size > 0 ? setTimeout(tick, minuteMs).unref() : undefined
  }

  return {
    note(cause, write) {
      if (hasEnded) return write('request of an unknown caller refused')
      const count = counts.get(cause)
      if (count !== undefined) {
        counts.set(cause, count + 1)
        return
      }
      counts.set(cause, 0)
      write('request of an unknown caller refused; further ones are counted for a minute')
      timer ??= setTimeout(tick, minuteMs).unref()
    },
    end() {
      hasEnded = true
      clearTimeout(timer)
      writeCounts()
    },
  }
}
