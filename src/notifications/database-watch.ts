import type { Database } from '../db/database.ts'
import { sentenceOf } from '../texts/reason.ts'
import { textIn } from '../texts/texts.ts'
import type { Channel, Notification, SendResult } from './channel.ts'
import { clockTime, messageId, plainText } from './message-parts.ts'
import { databaseDownMs } from './notification-conditions.ts'

type DatabaseWatch = {
  /** Checks whether the database takes writes, and notifies the receivers of an outage and of its end. Never fails. */
  check(): Promise<void>
  isDown(): boolean
}

type DatabaseWatchDeps = {
  database: Pick<Database, 'takesWrites'>
  now: () => Date
  log: { warn(fields: object, message: string): void }
}

type Kind = 'database' | 'database_recovered'

/**
 * The outage is kept in memory, because no database is available. Each receiver gets one message when it lasts, and
 * one at its end. Several processes send the same messages, under ids of the same minute. A process that stops
 * meanwhile does not send the end.
 */
export function createDatabaseWatch(
  { database, now, log }: DatabaseWatchDeps,
  channels: readonly Channel[],
): DatabaseWatch {
  let downSince: Date | undefined
  /** Receivers of the outage, which get its end, too. */
  const notified = new Set<Channel>()
  const over = new Map<Channel, Date>()

  const send = async (channel: Channel, kind: Kind, since: Date): Promise<boolean> => {
    const result: SendResult = await channel.send(notificationOf(kind, since, now()))
    if (!result.ok) {
      const context = { channel: channel.type, target: channel.target, notification: kind }
      log.warn(
        { ...context, reason: sentenceOf(result.why, 'en') },
        'notification not sent; the service retries',
      )
    }
    return result.ok
  }

  return {
    isDown: () => downSince !== undefined,
    async check() {
      const takesWrites = await database.takesWrites().catch(() => false)
      if (takesWrites) {
        for (const channel of notified) over.set(channel, downSince ?? now())
        notified.clear()
        downSince = undefined
        for (const [channel, since] of over) {
          if (await send(channel, 'database_recovered', since)) over.delete(channel)
        }
        return
      }
      downSince ??= now()
      if (now().getTime() - downSince.getTime() < databaseDownMs) return
      for (const channel of channels) {
        if (notified.has(channel)) continue
        if (await send(channel, 'database', downSince)) notified.add(channel)
      }
    },
  }
}

function notificationOf(kind: Kind, since: Date, at: Date): Notification {
  const isDown = kind === 'database'
  const begun = since.toISOString()
  return {
    id: messageId('fleet', kind, begun.slice(0, 16)),
    at: at.toISOString(),
    text(locale) {
      const time = textIn(locale, 'message.since', { time: clockTime(begun) })
      return isDown
        ? plainText(textIn(locale, 'message.database.down'), [
            time,
            textIn(locale, 'message.database.help'),
          ])
        : plainText(textIn(locale, 'message.database.recovered'), [time])
    },
    event: {
      type: isDown ? 'service.database_down' : 'service.database_recovered',
      data: { since: begun },
    },
  }
}
