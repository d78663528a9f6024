import { request } from 'undici'
import { jsonFlow, startTestFlows } from '../test/support/flows.ts'
import { adminToken } from '../test/support/service.ts'
import { type BenchService, quantile, say, withService } from './bench-service.ts'
import { fillFlow, fillOrders, fillShops } from './page-data.ts'
import { muchData, wholeOptions } from './whole-options.ts'

// How long do the routes take that the two pages call, and what do their answers weigh, when there is much of everything?
// Fails when one takes too long.
// Run: npm run bench -- page-routes [--orders 10000] [--items 100000] [--clients 40] [--boxes 200] [--times 50]

const mostMs = 200

const { orders, items, clients, boxes, times } = wholeOptions({ ...muchData, times: 50 })

/** Asks one after the other, as a page does; answers the last body. */
async function measure(bench: BenchService, label: string, url: string): Promise<string> {
  const spent: number[] = []
  let text = ''
  let onLine = 0
  for (let time = 0; time < times; time += 1) {
    const startedAt = performance.now()
    const { statusCode, body } = await request(url, {
      dispatcher: bench.agent,
      headers: { 'x-api-token': adminToken },
    })
    text = await body.text()
    spent.push(performance.now() - startedAt)
    if (statusCode !== 200) throw new Error(`${url}: ${statusCode} ${text}`)
  }
  const packed = await request(url, {
    dispatcher: bench.agent,
    headers: { 'x-api-token': adminToken, 'accept-encoding': 'br, gzip' },
  })
  onLine = (await packed.body.arrayBuffer()).byteLength
  const p50 = quantile(spent, 0.5)
  const p99 = quantile(spent, 0.99)
  const isSlow = p50 > mostMs
  if (isSlow) process.exitCode = 1
  say(
    `  ${label.padEnd(44)} p50 ${p50.toFixed(1).padStart(6)} ms  p99 ${p99.toFixed(1).padStart(6)} ms  ` +
      `${(Buffer.byteLength(text) / 1024).toFixed(1).padStart(6)} KB, ${(onLine / 1024).toFixed(1)} on the line` +
      `${isSlow ? `  TOO SLOW: at most ${mostMs} ms` : ''}`,
  )
  return text
}

async function compare(bench: BenchService): Promise<void> {
  const [shop] = bench.shops
  if (!shop) throw new Error('there is no shop')
  const { database } = bench.service
  await fillShops(database, shop, { clients, boxes })
  const order = await fillOrders(database, shop, orders)
  const flows = await startTestFlows({
    service: bench.service,
    files: {
      'articulos.flow.yaml': jsonFlow('articulos', 'http://127.0.0.1:9'),
      'articulos.json': [],
    },
  })
  await fillFlow(database, 'articulos', items)
  const control = await flows.app.listen({ host: '127.0.0.1', port: 0 })
  const client = encodeURIComponent(shop.client)
  const day = new Date(Date.now() - 86_400_000).toISOString()
  const month = new Date(Date.now() - 31 * 86_400_000).toISOString()
  try {
    say(
      `${orders} orders, ${clients} clients, ${boxes} boxes of one, ${items} items, ${bench.engine}`,
    )
    const ask = (label: string, path: string) => measure(bench, label, bench.at(path))
    await ask('health', '/health')
    await ask('clients', '/admin/clients')
    await ask('keys', '/api-keys')
    await ask('statistics of a day, all clients', `/admin/statistics?from=${day}`)
    await ask('statistics of a day, one client', `/admin/statistics?from=${day}&client=${client}`)
    await ask('statistics of a month, all clients', `/admin/statistics?from=${month}`)
    const list = JSON.parse(await ask('orders, all clients', '/admin/orders?limit=25'))
    await ask('orders with their totals', '/admin/orders?limit=25&totals=true')
    await ask('orders in doubt', '/admin/orders?limit=25&standing=in_doubt&totals=true')
    await ask('orders, the next page', `/admin/orders?limit=25&cursor=${list.next_cursor}`)
    await ask('orders, page 300 by offset', `/admin/orders?limit=25&offset=${25 * 299}`)
    const old = JSON.parse(
      await ask('orders, 200 of them', `/admin/orders?limit=200&offset=${orders - 400}`),
    )
    await ask('orders, far back by cursor', `/admin/orders?limit=25&cursor=${old.next_cursor}`)
    await ask('orders, one client', `/admin/orders?limit=25&client=${client}`)
    await ask('orders, failed', '/admin/orders?limit=25&status=failed')
    await ask('orders, at terminal (few)', '/admin/orders?limit=25&status=at_terminal')
    await ask('orders, action required (none)', '/admin/orders?limit=25&status=action_required')
    await ask('orders, one box', `/admin/orders?limit=25&client=${client}&caja_id=CAJA-77`)
    await ask('orders, one box, whosever', '/admin/orders?limit=25&caja_id=CAJA-3')
    await ask('orders, a part of the reference', '/admin/orders?limit=25&q=b-77')
    await ask('orders, text that none has', '/admin/orders?limit=25&q=nothing')
    await ask('orders, a day', `/admin/orders?limit=25&from=${day}`)
    await ask('an order', `/orders/${order}?client=${client}`)
    await ask('its timeline', `/orders/${order}/timeline?client=${client}`)
    await ask('stores with their boxes', `/stores?client=${client}`)
    await ask('terminals (the provider is asked)', `/terminals?client=${client}`)
    await ask('webhooks', '/admin/webhooks/logs?limit=25')
    await ask('webhooks, one client', `/admin/webhooks/logs?limit=25&client=${client}`)
    await ask('audit log', '/admin/activity?limit=25')
    await ask('audit log, one client', `/admin/activity?limit=25&client=${client}`)
    await ask('audit log, failed (none)', '/admin/activity?limit=25&status=failed')
    await ask('OpenAPI', '/openapi.json')
    const see = (label: string, path: string) => measure(bench, label, `${control}${path}`)
    await see('flows', '/flows')
    await see('stats', '/stats')
    await see('metrics', '/metrics')
    await see('errors', '/errors?limit=100')
    await see('errors of an item', '/errors?limit=20&flow=articulos&pk=A-77700')
    await see('failures by code', '/flow/articulos/failures?limit=100')
    await see('an item', '/flow/articulos/items/A-77777')
    await see('flow activity', '/flows/activity?limit=200')
  } finally {
    await flows.stop()
  }
}

await withService(1, compare)
