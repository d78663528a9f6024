import type { Database } from './database.ts'
import type { DatabaseLog } from './engine.ts'

export type DatabaseClock = {
  /** The database's time, as this process knows it. Makes no query, and never fails. */
  now(): Date
  /** Reads the database's clock now. Rejects when that fails; the last reading stays valid. */
  measure(): Promise<void>
  stop(): void
}

type DatabaseClockOptions = {
  /** Milliseconds of a clock that cannot be set; this process's own when absent. */
  monotonicMs?: () => number
  log?: DatabaseLog
}

/** The result of one reading: the database's time is `offsetMs` ahead of ours, with an error of `errorMs`. */
type Reading = { offsetMs: number; errorMs: number; atMs: number }

const everyMs = 2_000
/** The maximum drift between two clocks: the kernel corrects a clock by 500 ppm at most, on each host. */
const driftPerMs = 0.001

/**
 * One clock for all processes: the database's. It is measured every 2 s against a clock that cannot be set, so wrong
 * wall clocks of the hosts have no effect. The embedded database uses the host's wall clock. The true time is within
 * half a round trip of its middle. A reading is used if it is as exact as the current one with its possible drift. It
 * is also used if it contradicts the current one: the database's clock was set, and this clock steps at once, also
 * back. Slewing would make this process differ for days from later ones. Without such a step `now` never runs
 * backwards.
 */
export async function startDatabaseClock(
  database: Pick<Database, 'clockMs'>,
  options: DatabaseClockOptions = {},
): Promise<DatabaseClock> {
  const monotonicMs = options.monotonicMs ?? (() => performance.now())

  const read = async (): Promise<Reading> => {
    const askedMs = monotonicMs()
    const databaseMs = await database.clockMs()
    const atMs = monotonicMs()
    return { offsetMs: databaseMs - (askedMs + atMs) / 2, errorMs: (atMs - askedMs) / 2, atMs }
  }

  let known = await read()
  let latestMs = Number.NEGATIVE_INFINITY

  const consider = (reading: Reading) => {
    const knownErrorMs = known.errorMs + (reading.atMs - known.atMs) * driftPerMs
    const byMs = reading.offsetMs - known.offsetMs
    const wasSet = Math.abs(byMs) > knownErrorMs + reading.errorMs
    if (wasSet) {
      latestMs = Number.NEGATIVE_INFINITY
      const message = "the database's clock was set, or this host slept"
      options.log?.('warn', { byMs: Math.round(byMs) }, message)
    } else if (reading.errorMs > knownErrorMs) {
      return
    }
    known = reading
  }

  let stopped = false
  let timer: NodeJS.Timeout
  const measure = async () => consider(await read())
  const measureAgain = () => {
    timer = setTimeout(() => {
      // An unreachable database is reported by the code that needs it.
      measure()
        .catch(() => undefined)
        .finally(() => {
          if (!stopped) measureAgain()
        })
    }, everyMs).unref()
  }
  measureAgain()

  return {
    now() {
      latestMs = Math.max(latestMs, monotonicMs() + known.offsetMs)
      return new Date(latestMs)
    },
    measure,
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}
