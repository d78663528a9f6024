import { expect, onTestFinished, test, vi } from 'vitest'
import { type DatabaseClock, startDatabaseClock } from '../../src/db/clock.ts'
import { openTestDatabase } from '../support/database.ts'

const hourMs = 3_600_000

/** A database whose clock and round trips, and a host whose monotonic clock, the test moves. */
async function startWorld() {
  const world = {
    databaseMs: 1_800_000_000_000,
    hostMs: 5_000,
    /** Of the next questions: the way there and the way back. */
    trip: [1, 1] as [number, number],
    pass(ms: number) {
      world.databaseMs += ms
      world.hostMs += ms
    },
    logged: [] as object[],
    clock: undefined as unknown as DatabaseClock,
    aheadMs: () => world.clock.now().getTime() - world.databaseMs,
  }
  const database = {
    async clockMs() {
      world.pass(world.trip[0])
      const ms = world.databaseMs
      world.pass(world.trip[1])
      return ms
    },
  }
  world.clock = await startDatabaseClock(database, {
    monotonicMs: () => world.hostMs,
    log: (_level, fields) => void world.logged.push(fields),
  })
  onTestFinished(() => world.clock.stop())
  return world
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

test('a slow answer does not spoil what a quick one has shown', async () => {
  const world = await startWorld()
  expect(world.aheadMs()).toBe(0)
  world.trip = [5_000, 0]
  await world.clock.measure()
  expect(world.aheadMs()).toBe(0)
  expect(world.logged).toEqual([])
})

test('a clock that runs too fast is corrected, and never shows an earlier time than before', async () => {
  const world = await startWorld()
  let latestMs = 0
  let worstMs = 0
  for (let second = 0; second < 600; second += 1) {
    world.pass(1_000)
    world.hostMs += 0.2
    const shownMs = world.clock.now().getTime()
    expect(shownMs).toBeGreaterThanOrEqual(latestMs)
    latestMs = shownMs
    worstMs = Math.max(worstMs, Math.abs(world.aheadMs()))
    await world.clock.measure()
  }
  expect(worstMs).toBeLessThan(5)
  expect(world.logged).toEqual([])
})

test("when the database's clock is set back or forward, ours goes with it, once", async () => {
  const world = await startWorld()
  for (const byMs of [-hourMs, 2 * hourMs, -250]) {
    world.databaseMs += byMs
    await world.clock.measure()
    expect(world.aheadMs()).toBe(0)
    world.pass(1_000)
    await world.clock.measure()
    expect(world.logged.splice(0)).toEqual([{ byMs }])
  }
})

test('the database is asked again every two seconds, also after it could not be asked', async () => {
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

test('a database that cannot be asked leaves the clock running', async () => {
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
