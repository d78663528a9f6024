import { sql } from 'kysely'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { causeOf } from '../../src/flows/control/failure-cause.ts'
import { retryFailed } from '../../src/flows/deliver/retry-deliveries.ts'
import { groupFailures } from '../../src/repositories/flows/failed-deliveries.ts'
import { openTestDatabase } from '../support/database.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'

/** A receiver that repeats the item in its words gives one cause, not one for each item. */
test.each([
  ['numbers', 'HTTP 422 stock 17 below 3', 'HTTP 422 stock 9 below 12'],
  ['decimals and times', 'price 12.50 at 10:31:07', 'price 1,234.5 at 23:00:59'],
  ['ids of letters and digits', 'item SUC-00412/B unknown', 'item K9-3/C unknown'],
  [
    'UUIDs and hashes',
    'no 7b0c6a52-8f0e-4f3e-9f0a-3d2f1c0b9a88 here',
    'no 00000000-0000-4000-8000-000000000000 here',
  ],
  ['quoted strings', "no category 'Té y yerba'", "no category 'Café'"],
  ['typographic quotes', 'no category «Té», “x”', 'no category «Café», “y z”'],
  [
    'values of JSON that name the item',
    'HTTP 409 (application/json) {"error":"duplicate","sku":"ROJO","name":"Mate"}',
    'HTTP 409 (application/json) {"error":"duplicate","sku":"AZUL","name":"Termo"}',
  ],
  [
    'JSON that was cut off',
    'HTTP 409 (application/json) {"error":"duplicate","name":"Mate de cal',
    'HTTP 409 (application/json) {"error":"duplicate","name":"Ter',
  ],
  [
    'the rest of an item in JSON',
    '{"errors":["no price"],"item":{"title":"Mate","description":"de calabaza"}}',
    '{"errors":["no price"],"item":{"title":"Termo","description":"de acero"}}',
  ],
  [
    'days and months',
    'down at Tue, 24 Nov 2026 10:31:07 GMT',
    'down at Sat, 05 Dec 2026 09:00:59 GMT',
  ],
  [
    'days and months of other languages',
    'caído el martes, 24 de noviembre de 2026, 10:31:07 p. m.',
    'caído el sábado, 5 de diciembre de 2026, 9:00 a. m.',
  ],
  ['halves of days', 'down at 9:31 AM', 'down at 11:05 PM'],
  ['base64', 'Request x3+ab/Q9cd== failed', 'Request k+u7z9aa failed'],
  ['ids of mere letters', 'no trace CfxlmeSUnRaKcqLNHF', 'no trace aQwErZuIoPkJhGfDsA'],
  ['ids by their name', 'refused (request id: abcxyz)', 'refused (request id: qwerty)'],
  ['numbers in languages without spaces', '找不到商品3的庫存', '找不到商品A17的庫存'],
])('%s do not lead to another cause', (_, one, other) => {
  expect(causeOf(one, 'x')).toBe(causeOf(other, 'x'))
})

test.each([
  ['statuses', 'HTTP 422 refused', 'HTTP 409 refused'],
  ['codes of databases', 'refused (SQLSTATE 23505)', 'refused (SQLSTATE 23503)'],
  ['numbers of errors', 'refused (error 1062)', 'refused (error 1452)'],
  ['words', "item doesn't fit, can't be kept", "item doesn't exist, can't be kept"],
  ['words of JSON', '{"error":"no stock"}', '{"error":"no price"}'],
  ['words beside a number in languages without spaces', '商品3不存在', '商品3没有库存'],
  ['long names of errors', 'InvalidParameterValueException', 'MissingParameterValueException'],
  ['lists of words in JSON', '{"errors":["no stock"]}', '{"errors":["no price"]}'],
  [
    'words of JSON in a list of errors',
    '{"errors":[{"title":"stock"}]}',
    '{"errors":[{"title":"price"}]}',
  ],
  ['codes of JSON', '{"code":"E_STOCK","id":"A"}', '{"code":"E_PRICE","id":"A"}'],
])('%s do', (_, one, other) => {
  expect(causeOf(one, 'x')).not.toBe(causeOf(other, 'x'))
})

