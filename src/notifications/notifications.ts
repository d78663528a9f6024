import { randomUUID } from 'node:crypto'
import type { Database, Trx } from '../db/database.ts'
import { isInWindow } from '../domain/time-window.ts'
import { causesOfOneOrder } from '../fleet/causes.ts'
import { createBackgroundJob } from '../jobs/background-job.ts'
import { withLease } from '../jobs/with-lease.ts'
import { backoffMs, type RetryPolicy } from '../outbound/backoff.ts'
import { createGuardedAgent } from '../outbound/guarded-agent.ts'
import {
  takeDecidedChargebacks,
  takeDueDocuments,
  takeNewChargebacks,
} from '../repositories/chargebacks/chargeback-queries.ts'
import {
  type AlertMessageRow,
  deleteAlertMessagesBefore,
  followStates,
  insertAlertMessages,
  listWaitingChannels,
  listWaitingMessages,
  markMessageSent,
  postponeMessages,
  takeRaised,
  takeRecovered,
} from '../repositories/notifications/message-queries.ts'
import { listReferences } from '../repositories/orders/order-queries.ts'
import {
  type OrphanRow,
  takeFoundOrphans,
  takeSettledOrphans,
} from '../repositories/unclaimed-payments/unclaimed-queries.ts'
import type { Channel, ChannelDeps } from './channel.ts'
import { composeChargebackMessages } from './chargeback-message.ts'
import { createDatabaseWatch } from './database-watch.ts'
import { type AlertMessage, composeMessages } from './fleet-message.ts'
import { textsOf } from './fleet-texts.ts'
import { messageId } from './flow-message.ts'
import { openChannel } from './open-channel.ts'
import { type AlertSettings, receiversOf } from './receivers.ts'
import { sendTimeoutMs } from './test-channels.ts'
import { composeOrphanMessages, type OrphanMessage } from './unclaimed-message.ts'

export type AlertTest = { type: string; target: string; ok: boolean; error?: string }

export type FleetAlerts = {
  /** Sends a test to every receiver; empty when there is none. */
  test(): Promise<AlertTest[]>
  start(): void
  /** Ends when the messages under way have their answers, 10 s at most. */
  stop(): Promise<void>
  /** One run, and its messages sent. */
  checkOnce(): Promise<void>
}

export type FleetAlertsDeps = {
  database: Database
  now: () => Date
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  processId: string
  mail: ChannelDeps['mail']
  log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
    error(fields: object, message: string): void
  }
}

const intervalMs = 2_000
/** Changes with one cause show up within a few runs; the rest of the minute is for sending. */
const gatherMs = 10_000
/** How long before its deadline a case that waits for documents is notified once more. */
const documentsWithinMs = 3 * 24 * 3600_000
const keepMs = 30 * 24 * 3600_000
const housekeepingMs = 3600_000
const everyDay = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const
/** Without an end: a notification is never given up. */
const retries: RetryPolicy = {
  attempts: Number.POSITIVE_INFINITY,
  initialMs: 5_000,
  factor: 2,
  maxMs: 15 * 60_000,
  jitter: 0,
}
/**
 * What an operator did on purpose, and what a flow notifies its own receivers of, is no alarm. Every other cause is one when
 * something is down; the early ones are alarms before that.
 */
const alarms = {
  never: [
    'not_connected',
    'flow_paused',
    'flow_limited',
    'deliveries_failed',
    'destination_asked_to_wait',
  ],
  early: [
    'provider_failing',
    'connection_expiring',
    'account_unpinned',
    'webhooks_missing',
    'payments_unreadable',
    'in_doubt',
    'contradicted',
    'paid_late',
    'paid_less',
    'settled_unpaid',
    'refund_in_doubt',
    'owed_for_long',
  ],
  ofOneOrder: causesOfOneOrder,
}

/**
 * Notifies the operator's receivers of trouble, and of its end. Trouble is read from the stored states of the fleet. A message
 * is committed together with the mark that it was written, so a crash loses none and a second process repeats none. A
 * message stays until its receiver has it: it may arrive twice, under the same id.
 */
