import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Flow, flowSchema } from '../../src/flows/definition/schema.ts'
import { openSource } from '../../src/flows/sources/open-source.ts'
import type { SourceContext } from '../../src/flows/sources/source-context.ts'
import type { Source, SourceRow } from '../../src/flows/types.ts'

/** A flow as in a file, with the key `id` and one destination that is never called. */
export function flowOf(source: object, more: object = {}, env: Record<string, string> = {}): Flow {
  const noFile = () => {
    throw new Error('no file here')
  }
  const context = { env, readFile: noFile, mail: { smtpUrl: undefined, mailFrom: undefined } }
  return flowSchema(context).parse({
    version: 1,
    name: 'f',
    pollInterval: '60s',
    source,
    item: { key: 'id' },
    destinations: [{ name: 'd', type: 'file', path: 'd.ndjson', format: 'ndjson' }],
    ...more,
  })
}

const noChanges = async () => ({ rows: [], next: null })

/** A payment side on which nothing happens. */
export const noFeeds: SourceContext['payments'] = {
  'payments.orders': noChanges,
  'payments.settlements': noChanges,
  'payments.closings': noChanges,
}

/** Opens the source of a flow. Pauses end immediately, and warnings are recorded. */
export function openTestSource(
  flow: Flow,
  more: Partial<SourceContext> = {},
): { source: Source; slept: number[]; warnings: string[] } {
  const slept: number[] = []
  const warnings: string[] = []
  const source = openSource({
    flow,
    payments: noFeeds,
    now: () => new Date(),
    log: { warn: (_fields, message) => warnings.push(message) },
    sleep: async (ms, signal) => {
      signal.throwIfAborted()
      slept.push(ms)
    },
    ...more,
  })
  return { source, slept, warnings }
}

export async function readAll(source: Source, since: string | null = null): Promise<SourceRow[]> {
  const rows: SourceRow[] = []
  const { signal } = new AbortController()
  for await (const batch of source.scan({ since, signal })) rows.push(...batch)
  return rows
}

export const ids = (rows: SourceRow[]) => rows.map(({ id }) => id)

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** A server on loopback with responses set by each test; `asked` has the addresses of the requests. */
export async function testServer() {
  const state = { handle: ((_, response) => response.end('[]')) as Handler, asked: [] as string[] }
  const server = createServer((request, response) => {
    state.asked.push(request.url ?? '')
    state.handle(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return Object.assign(state, {
    port,
    base: `http://127.0.0.1:${port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  })
}

export function sendJson(response: ServerResponse, body: unknown, headers: object = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
