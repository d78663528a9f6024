import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import {
  type BackgroundJob,
  type BackgroundJobOptions,
  createBackgroundJob,
} from '../../src/jobs/background-job.ts'
import { withLease } from '../../src/jobs/with-lease.ts'
import { type LeaseToken, releaseLease, takeLease } from '../../src/repositories/leases.ts'
import { openTestDatabase } from '../support/database.ts'
import { findLease } from '../support/leases.ts'

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

/** Waits that have begun and have neither ended nor been aborted. */
let waits: { ms: number; end: () => void }[] = []
let logged: { fields: object; message: string }[] = []
beforeEach(() => {
  waits = []
  logged = []
})

const deps = {
  sleep: (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      const wait = { ms, end: () => leave(resolve) }
      const leave = (settle: () => void) => {
        waits = waits.filter((other) => other !== wait)
        settle()
      }
      waits.push(wait)
      signal?.addEventListener('abort', () => leave(() => reject(signal.reason)))
    }),
  log: { error: (fields: object, message: string) => void logged.push({ fields, message }) },
}

/** A job whose runs the test ends. */
function controlledJob(options: Partial<BackgroundJobOptions<string>> = {}) {
  const runs: { signal: AbortSignal; end(result?: string): void; fail(error: Error): void }[] = []
  const job = createBackgroundJob<string>(deps, {
    name: 'test job',
    intervalMs: 1_000,
    run(signal) {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      runs.push({ signal, end: (result = 'run') => resolve(result), fail: reject })
      return promise
    },
    ...options,
  })
  return { job, runs }
}