export function createFleetAlerts(deps: FleetAlertsDeps, settings: AlertSettings): FleetAlerts {
  const { database, log, now } = deps
  const { db } = database
  const agent = createGuardedAgent({ allowPrivateNetwork: settings.allowPrivateNetwork })
  const channelDeps = { agent, mail: deps.mail, now, timeoutMs: sendTimeoutMs }
  const channels = new Map(
    receiversOf(settings).map((definition) => {
      const channel = openChannel(definition, channelDeps)
      return [channel.key, channel]
    }),
  )
  /** By channel: a slow receiver does not hold up the others. */
  const sending = new Map<string, Promise<void>>()
  const databaseWatch = createDatabaseWatch(deps, [...channels.values()])
  let keptHouseAt = Number.NEGATIVE_INFINITY

  const isQuiet = () =>
    settings.quietHours !== undefined &&
    isInWindow({ days: [...everyDay], ...settings.quietHours }, now())

  const orphanMessages = async (
    trx: Trx,
    kind: OrphanMessage['kind'],
    rows: readonly OrphanRow[],
    at: Date,
  ) => {
    const orderIds = rows.flatMap(({ surplus_of: id }) => id ?? [])
    return composeOrphanMessages(kind, rows, at, await listReferences(trx, orderIds))
  }

  const write = async () => {
    const at = now()
    const before = new Date(at.getTime() - gatherMs)
    const dueUntil = new Date(at.getTime() + documentsWithinMs)
    await database.transaction(async (trx) => {
      await followStates(trx, alarms, at)
      // Trouble that ends within quiet hours is never notified.
      if (isQuiet()) return
      const messages = [
        ...composeMessages('trouble', await takeRaised(trx, at, before), at),
        ...composeMessages('recovered', await takeRecovered(trx, before), at),
        ...(await orphanMessages(trx, 'orphans', await takeFoundOrphans(trx, at, before), at)),
        ...(await orphanMessages(
          trx,
          'orphans_settled',
          await takeSettledOrphans(trx, at, before),
          at,
        )),
        ...composeChargebackMessages(
          'chargebacks_opened',
          await takeNewChargebacks(trx, at, { before, dueUntil }),
          at,
        ),
        ...composeChargebackMessages(
          'chargebacks_due',
          await takeDueDocuments(trx, at, dueUntil),
          at,
        ),
        ...composeChargebackMessages(
          'chargebacks_decided',
          await takeDecidedChargebacks(trx, at, before),
          at,
        ),
      ]
      for (const message of messages) {
        await insertAlertMessages(trx, [...channels.keys()], { id: message.id, message, at })
      }
    })
  }

  const send = async (channel: Channel, stopped: AbortSignal) => {
    await withLease(deps, `fleet alerts:${channel.key}`, async ({ signal }) => {
      for (const row of await listWaitingMessages(db, channel.key, now())) {
        if (stopped.aborted || signal.aborted) return
        if (!(await sendOne(channel, row, signal))) return
      }
    })
  }

  const sendOne = async (channel: Channel, row: AlertMessageRow, signal: AbortSignal) => {
    // Written by `write`.
    const message = row.message as AlertMessage
    const result = await channel.send(textsOf(message), signal)
    const context = {
      channel: channel.type,
      target: channel.target,
      alert: message.kind,
      messageId: message.id,
    }
    if (result.ok || result.partly) {
      await markMessageSent(db, row, now())
      if (result.ok) log.info(context, 'alert sent')
      else log.warn({ ...context, reason: result.error }, 'alert sent in part')
      return true
    }
    const attempts = row.attempts + 1
    const { retryAfterSeconds } = result
    const delayMs = backoffMs(retries, attempts, { random: () => 0, retryAfterSeconds })
    const until = new Date(now().getTime() + delayMs)
    await postponeMessages(db, channel.key, { attempts, until })
    log.warn(
      { ...context, reason: result.error, attempts, nextAttemptAt: until },
      'alert not sent; it will be tried again',
    )
    return false
  }

  const beginSending = (key: string, stopped: AbortSignal) => {
    const channel = channels.get(key)
    if (!channel || sending.has(key)) return
    const work = send(channel, stopped)
      .catch((error: unknown) => log.error({ err: error }, 'alerts could not be sent'))
      .finally(() => sending.delete(key))
    sending.set(key, work)
  }

  const keepHouse = async () => {
    const at = now().getTime()
    if (Math.abs(at - keptHouseAt) < housekeepingMs) return
    keptHouseAt = at
    await deleteAlertMessagesBefore(db, new Date(at - keepMs))
  }

  const check = async (stopped: AbortSignal) => {
    if (channels.size === 0) return
    await databaseWatch.check()
    if (databaseWatch.isDown()) return
    await withLease(deps, 'fleet alerts', write)
    for (const key of await listWaitingChannels(db, now())) beginSending(key, stopped)
    await keepHouse()
  }

  const job = createBackgroundJob(deps, { name: 'fleet-alerts', intervalMs, run: check })

  return {
    test: () =>
      Promise.all(
        [...channels.values()].map(async ({ type, target, send }): Promise<AlertTest> => {
          const at = now().toISOString()
          const result = await send(
            textsOf({ kind: 'test', id: messageId('fleet test', randomUUID()), at }),
          )
          return { type, target, ok: result.ok, ...(!result.ok && { error: result.error }) }
        }),
      ),
    start() {
      if (channels.size > 0) job.start()
    },
    async stop() {
      await job.stop()
      await Promise.all(sending.values())
      await agent.destroy()
    },
    async checkOnce() {
      await job.once()
      await Promise.all(sending.values())
    },
  }
}
