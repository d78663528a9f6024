import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** `text` is of an answer that is no JSON; its `body` is empty. */
export type ProviderAnswer = { status: number; body: Record<string, unknown>; text?: string }

/** Looks at an answer of the provider; what it returns goes to the service instead. */
export type Alter = (
  answer: ProviderAnswer,
  request: { method: string; path: string },
) => ProviderAnswer | undefined

export type ProviderProxy = {
  url: string
  /** Where calls go; set it once the sandbox listens. */
  target: string
  /** Absent: answers pass as they are. */
  alter: Alter | undefined
  /** Closes the listener after the answer under way: connections are refused. */
  vanish(): void
  /** Listens again, at the same address. */
  comeBack(): Promise<void>
  close(): Promise<void>
}

/** Stands between the service and the sandbox, for answers that the sandbox would never give. */
export async function startProviderProxy(): Promise<ProviderProxy> {
  const server = createServer((request, response) => {
    forward(proxy, request, response).catch(() => response.destroy())
  })
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const proxy: ProviderProxy = {
    url: `http://127.0.0.1:${port}`,
    target: '',
    alter: undefined,
    vanish() {
      server.close()
      server.closeIdleConnections()
    },
    comeBack: () => listen(port),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}

async function forward(
  proxy: ProviderProxy,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  const { method = 'GET', url: path = '/' } = request
  const headers: Record<string, string> = {}
  for (const name of ['authorization', 'content-type', 'x-idempotency-key']) {
    const value = request.headers[name]
    if (typeof value === 'string') headers[name] = value
  }
  const answer = await fetch(proxy.target + path, {
    method,
    headers,
    ...(parts.length > 0 && { body: Buffer.concat(parts) }),
  })
  const text = await answer.text()
  const type = answer.headers.get('content-type') ?? 'application/json'
  const given = type.includes('json')
    ? { status: answer.status, body: text === '' ? {} : JSON.parse(text) }
    : { status: answer.status, body: {}, text }
  const altered = proxy.alter?.(given, { method, path })
  response.writeHead(altered?.status ?? answer.status, {
    'content-type': type,
    // The service measures the provider's clock by it.
    date: answer.headers.get('date') ?? '',
    // So that a provider that vanished is not reached over an old connection.
    connection: 'close',
  })
  response.end(altered ? (altered.text ?? JSON.stringify(altered.body)) : text)
}
