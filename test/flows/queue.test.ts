import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { DatabaseUnavailableError } from '../../src/db/database-failures.ts'
import {
  DeliveryWorker,
  type Work,
  type WorkerDeps,
} from '../../src/flows/deliver/delivery-worker.ts'
import {
  createOutcomeWriter,
  type ItemOutcome,
  type WriterLimits,
} from '../../src/flows/deliver/save-outcomes.ts'
import { LeaseLostError } from '../../src/jobs/with-lease.ts'
import { latch, memoryLog, openTerm } from './deliver-support.ts'

const soon = { timeout: 10_000, interval: 5 }
const settledOf = (pk: string): ItemOutcome<string> => ({ pk, outcome: `of ${pk}` })

function settlementsWith(
  save: (group: readonly ItemOutcome<string>[]) => Promise<void>,
  limits?: WriterLimits,
  moreFollow?: () => boolean,
) {
  const over: string[] = []
  const refused: string[] = []
  const lost: string[][] = []
  const sleeps: number[] = []
  const state = { mayWait: true }
  const settlements = createOutcomeWriter<string>({
    save,
    lost: async (group) => {
      lost.push(group.map(({ pk }) => pk))
    },
    onOver: (pks) => over.push(...pks),
    onRefused: async (pk) => {
      refused.push(pk)
    },
    mayWait: () => state.mayWait,
    sleep: async (ms) => {
      sleeps.push(ms)
    },
    log: memoryLog(),
    limits,
    ...(moreFollow && { moreFollow }),
  })
  return { settlements, over, refused, lost, sleeps, state }
}

test('outcomes that arrive during a transaction are written together in the next', async () => {
  const groups: string[][] = []
  const hold = latch()
  const { settlements, over } = settlementsWith(async (group) => {
    groups.push(group.map(({ pk }) => pk))
    await hold.opened
  })
  for (const pk of 'abc') settlements.add(settledOf(pk))
  expect(settlements.size()).toBe(3)
  await expect.poll(() => groups, soon).toHaveLength(1)
  for (const pk of 'de') settlements.add(settledOf(pk))
  hold.open()
  await settlements.idle()
  expect(groups).toEqual([
    ['a', 'b', 'c'],
    ['d', 'e'],
  ])
  expect(over).toEqual([...'abcde'])
  expect(settlements.size()).toBe(0)
})

test('a second transaction runs concurrently for a full group, and no outcome is in both or left', async () => {
  const groups: string[][] = []
  const hold = latch()
  const { settlements, over } = settlementsWith(
    async (group) => {
      groups.push(group.map(({ pk }) => pk))
      await hold.opened
    },
    { groupSize: 2, lanes: 2 },
  )
  settlements.add(settledOf('a'))
  await expect.poll(() => groups, soon).toEqual([['a']])
  for (const pk of 'bc') settlements.add(settledOf(pk))
  expect(groups).toEqual([['a']])
  settlements.add(settledOf('d'))
  await expect.poll(() => groups, soon).toEqual([['a'], ['b', 'c']])
  for (const pk of 'efgh') settlements.add(settledOf(pk))
  hold.open()
  await settlements.idle()
  expect(over.sort()).toEqual([...'abcdefgh'])
  expect(settlements.size()).toBe(0)
  settlements.add(settledOf('z'))
  await settlements.idle()
  expect(over.at(-1)).toBe('z')
})

test('the first outcome waits some milliseconds for others that are on their way, and else not at all', async () => {
  const groups: string[][] = []
  let running = 2
  const { settlements, sleeps } = settlementsWith(
    async (group) => void groups.push(group.map(({ pk }) => pk)),
    { groupSize: 100, lanes: 1, gatherMs: 15 },
    () => running > 0,
  )
  settlements.add(settledOf('a'))
  // The sleep of this test ends a few steps later.
  await undefined
  settlements.add(settledOf('b'))
  await settlements.idle()
  expect(sleeps).toEqual([15])
  expect(groups).toEqual([['a', 'b']])
  running = 0
  settlements.add(settledOf('c'))
  await settlements.idle()
  expect(sleeps).toEqual([15])
  expect(groups).toEqual([['a', 'b'], ['c']])
})

