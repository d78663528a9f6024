import type { Database } from './database.ts'
import type { Log } from './engine.ts'

export type DatabaseClock = {
  /** The time by the database's clock, as this process knows it. Asks nobody, and never fails. */
  now(): Date
  /** Asks the database now. Rejects when it cannot be asked; what was known before goes on. */
  measure(): Promise<void>
  stop(): void
}

export type DatabaseClockOptions = {
  /** Milliseconds of a clock that nobody sets; this process's own when absent. */
  monotonicMs?: () => number
  log?: Log
}

/** What one question has shown: the database's time is `offsetMs` beyond ours, give or take `errorMs`. */
type Reading = { offsetMs: number; errorMs: number; atMs: number }

const everyMs = 2_000
/** Two clocks run apart by no more than this: the kernel corrects a clock by 500 ppm at most, on either host. */
const driftPerMs = 0.001

/**
 * One clock for what processes agree on: the database's. It is measured every 2 s against a clock of this process that
 * nobody can set, so the wall clocks of the hosts do not matter, however wrong they are or become. In the embedded
 * database it is the host's wall clock, and a change of that one is a change of the database's.
 *
 * The truth lies within half a round trip of the middle of it, so a reading is taken when it is as sharp as what is
 * known (a quick answer outlives slow ones, until drift could have made it worse), or when it contradicts what is known:
 * then the database's clock was set, and ours steps with it at once, also back. Slewing would leave this process apart
 * from the ones that start later, for days. Without such a step `now` never runs backwards.
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
      // A database that is away is told of by whoever needs it.
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
