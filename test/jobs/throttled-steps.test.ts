import { expect, test } from 'vitest'
import { createThrottledSteps } from '../../src/jobs/throttled-steps.ts'

/** Work on many rows that leaves nine tenths of the time to other work. */

function openSteps() {
  let nowMs = 0
  const pauses: number[] = []
  const deps = {
    stopwatch: () => nowMs,
    sleep: async (ms: number) => {
      pauses.push(ms)
    },
  }
  const takes = (ms: number) => async () => {
    nowMs += ms
    return ms
  }
  return { deps, pauses, takes }
}

test('the pause after a step is nine times as long as the step, and at least 50 ms', async () => {
  const { deps, pauses, takes } = openSteps()
  const step = createThrottledSteps(deps, new AbortController().signal)
  for (const ms of [1, 20, 300]) expect(await step(takes(ms))).toBe(ms)
  expect(pauses).toEqual([50, 180, 2_700])
})

test('after a stop no further step begins', async () => {
  const { deps, takes } = openSteps()
  const stopping = new AbortController()
  const step = createThrottledSteps(deps, stopping.signal)
  await step(takes(1))
  stopping.abort(new Error('stopped'))
  await expect(step(takes(1))).rejects.toThrow('stopped')
})