test('an outcome that cannot be written does not affect the others', async () => {
  const written: string[] = []
  const hold = latch()
  const { settlements, over, refused, lost } = settlementsWith(async (group) => {
    await hold.opened
    const pks = group.map(({ pk }) => pk)
    if (pks.includes('bad')) throw new Error('invalid byte sequence')
    written.push(...pks)
  })
  for (const pk of ['first', 'a', 'bad', 'b']) settlements.add(settledOf(pk))
  hold.open()
  await settlements.idle()
  expect(written).toEqual(['first', 'a', 'b'])
  expect(refused).toEqual(['bad'])
  expect(lost).toEqual([])
  expect(over.sort()).toEqual(['a', 'b', 'bad', 'first'])
})

test('outcomes whose lease is lost are handed over together, and none is written by itself', async () => {
  const tried: string[][] = []
  const { settlements, over, refused, lost } = settlementsWith(async (group) => {
    tried.push(group.map(({ pk }) => pk))
    throw new LeaseLostError()
  })
  for (const pk of 'abc') settlements.add(settledOf(pk))
  await settlements.idle()
  expect([tried, lost]).toEqual([[['a', 'b', 'c']], [['a', 'b', 'c']]])
  expect(over).toEqual(['a', 'b', 'c'])
  expect(refused).toEqual([])
})

test('outcomes wait for an unreachable database, for a limited time', async () => {
  let failures = 3
  const { settlements, refused, sleeps, state } = settlementsWith(async () => {
    failures -= 1
    if (failures >= 0) throw new DatabaseUnavailableError('restarting')
  })
  settlements.add(settledOf('a'))
  await settlements.idle()
  expect(sleeps).toHaveLength(3)
  expect(refused).toEqual([])
  failures = 1
  state.mayWait = false
  settlements.add(settledOf('b'))
  await settlements.idle()
  expect(refused).toEqual(['b'])
})

type Parts = {
  deps?: Partial<WorkerDeps>
  work?: Partial<Work<string, string>>
}

/** A worker over open deliveries, a list in memory. */
function workerOver(jobs: string[], { deps, work }: Parts = {}) {
  const settled: string[] = []
  const heldBack: { pks: readonly string[]; delayMs: number }[] = []
  const fetches: number[] = []
  const end = new AbortController()
  const term = { ...openTerm, signal: end.signal }
  const leader = { current: () => (end.signal.aborted ? undefined : term) }
  const log = memoryLog()
  const worker = new DeliveryWorker<string, string>(
    {
      leader,
      pollMs: 10,
      sleep: (ms) => wait(ms),
      log,
      ...deps,
    },
    {
      concurrency: 2,
      admit: () => ({ starts: Number.POSITIVE_INFINITY, waitMs: 0 }),
      walk: () => ({
        next: async (limit) => {
          fetches.push(limit)
          return jobs.splice(0, limit).map((pk) => ({ pk, row: `row ${pk}` }))
        },
      }),
      load: async (pks) => pks.map((pk) => ({ pk, row: `row ${pk}` })),
      delayDeliveries: async (pks, delayMs) => {
        heldBack.push({ pks, delayMs })
      },
      attempt: alone(async (pk) => pk),
      save: async (group) => {
        settled.push(...group.map(({ outcome }) => outcome))
        return []
      },
      lost: async () => {},
      ...work,
    },
  )
  return { worker, settled, heldBack, fetches, end, log }
}

type Attempt = (pk: string, signal: AbortSignal) => Promise<string>
const alone =
  (attempt: Attempt): Work<string, string>['attempt'] =>
  (owed, signal) =>
    Promise.all(owed.map(({ pk }) => attempt(pk, signal)))

