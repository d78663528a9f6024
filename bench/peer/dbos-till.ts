import { DBOS } from '@dbos-inc/dbos-sdk'
import {
  type ChargeBody,
  centsOf,
  clientOf,
  createApp,
  createAtProvider,
  databaseUrl,
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

// What a programmer would write on DBOS, a library for workflows that end although the process dies: a charge is a workflow, and so is
// the work of a webhook. Each of its steps is stored when it has ended.

const app = createApp()

type Sale = { id: string; client: string; box: string; reference: string; amountCents: number }

const charge = DBOS.registerWorkflow(
  async (sale: Omit<Sale, 'id'>) => {
    const { rows } = await run(pool, 'box', [sale.client, sale.box])
    if (!rows[0]) return { error: 'no such box' }
    const { mp_pos_id, access_token: token } = rows[0]
    const terminalId = await DBOS.runStep(() => freeTerminal(mp_pos_id, token), {
      name: 'terminal',
    })
    if (terminalId === undefined) return { error: 'no terminal' }
    const id = await DBOS.randomUUID()
    const isNew = await DBOS.runStep(() => writeIntent({ ...sale, id }), { name: 'intent' })
    if (!isNew) return { error: 'exists' }
    const made = await DBOS.runStep(() => createAtProvider({ ...sale, id, terminalId }, token), {
      name: 'create',
      retriesAllowed: true,
    })
    await DBOS.runStep(() => writeMade({ ...sale, id }, made), { name: 'record' })
    return { order_id: id, status: made.status, mp_order_id: made.id }
  },
  { name: 'charge' },
)

async function writeIntent({ id, client, box, reference, amountCents }: Sale): Promise<boolean> {
  const { rowCount } = await run(pool, 'intent', [id, client, box, reference, amountCents])
  return rowCount === 1
}

const workWebhook = DBOS.registerWorkflow(
  async (webhookId: string, mpOrderId: string, body: unknown) => {
    const { rows } = await run(pool, 'orderOfProvider', [mpOrderId])
    const [order] = rows as OrderRow[]
    if (!order) return
    const now = await DBOS.runStep(() => readAtProvider(order.mp_order_id, order.access_token), {
      name: 'read',
      retriesAllowed: true,
    })
    await DBOS.runStep(
      async () => {
        await run(pool, 'webhook', [webhookId, webhookId, mpOrderId, JSON.stringify(body)])
        await writeNews(order, now, webhookId)
      },
      { name: 'record' },
    )
  },
  { name: 'webhook' },
)

app.post<{ Body: ChargeBody }>('/orders', async (request, reply) => {
  const { caja_id: box, external_reference: reference, amount } = request.body
  const client = await clientOf(request)
  if (client === undefined) return reply.code(401).send({ error: 'unauthorized' })
  const workflowID = `${client} ${reference}`
  const started = await DBOS.startWorkflow(charge, { workflowID })({
    ...{ client, box, reference, amountCents: centsOf(amount) },
  })
  const made = await started.getResult()
  return reply.code('error' in made ? 409 : 201).send(made)
})

app.post<{ Querystring: { 'data.id': string } }>('/webhooks', async (request, reply) => {
  const dataId = request.query['data.id']
  const requestId = signedRequestId(request, dataId)
  if (requestId === undefined) return reply.code(401).send({ error: 'unauthorized' })
  // Stored with its workflow; the row for lists is written at its end.
  await DBOS.startWorkflow(workWebhook, { workflowID: requestId })(requestId, dataId, request.body)
  return {}
})

DBOS.setConfig({ name: 'till', systemDatabaseUrl: databaseUrl, logLevel: 'warn' })
await DBOS.launch()
await serve(app)
