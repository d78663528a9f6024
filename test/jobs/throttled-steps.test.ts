import { expect, test } from 'vitest'
import { createThrottledSteps } from '../../src/jobs/throttled-steps.ts'

/** A work on many rows leaves nine tenths of the time to others. */

function world() {
  let nowMs = 0
  const rests: number[] = []
  const deps = {
    stopwatch: () => nowMs,
    sleep: async (ms: number) => {
      rests.push(ms)
    },
  }
  const takes = (ms: number) => async () => {
    nowMs += ms
    return ms
  }
  return { deps, rests, takes }
}

test('the rest after a step is nine times as long as the step, and 50 ms at least', async () => {
  const { deps, rests, takes } = world()
  const step = createThrottledSteps(deps, new AbortController().signal)
  for (const ms of [1, 20, 300]) expect(await step(takes(ms))).toBe(ms)
  expect(rests).toEqual([50, 180, 2_700])
})

test('after a stop no further step begins', async () => {
  const { deps, takes } = world()
  const stopping = new AbortController()
  const step = createThrottledSteps(deps, stopping.signal)
  await step(takes(1))
  stopping.abort(new Error('stopped'))
  await expect(step(takes(1))).rejects.toThrow('stopped')
})