test('the next lane begins when the outcomes of the one before are written, and not before', async () => {
  const jobs = ['a upsert', 'b upsert', 'c delete', 'd upsert']
  const answers = new Map(jobs.map((pk) => [pk, latch()]))
  const writing = latch()
  const begun: string[] = []
  const { worker, settled } = workerOver([...jobs], {
    work: {
      concurrency: 4,
      laneOf: (row) => row.split(' ').at(-1) ?? '',
      attempt: alone(async (pk) => {
        begun.push(pk)
        await answers.get(pk)?.opened
        return pk
      }),
      save: async (group) => {
        await writing.opened
        settled.push(...group.map(({ outcome }) => outcome))
        return []
      },
    },
  })
  const bothUpserts = ['a upsert', 'b upsert']
  await expect.poll(() => begun, soon).toEqual(bothUpserts)
  for (const pk of bothUpserts) answers.get(pk)?.open()
  await wait(20)
  // Both are answered, and their outcomes are not written yet.
  expect(begun).toEqual(bothUpserts)
  writing.open()
  await expect.poll(() => begun, soon).toEqual([...bothUpserts, 'c delete'])
  answers.get('c delete')?.open()
  await expect.poll(() => begun, soon).toEqual([...bothUpserts, 'c delete', 'd upsert'])
  answers.get('d upsert')?.open()
  await expect.poll(() => settled, soon).toHaveLength(jobs.length)
  await worker.stop(1_000)
})

test('a free slot is used at once, however slow the other attempts are', async () => {
  const hold = latch()
  const started: string[] = []
  const { worker, settled } = workerOver(['slow', ...'abcdef'], {
    work: {
      attempt: alone(async (pk) => {
        started.push(pk)
        if (pk === 'slow') await hold.opened
        return pk
      }),
    },
  })
  await expect.poll(() => [...settled].sort(), soon).toEqual([...'abcdef'])
  expect(started[0]).toBe('slow')
  hold.open()
  await worker.stop(1_000)
  expect(settled).toHaveLength(7)
})

test('a fast receiver is read ahead for in large parts', async () => {
  const count = 3_000
  const jobs = Array.from({ length: count }, (_, index) => `item ${index}`)
  const { worker, settled, fetches } = workerOver(jobs, { work: { concurrency: 4 } })
  await expect.poll(() => settled.length, soon).toBe(count)
  expect(fetches.length).toBeLessThan(count / 40)
  await worker.stop(1_000)
})

test('what a kill sends again is bounded: nothing more is sent while 300 outcomes are not written', async () => {
  const jobs = Array.from({ length: 2_000 }, (_, index) => `item ${index}`)
  const writing = latch()
  let sent = 0
  const { worker, settled } = workerOver(jobs, {
    work: {
      concurrency: 4,
      attempt: alone(async (pk) => {
        sent += 1
        return pk
      }),
      save: async (group) => {
        await writing.opened
        settled.push(...group.map(({ outcome }) => outcome))
        return []
      },
    },
  })
  await expect.poll(() => sent, soon).toBeGreaterThanOrEqual(300)
  await wait(50)
  expect(sent).toBeLessThanOrEqual(304)
  writing.open()
  await expect.poll(() => settled.length, soon).toBe(2_000)
  await worker.stop(1_000)
})

test('nothing is claimed while nothing may start, and no more than may start', async () => {
  const allowed = { starts: 0, waitMs: 5 }
  const { worker, settled, fetches } = workerOver([...'abc'], { work: { admit: () => allowed } })
  await wait(40)
  expect(fetches).toEqual([])
  allowed.starts = 1
  await expect.poll(() => settled.length, soon).toBe(3)
  expect(Math.max(...fetches)).toBe(1)
  await worker.stop(1_000)
})

test('a database failure ends with its cause; a program error delays its item by a minute', async () => {
  const jobs = ['bug', 'a']
  let reads = 0
  const { worker, settled, heldBack, log } = workerOver(jobs, {
    deps: { sleep: async () => {} },
    work: {
      concurrency: 1,
      walk: () => ({
        next: async (limit) => {
          reads += 1
          if (reads === 1) throw new DatabaseUnavailableError('gone')
          return jobs.splice(0, limit).map((pk) => ({ pk, row: pk }))
        },
      }),
      attempt: alone(async (pk) => {
        if (pk === 'bug') throw new TypeError('undefined is not a function')
        return pk
      }),
    },
  })
  await expect.poll(() => settled, soon).toEqual(['a'])
  expect(heldBack).toEqual([{ pks: ['bug'], delayMs: 60_000 }])
  expect(log.lines.map(({ level }) => level)).toEqual(['warn', 'error'])
  await worker.stop(1_000)
})

