import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createPollSlots } from '../../src/flows/engine/schedule.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const never = new AbortController().signal

/** What has begun by now, and how to end it. */
function begin(takeSlot: ReturnType<typeof createPollSlots>, names: readonly string[]) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  for (const name of names) {
    void takeSlot(never).then((end) => {
      begun.push(name)
      ends.set(name, end)
    })
  }
  return { begun, end: (name: string) => ends.get(name)?.() }
}

test('polls begin in turns, and a place rests for as long as its poll took', async () => {
  const { begun, end } = begin(createPollSlots(2), ['a', 'b', 'c', 'd'])
  await vi.advanceTimersByTimeAsync(300)
  expect(begun).toEqual(['a', 'b'])
  end('b')
  await vi.advanceTimersByTimeAsync(299)
  expect(begun).toEqual(['a', 'b'])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual(['a', 'b', 'c'])
})

test('a poll of hours keeps no other flow waiting', async () => {
  const { begun, end } = begin(createPollSlots(1), ['long', 'b', 'c'])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(begun).toEqual(['long', 'b'])
  // Its end gives back nothing a second time.
  end('long')
  await vi.advanceTimersByTimeAsync(0)
  expect(begun).toEqual(['long', 'b'])
})

test('who stops waits for no turn', async () => {
  const takeSlot = createPollSlots(1)
  await takeSlot(never)
  const stop = new AbortController()
  const waiting = takeSlot(stop.signal)
  stop.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
})
