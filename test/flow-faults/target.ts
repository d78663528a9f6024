import type { IncomingMessage, ServerResponse } from 'node:http'
import { setImmediate as nextIteration, setTimeout as wait } from 'node:timers/promises'
import type { Chance } from './chance.ts'
import type { Arrival } from './ledger.ts'
import type { SourceItem } from './source-history.ts'
import type { OutsideStep } from './steps.ts'
import type { Receiver, TestFlow } from './test-flow.ts'

/** What a target needs to handle a request: whether faults are over, and functions to call. */
export type TargetHooks = {
  isFaultFree(): boolean
  onStep(step: OutsideStep): void
  /** Does the work, then waits while requests of this process are delayed; returns whether they were. */
  transmit(process: string, work: () => Promise<void>): Promise<boolean>
}

/** The answer of a target, and which of the arrivals it acknowledges. */
type Made = { status: number; body?: unknown; taken: readonly Arrival[] }

/** Handles a request to a target, with the faults that the seed decides. */
export async function takeRequest(
  hooks: TargetHooks,
  testFlow: TestFlow,
  receiver: Receiver,
  path: readonly string[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await readBody(request)
  // The sender was killed within its request.
  if (body === undefined) return
  const { chance } = testFlow
  receiver.requests += 1
  const label = `request ${receiver.requests}`
  const givesIds = testFlow.scenario.target === 'own ids' && receiver === testFlow.web
  const isSlow = !hooks.isFaultFree() && !givesIds && chance.maybe(`${label} way`, 0.3)
  const onWayMs = isSlow ? chance.whole(`${label} way`, 5, 60) : 0
  const isLate = await hooks.transmit(String(request.headers['x-process'] ?? ''), () =>
    wait(onWayMs).then(() => undefined),
  )
  // A busy machine may handle a request after its sender gave it up. The first wait ends this iteration of the event loop; within
  // the second the end of the connection is read, if it came.
  await nextIteration()
  await nextIteration()
  const isGivenUp = request.socket.readableEnded || request.socket.destroyed
  // A shop without keys could create that item twice; the service promises nothing else.
  if (givesIds && isGivenUp) return
  const { arrivals, act } = read(testFlow, receiver, path, request, body, label)
  for (const arrival of arrivals) {
    arrival.isLate = isLate || isGivenUp
    receiver.ledger.arrived(arrival)
    const isOld = isLate && arrival.body && receiver.ledger.hasOvertaken(arrival)
    if (isOld) receiver.ledger.overwritten.add(arrival.pk)
  }
  // A sender that gave up this request and sent a newer one does not promise their order. A suspended sender has not given it up.
  if (isGivenUp && !isLate && arrivals.some((one) => receiver.ledger.hasOvertaken(one))) return
  hooks.onStep('the target receives a request')
  const answer = hooks.isFaultFree() ? 'is fine' : answerOf(chance, label)
  const isDone = !['refuses', 'is busy', 'drops before'].includes(answer)
  const made = isDone ? act(hooks.isFaultFree() ? undefined : chance) : undefined
  if (isDone) hooks.onStep('the target has applied the request')
  switch (answer) {
    case 'is fine':
    case 'is slow': {
      if (answer === 'is slow') await wait(chance.whole(`${label} pause`, 5, 120))
      for (const arrival of made?.taken ?? []) receiver.ledger.acknowledged(arrival)
      response.writeHead(made?.status ?? 200, { 'content-type': 'application/json' })
      // An API in JSON: an empty body would be no answer of it.
      response.end(JSON.stringify(made?.body ?? {}), () => hooks.onStep('the target has answered'))
      return
    }
    case 'is busy': {
      if (chance.maybe(`${label} says so`, 0.3)) {
        testFlow.countEvent('the body of an answer requested a retry')
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

/** The arrivals of a request, and the function that applies them. */
function read(
  testFlow: TestFlow,
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
        return { arrivals: [], act: () => search(testFlow, receiver, request) }
      if (request.method === 'POST') {
        const body = JSON.parse(text) as SourceItem
        const arrival: Arrival = { pk: body.id, kind: 'upsert', body, address, key }
        const act = () => {
          const id = shop.create(arrival)
          testFlow.countEvent('the target gave an item its id')
          // Some shops list other items beside the created one.
          const made = [
            { sku: 'x', id: 'n0' },
            { sku: body.id, id },
          ]
          return { status: 201, body: { made }, taken: [arrival] }
        }
        return { arrivals: [arrival], act }
      }
      const pk = isDelete ? (shop.keyOf(last) ?? '') : (JSON.parse(text) as SourceItem).id
      // A delete of an unknown id does not show which item it was.
      const arrival = single(pk)
      return {
        arrivals: pk === '' ? [] : [arrival],
        act: () => byId(testFlow, receiver, last, arrival, label),
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
      return batch(testFlow, receiver, JSON.parse(text) as BatchBody, label)
  }
}

function byKey({ ledger, done }: Receiver, arrival: Arrival): Made {
  if (!done?.has(arrival.key)) ledger.applied(arrival)
  done?.add(arrival.key)
  return { status: 200, taken: [arrival] }
}

function search(testFlow: TestFlow, { shop }: Receiver, request: IncomingMessage): Made {
  const sku = new URL(request.url ?? '', 'http://x').searchParams.get('sku') ?? ''
  const row = shop.find(sku)
  if (row) testFlow.countEvent('an item was looked up and found')
  const found = [{ sku: `${sku}0`, id: 'n0' }, ...(row ? [{ sku, id: row.id }] : [])]
  return { status: 200, body: found, taken: [] }
}

function byId(
  testFlow: TestFlow,
  { shop }: Receiver,
  id: string,
  arrival: Arrival,
  label: string,
): Made {
  const isDelete = arrival.kind === 'delete'
  const isThere = isDelete ? shop.remove(id, arrival) : shop.change(id, arrival)
  if (isThere || isDelete) return { status: isThere ? 200 : 404, taken: [arrival] }
  testFlow.countEvent('an item was missing at the shop and created again')
  return testFlow.chance.maybe(`${label} gone`, 0.5)
    ? { status: 404, taken: [] }
    : { status: 422, body: { code: 'deleted' }, taken: [] }
}

type BatchBody = {
  items: SourceItem[]
  pks: string[]
  keys: string[]
  known?: { id?: string }[]
}

type Entry = { ok: true; remember?: { id: string } } | { status: number } | BatchAnswer
type BatchAnswer = { is: 'retry' | 'gone'; error: string; remember?: { id: string } }

function batch(testFlow: TestFlow, receiver: Receiver, body: BatchBody, label: string): Read {
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
          ? byOwnId(testFlow, receiver, arrival, body.known[at]?.id)
          : byKeyInBatch(receiver, arrival)
        if (!('ok' in entry)) return entry
        // The item is applied, and the answer reports a failure.
        if (chance?.maybe(`${own} fails after`, 0.1)) return { status: 500 }
        taken.push(arrival)
        return entry
      })
      testFlow.countEvent('a batch got an answer per item')
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

/** This target has unique keys: the answer to the creation of an existing item has its id. */
function byOwnId(
  testFlow: TestFlow,
  { shop }: Receiver,
  arrival: Arrival,
  id: string | undefined,
): Entry {
  if (id !== undefined) {
    if (shop.change(id, arrival)) return { ok: true, remember: { id } }
    testFlow.countEvent('an item was missing at the shop and created again')
    return { is: 'gone', error: 'there is none of this id' }
  }
  const there = shop.find(arrival.pk)
  if (there) {
    testFlow.countEvent('the body of an answer requested a retry')
    return { is: 'retry', error: 'it is there already', remember: { id: there.id } }
  }
  testFlow.countEvent('the target gave an item its id')
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
