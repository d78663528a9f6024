import { randomUUID } from 'node:crypto'
import { isRecord } from '../../domain/json.ts'
import { uuidOfHash } from '../../domain/uuid.ts'
import { AppError } from '../../errors/app-error.ts'
import { verifySignature } from '../../provider/webhook-signature.ts'
import {
  type DueWebhook,
  findWebhook,
  leaseDueWebhooks,
  receiveWebhook,
  releaseWebhook,
  storeRejected,
  trimRejected,
  type WebhookRow,
} from '../../repositories/webhooks/webhook-log.ts'
import { recordFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { type AccountPauses, AccountQueues, workLeaseMs } from '../operations/account-queues.ts'
import { notifyWebhooks, processWebhooks } from './process-webhooks.ts'

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
  /** Processes deliveries that are unfinished after a crash, or whose order could not be read. Returns at once. */
  wake(): void
  /** Starts nothing new, and resolves when all running work is done. */
  stop(): Promise<void>
  /**
   * Processes a stored delivery again. A failure is stored in its row, which is returned, and in the audit log.
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
export function createWebhookInbox(deps: PaymentDeps, pauses: AccountPauses): WebhookInbox {
  /** The subjects of deliveries in process. Further deliveries about the same one wait and share one status check. */
  const underWay = new Set<string>()
  const queues = new AccountQueues(deps, {
    name: 'webhook inbox',
    pauses,
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
        pauses.note(account, await processWebhooks(deps, rows), deps.now())
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
      let stored: Awaited<ReturnType<typeof storeSigned>>
      try {
        stored = await storeSigned(deps, delivery, verified, { isLeased })
      } finally {
        // Up to the offer nothing waits, so no other webhook takes the place.
        release?.()
      }
      const { row, fresh } = stored
      if (!fresh) return
      if (isLeased) {
        if (!underWay.has(row.subject) && queues.offer(toUnit([row]))) return
        await releaseWebhook(deps.database.db, row.id, deps.now())
      }
      queues.wake()
    },

    reject: createRejectedLog(deps),
    workDue: () => queues.once(),

    async replay(id, actor) {
      const row = await findWebhook(deps.database.db, id)
      if (!row?.signature_valid) {
        throw new AppError('NOT_FOUND', { message: 'There is no such webhook, or it was rejected' })
      }
      await deps.once(`webhook:${row.id}`, () => processWebhooks(deps, [row]))
      return deps.database.transaction(async (trx) => {
        const now = (await findWebhook(trx, id)) ?? row
        const { client, status, error_message: errorMessage } = now
        const entry = { client, actor, action: 'webhook.replayed', resourceId: id }
        if (status === 'failed') await recordFailure(deps, trx, entry, errorMessage ?? status)
        else await recordSuccess(deps, trx, entry)
        return now
      })
    },

    wake: () => queues.wake(),
    stop: () => queues.stop(),
    idle: () => queues.idle(),
  }
}

/** Deliveries about one order need one status check, if none of them came after it began. */
function toUnit(rows: [DueWebhook, ...DueWebhook[]]) {
  const [{ id, account }] = rows
  return { id, account: account, rows }
}

type ReceivedWebhook = {
  xSignature: string | string[] | undefined
  xRequestId: string | string[] | undefined
  /** `data.id` and `type` of the query. */
  dataId: string | string[] | undefined
  topic: string | undefined
  /** Not signed: stored for the log, and decides nothing. */
  body: unknown
}

type VerifiedSignature = { form: string; signedAt: Date }

const unsigned = 'The webhook is not signed with a secret of this service'
const rejectedPerMinute = 60
const maxPayloadCharacters = 16_384
const rejectedKept = 1_000

/**
 * Checks only the headers and the query.
 *
 * @throws UNAUTHORIZED when no configured secret signed this delivery, or when it was signed long ago.
 */
