import { createHmac, randomUUID } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import type { LedgerOrder } from '../../sandbox/ledger.ts'
import type { TestService } from './service.ts'
import { asAdmin, call, openShop, readOrder, sandboxCall, type Till } from './till.ts'

export type FaultRule = {
  path: string
  method?: string
  kind: string
  count?: number
  chance?: number
  seed?: number
  delay_ms?: number
  status?: number
  retry_after?: number
  code?: string
  cause?: number
  user_id?: number
  skip?: number
  form?: 'provider' | 'bare' | 'html'
  answer?: 'cut' | 'hang' | 'status'
  ends?: 'processed' | 'failed'
}

export const creation: Pick<FaultRule, 'path' | 'method'> = { path: '^/v1/orders$', method: 'POST' }
export const reading: Pick<FaultRule, 'path' | 'method'> = {
  path: '^/v1/orders/ORD',
  method: 'GET',
}
export const canceling: Pick<FaultRule, 'path' | 'method'> = { path: '/cancel$', method: 'POST' }
export const refunding: Pick<FaultRule, 'path' | 'method'> = { path: '/refund$', method: 'POST' }

/** Sets the fault rules of the provider, until `clearFaults`. */
export async function setFaults(service: TestService, ...rules: FaultRule[]): Promise<void> {
  await sandboxCall(service, 'PUT', '/_sandbox/faults', rules)
}

export async function clearFaults(service: TestService): Promise<void> {
  await sandboxCall(service, 'DELETE', '/_sandbox/faults')
}

export type ProviderRequest = {
  method: string
  path: string
  query: string
  headers: Record<string, string>
  body: Record<string, unknown> | null
  status: number | null
  user_id: number | null
  seq: number
  fault: string | null
}

/** The requests that reached the provider since `forgetRequests`. */
export async function providerRequests(
  service: TestService,
  rule?: Pick<FaultRule, 'path' | 'method'>,
): Promise<ProviderRequest[]> {
  const { requests } = (await sandboxCall(service, 'GET', '/_sandbox/requests')) as {
    requests: ProviderRequest[]
  }
  return requests.filter(
    ({ method, path }) => !rule || (method === rule.method && new RegExp(rule.path).test(path)),
  )
}

export async function forgetRequests(service: TestService): Promise<void> {
  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
}

/** The provider's own orders of an account, oldest first. */
export function ordersAtProvider(
  service: TestService,
  till: Pick<Till, 'mpUserId'>,
): LedgerOrder[] {
  return service.sandbox.ledger().orders.filter(({ user_id }) => user_id === till.mpUserId)
}

/** The local row of an order. */
export async function orderRow(service: TestService, orderId: string) {
  return service.database.db
    .selectFrom('orders')
    .selectAll()
    .where('id', '=', orderId)
    .executeTakeFirstOrThrow()
}

/** Cancels and refunds of an order, oldest first. */
export async function operationsOf(service: TestService, orderId: string) {
  return service.database.db
    .selectFrom('order_operations')
    .selectAll()
    .where('order_id', '=', orderId)
    .orderBy('created_at')
    .execute()
}

/** Audit entries of a client, oldest first. */
export async function auditOf(service: TestService, client: string, action?: string) {
  const query = `client=${encodeURIComponent(client)}&limit=200${action ? `&action=${action}` : ''}`
  const { logs } = (await asAdmin(service, { url: `/admin/activity?${query}` })).json()
  return (logs as Record<string, unknown>[]).toReversed()
}

export function cancel(
  service: TestService,
  till: Pick<Till, 'key'>,
  orderId: string,
): Promise<LightMyRequestResponse> {
  return call(service, { url: '/orders/cancel', token: till.key, body: { order_id: orderId } })
}

export function refund(
  service: TestService,
  till: Pick<Till, 'key'>,
  orderId: string,
  amount?: string,
  key?: string,
): Promise<LightMyRequestResponse> {
  return call(service, {
    url: '/orders/refund',
    token: till.key,
    headers: key === undefined ? {} : { 'idempotency-key': key },
    body: { order_id: orderId, ...(amount !== undefined && { amount }) },
  })
}

