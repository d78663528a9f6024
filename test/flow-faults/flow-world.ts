import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Places } from './definition.ts'
import { startFileWriter, type Writer } from './file-writer.ts'
import type { Happening } from './kinds.ts'
import { createLane, type Lane } from './lane.ts'
import { giveItem, giveList } from './source.ts'
import type { OutsideStep } from './steps.ts'
import { startTableWriter } from './table-writer.ts'
import { type Around, takeRequest } from './target.ts'

export type WorldOptions = {
  seed: number
  flows: number
  /** Where files of sources are written. */
  filesDir: string
  /** A database in which sources may have tables. */
  tablesUrl?: string | undefined
  note(what: Happening): void
}

export type World = {
  places: Places
  lanes: readonly Lane[]
  /** Called when a request reaches a step; the process behind it may be killed in there. */
  onStep: (step: OutsideStep) => void
  /** Resolves when a request of this process is on its way, or after a while. */
  onWay(process: string): Promise<void>
  /** What this process sends is held up on its way until the function is called that this answers. */
  holdUp(process: string): () => void
  /** From now on source and target behave. */
  calm(): void
  /** What has changed at sources and cannot be read there yet. */
  behind(): string[]
  close(): Promise<void>
}

const longestOnWayMs = 1_500

/** Sources and targets of some flows behind one HTTP server, with their files and tables. */
export async function openWorld(options: WorldOptions): Promise<World> {
  const { seed, flows, filesDir, tablesUrl, note } = options
  const lanes = Array.from({ length: flows }, (_, index) =>
    createLane(seed, index, {
      ...{ hasTables: tablesUrl !== undefined, turn: seed * flows + index, note },
    }),
  )
  const byName = new Map(lanes.map((lane) => [lane.name, lane]))
  let isCalm = false
  const waysOf = new Map<string, number>()
  const heldUp = new Map<string, Promise<void>>()
  const around: Around = {
    isCalm: () => isCalm,
    onStep: (step) => world.onStep(step),
    async passes(process, work) {
      waysOf.set(process, (waysOf.get(process) ?? 0) + 1)
      await work()
      waysOf.set(process, (waysOf.get(process) ?? 1) - 1)
      const obstacle = heldUp.get(process)
      await obstacle
      return obstacle !== undefined
    },
  }
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://x')
    const [name = '', part = '', ...path] = pathname.slice(1).split('/').map(decodeURIComponent)
    const lane = byName.get(name)
    const receiver = part === 'second' ? lane?.second : lane?.web
    if (!lane || !receiver) response.writeHead(404).end()
    else if (part === 'source') void giveList(around, lane, request, response)
    else if (part === 'item') giveItem(lane, path[0] ?? '', response)
    else void takeRequest(around, lane, receiver, path, request, response)
  })
  // A process that stands still for longer than Node's 5 s finds its connections open.
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const places = { url: `http://127.0.0.1:${port}`, filesDir }
  const ofTables = lanes.filter(({ play }) => play.source === 'a table')
  const tables = tablesUrl === undefined ? undefined : await startTableWriter(tablesUrl, ofTables)
  const writers = new Map<string, Writer>()
  for (const lane of lanes) {
    if (!lane.play.source.includes('file')) continue
    writers.set(lane.name, await startFileWriter(lane, places, () => isCalm))
  }

  const world: World = {
    places,
    lanes,
    onStep: () => undefined,
    async onWay(process) {
      const until = performance.now() + longestOnWayMs
      while (!waysOf.get(process) && performance.now() < until) await wait(1)
    },
    holdUp(process) {
      const { promise, resolve } = Promise.withResolvers<void>()
      heldUp.set(process, promise)
      return () => {
        heldUp.delete(process)
        resolve()
      }
    },
    calm() {
      isCalm = true
    },
    behind: () => [
      ...[...writers].flatMap(([name, one]) =>
        one.isUpToDate() ? [] : [`${name}: its file is not written`],
      ),
      ...(tables?.isUpToDate() === false ? ['tables are not written'] : []),
    ],
    async close() {
      isCalm = true
      await Promise.all([...writers.values()].map((writer) => writer.stop()))
      await tables?.stop()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return world
}
