import { sql } from 'kysely'
import { afterAll, expect, test, vi } from 'vitest'
import { createTurns } from '../../src/db/event-loop-pauses.ts'
import { openEmbedded } from '../support/database.ts'

const database = await openEmbedded()
afterAll(() => database.close())

/** Timers should run every 8 ms; without pauses none runs while the work lasts. */
const ENOUGH_TURNS = 10
const MOST_STEPS = 50_000

/** How often a timer ran while `work` took one step after the other. It ends when that was often enough. */
async function turnsDuring(
  work: (steps: () => Generator<number>) => Promise<unknown>,
): Promise<number> {
  let turns = 0
  const timer = setInterval(() => {
    turns += 1
  }, 1)
  await work(function* () {
    for (let n = 0; n < MOST_STEPS && turns <= ENOUGH_TURNS; n++) yield n
  })
  clearInterval(timer)
  return turns
}

test('timers run while queries are awaited one after the other', async () => {
  const turns = await turnsDuring(async (steps) => {
    for (const n of steps()) await sql`select ${n}::int`.execute(database.db)
  })
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})

test('timers run while queries are awaited in one transaction', async () => {
  const turns = await turnsDuring((steps) =>
    database.transaction(async (trx) => {
      for (const n of steps()) await sql`select ${n}::int`.execute(trx)
    }),
  )
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})

test('timers run while transactions are awaited one after the other', async () => {
  const turns = await turnsDuring(async (steps) => {
    for (const _ of steps()) await database.transaction(async () => {})
  })
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})

test('turns end by the real clock, whatever time another test has set before', async () => {
  const turn = createTurns(1)
  vi.useFakeTimers({ toFake: ['performance'] })
  vi.advanceTimersByTime(3_600_000)
  await turn()
  vi.useRealTimers()
  const until = performance.now() + 3
  while (performance.now() < until);
  expect(turn()).toBeDefined()
})
