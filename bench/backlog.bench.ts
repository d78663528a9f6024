import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { insertDueRows } from '../test/support/due.ts'
import { payByCard } from '../test/support/till.ts'
import { inLanes, isEmbedded, type Shop, say, withService } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// How fast is a backlog of webhooks worked off, as it is there after an outage or a crash? Each order was refunded in the
// provider's panel meanwhile, and several signed webhooks about it wait; the time runs until each of them has its end.
// Beside it, of the same orders in the same run, bare GETs by their tills, 16 in progress: each reads the provider once.
// Run: npm run bench -- backlog [--orders n] [--each n]; 500 orders on PostgreSQL and 60 embedded, 4 webhooks each.

const shopCount = 4
const inHand = 16
const goalPerSecond = 50

const { orders, each } = wholeOptions({ orders: isEmbedded ? 60 : 500, each: 4 })

await withService(shopCount, async ({ service, engine, shops, send, at }) => {
  const sold: { shop: Shop; orderId: string; mpOrderId: string }[] = []
  const readOrder = ({ shop, orderId }: { shop: Shop; orderId: string }) =>
    send('GET', at(`/orders/${orderId}`), { headers: { 'x-api-token': shop.key } })
  const act = (mpOrderId: string, body: object) =>
    send('POST', `${service.sandbox.url}/_sandbox/orders/${mpOrderId}/act`, { body })
  const sell = async (shop: Shop) => {
    const { order_id } = await send('POST', at('/orders'), {
      headers: { 'x-api-token': shop.key },
      body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
    })
    const orderId = String(order_id)
    const mpOrderId = String((await readOrder({ shop, orderId })).mp_order_id)
    await act(mpOrderId, payByCard)
    await readOrder({ shop, orderId })
    sold.push({ shop, orderId, mpOrderId })
  }
  await inLanes(shops, shopCount, async (shop) => {
    for (let sale = 0; sale < orders / shopCount; sale += 1) await sell(shop)
  })

  const rateOf = async (count: number, work: () => Promise<unknown>) => {
    const startedAt = performance.now()
    await work()
    return count / ((performance.now() - startedAt) / 1_000)
  }
  const bare = await rateOf(sold.length, () =>
    inLanes(sold, inHand, async (sale) => void (await readOrder(sale))),
  )

  await inLanes(
    sold,
    inHand,
    async ({ mpOrderId }) => void (await act(mpOrderId, { do: 'refund' })),
  )
  const ids = sold.map(({ mpOrderId }) => mpOrderId)
  const backlog = Array.from({ length: each }, () => ids).flat()
  await (await insertDueRows(service, sold[0]?.orderId ?? '')).webhooks(backlog)
  const count = async (status: 'received' | 'failed') => {
    const rows = service.database.db.selectFrom('webhook_log').where('status', '=', status)
    const { found } = await rows
      .select((eb) => eb.fn.countAll<number>().as('found'))
      .executeTakeFirstOrThrow()
    return Number(found)
  }
  const worked = await rateOf(backlog.length, async () => {
    service.inbox.start()
    while ((await count('received')) > 0) await wait(20)
  })
  const failed = await count('failed')
  if (failed > 0) throw new Error(`${failed} webhooks not processed`)
  const refunded = await service.database.db
    .selectFrom('orders')
    .select('id')
    .where('status', '=', 'refunded')
    .execute()
  if (refunded.length < sold.length) throw new Error('a refund stayed unknown')
  const reads = worked / each
  say(`a backlog of ${backlog.length} webhooks about ${sold.length} orders on ${engine}`)
  say(
    `  worked off ${worked.toFixed(0)} webhooks/s, ${reads.toFixed(0)} orders/s; bare GETs ${bare.toFixed(0)}/s, ` +
      `ratio ${(reads / bare).toFixed(2)}`,
  )
  if (worked < goalPerSecond) throw new Error(`fewer than ${goalPerSecond} webhooks a second`)
})
