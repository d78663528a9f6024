import { randomUUID } from 'node:crypto'
import { newOrderBody } from '../src/provider/point-api.ts'
import { asAdmin, payByCard } from '../test/support/till.ts'
import { inLanes, isEmbedded, quantile, type Shop, say, withService } from './bench-service.ts'
import { wholeOptions } from './whole-options.ts'

// What does a charge cost beyond the provider's own work? Charges per second through our API, each with its intent, its
// audit entry and its order row committed, against the sandbox provider called directly with the same body. Both take
// turns on the same terminals; only the charges are timed, the buyers pay in between.
// Run: npm run bench -- charges [--rounds n]; 8 on PostgreSQL, 1 on the embedded database.

const shopCount = 32
const inHand = [1, 8]

const { rounds } = wholeOptions({ rounds: isEmbedded ? 1 : 8 })

await withService(shopCount, async ({ service, engine, shops, send, at }) => {
  const { url } = service.sandbox
  const tokens = new Map<Shop, string>()
  for (const shop of shops) {
    const path = `/admin/clients/${encodeURIComponent(shop.client)}`
    tokens.set(shop, (await asAdmin(service, { url: path })).json().oauth.access_token)
  }
  const made: { shop: Shop; orderId: unknown }[] = []
  const ours = async (shop: Shop) => {
    const { order_id } = await send('POST', at('/orders'), {
      headers: { 'x-api-token': shop.key },
      body: { caja_id: 'CAJA-1', external_reference: randomUUID(), amount: '1234,50' },
    })
    made.push({ shop, orderId: order_id })
  }
  const bare = async (shop: Shop) => {
    await send('POST', `${url}/v1/orders`, {
      headers: {
        authorization: `Bearer ${tokens.get(shop)}`,
        'x-idempotency-key': randomUUID(),
      },
      body: newOrderBody({
        externalReference: randomUUID(),
        amountCents: 123_450,
        terminalId: shop.terminalId,
        expirationMinutes: 16,
        printTicket: false,
        ticketNumber: null,
        paymentMethod: 'all',
        description: null,
      }),
    })
  }
  /** Frees the terminals, and lets the service see that they are. */
  const pay = async () => {
    const open = service.sandbox.ledger().orders.filter(({ status }) => status === 'created')
    await inLanes(open, 8, async ({ id }) => {
      await send('POST', `${url}/_sandbox/orders/${id}/act`, { body: payByCard })
    })
    await inLanes(made.splice(0), 8, async ({ shop, orderId }) => {
      await send('GET', at(`/orders/${orderId}`), { headers: { 'x-api-token': shop.key } })
    })
  }
  /** Charges per second of one round over all terminals. */
  const round = async (charge: (shop: Shop) => Promise<void>, atOnce: number) => {
    const startedAt = performance.now()
    await inLanes(shops, atOnce, charge)
    const seconds = (performance.now() - startedAt) / 1_000
    await pay()
    return shops.length / seconds
  }

  say(`charges on ${engine}, ${shopCount} per round, median of ${rounds} rounds`)
  await round(ours, 8)
  await round(bare, 8)
  for (const atOnce of inHand) {
    const rates: { ours: number; bare: number }[] = []
    for (let turn = 0; turn < rounds; turn += 1) {
      rates.push({ bare: await round(bare, atOnce), ours: await round(ours, atOnce) })
    }
    const median = (list: number[]) => quantile(list, 0.5)
    const ratio = median(rates.map((rate) => rate.ours / rate.bare))
    say(
      `  ${atOnce} in hand: ours ${median(rates.map((rate) => rate.ours)).toFixed(0)}/s, ` +
        `provider alone ${median(rates.map((rate) => rate.bare)).toFixed(0)}/s, ratio ${ratio.toFixed(2)}`,
    )
  }
})
