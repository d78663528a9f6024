import { AppError } from '../../errors/app-error.ts'
import {
  type DueWebhook,
  findWebhook,
  leaseDueWebhooks,
  releaseWebhook,
  type WebhookRow,
} from '../../repositories/webhooks/webhook-log.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import type { AccountPauses } from '../operations/account-pauses.ts'
import { createAccountQueues } from '../operations/account-queues.ts'
import {
  accountOf,
  createRejectedLog,
  type ReceivedWebhook,
  storeSigned,
  type VerifiedSignature,
  verifyDelivery,
} from './webhook-delivery.ts'
import { workDeliveries } from './work-webhook.ts'

export type WebhookInbox = {
  /**
   * Checks only the headers and the query.
   *
   * @throws UNAUTHORIZED when no configured secret signed this delivery, or when it was signed long ago.
   */
  verify(delivery: Omit<ReceivedWebhook, 'body' | 'topic'>): VerifiedSignature
  /** Stores a verified delivery and starts to process it. The response to the provider does not wait for that. */
  accept(delivery: ReceivedWebhook, verified: VerifiedSignature): Promise<void>
  /** Logs a refused delivery, up to a limit. */
  reject(delivery: Omit<ReceivedWebhook, 'body'>): Promise<void>
  /** Processes all deliveries that are due now. Returns the number of units: orders, or other subjects. */
  workDue(): Promise<number>
  /** Starts to process deliveries that are unfinished after a crash, or because provider order not read. */
  start(): void
  /** Starts nothing new, and resolves when all running work is done. */
  stop(): Promise<void>
  /**
   * Processes a stored delivery again.
   *
   * @throws NOT_FOUND
   */
  replay(id: string, actor: Actor): Promise<WebhookRow>
  /** Resolves when no delivery is being processed. */
  idle(): Promise<void>
}

/** A backlog of thousands is processed in the background and must not slow down charges. */
const worksAtOnce = 24

/**
 * Receives the provider's webhooks. Each is stored before it is answered and processed afterwards; a repeated one changes
 * nothing.
 */
export function createWebhookInbox(
  deps: PaymentDeps,
  pauses: AccountPauses,
  options: { intervalMs: number },
): WebhookInbox {
  /** The subjects of deliveries in process. Further deliveries about the same one wait and share one status check. */
  const underWay = new Set<string>()
  const queues = createAccountQueues(deps, {
    name: 'webhook inbox',
    pauses,
    intervalMs: options.intervalMs,
    atOnce: worksAtOnce,
    async lease(now, leaseUntil, limits) {
      const due = await leaseDueWebhooks(deps.database.db, now, leaseUntil, limits)
      const subjects = Map.groupBy(due, ({ subject }) => subject)
      return [...subjects.values()].map((rows) => toUnit(rows as [DueWebhook, ...DueWebhook[]]))
    },
    work: async ({ account, rows }) => {
      const [{ subject }] = rows
      underWay.add(subject)
      try {
        pauses.note(account, await workDeliveries(deps, rows), deps.now())
      } finally {
        underWay.delete(subject)
      }
    },
  })

  return {
    verify: (delivery) => verifyDelivery(deps, delivery),

    async accept(delivery, verified) {
      // In a flood of webhooks no lease is taken that would have to be returned at once.
      const release = queues.reserve(accountOf(delivery))
      const isLeased = release !== undefined
      const { row, fresh } = await storeSigned(deps, delivery, verified, { isLeased }).finally(
        release,
      )
      if (!fresh) return
      if (isLeased) {
        if (!underWay.has(row.subject) && queues.offer(toUnit([row]))) return
        await releaseWebhook(deps.database.db, row.id, deps.now())
      }
      queues.wake()
    },

    reject: createRejectedLog(deps),
    workDue: queues.once,

    async replay(id, actor) {
      const row = await findWebhook(deps.database.db, id)
      if (!row?.signature_valid) {
        throw new AppError('NOT_FOUND', { message: 'There is no such webhook, or it was rejected' })
      }
      await deps.once(`webhook:${row.id}`, () => workDeliveries(deps, [row]))
      await deps.database.transaction((trx) =>
        recordSuccess(deps, trx, {
          client: row.client,
          actor,
          action: 'webhook.replayed',
          resourceId: id,
        }),
      )
      return (await findWebhook(deps.database.db, id)) ?? row
    },

    start: queues.start,
    stop: queues.stop,
    idle: queues.idle,
  }
}

/** Deliveries about one order need one status check, if none of them came after it began. */
function toUnit(rows: [DueWebhook, ...DueWebhook[]]) {
  const [{ id, account }] = rows
  return { id, account: account, rows }
}
