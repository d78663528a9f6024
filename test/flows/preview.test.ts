import { once } from 'node:events'
import { readdir, utimes } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { contentsOf } from './preview-support.ts'
import { reachable } from './sources-sql-support.ts'
import { sendJson, testServer } from './sources-support.ts'

const postgres = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const longAgo = new Date('2026-01-01T00:00:00Z')

let service: TestService
let target: TestTarget
let erp: Awaited<ReturnType<typeof testServer>>
let flows: TestFlows
let address: string
let serial = 0

beforeAll(async () => {
  service = await startTestService()
  target = await startTarget()
  erp = await testServer()
  flows = await startTestFlows({ service, env: { ERP_DB: postgres ?? 'postgres://nowhere/x' } })
  await flows.app.listen({ host: '127.0.0.1', port: 0 })
  address = `http://127.0.0.1:${(flows.app.server.address() as AddressInfo).port}`
})
beforeEach(() => {
  // Of the previews before, which let their sources rest.
  service.clock.advance(60_000)
})
afterAll(async () => {
  await flows.stop()
  await erp.close()
  await target.close()
  await service.stop()
})

/** A flow of its own, paused. */
async function add(extra: Record<string, unknown> = {}, items?: object[]): Promise<string> {
  serial += 1
  const name = `seen${serial}`
  if (items) await flows.write(`${name}.json`, items)
  await flows.write(`${name}.flow.yaml`, jsonFlow(name, target.url, extra))
  const { problems } = await flows.flows.reload('test')
  expect(problems).toEqual([])
  return name
}

const httpSource = (more: object = {}) => ({
  source: { type: 'http', url: `${erp.base}/items`, ...more },
})

const ask = (name: string, query = '') => flows.call('GET', `/sync/${name}/preview${query}`)
const sync = async (name: string) =>
  (await flows.call('POST', `/sync/${name}?force=true`)).json().changes

/** What a preview must leave alone: all of the flow side but leases and wake-ups, with which loops go on. */
const contents = () =>
  contentsOf(service.database, (table) => /^public\.(flow|deliver|item_|settings)/.test(table))

/** Asks for a preview, which must change nothing. */
async function previewUnchanged(name: string, query = '') {
  await flows.delivered()
  const before = [await contents(), await readdir(flows.dir, { recursive: true })]
  const response = await ask(name, query)
  expect([await contents(), await readdir(flows.dir, { recursive: true })]).toEqual(before)
  expect([response.statusCode, response.body]).toEqual([200, expect.any(String)])
  service.clock.advance(10_000)
  return response.json()
}

test('a preview of a file shows what the next sync does, and neither archives nor writes', async () => {
  const name = await add({
    source: { type: 'file', path: `\${env:DIR}/news-*.csv`, format: 'csv', after: 'archive' },
    item: { key: 'id', filter: 'price != "0"' },
  })
  const csv = 'id,price\nA-1,10\nA-2,20\nA-2,21\n,5\nA-3,0\n'
  await utimes(await flows.write('news-1.csv', csv), longAgo, longAgo)
  service.clock.advance(60_000)
  const first = await previewUnchanged(name)
  expect(first).toMatchObject({
    name,
    paused: true,
    definition: 'none',
    scan: { kind: 'full', since: null },
    cut_off: null,
    rows_read: 5,
    changes: 2,
    items: { new: 2, changed: 0, unchanged: 0, filtered: 1, duplicate: 0, rejected: 1 },
    deletes: { verdict: 'not_asked', count: null },
    destinations: [{ name: 'web', type: 'http', upserts: 2, deletes: 0, tried: 2, refused: 0 }],
  })
  expect(first.problems).toEqual([
    {
      pk: null,
      message: expect.stringContaining('blank'),
      why: expect.objectContaining({ message: 'el campo "id" de la clave está en blanco' }),
    },
  ])
  expect(await sync(name)).toBe(2)
  expect((await readdir(join(flows.dir, 'archive'))).length).toBe(1)
  expect(await previewUnchanged(name)).toMatchObject({ rows_read: 0, changes: 0 })
})

