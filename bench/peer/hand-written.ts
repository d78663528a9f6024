import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { fastify } from 'fastify'
import { Pool, type PoolClient } from 'pg'
import { Agent, request as send } from 'undici'
import { newOrderBody } from '../../src/provider/point-api.ts'

// What somebody would write by hand who needs no more than this: Fastify, pg with prepared statements, the intent before the
// call, and order, event and audit entry in one transaction after it. The same calls to the provider as ours.

const { DATABASE_URL = '', PROVIDER_URL = '', WEBHOOK_SECRET = '' } = process.env
const pool = new Pool({ connectionString: DATABASE_URL, max: 10 })
const dispatcher = new Agent({ connections: 64 })
const app = fastify({ logger: { level: 'warn' } })

const texts = {
  key: 'select client, access_token from shops where key_hash = $1',
  box: 'select mp_pos_id from boxes where client = $1 and caja_id = $2',
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

const run = (on: Pool | PoolClient, name: keyof typeof texts, values: unknown[]) =>
  on.query({ name, text: texts[name], values })

async function inTransaction(work: (client: PoolClient) => Promise<void>): Promise<void> {
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

type ProviderOrder = { id: string; status: string }

type Terminals = { data: { terminals: { id: string; operating_mode: string }[] } }

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

type OrderRow = {
  id: string
  client: string
  state: string
  mp_order_id: string
  access_token: string
}

/** Reads the order at the provider, and writes what is new. */
async function refresh(order: OrderRow, webhookId?: string): Promise<string> {
  const now = await callProvider('GET', `/v1/orders/${order.mp_order_id}`, order.access_token)
  if (now.status === order.state && webhookId === undefined) return now.status
  await inTransaction(async (trx) => {
    if (now.status !== order.state) {
      await run(trx, 'update', [order.id, now.status, now.id, JSON.stringify(now)])
      await run(trx, 'event', [order.id, order.state, now.status])
    }
    if (webhookId !== undefined) await run(trx, 'worked', [webhookId])
  })
  return now.status
}

const hashOf = (key: unknown) => createHash('sha256').update(String(key)).digest('hex')

app.post<{ Body: { caja_id: string; external_reference: string; amount: string } }>(
  '/orders',
  async (request, reply) => {
    const { caja_id, external_reference, amount } = request.body
    const keys = await run(pool, 'key', [hashOf(request.headers['x-api-token'])])
    const [shop] = keys.rows
    if (!shop) return reply.code(401).send({ error: 'unauthorized' })
    const boxes = await run(pool, 'box', [shop.client, caja_id])
    const [box] = boxes.rows
    if (!box) return reply.code(404).send({ error: 'no such box' })
    const path = `/terminals/v1/list?pos_id=${box.mp_pos_id}`
    const { data } = await callProvider<Terminals>('GET', path, shop.access_token)
    const terminal = data.terminals.find(({ operating_mode }) => operating_mode === 'PDV')
    if (!terminal) return reply.code(409).send({ error: 'no terminal' })
    const id = randomUUID()
    const amountCents = Math.round(Number(amount.replace(',', '.')) * 100)
    const values = [id, shop.client, caja_id, external_reference, amountCents]
    if ((await run(pool, 'intent', values)).rowCount === 0) {
      return reply.code(409).send({ error: 'exists' })
    }
    const content = newOrderBody({
      externalReference: external_reference,
      amountCents,
      terminalId: terminal.id,
      expirationMinutes: 16,
      printTicket: false,
      ticketNumber: null,
      paymentMethod: 'all',
      description: null,
    })
    const made = await callProvider('POST', '/v1/orders', shop.access_token, { key: id, content })
    await inTransaction(async (trx) => {
      await run(trx, 'update', [id, made.status, made.id, JSON.stringify(made)])
      await run(trx, 'event', [id, 'intent', made.status])
      const detail = JSON.stringify({ amount, caja_id })
      await run(trx, 'audit', [shop.client, 'order.created', id, detail])
    })
    return reply.code(201).send({ order_id: id, status: made.status, mp_order_id: made.id })
  },
)

app.get<{ Params: { id: string } }>('/orders/:id', async (request, reply) => {
  const { rows } = await run(pool, 'order', [
    request.params.id,
    hashOf(request.headers['x-api-token']),
  ])
  const [order] = rows as OrderRow[]
  if (!order) return reply.code(404).send({ error: 'no such order' })
  return { order_id: order.id, status: await refresh(order), mp_order_id: order.mp_order_id }
})

app.post<{ Querystring: { 'data.id': string } }>('/webhooks', async (request, reply) => {
  const dataId = request.query['data.id']
  const requestId = String(request.headers['x-request-id'])
  const [, ts = '', v1 = ''] =
    /ts=(\d+),v1=([0-9a-f]{64})/.exec(String(request.headers['x-signature'])) ?? []
  const manifest = `id:${dataId.toLowerCase()};request-id:${requestId};ts:${ts};`
  const wanted = createHmac('sha256', WEBHOOK_SECRET).update(manifest).digest()
  if (!timingSafeEqual(Buffer.from(v1.padEnd(64, '0'), 'hex'), wanted)) {
    return reply.code(401).send({ error: 'unauthorized' })
  }
  const id = randomUUID()
  const stored = await run(pool, 'webhook', [id, requestId, dataId, JSON.stringify(request.body)])
  if (stored.rowCount === 1) {
    workWebhook(id, dataId).catch((error: unknown) => app.log.error(error))
  }
  return {}
})

async function workWebhook(id: string, mpOrderId: string): Promise<void> {
  const { rows } = await run(pool, 'orderOfProvider', [mpOrderId])
  const [order] = rows as OrderRow[]
  if (order) await refresh(order, id)
}

await app.listen({ host: '127.0.0.1', port: 0 })
process.send?.({ url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}` })
process.once('disconnect', () => process.exit())