function verifyDelivery(
  deps: PaymentDeps,
  delivery: Omit<ReceivedWebhook, 'body' | 'topic'>,
): VerifiedSignature {
  const check = verifySignature({
    xSignature: delivery.xSignature,
    xRequestId: delivery.xRequestId,
    dataId: delivery.dataId,
    secrets: deps.settings.webhookSecrets,
    now: deps.now(),
  })
  if (!check.valid) {
    const message =
      check.reason === 'too_old' ? 'The signature of the webhook is too old' : unsigned
    throw new AppError('UNAUTHORIZED', { message })
  }
  return { form: check.form, signedAt: new Date(check.tsMs) }
}

/**
 * Stores a verified delivery: `isLeased`, with a lease of this process, which processes it at once or returns the lease; or else
 * as due. `fresh` is false for one that is stored already: only its count grows.
 */
async function storeSigned(
  deps: PaymentDeps,
  delivery: ReceivedWebhook,
  verified: VerifiedSignature,
  { isLeased }: { isLeased: boolean },
): Promise<{ row: DueWebhook; fresh: boolean }> {
  const signedParts = [
    single(delivery.dataId)?.toLowerCase() ?? '',
    single(delivery.xRequestId) ?? '',
    verified.signedAt.getTime(),
  ]
  const now = deps.now()
  return receiveWebhook(deps.database.db, {
    ...logFields(delivery),
    id: uuidOfHash(signedParts.join('\n')),
    signature_valid: true,
    signature_form: verified.form,
    signed_at: verified.signedAt,
    status: 'received',
    payload: keptPayload(delivery.body),
    received_at: now,
    next_attempt_at: isLeased ? new Date(now.getTime() + workLeaseMs) : now,
  })
}

/**
 * The body as JSON for the log. The provider sends a few hundred characters. The body is not signed, so anyone who repeats a
 * delivery could fill the log, and a page of the log shows 200 of them.
 */
function keptPayload(body: unknown): string | null {
  const text = body === undefined ? null : JSON.stringify(body)
  return text !== null && text.length <= maxPayloadCharacters ? text : null
}

/** Logs refused deliveries up to a limit per minute and in total: unauthenticated senders must not fill the disk. */
function createRejectedLog(
  deps: PaymentDeps,
): (delivery: Omit<ReceivedWebhook, 'body'>) => Promise<void> {
  let window = { startedAt: 0, count: 0 }
  return async (delivery) => {
    const now = deps.now()
    if (now.getTime() - window.startedAt > 60_000) window = { startedAt: now.getTime(), count: 0 }
    window.count += 1
    if (window.count > rejectedPerMinute) return
    const row = await storeRejected(deps.database.db, {
      ...logFields({ ...delivery, body: undefined }),
      id: randomUUID(),
      signature_valid: false,
      signature_form: null,
      signed_at: null,
      status: 'rejected',
      error_message: 'the signature is missing, not valid or too old',
      payload: null,
      received_at: now,
      processed_at: now,
      next_attempt_at: null,
      duration_ms: 0,
    })
    notifyWebhooks(deps, [row])
    if (window.count === 1) await trimRejected(deps.database.db, rejectedKept)
  }
}

export function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/** Printable, at most 200 characters: unauthenticated senders write these texts. */
function plain(value: unknown): string | null {
  if (typeof value !== 'string') return null
  return value
    .replace(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .slice(0, 200)
}

/** The account that a delivery names. The delivery is processed there, unless its order belongs to another account. */
export function accountOf({ body }: ReceivedWebhook): number | undefined {
  return (isRecord(body) ? accountHint(body) : null) ?? undefined
}

function logFields(delivery: ReceivedWebhook) {
  const body = isRecord(delivery.body) ? delivery.body : {}
  return {
    client: null,
    mp_user_id: accountHint(body),
    request_id: plain(single(delivery.xRequestId)),
    topic: plain(delivery.topic) ?? plain(body.type),
    action: plain(body.action),
    resource_id: plain(single(delivery.dataId)),
    order_id: null,
    live_mode: typeof body.live_mode === 'boolean' ? body.live_mode : null,
  }
}

/** The account that the unsigned body names: only a hint which token to read with. */
function accountHint(body: Record<string, unknown>): number | null {
  const id = Number(body.user_id)
  return Number.isSafeInteger(id) && id > 0 ? id : null
}