test('a preview counts what a filter or mapping leaves out at a destination', async () => {
  const request = { method: 'PUT', url: `${target.url}/{pk}` }
  const to = (name: string, more: object) => ({ name, type: 'http', request, ...more })
  const destinations = [
    to('all', {}),
    to('web', { filter: 'web = "S"' }),
    to('dear', { map: 'price > 15 ? { "price": price }' }),
  ]
  const items = [10, 20, 30].map((price, n) => ({ id: `${n}`, price, web: n === 0 ? 'S' : 'N' }))
  const shown = await previewUnchanged(await add({ destinations }, items))
  expect(shown.destinations).toMatchObject([
    { name: 'all', upserts: 3, skipped: 0, refused: 0 },
    { name: 'web', upserts: 3, skipped: 2, refused: 0 },
    { name: 'dear', upserts: 3, skipped: 1, refused: 0 },
  ])
})

test('a preview shows the fields of a changed item that differ from the sent ones', async () => {
  const name = await add({}, [{ id: '1', price: 10, size: { w: 1 } }, { id: '2' }, { id: '3' }])
  expect(
    (await previewUnchanged(name)).sample.map((one: { comparison: string }) => one.comparison),
  ).toEqual(['first', 'first', 'first'])
  await sync(name)
  await flows.write(`${name}.json`, [
    { id: '1', price: 12, size: { w: 1, h: 2 } },
    { id: '2' },
    { id: '3', text: 'x'.repeat(70_000) },
    { id: '<b>4</b>' },
  ])
  const { sample, items } = await previewUnchanged(name)
  expect(items).toMatchObject({ new: 1, changed: 2, unchanged: 1 })
  expect(sample).toEqual([
    {
      pk: '1',
      kind: 'changed',
      comparison: 'compared',
      difference_count: 2,
      differences: [
        { field: 'price', change: 'changed', from: 10, to: 12 },
        { field: 'size.h', change: 'added', to: 2 },
      ],
    },
    { pk: '3', kind: 'changed', comparison: 'too_large', difference_count: 0, differences: [] },
    { pk: '<b>4</b>', kind: 'new', comparison: 'first', difference_count: 0, differences: [] },
  ])
})

test('a preview shows the refusals of a destination with the reasons of the later deliveries', async () => {
  const name = await add(
    {
      destinations: [
        {
          name: 'web',
          type: 'http',
          request: { method: 'PUT', url: `${target.url}/x/{pk}` },
          fields: { price: { from: 'price', type: 'decimal' } },
          retry: { attempts: 1 },
        },
        {
          name: 'list',
          type: 'file',
          path: `\${env:DIR}/list.ndjson`,
          format: 'ndjson',
          map: 'price',
        },
      ],
    },
    [
      { id: '1', price: '10' },
      { id: '2', price: 'ten' },
      { id: '..', price: '3' },
    ],
  )
  const { changes, destinations } = await previewUnchanged(name)
  expect(changes).toBe(3)
  await sync(name)
  await flows.delivered()
  const failed = (await flows.call('GET', `/errors?flow=${name}`)).json() as {
    adapter: string
    pk: string
    error: string
    why: object
  }[]
  for (const { name: adapter, tried, refused, refusals } of destinations) {
    const same = failed.filter((error) => error.adapter === adapter)
    expect([adapter, tried, refused]).toEqual([adapter, 3, same.length])
    const byPk = (a: { pk: string }, b: { pk: string }) => (a.pk < b.pk ? -1 : 1)
    expect(refusals.toSorted(byPk)).toEqual(
      same.map(({ pk, error, why }) => ({ pk, reason: error, why })).toSorted(byPk),
    )
  }
  expect(failed).toHaveLength(5)
})

