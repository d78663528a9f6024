import { randomUUID } from 'node:crypto'
import { hashSecret } from '../domain/api-key.ts'
import { asClientName, type ClientName } from '../domain/client-name.ts'
import { AppError } from '../errors.ts'
import { ProviderError } from '../provider/provider.ts'
import { verifySignature } from '../provider/signature.ts'
import { findClientsOfAccount } from '../repositories/oauth.ts'
import {
  findClientsWithUnconfirmedOrders,
  findOrderOfAnyClient,
  findUnconfirmedOrders,
} from '../repositories/orders.ts'
import {
  claimDueDeliveries,
  findDelivery,
  findProcessedDelivery,
  storeDelivery,
  tellRefused,
  trimRejected,
  updateDelivery,
  type WebhookRow,
} from '../repositories/webhook-log.ts'
import { recordSuccess } from './activity.ts'
import { type Actor, type PaymentDeps, serviceActor } from './deps.ts'
import { refreshOrder } from './read-order.ts'
import { confirmCreation } from './resolve-creation.ts'
import { withAccess } from './token-keeper.ts'

export type Delivery = {
  xSignature: string | string[] | undefined
  xRequestId: string | string[] | undefined
  /** `data.id` and `type` of the query. */
  dataId: string | string[] | undefined
  topic: string | undefined
  /** Not signed: kept for the log, decides nothing. */
  body: unknown
}

