import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { type Chance, createChance } from './chance.ts'
import { type Arrival, Ledger, type SourceItem } from './ledger.ts'
import type { OutsideStep } from './steps.ts'

const attemptTimeoutMs = 300
/** Their keys are i0, i1 and so on. */
export const mostItems = 14

/** One flow between a source that changes and a target that misbehaves, everything decided by its seed. */
export type FlowWorld = {
  name: string
  ledger: Ledger
  /** Its flow file. */
  definition(url: string): object
  /**
   * Changes something at the source. With `progress`, from 0 to 1, ever more items have had their last change: what is
   * lost of those no later change makes good.
   */
  change(progress: number): void
}

export type World = {
  url: string
  flows: FlowWorld[]
  /** Called when a request reaches a step; the process behind it may be killed in there. */
  onStep: (step: OutsideStep) => void
  /** From now on source and target behave. */
  calm(): void
  close(): Promise<void>
}

type Lane = FlowWorld & {
  chance: Chance
  isIncremental: boolean
  /** Keys that it has done, for a target that does nothing a second time; undefined for one that forgets. */
  done: Set<string> | undefined
  requests: number
  reads: number
}

/** Sources and targets of some flows behind one HTTP server. */
export async function openWorld(seed: number, names: readonly string[]): Promise<World> {
  const lanes = new Map(names.map((name, index) => [name, createLane(seed, index, name)]))
  let isCalm = false
  const server = createServer((request, response) => {
    const [, name = '', part = '', id = ''] = (request.url ?? '').split(/[/?]/)
    const lane = lanes.get(name)
    if (!lane) response.writeHead(404).end()
    else if (part === 'item') readOne(lane, decodeURIComponent(id), response)
    else if (part === 'items') void deliver(lane, decodeURIComponent(id), request, response)
    else void read(lane, request, response)
  })

  const read = async (lane: Lane, request: IncomingMessage, response: ServerResponse) => {
    lane.reads += 1
    const label = `read ${lane.reads}`
    world.onStep('the source is asked')
    const since = Number(new URL(request.url ?? '', 'http://x').searchParams.get('since') ?? 0)
    if (!isCalm) await wait(lane.chance.whole(`${label} pause`, 0, 15))
    const fault = isCalm || lane.chance.maybe(`${label} is well`, 0.85) ? 'none' : label
    const text = JSON.stringify(lane.ledger.items(since))
    if (fault === 'none') {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write(text.slice(0, text.length / 2))
      world.onStep('half of the source is read')
      response.end(text.slice(text.length / 2))
      return
    }
    switch (lane.chance.pick(`${label} fault`, ['refuses', 'breaks off', 'drops'])) {
      case 'refuses':
        response.writeHead(503).end()
        return
      case 'breaks off':
        response.writeHead(200, { 'content-length': text.length })
        response.write(text.slice(0, text.length / 2), () => request.socket.destroy())
        return
      default:
        request.socket.destroy()
    }
  }

  const readOne = (lane: Lane, id: string, response: ServerResponse) => {
    const item = lane.ledger.items().find((one) => one.id === id)
    if (item) response.writeHead(200, { 'content-type': 'application/json' })
    else response.writeHead(404)
    response.end(item && JSON.stringify(item))
  }

  const deliver = async (
    lane: Lane,
    pk: string,
    request: IncomingMessage,
    response: ServerResponse,
  ) => {
    const arrival = await arrivalOf(pk, request)
    // Killed in the middle of its request: it did not arrive.
    if (!arrival) return
    const { ledger, chance } = lane
    lane.requests += 1
    const label = `request ${lane.requests}`
    ledger.arrived(arrival)
    world.onStep('the target is asked')
    const answer = isCalm ? 'is fine' : answerOf(chance, label)
    if (answer !== 'refuses' && answer !== 'is busy' && answer !== 'drops before') {
      if (!lane.done?.has(arrival.key)) ledger.applied(arrival)
      lane.done?.add(arrival.key)
      world.onStep('the target has done it')
    }
    switch (answer) {
      case 'is fine':
      case 'is slow':
        if (answer === 'is slow') await wait(chance.whole(`${label} pause`, 5, 120))
        ledger.acknowledged(arrival)
        response.writeHead(200).end(() => world.onStep('the target has answered'))
        return
      case 'is busy': {
        const seconds = chance.maybe(`${label} wish`, 0.2) ? { 'retry-after': '1' } : {}
        response.writeHead(429, seconds).end()
        return
      }
      case 'refuses':
      case 'fails after':
        response.writeHead(chance.pick(`${label} status`, [500, 502, 503])).end()
        return
      case 'hangs':
        return
      default:
        request.socket.destroy()
    }
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const world: World = {
    url: `http://127.0.0.1:${port}`,
    flows: [...lanes.values()],
    onStep: () => undefined,
    calm() {
      isCalm = true
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return world
}

type Answer =
  | 'is fine'
  | 'is slow'
  | 'is busy'
  | 'refuses'
  | 'fails after'
  | 'drops before'
  | 'drops after'
  | 'hangs'

function answerOf(chance: Chance, label: string): Answer {
  if (chance.maybe(`${label} is well`, 0.55)) return 'is fine'
  return chance.pick<Answer>(`${label} fault`, [
    'is slow',
    'is slow',
    'is busy',
    'refuses',
    'fails after',
    'drops before',
    'drops after',
    'hangs',
  ])
}

async function arrivalOf(pk: string, request: IncomingMessage): Promise<Arrival | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer)
  } catch {
    return undefined
  }
  const text = Buffer.concat(chunks).toString()
  const kind = request.method === 'DELETE' ? 'delete' : 'upsert'
  const body = kind === 'delete' ? undefined : (JSON.parse(text) as SourceItem)
  return { pk, kind, body, key: String(request.headers['idempotency-key'] ?? '') }
}

