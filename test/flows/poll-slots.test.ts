import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createPollSlots } from '../../src/flows/engine/poll-schedule.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** The process works all the time. */
const busy = () => performance.now()
const never = new AbortController().signal

/** What has begun by now, and how to end it. */
function begin(
  takeSlot: ReturnType<typeof createPollSlots>,
  names: readonly string[],
  lastPollAt: Record<string, Date> = {},
) {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  for (const name of names) {
    void takeSlot(never, lastPollAt[name] ?? null).then((end) => {
      begun.push(name)
      ends.set(name, end)
    })
  }
  return { begun, end: (name: string) => ends.get(name)?.() }
}

test('polls wait for slots, and a slot stays closed for as long as the process worked during its poll', async () => {
  const { begun, end } = begin(createPollSlots(2, busy), ['a', 'b', 'c', 'd'])
  await vi.advanceTimersByTimeAsync(300)
  expect(begun).toEqual(['a', 'b'])
  end('b')
  await vi.advanceTimersByTimeAsync(299)
  expect(begun).toEqual(['a', 'b'])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual(['a', 'b', 'c'])
})

test('a poll of hours delays no other flow', async () => {
  const { begun, end } = begin(createPollSlots(1, busy), ['long', 'b', 'c'])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(begun).toEqual(['long', 'b'])
  // Its end gives back nothing a second time.
  end('long')
  await vi.advanceTimersByTimeAsync(0)
  expect(begun).toEqual(['long', 'b'])
})

test('a poll that waits for a slow source delays no other flow', async () => {
  const { begun } = begin(
    createPollSlots(2, () => 0),
    ['a', 'b', 'c', 'd', 'e'],
  )
  await vi.advanceTimersByTimeAsync(99)
  expect(begun).toEqual(['a', 'b'])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual(['a', 'b', 'c', 'd'])
  await vi.advanceTimersByTimeAsync(100)
  expect(begun).toEqual(['a', 'b', 'c', 'd', 'e'])
})

test('a slot stays closed for the work of its poll, not for its waits', async () => {
  const { begun, end } = begin(
    createPollSlots(1, () => performance.now() / 4),
    ['a', 'b'],
  )
  await vi.advanceTimersByTimeAsync(80)
  end('a')
  await vi.advanceTimersByTimeAsync(19)
  expect(begun).toEqual(['a'])
  await vi.advanceTimersByTimeAsync(1)
  expect(begun).toEqual(['a', 'b'])
})

test('a stop ends the wait for a slot', async () => {
  const takeSlot = createPollSlots(1, busy)
  await takeSlot(never, null)
  const stop = new AbortController()
  const waiting = takeSlot(stop.signal, null)
  stop.abort(new Error('stopped'))
  await expect(waiting).rejects.toThrow('stopped')
})

test('the flow that was polled longest ago comes first, so that no flow waits for all others after a start', async () => {
  const { begun } = begin(
    createPollSlots(1, () => 0),
    ['running', 'recent', 'oldest', 'older', 'new', 'same'],
    {
      recent: new Date('2026-11-27T10:00:20Z'),
      oldest: new Date('2026-11-27T10:00:00Z'),
      older: new Date('2026-11-27T10:00:10Z'),
      same: new Date('2026-11-27T10:00:10Z'),
    },
  )
  await vi.advanceTimersByTimeAsync(600)
  expect(begun).toEqual(['running', 'new', 'oldest', 'older', 'same', 'recent'])
})
