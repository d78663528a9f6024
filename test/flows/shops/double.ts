import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Asked = {
  method: string
  path: string
  query: URLSearchParams
  headers: Record<string, string | string[] | undefined>
  body: unknown
}
export type Answered = { status: number; body?: unknown; headers?: Record<string, string> }

/** A shop's API according to its public documents, as far as a template uses it. */
export type Shop = {
  url: string
  /** The requests in order. */
  asked: Asked[]
  /** The next request with this method takes effect, but its response is lost. */
  loseAnswerOf(method: string): void
  /** From now on called before each request; its return value replaces the response. */
  interrupt(by: (asked: Asked) => Answered | undefined): void
  /** From now on changes the text of each response, as a cache or a plugin would. The request takes effect. */
  alter(by: (asked: Asked, text: string) => string): void
  close(): Promise<void>
}

/** Serves a double of a shop: `handle` applies a request and returns the response. */
export async function serveShop(handle: (asked: Asked) => Answered): Promise<Shop> {
  const asked: Asked[] = []
  let lost: string | undefined
  let interruption: (asked: Asked) => Answered | undefined = () => undefined
  let altered: (asked: Asked, text: string) => string = (_, text) => text
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { method = '', url = '', headers } = request
    const { pathname, searchParams } = new URL(url, 'http://shop')
    const type = headers['content-type'] ?? ''
    const one: Asked = {
      ...{ method, path: pathname, query: searchParams, headers },
      body: text === '' ? undefined : type.includes('json') ? JSON.parse(text) : text,
    }
    asked.push(one)
    const answer = interruption(one) ?? handle(one)
    if (lost === method) {
      lost = undefined
      request.socket.destroy()
      return
    }
    response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
    // A text is a page of something else than the shop.
    const { body = '' } = answer
    response.end(altered(one, typeof body === 'string' ? body : JSON.stringify(body)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    loseAnswerOf(method) {
      lost = method
    },
    interrupt(by) {
      interruption = by
    },
    alter(by) {
      altered = by
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
