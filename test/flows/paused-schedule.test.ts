import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A flow is polled by its schedule and not during a pause. One poll makes up for the times of the pause. */
const day = 86_400_000
const soon = { timeout: 20_000, interval: 20 }

let target: TestTarget
let flows: TestFlows

beforeEach(async () => {
  target = await startTarget()
  const daily = {
    startPaused: false,
    pollInterval: '1m',
    schedule: { cron: '0 8 * * *', timeZone: 'America/Argentina/Buenos_Aires' },
  }
  flows = await startTestFlows({
    files: {
      'kept.flow.yaml': jsonFlow('kept', target.url, daily),
      'kept.json': [{ id: '1' }],
      'beside.flow.yaml': jsonFlow('beside', target.url, daily),
      'beside.json': [{ id: '1' }],
    },
  })
})
afterEach(async () => {
  await flows.stop()
  await target.close()
})

const runs = async (name: string) =>
  (await flows.call('GET', '/metrics')).json()[name].totalRuns as number
/** The flow without a pause shows that the pollers have read the clock. */
async function nextDay(count: number) {
  flows.service.clock.advance(day)
  await expect.poll(() => runs('beside'), soon).toBe(count)
}

test('a paused flow is not polled at its times; a resume polls at once and then by the schedule', {
  tags: ['long'],
}, async () => {
  await flows.call('POST', '/flow/kept/pause')
  for (const count of [1, 2, 3]) await nextDay(count)
  expect(await runs('kept')).toBe(0)
  const [card] = (await flows.call('GET', '/flows'))
    .json()
    .flows.filter(({ name }: { name: string }) => name === 'kept')
  expect(card).toMatchObject({ health: { state: 'attention', cause: 'flow_paused' } })

  await flows.call('POST', '/flow/kept/resume')
  // Of three times that passed one is made up for.
  await expect.poll(() => runs('kept'), soon).toBe(1)
  await nextDay(4)
  await expect.poll(() => runs('kept'), soon).toBe(2)
})

test('a paused flow with a schedule stays paused after a restart', { tags: ['long'] }, async () => {
  await flows.call('POST', '/flow/kept/pause')
  await nextDay(1)
  flows = await flows.restart()
  await nextDay(2)
  await nextDay(3)
  expect(await runs('kept')).toBe(0)
})
