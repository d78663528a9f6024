import { AppError } from '../errors.ts'
import { claimDueDeliveries, findDelivery, type WebhookRow } from '../repositories/webhook-log.ts'
import { recordSuccess } from './activity.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import {
  createRejectedLog,
  type Delivery,
  storeSigned,
  type VerifiedSignature,
  verifyDelivery,
} from './webhook-delivery.ts'
import { workDelivery } from './work-webhook.ts'

export type WebhookInbox = {
  /** Throws UNAUTHORIZED when no configured secret signed this delivery, or long ago. Only headers and query are looked at. */
  verify(delivery: Omit<Delivery, 'body' | 'topic'>): VerifiedSignature
  /** Stores a verified delivery and starts to work on it; the answer does not wait for that. */
  accept(delivery: Delivery, verified: VerifiedSignature): Promise<void>
  /** Remembers a refused delivery, within bounds. */
  reject(delivery: Omit<Delivery, 'body'>): Promise<void>
  /** Works on deliveries that nobody finished: after a crash, or when the provider could not be read. */
  workDue(): Promise<number>
  /** Works a stored delivery again. Throws NOT_FOUND. */
  replay(id: string, actor: Actor): Promise<WebhookRow>
  /** Resolves when nothing is being worked on. */
  idle(): Promise<void>
}

/** Provider reads that webhooks may have under way together; the rest waits in the table. */
const workersAtOnce = 8
const claimMs = 30_000

/** Receives the provider's webhooks: stored before they are answered, worked on afterwards, harmless when repeated. */
export function createWebhookInbox(deps: PaymentDeps): WebhookInbox {
  const working = new Set<Promise<void>>()
  /** Deliveries that will be worked as soon as they are stored. */
  let starting = 0

  const start = (row: WebhookRow) => {
    const work = deps
      .once(`webhook:${row.id}`, () => workDelivery(deps, row))
      .catch((error) =>
        deps.log.error({ err: error, webhookId: row.id }, 'a webhook was not worked'),
      )
      .finally(() => working.delete(work))
    working.add(work)
    return work
  }

  return {
    verify: (delivery) => verifyDelivery(deps, delivery),

    async accept(delivery, verified) {
      const hasRoom = working.size + starting < workersAtOnce
      if (hasRoom) starting += 1
      const nextAttemptAt = new Date(deps.now().getTime() + (hasRoom ? claimMs : 0))
      const storing = storeSigned(deps, delivery, verified, nextAttemptAt)
      const stored = await storing.finally(() => {
        if (hasRoom) starting -= 1
      })
      if (stored.fresh && hasRoom) void start(stored.row)
    },

    reject: createRejectedLog(deps),

    async workDue() {
      const now = deps.now()
      const due = await deps.database.transaction((trx) =>
        claimDueDeliveries(trx, now, new Date(now.getTime() + claimMs), workersAtOnce),
      )
      await Promise.all(due.map(start))
      return due.length
    },

    async replay(id, actor) {
      const row = await findDelivery(deps.database.db, id)
      if (!row?.signature_valid) {
        throw new AppError('NOT_FOUND', { message: 'There is no such webhook, or it was rejected' })
      }
      await start(row)
      await deps.database.transaction((trx) =>
        recordSuccess(deps, trx, {
          client: row.client,
          actor,
          action: 'webhook.replayed',
          resourceType: 'webhook',
          resourceId: id,
        }),
      )
      return (await findDelivery(deps.database.db, id)) ?? row
    },

    async idle() {
      while (working.size > 0) await Promise.all([...working])
    },
  }
}
