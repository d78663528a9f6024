import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Situation, situations } from '../../sandbox/situations.ts'
import { cancel, clearFaults, openOwnShop, refund } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, charge, payByCard, readOrder, sandboxCall, type Till } from '../support/till.ts'

/** What the sandbox's page and docs/how-to/test-a-till.md say of a situation is what a till gets. */
let service: TestService

beforeAll(async () => {
  service = await startTestService({ hangsAreShort: true })
})
afterAll(() => service.stop())
afterEach(() => clearFaults(service))

const begin = ({ id }: Situation) => sandboxCall(service, 'POST', `/_sandbox/situations/${id}`)

/** The till's request of the situation, after what must be there before. */
async function requestOf(situation: Situation, till: Till) {
  const sale = { reference: 'R-1', headers: { 'idempotency-key': situation.id } }
  if (situation.request === 'POST /orders') {
    await begin(situation)
    return await charge(service, till, sale)
  }
  const { order_id: orderId } = (await charge(service, till, sale)).json()
  if (situation.request === 'POST /orders/cancel') {
    await begin(situation)
    return await cancel(service, till, orderId)
  }
  if (situation.request === 'POST /orders/refund') {
    await act(service, orderId, payByCard)
    await readOrder(service, till, orderId)
    await begin(situation)
    return await refund(service, till, orderId)
  }
  await begin(situation)
  await act(service, orderId, payByCard)
  return await readOrder(service, till, orderId)
}

test.each(situations)('a till gets what is said of: $title.en', async (situation) => {
  const till = await openOwnShop(service, situation.id)
  const answer = await requestOf(situation, till)
  const { code, outcome } = answer.json()
  expect([[answer.statusCode, code].filter(Boolean).join(' '), outcome]).toEqual([
    situation.answer,
    situation.outcome,
  ])
  const { rules } = (await sandboxCall(service, 'GET', '/_sandbox/faults')) as {
    rules: { method: string | null; fired: number }[]
  }
  // No notification reaches a service in memory; the other rules have been met.
  const met = rules.filter(({ method }) => method !== null)
  expect(met.every(({ fired }) => fired > 0)).toBe(true)
})

test('the page of the documentation has a row for each situation, and no other', () => {
  const page = readFileSync('docs/how-to/test-a-till.md', 'utf8')
  const rows = [...page.matchAll(/^\| `([a-z_]+)` \| (.+?) \| (.+?) \| (.+?) \|$/gm)]
  expect(rows.map(([, ...cells]) => cells)).toEqual(
    situations.map(({ id, title, request, answer, outcome, till }) => [
      id,
      title.en,
      `\`${request}\`: ${answer}, \`${outcome}\``,
      till.en,
    ]),
  )
})

test('an unknown situation is refused, and changes nothing', async () => {
  await expect(sandboxCall(service, 'POST', '/_sandbox/situations/none')).rejects.toThrow()
  expect(await sandboxCall(service, 'GET', '/_sandbox/faults')).toEqual({ rules: [] })
})
