import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import type { Database, Db, Session } from '../../src/db/database.ts'
import {
  createLeader,
  findGoneLeader,
  type GoneLeader,
  type Leader,
  type Term,
} from '../../src/jobs/leader.ts'
import { leaderLease as name, pollLease } from '../../src/repositories/flows/leader-lease.ts'
import { releaseLease, takeLease } from '../../src/repositories/leases.ts'
import { memoryLog } from '../flows/deliver-support.ts'
import { openTestDatabase } from '../support/database.ts'
import { findLease } from '../support/leases.ts'

// T50: one process leads at a time, and a process that lost its lease notices before it does more work.

const leaseMs = 9_000
const proofMs = 500
let database: Database
let nowMs = Date.now()
const now = () => new Date(nowMs)
let leaders: Leader[] = []

/** Locks of the token of a lease, by the session that has it. */
const locks = new Map<number, Session>()
let sessions: { session: Session; cut: () => void }[] = []

/** Sessions on the statements of a database, with locks as PostgreSQL has them. */
function openSessionOn(db: Db): Promise<Session> {
  const lost = new AbortController()
  const cut = () => {
    for (const [key, owner] of locks) if (owner === session) locks.delete(key)
    lost.abort(new Error('cut'))
  }
  const session: Session = {
    db,
    lost: lost.signal,
    tryLock: async (key) => {
      const owner = locks.get(key) ?? session
      locks.set(key, owner)
      return owner === session
    },
    unlock: async (key) => void locks.delete(key),
    close: async () => cut(),
  }
  sessions.push({ session, cut })
  return Promise.resolve(session)
}

/** Another process takes the lease, with its lock. */
async function takeAsOther(): Promise<number | undefined> {
  const lease = { name, owner: 'other', now: now(), lengthMs: leaseMs }
  const token = (await takeLease(database, lease))?.token
  const session = await openSessionOn(database.db)
  if (token !== undefined) locks.set(token, session)
  return token
}

const withSessions = (own: Database): Database => ({
  ...own,
  openSession: () => openSessionOn(own.db),
})

beforeAll(async () => {
  // Leases are the same rows on either engine; the embedded one needs no leader, and has no sessions.
  database = withSessions({ ...(await openTestDatabase()), engine: 'postgres' })
})
afterAll(() => database.close())
beforeEach(() => {
  nowMs = Date.now()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
})
afterEach(async () => {
  for (const leader of leaders) await leader.stop()
  leaders = []
  sessions = []
  locks.clear()
  vi.useRealTimers()
  await database.db.deleteFrom('leases').execute()
})

function open(
  processId: string,
  onBegin = () => {},
  own = database,
  gone: Promise<GoneLeader | undefined> = Promise.resolve(undefined),
): Leader {
  const leader = createLeader({
    database: withSessions(own),
    now,
    processId,
    log: memoryLog(),
    leaseMs,
    gone,
  })
  leader.follow(onBegin)
  leaders.push(leader)
  void leader.start()
  return leader
}

/** Advances all clocks, and due timers run. */
async function pass(ms: number): Promise<void> {
  nowMs += ms
  await vi.advanceTimersByTimeAsync(ms)
}

/** `expect.poll` would advance the clocks, which the test controls. */
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

/** Advances to the next attempts of a process; while an attempt has no answer yet, the process makes no other. */
async function untilAttempt(isSo: () => unknown): Promise<void> {
  for (let thirds = 0; thirds < 10; thirds += 1) {
    await pass(leaseMs / 3)
    if (await isWithin(1_000, isSo)) return
  }
  throw new Error(`still not: ${isSo}`)
}

const deadlineOf = async () => {
  const leases = database.db.selectFrom('leases').select('deadline').where('name', '=', name)
  return (await leases.executeTakeFirst())?.deadline.getTime()
}
const tokenOf = async () => (await findLease(database.db, name, now()))?.token

