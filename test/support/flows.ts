import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { LightMyRequestResponse } from 'fastify'
import { loadConfig } from '../../src/app/config.ts'
import { createFlowSide, type FlowSide, type FlowSideOptions } from '../../src/app/flow-side.ts'
import type { Database } from '../../src/db/database.ts'
import type { StreamLimits } from '../../src/http/event-stream.ts'
import { createLogger } from '../../src/http/logging.ts'
import { startTestService, type TestService } from './service.ts'
import { testSettings } from './test-settings.ts'

export type TestFlows = FlowSide & {
  service: TestService
  /** Folder of what flows read and write. */
  dir: string
  /** FLOWS_DIR, in `dir`. */
  flowsDir: string
  logLines: string[]
  /** Writes a file into the folder; an object is written as JSON. */
  write(name: string, content: string | object): Promise<string>
  remove(name: string): Promise<void>
  /** A call of the control API; JSON in, JSON out. */
  call(
    method: 'GET' | 'POST' | 'PUT' | 'DELETE',
    url: string,
    options?: { body?: unknown; headers?: Record<string, string> },
  ): Promise<LightMyRequestResponse>
  /** Resolves when nothing waits or is in hand any more, of any flow or of the one named. */
  delivered(flow?: string): Promise<void>
  /** Resolves when nothing waits for its next attempt either, of any flow or of the one named. */
  ended(flow?: string): Promise<void>
  /** Ends the flow side and begins anew on the same database and files, as a restart does. */
  restart(): Promise<TestFlows>
  stop(): Promise<void>
}

export type TestFlowsOptions = {
  files?: Record<string, string | object>
  env?: Record<string, string>
  /** A service of the caller's, which stays open at the end. */
  service?: TestService
  database?: Database
  streams?: Partial<StreamLimits>
  longestWaitMs?: number
  /** How long a sleep takes at most; 250 ms unless given. */
  longestSleepMs?: number
  tracing?: FlowSideOptions['tracing']
}

/** Sleeps are this short, so that loops go round quickly; what depends on time goes by the clock. */
const shortSleepMs = 250
/** A second in the product. */
const dueCheckMs = 100

