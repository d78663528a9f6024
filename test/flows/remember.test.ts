import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { type Flow, flowSchema } from '../../src/flows/definition/schema.ts'
import { Deliveries } from '../../src/flows/deliver/deliver.ts'
import { createEnqueue } from '../../src/flows/poll/poll-writer.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { openTestDatabase } from '../support/database.ts'
import { change, leading, memoryLog, statesOf } from './deliver-support.ts'

/** A shop that gives its own ids: what it answers is remembered by the item and used from then on. */
const soon = { timeout: 10_000, interval: 10 }

type Call = { method: string; url: string; headers: IncomingHttpHeaders; text: string }
type Product = { id: number; sku: string; price: unknown }

let database: Database
let server: Server
let base: string
let calls: Call[] = []
let products: Product[] = []
let lastId = 900_000_000_000_000
/** What the shop answers instead, once. */
let next: ((call: Call) => ShopAnswer | 'drop' | undefined) | undefined

type ShopAnswer = { status: number; body?: string | Buffer; headers?: Record<string, string> }

function shop({ method, url, text }: Call): { status: number; body?: unknown } {
  const found = (id: string | undefined) => products.find((one) => String(one.id) === id)
  const id = /^\/products\/(\d+)$/.exec(url)?.[1]
  if (method === 'GET') {
    const sku = new URL(url, base).searchParams.get('sku')
    return { status: 200, body: products.filter((one) => one.sku === sku) }
  }
  if (method === 'POST') {
    lastId += 7
    const created = { id: lastId, ...(JSON.parse(text) as Omit<Product, 'id'>) }
    products.push(created)
    return { status: 201, body: { product: created } }
  }
  const product = found(id)
  if (!product) return { status: 404 }
  if (method === 'DELETE') products = products.filter((one) => one !== product)
  else Object.assign(product, JSON.parse(text))
  return { status: 200, body: { product } }
}