/** Waits until all pending promises are settled. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

async function isOver(promise: Promise<unknown>): Promise<boolean> {
  let over = false
  void promise.then(() => {
    over = true
  })
  await settle()
  return over
}

test('a job runs at its start, and again an interval after the end of each run', async () => {
  const { job, runs } = controlledJob()
  job.start()
  job.start()
  await settle()
  expect([runs.length, waits.length]).toEqual([1, 0])
  runs[0]?.end()
  await settle()
  expect(waits.map(({ ms }) => ms)).toEqual([1_000])
  waits[0]?.end()
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 0])
  runs[1]?.end()
  await job.stop()
  expect(logged).toEqual([])
})

test('a job that waits first runs an interval after its start', async () => {
  const { job, runs } = controlledJob({ waitsFirst: true })
  job.start()
  await settle()
  expect([runs.length, waits.length]).toEqual([0, 1])
  waits[0]?.end()
  await settle()
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await job.stop()
})

test('a job waits less than its interval when the next run is due sooner, and never more', async () => {
  const answers = [250, 5_000]
  const { job, runs } = controlledJob({
    untilNextMs: async () => {
      const ms = answers.shift()
      if (ms === undefined) throw new Error('no answer')
      return ms
    },
  })
  job.start()
  for (const expected of [250, 1_000, 1_000]) {
    await settle()
    runs.at(-1)?.end()
    await settle()
    expect(waits.map(({ ms }) => ms)).toEqual([expected])
    waits[0]?.end()
  }
  expect(logged.map(({ message }) => message)).toEqual(['background job failed'])
  await settle()
  runs.at(-1)?.end()
  await job.stop()
})

test('a wake during the wait starts the next run at once', async () => {
  const { job, runs } = controlledJob()
  job.start()
  runs[0]?.end()
  await settle()
  expect(waits).toHaveLength(1)
  job.wake()
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 0])
  runs[1]?.end()
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 1])
  await job.stop()
})

test('wakes during a run cause one more run at once, and then the job waits', async () => {
  const { job, runs } = controlledJob()
  job.start()
  await settle()
  job.wake()
  job.wake()
  runs[0]?.end()
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 0])
  runs[1]?.end()
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 1])
  await job.stop()
})

test('a wake while the time of the next run is computed is not lost', async () => {
  const asked = Promise.withResolvers<number>()
  const { job, runs } = controlledJob({ untilNextMs: () => asked.promise })
  job.start()
  runs[0]?.end()
  await settle()
  job.wake()
  asked.resolve(500)
  await settle()
  expect([runs.length, waits.length]).toEqual([2, 0])
  runs[1]?.end()
  await job.stop()
})

test('a wake before the start and after the stop runs nothing', async () => {
  const { job, runs } = controlledJob({ waitsFirst: true })
  job.wake()
  await settle()
  expect(runs).toHaveLength(0)
  job.start()
  await settle()
  expect([runs.length, waits.length]).toEqual([0, 1])
  waits[0]?.end()
  await settle()
  runs[0]?.end()
  await settle()
  expect(waits).toHaveLength(1)
  await job.stop()
  job.wake()
  await settle()
  expect(runs).toHaveLength(1)
})

test('a failed run is logged with the name of the job, and the job continues after its interval', async () => {
  const { job, runs } = controlledJob()
  job.start()
  await settle()
  const error = new Error('no database')
  runs[0]?.fail(error)
  await settle()
  expect(logged).toEqual([
    { fields: { err: error, job: 'test job' }, message: 'background job failed' },
  ])
  expect(waits).toHaveLength(1)
  waits[0]?.end()
  await settle()
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await job.stop()
})

test('a run that throws synchronously is a failed run too', async () => {
  const { job } = controlledJob({
    run: () => {
      throw new Error('at once')
    },
  })
  job.start()
  await settle()
  expect([logged.length, waits.length]).toEqual([1, 1])
  await job.stop()
})

test('a stop during the wait ends the job at once', async () => {
  const { job, runs } = controlledJob()
  job.start()
  runs[0]?.end()
  await settle()
  expect(waits).toHaveLength(1)
  await job.stop()
  expect([runs.length, waits.length]).toEqual([1, 0])
  job.start()
  await settle()
  expect(runs).toHaveLength(1)
})

test('a stop during a run aborts its signal and waits for its end, and nothing runs afterwards', async () => {
  const { job, runs } = controlledJob()
  job.start()
  await settle()
  job.wake()
  expect(runs[0]?.signal.aborted).toBe(false)
  const stopped = job.stop()
  expect(runs[0]?.signal.aborted).toBe(true)
  expect(await isOver(stopped)).toBe(false)
  runs[0]?.end()
  await stopped
  await settle()
  expect([runs.length, waits.length]).toEqual([1, 0])
})

test('the stop of a started job calls finish once, after the last run, also when that run fails', async () => {
  const finished: string[] = []
  const finish = async () => {
    finished.push(`after ${runs.length}`)
    throw new Error('not finished')
  }
  const { job, runs } = controlledJob({ finish })
  job.start()
  await settle()
  const stops = [job.stop(), job.stop()]
  await settle()
  expect(finished).toEqual([])
  runs[0]?.fail(new Error('last run'))
  await Promise.all(stops)
  await job.stop()
  expect(finished).toEqual(['after 1'])
  expect(logged.map(({ message }) => message)).toEqual(
    Array.from({ length: 2 }, () => 'background job failed'),
  )

  const idle = controlledJob({ finish: async () => finished.push('not started') })
  await idle.job.stop()
  expect(finished).toHaveLength(1)
})

test('once() runs without a start, and returns or throws what the run does', async () => {
  const { job, runs } = controlledJob()
  const first = job.once()
  runs[0]?.end('result')
  expect(await first).toBe('result')
  const second = job.once()
  runs[1]?.fail(new Error('thrown to the caller'))
  await expect(second).rejects.toThrow('thrown to the caller')
  expect([logged.length, waits.length]).toEqual([0, 0])
  const third = job.once()
  await job.stop()
  expect(runs[2]?.signal.aborted).toBe(true)
  runs[2]?.end()
  await third
})

const now = () => new Date('2026-01-15T12:00:00Z')
const lease = () => ({
  deps: { database, now, processId: 'ours', log: { warn: () => undefined } },
})
const theirs = { name: 'leased job', owner: 'theirs' }
const hasOwner = async () => (await findLease(database.db, 'leased job', now()))?.hasOwner

test('a job with a lease runs in one process at a time, and releases the lease after each run', async () => {
  const leases: (boolean | undefined)[] = []
  const job: BackgroundJob<string | undefined> = createBackgroundJob(deps, {
    name: 'leased job',
    intervalMs: 1_000,
    lease: lease(),
    async run() {
      leases.push(await hasOwner())
      return 'run'
    },
  })
  const taken = await takeLease(database, { ...theirs, now: now() })
  expect(await job.once()).toBeUndefined()
  job.start()
  await expect.poll(() => waits.length).toBe(1)
  expect([leases.length, logged.length]).toEqual([0, 0])

  await releaseLease(database.db, taken as LeaseToken)
  job.wake()
  await expect.poll(() => leases).toEqual([true])
  await expect.poll(() => waits.length).toBe(1)
  expect(await hasOwner()).toBe(false)
  expect(await job.once()).toBe('run')
  await job.stop()
})

test('a job with a lease takes no lease when no work is due', async () => {
  let isDue = false
  let runs = 0
  const job = createBackgroundJob(deps, {
    name: 'seldom due',
    intervalMs: 1_000,
    lease: { ...lease(), isDue: async () => isDue },
    run: async () => {
      runs += 1
    },
  })
  await job.once()
  expect(runs).toBe(0)
  expect(await findLease(database.db, 'seldom due', now())).toBeUndefined()
  isDue = true
  await job.once()
  expect(runs).toBe(1)
})

test('a stop aborts the run of a job with a lease too', async () => {
  const began = Promise.withResolvers<AbortSignal>()
  const job = createBackgroundJob(deps, {
    name: 'leased job',
    intervalMs: 1_000,
    lease: lease(),
    run: (signal) => {
      began.resolve(signal)
      return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    },
  })
  job.start()
  const signal = await began.promise
  await job.stop()
  expect(signal.aborted).toBe(true)
  expect(await hasOwner()).toBe(false)
})

test('work under a lease runs once at a time, in its own process too', async () => {
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
  const own = { database, now, processId: 'own', log: { warn: () => {} } }
  const first = withLease(own, 'alone', () => mayEnd)
  await expect.poll(async () => (await findLease(database.db, 'alone', now()))?.hasOwner).toBe(true)
  expect(await withLease(own, 'alone', async () => 'twice')).toBeUndefined()
  end()
  await first
  expect(await withLease(own, 'alone', async () => 'again')).toEqual({ result: 'again' })
})
