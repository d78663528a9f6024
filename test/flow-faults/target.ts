import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import type { Chance } from './chance.ts'
import type { Lane, Receiver } from './lane.ts'
import type { Arrival } from './ledger.ts'
import type { OutsideStep } from './steps.ts'
import type { SourceItem } from './truth.ts'

/** What is around a request: whether all is well by now, and who else wants to know of it. */
export type Around = {
  isCalm(): boolean
  onStep(step: OutsideStep): void
  /** Waits while the requests of this process are held up; answers whether they were. */
  passes(process: string, work: () => Promise<void>): Promise<boolean>
}

/** What a target makes of a request: its answer, and which of the arrivals it has taken. */
type Made = { status: number; body?: unknown; taken: readonly Arrival[] }

/** Takes a request to a target, as well or badly as the seed says. */
export async function takeRequest(
  around: Around,
  lane: Lane,
  receiver: Receiver,
  path: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await readBody(request)
  // Killed in the middle of its request: it did not arrive.
  if (body === undefined) return
  const { chance } = lane
  receiver.requests += 1
  const label = `request ${receiver.requests}`
  const givesIds = lane.play.target === 'own ids' && receiver === lane.web
  const isSlow = !around.isCalm() && !givesIds && chance.maybe(`${label} way`, 0.3)
  const onWayMs = isSlow ? chance.whole(`${label} way`, 5, 60) : 0
  const isLate = await around.passes(String(request.headers['x-process'] ?? ''), () =>
    wait(onWayMs).then(() => undefined),
  )
  // Later than its sender waits for, as when this machine is too busy to look at it in time. The first turn ends this one of the
  // event loop; in the next the end is read, if it was there.
  await turn()
  await turn()
  const isGivenUp = request.socket.readableEnded || request.socket.destroyed
  // That can be made twice by a shop that knows no keys: nobody promises otherwise.
  if (givesIds && isGivenUp) return
  const { arrivals, act } = read(lane, receiver, path, request, body, label)
  for (const arrival of arrivals) {
    arrival.isLate = isLate || isGivenUp
    receiver.ledger.arrived(arrival)
  }
  // Who has sent something newer since cannot know that this is still to be done, and nobody promises otherwise. Whoever stood
  // still in the middle of it has not given it up.
  if (isGivenUp && !isLate && arrivals.some((one) => receiver.ledger.hasOvertaken(one))) return
  around.onStep('the target is asked')
  const answer = around.isCalm() ? 'is fine' : answerOf(chance, label)
  const isDone = !['refuses', 'is busy', 'drops before'].includes(answer)
  const made = isDone ? act(around.isCalm() ? undefined : chance) : undefined
  if (isDone) around.onStep('the target has done it')
  switch (answer) {
    case 'is fine':
    case 'is slow': {
      if (answer === 'is slow') await wait(chance.whole(`${label} pause`, 5, 120))
      for (const arrival of made?.taken ?? []) receiver.ledger.acknowledged(arrival)
      response.writeHead(made?.status ?? 200, { 'content-type': 'application/json' })
      response.end(made?.body === undefined ? '' : JSON.stringify(made.body), () =>
        around.onStep('the target has answered'),
      )
      return
    }
    case 'is busy': {
      if (chance.maybe(`${label} says so`, 0.3)) {
        lane.note('an answer asked for another attempt by what it said')
        response.writeHead(409, { 'content-type': 'application/json' }).end('{"code":"busy"}')
        return
      }
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

type Read = { arrivals: Arrival[]; act(chance: Chance | undefined): Made }

/** What a request asks for. */
function read(
  lane: Lane,
  receiver: Receiver,
  [part = '', last = '']: readonly string[],
  request: IncomingMessage,
  text: string,
  label: string,
): Read {
  const key = String(request.headers['idempotency-key'] ?? '')
  const isDelete = request.method === 'DELETE'
  const address = `${request.method} ${request.url}`
  const single = (pk: string): Arrival => ({
    pk,
    kind: isDelete ? 'delete' : 'upsert',
    body: isDelete ? undefined : (JSON.parse(text) as SourceItem),
    address,
    key,
  })
  const { shop } = receiver
  switch (part) {
    case 'items': {
      const arrival = single(last)
      return { arrivals: [arrival], act: () => byKey(receiver, arrival) }
    }
    case 'rows': {
      if (request.method === 'GET')
        return { arrivals: [], act: () => look(lane, receiver, request) }
      if (request.method === 'POST') {
        const body = JSON.parse(text) as SourceItem
        const arrival: Arrival = { pk: body.id, kind: 'upsert', body, address, key }
        const act = () => {
          const id = shop.create(arrival)
          lane.note('an item got its own id')
          // Others that were made beside it, as some shops tell.
          const made = [
            { sku: 'x', id: 'n0' },
            { sku: body.id, id },
          ]
          return { status: 201, body: { made }, taken: [arrival] }
        }
        return { arrivals: [arrival], act }
      }
      const pk = isDelete ? (shop.keyOf(last) ?? '') : (JSON.parse(text) as SourceItem).id
      // A delete of what is not there says nothing of which item it was.
      const arrival = single(pk)
      return {
        arrivals: pk === '' ? [] : [arrival],
        act: () => byId(lane, receiver, last, arrival, label),
      }
    }
    case 'skus': {
      const arrival = single(last)
      const act = () => {
        shop.removeKey(arrival)
        return { status: 204, taken: [arrival] }
      }
      return { arrivals: [arrival], act }
    }
    default:
      return batch(lane, receiver, JSON.parse(text) as BatchBody, label)
  }
}

function byKey({ ledger, done }: Receiver, arrival: Arrival): Made {
  if (!done?.has(arrival.key)) ledger.applied(arrival)
  done?.add(arrival.key)
  return { status: 200, taken: [arrival] }
}

function look(lane: Lane, { shop }: Receiver, request: IncomingMessage): Made {
  const sku = new URL(request.url ?? '', 'http://x').searchParams.get('sku') ?? ''
  const row = shop.find(sku)
  if (row) lane.note('an item was looked up and found')
  const found = [{ sku: `${sku}0`, id: 'n0' }, ...(row ? [{ sku, id: row.id }] : [])]
  return { status: 200, body: found, taken: [] }
}

function byId(lane: Lane, { shop }: Receiver, id: string, arrival: Arrival, label: string): Made {
  const isDelete = arrival.kind === 'delete'
  const isThere = isDelete ? shop.remove(id, arrival) : shop.change(id, arrival)
  if (isThere || isDelete) return { status: isThere ? 200 : 404, taken: [arrival] }
  lane.note('an item was gone at the shop and created anew')
  return lane.chance.maybe(`${label} gone`, 0.5)
    ? { status: 404, taken: [] }
    : { status: 422, body: { code: 'deleted' }, taken: [] }
}

type BatchBody = {
  items: SourceItem[]
  pks: string[]
  keys: string[]
  known?: { id?: string }[]
}

type Entry = { ok: true; remember?: { id: string } } | { status: number } | BatchWish
type BatchWish = { is: 'retry' | 'gone'; error: string; remember?: { id: string } }

function batch(lane: Lane, receiver: Receiver, body: BatchBody, label: string): Read {
  const arrivals = body.items.map<Arrival>((item, at) => ({
    pk: body.pks[at] ?? '',
    kind: 'upsert',
    body: item,
    address: 'batch',
    key: body.keys[at] ?? '',
  }))
  return {
    arrivals,
    act(chance) {
      const taken: Arrival[] = []
      const results = arrivals.map<Entry>((arrival, at) => {
        const own = `${label} ${at}`
        if (chance?.maybe(`${own} is busy`, 0.1)) return { status: 503 }
        const entry = body.known
          ? byOwnId(lane, receiver, arrival, body.known[at]?.id)
          : byKeyInBatch(receiver, arrival)
        if (!('ok' in entry)) return entry
        // It is done, and nobody hears of it.
        if (chance?.maybe(`${own} fails after`, 0.1)) return { status: 500 }
        taken.push(arrival)
        return entry
      })
      lane.note('a batch got an answer per item')
      if (results.length > 1 && chance?.maybe(`${label} tells too little`, 0.08)) {
        return { status: 200, body: { results: results.slice(1) }, taken: [] }
      }
      return { status: 200, body: { results }, taken }
    },
  }
}

function byKeyInBatch(receiver: Receiver, arrival: Arrival): Entry {
  byKey(receiver, arrival)
  return { ok: true }
}

/** Keys are unique at this one: who creates what is there is told its id. */
function byOwnId(lane: Lane, { shop }: Receiver, arrival: Arrival, id: string | undefined): Entry {
  if (id !== undefined) {
    if (shop.change(id, arrival)) return { ok: true, remember: { id } }
    lane.note('an item was gone at the shop and created anew')
    return { is: 'gone', error: 'there is none of this id' }
  }
  const there = shop.find(arrival.pk)
  if (there) {
    lane.note('an answer asked for another attempt by what it said')
    return { is: 'retry', error: 'it is there already', remember: { id: there.id } }
  }
  lane.note('an item got its own id')
  return { ok: true, remember: { id: shop.create(arrival) } }
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

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer)
  } catch {
    return undefined
  }
  return Buffer.concat(chunks).toString()
}