test('a preview reads an HTTP source with a cursor as the next sync does', async () => {
  const changed = [
    { id: '1', at: '2026-01-01T00:00:00Z' },
    { id: '2', at: '2026-01-02T00:00:00Z' },
  ]
  erp.handle = (request, response) => {
    const since = new URL(request.url ?? '', erp.base).searchParams.get('since') ?? ''
    sendJson(
      response,
      changed.filter(({ at }) => Date.parse(at) >= Date.parse(since)),
    )
  }
  const name = await add(
    httpSource({
      url: `${erp.base}/items?since={cursor}`,
      cursor: { field: 'at', initial: '2025-01-01T00:00:00Z', overlap: '1h' },
      fullScanEvery: '24h',
    }),
  )
  expect(await previewUnchanged(name)).toMatchObject({
    scan: { kind: 'full', since: null },
    changes: 2,
  })
  expect(await sync(name)).toBe(2)
  changed.push({ id: '3', at: '2026-01-03T00:00:00Z' })
  expect(await previewUnchanged(name)).toMatchObject({
    scan: { kind: 'incremental', since: '2026-01-01T23:00:00Z' },
    rows_read: 2,
    changes: 1,
    items: { new: 1, unchanged: 1 },
  })
  expect(await sync(name)).toBe(1)
  service.clock.advance(86_400_000)
  expect(await previewUnchanged(name)).toMatchObject({
    scan: { kind: 'full' },
    rows_read: 3,
    changes: 0,
  })
})

test.skipIf(!postgres)(
  'a preview reads a database as the next sync does, and shows what the guard does with missing items',
  async () => {
    const schema = `preview_${process.pid}_${Date.now()}`
    const admin = new Client({ connectionString: postgres })
    await admin.connect()
    try {
      await admin.query(`create schema ${schema}`)
      await admin.query(`create table ${schema}.items as
        select g as id, 'n' || g as name from generate_series(1, 40) g`)
      const name = await add({
        source: {
          type: 'sql',
          driver: 'postgres',
          url: `\${env:ERP_DB}`,
          query: `select id, name from ${schema}.items order by id`,
          limits: { fetchSize: 7 },
        },
        deletes: { mode: 'delete', guard: { maxPercent: 10, minItems: 1 } },
        destinations: [
          {
            name: 'list',
            type: 'file',
            path: `\${env:DIR}/${schema}.ndjson`,
            format: 'ndjson',
          },
        ],
      })
      expect(await previewUnchanged(name)).toMatchObject({ rows_read: 40, changes: 40 })
      expect(await sync(name)).toBe(40)
      await admin.query(`delete from ${schema}.items where id <= 3`)
      await admin.query(`update ${schema}.items set name = 'other' where id = 10`)
      const few = await previewUnchanged(name)
      expect(few).toMatchObject({
        changes: 4,
        items: { changed: 1, unchanged: 36 },
        deletes: { verdict: 'send', count: 3, reason: null, why: null },
        destinations: [{ upserts: 1, deletes: 3, refused: 0 }],
      })
      expect(few.sample.map(({ pk, kind }: { pk: string; kind: string }) => [pk, kind])).toEqual([
        ['10', 'changed'],
        ['1', 'deleted'],
        ['2', 'deleted'],
        ['3', 'deleted'],
      ])
      expect(await sync(name)).toBe(4)
      await admin.query(`delete from ${schema}.items where id <= 30`)
      expect(await previewUnchanged(name)).toMatchObject({
        changes: 0,
        deletes: { verdict: 'hold_back', count: 27 },
      })
      expect(await sync(name)).toBe(0)
      expect(await previewUnchanged(name, '?max_rows=5')).toMatchObject({
        cut_off: 'rows',
        rows_read: 5,
        deletes: { verdict: 'unknown', count: null },
      })
    } finally {
      await admin.query(`drop schema ${schema} cascade`)
      await admin.end()
    }
  },
)

