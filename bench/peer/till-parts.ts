import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { type FastifyInstance, type FastifyRequest, fastify } from 'fastify'
import { Pool, type PoolClient } from 'pg'
import { Agent, request as send } from 'undici'
import { newOrderBody } from '../../src/provider/point-api.ts'

// What the programs beside ours have in common: Fastify, prepared statements of pg on the tables of schema.ts, and the same calls
// to the provider as ours.

const { DATABASE_URL = '', PROVIDER_URL = '', WEBHOOK_SECRET = '' } = process.env
export const databaseUrl = DATABASE_URL
export const pool = new Pool({ connectionString: DATABASE_URL, max: 10 })
const dispatcher = new Agent({ connections: 64 })

const texts = {
  key: 'select client, access_token from shops where key_hash = $1',
  box: `select b.mp_pos_id, s.access_token from boxes b join shops s using (client) where b.client = $1 and b.caja_id = $2`,
  intent: `insert into orders (id, client, caja_id, external_reference, amount_cents, state)
    values ($1, $2, $3, $4, $5, 'intent') on conflict (client, external_reference) do nothing returning id`,
  update:
    'update orders set state = $2, mp_order_id = $3, payload = $4, updated_at = now() where id = $1',
  event: 'insert into order_events (order_id, from_state, to_state) values ($1, $2, $3)',
  audit: 'insert into audit (client, action, resource_id, detail) values ($1, $2, $3, $4)',
  order: `select o.*, s.access_token from orders o join shops s using (client)
    where o.id = $1 and s.key_hash = $2`,
  orderOfProvider:
    'select o.*, s.access_token from orders o join shops s using (client) where o.mp_order_id = $1',
  webhook: `insert into webhook_log (id, request_id, resource_id, status, payload)
    values ($1, $2, $3, 'received', $4) on conflict (request_id) do nothing returning id`,
  worked: `update webhook_log set status = 'processed', processed_at = now() where id = $1`,
} as const

export const run = (on: Pool | PoolClient, name: keyof typeof texts, values: unknown[]) =>
  on.query({ name, text: texts[name], values })

export async function inTransaction(work: (client: PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await work(client)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

export type ProviderOrder = { id: string; status: string }

async function callProvider<Answer = ProviderOrder>(
  method: 'GET' | 'POST',
  path: string,
  token: string,
  body?: { key: string; content: object },
): Promise<Answer> {
  const answer = await send(PROVIDER_URL + path, {
    method,
    dispatcher,
    headersTimeout: 10_000,
    bodyTimeout: 10_000,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body && { 'content-type': 'application/json', 'x-idempotency-key': body.key }),
    },
    body: body ? JSON.stringify(body.content) : null,
  })
  const text = await answer.body.text()
  if (answer.statusCode >= 300) throw new Error(`${path}: ${answer.statusCode} ${text}`)
  return JSON.parse(text)
}

type Terminals = { data: { terminals: { id: string; operating_mode: string }[] } }

/** A terminal of the box that takes orders; undefined when it has none. */
export async function freeTerminal(posId: string, token: string): Promise<string | undefined> {
  const path = `/terminals/v1/list?pos_id=${posId}`
  const { data } = await callProvider<Terminals>('GET', path, token)
  return data.terminals.find(({ operating_mode }) => operating_mode === 'PDV')?.id
}

export function createAtProvider(
  sale: { id: string; reference: string; amountCents: number; terminalId: string },
  token: string,
): Promise<ProviderOrder> {
  const content = newOrderBody({
    externalReference: sale.reference,
    amountCents: sale.amountCents,
    terminalId: sale.terminalId,
    expirationMinutes: 16,
    printTicket: false,
    ticketNumber: null,
    paymentMethod: 'all',
    description: null,
  })
  return callProvider('POST', '/v1/orders', token, { key: sale.id, content })
}

export const readAtProvider = (mpOrderId: string, token: string): Promise<ProviderOrder> =>
  callProvider('GET', `/v1/orders/${mpOrderId}`, token)

export type OrderRow = {
  id: string
  client: string
  state: string
  mp_order_id: string
  access_token: string
}

/** Writes what the provider says of an order; also that a webhook about it is worked, when one is named. */
export async function writeNews(
  order: OrderRow,
  now: ProviderOrder,
  webhookId?: string,
): Promise<void> {
  if (now.status === order.state && webhookId === undefined) return
  await inTransaction(async (trx) => {
    if (now.status !== order.state) {
      await run(trx, 'update', [order.id, now.status, now.id, JSON.stringify(now)])
      await run(trx, 'event', [order.id, order.state, now.status])
    }
    if (webhookId !== undefined) await run(trx, 'worked', [webhookId])
  })
}

/** Writes an order that the provider has made, with its event and its entry of the audit log. */
export async function writeMade(
  sale: { id: string; client: string; box: string; amountCents: number },
  made: ProviderOrder,
): Promise<void> {
  await inTransaction(async (trx) => {
    await run(trx, 'update', [sale.id, made.status, made.id, JSON.stringify(made)])
    await run(trx, 'event', [sale.id, 'intent', made.status])
    const detail = JSON.stringify({ amount_cents: sale.amountCents, caja_id: sale.box })
    await run(trx, 'audit', [sale.client, 'order.created', sale.id, detail])
  })
}

const hashOf = (key: unknown) => createHash('sha256').update(String(key)).digest('hex')

export type ChargeBody = { caja_id: string; external_reference: string; amount: string }

export const centsOf = (amount: string) => Math.round(Number(amount.replace(',', '.')) * 100)

/** The client of the request's key; undefined for an unknown key. */
export async function clientOf({ headers }: FastifyRequest): Promise<string | undefined> {
  const { rows } = await run(pool, 'key', [hashOf(headers['x-api-token'])])
  return rows[0]?.client
}

/** The id of the delivery that a signed webhook carries; undefined when the signature is wrong. */
export function signedRequestId(request: FastifyRequest, dataId: string): string | undefined {
  const requestId = String(request.headers['x-request-id'])
  const [, ts = '', v1 = ''] =
    /ts=(\d+),v1=([0-9a-f]{64})/.exec(String(request.headers['x-signature'])) ?? []
  const manifest = `id:${dataId.toLowerCase()};request-id:${requestId};ts:${ts};`
  const wanted = createHmac('sha256', WEBHOOK_SECRET).update(manifest).digest()
  const isSigned = timingSafeEqual(Buffer.from(v1.padEnd(64, '0'), 'hex'), wanted)
  return isSigned ? requestId : undefined
}

export const createApp = (): FastifyInstance => {
  const app = fastify({ logger: { level: 'warn' } })
  app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
    const key = hashOf(request.headers['x-api-token'])
    const { rows } = await run(pool, 'order', [request.params.id, key])
    const [order] = rows as OrderRow[]
    if (!order) return reply.code(404).send({ error: 'no such order' })
    const now = await readAtProvider(order.mp_order_id, order.access_token)
    await writeNews(order, now)
    return { order_id: order.id, status: now.status, mp_order_id: order.mp_order_id }
  })
  return app
}

/** Listens, tells the bench where, and ends with it. */
export async function serve(app: FastifyInstance): Promise<void> {
  await app.listen({ host: '127.0.0.1', port: 0 })
  process.send?.({ url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}` })
  process.once('disconnect', () => process.exit())
}
