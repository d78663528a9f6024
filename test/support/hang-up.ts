import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'

export type GivenUp = { line: string; headers?: Record<string, string>; body?: object | undefined }

/** Asks over a connection of its own; whoever has it may hang up. The server listens in the same thread. */
export async function askByHand(
  server: Server,
  { line, headers = {}, body }: GivenUp,
): Promise<{ caller: Socket; served: Socket }> {
  const { port } = server.address() as AddressInfo
  const accepted = once(server, 'connection')
  const caller = connect(port, '127.0.0.1')
  await Promise.all([accepted, once(caller, 'connect')])
  const [served] = (await accepted) as [Socket]
  const text = body === undefined ? '' : JSON.stringify(body)
  const head = {
    host: `127.0.0.1:${port}`,
    ...(body !== undefined && { 'content-type': 'application/json' }),
    'content-length': String(text.length),
    ...headers,
  }
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`)
  caller.write(`${[`${line} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n${text}`)
  return { caller, served }
}

/**
 * Asks and hangs up. Both are in the buffers of this machine before the server, which listens in the same thread, reads the
 * first: as when its process stood still meanwhile. Resolves when the server has seen the end.
 */
export async function askAndHangUp(
  server: Server,
  request: GivenUp,
  how: 'end' | 'destroy' = 'destroy',
): Promise<void> {
  const { caller, served } = await askByHand(server, request)
  caller[how]()
  if (!served.closed) await once(served, 'close')
  caller.destroy()
}