test('after a change of the definition a preview reads nothing before the comparison', async () => {
  const name = await add({}, [{ id: '1', at: 1 }])
  await sync(name)
  await flows.delivered()
  const changed = jsonFlow(name, target.url, { item: { key: 'id', hash: { ignore: ['at'] } } })
  await flows.flows.pause(name, 'test', null)
  await flows.write(`${name}.flow.yaml`, changed)
  await flows.flows.reload('test')
  expect(await previewUnchanged(name)).toMatchObject({
    definition: 'comparing',
    scan: null,
    rows_read: 0,
  })
})

test('a preview of a source that is down is 502 with the reason, and writes nothing', async () => {
  const name = await add({
    source: { type: 'file', path: `\${env:DIR}/missing.json`, format: 'json', settle: '0s' },
  })
  const before = await contents()
  const response = await ask(name)
  expect(await contents()).toEqual(before)
  expect([response.statusCode, response.json()]).toEqual([
    502,
    {
      error: `there is no file ${join(flows.dir, 'missing.json')} to read`,
      why: expect.objectContaining({ code: 'NO_FILE' }),
    },
  ])
  const web = await add(httpSource())
  erp.handle = (_, answer) => void answer.writeHead(403).end('no')
  const refused = await ask(web)
  expect([refused.statusCode, refused.json().error]).toEqual([
    502,
    expect.stringMatching(/^http source: GET .*403/),
  ])
  for (const flow of [name, web]) {
    expect((await flows.call('GET', `/errors?flow=${flow}`)).json()).toEqual([])
  }
})