test('T50: when the term ends its attempts are broken off, and nothing more is claimed', async () => {
  const reasons: unknown[] = []
  const started: string[] = []
  const jobs = [...'abcd']
  const { worker, end, settled } = workerOver(jobs, {
    work: {
      concurrency: 2,
      attempt: alone(async (pk, signal) => {
        started.push(pk)
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reasons.push(signal.reason)
        return `broken ${pk}`
      }),
    },
  })
  await expect.poll(() => started, soon).toEqual(['a', 'b'])
  end.abort('the lease was lost')
  await expect.poll(() => settled, soon).toEqual(['broken a', 'broken b'])
  expect(reasons).toEqual(['the lease was lost', 'the lease was lost'])
  await worker.stop(100)
  expect(jobs).toEqual(['c', 'd'])
})

test('an item that is finished while a read still shows it as waiting is not sent again by that read', async () => {
  const hold = latch()
  const sent: string[] = []
  const saved = latch()
  let reads = 0
  const { worker } = workerOver([], {
    work: {
      walk: () => ({
        next: async () => {
          reads += 1
          if (reads === 2) {
            hold.open()
            await saved.opened
            await expect.poll(() => worker.inFlight(), soon).toBe(0)
          }
          return reads <= 2 ? [{ pk: 'a', row: 'row a' }] : []
        },
      }),
      attempt: alone(async (pk) => {
        sent.push(pk)
        await hold.opened
        return pk
      }),
      save: async () => {
        saved.open()
        return []
      },
    },
  })
  await expect.poll(() => reads, soon).toBeGreaterThan(2)
  await worker.stop(1_000)
  expect(sent).toEqual(['a'])
})

test('an item that changes while it is sent is sent again right after, although the walk has passed it', async () => {
  const owed = new Map([
    ['a', 1],
    ['b', 1],
  ])
  const sent: string[] = []
  const hold = latch()
  const { worker } = workerOver([], {
    deps: { pollMs: 3600_000 },
    work: {
      // As in a database: a delivery in progress is open until its outcome is written.
      walk: () => {
        const left = [...owed.keys()]
        return {
          next: async (limit) =>
            left.splice(0, limit).map((pk) => ({ pk, row: `${owed.get(pk)}` })),
        }
      },
      load: async (pks) =>
        pks.filter((pk) => owed.has(pk)).map((pk) => ({ pk, row: `${owed.get(pk)}` })),
      attempt: async (items) => {
        sent.push(...items.map(({ pk, row }) => `${pk} ${row}`))
        await hold.opened
        return items.map(({ row }) => row)
      },
      save: async (group) => {
        const again: string[] = []
        for (const { pk, outcome } of group) {
          if (outcome === `${owed.get(pk)}`) owed.delete(pk)
          else again.push(pk)
        }
        return again
      },
    },
  })
  await expect.poll(() => sent, soon).toEqual(['a 1', 'b 1'])
  owed.set('a', 2)
  worker.wake()
  hold.open()
  await expect.poll(() => sent, soon).toEqual(['a 1', 'b 1', 'a 2'])
  await expect.poll(() => [owed.size, worker.inFlight()], soon).toEqual([0, 0])
  await worker.stop(1_000)
})

test('an attempt that a stop abandoned has no lease any more, however late its answer comes', {
  tags: ['long'],
}, async () => {
  const hold = latch()
  const rights: boolean[] = []
  const { worker } = workerOver(['slow'], {
    work: {
      attempt: async () => {
        await hold.opened
        return ['late']
      },
      save: async (_, fence) => {
        rights.push(await fence.holds(undefined as never))
        return []
      },
    },
  })
  await expect.poll(() => worker.inFlight(), soon).toBe(1)
  await worker.stop(0)
  expect(worker.inFlight()).toBe(0)
  hold.open()
  await expect.poll(() => rights, soon).toEqual([false])
})
