import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

// The receiver of both contenders, in a process of its own: it stores what it accepts, and closes its port on a message.

/** By key: the body that was accepted last. */
const items = new Map<string, string>()
let accepted = 0
/** Accepted with what the item already had, and with an older price: prices only rise. */
let again = 0
let older = 0
let requests = 0
/** Every tenth request gets 503. */
let refuses = false
/** When a request was accepted first since the last mark. */
let firstAt: number | undefined

const server = createServer((request, response) => {
  const key = request.url?.split('/').at(-1) ?? ''
  let body = ''
  request.on('data', (part: Buffer) => {
    body += part.toString()
  })
  request.on('end', () => {
    requests += 1
    if (refuses && requests % 10 === 0) {
      response.writeHead(503).end()
      return
    }
    accepted += 1
    firstAt ??= Date.now()
    if (request.method === 'DELETE') {
      if (!items.delete(key)) again += 1
    } else {
      const before = items.get(key)
      if (before === body) again += 1
      else if (before && priceOf(before) > priceOf(body)) older += 1
      items.set(key, body)
    }
    response.writeHead(204).end()
  })
})
const priceOf = (body: string) => Number(JSON.parse(body).price)
server.keepAliveTimeout = 60_000

const listen = (port: number) =>
  new Promise<number>((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
const port = await listen(0)

export type Asked = 'state' | 'mark' | 'close' | 'open' | 'items' | 'forget' | 'refuse' | 'accept'
export type State = {
  accepted: number
  again: number
  older: number
  items: number
  firstAt: number | undefined
}

async function answer(asked: Asked): Promise<unknown> {
  if (asked === 'mark') firstAt = undefined
  if (asked === 'close') {
    server.close()
    server.closeAllConnections()
  }
  if (asked === 'open') await listen(port)
  if (asked === 'refuse' || asked === 'accept') refuses = asked === 'refuse'
  if (asked === 'items') return [...items]
  if (asked === 'forget') items.clear()
  return { accepted, again, older, items: items.size, firstAt }
}

process.on('message', ({ id, asked }: { id: number; asked: Asked }) => {
  void answer(asked).then((value) => process.send?.({ id, value }))
})
process.once('disconnect', () => process.exit())
process.send?.({ url: `http://127.0.0.1:${port}` })
