import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { destinationIdentity, sourceIdentity } from '../../src/flows/definition/identity.ts'
import { flowSchema } from '../../src/flows/definition/schema.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { statesOf } from './deliver-support.ts'
import { createTestPoll } from './poll-support.ts'

/** The stored data of a flow belongs to its source and destination, not to their names. */
let one: TestTarget
let other: TestTarget
let flows: TestFlows

beforeAll(async () => {
  ;[one, other] = [await startTarget(), await startTarget()]
  flows = await startTestFlows()
})
beforeEach(() => {
  const withId = (shop: string) => (request: { body: unknown }) =>
    JSON.stringify({ id: `${shop}-${(request.body as { id?: string } | undefined)?.id}` })
  one.answer(200, { 'content-type': 'application/json' }, withId('one'))
  other.answer(200, { 'content-type': 'application/json' }, withId('other'))
})
afterAll(async () => {
  await flows.stop()
  await one.close()
  await other.close()
})

const post = async (path: string) => (await flows.call('POST', path)).json()
const questionOf = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/question`)).json()
const asked = async (name: string, counts: object) => {
  await expect
    .poll(() => questionOf(name), { timeout: 10_000 })
    .toMatchObject({ state: 'asked', destinations: [counts] })
  return (await questionOf(name)).number
}
const settled = (name: string) =>
  expect.poll(() => questionOf(name), { timeout: 10_000 }).toMatchObject({ state: 'none' })
const answer = async (name: string, how: string) => {
  const body = { number: await asked(name, {}), answer: how }
  await flows.call('POST', `/flow/${name}/question`, { body })
  await settled(name)
}
const sentTo = ({ received }: TestTarget, name: string) =>
  received
    .filter(({ path }) => path.startsWith(`/${name}/`))
    .map(({ method, path }) => `${method} ${path}`)

const shop = ({ url }: TestTarget, name: string) => ({
  name: 'web',
  type: 'http',
  create: { url: `${url}/${name}/products` },
  request: { method: 'PUT', url: `${url}/${name}/products/{remembered.id}` },
  delete: { url: `${url}/${name}/products/{remembered.id}` },
  remember: { id: 'id' },
  retry: { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 },
})

const define = async (name: string, change: object) => {
  const deletes = { mode: 'delete', guard: { minItems: 100 } }
  await flows.write(
    `${name}.flow.yaml`,
    jsonFlow(name, one.url, { startPaused: false, deletes, ...change }),
  )
  const reloaded = await flows.call('POST', '/flows/reload')
  expect(reloaded.json().problems).toEqual([])
}
const show = (name: string, ...items: object[]) => flows.write(`${name}.json`, items)

test('another shop under a destination’s name gets nothing of the first, and everything after approval', {
  tags: ['long'],
}, async () => {
  const name = 'shop'
  await show(name, { id: 'A', v: 1 }, { id: 'B', v: 1 })
  await define(name, { destinations: [shop(one, name)] })
  await post(`/sync/${name}`)
  await flows.delivered(name)
  expect(sentTo(one, name)).toHaveLength(2)

  await show(name, { id: 'A', v: 2 }, { id: 'B', v: 1 })
  await define(name, { destinations: [shop(other, name)] })
  await asked(name, { name: 'web', is_moved: true, new: 1 })
  // A single item that is synced waits with the others.
  await post(`/sync/${name}/A`)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(sentTo(other, name)).toEqual([])

  // The former address again: nothing is asked, and nothing was lost.
  await define(name, { destinations: [shop(one, name)] })
  await settled(name)
  await post(`/sync/${name}`)
  await flows.delivered(name)
  expect(sentTo(one, name).slice(2)).toEqual([`PUT /${name}/products/one-A`])
  expect(sentTo(other, name)).toEqual([])

  await define(name, { destinations: [shop(other, name)] })
  await answer(name, 'send')
  await flows.delivered(name)
  expect(sentTo(other, name).toSorted()).toEqual([
    `POST /${name}/products`,
    `POST /${name}/products`,
  ])
  expect(sentTo(one, name)).toHaveLength(3)
  // From then on it is the destination, with ids of its own.
  await show(name, { id: 'B', v: 2 })
  await post(`/sync/${name}`)
  await flows.delivered(name)
  expect(sentTo(other, name).slice(2).toSorted()).toEqual([
    `DELETE /${name}/products/other-A`,
    `PUT /${name}/products/other-B`,
  ])
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${name}`)).json()
  expect(activity.map(({ action }: { action: string }) => action)).toContain('question answered')
})

