import { AppError } from '../../errors/app-error.ts'
import {
  claimDueDeliveries,
  type DueDelivery,
  findDelivery,
  releaseDelivery,
  type WebhookRow,
} from '../../repositories/webhooks/webhook-log.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { createLanes } from '../operations/account-lanes.ts'
import type { AccountPauses } from '../operations/account-pauses.ts'
import {
  accountOf,
  createRejectedLog,
  type Delivery,
  storeSigned,
  type VerifiedSignature,
  verifyDelivery,
} from './webhook-delivery.ts'
import { workDeliveries } from './work-webhook.ts'

export type WebhookInbox = {
  /** Throws UNAUTHORIZED when no configured secret signed this delivery, or long ago. Only headers and query are looked at. */
  verify(delivery: Omit<Delivery, 'body' | 'topic'>): VerifiedSignature
  /** Stores a verified delivery and starts to work on it; the answer does not wait for that. */
  accept(delivery: Delivery, verified: VerifiedSignature): Promise<void>
  /** Remembers a refused delivery, within bounds. */
  reject(delivery: Omit<Delivery, 'body'>): Promise<void>
  /** Works on all deliveries that are due now. Answers about how many orders, or what else, they were. */
  workDue(): Promise<number>
  /** From now on works by itself on deliveries that nobody finished: after a crash, or when the provider could not be read. */
  start(): void
  /** Begins nothing new, and ends after what was begun. */
  stop(): Promise<void>
  /** Works a stored delivery again. Throws NOT_FOUND. */
  replay(id: string, actor: Actor): Promise<WebhookRow>
  /** Resolves when nothing is being worked on. */
  idle(): Promise<void>
}

/** A backlog of thousands is worked off in the background: whoever charges meanwhile must not notice. */
const worksAtOnce = 24

/** Receives the provider's webhooks: stored before they are answered, worked on afterwards, harmless when repeated. */
export function createWebhookInbox(
  deps: PaymentDeps,
  pauses: AccountPauses,
  options: { intervalMs: number },
): WebhookInbox {
  /** What deliveries that came a moment ago are about: more about the same wait, and share one look. */
  const underWay = new Set<string>()
  const lanes = createLanes(deps, {
    name: 'webhook inbox',
    pauses,
    intervalMs: options.intervalMs,
    atOnce: worksAtOnce,
    async claim(now, claimUntil, room) {
      const due = await claimDueDeliveries(deps.database.db, now, claimUntil, room)
      const subjects = Map.groupBy(due, ({ subject }) => subject)
      return [...subjects.values()].map((rows) => toUnit(rows as [DueDelivery, ...DueDelivery[]]))
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
      // In a flood nothing is claimed that would only have to be given back.
      const giveBack = lanes.reserve(accountOf(delivery))
      const claimed = giveBack !== undefined
      const { row, fresh } = await storeSigned(deps, delivery, verified, { claimed }).finally(
        giveBack,
      )
      if (!fresh) return
      if (claimed) {
        if (!underWay.has(row.subject) && lanes.offer(toUnit([row]))) return
        await releaseDelivery(deps.database.db, row.id, deps.now())
      }
      lanes.wake()
    },

    reject: createRejectedLog(deps),
    workDue: lanes.once,

    async replay(id, actor) {
      const row = await findDelivery(deps.database.db, id)
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
      return (await findDelivery(deps.database.db, id)) ?? row
    },

    start: lanes.start,
    stop: lanes.stop,
    idle: lanes.idle,
  }
}

/** Deliveries about one order need one look at the provider, if none of them came after it began. */
function toUnit(rows: [DueDelivery, ...DueDelivery[]]) {
  const [{ id, lane }] = rows
  return { id, account: lane, rows }
}
