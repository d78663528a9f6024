import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Records change while the pages of a list are read, so that others move over the border of a page that was read. */
let target: TestTarget
let flows: TestFlows
let rows: { id: string; at: string }[]
let requests: string[]
/** Done after that many pages. */
let afterPage: Record<number, () => void>
let served = 0

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({})
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})
beforeEach(() => {
  rows = Array.from({ length: 10 }, (_, n) => ({ id: `R${n}`, at: `2026-01-01T00:00:0${n}Z` }))
  requests = []
  afterPage = {}
  served = 0
  target.received.length = 0
})

let serial = 0
/** A list by its time of change, or newest first, in pages of three. */
async function serve(paging: object, { newestFirst = false } = {}) {
  serial += 1
  const name = `shift-${serial}`
  const server = createServer((request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams
    const found = rows
      .filter(({ at }) => at >= (query.get('since') ?? ''))
      .sort((a, b) => (a.at < b.at ? -1 : 1) * (newestFirst ? -1 : 1))
    const from = query.has('offset')
      ? Number(query.get('offset'))
      : (Number(query.get('page')) - 1) * 3
    requests.push(String(request.url))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(found.slice(from, from + 3)))
    served += 1
    afterPage[served]?.()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close().closeAllConnections())
  await flows.write(
    `${name}.flow.yaml`,
    jsonFlow(name, target.url, {
      source: {
        type: 'http',
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/list?since={cursor}`,
        cursor: { field: 'at', initial: '2000-01-01T00:00:00Z' },
        paging,
      },
    }),
  )
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
  return async () => {
    const polled = await flows.call('POST', `/sync/${name}?force=true`)
    expect(polled.statusCode, polled.body).toBe(200)
    await flows.delivered()
    return new Set(target.received.map(({ path }) => path.replace(`/${name}/`, '')))
  }
}
const all = () => new Set(rows.map(({ id }) => id))
const page = { type: 'page', param: 'page', size: 3 }
const offset = { type: 'offset', param: 'offset', size: 3 }

test.each([
  ['page', page],
  ['offset', offset],
])(
  'paging by %s: a record that moves to the end while pages are read hides none',
  async (_, paging) => {
    const poll = await serve(paging)
    afterPage = { 1: () => Object.assign(rows[0] ?? {}, { at: '2026-01-01T00:01:00Z' }) }
    expect(await poll()).toEqual(all())
  },
)

test.each([
  ['page', page],
  ['offset', offset],
])('paging by %s: a record that is deleted while pages are read hides none', async (_, paging) => {
  const poll = await serve(paging)
  await poll()
  target.received.length = 0
  rows = Array.from({ length: 9 }, (_, n) => ({ id: `N${n}`, at: `2026-01-02T00:00:0${n}Z` }))
  served = 0
  afterPage = { 1: () => void rows.shift(), 3: () => void rows.shift() }
  const before = all()
  expect(await poll()).toEqual(before)
})

test('newest first: a record that changes while pages are read is read by the next poll', async () => {
  const poll = await serve(page, { newestFirst: true })
  afterPage = { 2: () => Object.assign(rows[0] ?? {}, { at: '2026-01-01T00:01:00Z' }) }
  await poll()
  expect(await poll()).toEqual(all())
})

test('when the read does not end the cursor stays, and the next poll continues', {
  tags: ['long'],
}, async () => {
  const poll = await serve(page)
  for (let one = 1; one <= 40; one += 1) {
    afterPage[one] = () => {
      rows.push({
        id: `X${one}`,
        at: `2026-01-01T00:00:0${one % 10}.${String(one).padStart(3, '0')}Z`,
      })
    }
  }
  await poll()
  afterPage = {}
  expect(await poll()).toEqual(all())
  expect(requests.at(-1)).toContain('since=2000-01-01')
})

test('a list of one page is read once', async () => {
  const poll = await serve({ ...page, size: 10 })
  rows = rows.slice(0, 3)
  await poll()
  expect(requests).toHaveLength(2)
})
