import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

type Row = {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  out?: string[]
  keyed?: string[]
  array?: string[]
  items?: Record<string, string[]>
}

const contract = JSON.parse(readFileSync(new URL('contract.json', import.meta.url), 'utf8')) as {
  routes: Row[]
  pages: string[]
}

let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      'articles.flow.yaml': jsonFlow('articles', target.url, {
        alerts: { onJobFailed: [{ type: 'webhook', url: `${target.url}/hook` }] },
      }),
      'articles.json': [{ id: 'A-1', name: 'Yerba' }],
      'broken.flow.yaml': jsonFlow('broken', target.url),
      'broken.json': 'not json',
    },
  })
  target.answer(400)
  await flows.flows.sync('articles', { force: true })
  await vi.waitUntil(async () => (await flows.flows.stats()).queue.failed === 1, {
    timeout: 20_000,
  })
  target.answer(200)
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const filled = (path: string) =>
  path.replace('{name}', 'articles').replace('{pk}', 'A-1').replace('{count}', '3')

test.each(contract.routes)(
  '$method $path answers 200 with the fields of the contract',
  async (row) => {
    const response = await flows.call(row.method, filled(row.path))
    expect(response.statusCode).toBe(200)
    const body = response.json()
    for (const field of row.out ?? []) expect(body).toHaveProperty(field)
    for (const [list, fields] of Object.entries(row.items ?? {})) {
      const entries = Array.isArray(body[list]) ? body[list] : [body[list]]
      expect(entries.length).toBeGreaterThan(0)
      for (const entry of entries) for (const field of fields) expect(entry).toHaveProperty(field)
    }
    for (const field of row.keyed ?? []) expect(body.articles).toHaveProperty(field)
    if (row.array) expect(body.length).toBeGreaterThan(0)
    for (const field of row.array ?? []) expect(body[0]).toHaveProperty(field)
  },
)

test.each(contract.routes.filter(({ path }) => path.includes('{name}')))(
  '$method $path of an unknown flow is 404 with one field',
  async (row) => {
    for (const name of ['nobody', '%3Cscript%3E', '..%2F..%2Fetc', 'ARTICLES', '__proto__']) {
      const path = row.path.replace('{name}', name).replace('{pk}', 'A-1').replace('{count}', '3')
      const response = await flows.call(row.method, path)
      expect([response.statusCode, Object.keys(response.json())]).toEqual([404, ['error']])
    }
  },
)

test.each(contract.routes)(
  'the OpenAPI document has $method $path with a success and its errors',
  async (row) => {
    const { paths } = (await flows.call('GET', '/openapi.json')).json()
    const operation = paths[row.path]?.[row.method.toLowerCase()]
    expect(operation?.responses).toHaveProperty('200')
    expect(operation?.summary).toEqual(expect.any(String))
    if (row.path.includes('{name}')) expect(operation.responses).toHaveProperty('404')
  },
)

test.each(['0', '-1', '1.5', '1e3', '1000001', '99999999', 'x', '%31%20', '0x10', '１', '0000000'])(
  'a limit of %s is 400 and changes nothing',
  async (count) => {
    await flows.call('DELETE', '/flow/articles/limit')
    const response = await flows.call('POST', `/flow/articles/limit/${count}`)
    expect([response.statusCode, response.json()]).toEqual([
      400,
      { error: 'count: must be a whole number from 1 to 1000000' },
    ])
    const status = (await flows.call('GET', '/flows/status')).json()
    expect(status.articles.runLimit).toBeNull()
  },
)

test.each(['1', '01', '999999', '1000000'])('a limit of %s is allowed', async (count) => {
  const response = await flows.call('POST', `/flow/articles/limit/${count}`)
  expect(response.json()).toEqual({ name: 'articles', runLimit: Number(count), status: 'limited' })
})

