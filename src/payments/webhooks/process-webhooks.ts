import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import { asClientName, type ClientName } from '../../domain/client-name.ts'
import { chargedBack } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { isAnswered, ProviderError } from '../../provider/provider.ts'
import { asAppError } from '../../provider/to-app-error.ts'
import { findClientsOfAccount } from '../../repositories/connection/connection-queries.ts'
import {
  findOrderOfAnyClient,
  findOrderWithConnection,
  type OrderRow,
} from '../../repositories/orders/order-queries.ts'
import {
  findProcessedWebhook,
  finishWebhook,
  type WebhookEnd,
  type WebhookNotice,
  type WebhookRow,
  webhookChannel,
} from '../../repositories/webhooks/webhook-log.ts'
import { readCaseOfWebhook, readCasesOfOrder } from '../chargebacks/read-cases.ts'
import { withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import { providerErrorOf } from '../operations/account-queues.ts'
import { adoptFromAnyAccount } from '../orders/adopt-orders.ts'
import { refreshOrder } from '../orders/read.ts'
import { serviceContext } from '../request-context.ts'

/**
 * How long a delivery that fails is tried again. The provider got status 200 and does not repeat it, and nothing else finds money
 * that came after an order was closed. So this is longer than a shop without a connection stays unnoticed.
 */
const keepTryingMs = 3 * 24 * 3600_000
const shortestWaitMs = 5_000
const pauses: Backoff = { firstMs: 4_000, longestMs: 15 * 60_000 }

type WorkResult = {
  status: 'processed' | 'duplicate' | 'ignored'
  client: ClientName | null
  orderId: string | null
  /** It stands in the row of the delivery already. */
  isWritten?: boolean
}

/** When the work of a delivery ended, and how long it took. */
type End = { endedAt: Date; durationMs: number }

/**
 * Processes deliveries about the same order, oldest first, with one status check, and writes the result of each. Those that
 * failed get the time of their next attempt; the reason of the failure is returned.
 */
export async function processWebhooks(
  deps: PaymentDeps,
  rows: readonly [WebhookRow, ...WebhookRow[]],
): Promise<unknown> {
  const [first, ...others] = rows
  const startedAt = deps.now()
  const { db } = deps.database
  const end = (): End => {
    const endedAt = deps.now()
    return { endedAt, durationMs: endedAt.getTime() - startedAt.getTime() }
  }
  const finish = async (id: string, result: Pick<WebhookEnd, 'status'> & Partial<WebhookEnd>) => {
    const nothing = { client: null, orderId: null, errorMessage: null, nextAttemptAt: null }
    notifyWebhooks(deps, await finishWebhook(db, id, { ...nothing, ...result, ...end() }))
  }
  try {
    const result = await workByTopic(deps, first, end)
    const { client, orderId: order_id } = result
    const status = result.status === 'ignored' ? 'ignored' : 'duplicate'
    if (result.isWritten)
      notifyWebhooks(deps, [{ ...first, client, order_id, status: result.status }])
    else await finish(first.id, result)
    for (const { id } of others) await finish(id, { ...result, status })
    return undefined
  } catch (error) {
    for (const row of rows) {
      await finish(row.id, {
        status: 'failed',
        errorMessage: failureOf(error),
        nextAttemptAt: nextAttempt(row, error, deps.now()),
      })
    }
    const ids = rows.map(({ id }) => id)
    deps.log.warn({ webhookIds: ids, err: error }, 'webhooks not processed')
    return error
  }
}

/** Publishes that deliveries were processed or refused. */
export function notifyWebhooks(
  { database }: Pick<PaymentDeps, 'database'>,
  notices: readonly WebhookNotice[],
): void {
  for (const { id, client, order_id, topic, status } of notices) {
    database.announce(webhookChannel, JSON.stringify({ id, client, order_id, topic, status }))
  }
}

/** `CODE: sentence in English`, of which pages translate the code. */
function failureOf(error: unknown): string {
  const failure = asAppError(error, 'order.read')
  return failure instanceof AppError
    ? `${failure.code}: ${(error as Error).message}`
    : 'INTERNAL_ERROR'
}

/**
 * While the provider does not answer, all calls of the account pause, and the deliveries are due as soon as it is back. Any other
 * failure may need a person, so the waits grow.
 */
function nextAttempt(row: WebhookRow, error: unknown, now: Date): Date | null {
  if (now.getTime() - row.received_at.getTime() > keepTryingMs) return null
  const cause = providerErrorOf(error)
  const isSilent = cause !== undefined && !isAnswered(cause)
  const waitMs = isSilent ? shortestWaitMs : backoffMs(row.attempts + 1, pauses)
  return new Date(now.getTime() + waitMs)
}

async function workByTopic(
  deps: PaymentDeps,
  row: WebhookRow,
  end: () => End,
): Promise<WorkResult> {
  const resourceId = row.resource_id ?? ''
  if (/^ORD/i.test(resourceId)) return workOrder(deps, row, resourceId.toUpperCase(), end)
  if (row.topic === 'topic_chargebacks_wh') return workCase(deps, row, resourceId)
  if (row.topic === 'mp-connect') {
    // `user_id` names the seller but is not signed, and it is not documented what `data.id` names. Both are only checked.
    return checkConnections(deps, new Set([row.mp_user_id, accountFrom(resourceId)]))
  }
  return { status: 'ignored', client: null, orderId: null }
}

function accountFrom(resourceId: string): number | null {
  return /^\d{1,15}$/.test(resourceId) ? Number(resourceId) : null
}

async function workOrder(
  deps: PaymentDeps,
  row: WebhookRow,
  mpOrderId: string,
  end: () => End,
): Promise<WorkResult> {
  const { db } = deps.database
  const seenMs = performance.now()
  const found = await findOrderWithConnection(db, null, mpOrderId)
  if (!found) return workUnknownOrder(deps, row, mpOrderId)
  const { order: known, connection } = found
  const before = known.version
  const read = await refreshOrder(deps, known, serviceContext(deps, 'webhook'), {
    known: connection && { row: connection, seenMs },
    along: (after) =>
      mayHaveCases(after, row) ? undefined : { webhook: { id: row.id, ...end() } },
  })
  if (read.stale) throw new AppError('PROVIDER_ERROR', { cause: read.failure })
  if (mayHaveCases(read.order, row)) await workChargebacks(deps, read.order)
  else if (read.moved) {
    return { status: 'processed', client: known.client, orderId: known.id, isWritten: true }
  }
  const isRepeat =
    read.order.version === before && (await findProcessedWebhook(db, known.id, mpOrderId, row.id))
  return {
    status: isRepeat ? 'duplicate' : 'processed',
    client: known.client,
    orderId: known.id,
  }
}

/**
 * An order of more than three months ago cannot be read. The action is not signed, so it only makes the payments be read.
 */
function mayHaveCases(order: OrderRow, { action }: WebhookRow): boolean {
  return order.status_detail === chargedBack || action === 'order.charged_back'
}

/** The webhook is not trusted: the order is read, and it names its cases. */
async function workChargebacks(deps: PaymentDeps, order: OrderRow): Promise<void> {
  const evidence = await withAccess(deps, order.client, ({ token }) =>
    deps.provider.orders.get(token, order.mp_order_id as string),
  ).catch((error: unknown) => {
    if (error instanceof ProviderError && error.status === 404) return undefined
    throw error
  })
  await readCasesOfOrder(deps, order, evidence?.caseIds ?? [])
}

/** The number of a case is signed. The case itself names the order and account. */
async function workCase(deps: PaymentDeps, row: WebhookRow, caseId: string): Promise<WorkResult> {
  const isNumber = /^\d{1,30}$/.test(caseId)
  const taken = isNumber ? await readCaseOfWebhook(deps, row.mp_user_id, caseId) : undefined
  return {
    status: taken === undefined ? 'ignored' : 'processed',
    client: taken?.client ?? null,
    orderId: taken?.orderId ?? null,
  }
}

/** A webhook about an order whose id is not stored: an unanswered creation, an order lost by a restore, or a foreign order. */
async function workUnknownOrder(
  deps: PaymentDeps,
  row: WebhookRow,
  mpOrderId: string,
): Promise<WorkResult> {
  const adoption = await adoptFromAnyAccount(deps, row.mp_user_id, mpOrderId)
  const order =
    'order' in adoption ? adoption.order : await findOrderOfAnyClient(deps.database.db, mpOrderId)
  if (order) return { status: 'processed', client: order.client, orderId: order.id }
  const [client] =
    row.mp_user_id === null ? [] : await findClientsOfAccount(deps.database.db, row.mp_user_id)
  return { status: 'ignored', client: client ?? null, orderId: null }
}

/** An account was linked or unlinked: a call to the provider with its token shows which. */
async function checkConnections(
  deps: PaymentDeps,
  accounts: ReadonlySet<number | null>,
): Promise<WorkResult> {
  const clients: ClientName[] = []
  for (const mpUserId of accounts) {
    if (mpUserId !== null) clients.push(...(await findClientsOfAccount(deps.database.db, mpUserId)))
  }
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
