import type { Database } from '../db/database.ts'
import type { Channel } from '../sync/alerts/channel.ts'
import { messageId } from '../sync/alerts/message.ts'
import { textsOf } from './alert-texts.ts'
import type { FleetMessage } from './message.ts'

export type DatabaseWatch = {
  /** Asks the database whether it keeps what it is given, and tells the receivers what became of that. Never fails. */
  look(): Promise<void>
  isDown(): boolean
}

export type DatabaseWatchDeps = {
  database: Pick<Database, 'takesWrites'>
  now: () => Date
  log: { warn(fields: object, message: string): void }
}

/** A restart of the server is over by then. */
const patienceMs = 15_000

/**
 * What cannot be written down is told from memory: once to each receiver when it lasts, and once when it is over. Several
 * processes say the same, under ids of the same minute; one that ends meanwhile says nothing of the end.
 */
export function createDatabaseWatch(
  { database, now, log }: DatabaseWatchDeps,
  channels: readonly Channel[],
): DatabaseWatch {
  let downSince: Date | undefined
  /** Who has been told of it, and is to hear of the end. */
  const told = new Set<Channel>()
  const over = new Map<Channel, FleetMessage>()

  const send = async (channel: Channel, message: FleetMessage): Promise<boolean> => {
    const result = await channel.send(textsOf(message))
    if (!result.ok) {
      const context = { channel: channel.type, target: channel.target, alert: message.kind }
      log.warn({ ...context, reason: result.error }, 'alert not sent; it will be tried again')
    }
    return result.ok
  }

  const compose = (kind: 'database' | 'database_recovered', since: Date): FleetMessage => {
    const minute = since.toISOString().slice(0, 16)
    return {
      kind,
      id: messageId('fleet', kind, minute),
      at: now().toISOString(),
      since: since.toISOString(),
    }
  }

  return {
    isDown: () => downSince !== undefined,
    async look() {
      const takesWrites = await database.takesWrites().catch(() => false)
      if (takesWrites) {
        for (const channel of told) {
          over.set(channel, compose('database_recovered', downSince ?? now()))
        }
        told.clear()
        downSince = undefined
        for (const [channel, message] of over) {
          if (await send(channel, message)) over.delete(channel)
        }
        return
      }
      downSince ??= now()
      if (now().getTime() - downSince.getTime() < patienceMs) return
      for (const channel of channels) {
        if (told.has(channel)) continue
        if (await send(channel, compose('database', downSince))) told.add(channel)
      }
    },
  }
}
