import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An ERP and a web shop in one server: `GET /items/{flow}` is the source, `PUT /shop/{flow}/{pk}` the destination. */
export type Shop = {
  url: string
  /** Changes the price of an item chosen at random. */
  change(): void
  /** When each flow was last read, by number of the flow; 0 before its first poll. */
  polledAt: number[]
  /** Requests that arrived at the destination. */
  delivered: number
  /** Items whose newest price has not arrived. */
  different(): number
  close(): Promise<void>
}

/** Starts the shop with this many flows and items of each. Each answer of the source comes `latencyMs` late. */
export async function startShop(
  flows: number,
  itemsOfFlow: number,
  latencyMs: number,
): Promise<Shop> {
  const source = Array.from({ length: flows }, () => new Array<number>(itemsOfFlow).fill(1))
  const arrived = source.map((items) => new Array<number>(items.length).fill(0))
  const server = createServer((request, response) => {
    const [, part, flow, pk] = (request.url ?? '').split('/')
    if (part === 'items') {
      const prices = source[Number(flow)] ?? []
      shop.polledAt[Number(flow)] = Date.now()
      response.setHeader('content-type', 'application/json')
      setTimeout(
        () => response.end(JSON.stringify(prices.map((price, id) => ({ id, price })))),
        latencyMs,
      )
      return
    }
    let text = ''
    request.on('data', (bytes: Buffer) => {
      text += bytes.toString()
    })
    request.once('end', () => {
      shop.delivered += 1
      const prices = arrived[Number(flow)]
      if (prices) prices[Number(pk)] = (JSON.parse(text) as { price: number }).price
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const shop: Shop = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    change() {
      const prices = source[Math.floor(Math.random() * flows)] as number[]
      const item = Math.floor(Math.random() * itemsOfFlow)
      prices[item] = (prices[item] ?? 0) + 1
    },
    polledAt: new Array<number>(flows).fill(0),
    delivered: 0,
    different: () =>
      source.reduce(
        (all, prices, flow) =>
          all + prices.filter((price, item) => price !== arrived[flow]?.[item]).length,
        0,
      ),
    close: () => close(server),
  }
  return shop
}

function close(server: Server): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(() => resolve()))
}
