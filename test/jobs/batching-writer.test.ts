import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { createBatchingWriter } from '../../src/jobs/batching-writer.ts'

/** Small writes that are combined into one statement, a moment later. */

let warned: object[]
let written: string[][]
const log = { warn: (fields: object) => void warned.push(fields) }
beforeEach(() => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  warned = []
  written = []
})

/** A writer whose writes fail with these, one after the other. */
function open(failures: (Error | { retryAfterMs: number })[] = []) {
  let pending: string[] = []
  const writer = createBatchingWriter({
    name: 'notes',
    afterMs: 200,
    log,
    isEmpty: () => pending.length === 0,
    async write() {
      const batch = pending
      pending = []
      await Promise.resolve()
      const failure = failures.shift()
      if (failure instanceof Error) throw failure
      if (failure) {
        pending = [...batch, ...pending]
        return failure
      }
      written.push(batch)
      return undefined
    },
  })
  const add = (text: string) => {
    pending.push(text)
    writer.later()
  }
  return { ...writer, add }
}

test('entries that come within the time are written together', async () => {
  const { add } = open()
  add('a')
  await vi.advanceTimersByTimeAsync(199)
  add('b')
  expect(written).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(written).toEqual([['a', 'b']])
  add('c')
  await vi.advanceTimersByTimeAsync(200)
  expect(written).toEqual([['a', 'b'], ['c']])
})

test('a flush writes at once, and resolves when all earlier entries are written', async () => {
  const { add, flush } = open()
  add('a')
  await flush()
  expect(written).toEqual([['a']])
  await vi.advanceTimersByTimeAsync(1_000)
  await flush()
  expect(written).toEqual([['a']])
})

test('two writes never run at the same time', async () => {
  let running = 0
  let most = 0
  let pending = 0
  const writer = createBatchingWriter({
    name: 'notes',
    afterMs: 1,
    log,
    isEmpty: () => pending === 0,
    async write() {
      pending = 0
      running += 1
      most = Math.max(most, running)
      await Promise.resolve()
      await Promise.resolve()
      running -= 1
      return undefined
    },
  })
  pending += 1
  const first = writer.flush()
  pending += 1
  await Promise.all([first, writer.flush()])
  expect([most, pending]).toEqual([1, 0])
})

test('a failed write is logged with its name, and the next one is made', async () => {
  const { add, flush } = open([new Error('no such table')])
  add('a')
  await flush()
  add('b')
  await flush()
  expect(written).toEqual([['b']])
  expect(warned).toMatchObject([{ writer: 'notes', err: { message: 'no such table' } }])
})

test('a write that asks for a retry is repeated later without a call', async () => {
  const { add, flush } = open([{ retryAfterMs: 5_000 }])
  add('a')
  await flush()
  await vi.advanceTimersByTimeAsync(4_999)
  expect(written).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(written).toEqual([['a']])
  expect(warned).toEqual([])
})
