import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

export type RawRequest = {
  line: string
  headers?: Record<string, string>
  body?: object | undefined
}

/** Sends a request over a connection of its own, which the caller may close. The server runs in the same thread. */
export async function requestOverSocket(
  server: Server,
  { line, headers = {}, body }: RawRequest,
): Promise<{ client: Socket; served: Socket }> {
  const { port } = server.address() as AddressInfo
  const accepted = once(server, 'connection')
  const client = connect(port, '127.0.0.1')
  await Promise.all([accepted, once(client, 'connect')])
  const [served] = (await accepted) as [Socket]
  const text = body === undefined ? '' : JSON.stringify(body)
  const head = {
    host: `127.0.0.1:${port}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    'content-length': String(text.length),
    ...headers,
  }
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`)
  client.write(`${[`${line} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n${text}`)
  return { client, served }
}

/**
 * Sends a request and disconnects. Both are in the kernel's buffers before the server, which runs in the same thread,
 * reads the request. Resolves when the server has seen the disconnect.
 */
export async function requestAndDisconnect(
  server: Server,
  request: RawRequest,
  how: 'end' | 'destroy' = 'destroy',
): Promise<void> {
  const { client, served } = await requestOverSocket(server, request)
  client[how]()
  if (!served.closed) await once(served, 'close')
  client.destroy()
}
