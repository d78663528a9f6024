import type { Database } from '../../db/database.ts'
import {
  concerns,
  listSendStops,
  type SendStop,
  stopChannel,
} from '../../repositories/flows/send-stops.ts'
import type { QueueLog } from './queue.ts'

/** Stops of sending, kept in memory, so that a check needs no statement. */
export type Stops = {
  /** Reads the stops. Call it before anything is sent. Rejects if they cannot be read. */
  start(): Promise<void>
  stop(): Promise<void>
  isStopped(flow: string, destination: string): boolean
}

/** A lost notification is corrected within this time. */
const readAgainMs = 1_000

/**
 * Follows the stops of all processes by notifications. Where other processes may write, it also reads them once a
 * second. `onChange` is called when the stops in force change.
 */
export function createStops(
  { database, log }: { database: Database; log: QueueLog },
  onChange: () => void,
): Stops {
  let inForce: readonly SendStop[] = []
  let reading: Promise<void> | undefined
  let isStale = false
  let unlisten: (() => Promise<void>) | undefined
  let timer: NodeJS.Timeout | undefined

  const read = async () => {
    const before = JSON.stringify(inForce)
    inForce = (await listSendStops(database.db)).filter(({ endedAt }) => endedAt === null)
    if (JSON.stringify(inForce) !== before) onChange()
  }

  /** A stop that is notified during a read may be missing in it. */
  const readAll = async () => {
    while (isStale) {
      isStale = false
      await read().catch((error: unknown) =>
        log.warn({ err: error }, 'stopped destinations not read'),
      )
    }
    reading = undefined
  }
  const readAgain = () => {
    isStale = true
    reading ??= readAll()
  }

  return {
    async start() {
      unlisten = await database.listen(stopChannel, readAgain, readAgain)
      await read()
      // The embedded database has only one process, which gets every notification.
      if (database.engine === 'pglite') return
      timer = setInterval(readAgain, readAgainMs).unref()
    },
    async stop() {
      clearInterval(timer)
      await unlisten?.()
      unlisten = undefined
      await reading
    },
    isStopped: (flow, destination) =>
      inForce.length > 0 && inForce.some((stop) => concerns(stop, flow, destination)),
  }
}
