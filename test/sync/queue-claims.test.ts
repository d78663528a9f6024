import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { acquireLease } from '../../src/repositories/leases.ts'
import { ClaimLostError, proveClaims } from '../../src/sync/deliver/settlements.ts'
import { createTenure, type Tenure, type Term } from '../../src/sync/deliver/tenure.ts'
import { openTestDatabase } from '../support/database.ts'
import { memoryLog } from './deliver-support.ts'

const leaseMs = 60_000
const soon = { timeout: 10_000, interval: 5 }
let database: Database
const opened: Tenure[] = []

beforeAll(async () => {
  // Leases are the same rows on either engine; the embedded one merely does without.
  database = { ...(await openTestDatabase()), engine: 'postgres' }
})
afterAll(async () => {
  await Promise.all(opened.map((tenure) => tenure.stop()))
  await database.close()
})

async function begin(name: string): Promise<Term> {
  const deps = { database, now: () => new Date(), processId: 'one', log: memoryLog(), leaseMs }
  const tenure = createTenure(deps, name, () => {})
  opened.push(tenure)
  await expect.poll(() => tenure.current() !== undefined, soon).toBe(true)
  return tenure.current() as Term
}

/** What another process does after this one stood still. */
const takeOver = (name: string) =>
  acquireLease(database.db, {
    name,
    owner: 'two',
    now: new Date(Date.now() + leaseMs + 1),
    lengthMs: leaseMs,
  })

const isWritten = async (word: string) =>
  (await sql`select 1 from settings where name = ${word}`.execute(database.db)).rows.length === 1

/** Writes something, and then proves the claims of these terms. */
const settle = (word: string, terms: readonly Term[]) =>
  database.transaction(async (trx) => {
    await sql`insert into settings (name, value, updated_at) values (${word}, 'x', now())`.execute(
      trx,
    )
    await proveClaims(
      trx,
      terms.map((term, place) => ({ pk: `${place}`, term })),
    )
  })

test('T50: of claims of which one was taken over none is ended, and nothing is written beside them', async () => {
  const [kept, lost] = [await begin('kept'), await begin('lost')]
  await settle('before', [kept, lost])
  expect(await isWritten('before')).toBe(true)
  expect(await takeOver('lost')).toBe(2)
  await expect(settle('beside', [kept, lost])).rejects.toBeInstanceOf(ClaimLostError)
  await expect(settle('alone', [lost])).rejects.toBeInstanceOf(ClaimLostError)
  expect([await isWritten('beside'), await isWritten('alone')]).toEqual([false, false])
  // What was not lost ends with what is written about it.
  await settle('after', [kept])
  expect(await isWritten('after')).toBe(true)
})

test('T50: a claim whose lease ran out stands as long as nobody has taken it', async () => {
  const term = await begin('ran out')
  await sql`update leases set deadline = now() - interval '1 minute' where name = 'ran out'`.execute(
    database.db,
  )
  await settle('late', [term])
  expect(await isWritten('late')).toBe(true)
})