function createLane(seed: number, index: number, name: string): Lane {
  const chance = createChance(seed, index)
  const withDeletes = chance.maybe('deletes', 0.5)
  const isIncremental = chance.maybe('incremental', 0.5)
  const ids = Array.from({ length: chance.whole('items', 3, mostItems) }, (_, at) => `i${at}`)
  const ledger = new Ledger({ withDeletes })
  for (const id of ids) ledger.put(id, `${name} first`)
  let changes = 0

  const definition = (url: string) => ({
    version: 1,
    name,
    pollInterval: '1s',
    allowPrivateNetwork: true,
    source: {
      type: 'http',
      url: `${url}/${name}/source${isIncremental ? '?since={cursor}' : ''}`,
      item: { url: `${url}/${name}/item/{pk}` },
      ...(isIncremental && { cursor: { field: 'rev', initial: '0' }, fullScanEvery: '1s' }),
      limits: { fetchSize: chance.whole('fetch size', 2, 8), timeout: '2s' },
    },
    item: { key: 'id' },
    deletes: {
      mode: withDeletes ? 'delete' : 'ignore',
      guard: { emptySource: 'allow', maxPercent: 100, minItems: 0 },
    },
    destinations: [
      {
        name: 'web',
        type: 'http',
        request: { method: 'PUT', url: `${url}/${name}/items/{pk}` },
        ...(withDeletes && { delete: { url: `${url}/${name}/items/{pk}` } }),
        timeout: `${attemptTimeoutMs}ms`,
        concurrency: chance.whole('concurrency', 1, 6),
        retry: { attempts: 50, initial: '100ms', factor: 1, max: '200ms' },
        breaker: chance.maybe('breaker', 0.3) && { failures: 4, within: '2s', openFor: '1s' },
      },
    ],
  })

  const change = (progress: number) => {
    changes += 1
    const first = Math.min(ids.length - 1, Math.floor(progress * ids.length))
    const id = `i${chance.whole(`change ${changes}`, first, ids.length - 1)}`
    if (chance.maybe(`removal ${changes}`, 0.15)) ledger.remove(id)
    else ledger.put(id, `${name} change ${changes}`)
  }

  return {
    name,
    ledger,
    definition,
    change,
    chance,
    isIncremental,
    done: chance.maybe('remembers keys', 0.5) ? new Set() : undefined,
    requests: 0,
    reads: 0,
  }
}
