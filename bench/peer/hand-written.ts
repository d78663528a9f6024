import { randomUUID } from 'node:crypto'
import {
  type ChargeBody,
  centsOf,
  clientOf,
  createApp,
  createAtProvider,
  freeTerminal,
  type OrderRow,
  pool,
  readAtProvider,
  run,
  serve,
  signedRequestId,
  writeMade,
  writeNews,
} from './till-parts.ts'

// What a programmer would write by hand who needs no more than this: the intent before the call, and order, event and audit entry in
// one transaction after it.

const app = createApp()

app.post<{ Body: ChargeBody }>('/orders', async (request, reply) => {
  const { caja_id: box, external_reference: reference, amount } = request.body
  const client = await clientOf(request)
  if (client === undefined) return reply.code(401).send({ error: 'unauthorized' })
  const { rows } = await run(pool, 'box', [client, box])
  if (!rows[0]) return reply.code(404).send({ error: 'no such box' })
  const { mp_pos_id, access_token: token } = rows[0]
  const terminalId = await freeTerminal(mp_pos_id, token)
  if (terminalId === undefined) return reply.code(409).send({ error: 'no terminal' })
  const sale = { id: randomUUID(), client, box, reference, amountCents: centsOf(amount) }
  const intent = [sale.id, client, box, reference, sale.amountCents]
  if ((await run(pool, 'intent', intent)).rowCount === 0) {
    return reply.code(409).send({ error: 'exists' })
  }
  const made = await createAtProvider({ ...sale, terminalId }, token)
  await writeMade(sale, made)
  return reply.code(201).send({ order_id: sale.id, status: made.status, mp_order_id: made.id })
})

app.post<{ Querystring: { 'data.id': string } }>('/webhooks', async (request, reply) => {
  const dataId = request.query['data.id']
  const requestId = signedRequestId(request, dataId)
  if (requestId === undefined) return reply.code(401).send({ error: 'unauthorized' })
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
  if (order) await writeNews(order, await readAtProvider(order.mp_order_id, order.access_token), id)
}

await serve(app)