test('deliveries that a destination had not received before its definition changed wait for approval, and then arrive', {
  tags: ['long'],
}, async () => {
  const name = 'midway'
  await show(name, ...['A', 'B', 'C', 'D'].map((id) => ({ id })))
  const limited = { ...shop(one, name), rateLimit: { max: 2, per: '1h' } }
  await define(name, { destinations: [limited] })
  await post(`/sync/${name}`)
  await expect.poll(() => sentTo(one, name)).toHaveLength(2)
  await expect.poll(() => statesOf(flows.service.database, name)).toMatchObject({ waiting: 2 })

  const path = join(flows.dir, 'midway.ndjson')
  await define(name, { destinations: [{ name: 'web', type: 'file', path, format: 'ndjson' }] })
  await asked(name, { name: 'web', is_moved: true, new: 2 })
  expect(await statesOf(flows.service.database, name)).toEqual({ waiting: 4 })
  await answer(name, 'send')
  await flows.delivered(name)
  const arrived = (await readFile(path, 'utf8')).match(/"id":"[A-D]"/g) ?? []
  expect(arrived.toSorted()).toEqual(['A', 'B', 'C', 'D'].map((id) => `"id":"${id}"`))
})

test('a paused flow is compared after its resume, which answers nothing', {
  tags: ['long'],
}, async () => {
  const name = 'shop-held'
  await show(name, { id: 'A' })
  await define(name, { destinations: [shop(one, name)] })
  await post(`/sync/${name}`)
  await flows.delivered(name)
  await post(`/flow/${name}/pause`)
  await define(name, { destinations: [shop(other, name)] })
  expect(await questionOf(name)).toMatchObject({ state: 'comparing' })
  await post(`/flow/${name}/resume`)
  await asked(name, { new: 1 })
  expect(sentTo(other, name)).toEqual([])
  await answer(name, 'keep')
})

test('a destination with another file has no delivered items', { tags: ['long'] }, async () => {
  const name = 'copy'
  await show(name, { id: 'A' }, { id: 'B' })
  const file = (path: string) => ({
    destinations: [{ name: 'web', type: 'file', path: join(flows.dir, path) }],
  })
  await define(name, file('a.ndjson'))
  await post(`/sync/${name}`)
  await flows.delivered(name)
  await define(name, file('b.ndjson'))
  await answer(name, 'send')
  await flows.delivered(name)
  expect((await readFile(join(flows.dir, 'b.ndjson'), 'utf8')).trim().split('\n')).toHaveLength(2)
})

test('rows that another source does not have are deleted only after approval', {
  tags: ['long'],
}, async () => {
  const name = 'table'
  const from = (path: string) => ({
    source: { type: 'file', path: `${flows.dir}/${path}.json`, format: 'json', settle: '0s' },
  })
  await flows.write('table-a.json', [{ id: 'A' }, { id: 'B' }])
  await flows.write('table-b.json', [{ id: 'B' }, { id: 'C' }])
  await define(name, { ...from('table-a'), destinations: [shop(one, name)] })
  await post(`/sync/${name}`)
  await flows.delivered(name)
  await define(name, { ...from('table-b'), destinations: [shop(one, name)] })
  const reason =
    '1 deletes wait for an answer: the source is another one than before, and this is the first comparison of its items'
  expect(await post(`/sync/${name}`)).toMatchObject({ changes: 1 })
  await flows.delivered(name)
  expect(sentTo(one, name).filter((sent) => sent.startsWith('DELETE'))).toEqual([])
  const held = (await flows.call('GET', `/flow/${name}/question`)).json()
  expect(held).toMatchObject({ about: 'deletes', missing: 1, reason })
  // The next poll of the same source changes nothing of that.
  await post(`/sync/${name}`)
  const body = { number: held.number, answer: 'send' }
  await flows.call('POST', `/flow/${name}/question`, { body })
  await post(`/sync/${name}`)
  await flows.delivered(name)
  expect(sentTo(one, name).filter((sent) => sent.startsWith('DELETE'))).toEqual([
    `DELETE /${name}/products/one-A`,
  ])
  // After one approval its deletes belong to the flow.
  await flows.write('table-b.json', [{ id: 'B' }])
  await post(`/sync/${name}`)
  await flows.delivered(name)
  expect(sentTo(one, name).at(-1)).toBe(`DELETE /${name}/products/one-C`)
})

test('a process that has not read the files since does not change anything', async () => {
  const poll = await createTestPoll(flows.service.database, { now: () => new Date() })
  poll.rows = [[{ id: 'A' }]]
  await poll.poll()
  await flows.service.database.db
    .updateTable('flow_state')
    .set({ source_identity: 'of the newer file' })
    .where('flow', '=', poll.name)
    .execute()
  poll.deps.isOnFile = async () => false
  await expect(poll.poll()).rejects.toThrow('polls this flow by another definition')
  poll.deps.isOnFile = async () => true
  await poll.poll()
  expect(poll.scans).toEqual([null, null])
})

