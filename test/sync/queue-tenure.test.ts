import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { acquireLease, findLease, releaseLease } from '../../src/repositories/leases.ts'
import { createTenure, createTenures, type Tenure } from '../../src/sync/deliver/tenure.ts'
import { openTestDatabase } from '../support/database.ts'
import { memoryLog } from './deliver-support.ts'

// T50: a queue is worked by one process at a time, and whoever lost it knows before he does more.

const leaseMs = 9_000
let database: Database
let nowMs = Date.parse('2026-11-22T12:00:00Z')
const now = () => new Date(nowMs)
let opened: Tenure[] = []

beforeAll(async () => {
  // Leases are the same rows on either engine; the embedded one merely does without.
  database = { ...(await openTestDatabase()), engine: 'postgres' }
})
afterAll(() => database.close())
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
})
afterEach(async () => {
  for (const tenure of opened) await tenure.stop()
  opened = []
  vi.useRealTimers()
})

function open(name: string, processId: string, onBegin = () => {}, own = database): Tenure {
  const deps = { database: own, now, processId, log: memoryLog(), leaseMs }
  const tenure = createTenure(deps, name, onBegin)
  opened.push(tenure)
  return tenure
}

/** Time passes for everybody, and what falls due in it is done. */
async function pass(ms: number): Promise<void> {
  nowMs += ms
  await vi.advanceTimersByTimeAsync(ms)
}

/** `expect.poll` would move the clocks that stand still here. */
async function until(isSo: () => unknown): Promise<void> {
  if (!(await isWithin(15_000, isSo))) throw new Error(`still not: ${isSo}`)
}

async function isWithin(realMs: number, isSo: () => unknown): Promise<boolean> {
  const giveUpAt = Date.now() + realMs
  while (!(await isSo())) {
    if (Date.now() > giveUpAt) return false
    await new Promise((resolve) => setImmediate(resolve))
  }
  return true
}

/** At one of the next times that a process asks: while its question before has no answer yet it asks no other. */
async function untilAsked(isSo: () => unknown): Promise<void> {
  for (let thirds = 0; thirds < 10; thirds += 1) {
    await pass(leaseMs / 3)
    if (await isWithin(1_000, isSo)) return
  }
  throw new Error(`still not: ${isSo}`)
}

const deadlineOf = async (name: string) => {
  const leases = database.db.selectFrom('leases').select('deadline').where('name', '=', name)
  return (await leases.executeTakeFirst())?.deadline.getTime()
}
const tokenOf = async (name: string) => (await findLease(database.db, name, now()))?.token

test('T50: of two processes one works, the other follows when the lease is given back, and tells that it begins', async () => {
  const begun: string[] = []
  const first = open('handed over', 'one', () => begun.push('one'))
  await until(() => first.current())
  const second = open('handed over', 'two', () => begun.push('two'))
  for (let thirds = 0; thirds < 6; thirds += 1) {
    await pass(leaseMs / 3)
    await until(async () => (await deadlineOf('handed over')) === nowMs + leaseMs)
  }
  expect([first.current() !== undefined, second.current()]).toEqual([true, undefined])
  const token = await tokenOf('handed over')
  await first.stop()
  await untilAsked(() => second.current())
  expect(begun).toEqual(['one', 'two'])
  expect(await tokenOf('handed over')).toBe((token ?? 0) + 1)
})

test('T50: who stops before the lease was given to him gives it back all the same, so that the next one begins at once', async () => {
  await open('hardly begun', 'one').stop()
  expect(await deadlineOf('hardly begun')).toBe(0)
  const next = open('hardly begun', 'two')
  // The clocks stand still: whoever had to wait would wait for ever.
  await until(async () => (await tokenOf('hardly begun')) === 2)
  await until(() => next.current())
})

