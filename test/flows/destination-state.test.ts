import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** The open breaker of a destination is shown with its cause and its end, on every page for operators. */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  target.answer(503)
  const flow = jsonFlow('shop', target.url) as { destinations: object[] }
  flows = await startTestFlows({
    files: {
      'shop.flow.yaml': {
        ...flow,
        destinations: flow.destinations.map((one) => ({
          ...one,
          concurrency: 1,
          retry: { attempts: 9, initial: '1h', max: '1h', jitter: 0 },
          breaker: { failures: 3, within: '1m', openFor: '10m' },
        })),
      },
      'shop.json': ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id })),
    },
  })
  await flows.flows.sync('shop', { force: true })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const card = async () => (await flows.call('GET', '/flows')).json().flows[0].destinations[0]
const open = {
  state: 'open',
  cause: expect.stringMatching(/^3 of the last 3 attempts failed, the last one with: HTTP 503/),
  why: {
    code: 'ATTEMPTS_FAILED',
    data: { failed: 3, among: 3, last: { code: 'HTTP_STATUS', data: { status: 503 } } },
    message: 'fallaron 3 de los últimos 3 intentos, el último con: HTTP 503',
  },
  since: expect.stringMatching(/Z$/),
  next_attempt_at: expect.stringMatching(/Z$/),
  stop: null,
}

test('an open breaker is shown in /flows, /waiting and the metrics, with cause and next attempt', async () => {
  await vi.waitFor(async () => expect((await card()).sending).toEqual(open), 20_000)
  const { next_attempt_at: next } = (await card()).sending
  const inMs = Date.parse(next) - flows.service.clock.now().getTime()
  expect(inMs).toBeGreaterThan(500_000)
  expect(inMs).toBeLessThanOrEqual(600_000)
  expect((await flows.call('GET', '/flow/shop/waiting')).json()).toMatchObject({
    waiting: { length: 5 },
    destinations: [{ name: 'web', type: 'http', sending: open }],
  })
  const headers = { accept: 'text/plain' }
  const text = (await flows.call('GET', '/metrics', { headers })).body
  expect(text).toContain(
    'tillbridge_destination_state{flow="shop",destination="web",state="open"} 1',
  )
  expect(text).toContain(
    'tillbridge_destination_state{flow="shop",destination="web",state="flowing"} 0',
  )
  expect(text).toContain(
    `tillbridge_destination_next_attempt_timestamp_seconds{flow="shop",destination="web"} ${Date.parse(next) / 1000}`,
  )
  // Two items have not been tried, and no attempt of theirs is spent.
  expect(target.received).toHaveLength(3)
})

test('the log has it once, with cause and next attempt', () => {
  const lines = flows.logLines.map((line) => JSON.parse(line))
  expect(lines.filter(({ msg }) => msg === 'sending to a destination suspended')).toMatchObject([
    {
      flow: 'shop',
      destination: 'web',
      state: 'open',
      cause: open.cause,
      nextAttemptAt: expect.stringMatching(/Z$/),
    },
  ])
})

test('a restarted process has no open breaker, and shows that', async () => {
  target.answer(200)
  flows = await flows.restart()
  await vi.waitFor(
    async () => expect((await card()).sending).toMatchObject({ state: 'flowing', cause: null }),
    20_000,
  )
})
