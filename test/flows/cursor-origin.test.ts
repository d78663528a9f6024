import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'

const rows = [
  { id: '1', at: '2020-11-21 10:00:00', version: 7 },
  { id: '2', at: '2020-11-21 09:00:00', version: 8 },
]

let erp: Server
let asked: string[]
let flows: TestFlows

beforeAll(async () => {
  erp = createServer((request, response) => {
    asked.push(decodeURIComponent(request.url ?? ''))
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
  })
  await new Promise<void>((resolve) => erp.listen(0, '127.0.0.1', resolve))
})
afterAll(() => erp.close())
beforeEach(async () => {
  asked = []
  flows = await startTestFlows({ files: { 'articles.flow.yaml': definition({}) } })
  await flows.flows.sync('articles', { force: true })
  await flows.flows.sync('articles', { force: true })
  expect(asked).toEqual(['/articles?since=0', '/articles?since=2020-11-21 10:00:00'])
})
afterEach(() => flows?.stop())

const definition = ({ path = '/articles', field = 'at', extra = {} }) => ({
  version: 1,
  name: 'articles',
  pollInterval: '1h',
  startPaused: true,
  allowPrivateNetwork: true,
  source: {
    type: 'http',
    url: `http://127.0.0.1:${(erp.address() as AddressInfo).port}${path}?since={cursor}`,
    cursor: { field, initial: '0' },
  },
  item: { key: 'id' },
  destinations: [{ name: 'out', type: 'file', path: `\${env:DIR}/out.ndjson`, format: 'ndjson' }],
  ...extra,
})

test.each([
  ['field', { field: 'version' }, ['/articles?since=0', '/articles?since=8']],
  ['address', { path: '/v2' }, ['/v2?since=0', '/v2?since=2020-11-21 10:00:00']],
])(
  'with another %s the source is read from its beginning, since the cursor is not valid there',
  { tags: ['long'] },
  async (_, change, reads) => {
    await flows.write('articles.flow.yaml', definition(change))
    flows = await flows.restart()
    await flows.flows.sync('articles', { force: true })
    await flows.flows.sync('articles', { force: true })
    expect(asked.slice(2)).toEqual(reads)
  },
)

test('after any other change polls continue at the cursor', { tags: ['long'] }, async () => {
  await flows.write('articles.flow.yaml', definition({ extra: { pollInterval: '2h' } }))
  await flows.flows.reload('me')
  await flows.flows.sync('articles', { force: true })
  expect(asked.at(-1)).toBe('/articles?since=2020-11-21 10:00:00')
})