export type WebhookInbox = {
  /** Throws UNAUTHORIZED when no configured secret signed this delivery, or long ago. Only headers and query are looked at. */
  verify(delivery: Omit<Delivery, 'body' | 'topic'>): { form: string; signedAt: Date }
  /** Stores a verified delivery and starts to work on it; the answer does not wait for that. */
  accept(delivery: Delivery, verified: { form: string; signedAt: Date }): Promise<void>
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
/**
 * How long a delivery that cannot be worked is tried. The provider was told 200 and sends it no more, and money that came
 * after an order was closed is found by nothing else: so for longer than a shop without a connection stays unnoticed.
 */
const keepTryingMs = 3 * 24 * 3600_000
const unsigned = 'The webhook is not signed with a secret of this service'
/** The provider repeats a delivery for about a day; a captured one must not be good for ever. */
const oldestMs = 48 * 3600_000
/** Clocks differ. */
const newestMs = 3600_000
const rejectedPerMinute = 60
const rejectedKept = 1_000

/** Receives the provider's webhooks: stored before they are answered, worked on afterwards, harmless when repeated. */
export function createWebhookInbox(deps: PaymentDeps): WebhookInbox {
  const working = new Set<Promise<void>>()
  /** Deliveries that will be worked as soon as they are stored. */
  let starting = 0
  let rejectedWindow = { startedAt: 0, count: 0 }

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
    verify(delivery) {
      const verdict = verifySignature({
        xSignature: delivery.xSignature,
        xRequestId: delivery.xRequestId,
        dataId: delivery.dataId,
        secrets: deps.settings.webhookSecrets,
        now: deps.now(),
      })
      if (!verdict.valid) throw new AppError('UNAUTHORIZED', { message: unsigned })
      if (verdict.ageMs > oldestMs || verdict.ageMs < -newestMs) {
        throw new AppError('UNAUTHORIZED', { message: 'The signature of the webhook is too old' })
      }
      return { form: verdict.form, signedAt: new Date(verdict.tsMs) }
    },

    async accept(delivery, verified) {
      const now = deps.now()
      const hasRoom = working.size + starting < workersAtOnce
      if (hasRoom) starting += 1
      const storing = deps.database.transaction((trx) =>
        storeDelivery(trx, {
          ...logFields(delivery),
          id: randomUUID(),
          delivery_key: hashSecret(
            [
              single(delivery.dataId)?.toLowerCase() ?? '',
              single(delivery.xRequestId) ?? '',
              verified.signedAt.getTime(),
            ].join('\n'),
          ),
          signature_valid: true,
          signature_form: verified.form,
          signed_at: verified.signedAt,
          status: 'received',
          error_message: null,
          payload: delivery.body === undefined ? null : JSON.stringify(delivery.body),
          received_at: now,
          processed_at: null,
          next_attempt_at: new Date(now.getTime() + (hasRoom ? claimMs : 0)),
          duration_ms: null,
        }),
      )
      const stored = await storing.finally(() => {
        if (hasRoom) starting -= 1
      })
      if (stored.fresh && hasRoom) void start(stored.row)
    },

    async reject(delivery) {
      const now = deps.now()
      if (now.getTime() - rejectedWindow.startedAt > 60_000) {
        rejectedWindow = { startedAt: now.getTime(), count: 0 }
      }
      rejectedWindow.count += 1
      if (rejectedWindow.count > rejectedPerMinute) return
      await deps.database.transaction(async (trx) => {
        const { row } = await storeDelivery(trx, {
          ...logFields({ ...delivery, body: undefined }),
          id: randomUUID(),
          delivery_key: null,
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
        await tellRefused(trx, row.id)
      })
      if (rejectedWindow.count === 1) await trimRejected(deps.database.db, rejectedKept)
    },

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

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/** Printable, at most 200 characters: these come from strangers. */
function plain(value: unknown): string | null {
  if (typeof value !== 'string') return null
  return value
    .replace(/\p{Cc}/gu, ' ')
    .toWellFormed()
    .slice(0, 200)
}

function logFields(delivery: Delivery) {
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

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The account the unsigned body names: a hint at whose token to read with, and nothing more. */
function accountHint(body: Record<string, unknown>): number | null {
  const id = Number(body.user_id)
  return Number.isSafeInteger(id) && id > 0 ? id : null
}

type WorkResult = {
  status: 'processed' | 'duplicate' | 'ignored'
  client: ClientName | null
  orderId: string | null
}

async function workDelivery(deps: PaymentDeps, row: WebhookRow): Promise<void> {
  const startedAt = deps.now()
  const { db } = deps.database
  try {
    const result = await workByTopic(deps, row)
    const now = deps.now()
    await updateDelivery(db, row.id, {
      status: result.status,
      client: result.client,
      order_id: result.orderId,
      error_message: null,
      attempts: row.attempts + 1,
      next_attempt_at: null,
      processed_at: now,
      duration_ms: now.getTime() - startedAt.getTime(),
    })
  } catch (error) {
    const attempts = row.attempts + 1
    const now = deps.now()
    const waitMs = Math.min(15 * 60_000, 2_000 * 2 ** attempts)
    const isHopeless = now.getTime() - row.received_at.getTime() > keepTryingMs
    const code =
      error instanceof ProviderError || error instanceof AppError ? error.message : 'internal error'
    await updateDelivery(db, row.id, {
      status: 'failed',
      error_message: code,
      attempts,
      next_attempt_at: isHopeless ? null : new Date(now.getTime() + waitMs),
      processed_at: now,
      duration_ms: now.getTime() - startedAt.getTime(),
    })
    deps.log.warn({ webhookId: row.id, attempts, err: error }, 'a webhook could not be worked')
  }
}

async function workByTopic(deps: PaymentDeps, row: WebhookRow): Promise<WorkResult> {
  const resourceId = row.resource_id ?? ''
  if (/^ORD/i.test(resourceId)) return workOrder(deps, row, resourceId.toUpperCase())
  if (row.topic === 'mp-connect' && /^\d{1,15}$/.test(resourceId)) {
    return checkConnections(deps, Number(resourceId))
  }
  return { status: 'ignored', client: null, orderId: null }
}

async function workOrder(
  deps: PaymentDeps,
  row: WebhookRow,
  mpOrderId: string,
): Promise<WorkResult> {
  const { db } = deps.database
  const known = await findOrderOfAnyClient(db, mpOrderId)
  if (!known) return adoptOrder(deps, row, mpOrderId)
  const before = known.version
  const read = await refreshOrder(deps, known, 'webhook')
  if (read.stale) throw new AppError('PROVIDER_ERROR')
  const isRepeat =
    read.order.version === before && (await findProcessedDelivery(db, mpOrderId, row.id))
  return {
    status: isRepeat ? 'duplicate' : 'processed',
    client: known.client,
    orderId: known.id,
  }
}

/**
 * A webhook about an order we have no id of: it may be one whose creation was never answered, and its message may have
 * come before that answer. Whose it is only the provider can say.
 */
async function adoptOrder(
  deps: PaymentDeps,
  row: WebhookRow,
  mpOrderId: string,
): Promise<WorkResult> {
  const { db } = deps.database
  const hinted = row.mp_user_id === null ? [] : await findClientsOfAccount(db, row.mp_user_id)
  const waiting = await findClientsWithUnconfirmedOrders(db)
  const candidates = waiting.sort((a, b) => Number(hinted.includes(b)) - Number(hinted.includes(a)))
  for (const client of candidates) {
    const unconfirmed = await findUnconfirmedOrders(db, client)
    const evidence = await withAccess(deps, client, ({ token }) =>
      deps.provider.orders.get(token, mpOrderId),
    ).catch((error) => {
      // Not this account's order. A client without connection has nothing to say about it either.
      const isForeign = error instanceof ProviderError && error.status === 404
      if (isForeign || (error instanceof AppError && error.status === 409)) return undefined
      throw error
    })
    const match =
      evidence &&
      unconfirmed.find(
        (order) =>
          order.mp_external_reference === evidence.externalReference &&
          order.amount_cents === evidence.amountCents &&
          order.terminal_id === evidence.terminalId,
      )
    if (match) {
      const actor = serviceActor(deps.now())
      const adopted = await confirmCreation(deps, match, evidence, 'webhook', actor)
      return { status: 'processed', client: adopted.client, orderId: adopted.id }
    }
  }
  const arrived = await findOrderOfAnyClient(db, mpOrderId)
  if (arrived) return { status: 'processed', client: arrived.client, orderId: arrived.id }
  return { status: 'ignored', client: hinted[0] ?? null, orderId: null }
}

/** An account was linked or unlinked: asking the provider with its token shows what is true. */
async function checkConnections(deps: PaymentDeps, mpUserId: number): Promise<WorkResult> {
  const clients = await findClientsOfAccount(deps.database.db, mpUserId)
  for (const client of clients) {
    await withAccess(deps, client, ({ token }) => deps.provider.users.me(token)).catch((error) => {
      if (error instanceof AppError && error.code === 'CONNECTION_LOST') return
      throw error
    })
  }
  const first = clients[0]
  return {
    status: first === undefined ? 'ignored' : 'processed',
    client: first === undefined ? null : asClientName(first),
    orderId: null,
  }
}
