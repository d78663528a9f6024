import type { Database } from '../db/database.ts'
import { type Backoff, backoffMs } from '../domain/backoff.ts'
import { withLease } from '../jobs/with-lease.ts'
import { retryAfterMs } from '../outbound/retry-after.ts'
import {
  listWaitingMessages,
  listWaitingReceivers,
  type MessageRow,
  markMessageSent,
  postponeMessages,
} from '../repositories/notifications/message-queries.ts'
import { sentenceOf } from '../texts/reason.ts'
import type { Channel, Notification } from './channel.ts'
import { type ChargebackMessage, chargebackNotification } from './chargeback-message.ts'
import { endpointNotification, type StoppedEndpointsMessage } from './endpoint-message.ts'
import { type FailureMessage, failureNotification } from './failure-message.ts'
import type { FleetMessage } from './fleet-message.ts'
import { fleetNotification } from './fleet-message.ts'
import { type UnclaimedMessage, unclaimedNotification } from './unclaimed-message.ts'

/** A message is stored until its receiver has it. */
export type StoredMessage =
  | FleetMessage
  | UnclaimedMessage
  | ChargebackMessage
  | StoppedEndpointsMessage
  | FailureMessage

type Sender = {
  /** Starts to send due messages. */
  begin(): Promise<void>
  /** Resolves when running messages have their answers. */
  settled(): Promise<void>
  /** Sends nothing more after the running messages. */
  stop(): Promise<void>
}

export type SenderDeps = {
  database: Database
  now: () => Date
  processId: string
  log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>
}

/** No notification is ever given up. No jitter, because only one process sends. */
const pauses: Backoff = { firstMs: 10_000, longestMs: 15 * 60_000 }

/** After so many refusals in a row a receiver counts as one that takes nothing. */
const refusalsAtMost = 3

/**
 * Sends stored messages, one after the other for each receiver; a slow receiver delays no other. A message stays
 * until its receiver has it, so it may arrive twice under the same id. One that its receiver refuses waits alone.
 * Processes on the same database share the work.
 */
export function createSender(
  deps: SenderDeps,
  channelOf: (receiver: string) => Channel | undefined,
): Sender {
  const { database, log, now } = deps
  const { db } = database
  const stopped = new AbortController()
  const sending = new Map<string, Promise<void>>()

  const sendAll = async (receiver: string) => {
    await withLease(deps, `notifications:${receiver}`, async ({ signal }) => {
      let refusals = 0
      for (const row of await listWaitingMessages(db, receiver, now())) {
        const channel = channelOf(receiver)
        if (!channel || stopped.signal.aborted || signal.aborted) return
        const isLast = refusals + 1 >= refusalsAtMost
        const outcome = await sendOne(channel, row, signal, isLast)
        if (outcome === 'all_postponed') return
        refusals = outcome === 'sent' ? 0 : refusals + 1
      }
    })
  }

  const sendOne = async (
    channel: Channel,
    row: MessageRow,
    signal: AbortSignal,
    isLast: boolean,
  ): Promise<'sent' | 'postponed' | 'all_postponed'> => {
    // Written by this module.
    const message = row.message as StoredMessage
    const result = await channel.send(notificationOf(message), signal)
    const context = {
      receiver: row.channel,
      channel: channel.type,
      target: channel.target,
      notification: message.kind,
      messageId: message.id,
    }
    if (result.ok || result.partly) {
      await markMessageSent(db, row, now())
      if (result.ok) log.info(context, 'notification sent')
      else
        log.warn({ ...context, reason: sentenceOf(result.why, 'en') }, 'notification sent in part')
      return 'sent'
    }
    const attempts = row.attempts + 1
    const delayMs = Math.max(backoffMs(attempts, pauses), retryAfterMs(result.retryAfterSeconds))
    const until = new Date(now().getTime() + delayMs)
    const isAlone = result.isRefused === true && !isLast
    await postponeMessages(db, row.channel, { attempts, until, ...(isAlone && { id: row.id }) })
    log.warn(
      { ...context, reason: sentenceOf(result.why, 'en'), attempts, nextAttemptAt: until },
      'notification not sent; the service retries',
    )
    return isAlone ? 'postponed' : 'all_postponed'
  }

  const settled = async () => {
    await Promise.all(sending.values())
  }

  return {
    async begin() {
      for (const receiver of await listWaitingReceivers(db, now())) {
        if (sending.has(receiver) || !channelOf(receiver)) continue
        const work = sendAll(receiver)
          .catch((error: unknown) => log.error({ err: error, receiver }, 'notifications not sent'))
          .finally(() => sending.delete(receiver))
        sending.set(receiver, work)
      }
    },
    settled,
    async stop() {
      stopped.abort()
      await settled()
    },
  }
}

function notificationOf(message: StoredMessage): Notification {
  switch (message.kind) {
    case 'trouble':
    case 'recovered':
      return fleetNotification(message)
    case 'orphans':
    case 'orphans_settled':
      return unclaimedNotification(message)
    case 'chargebacks_opened':
    case 'chargebacks_due':
    case 'chargebacks_decided':
      return chargebackNotification(message)
    case 'endpoints_stopped':
      return endpointNotification(message)
    case 'deliveries_failed':
    case 'deliveries_still_failed':
    case 'deliveries_recovered':
      return failureNotification(message)
  }
}
