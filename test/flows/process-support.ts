import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { freePort } from '../process/real-process.ts'

/** Settings of a process whose flows matter and whose payment side only has to answer: its provider is nowhere. */
export async function settingsFor(
  dataDir: string,
  more: Record<string, string>,
): Promise<Record<string, string>> {
  return {
    DATA_DIR: dataDir,
    PORT: String(await freePort()),
    SYNC_PORT: String(await freePort()),
    PROVIDER: 'mercadopago',
    ALLOW_EMBEDDED_DATABASE: 'true',
    MP_CLIENT_ID: '1',
    MP_CLIENT_SECRET: 'secret',
    MP_API_URL: 'http://127.0.0.1:9',
    MP_AUTH_URL: 'http://127.0.0.1:9',
    ...more,
  }
}

/** A call of a process's control API. */
export async function control(
  { SYNC_PORT }: Record<string, string>,
  method: 'GET' | 'POST',
  path: string,
): Promise<{ status: number; body: Record<string, Record<string, unknown>> }> {
  const answer = await fetch(`http://127.0.0.1:${SYNC_PORT}${path}`, { method })
  return { status: answer.status, body: (await answer.json()) as never }
}

export type Shop = {
  url: string
  /** Who reads the source at this moment, by the header `x-by`. */
  reading: string[]
  /** Reads that began, in order. */
  reads: string[]
  /** What was seen when two read at once. */
  overlaps: string[][]
  /** Items that the target has, by key. */
  arrived: Map<string, number>
  /** How the source answers. */
  answer(respond: (response: ServerResponse) => void): void
  close(): Promise<void>
}

/** A source at /source that records its readers, and a target at /items/{pk}. */
export async function startShop(): Promise<Shop> {
  let respond = (response: ServerResponse): void => void response.end('[]')
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const [, part, id = ''] = (request.url ?? '').split('/')
    if (part === 'items') {
      request.resume().once('end', () => {
        shop.arrived.set(id, (shop.arrived.get(id) ?? 0) + 1)
        response.end()
      })
      return
    }
    const reader = String(request.headers['x-by'])
    shop.reads.push(reader)
    shop.reading.push(reader)
    if (shop.reading.length > 1) shop.overlaps.push([...shop.reading])
    response.once('close', () => shop.reading.splice(shop.reading.indexOf(reader), 1))
    response.setHeader('content-type', 'application/json')
    respond(response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const shop: Shop = {
    url: `http://127.0.0.1:${port}`,
    reading: [],
    reads: [],
    overlaps: [],
    arrived: new Map(),
    answer(next) {
      respond = next
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return shop
}

/** A flow file from the shop's source to its target. */
export function shopFlow(name: string, shop: Shop, more: object = {}): string {
  return JSON.stringify({
    version: 1,
    name,
    pollInterval: '1s',
    allowPrivateNetwork: true,
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the flow file
    source: { type: 'http', url: `${shop.url}/source`, headers: { 'x-by': '${env:READER}' } },
    item: { key: 'id' },
    destinations: [
      { name: 'web', type: 'http', request: { method: 'PUT', url: `${shop.url}/items/{pk}` } },
    ],
    ...more,
  })
}