/** The real flow side on the real payment side, with a folder of flow files. It is started. */
export async function startTestFlows(options: TestFlowsOptions = {}): Promise<TestFlows> {
  const service =
    options.service ??
    (await startTestService(options.database ? { database: options.database } : {}))
  const dir = await mkdtemp(join(tmpdir(), 'tillbridge-flows-'))
  const flowsDir = join(dir, 'flows')
  await mkdir(flowsDir)
  // No flow may read or write a file beside the definitions.
  const pathOf = (name: string) => join(/\.flow\.ya?ml$/.test(name) ? flowsDir : dir, name)
  const write = async (name: string, content: string | object) => {
    const path = pathOf(name)
    await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
  for (const [name, content] of Object.entries(options.files ?? {})) await write(name, content)
  const started = await begin(service, dir, options)

  const build = (side: Started): TestFlows => ({
    ...side,
    service,
    dir,
    flowsDir,
    write,
    remove: (name) => rm(pathOf(name)),
    call: (method, url, { body, headers } = {}) =>
      side.app.inject({
        method,
        url,
        headers: { host: '127.0.0.1:8080', ...headers },
        ...(body !== undefined && { payload: body as object }),
      }),
    async delivered(name) {
      while ((await countPending(side, name, false)) > 0) await wait(10)
    },
    async ended(name) {
      while ((await countPending(side, name, true)) > 0) await wait(10)
    },
    async restart() {
      await side.end()
      return build(await begin(service, dir, options))
    },
    async stop() {
      await side.end()
      if (!options.service) await service.stop()
      await rm(dir, { recursive: true, force: true })
    },
  })
  return build(started)
}

/** Deliveries that are waiting or running, and perhaps those that are delayed: of all flows, or of one. */
async function countPending(
  { flows }: FlowSide,
  name: string | undefined,
  withDelayed: boolean,
): Promise<number> {
  if (name === undefined) {
    const { queue } = await flows.stats()
    return queue.waiting + queue.active + (withDelayed ? queue.delayed : 0)
  }
  const destinations = (await flows.metrics()).get(name)?.destinations ?? []
  return destinations.reduce(
    (sum, { open }) => sum + open.waiting + (withDelayed ? open.delayed : 0),
    0,
  )
}

type Started = FlowSide & { logLines: string[]; end(): Promise<void> }

async function begin(
  service: TestService,
  dir: string,
  {
    env = {},
    streams,
    longestWaitMs,
    longestSleepMs = shortSleepMs,
    tracing,
  }: Pick<TestFlowsOptions, 'env' | 'streams' | 'longestWaitMs' | 'longestSleepMs' | 'tracing'>,
): Promise<Started> {
  const logLines: string[] = []
  const logger = createLogger('info', { write: (line: string) => void logLines.push(line) })
  const side = await createFlowSide({
    config: loadConfig({
      ...testSettings,
      FLOWS_DIR: join(dir, 'flows'),
      CONNECTIONS_FILE: join(dir, 'connections.yaml'),
      ...env,
    }),
    publicUrl: 'http://127.0.0.1:8080',
    pages: {
      flows: 'http://127.0.0.1:8080/admin',
      dashboard: 'http://127.0.0.1:3000/dashboard',
    },
    database: service.database,
    payments: service.deps,
    notifications: service.notifications,
    logger,
    tracing,
    dueCheckMs,
    ...(streams && { streams }),
    ...(longestWaitMs !== undefined && { longestWaitMs }),
    env: { ...env, DIR: dir },
    now: service.clock.now,
    sleep: async (ms, signal) => {
      await wait(Math.min(ms, longestSleepMs), undefined, signal && { signal })
    },
  })
  await side.app.ready()
  await side.start()
  return {
    ...side,
    logLines,
    async end() {
      await side.app.close()
      await side.close()
    },
  }
}

export type Received = {
  method: string
  path: string
  headers: IncomingMessage['headers']
  body: unknown
}

export type TestTarget = {
  url: string
  received: Received[]
  /** Answers from now on; the default is 200, with no body. */
  answer(
    status: number | ((request: Received) => number),
    headers?: Record<string, string>,
    body?: (request: Received) => string,
  ): void
  close(): Promise<void>
}

/** An HTTP server that remembers what it got. */
export async function startTarget(): Promise<TestTarget> {
  const received: Received[] = []
  let status: number | ((request: Received) => number) = 200
  let headers: Record<string, string> = {}
  let words: (request: Received) => string = () => ''
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString()
      const one: Received = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text),
      }
      received.push(one)
      response.writeHead(typeof status === 'number' ? status : status(one), headers).end(words(one))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    received,
    answer(next, more = {}, body = () => '') {
      status = next
      headers = more
      words = body
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The same as `jsonFlow`, whose deliveries wait for an hour after an attempt that failed. */
export function patientFlow(
  name: string,
  target: string,
  extra: Record<string, unknown> = {},
): Record<string, unknown> {
  const flow = jsonFlow(name, target, extra) as { destinations: object[] }
  const retry = { attempts: 5, initial: '1h', max: '1h', jitter: 0 }
  return { ...flow, destinations: flow.destinations.map((one) => ({ ...one, retry })) }
}

/** Connections for `connectedFlow`: the folder of the tests' files, and the target. */
export function testConnections(dir: string, target: string): string {
  return JSON.stringify({
    version: 1,
    connections: {
      files: { type: 'folder', path: dir },
      shop: { type: 'http', url: target, allowPrivateNetwork: true },
    },
  })
}

/** The same as `jsonFlow`, by connections, as a file that is saved in the browser. */
export function connectedFlow(
  name: string,
  extra: Record<string, unknown> = {},
): Record<string, unknown> {
  const { allowPrivateNetwork: _, ...flow } = jsonFlow(name, '', {})
  return {
    ...flow,
    source: {
      type: 'file',
      connection: 'files',
      path: `${name}.json`,
      format: 'json',
      settle: '0s',
    },
    destinations: [
      {
        name: 'web',
        type: 'http',
        connection: 'shop',
        request: { method: 'PUT', path: `/${name}/{pk}`, headers: { 'x-key': '{jobKey}' } },
        retry: { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 },
      },
    ],
    ...extra,
  }
}

/** A flow file that reads `${dir}/${name}.json` and puts each item to the target; paused unless `extra` says otherwise. */
export function jsonFlow(
  name: string,
  target: string,
  extra: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    version: 1,
    name,
    pollInterval: '1h',
    startPaused: true,
    allowPrivateNetwork: true,
    source: { type: 'file', path: `\${env:DIR}/${name}.json`, format: 'json', settle: '0s' },
    item: { key: 'id' },
    destinations: [
      {
        name: 'web',
        type: 'http',
        request: {
          method: 'PUT',
          url: `${target}/${name}/{pk}`,
          headers: { 'idempotency-key': '{jobKey}' },
        },
        retry: { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 },
      },
    ],
    ...extra,
  }
}
