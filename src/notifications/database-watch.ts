import type { Database } from '../db/database.ts'
import type { Channel } from './channel.ts'
import type { FleetMessage } from './fleet-message.ts'
import { textsOf } from './fleet-texts.ts'
import { messageId } from './flow-message.ts'

export type DatabaseWatch = {
  /** Checks whether the database takes writes, and notifies the receivers of an outage and of its end. Never fails. */
  check(): Promise<void>
  isDown(): boolean
}

export type DatabaseWatchDeps = {
  database: Pick<Database, 'takesWrites'>
  now: () => Date
  log: { warn(fields: object, message: string): void }
}

/** A restart of the server takes less. */
const patienceMs = 15_000

/**
 * Without a database the outage is kept in memory: each receiver gets one message when it lasts, and one when it is over.
 * Several processes send the same, under ids of the same minute. A process that stops meanwhile does not send the end.
 */
export function createDatabaseWatch(
  { database, now, log }: DatabaseWatchDeps,
  channels: readonly Channel[],
): DatabaseWatch {
  let downSince: Date | undefined
  /** Receivers of the outage, which get its end, too. */
  const notified = new Set<Channel>()
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
    async check() {
      const takesWrites = await database.takesWrites().catch(() => false)
      if (takesWrites) {
        for (const channel of notified) {
          over.set(channel, compose('database_recovered', downSince ?? now()))
        }
        notified.clear()
        downSince = undefined
        for (const [channel, message] of over) {
          if (await send(channel, message)) over.delete(channel)
        }
        return
      }
      downSince ??= now()
      if (now().getTime() - downSince.getTime() < patienceMs) return
      for (const channel of channels) {
        if (notified.has(channel)) continue
        if (await send(channel, compose('database', downSince))) notified.add(channel)
      }
    },
  }
}