test('T50: of two processes one leads; the other follows when the lease is released, and reports that it begins', async () => {
  const begun: string[] = []
  const first = open('one', () => begun.push('one'))
  await until(() => first.current())
  const second = open('two', () => begun.push('two'))
  for (let thirds = 0; thirds < 6; thirds += 1) {
    await pass(leaseMs / 3)
    await until(async () => (await deadlineOf()) === nowMs + leaseMs)
  }
  expect([first.current() !== undefined, second.current()]).toEqual([true, undefined])
  const token = await tokenOf()
  await first.stop()
  await untilAttempt(() => second.current())
  expect(begun).toEqual(['one', 'two'])
  expect(await tokenOf()).toBe((token ?? 0) + 1)
})

test('T50: a process that stops before it got the lease releases it, so that the next one begins at once', async () => {
  await open('one').stop()
  expect(await deadlineOf()).toBe(0)
  const next = open('two')
  // The clocks stand still: a process that waits would never begin.
  await until(async () => (await tokenOf()) === 2)
  await until(() => next.current())
})

test('T50: a suspended process whose lease another one took loses its term', async () => {
  let begun = 0
  const suspended = open('suspended', () => (begun += 1))
  await until(() => suspended.current())
  const { signal } = suspended.current() as { signal: AbortSignal }
  // For the other process the lease has expired, while its own clock and timers stood still.
  nowMs += leaseMs + 1
  expect(await takeAsOther()).toBe(2)
  expect(signal.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(leaseMs / 3)
  await until(() => signal.aborted)
  expect(signal.reason).toMatchObject({ message: 'the leader lease was lost' })
  expect([suspended.current(), begun]).toEqual([undefined, 1])
  // It can neither release nor renew the lease of another process.
  await releaseLease(database.db, { name, owner: 'suspended', token: 1 })
  expect(await findLease(database.db, name, now())).toEqual({ token: 2, hasOwner: true })
  // Its next term has a new token.
  await releaseLease(database.db, { name, owner: 'other', token: 2 })
  await untilAttempt(() => suspended.current())
  expect([begun, await tokenOf()]).toEqual([2, 3])
})

test('T50: a process that loses the lease in a transaction takes a free one at once', async () => {
  const leader = open('one')
  await until(() => leader.current())
  const term = leader.current() as Term
  await releaseLease(database.db, { name, owner: 'one', token: 1 })
  await takeLease(database, { name, owner: 'other', now: now(), lengthMs: leaseMs })
  await releaseLease(database.db, { name, owner: 'other', token: 2 })
  expect(await database.transaction((trx) => term.holds(trx))).toBe(false)
  expect(term.signal.aborted).toBe(true)
  // The clocks stand still, so no later check can cause it.
  await until(() => leader.current())
  expect(await tokenOf()).toBe(3)
})

test('T50: a clock that is set forward ends no term of a process that renews', {
  tags: ['long'],
}, async () => {
  const leader = open('one')
  await until(() => leader.current())
  const other = open('two')
  const { signal } = leader.current() as { signal: AbortSignal }
  for (let jumps = 0; jumps < 10; jumps += 1) {
    nowMs += 60_000
    for (let steps = 0; steps < 4; steps += 1) {
      await pass(leaseMs / 12)
      await isWithin(20, () => other.current())
    }
  }
  expect([signal.aborted, other.current(), await tokenOf()]).toEqual([false, undefined, 1])
})

/** A database whose connection the test can cut. */
function cuttable() {
  const isAway = { current: false }
  const db = new Proxy(database.db, {
    get(real, name) {
      if (isAway.current) throw new Error('the database is away')
      const value: unknown = Reflect.get(real, name)
      return typeof value === 'function' ? value.bind(real) : value
    },
  })
  return { database: { ...database, db }, isAway }
}

test('T50: a process that cannot renew stops by its own clock, before another one may begin', async () => {
  const { database: failing, isAway } = cuttable()
  const leader = open('one', () => {}, failing)
  await until(() => leader.current())
  const { signal } = leader.current() as { signal: AbortSignal }
  isAway.current = true
  await pass(leaseMs - 1)
  expect(signal.aborted).toBe(false)
  expect(await findLease(database.db, name, now())).toMatchObject({ hasOwner: true })
  // Between two of its attempts to renew.
  nowMs += 1
  vi.advanceTimersByTime(1)
  expect(leader.current()).toBeUndefined()
  expect(signal.aborted).toBe(true)
  isAway.current = false
})

test('a crashed leader is followed within 10 s, and one that stops at once', {
  tags: ['long'],
}, async () => {
  const { database: failing, isAway } = cuttable()
  const deps = { now, log: memoryLog() }
  const [crashed, next, last] = ['crashed', 'next', 'last'].map((processId) =>
    createLeader({
      ...deps,
      database: processId === 'crashed' ? withSessions(failing) : database,
      processId,
    }),
  ) as [Leader, Leader, Leader]
  leaders.push(crashed, next, last)
  await crashed.start()
  await until(() => crashed.current())
  await Promise.all([next.start(), last.start()])
  isAway.current = true
  let passedMs = 0
  while (!next.current() && !last.current()) {
    await pass(100)
    passedMs += 100
    // An attempt has its answer before the clocks advance again.
    await isWithin(20, () => next.current() ?? last.current())
  }
  expect(passedMs).toBeLessThanOrEqual(10_000)
  expect(crashed.current()).toBeUndefined()
  isAway.current = false
  await crashed.stop()
  const [leads, waits] = next.current() ? [next, last] : [last, next]
  await leads.stop()
  // The clocks stand still: the release is announced.
  await until(() => waits.current())
})

test('a leader whose connection has ended is followed long before the deadline, with the polls that it left', {
  tags: ['long'],
}, async () => {
  const poll = { name: pollLease('articles'), lengthMs: leaseMs }
  const { database: failing, isAway } = cuttable()
  const first = open('one', () => {}, failing)
  await until(() => first.current())
  await takeLease(database, { ...poll, owner: 'one', now: now() })
  await takeLease(database, { ...poll, name: 'oauth:acme', owner: 'one', now: now() })
  const { signal } = first.current() as Term
  const [own] = sessions
  const second = open('two')
  await pass(1_000)
  expect([await isWithin(100, () => second.current()), await tokenOf()]).toEqual([false, 1])
  // It is killed: its connection ends, and it writes nothing more.
  isAway.current = true
  own?.cut()
  expect([signal.aborted, first.current()]).toEqual([true, undefined])
  const killedAtMs = performance.now()
  for (let steps = 0; steps < 20 && !second.current(); steps += 1) {
    await pass(100)
    // An attempt has its answer before the clocks advance again.
    await isWithin(100, () => second.current())
  }
  expect(second.current()).toBeDefined()
  expect(performance.now() - killedAtMs).toBeLessThan(2_000)
  expect((await findLease(database.db, poll.name, now()))?.hasOwner).toBe(false)
  // What it did at others may still be under way.
  expect((await findLease(database.db, 'oauth:acme', now()))?.hasOwner).toBe(true)
  isAway.current = false
})

test('a process that found the former leader gone while it started waits only for the rest of its proof', async () => {
  const { database: failing, isAway } = cuttable()
  const first = open('one', () => {}, failing)
  await until(() => first.current())
  expect(await findGoneLeader(database)).toBeUndefined()
  isAway.current = true
  sessions[0]?.cut()
  const gone = await findGoneLeader(database)
  expect(gone?.token).toBe(1)
  await pass(proofMs - 200)
  const second = open('two', () => {}, database, Promise.resolve(gone))
  await until(async () => (await tokenOf()) === 2)
  await isWithin(20, () => second.current())
  expect(second.current()).toBeUndefined()
  await pass(200)
  await until(() => second.current())
  isAway.current = false
})

test('a process that found another leader gone waits for the whole proof of the last one', async () => {
  const { database: failing, isAway } = cuttable()
  const first = open('one', () => {}, failing)
  await until(() => first.current())
  isAway.current = true
  sessions[0]?.cut()
  const gone = Promise.resolve({ token: 0, atMs: performance.now() - 10_000 })
  const second = open('two', () => {}, database, gone)
  await until(async () => (await tokenOf()) === 2)
  await pass(proofMs - 200)
  await isWithin(20, () => second.current())
  expect(second.current()).toBeUndefined()
  await pass(200)
  await until(() => second.current())
  isAway.current = false
})

test('a process whose connection is cut leads again by a new one, unless another process leads', async () => {
  const leader = open('one')
  await until(() => leader.current())
  const { signal } = leader.current() as Term
  sessions[0]?.cut()
  expect(signal.aborted).toBe(true)
  await until(() => leader.current())
  expect([await tokenOf(), sessions.length]).toEqual([2, 2])
})

test('a process leads though its first connection ended while it was opened', async () => {
  let opened = 0
  const leader = createLeader({
    database: {
      ...database,
      openSession: async () => {
        const session = await openSessionOn(database.db)
        opened += 1
        if (opened === 1) sessions.at(-1)?.cut()
        return session
      },
    },
    ...{ now, processId: 'one', log: memoryLog(), leaseMs },
  })
  leaders.push(leader)
  void leader.start()
  await untilAttempt(() => leader.current())
  expect(opened).toBe(2)
})

test('a process that takes a lease over begins when no earlier permit can be valid, whatever the clock shows', {
  tags: ['long'],
}, async () => {
  const unrenewed = new Proxy(database.db, {
    get(real, name) {
      if (name === 'updateTable') throw new Error('nothing is written')
      const value: unknown = Reflect.get(real, name)
      return typeof value === 'function' ? value.bind(real) : value
    },
  })
  const first = open('one', () => {}, { ...database, db: unrenewed })
  await until(() => first.current())
  const sent = Promise.withResolvers<void>()
  let permit: (() => boolean) | undefined
  const sends = first.current()?.sending(async (given) => {
    permit = await given()
    await sent.promise
  })
  await until(() => permit?.())
  // The clock of the database is set forward; the first process uses its own.
  nowMs += leaseMs + 1
  const second = open('two')
  for (let steps = 0; steps < 100 && (await tokenOf()) !== 2; steps += 1) {
    expect([permit?.(), second.current()]).toEqual([true, undefined])
    await vi.advanceTimersByTimeAsync(100)
    await isWithin(20, async () => (await tokenOf()) === 2)
  }
  await vi.advanceTimersByTimeAsync(proofMs - 1)
  expect(second.current()).toBeUndefined()
  await until(async () => {
    await vi.advanceTimersByTimeAsync(1)
    return second.current()
  })
  expect(permit?.()).toBe(false)
  expect(await second.current()?.sending(async (given) => (await given())?.())).toBe(true)
  sent.resolve()
  await sends
})

type Around = <T>(answer: Promise<T>) => Promise<T>

/** The same Kysely object, where each answer of a statement built on it passes through `around`. */
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

test('a permit is renewed while its work waits, and ends when another process has the lease', async () => {
  let waiting = 0
  const counted = watched(database.db, (answer) => {
    waiting += 1
    return answer.finally(() => {
      waiting -= 1
    })
  })
  const first = open('one', () => {}, { ...database, db: counted })
  await until(() => first.current())
  const sends = first.current()?.sending(async (given) => {
    const permit = await given()
    for (let steps = 0; steps < 40; steps += 1) {
      await pass(proofMs / 4)
      // Each proof requested meanwhile has its answer.
      await until(() => waiting === 0)
      await until(() => permit?.())
    }
    nowMs += leaseMs + 1
    await takeAsOther()
    await pass(proofMs)
    expect(permit?.()).toBe(false)
    expect(await given()).toBeUndefined()
  })
  await sends
  expect(first.current()).toBeUndefined()
})

test('a late answer to a renewal does not replace a newer proof', async () => {
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
      if (name !== 'updateTable') return value.bind(db)
      return (table: 'leases') => watched(db.updateTable(table), withheld)
    },
  })
  const leader = open('one', () => {}, { ...database, db: late })
  await until(() => leader.current())
  const answer = Promise.withResolvers<void>()
  gate = answer.promise
  await leader.current()?.sending(async (given) => {
    const permit = await given()
    // The renewal is requested after a third of the lease; the proofs after it have their answers.
    for (let steps = 0; steps < 40; steps += 1) {
      await pass(proofMs / 4)
      await until(() => permit?.())
    }
    answer.resolve()
    for (let turns = 0; turns < 20; turns += 1) await new Promise((done) => setImmediate(done))
    expect(permit?.()).toBe(true)
  })
})
