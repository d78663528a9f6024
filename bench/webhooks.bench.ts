import { randomUUID } from 'node:crypto'
import { signature } from '../test/support/money.ts'
import { payByCard } from '../test/support/till.ts'
import {
  type BenchService,
  inLanes,
  isEmbedded,
  quantile,
  type Shop,
  say,
  withService,
} from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// How long after the provider's webhook does a till know? A till follows each order by long-poll; the time runs from the
// sending of the webhook, which makes the service read the provider, to the moment the till has the paid order. Beside it, of the
// same orders in the same run, a bare GET of the order, which also reads the provider: the cost of each read of a till that polls.
// Run: npm run bench -- webhooks [--orders n]; 500 on PostgreSQL, 60 on the embedded database.

const lanes = 4
const settleMs = 100

type Times = { longPoll: number[]; bare: number[] }

async function sell(bench: BenchService, shop: Shop, times: Times): Promise<void> {
  const { send, at, service } = bench
  const headers = { 'x-api-token': shop.key }
  const charged = await send('POST', at('/orders'), {
    headers,
    body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
  })
  const path = `/orders/${charged.order_id}`

  const askedAt = performance.now()
  const order = await send('GET', at(path), { headers })
  times.bare.push(performance.now() - askedAt)

  const polled = send('GET', at(`${path}?wait=30&version=${order.version}`), { headers }).then(
    (answer) => ({ answer, at: performance.now() }),
  )
  // The first status check of the long-poll must be over, or it would find the payment by itself.
  await new Promise((resolve) => setTimeout(resolve, settleMs))

  const orderId = String(order.mp_order_id)
  await send('POST', `${service.sandbox.url}/_sandbox/orders/${orderId}/act`, { body: payByCard })
  const requestId = randomUUID()
  const ts = String(Date.now())
  const [secret = ''] = service.sandbox.info.webhook_secrets
  const sentAt = performance.now()
  const delivered = send('POST', at(`/webhooks?data.id=${orderId}&type=order`), {
    headers: {
      'x-request-id': requestId,
      'x-signature': signature(secret, { dataId: orderId, requestId, ts }),
    },
    body: { type: 'order', action: 'order.processed', data: { id: orderId } },
  })
  const [{ answer, at: polledAt }] = await Promise.all([polled, delivered])
  if (answer.status !== 'processed') throw new Error(`the long-poll answered ${answer.status}`)
  times.longPoll.push(polledAt - sentAt)
}

const { orders } = wholeOptions({ orders: isEmbedded ? 60 : 500 })

await withService(lanes, async (bench) => {
  const times: Times = { longPoll: [], bare: [] }
  const shopsInTurn = (count: number) =>
    Array.from({ length: lanes }, (_, lane) => ({
      shop: bench.shops[lane] as Shop,
      count: Math.floor(count / lanes),
    }))
  const run = (count: number) =>
    inLanes(shopsInTurn(count), lanes, async ({ shop, count: own }) => {
      for (let sale = 0; sale < own; sale += 1) await sell(bench, shop, times)
    })
  await run(10 * lanes)
  for (const list of Object.values(times)) list.length = 0
  const startedAt = performance.now()
  await run(orders)
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(0)
  say(`webhook in, till out on ${bench.engine}: ${orders} orders, ${lanes} at a time, ${seconds} s`)
  const names = { bare: 'bare GET', longPoll: 'long-poll' }
  for (const [name, label] of Object.entries(names)) {
    const list = times[name as keyof Times]
    const figures = [0.5, 0.99].map((share) => {
      const ratio = quantile(list, share) / quantile(times.bare, share)
      return `p${share * 100} ${quantile(list, share).toFixed(1)} ms (ratio ${ratio.toFixed(2)})`
    })
    say(`  ${label}: ${figures.join(', ')}`)
  }
})
