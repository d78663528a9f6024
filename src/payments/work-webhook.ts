import { asClientName, type ClientName } from '../domain/client-name.ts'
import { AppError } from '../errors.ts'
import { ProviderError } from '../provider/provider.ts'
import { findClientsOfAccount } from '../repositories/oauth.ts'
import { findOrderOfAnyClient } from '../repositories/orders.ts'
import {
  findProcessedDelivery,
  updateDelivery,
  type WebhookRow,
} from '../repositories/webhook-log.ts'
import { meetOrderAnywhere } from './adopt-orders.ts'
import type { PaymentDeps } from './deps.ts'
import { refreshOrder } from './read-order.ts'
import { withAccess } from './token-keeper.ts'

/**
 * How long a delivery that cannot be worked is tried. The provider was told 200 and sends it no more, and money that came
 * after an order was closed is found by nothing else: so for longer than a shop without a connection stays unnoticed.
 */
const keepTryingMs = 3 * 24 * 3600_000

type WorkResult = {
  status: 'processed' | 'duplicate' | 'ignored'
  client: ClientName | null
  orderId: string | null
}

/** Works a delivery and writes what became of it; one that could not be worked gets the time of its next attempt. */
export async function workDelivery(deps: PaymentDeps, row: WebhookRow): Promise<void> {
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
  if (!known) return workUnknownOrder(deps, row, mpOrderId)
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

/** A webhook about an order we have no id of: an unanswered creation, a forgotten order or one of somebody else. */
async function workUnknownOrder(
  deps: PaymentDeps,
  row: WebhookRow,
  mpOrderId: string,
): Promise<WorkResult> {
  const meeting = await meetOrderAnywhere(deps, row.mp_user_id, mpOrderId)
  const order =
    'order' in meeting ? meeting.order : await findOrderOfAnyClient(deps.database.db, mpOrderId)
  if (order) return { status: 'processed', client: order.client, orderId: order.id }
  const [client] =
    row.mp_user_id === null ? [] : await findClientsOfAccount(deps.database.db, row.mp_user_id)
  return { status: 'ignored', client: client ?? null, orderId: null }
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
