import { expect, onTestFinished, test, vi } from 'vitest'
import { type DatabaseClock, startDatabaseClock } from '../../src/db/clock.ts'
import { openTestDatabase } from '../support/database.ts'

const hourMs = 3_600_000

/** A database whose clock and round trips, and a host whose monotonic clock, the test moves. */
async function startClock() {
  const host = {
    databaseMs: 1_800_000_000_000,
    hostMs: 5_000,
    /** Duration of the next query: to the database and back. */
    trip: [1, 1] as [number, number],
    pass(ms: number) {
      host.databaseMs += ms
      host.hostMs += ms
    },
    logged: [] as object[],
    clock: undefined as unknown as DatabaseClock,
    aheadMs: () => host.clock.now().getTime() - host.databaseMs,
  }
  const database = {
    async clockMs() {
      host.pass(host.trip[0])
      const ms = host.databaseMs
      host.pass(host.trip[1])
      return ms
    },
  }
  host.clock = await startDatabaseClock(database, {
    monotonicMs: () => host.hostMs,
    log: (_level, fields) => void host.logged.push(fields),
  })
  onTestFinished(() => host.clock.stop())
  return host
}

test("the clock shows the database's time, whatever this host's wall clock shows", async () => {
  const database = await openTestDatabase()
  onTestFinished(() => database.close())
  const clock = await startDatabaseClock(database)
  onTestFinished(() => clock.stop())
  for (const shiftMs of [0, 10 * 60_000, -hourMs]) {
    // The embedded database has no clock but the host's.
    if (database.engine === 'pglite' && shiftMs !== 0) continue
    vi.useFakeTimers({
      toFake: ['Date'],
      now: performance.timeOrigin + performance.now() + shiftMs,
    })
    onTestFinished(() => void vi.useRealTimers())
    const beforeMs = await database.clockMs()
    const shownMs = clock.now().getTime()
    const afterMs = await database.clockMs()
    expect(shownMs).toBeGreaterThan(beforeMs - 100)
    expect(shownMs).toBeLessThan(afterMs + 100)
  }
})

test('a slow answer does not replace the measurement of a quick one', async () => {
  const host = await startClock()
  expect(host.aheadMs()).toBe(0)
  host.trip = [5_000, 0]
  await host.clock.measure()
  expect(host.aheadMs()).toBe(0)
  expect(host.logged).toEqual([])
})

test('a clock that runs too fast is corrected, and never shows an earlier time than before', async () => {
  const host = await startClock()
  let latestMs = 0
  let worstMs = 0
  for (let second = 0; second < 600; second += 1) {
    host.pass(1_000)
    host.hostMs += 0.2
    const shownMs = host.clock.now().getTime()
    expect(shownMs).toBeGreaterThanOrEqual(latestMs)
    latestMs = shownMs
    worstMs = Math.max(worstMs, Math.abs(host.aheadMs()))
    await host.clock.measure()
  }
  expect(worstMs).toBeLessThan(5)
  expect(host.logged).toEqual([])
})

test("when the database's clock is set back or forward, ours follows it, and logs it once", async () => {
  const host = await startClock()
  for (const byMs of [-hourMs, 2 * hourMs, -250]) {
    host.databaseMs += byMs
    await host.clock.measure()
    expect(host.aheadMs()).toBe(0)
    host.pass(1_000)
    await host.clock.measure()
    expect(host.logged.splice(0)).toEqual([{ byMs }])
  }
})

test("the database's clock is read every two seconds, also after a failure", async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let databaseMs: number | undefined = 1_000_000
  const clock = await startDatabaseClock(
    {
      clockMs: async () => {
        if (databaseMs === undefined) throw new Error('away')
        return databaseMs
      },
    },
    { monotonicMs: () => 0 },
  )
  databaseMs = undefined
  await vi.advanceTimersByTimeAsync(2_000)
  expect(clock.now().getTime()).toBe(1_000_000)
  databaseMs = 2_000_000
  await vi.advanceTimersByTimeAsync(2_000)
  expect(clock.now().getTime()).toBe(2_000_000)
  clock.stop()
  expect(vi.getTimerCount()).toBe(0)
})

test('the clock runs on while the database is down', async () => {
  let isAway = false
  let hostMs = 0
  const clock = await startDatabaseClock(
    { clockMs: () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve(1_000_000)) },
    { monotonicMs: () => hostMs },
  )
  onTestFinished(() => clock.stop())
  isAway = true
  hostMs = hourMs
  await expect(clock.measure()).rejects.toThrow('away')
  expect(clock.now().getTime()).toBe(1_000_000 + hourMs)
})
