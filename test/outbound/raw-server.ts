import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Seen = {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
}

export type Play = (response: ServerResponse, request: IncomingMessage) => void

/** A real server that plays one response per request, repeats the last one, and records the requests. */
export async function startServer(...plays: Play[]) {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      const { method = '', url = '', headers } = request
      seen.push({ method, url, headers, body })
      const play = plays[Math.min(seen.length, plays.length) - 1]
      play?.(response, request)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A complete JSON response. */
export function answer(status: number, body: unknown, headers: Record<string, string> = {}): Play {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(body === undefined ? undefined : JSON.stringify(body))
  }
}

/** Reads the whole request, then closes the connection. */
export const drop: Play = (response) => {
  response.destroy()
}

/** Reads the whole request and does not respond. */
export const hang: Play = () => undefined

/** Announces more than it sends, then closes the connection. */
export function torn(status: number): Play {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': '100' })
    response.write('{"id":', () => response.destroy())
  }
}
