import { sql } from 'kysely'
import { afterAll, expect, test } from 'vitest'
import { openPgliteClone } from '../support/database.ts'

const database = await openPgliteClone()
afterAll(() => database.close())

/** How often others had their turn while `work` ran. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  const timer = setInterval(() => {
    turns += 1
  }, 1)
  await work()
  clearInterval(timer)
  return turns
}

// Every 8 ms gives 40 turns and more, on a busy machine too; without the pauses it is none at all.
const ENOUGH_TURNS = 10

test('timers run while 2,000 queries are awaited one after the other', async () => {
  const turns = await turnsDuring(async () => {
    for (let n = 0; n < 2000; n++) await sql`select ${n}::int`.execute(database.db)
  })
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})

test('timers run while 2,000 queries are awaited in one transaction', async () => {
  const turns = await turnsDuring(() =>
    database.transaction(async (trx) => {
      for (let n = 0; n < 2000; n++) await sql`select ${n}::int`.execute(trx)
    }),
  )
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})

test('timers run while 1,000 transactions are awaited one after the other', async () => {
  const turns = await turnsDuring(async () => {
    for (let n = 0; n < 1000; n++) await database.transaction(async () => {})
  })
  expect(turns).toBeGreaterThan(ENOUGH_TURNS)
})
