import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import type { Draw } from './draw.ts'

/** What a receiver does: takes everything, refuses some events once, takes everything late, or never answers 2xx. */
export type ReceiverKind = 'quick' | 'moody' | 'slow' | 'dead'

/** An event as a reader got it. */
export type ReadEvent = {
  id: string
  resource: { id: string; version: number }
  data: { written_at: number }
}

/** Checks what one reader gets: no event twice under two ids, and the versions of each resource in order. */
export class ReaderCheck {
  readonly problems: string[] = []
  readonly latenciesMs: number[] = []
  repeats = 0
  readonly #name: string
  /** The last version of each resource that the reader has. */
  readonly #last = new Map<string, number>()
  readonly #ids = new Map<string, string>()

  constructor(name: string) {
    this.#name = name
  }

  /** How many different events the reader has. */
  get count(): number {
    return this.#ids.size
  }

  /** The reader has stored an event. */
  take({ id, resource: { id: resource, version }, data }: ReadEvent): void {
    const known = this.#ids.get(`${resource} ${version}`)
    if (known !== undefined) {
      this.repeats += 1
      if (known !== id) this.#complain(`${resource} ${version} came under two ids`)
      return
    }
    const last = this.#last.get(resource) ?? 0
    if (version !== last + 1) this.#complain(`${resource} ${version} came after ${last}`)
    this.#last.set(resource, version)
    this.#ids.set(`${resource} ${version}`, id)
    this.latenciesMs.push(Date.now() - data.written_at)
  }

  #complain(text: string): void {
    if (this.problems.length < 5) this.problems.push(`${this.#name}: ${text}`)
  }
}

const slowMs = 1_000

type Receiver = { kind: ReceiverKind; check: ReaderCheck; refused: Set<string> }

async function answerOf({ kind, check, refused }: Receiver, event: ReadEvent, draw: Draw) {
  if (kind === 'dead') return 500
  if (kind === 'slow') await wait(slowMs)
  if (kind === 'moody' && !refused.has(event.id) && draw.maybe(event.id, 0.005)) {
    refused.add(event.id)
    return 503
  }
  check.take(event)
  return 204
}

/** An HTTP server with a receiver at each path. */
export async function openReceivers(kinds: readonly ReceiverKind[], draw: Draw) {
  const receivers = kinds.map((kind, index) => ({
    kind,
    path: `/${kind}-${index}`,
    check: new ReaderCheck(`${kind} endpoint ${index}`),
    refused: new Set<string>(),
  }))
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const receiver = receivers.find(({ path }) => path === request.url)
    const event = JSON.parse(body) as ReadEvent
    response.writeHead(receiver ? await answerOf(receiver, event, draw) : 404).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    receivers,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
