import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { type HeldLease, withLease } from '../../src/jobs/with-lease.ts'
import { takeLease } from '../../src/repositories/leases.ts'
import { openTestDatabase } from '../support/database.ts'
import { TestClock } from '../support/service.ts'

let database: Database
beforeAll(async () => {
  database = await openTestDatabase()
})
afterAll(() => database.close())

const clock = new TestClock()
const { now } = clock

/** Runs work under a lease of 10 s. */
function underOwn(name: string, work: (lease: HeldLease) => Promise<void>) {
  const log = { warn: () => undefined }
  return withLease({ database, now, processId: 'ours', log }, name, work)
}

const takenByAnother = (name: string) => takeLease(database, { name, owner: 'theirs', now: now() })

test('a permit to send ends before another process can have the lease, also when this process stood still', async () => {
  await underOwn('ends', async ({ permit }) => {
    const mayStart = await permit()
    expect(mayStart?.()).toBe(true)
    clock.advance(8_500)
    expect(mayStart?.()).toBe(true)
    clock.advance(1_000)
    expect(mayStart?.()).toBe(false)
    expect(await takenByAnother('ends')).toBeUndefined()
  })
})

test('an old permit is proven again, which renews the lease', async () => {
  await underOwn('renewed', async ({ permit }) => {
    clock.advance(11_000)
    expect((await permit())?.()).toBe(true)
    expect(await takenByAnother('renewed')).toBeUndefined()
  })
})

test('there is no permit once another process has the lease, and the work ends', async () => {
  await underOwn('lost', async ({ permit, signal }) => {
    const mayStart = await permit()
    clock.advance(11_000)
    expect(await takenByAnother('lost')).toBeDefined()
    expect(await permit()).toBeUndefined()
    expect([mayStart?.(), signal.aborted]).toEqual([false, true])
  })
})
