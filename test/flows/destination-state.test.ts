import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
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
      'shop.json': [...'abcdefghijklmnopqrstuvwxyz'].map((id) => ({ id })),
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
  cause: expect.stringMatching(/HTTP 503/),
  why: expect.objectContaining({
    code: expect.stringMatching(/^(ATTEMPTS_FAILED|PROBE_FAILED)$/),
    data: expect.objectContaining({ last: { code: 'HTTP_STATUS', data: { status: 503 } } }),
    message: expect.stringMatching(/failed.*HTTP 503/),
  }),
  since: expect.stringMatching(/Z$/),
  next_attempt_at: expect.stringMatching(/Z$/),
  stop: null,
}

test('an open breaker is shown with cause and next attempt on each page and once in the log; a failed test changes neither, a restart ends it', {
  tags: ['long'],
}, async () => {
  // It is tested again every second meanwhile, so its state may change between two answers.
  await eventually(async () => {
    const { sending } = await card()
    expect(sending).toEqual(open)
    expect(
      Date.parse(sending.next_attempt_at) - flows.service.clock.now().getTime(),
    ).toBeLessThanOrEqual(2_000)
    expect((await flows.call('GET', '/flow/shop/waiting')).json()).toMatchObject({
      waiting: { length: 26 },
      destinations: [{ name: 'web', type: 'http', sending: open }],
    })
    const headers = { accept: 'text/plain' }
    const text = (await flows.call('GET', '/metrics', { headers })).body
    const web = 'flow="shop",destination="web"'
    expect(text).toContain(`tillbridge_destination_state{${web},state="open"} 1`)
    expect(text).toContain(`tillbridge_destination_state{${web},state="flowing"} 0`)
    expect(text).toMatch(
      new RegExp(`tillbridge_destination_next_attempt_timestamp_seconds\\{${web}\\} \\d+`),
    )
  })

  // A test that fails is followed by another.
  const { since } = (await card()).sending
  const before = target.received.length
  await eventually(() => expect(target.received.length).toBeGreaterThan(before + 1))
  await eventually(async () => {
    const { sending } = await card()
    expect(sending).toMatchObject({ state: 'open', since, cause: open.cause })
    const now = flows.service.clock.now().getTime()
    expect(Date.parse(sending.next_attempt_at)).toBeGreaterThan(now)
  })

  const lines = () =>
    flows.logLines
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg === 'sending to a destination suspended')
  const tested = target.received.length
  await eventually(() => expect(lines()).not.toEqual([]))
  await eventually(() => expect(target.received.length).toBeGreaterThan(tested))
  expect(lines()).toMatchObject([
    {
      flow: 'shop',
      destination: 'web',
      state: 'open',
      cause: open.cause,
      nextAttemptAt: expect.stringMatching(/Z$/),
    },
  ])

  target.answer(200)
  flows = await flows.restart()
  await eventually(async () =>
    expect((await card()).sending).toMatchObject({ state: 'flowing', cause: null }),
  )
})