beforeAll(async () => {
  database = await openTestDatabase()
  server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const { method = '', url = '', headers } = request
    const call = { method, url, headers, text }
    calls.push(call)
    const asked = next
    next = undefined
    const own = asked?.(call)
    if (!own) next = asked
    if (own === 'drop') return void request.socket.destroy()
    if (own) {
      response.writeHead(own.status, { 'content-type': 'application/json', ...own.headers })
      return void response.end(own.body)
    }
    const { status, body } = shop(call)
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  calls = []
  products = []
  next = undefined
})
afterAll(async () => {
  await database.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

function flowTo(name: string, destination: Record<string, unknown> = {}): Flow {
  const flow = flowSchema({
    env: {},
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  }).parse({
    version: 1,
    name,
    pollInterval: '1h',
    allowPrivateNetwork: true,
    source: { type: 'file', path: 'in.ndjson', format: 'ndjson' },
    item: { key: 'sku' },
    destinations: [
      {
        name: 'shop',
        type: 'http',
        create: { method: 'POST', url: `${base}/products` },
        request: { method: 'PUT', url: `${base}/products/{remembered.id}` },
        delete: { url: `${base}/products/{remembered.id}` },
        remember: { id: '$.product.id' },
        retry: { attempts: 4, initial: '100ms', max: '100ms', jitter: 0 },
        ...destination,
      },
    ],
  })
  return flow
}

async function serve(flow: Flow) {
  const enqueue = createEnqueue({ database, now: () => new Date() })
  const deliveries = new Deliveries({
    database,
    now: () => new Date(),
    random: () => 0.5,
    leader: leading,
    log: memoryLog(),
    pollMs: 20,
  })
  const agent = createGuardedAgent({ allowPrivateNetwork: true })
  const unused = () => Promise.reject(new Error('not here'))
  const payments = { upsertStore: unused, addPos: unused, deletePos: unused, deleteStore: unused }
  await deliveries.start()
  await deliveries.open(flow, { agent, payments, now: () => new Date() })
  let isStopped = false
  const stop = async () => {
    if (isStopped) return
    isStopped = true
    await deliveries.stop({ timeoutMs: 100 })
    await agent.destroy()
  }
  onTestFinished(stop)
  const bring = async (...items: { sku: string; price: number; kind?: 'upsert' | 'delete' }[]) => {
    const changes = items.map(({ sku, price, kind = 'upsert' }) =>
      change({ pk: sku, kind, hash: `h1:${price}${kind}`, value: { sku, price } }),
    )
    await database.transaction((trx) => enqueue(trx, { flow }, changes))
    await expect.poll(async () => (await statesOf(database, flow.name)).waiting ?? 0, soon).toBe(0)
  }
  return { bring, stop }
}

const requestLines = () => calls.map(({ method, url }) => `${method} ${url}`)

test('an item is created once, changed and deleted under the shop’s id, also by the next process', async () => {
  const flow = flowTo('remembers')
  const first = await serve(flow)
  await first.bring({ sku: 'A/1', price: 5 })
  const id = products[0]?.id
  await first.bring({ sku: 'A/1', price: 6 })
  await first.stop()
  const second = await serve(flow)
  await second.bring({ sku: 'A/1', price: 7 }, { sku: 'B', price: 1 })
  expect(products).toMatchObject([{ id, sku: 'A/1', price: 7 }, { sku: 'B' }])
  await second.bring({ sku: 'A/1', price: 7, kind: 'delete' })
  expect(products).toMatchObject([{ sku: 'B' }])
  // Deleted and there again, it is new.
  await second.bring({ sku: 'A/1', price: 8 })
  expect(products).toHaveLength(2)
  expect(requestLines().filter((line) => line.startsWith('POST'))).toHaveLength(3)
  expect(requestLines()).toContain(`DELETE /products/${id}`)
})

test('a further remembered value makes no item again: the request needs none of it', async () => {
  const first = await serve(flowTo('further'))
  await first.bring({ sku: 'F', price: 5 })
  await first.stop()
  const second = await serve(
    flowTo('further', { remember: { id: '$.product.id', sku: '$.product.sku' } }),
  )
  await second.bring({ sku: 'F', price: 6 })
  expect(products.filter(({ sku }) => sku === 'F')).toMatchObject([{ price: 6 }])
})

test('an item whose creation has no answer is looked up before it is created again', async () => {
  const find = { url: `${base}/products?sku={body.sku}`, remember: { id: '$[0].id' } }
  const { bring } = await serve(flowTo('finds', { find }))
  // It is created, and the answer is lost.
  next = (call) => {
    if (call.method !== 'POST') return undefined
    shop(call)
    return 'drop'
  }
  await bring({ sku: 'ñ 1', price: 5 })
  expect(products).toMatchObject([{ sku: 'ñ 1', price: 5 }])
  expect(requestLines().filter((line) => line.startsWith('POST'))).toHaveLength(1)
  expect(requestLines().at(-1)).toBe(`PUT /products/${products[0]?.id}`)
  await bring({ sku: 'ñ 1', price: 6 })
  expect(products).toMatchObject([{ price: 6 }])
  // Of one that was never there nothing has to be deleted.
  await bring({ sku: 'never', price: 1, kind: 'delete' })
  expect(await statesOf(database, 'finds')).toEqual({ done: 2 })
})

test('an item that was deleted at the shop is created again', async () => {
  const { bring } = await serve(flowTo('anew'))
  await bring({ sku: 'A', price: 5 })
  products = []
  await bring({ sku: 'A', price: 6 })
  expect(products).toMatchObject([{ sku: 'A', price: 6 }])
  expect(await statesOf(database, 'anew')).toEqual({ done: 1 })
})

test('of several found items the one with this key counts', async () => {
  const find = {
    url: `${base}/products?sku={pk}`,
    remember: { id: 'products[sku = $pk].id' },
  }
  const { bring } = await serve(flowTo('picks', { find }))
  products = [{ id: 41, sku: 'A', price: 1 }]
  next = () => ({
    status: 200,
    body: '{"products":[{"id":40,"sku":"A-large"},{"id":41,"sku":"A"},{"id":42,"sku":"a"}]}',
  })
  await bring({ sku: 'A', price: 5 })
  expect(requestLines()).toEqual(['GET /products?sku=A', 'PUT /products/41'])
  next = () => ({ status: 200, body: '{"products":[{"id":40,"sku":"B-large"}]}' })
  await bring({ sku: 'B', price: 5 })
  expect(requestLines().slice(2)).toEqual(['GET /products?sku=B', 'POST /products'])
})

test('a list with one entry is that entry, and an empty list means that there is none', async () => {
  const find = { url: `${base}/products?sku={pk}`, remember: { id: 'ids' } }
  const { bring } = await serve(flowTo('lists', { find }))
  products = [{ id: 41, sku: 'A', price: 1 }]
  next = () => ({ status: 200, body: '{"ids":[41]}' })
  await bring({ sku: 'A', price: 5 })
  next = () => ({ status: 200, body: '{"ids":[]}' })
  await bring({ sku: 'B', price: 5 })
  expect(requestLines()).toEqual([
    'GET /products?sku=A',
    'PUT /products/41',
    'GET /products?sku=B',
    'POST /products',
  ])
})

test('a shop may report in its own format that it no longer has an item', async () => {
  const answers = [{ status: [400], when: 'body.code = "no_such_product"', is: 'gone' }]
  const flow = flowTo('own-words', { answers })
  const { bring } = await serve(flow)
  await bring({ sku: 'A', price: 5 })
  products = []
  next = () => ({ status: 400, body: '{"code":"no_such_product"}' })
  await bring({ sku: 'A', price: 6 })
  expect(products).toMatchObject([{ sku: 'A', price: 6 }])
  next = () => ({ status: 400, body: '{"code":"no_such_product"}' })
  await bring({ sku: 'A', price: 6, kind: 'delete' })
  expect(await statesOf(database, 'own-words')).toEqual({ done: 1 })
  expect(requestLines().filter((line) => line.startsWith('DELETE'))).toHaveLength(1)
})

test('an answer without the id is a failure, since the next change would create the item twice', async () => {
  const { bring } = await serve(flowTo('no-id'))
  next = () => ({ status: 201, body: '{"product":{}}' })
  await bring({ sku: 'A', price: 5 })
  const row = await database.db
    .selectFrom('deliveries')
    .select(['state', 'last_error'])
    .where('flow', '=', 'no-id')
    .executeTakeFirst()
  expect(row).toMatchObject({
    state: 'failed',
    last_error: expect.stringContaining('values of remember'),
  })
})

const failureOf = async (name: string) => {
  const row = await database.db
    .selectFrom('deliveries')
    .select('last_error')
    .where('flow', '=', name)
    .where('state', '=', 'failed')
    .executeTakeFirst()
  return row?.last_error ?? undefined
}
const findHere = () => ({ url: `${base}/products?sku={pk}`, remember: { id: '$.id' } })

test.each([
  ['several of them', '[{"id":40},{"id":41}]', 'has 2 values for id, not one'],
  ['an object', '{"id":{"$oid":"5f"}}', 'has an object for id'],
  ['more than anybody reads', JSON.stringify([{ id: 'x'.repeat(1_100_000) }]), 'is too large'],
])('a look-up with the answer %s creates nothing', async (_what, body, reason) => {
  const name = `unclear-${reason.length}`
  const { bring } = await serve(flowTo(name, { find: findHere() }))
  const answer: typeof next = () => {
    next = answer
    return { status: 200, body }
  }
  next = answer
  await bring({ sku: 'A', price: 5 })
  expect(await failureOf(name)).toContain(reason)
  expect(new Set(requestLines())).toEqual(new Set(['GET /products?sku=A']))
})

test('an item is found in an answer of any usual size, charset and compression', async () => {
  const long = JSON.stringify([{ description: 'x'.repeat(200_000), id: 'ñ1' }])
  const answers: ShopAnswer[] = [
    { status: 200, body: long },
    { status: 200, body: `\ufeff[{"id":"ñ1"}]` },
    {
      status: 200,
      body: Buffer.from('[{"id":"ñ1"}]', 'latin1'),
      headers: { 'content-type': 'application/json; charset=ISO-8859-1' },
    },
    { status: 200, body: gzipSync('[{"id":"ñ1"}]'), headers: { 'content-encoding': 'gzip' } },
  ]
  const request = { method: 'PUT', url: `${base}/products/{remembered.id}`, okStatus: [200, 404] }
  const { bring } = await serve(flowTo('forms', { find: findHere(), request }))
  for (const [index, answer] of answers.entries()) {
    next = () => answer
    await bring({ sku: `A${index}`, price: 5 })
    expect(requestLines().slice(-2)).toEqual([
      `GET /products?sku=A${index}`,
      'PUT /products/%C3%B11',
    ])
  }
})

test('a creation whose answer has no body is looked up, once', async () => {
  const { bring } = await serve(flowTo('silent', { find: findHere() }))
  const silent: typeof next = (call) => {
    if (call.method !== 'POST') return undefined
    shop(call)
    return { status: 201, headers: { location: '/products/1' } }
  }
  next = silent
  await bring({ sku: 'A', price: 5 })
  const find = 'GET /products?sku=A'
  expect(requestLines()).toEqual([find, 'POST /products', find])
  await bring({ sku: 'A', price: 6 })
  expect(requestLines().slice(3)).toEqual([`PUT /products/${products[0]?.id}`])
  expect(products).toMatchObject([{ sku: 'A', price: 6 }])
})

test('an id beyond 2^53 keeps its digits', async () => {
  const { bring } = await serve(flowTo('long-ids', { find: findHere() }))
  next = () => ({ status: 200, body: '[{"id":9007199254740993123}]' })
  await bring({ sku: 'A', price: 5 })
  expect(requestLines()[1]).toBe('PUT /products/9007199254740993123')
})

test('create and change may have separate bodies', async () => {
  const { bring } = await serve(
    flowTo('bodies', {
      create: {
        url: `${base}/products`,
        body: '{ "sku": body.sku, "price": body.price, "created": true }',
      },
      request: {
        method: 'PUT',
        url: `${base}/products/{remembered.id}`,
        body: '{ "id": remembered.id, "price": body.price }',
      },
    }),
  )
  await bring({ sku: 'A', price: 5 })
  await bring({ sku: 'A', price: 6 })
  expect(calls.map(({ text }) => JSON.parse(text))).toEqual([
    { sku: 'A', price: 5, created: true },
    { id: products[0]?.id, price: 6 },
  ])
})
