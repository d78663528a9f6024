import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { claimRuleOf } from '../../src/flows/deliver/claim-rules.ts'
import { eventually } from '../support/eventually.ts'
import {
  type Received,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { flowText, read } from './definition-support.ts'

/** A delete is not sent while another living item has the same identity at the destination. */
let target: TestTarget
let flows: TestFlows
let serial = 0

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
beforeEach(() => {
  for (const { path } of target.received) formerPlaces.add(placeOf(path))
  target.received.length = 0
  refuses = () => false
  shop.clear()
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

/** A flow of an earlier test may still send, such as a delete that waited for a minute. */
const formerPlaces = new Set<string>()
const placeOf = (path: string) => path.split('/')[1] ?? ''

/** The articles of the receiver, by its own number. */
const shop = new Map<string, { sku: string; id: string }>()
let refuses: (request: Received) => boolean = () => false

/** A receiver that knows an article by its SKU, and gives each a number. */
function serve(): void {
  const answer = (request: Received): [status: number, body: object | undefined] => {
    if (formerPlaces.has(placeOf(request.path))) return [404, {}]
    if (refuses(request)) return [503, undefined]
    const [, , kind, value = ''] = request.path.split('/')
    const numberOf = (sku: string) => [...shop].find(([, one]) => one.sku === sku)?.[0]
    if (kind === 'search') {
      const number = numberOf(value)
      return [number ? 200 : 404, number ? { number } : {}]
    }
    const given = request.body as { sku: string; id: string }
    const number = kind === 'by-number' ? value : (numberOf(value || given.sku) ?? `n${serial++}`)
    if (request.method === 'DELETE') return [shop.delete(number) ? 200 : 404, {}]
    shop.set(number, given)
    return [200, { number }]
  }
  const answers = new WeakMap<Received, ReturnType<typeof answer>>()
  const once = (request: Received) => {
    const made = answers.get(request) ?? answer(request)
    answers.set(request, made)
    return made
  }
  target.answer(
    (request) => once(request)[0],
    { 'content-type': 'application/json' },
    (request) => JSON.stringify(once(request)[1] ?? {}),
  )
}

/** Each test has a receiver of its own. */
const bySku = (place = `${target.url}/${serial}`) => ({
  request: { method: 'PUT', url: `${place}/by-sku/{body.sku}` },
  delete: { url: `${place}/by-sku/{body.sku}` },
})
const byNumber = (place = `${target.url}/${serial}`) => ({
  create: { url: `${place}/articles` },
  find: { url: `${place}/search/{body.sku}`, remember: { number: '$.number' } },
  request: { method: 'PUT', url: `${place}/by-number/{remembered.number}` },
  delete: { url: `${place}/by-number/{remembered.number}` },
  remember: { number: '$.number' },
})
const requests: Record<string, (place?: string) => object> = {
  'the delete names a field of the body': bySku,
  'the delete names what is remembered': byNumber,
}

async function define(name: string, destination: object, mode: string): Promise<void> {
  await flows.write(`${name}.flow.yaml`, {
    version: 1,
    name,
    pollInterval: '1h',
    allowPrivateNetwork: true,
    source: { type: 'file', path: `${flows.dir}/${name}.json`, format: 'json', settle: '0s' },
    item: { key: 'id' },
    deletes: { mode, guard: { emptySource: 'allow', maxPercent: 100 } },
    destinations: [
      {
        name: 'web',
        type: 'http',
        concurrency: 4,
        retry: { attempts: 5, initial: '1s', max: '2s' },
        ...destination,
      },
    ],
  })
}

type Article = { id: string; sku: string }
const bring = async (name: string, ...articles: Article[]) => {
  await flows.write(`${name}.json`, articles)
  const { changes } = (await flows.call('POST', `/sync/${name}`)).json()
  // A delete that waits for another flow is delayed.
  await flows.delivered()
  return changes
}

async function startFlow(destination: () => object, mode = 'delete'): Promise<string> {
  serve()
  serial += 1
  const name = `claims-${serial}`
  await define(name, destination(), mode)
  await flows.call('POST', '/flows/reload')
  return name
}

const deletes = () =>
  target.received.filter(
    ({ method, path }) => method === 'DELETE' && !formerPlaces.has(placeOf(path)),
  )
const deletesSent = () => deletes().length
const article = (id: string, sku: string) => ({ id, sku })

test.each(Object.entries(requests))(
  'an article with a new id and its former code keeps its row: %s',
  { tags: ['long'] },
  async (_, destination) => {
    const name = await startFlow(destination)
    await bring(name, article('1', 'A'), article('2', 'B'))
    await bring(name, article('2', 'B'), article('3', 'A'))
    expect([...shop.values()].map(({ sku }) => sku).sort()).toEqual(['A', 'B'])
    expect([...shop.values()].find(({ sku }) => sku === 'A')?.id).toBe('3')
    expect(deletesSent()).toBe(0)
    // The last one with the code takes the row with it.
    await bring(name, article('2', 'B'))
    expect([...shop.values()]).toEqual([article('2', 'B')])
    expect(deletesSent()).toBe(1)
  },
)

test.each(Object.entries(requests))(
  'so it does when its first attempt fails and is made again after the delete was due: %s',
  { tags: ['long'] },
  async (_, destination) => {
    const name = await startFlow(destination)
    await bring(name, article('1', 'A'), article('2', 'B'))
    let failures = 2
    refuses = ({ method }) => method !== 'DELETE' && failures-- > 0
    await bring(name, article('2', 'B'), article('3', 'A'))
    expect(failures).toBeLessThan(0)
    expect([...shop.values()].map(({ id }) => id).sort()).toEqual(['2', '3'])
    // The delete waited for the change, whose article then had the code.
    expect(deletesSent()).toBe(0)
  },
)

test.each(Object.entries(requests))(
  'so it does when the flow is changed to delete nothing while its delete waits: %s',
  { tags: ['long'] },
  async (_, destination) => {
    const shopOfFlow = destination(`${target.url}/no-deletes-${serial}`)
    const name = await startFlow(() => shopOfFlow)
    await bring(name, article('1', 'A'), article('2', 'B'))
    await flows.call('POST', '/sending/stop')
    await flows.write(`${name}.json`, [article('2', 'B'), article('3', 'A')])
    await flows.call('POST', `/sync/${name}`)
    await define(name, shopOfFlow, 'ignore')
    await flows.call('POST', '/flows/reload')
    await flows.call('POST', `/sync/${name}`)
    await flows.call('POST', '/sending/start')
    await flows.delivered()
    expect([...shop.values()].map(({ id }) => id).sort()).toEqual(['2', '3'])
    expect(deletesSent()).toBe(0)
  },
)

test('an article that lost its code to another, and whose next code is in doubt, is deleted under that next code', {
  tags: ['long'],
}, async () => {
  const name = await startFlow(bySku)
  await bring(name, article('1', 'A'))
  await bring(name, article('2', 'A'))
  refuses = ({ method }) => method !== 'DELETE'
  await bring(name, article('1', 'B'), article('2', 'A'))
  refuses = () => false
  await bring(name, article('2', 'A'))
  await eventually(() => expect(deletesSent()).toBe(1))
  expect(target.received.at(-1)?.path).toMatch(/by-sku\/B$/)
  expect([...shop.values()]).toEqual([article('2', 'A')])
})

test('an article of which only the code before deletes were switched on is known is not deleted under a code in doubt', {
  tags: ['long'],
}, async () => {
  const shopOfFlow = bySku(`${target.url}/switched-on`)
  const name = await startFlow(() => shopOfFlow, 'ignore')
  await bring(name, article('1', 'A'), article('2', 'C'))
  refuses = ({ method }) => method !== 'DELETE'
  await flows.write(`${name}.json`, [article('1', 'B'), article('2', 'C')])
  await define(name, shopOfFlow, 'delete')
  await flows.call('POST', '/flows/reload')
  await bring(name, article('1', 'B'), article('2', 'C'))
  refuses = () => false
  await bring(name, article('2', 'C'))
  await flows.ended()
  expect(deletesSent()).toBe(0)
  expect(await reasonsOf(name)).toMatchObject([{ pk: '1', why: { code: 'DELETE_NEEDS' } }])
})

test.each(['sent', 'in doubt'])(
  'an article that another one had written over is sent again once the other has its own code: %s',
  { tags: ['long'] },
  async (how) => {
    const name = await startFlow(bySku)
    await bring(name, article('1', 'A'), article('2', 'B'))
    await flows.write(`${name}.json`, [article('1', 'A'), article('2', 'A')])
    // The change is made, and its answer is lost.
    if (how === 'in doubt') refuses = (request) => shop.set('n', request.body as Article) !== shop
    await flows.call('POST', `/sync/${name}`)
    await eventually(() => expect(target.received.at(-1)?.body).toEqual(article('2', 'A')))
    refuses = () => false
    await bring(name, article('1', 'A'), article('2', 'C'))
    await flows.ended()
    target.received.length = 0
    // The next read deletes nothing under the former code, and the one after it sends the article that has it.
    for (let read = 0; read < 3; read += 1) await bring(name, article('1', 'A'), article('2', 'C'))
    expect(target.received.map(({ body }) => body)).toEqual([article('1', 'A')])
    expect(deletesSent()).toBe(0)
  },
)

test('so it does when a known article takes over the code, and the change is tried again', {
  tags: ['long'],
}, async () => {
  const name = await startFlow(bySku)
  await bring(name, article('1', 'A'), article('2', 'B'))
  let failures = 2
  refuses = ({ method }) => method !== 'DELETE' && failures-- > 0
  await bring(name, article('2', 'A'))
  expect([...shop.values()]).toContainEqual(article('2', 'A'))
  expect(deletesSent()).toBe(0)
})

/** What the article shares with all others is no identity, however the delete names the article. */
const shared: Record<string, (place?: string) => object> = {
  'the key in the address': (place = `${target.url}/${serial}`) => ({
    request: { method: 'PUT', url: `${place}/by-sku/{body.sku}` },
    delete: { url: `${place}/by-sku/{pk}?shop={body.shop}` },
  }),
  'the key in the body': (place = `${target.url}/${serial}`) => ({
    request: { method: 'PUT', url: `${place}/by-sku/{body.sku}` },
    delete: { url: `${place}/gone`, method: 'POST', body: '{ "shop": body.shop, "id": pk }' },
  }),
  'the whole body': (place = `${target.url}/${serial}`) => ({
    request: { method: 'PUT', url: `${place}/by-sku/{body.sku}` },
    delete: { url: `${place}/gone?shop={body.shop}`, method: 'POST' },
  }),
  'a part of an object': (place = `${target.url}/${serial}`) => ({
    request: { method: 'PUT', url: `${place}/by-sku/{body.sku}` },
    delete: { url: `${place}/gone`, method: 'POST', body: '{ "sku": body.article.sku }' },
    map: '{ "shop": "web", "sku": sku, "id": id, "article": { "sku": sku } }',
  }),
}

test.each(Object.entries(shared))(
  'an article whose delete names %s beside what all articles share is deleted',
  async (_, destination) => {
    const map = '{ "shop": "web", "sku": sku, "id": id }'
    const name = await startFlow(() => ({ map, ...destination() }))
    await bring(name, article('1', 'A'), article('2', 'B'))
    target.received.length = 0
    await bring(name, article('2', 'B'))
    expect(target.received).toHaveLength(1)
    expect(await reasonsOf(name)).toEqual([])
  },
)

test('two articles with one code that vanish together take their row with them', async () => {
  const name = await startFlow(bySku)
  await bring(name, article('1', 'A'), article('2', 'A'), article('3', 'B'))
  await bring(name, article('3', 'B'))
  expect([...shop.values()]).toEqual([article('3', 'B')])
})

test('an article without a namesake is deleted as ever, and the reason of a delete that is not sent names the other', {
  tags: ['long'],
}, async () => {
  const name = await startFlow(bySku)
  await bring(name, article('1', 'A'), article('2', 'B'), article('3', 'C'))
  expect(await bring(name, article('3', 'C'), article('4', 'A'))).toBe(3)
  expect([...shop.values()].map(({ id }) => id).sort()).toEqual(['3', '4'])
  expect(await reasonsOf(name)).toMatchObject([
    { pk: '1', state: 'done', why: { code: 'DELETE_CLAIMED', data: { pk: '4', flow: name } } },
  ])
})

const reasonsOf = (name: string) =>
  flows.service.database.db
    .selectFrom('deliveries')
    .select(['pk', 'state', 'why'])
    .where('flow', '=', name)
    .where('why', 'is not', null)
    .execute()

test.each([
  ['case', 'ab-1', 'AB-1'],
  ['zeros', '42', '00042'],
  ['decimals', '1', '1.00'],
  ['blanks', 'x', 'x '],
])(
  'where only the receiver knows whether two codes are one (%s), the delete fails with a reason',
  { tags: ['long'] },
  async (_, before, after) => {
    const name = await startFlow(bySku)
    await bring(name, article('1', before), article('2', 'B'))
    await bring(name, article('2', 'B'), article('3', after))
    expect(deletesSent()).toBe(0)
    expect(await reasonsOf(name)).toMatchObject([
      { pk: '1', state: 'failed', why: { code: 'DELETE_ALIKE', data: { pk: '3' } } },
    ])
  },
)

test('an article that moves to another flow of the same receiver keeps its row; without its flow it does not', {
  tags: ['long'],
}, async () => {
  const place = `${target.url}/both`
  const from = await startFlow(() => bySku(place))
  const to = await startFlow(() => bySku(place))
  await bring(from, article('1', 'A'), article('2', 'B'))
  await bring(to, article('3', 'A'))
  await bring(from, article('2', 'B'))
  expect([...shop.values()].map(({ sku }) => sku).sort()).toEqual(['A', 'B'])
  expect(deletesSent()).toBe(0)
  await bring(from, article('2', 'B'), article('4', 'A'))
  // A flow without a definition keeps nothing alive.
  await flows.remove(`${to}.flow.yaml`)
  await flows.call('POST', '/flows/reload')
  await bring(from, article('2', 'B'))
  expect([...shop.values()]).toEqual([article('2', 'B')])
})

test('an article that two flows send under one key is deleted with the last of them', {
  tags: ['long'],
}, async () => {
  const place = `${target.url}/shared`
  const byKey = () => ({
    request: { method: 'PUT', url: `${place}/by-sku/{pk}` },
    delete: { url: `${place}/by-sku/{pk}` },
  })
  const prices = await startFlow(byKey)
  const stocks = await startFlow(byKey)
  for (const name of [prices, stocks]) await bring(name, article('1', '1'), article('2', '2'))
  await bring(prices, article('2', '2'))
  expect([...shop.values()].map(({ id }) => id).sort()).toEqual(['1', '2'])
  expect(deletesSent()).toBe(0)
  await bring(stocks, article('2', '2'))
  expect([...shop.values()].map(({ id }) => id)).toEqual(['2'])
})

/** A catalogue that deletes, and a flow that writes to the same articles and deletes none. */
async function startBoth(): Promise<[catalogue: string, stock: string]> {
  const place = `${target.url}/rows-${serial}`
  const both = [
    await startFlow(() => bySku(place)),
    await startFlow(() => bySku(place), 'ignore'),
  ] as const
  for (const name of both) await bring(name, article('1', 'A'), article('2', 'B'))
  return [...both]
}
/** Attempts of what waits for a time are made at once. */
const tryNow = async (name: string) => {
  await flows.call('POST', `/flow/${name}/try`, { body: { destination: 'web' } })
  await flows.delivered()
}
const isNamed = (name: string) => (one: { name: string }) => one.name === name
const inShop = () => [...shop.values()].map(({ sku }) => sku).sort()

test('an article stays while a flow that deletes nothing has it, and goes when that flow misses it too', {
  tags: ['long'],
}, async () => {
  const [catalogue, stock] = await startBoth()
  await bring(catalogue, article('2', 'B'))
  expect(inShop()).toEqual(['A', 'B'])
  expect(await reasonsOf(catalogue)).toMatchObject([
    { pk: '1', state: 'waiting', why: { code: 'DELETE_WAITS', data: { pk: '1', flow: stock } } },
  ])
  const { destinations } = (await flows.call('GET', '/flows')).json().flows.find(isNamed(catalogue))
  expect(destinations[0]).toMatchObject({ delayed: 1, oldest_waiting_at: null })
  await tryNow(catalogue)
  expect(inShop()).toEqual(['A', 'B'])
  await bring(stock, article('2', 'B'))
  await tryNow(catalogue)
  expect(inShop()).toEqual(['B'])
  expect(deletesSent()).toBe(1)
})

test('an article that the flow which deletes nothing missed first is deleted at once', {
  tags: ['long'],
}, async () => {
  const [catalogue, stock] = await startBoth()
  await bring(stock, article('2', 'B'))
  expect(inShop()).toEqual(['A', 'B'])
  await bring(catalogue, article('2', 'B'))
  expect(inShop()).toEqual(['B'])
})

test('an article that returns is sent again by the flow that deletes nothing, though it is the same as before', {
  tags: ['long'],
}, async () => {
  const [catalogue, stock] = await startBoth()
  for (const name of [stock, catalogue]) await bring(name, article('2', 'B'))
  expect(inShop()).toEqual(['B'])
  await bring(stock, article('1', 'A'), article('2', 'B'))
  expect(inShop()).toEqual(['A', 'B'])
  // It is of the stock only, and nothing waits for it.
  await tryNow(catalogue)
  expect(inShop()).toEqual(['A', 'B'])
})

test('a read that cannot read a record, and a flow that is paused, miss nothing', {
  tags: ['long'],
}, async () => {
  const [catalogue, stock] = await startBoth()
  const unread = { sku: 'A' } as Article
  await bring(stock, unread, article('2', 'B'))
  await bring(catalogue, article('2', 'B'))
  expect(inShop()).toEqual(['A', 'B'])
  await flows.call('POST', `/flow/${stock}/pause`)
  await tryNow(catalogue)
  expect(inShop()).toEqual(['A', 'B'])
  await flows.call('POST', `/flow/${stock}/resume`)
  await bring(stock, article('2', 'B'))
  await tryNow(catalogue)
  expect(inShop()).toEqual(['B'])
})

test('a flow whose file has a mistake keeps its articles, also after a restart', {
  tags: ['long'],
}, async () => {
  const [catalogue, stock] = await startBoth()
  await flows.write(`${stock}.flow.yaml`, { version: 1, name: stock, mistake: true })
  flows = await flows.restart()
  await bring(catalogue, article('2', 'B'))
  expect(inShop()).toEqual(['A', 'B'])
  await flows.remove(`${stock}.flow.yaml`)
  await flows.call('POST', '/flows/reload')
  await tryNow(catalogue)
  expect(deletes().map(({ path }) => path)).toEqual([expect.stringMatching(/\/by-sku\/A$/)])
  expect(inShop()).toEqual(['B'])
})

test('a flow that deletes nothing marks what it misses only beside one that deletes at its place', async () => {
  const alone = await startFlow(bySku, 'ignore')
  await bring(alone, article('1', 'A'), article('2', 'B'))
  await bring(alone, article('2', 'B'))
  const missed = await flows.service.database.db
    .selectFrom('flow_items')
    .select('pk')
    .where('flow', '=', alone)
    .where('missed_since', 'is not', null)
    .execute()
  expect(missed).toEqual([])
})

test('a table is known by its upsertKey, a store by its external_id; an HTTP item by what its delete names; a file, and an address with a value that is read for each request, show no identity', () => {
  const ruleOf = (text: string) => {
    const found = read(flowText({ destinations: `destinations:\n  - ${text}` }))
    if ('problems' in found) throw new Error(found.problems.map(({ message }) => message).join())
    const [definition] = found.loaded.flow.destinations
    return definition && claimRuleOf(definition)
  }
  const table = ruleOf(
    '{ name: t, type: sql, driver: postgres, url: "postgres://h/d", table: t, upsertKey: [a, b] }',
  )
  const ofTable = (body: object) => table?.claimOf(body, undefined, 'pk')
  const one = ofTable({ a: '1', b: 'X', price: 1 })
  expect(one).toEqual(ofTable({ a: 1, b: 'X', price: 2 }))
  expect(ofTable({ a: '01.0', b: ' x' })).toEqual({
    exact: expect.not.stringMatching(one?.exact ?? ''),
    folded: one?.folded,
  })
  expect(ofTable({ a: '2', b: 'X' })?.folded).not.toBe(one?.folded)
  expect(ofTable({})).toBeUndefined()
  const stores = ruleOf('{ name: s, type: payments.stores, client: acme }')
  expect(stores?.claimOf({ external_id: 'S1' }, undefined, 'S1')).toBeDefined()
  expect(ruleOf('{ name: f, type: file, path: out.ndjson }')).toBeUndefined()
  const request = 'request: { url: "https://h/i/{pk}" }'
  const http = `name: h, type: http, ${request}, remember: { id: id }`
  const byKey = ruleOf(`{ ${http}, delete: { url: "https://h/i/{pk}" } }`)
  expect(byKey?.claimOf({}, undefined, '1')).not.toEqual(byKey?.claimOf({}, undefined, '2'))
  expect(byKey?.claimOf({}, undefined, '1')?.folded).toBe(
    byKey?.claimOf({}, undefined, '01.0')?.folded,
  )
  expect(byKey?.claimOf({}, undefined, 'a|1')?.folded).toBe(
    byKey?.claimOf({}, undefined, 'A|01')?.folded,
  )
  const gone = 'delete: { url: "https://h/i/{remembered.id}/{remembered.v}" }'
  const fresh = 'find: [{ fresh: true, url: "https://h/v/{pk}", remember: { v: v } }]'
  expect(ruleOf(`{ ${http}, ${fresh}, ${gone} }`)).toBeUndefined()
  // In a header it is a state of the item.
  const versioned =
    'delete: { url: "https://h/i/{remembered.id}", headers: { x: "{remembered.v}" } }'
  const ofId = ruleOf(`{ ${http}, ${fresh}, ${versioned} }`)
  expect(ofId?.claimOf({}, { id: 7 }, '1')).toEqual(ofId?.claimOf({}, { id: 7 }, '2'))
  expect(ofId?.claimOf({}, { id: 7 }, '1')).not.toEqual(ofId?.claimOf({}, { id: 8 }, '1'))
  // A variant of a product, which is stored.
  const stored = http.replace('{ id: id }', '{ id: id, v: v }')
  const ofBoth = ruleOf(`{ ${stored}, ${fresh}, ${gone} }`)
  expect(ofBoth?.claimOf({}, { id: 7, v: 1 }, '1')).toEqual(
    ofBoth?.claimOf({}, { id: 7, v: 1 }, '2'),
  )
  expect(ofBoth?.claimOf({}, { id: 7, v: 1 }, '1')).not.toEqual(
    ofBoth?.claimOf({}, { id: 7, v: 2 }, '1'),
  )
})
