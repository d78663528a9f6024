import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { flowSchema } from '../../src/flows/definition/schema.ts'
import { judgeSqlError } from '../../src/flows/destinations/sql-errors.ts'
import { type LeaseToken, releaseLease, takeLease } from '../../src/repositories/leases.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { eventually } from '../support/eventually.ts'
import {
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Messages to operators name the cause: a timeout, a full queue, a poll that goes on. */
let target: TestTarget
let silent: Server
let slow: Server
let release = () => {}
let flows: TestFlows
const address = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

beforeAll(async () => {
  target = await startTarget()
  target.answer(503)
  silent = createServer(() => {}).listen(0, '127.0.0.1')
  slow = createServer((_, response) => {
    release = () => void response.end('[{"id":"A"}]')
  }).listen(0, '127.0.0.1')
  await Promise.all([once(silent, 'listening'), once(slow, 'listening')])
  const late = patientFlow('late', address(silent)) as { destinations: object[] }
  flows = await startTestFlows({
    longestWaitMs: 250,
    files: {
      'late.flow.yaml': {
        ...late,
        destinations: late.destinations.map((one) => ({ ...one, timeout: '100ms' })),
      },
      'late.json': [{ id: 'A' }],
      'far.flow.yaml': patientFlow('far', target.url),
      'far.json': [{ id: 'A' }],
      'long.flow.yaml': patientFlow('long', target.url, {
        source: { type: 'http', url: address(slow), limits: { timeout: '10m' } },
      }),
    },
  })
})
afterAll(async () => {
  release()
  await flows.stop()
  await target.close()
  for (const server of [silent, slow]) server.close().closeAllConnections()
})

const card = async (name: string) => {
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  return cards.find((one: { name: string }) => one.name === name)
}

test('the reason for a request without an answer names the timeout', async () => {
  await flows.flows.sync('late', { force: true })
  await eventually(async () => {
    const { waiting } = (await flows.call('GET', '/flow/late/waiting')).json()
    expect(waiting).toMatchObject([{ last_error: 'no whole answer within 100 ms' }])
  })
})

test.each([
  ['mysql', { errno: 1205, sqlState: 'HY000' }, 'a lock was not free in time (error 1205)'],
  ['mysql', { errno: 3024, sqlState: 'HY000' }, 'the statement took too long (error 3024)'],
  ['mssql', { code: 'EREQUEST', number: 1222 }, 'a lock was not free in time (error 1222)'],
  [
    'mssql',
    Object.assign(new Error(), { code: 'ETIMEOUT' }),
    'no answer from the database in time (ETIMEOUT)',
  ],
  [
    'mysql',
    Object.assign(new Error(), { code: 'PROTOCOL_SEQUENCE_TIMEOUT' }),
    'no answer from the database in time (PROTOCOL_SEQUENCE_TIMEOUT)',
  ],
] as const)('a timeout of %s is reported as such: %o', (driver, error, reason) => {
  const judged = judgeSqlError(driver, error)
  expect(judged).toMatchObject({ ok: false, retryable: true })
  expect(sentenceOf(judged.why, 'en')).toBe(reason)
})

test('a sync during a long poll does not wait for its end; the next poll serves it', {
  tags: ['long'],
}, async () => {
  const first = flows.flows.sync('long', { force: true })
  await eventually(async () => expect((await card('long')).status.polling).toBe(true))
  const asked = await flows.call('POST', '/sync/long?force=true')
  expect([asked.statusCode, asked.json()]).toEqual([
    200,
    { name: 'long', changes: 0, skipped: 'polling' },
  ])
  const polls = async () => (await flows.call('GET', '/metrics')).json().long.totalRuns as number
  expect(await polls()).toBe(0)
  release()
  expect(await first).toEqual({ changes: 1 })
  await eventually(async () => {
    release()
    expect(await polls()).toBe(2)
  })
})

test('nor does it wait for a poll of another process', { tags: ['long'] }, async () => {
  const { database, clock } = flows.service
  const owner = 'another process'
  const lease = await takeLease(database, { name: 'flow:far', owner, now: clock.now() })
  const asked = await flows.call('POST', '/sync/far?force=true')
  expect([asked.statusCode, asked.json()]).toEqual([
    200,
    { name: 'far', changes: 0, skipped: 'polling' },
  ])
  await releaseLease(database.db, lease as LeaseToken)
  await eventually(async () => {
    expect((await flows.call('GET', '/metrics')).json().far.totalRuns).toBe(1)
  })
})

test('upsertKey is a column name or a list of them', () => {
  const files = {
    env: { DB: 'postgres://writer:canary-password@dwh.example.com/dwh' },
    readFile: () => '',
    mail: { smtpUrl: undefined, mailFrom: undefined },
  }
  const keyOf = (upsertKey: unknown) => {
    const [destination] = flowSchema(files).parse({
      version: 1,
      name: 'a',
      pollInterval: '1m',
      source: { type: 'file', path: './x.json', format: 'json' },
      item: { key: 'id' },
      destinations: [
        { name: 'dwh', type: 'sql', driver: 'postgres', url: `\${env:DB}`, table: 't', upsertKey },
      ],
    }).destinations
    return destination?.type === 'sql' && destination.upsertKey
  }
  expect(keyOf('sku')).toEqual(['sku'])
  expect(keyOf(['sku', 'shop'])).toEqual(['sku', 'shop'])
  expect(() => keyOf([])).toThrow()
})