test('the key of the item is removed from the cause, also without a digit and as part of a composite key', () => {
  expect(causeOf('no such article ROJO', 'ROJO')).toBe(causeOf('no such article AZUL', 'AZUL'))
  expect(causeOf('no such article ROJO', 'web|ROJO')).toBe(
    causeOf('no such article AZUL', 'web|AZUL'),
  )
  for (const [text, key] of [
    ['no such article AB in the shop', 'AB'],
    ['no such article x in the shop', 'x'],
    ['no such article rojo in the shop', 'ROJO'],
    ['no such article Ñand%C3%BA%20ch in the shop', 'Ñandú ch'],
    ['no such article %C3%91and%C3%BA%20ch in the shop', 'Ñandú ch'],
  ] as const) {
    expect(causeOf(text, key)).toMatch(/^no such article \S*…\S* in the shop$/)
  }
  // A key that is a word of the message changes the cause of its own item only.
  expect(causeOf('no', 'n')).toBe('no')
})

test('a text of any form is evaluated in bounded time', () => {
  const nasty = [`"${'\\'.repeat(990)}`, "'".repeat(1_000), '9'.repeat(1_000), 'a1-'.repeat(330)]
  const startedAt = performance.now()
  for (const text of nasty) expect(causeOf(text, 'k').length).toBeLessThanOrEqual(1_000)
  expect(performance.now() - startedAt).toBeLessThan(1_000)
})

let target: TestTarget
let flows: TestFlows
const items = 196
beforeAll(async () => {
  target = await startTarget()
  target.answer(
    ({ path }) => (path.endsWith('7') ? 403 : 422),
    { 'content-type': 'application/json' },
    ({ path }) =>
      path.endsWith('7')
        ? '{"error":"duplicate"}'
        : JSON.stringify({ error: `article ${path.split('/').at(-1)} has no price`, path }),
  )
  flows = await startTestFlows({
    files: {
      'shop.flow.yaml': jsonFlow('shop', target.url),
      'shop.json': Array.from({ length: items }, (_, index) => ({ id: `K-${index}` })),
    },
  })
  await flows.flows.sync('shop', { force: true })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const failures = async () => (await flows.call('GET', '/flow/shop/failures')).json().failures

test('196 items that were refused with texts of their own have two causes', async () => {
  expect(await failures()).toMatchObject([
    { status: 422, items: 177, error: expect.stringContaining('has no price') },
    { status: 403, items: 19, error: expect.stringContaining('duplicate') },
  ])
})

test('all failures of one cause are sent again by its name, and nothing else', async () => {
  target.answer(200)
  const [{ cause }] = await failures()
  const again = await flows.call('POST', '/flow/shop/retry', {
    body: { cause, destination: 'web' },
  })
  expect(again.json()).toEqual({ name: 'shop', retried: 177 })
  await flows.delivered()
  expect(await failures()).toMatchObject([{ status: 403, items: 19 }])
})

test('causes that take long to compute do not block the event loop, in lists and retries', {
  tags: ['long'],
}, async () => {
  const database = await openTestDatabase()
  onTestFinished(() => database.close())
  const burn = () => {
    const since = performance.now()
    while (performance.now() - since < 1);
  }
  const flow = 'slow'
  const pks = Array.from({ length: 300 }, (_, index) => `K-${index}`)
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at, last_error, finished_at)
    select ${flow}, 'web', pk, 1, 'upsert', 'h', '{}'::jsonb, 'failed', 1, now(), 'no ' || pk, now()
    from unnest(${pks}::text[]) as item (pk)`.execute(database.db)
  const causes = (error: string) => {
    burn()
    return error.slice(0, 2)
  }
  const listed = await longestTurn(async () =>
    JSON.stringify(
      (await groupFailures(database, flow, undefined, causes)).value.map((one) => one.items),
    ),
  )
  expect(listed.said).toBe('[300]')
  expect(listed.ms).toBeLessThan(promisedMs)
  const again = await longestTurn(async () => {
    const isSelected = (error: string) => causes(error) === 'none'
    return `${await retryFailed({ database, now: () => new Date() }, { flow, isSelected })}`
  })
  expect(again.said).toBe('0')
  expect(again.ms).toBeLessThan(promisedMs)
})