test.each(['limit=0', 'limit=1001', 'limit=x', 'force=yes'])(
  'a query of %s is 400',
  async (query) => {
    const [method, path] = query.startsWith('force')
      ? (['POST', '/sync/articles'] as const)
      : (['GET', '/errors'] as const)
    const response = await flows.call(method, `${path}?${query}`)
    expect([response.statusCode, Object.keys(response.json())]).toEqual([400, ['error']])
  },
)

test('T47: an empty name or key is 404, never the whole flow', async () => {
  const before = await flows.flows.cards()
  for (const [method, path] of [
    ['DELETE', '/reset/articles/'],
    ['POST', '/resync/articles/'],
    ['POST', '/sync/articles/'],
    ['DELETE', '/reset/'],
    ['POST', '/flow//pause'],
  ] as const) {
    expect((await flows.call(method, path)).statusCode).toBe(404)
  }
  expect((await flows.flows.cards()).map(({ items }) => items)).toEqual(
    before.map(({ items }) => items),
  )
})

test('test-alerts is 200 when all channels work, 207 when one fails, 400 without channels', async () => {
  expect((await flows.call('POST', '/flow/articles/test-alerts')).json()).toMatchObject({
    flow: 'articles',
    results: [{ type: 'webhook', ok: true }],
  })
  target.answer(500)
  const failed = await flows.call('POST', '/flow/articles/test-alerts')
  expect(failed.statusCode).toBe(207)
  expect(failed.json().results[0]).toMatchObject({ ok: false, error: expect.any(String) })
  target.answer(200)
  const none = await flows.call('POST', '/flow/broken/test-alerts')
  expect([none.statusCode, Object.keys(none.json())]).toEqual([400, ['error']])
})

test.each([
  '/sync/broken?force=true',
  '/sync/broken/A-1',
  '/resync/broken?force=true',
  '/resync/broken/A-1?force=true',
])(
  'a source that cannot be read is 502 with its reason, and is listed in the errors: %s',
  async (path) => {
    const response = await flows.call('POST', path)
    expect([response.statusCode, Object.keys(response.json())]).toEqual([502, ['error', 'why']])
    const { why } = response.json()
    expect([why.code, why.message]).toEqual([
      'FILE_UNREADABLE',
      expect.stringMatching(/^file source: .*broken\.json is not JSON$/),
    ])
    expect(response.json().error).toContain('broken.json')
    const errors = (await flows.call('GET', '/errors?flow=broken')).json()
    expect(errors[0]).toMatchObject({ entity: 'broken', adapter: 'source' })
    expect(errors[0].error).toBe(response.json().error)
  },
)

test('metrics are Prometheus text when Accept requests it', async () => {
  const response = await flows.call('GET', '/metrics', { headers: { accept: 'text/plain' } })
  expect(response.headers['content-type']).toContain('text/plain')
  expect(response.body).toMatch(/^tillbridge_flow_runs_total\{flow="articles"\} \d+$/m)
  const json = await flows.call('GET', '/metrics', { headers: { accept: '*/*' } })
  expect(json.headers['content-type']).toContain('application/json')
})

test('errors can be filtered and are sorted newest first', async () => {
  const all = (await flows.call('GET', '/errors')).json() as { timestamp: string }[]
  const times = all.map(({ timestamp }) => timestamp)
  expect(times).toEqual([...times].sort().reverse())
  const web = (await flows.call('GET', '/errors?adapter=web&pk=A-1')).json()
  expect(web[0]).toMatchObject({ entity: 'articles', adapter: 'web', pk: 'A-1', attempts: 1 })
  expect((await flows.call('GET', '/errors?pk=nobody')).json()).toEqual([])
  expect((await flows.call('GET', '/errors?limit=1')).json()).toHaveLength(1)
})

test('the page exists', async () => {
  for (const page of contract.pages) {
    const response = await flows.call('GET', page)
    expect([response.statusCode, response.headers['content-type']]).toEqual([
      200,
      'text/html; charset=utf-8',
    ])
  }
})
