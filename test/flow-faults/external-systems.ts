import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Endpoints } from './definition.ts'
import { startFileWriter, type Writer } from './file-writer.ts'
import type { RunEvent } from './scenario.ts'
import { answerItem, answerList } from './source.ts'
import type { OutsideStep } from './steps.ts'
import { startTableWriter } from './table-writer.ts'
import { type TargetHooks, takeRequest } from './target.ts'
import { createTestFlow, type TestFlow } from './test-flow.ts'

export type ExternalSystemsOptions = {
  seed: number
  flows: number
  /** The folder for the files of sources. */
  filesDir: string
  /** A database for the tables of sources. */
  tablesUrl?: string | undefined
  countEvent(what: RunEvent): void
}

export type ExternalSystems = {
  endpoints: Endpoints
  testFlows: readonly TestFlow[]
  /** Called when a request reaches a step; it may kill the process that sent the request. */
  onStep: (step: OutsideStep) => void
  /** Resolves when a request of this process is in transit, or after `longestWaitForRequestMs`. */
  waitForRequest(process: string): Promise<void>
  /** Delays the requests of this process until the returned function is called. */
  delayRequests(process: string): () => void
  /** From now on sources and targets have no faults. */
  stopFaults(): void
  /** Changes of sources that are not written to their files or tables yet. */
  unwritten(): string[]
  close(): Promise<void>
}

const longestWaitForRequestMs = 1_500

/** Sources and targets of some flows behind one HTTP server, with their files and tables. */
export async function openExternalSystems(
  options: ExternalSystemsOptions,
): Promise<ExternalSystems> {
  const { seed, flows, filesDir, tablesUrl, countEvent } = options
  const testFlows = Array.from({ length: flows }, (_, index) =>
    createTestFlow(seed, index, {
      ...{ hasTables: tablesUrl !== undefined, number: seed * flows + index, countEvent },
    }),
  )
  const byName = new Map(testFlows.map((testFlow) => [testFlow.name, testFlow]))
  let isFaultFree = false
  const inTransit = new Map<string, number>()
  const delays = new Map<string, Promise<void>>()
  const hooks: TargetHooks = {
    isFaultFree: () => isFaultFree,
    onStep: (step) => systems.onStep(step),
    async transmit(process, work) {
      inTransit.set(process, (inTransit.get(process) ?? 0) + 1)
      await work()
      inTransit.set(process, (inTransit.get(process) ?? 1) - 1)
      const delay = delays.get(process)
      await delay
      return delay !== undefined
    },
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://x')
    const [name = '', part = '', ...path] = pathname.slice(1).split('/').map(decodeURIComponent)
    const testFlow = byName.get(name)
    const receiver = part === 'second' ? testFlow?.second : testFlow?.web
    if (!testFlow || !receiver) response.writeHead(404).end()
    else if (part === 'source') void answerList(hooks, testFlow, request, response)
    else if (part === 'item') answerItem(testFlow, path[0] ?? '', response)
    else void takeRequest(hooks, testFlow, receiver, path, request, response)
  })
  // Longer than Node's 5 s, so that a suspended process finds its connections open.
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const endpoints = { url: `http://127.0.0.1:${port}`, filesDir }
  const ofTables = testFlows.filter(({ scenario }) => scenario.source === 'a table')
  const tables = tablesUrl === undefined ? undefined : await startTableWriter(tablesUrl, ofTables)
  const writers = new Map<string, Writer>()
  for (const testFlow of testFlows) {
    if (!testFlow.scenario.source.includes('file')) continue
    writers.set(testFlow.name, await startFileWriter(testFlow, endpoints, () => isFaultFree))
  }

  const systems: ExternalSystems = {
    endpoints,
    testFlows,
    onStep: () => undefined,
    async waitForRequest(process) {
      const until = performance.now() + longestWaitForRequestMs
      while (!inTransit.get(process) && performance.now() < until) await wait(1)
    },
    delayRequests(process) {
      const { promise, resolve } = Promise.withResolvers<void>()
      delays.set(process, promise)
      return () => {
        delays.delete(process)
        resolve()
      }
    },
    stopFaults() {
      isFaultFree = true
    },
    unwritten: () => [
      ...[...writers].flatMap(([name, one]) =>
        one.isUpToDate() ? [] : [`${name}: its file is not written`],
      ),
      ...(tables?.isUpToDate() === false ? ['tables are not written'] : []),
    ],
    async close() {
      isFaultFree = true
      await Promise.all([...writers.values()].map((writer) => writer.stop()))
      await tables?.stop()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return systems
}