const fromDatabase = {
  type: 'sql',
  driver: 'postgres',
  url: '$' + '{env:DB}',
  query: 'select * from a',
}
const parsed = (source: object, destination: object) =>
  flowSchema({
    env: {
      DB: 'postgres://ana:canary-secret@db.example/erp',
      DB2: 'postgres://eva:canary-other@DB.example:5432/erp',
    },
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  }).parse({
    ...{ version: 1, name: 'x', pollInterval: '1h', item: { key: 'id' } },
    source: 'type' in source ? source : { ...fromDatabase, ...source },
    destinations: [
      { name: 'web', type: 'http', request: { url: 'https://a.example/p/{pk}' }, ...destination },
    ],
  })
const identities = (source: object, destination: object) => {
  const flow = parsed(source, destination)
  return {
    source: sourceIdentity(flow.source),
    destination: flow.destinations.map((each) => destinationIdentity(each))[0],
  }
}

test('an identity has type, origin, database, table and path; no secrets, headers or queries', () => {
  const first = identities({}, {})
  const same = identities(
    { url: '$' + '{env:DB2}', query: 'select id, x from A where x > 1' },
    {
      request: { url: 'https://A.example:443/p/{pk}?lang=es', headers: { 'x-shop': 'v' } },
      timeout: '1s',
    },
  )
  expect(same).toEqual(first)
  const others = [
    identities({ query: 'select * from b' }, { request: { url: 'https://b.example/p/{pk}' } }),
    identities(
      { query: 'select * from a join b on true' },
      { request: { url: 'https://a.example/q/{pk}' } },
    ),
    identities(
      { driver: 'mysql', url: 'mysql://ana@db.example/erp' },
      { find: { url: 'https://a.example/users/7/search' }, remember: { id: 'id' } },
    ),
  ]
  for (const { source, destination } of others) {
    expect(source).not.toBe(first.source)
    expect(destination).not.toBe(first.destination)
  }
})

const addressed = (path: string) => {
  const url = `https://a.example${path}`
  return identities({ type: 'http', url }, { request: { url: `${url}/{pk}` } })
}

test.each([
  ['/admin/api/2025-10/products', '/admin/api/2026-01/products'],
  ['/wp-json/wc/v2/products', '/wp-json/wc/v3/products'],
  ['/2025-03/7/products', '/v1/7/products'],
  ['/api/2025-10-01/p', '/api/V2.1/p'],
  ['/rest/1.1', '/rest/v2beta1'],
])(
  'another API version in the path is no other source or destination: %s and %s',
  (before, after) => {
    expect(addressed(after)).toEqual(addressed(before))
  },
)

test.each([
  ['/api/v1/p', '/api/p'],
  ['/api/v1/p', '/v1/api/p'],
  ['/shops/1/p', '/shops/2/p'],
  ['/shops/vino1/p', '/shops/vino2/p'],
  ['/shops/2025-13/p', '/shops/2025-10/p'],
  ['/shops/20-10/p', '/shops/20-11/p'],
  ['/shops/v1-norte/p', '/shops/v1-sur/p'],
])('what is no API version tells two places apart: %s and %s', (before, after) => {
  const [one, other] = [addressed(before), addressed(after)]
  expect(other.source).not.toBe(one.source)
  expect(other.destination).not.toBe(one.destination)
})

test('after a new API version nothing is asked or made again, and an attempt in doubt keeps its key', {
  tags: ['long'],
}, async () => {
  const name = 'versions'
  const version = (path: string) => ({
    destinations: [
      {
        ...shop(one, `${name}/${path}`),
        create: {
          url: `${one.url}/${name}/${path}/products`,
          headers: { 'idempotency-key': '{jobKey}' },
        },
        retry: { attempts: 1 },
      },
    ],
  })
  await show(name, { id: 'A', v: 1 })
  await define(name, version('v2'))
  await post(`/sync/${name}`)
  await flows.delivered(name)
  one.answer(({ path }) => (path.includes(name) ? 503 : 200), {
    'content-type': 'application/json',
  })
  await show(name, { id: 'A', v: 2 }, { id: 'B', v: 1 })
  await post(`/sync/${name}`)
  await flows.delivered(name)

  await define(name, version('v3'))
  await post(`/sync/${name}`)
  expect(await questionOf(name)).toMatchObject({ state: 'none' })
  await post(`/sync/${name}/B`)
  await flows.delivered(name)
  const received = one.received.filter(({ path }) => path.startsWith(`/${name}/`))
  expect(received.map(({ method, path }) => `${method} ${path}`).toSorted()).toEqual([
    `POST /${name}/v2/products`,
    `POST /${name}/v2/products`,
    `POST /${name}/v3/products`,
    `PUT /${name}/v2/products/one-A`,
  ])
  const keys = received
    .filter(({ body }) => (body as { id: string }).id === 'B')
    .map(({ headers }) => headers['idempotency-key'])
  expect(keys).toHaveLength(2)
  expect(new Set(keys).size).toBe(1)
})
