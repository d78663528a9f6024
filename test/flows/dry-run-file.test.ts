import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { sendJson, testServer } from './sources-support.ts'

let service: TestService
let target: TestTarget
let erp: Awaited<ReturnType<typeof testServer>>
let flows: TestFlows
let serial = 0

beforeAll(async () => {
  service = await startTestService()
  target = await startTarget()
  erp = await testServer()
  flows = await startTestFlows({ service })
})
afterAll(async () => {
  await flows.stop()
  await erp.close()
  await target.close()
  await service.stop()
})

/** A flow file of its own, not loaded. */
async function write(extra: Record<string, unknown> = {}, to = flows) {
  serial += 1
  const name = `seen${serial}`
  const file = `${name}.flow.yaml`
  await to.write(file, jsonFlow(name, target.url, extra))
  return { name, file, url: `/flow-files/${file}/dry-run` }
}

const httpSource = () => ({ source: { type: 'http', url: `${erp.base}/items` } })

/** What the flow side has stored, but for its activity. */
async function contents(): Promise<Record<string, string>> {
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE'
      and table_name ~ '^(flow|deliver|item_|source_)' and table_name <> 'flow_activity'
    order by 1`.execute(service.database.db)
  const contents: Record<string, string> = {}
  for (const { name } of tables) {
    const { rows } = await sql<{ text: string | null }>`
      select json_agg(one order by one::text)::text as text
      from ${sql.table(name)} as one`.execute(service.database.db)
    contents[name] = rows[0]?.text ?? ''
  }
  return contents
}

test('a dry run of a file needs no token, shows the requests of the first poll, and changes nothing', async () => {
  const { name, file, url } = await write({
    source: { type: 'file', path: `\${env:DIR}/news-*.csv`, format: 'csv', after: 'archive' },
    item: { key: 'id', filter: 'price != "0"' },
  })
  await flows.write('news-1.csv', 'id,price\nA-1,10\n,5\nA-3,0\n')
  service.clock.advance(60_000)
  for (const isLoaded of [false, true]) {
    if (isLoaded) expect((await flows.flows.reload('test')).problems).toEqual([])
    const before = [await contents(), await readdir(flows.dir, { recursive: true })]
    const response = await flows.call('POST', url)
    expect([response.statusCode, response.body]).toEqual([200, expect.any(String)])
    expect([await contents(), await readdir(flows.dir, { recursive: true })]).toEqual(before)
    const [first, second, third] = response.json().records
    expect(response.json()).toMatchObject({ name, rows_read: 3, cut_off: null })
    expect(first).toMatchObject({
      pk: 'A-1',
      destinations: [
        { name: 'web', requests: [{ method: 'PUT', target: `${target.url}/${name}/A-1` }] },
      ],
    })
    expect(second.problem).toContain('is blank')
    expect(third.skipped).toContain('filter')
  }
  expect(target.received).toEqual([])
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${name}`)).json()
  expect(activity.map(({ action }: { action: string }) => action)).toContain('dry run')
  expect((await flows.call('PUT', `/flow-files/${file}`, { body: {} })).statusCode).toBe(400)
})

test.each([
  ['a file that is not there', 'nobody.flow.yaml', 404],
  ['a file of another folder', '..%2F..%2Fetc%2Fpasswd', 404],
])('%s is refused with one field', async (_, file, status) => {
  const response = await flows.call('POST', `/flow-files/${file}/dry-run`)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('other sites are refused, and with SYNC_TOKEN requests without the token', async () => {
  const { url } = await write()
  for (const headers of [{ host: 'evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
    expect((await flows.call('POST', url, { headers })).statusCode).toBe(403)
  }
  const token = 'sync-token-for-tests-0123456789abcdef'
  const guarded = await startTestFlows({ service, env: { SYNC_TOKEN: token } })
  const wrong = { 'x-api-token': `${token}x` }
  expect((await guarded.call('POST', url)).statusCode).toBe(401)
  expect((await guarded.call('POST', url, { headers: wrong })).statusCode).toBe(401)
  const right = { 'x-api-token': token }
  expect((await guarded.call('POST', url, { headers: right })).statusCode).toBe(404)
  await guarded.stop()
})

/** Lets the source hang; resolves with the first request for each call. */
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

async function listen(of: TestFlows): Promise<string> {
  await of.app.listen({ host: '127.0.0.1', port: 0 })
  return `http://127.0.0.1:${(of.app.server.address() as AddressInfo).port}`
}

test('a disconnected client ends the reading of the source, and the next dry run may begin', async () => {
  const { url } = await write(httpSource())
  const address = await listen(flows)
  const nextRequest = holdAnswers()
  const given = new AbortController()
  const asked = fetch(`${address}${url}`, { method: 'POST', signal: given.signal })
  const response = await nextRequest()
  const second = await flows.call('POST', url)
  expect([second.statusCode, Number(second.headers['retry-after'])]).toEqual([429, 2])
  const cut = once(response, 'close')
  given.abort()
  await expect(asked).rejects.toThrow()
  await cut
  expect(response.writableEnded).toBe(false)
  erp.handle = (_, again) => sendJson(again, [{ id: '1' }])
  await expect
    .poll(async () => (await flows.call('POST', url)).statusCode, { interval: 50 })
    .toBe(200)
})

test('a stop of the service ends a dry run', async () => {
  const own = await startTestFlows({ service })
  const { url } = await write(httpSource(), own)
  const nextRequest = holdAnswers()
  const address = await listen(own)
  const asked = fetch(`${address}${url}`, { method: 'POST' })
  await nextRequest()
  const stopping = own.stop()
  const response = await asked
  expect([response.status, await response.json()]).toEqual([
    503,
    { error: 'The service is stopping; try again' },
  ])
  await stopping
})