test('T50: who stood still while another process took the lease is told so, and does not count as at work', async () => {
  let begun = 0
  const zombie = open('taken over', 'zombie', () => (begun += 1))
  await until(() => zombie.current())
  const { signal } = zombie.current() as { signal: AbortSignal }
  // For the others its time is over, while its own clock and timers stood still.
  nowMs += leaseMs + 1
  const lease = { name: 'taken over', owner: 'other', now: now(), lengthMs: leaseMs }
  const token = await acquireLease(database.db, lease)
  expect(token).toBe(2)
  expect(signal.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(leaseMs / 3)
  await until(() => signal.aborted)
  expect(signal.reason).toMatchObject({ message: 'the lease was lost' })
  expect([zombie.current(), begun]).toEqual([undefined, 1])
  // Nor can it give back, or prolong, what is another's now.
  await releaseLease(database.db, { name: 'taken over', owner: 'zombie' })
  expect(await findLease(database.db, 'taken over', now())).toEqual({ token: 2, hasOwner: true })
  // Its next term is a new one.
  await releaseLease(database.db, { name: 'taken over', owner: 'other' })
  await untilAsked(() => zombie.current())
  expect([begun, await tokenOf('taken over')]).toEqual([2, 3])
})

test('T50: a lease that ran out and that nobody took begins a new term: somebody might have worked in between', async () => {
  let begun = 0
  const tenure = open('ran out', 'one', () => (begun += 1))
  await until(() => tenure.current())
  const { signal } = tenure.current() as { signal: AbortSignal }
  nowMs += leaseMs + 1
  await vi.advanceTimersByTimeAsync(leaseMs / 3)
  await until(() => begun === 2)
  expect(signal.aborted).toBe(true)
  expect(await tokenOf('ran out')).toBe(2)
})

test('T50: a process that cannot renew stops by its own clock, before anybody else may begin', async () => {
  const isAway = { current: false }
  const failing = new Proxy(database.db, {
    get(db, name) {
      if (isAway.current) throw new Error('the database is away')
      const value: unknown = Reflect.get(db, name)
      return typeof value === 'function' ? value.bind(db) : value
    },
  })
  const tenure = open('cut off', 'one', () => {}, { ...database, db: failing })
  await until(() => tenure.current())
  const { signal } = tenure.current() as { signal: AbortSignal }
  isAway.current = true
  await pass(leaseMs - 1)
  expect(signal.aborted).toBe(false)
  expect(await findLease(database.db, 'cut off', now())).toMatchObject({ hasOwner: true })
  // Asked between two of its attempts to renew.
  nowMs += 1
  vi.advanceTimersByTime(1)
  expect(tenure.current()).toBeUndefined()
  expect(signal.aborted).toBe(true)
  isAway.current = false
})

test('who takes a lease over begins when nobody can still hold a proof of it, whatever the clock says', async () => {
  const first = open('jump', 'one')
  await until(() => first.current())
  const permit = await first.current()?.sending((given) => given())
  expect(permit?.()).toBe(true)
  // The clock of the database is set forward; the first goes on by its own.
  nowMs += leaseMs + 1
  const second = open('jump', 'two')
  await until(async () => (await tokenOf('jump')) === 2)
  await vi.advanceTimersByTimeAsync(leaseMs / 5 - 1)
  expect([permit?.(), second.current()]).toEqual([true, undefined])
  await until(async () => {
    await vi.advanceTimersByTimeAsync(1)
    return second.current()
  })
  expect(permit?.()).toBe(false)
  expect(await second.current()?.sending(async (given) => (await given())?.())).toBe(true)
})

type Around = <T>(answer: Promise<T>) => Promise<T>

/** The same object of Kysely, where each answer of a statement that is built on it goes through `around`. */
function watched<T extends object>(object: T, around: Around): T {
  return new Proxy(object, {
    get(real, name) {
      const value: unknown = Reflect.get(real, name)
      if (typeof value !== 'function') return value
      return (...given: unknown[]) => {
        const next: unknown = value.apply(real, given)
        return next instanceof Promise ? around(next) : watched(next as object, around)
      }
    },
  })
}

test('a permit stays fresh as long as its work waits, and ends when another process has the lease', async () => {
  let waiting = 0
  const counted = watched(database.db, (answer) => {
    waiting += 1
    return answer.finally(() => {
      waiting -= 1
    })
  })
  const first = open('long', 'one', () => {}, { ...database, db: counted })
  await until(() => first.current())
  const sends = first.current()?.sending(async (given) => {
    const permit = await given()
    for (let steps = 0; steps < 12; steps += 1) {
      await pass(leaseMs / 20)
      // The proof of meanwhile has its answer; were none asked for, there would never be one.
      await until(() => waiting === 0)
      await until(() => permit?.())
    }
    nowMs += leaseMs + 1
    await acquireLease(database.db, { name: 'long', owner: 'other', now: now(), lengthMs: leaseMs })
    await pass(leaseMs / 5)
    expect(permit?.()).toBe(false)
    expect(await given()).toBeUndefined()
  })
  await sends
  expect(first.current()).toBeUndefined()
})

test('a renewal whose answer is late does not make a newer proof an old one', async () => {
  let gate: Promise<void> | undefined
  const withheld: Around = async (answer) => {
    const given = await answer
    await gate
    return given
  }
  const late = new Proxy(database.db, {
    get(db, name) {
      const value: unknown = Reflect.get(db, name)
      if (typeof value !== 'function') return value
      if (name !== 'insertInto') return value.bind(db)
      return (table: 'leases') => watched(db.insertInto(table), withheld)
    },
  })
  const tenure = open('late answer', 'one', () => {}, { ...database, db: late })
  await until(() => tenure.current())
  const answer = Promise.withResolvers<void>()
  gate = answer.promise
  await tenure.current()?.sending(async (given) => {
    const permit = await given()
    // The renewal is asked for after a third, and the proofs of after that have their answers.
    for (let steps = 0; steps < 11; steps += 1) {
      await pass(leaseMs / 20)
      await until(() => permit?.())
    }
    answer.resolve()
    for (let turns = 0; turns < 20; turns += 1) await new Promise((done) => setImmediate(done))
    expect(permit?.()).toBe(true)
  })
})

/** A statement of Kysely that is sent to the database late. */
function later<T extends object>(statement: T): T {
  return new Proxy(statement, {
    get(real, name) {
      const value: unknown = Reflect.get(real, name)
      if (typeof value !== 'function') return value
      if (name !== 'execute') return (...given: unknown[]) => later(value.apply(real, given))
      return async () => {
        for (let turns = 0; turns < 100; turns += 1) await new Promise((done) => setImmediate(done))
        return value.apply(real)
      }
    },
  })
}

test('a lease that is shared anew while it is given back is not taken from under who works then', async () => {
  const slow = new Proxy(database.db, {
    get(db, name) {
      const value: unknown = Reflect.get(db, name)
      if (typeof value !== 'function') return value
      if (name !== 'updateTable') return value.bind(db)
      return (table: 'leases') => later(db.updateTable(table))
    },
  })
  const deps = { now, processId: 'one', log: memoryLog(), leaseMs }
  const tenures = createTenures({ ...deps, database: { ...database, db: slow } })
  const share = () => {
    const tenure = tenures.share('deliver:reloaded', () => {})
    opened.push(tenure)
    return tenure
  }
  const before = share()
  await until(() => before.current())
  const stopped = before.stop()
  const after = share()
  await stopped
  await until(() => after.current())
  expect(await deadlineOf('deliver:reloaded')).toBe(nowMs + leaseMs)
})

test('all that share a lease begin together, and it is given back when the last of them stops', async () => {
  const begun: string[] = []
  const shareIn = (processId: string) => {
    const tenures = createTenures({ database, now, processId, log: memoryLog(), leaseMs })
    return (name: string) => {
      const tenure = tenures.share('deliver:shop', () => begun.push(name))
      opened.push(tenure)
      return tenure
    }
  }
  const [inOne, inTwo] = [shareIn('one'), shareIn('two')]
  const articles = inOne('articles of one')
  await until(() => articles.current())
  const stock = inOne('stock of one')
  await until(() => begun.length === 2)
  expect(stock.current()?.signal).toBe(articles.current()?.signal)
  const elsewhere = [inTwo('articles of two'), inTwo('stock of two')]
  await pass(leaseMs / 3)
  await until(async () => (await deadlineOf('deliver:shop')) === nowMs + leaseMs)
  await articles.stop()
  await pass(leaseMs / 3)
  await until(async () => (await deadlineOf('deliver:shop')) === nowMs + leaseMs)
  expect(stock.current()?.signal.aborted).toBe(false)
  expect(elsewhere.map((one) => one.current())).toEqual([undefined, undefined])
  await stock.stop()
  await untilAsked(() => elsewhere.every((one) => one.current()))
  // Who looked just before it was given back waits until nobody can still send.
  await until(() => begun.length === 4)
  expect(begun).toEqual(['articles of one', 'stock of one', 'articles of two', 'stock of two'])
})