export function simulate(
  service: TestService,
  orderId: string,
  event: Record<string, unknown>,
): Promise<LightMyRequestResponse> {
  return asAdmin(service, { url: `/admin/orders/${orderId}/simulate`, body: event })
}

/** Signs a webhook as the provider does (provider file 6.4): the id in lower case. */
export function signature(
  secret: string,
  parts: { dataId?: string; requestId?: string; ts: string },
): string {
  const id = parts.dataId === undefined ? '' : `id:${parts.dataId.toLowerCase()};`
  const request = parts.requestId === undefined ? '' : `request-id:${parts.requestId};`
  const manifest = `${id}${request}ts:${parts.ts};`
  return `ts=${parts.ts},v1=${createHmac('sha256', secret).update(manifest).digest('hex')}`
}

export type Webhook = {
  dataId: string
  type?: string
  requestId?: string
  ts?: string
  body?: unknown
}

/** Delivers a rightly signed webhook and waits until it is worked. */
export async function deliver(
  service: TestService,
  webhook: Webhook,
): Promise<LightMyRequestResponse> {
  const { dataId, type = 'order', requestId = randomUUID() } = webhook
  const ts = webhook.ts ?? String(service.clock.now().getTime())
  const [secret = ''] = service.sandbox.info.webhook_secrets
  const response = await call(service, {
    method: 'POST',
    url: `/webhooks?data.id=${encodeURIComponent(dataId)}&type=${type}`,
    headers: {
      'x-signature': signature(secret, { dataId, requestId, ts }),
      'x-request-id': requestId,
    },
    body: webhook.body ?? { type, action: 'order.processed', data: { id: dataId } },
  })
  await service.inbox.idle()
  return response
}

/** One round of the sweeper, `ms` later. */
export async function sweepAfter(service: TestService, ms: number): Promise<void> {
  service.clock.advance(ms)
  await service.sweeper.sweepOnce()
}

/** Reads an order of unknown outcome, lets the sweeper do what that read has left to it, and reads again. */
export async function readResolved(
  service: TestService,
  till: Till,
  orderId: string,
): Promise<LightMyRequestResponse> {
  await readOrder(service, till, orderId)
  await service.sweeper.sweepOnce()
  return readOrder(service, till, orderId)
}

let account = 7_000_000

/** An account number of the provider that no other test uses. */
export function newAccount(): string {
  account += 1
  return String(account)
}

/**
 * Background work leaves out every shop that was opened so far: none is connected any more, and no order is due. For
 * `afterEach`, where each test opens its own shop and has rounds run: a round takes all shops and all that is due.
 */
export async function retireShops({ database: { db } }: TestService): Promise<void> {
  await db.deleteFrom('oauth_connections').execute()
  await db.updateTable('orders').set({ next_check_at: null }).execute()
}

const openedOn = new WeakMap<object, Map<string, number>>()

/**
 * A shop (see openShop) on a provider account of its own. A name that is asked for again, as by the second try of a test,
 * gets a number.
 */
export function openOwnShop(service: TestService, client: string) {
  const opened = openedOn.get(service.database) ?? new Map<string, number>()
  openedOn.set(service.database, opened)
  const times = (opened.get(client) ?? 0) + 1
  opened.set(client, times)
  return openShop(service, times === 1 ? client : `${client} ${times}`, newAccount())
}

/** A refund made in the provider's panel, beside the service; without an amount of all that is left. */
export async function sandboxRefund(
  service: TestService,
  book: LedgerOrder,
  amount?: string,
): Promise<void> {
  const row = await service.database.db
    .selectFrom('orders')
    .select('client')
    .where('mp_order_id', '=', book.id)
    .executeTakeFirstOrThrow()
  const { access_token } = (
    await asAdmin(service, { url: `/admin/clients/${encodeURIComponent(row.client)}` })
  ).json().oauth
  const response = await fetch(`${service.sandbox.url}/v1/orders/${book.id}/refund`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${access_token}`,
      'content-type': 'application/json',
      'x-idempotency-key': randomUUID(),
    },
    ...(amount !== undefined && {
      body: JSON.stringify({ transactions: [{ id: book.payments[0]?.id, amount }] }),
    }),
  })
  if (!response.ok) throw new Error(`the panel could not refund: ${await response.text()}`)
}
