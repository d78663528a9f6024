import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import { openShop, type Till } from '../support/till.ts'

/** Reports that are slow to process: many lines of one movement, and many uploads at once. */

let service: TestService
let till: Till
let other: Till
let third: Till
let fourth: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'acme', '6301')
  other = await openShop(service, 'other', '6302')
  third = await openShop(service, 'third', '6303')
  fourth = await openShop(service, 'fourth', '6304')
})
afterAll(() => service.stop())

const columns =
  'SOURCE_ID,TRANSACTION_TYPE,TRANSACTION_AMOUNT,TRANSACTION_DATE,SETTLEMENT_NET_AMOUNT'
const line = (source: string, amount = '10.00') =>
  `${source},SETTLEMENT,${amount},2026-11-21T10:30:00.000-04:00,${amount}`

const upload = (lines: readonly string[], seller = till) =>
  service.app.inject({
    method: 'POST',
    url: '/settlements/files',
    headers: { 'x-api-token': seller.key, 'content-type': 'text/csv' },
    payload: [columns, ...lines, ''].join('\n'),
  })

/** Rows of settlements that the service reads from the database while `work` runs. */
async function rowsReadBy<T>(work: () => Promise<T>): Promise<{ rows: number; result: T }> {
  const executor = Object.getPrototypeOf(service.database.db.getExecutor())
  const spy = vi.spyOn(executor, 'executeQuery')
  const result = await work()
  let rows = 0
  for (const [index, [query]] of spy.mock.calls.entries()) {
    if (!/from "settlement_rows"/.test((query as { sql: string }).sql)) continue
    const answer = spy.mock.settledResults[index]?.value as { rows: unknown[] } | undefined
    rows += answer?.rows.length ?? 0
  }
  spy.mockRestore()
  return { result, rows }
}

test('a report with too many lines of one SOURCE_ID is refused, and nothing of it is stored', async () => {
  const lines = Array.from({ length: 2_001 }, () => line('700'))
  const refused = await upload([line('701'), ...lines], fourth)
  expect([refused.statusCode, refused.json().code]).toEqual([422, 'VALIDATION_ERROR'])
  expect(refused.json().details).toEqual([
    { path: 'content', message: 'line 2003: SOURCE_ID 700 stands in more than 2,000 lines' },
  ])
  const { files } = (
    await service.app.inject({
      url: '/settlements/files',
      headers: { 'x-api-token': fourth.key },
    })
  ).json()
  expect(files).toEqual([])
})

test('the work of an upload grows linearly, also when the same lines come again in another order', {
  tags: ['long'],
}, async () => {
  const ids = Array.from({ length: 8 }, (_, index) => String(800 + index))
  const lines = Array.from({ length: 8 * 1_000 }, (_, index) => line(String(ids[index % 8])))
  const first = await rowsReadBy(() => upload(lines))
  expect(first.result.json()).toMatchObject({ rows: 8_000, added: 8_000 })
  expect(first.rows).toBe(0)
  const again = await rowsReadBy(() => upload(lines.toReversed()))
  expect(again.result.json()).toMatchObject({ rows: 8_000, added: 0, known: 8_000 })
  // Each known movement is read about once, not once for each batch of lines.
  expect(again.rows).toBeLessThan(3 * 8_000)
})

test('one upload of a client runs at a time, and two in all; the others get a Retry-After', {
  tags: ['long'],
}, async () => {
  const slow = Array.from({ length: 6_000 }, (_, index) => line(String(900_000 + index)))
  const answers = await Promise.all([
    upload(slow),
    upload([line('1')]),
    upload(slow, other),
    upload([line('2')], third),
  ])
  const statuses = answers.map(({ statusCode }) => statusCode)
  expect(statuses.filter((status) => status === 200)).toHaveLength(2)
  expect(statuses.filter((status) => status === 429 || status === 503)).toHaveLength(2)
  for (const answer of answers.filter(({ statusCode }) => statusCode !== 200)) {
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  }
  expect((await upload([line('1')])).statusCode).toBe(200)
  expect((await upload([line('2')], third)).statusCode).toBe(200)
  // A refused upload no longer counts.
  expect((await upload(['broken'])).statusCode).toBe(422)
  expect((await upload([line('3')])).statusCode).toBe(200)
})