test.each([
  ['a flow that no file defines', '/sync/nobody/preview', 404],
  ['another flow by its path', '/sync/..%2F..%2Fetc/preview', 404],
  ['an empty name', '/sync//preview', 404],
  ['no time at all', '/sync/nobody/preview?max_seconds=0', 400],
  ['more time than allowed', '/sync/nobody/preview?max_seconds=601', 400],
  ['no rows', '/sync/nobody/preview?max_rows=0', 400],
  ['rows that are no number', '/sync/nobody/preview?max_rows=x', 400],
])('%s is refused with one field', async (_, url, status) => {
  const response = await flows.call('GET', url)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('other sites are refused, and with SYNC_TOKEN requests without the token', async () => {
  const url = '/sync/nobody/preview'
  for (const headers of [{ host: 'evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
    expect((await flows.call('GET', url, { headers })).statusCode).toBe(403)
  }
  const token = 'sync-token-for-tests-0123456789abcdef'
  const guarded = await startTestFlows({ service, env: { SYNC_TOKEN: token } })
  try {
    expect((await guarded.call('GET', url)).statusCode).toBe(401)
    const wrong = { 'x-api-token': `${token}x` }
    expect((await guarded.call('GET', url, { headers: wrong })).statusCode).toBe(401)
    const right = { 'x-api-token': token }
    expect((await guarded.call('GET', url, { headers: right })).statusCode).toBe(404)
  } finally {
    await guarded.stop()
  }
})

/** Lets the source hang until the test answers; resolves with the first request for each call. */
function holdAnswers(): () => Promise<ServerResponse> {
  const waiting: ServerResponse[] = []
  let arrived = Promise.withResolvers<void>()
  erp.handle = (_, response) => {
    waiting.push(response)
    arrived.resolve()
  }
  return async () => {
    for (;;) {
      const [first] = waiting.splice(0, 1)
      if (first) return first
      await arrived.promise
      arrived = Promise.withResolvers<void>()
    }
  }
}

test('a disconnected client ends the reading of the source, and the next preview may begin', async () => {
  const name = await add(httpSource())
  const nextRequest = holdAnswers()
  const given = new AbortController()
  const asked = fetch(`${address}/sync/${name}/preview`, { signal: given.signal })
  const response = await nextRequest()
  const cut = once(response, 'close')
  given.abort()
  await expect(asked).rejects.toThrow()
  await cut
  expect(response.writableEnded).toBe(false)
  erp.handle = (_, again) => sendJson(again, [{ id: '1' }])
  service.clock.advance(10_000)
  await expect
    .poll(async () => (await ask(name)).statusCode, { timeout: 10_000, interval: 50 })
    .toBe(200)
})

test('one preview of a flow at a time, two in all, and then a pause for the source', async () => {
  const [first, second, third] = [
    await add(httpSource()),
    await add(httpSource()),
    await add({}, []),
  ]
  const nextRequest = holdAnswers()
  const running = [ask(first), ask(second)]
  const responses = [await nextRequest(), await nextRequest()]
  for (const [name, why] of [
    [first, 'running already'],
    [third, '2 at most'],
  ] as const) {
    const refused = await ask(name)
    expect([refused.statusCode, refused.json().error]).toEqual([429, expect.stringContaining(why)])
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
  }
  for (const response of responses) sendJson(response, [])
  for (const { statusCode } of await Promise.all(running)) expect(statusCode).toBe(200)
  expect((await ask(third)).statusCode).toBe(200)
  const early = await ask(first)
  expect([early.statusCode, early.json().error]).toEqual([429, expect.stringContaining('rest')])
  service.clock.advance(10_000)
  erp.handle = (_, response) => sendJson(response, [])
  expect((await ask(first)).statusCode).toBe(200)
})

test('a sync never waits for a preview, and ends it', async () => {
  const name = await add(httpSource())
  const nextRequest = holdAnswers()
  const asked = ask(name)
  const response = await nextRequest()
  const polled = sync(name)
  sendJson(await nextRequest(), [{ id: '1' }])
  expect(await polled).toBe(1)
  sendJson(response, [{ id: '1' }])
  const refused = await asked
  expect([refused.statusCode, Object.keys(refused.json())]).toEqual([409, ['error']])
  const errors = (await flows.call('GET', `/errors?flow=${name}`)).json()
  expect(errors).toEqual([])
})

test('a preview waits for a running poll, and shows what the poll after it would do', async () => {
  const name = await add(httpSource())
  const nextRequest = holdAnswers()
  const polled = sync(name)
  const first = await nextRequest()
  const asked = ask(name)
  sendJson(first, [{ id: '1' }])
  expect(await polled).toBe(1)
  sendJson(await nextRequest(), [{ id: '1' }, { id: '2' }])
  const shown = (await asked).json()
  expect(shown).toMatchObject({ changes: 1, items: { new: 1, unchanged: 1 } })
})

test('a preview ends with 409 when the file of its flow changes meanwhile', async () => {
  const name = await add(httpSource())
  const nextRequest = holdAnswers()
  const asked = ask(name)
  await nextRequest()
  await flows.write(
    `${name}.flow.yaml`,
    jsonFlow(name, target.url, { ...httpSource(), description: 'other' }),
  )
  await flows.flows.reload('test')
  expect((await asked).statusCode).toBe(409)
})

test('a preview whose time is over reports what was read by then, or nothing', async () => {
  const name = await add(httpSource())
  holdAnswers()
  const response = await ask(name, '?max_seconds=1')
  expect(response.json()).toMatchObject({
    cut_off: 'time',
    rows_read: 0,
    changes: 0,
    deletes: { verdict: 'not_asked' },
  })
})

test('a stop of the service ends a preview', async () => {
  const own = await startTestFlows({ service })
  const name = 'stopped'
  await own.write(`${name}.flow.yaml`, jsonFlow(name, target.url, httpSource()))
  await own.flows.reload('test')
  const nextRequest = holdAnswers()
  await own.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = own.app.server.address() as AddressInfo
  const asked = fetch(`http://127.0.0.1:${port}/sync/${name}/preview`)
  await nextRequest()
  const stopping = own.stop()
  const response = await asked
  expect([response.status, await response.json()]).toEqual([
    503,
    { error: 'The service is stopping; try again' },
  ])
  await stopping
})
