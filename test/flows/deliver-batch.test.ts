import { expect, test } from 'vitest'
import type { DeliveryJob, DeliveryResult } from '../../src/flows/types.ts'
import { useService } from './deliver-service.ts'
import {
  change,
  down,
  flowOf,
  invalid,
  latch,
  type Receiver,
  receiver,
  rowOf,
  statesOf,
} from './deliver-support.ts'

const service = useService()
const soon = { timeout: 10_000, interval: 10 }

type Together = (jobs: readonly DeliveryJob[]) => Promise<readonly DeliveryResult[] | 'apart'>

/** A destination that takes several items by one request; `batches` lists the requests. */
function batchReceiver(most: number, together: Together) {
  const batches: string[][] = []
  const jobs: DeliveryJob[] = []
  const take: Together = async (given) => {
    for (const one of given) if (!one.mayStart()) throw new Error('it may not start')
    batches.push(given.map(({ pk }) => pk))
    jobs.push(...given)
    return await together(given)
  }
  const own: Receiver = {
    ...receiver(),
    deliver: async (job) => {
      const answers = await take([job])
      return (answers === 'apart' ? undefined : answers[0]) ?? invalid
    },
    batches: { most: () => most, deliver: take },
  }
  return { own, batches, jobs }
}

const ok: DeliveryResult = { ok: true, status: 200 }
const items = (count: number) => Array.from({ length: count }, (_, index) => ({ pk: `i${index}` }))

test('a request carries as many items as allowed, each with its own key and outcome', async () => {
  const flow = flowOf('together', [{ concurrency: 1, retry: { attempts: 2 } }])
  const { own, batches, jobs } = batchReceiver(4, async (given) =>
    given.map(({ pk }) => (pk === 'i1' ? invalid : pk === 'i2' ? { ...down, outage: false } : ok)),
  )
  await service().run(flow, [own])
  await service().change(flow, items(10))
  await expect
    .poll(() => statesOf(service().database, 'together'), soon)
    .toEqual({ done: 8, failed: 2 })
  expect(Math.max(...batches.map(({ length }) => length))).toBe(4)
  expect(batches.length).toBeLessThanOrEqual(4)
  expect(new Set(jobs.map(({ jobKey }) => jobKey)).size).toBe(10)
  const again = jobs.filter(({ pk }) => pk === 'i2')
  expect(again.map(({ attempt }) => attempt)).toEqual([1, 2])
  expect(new Set(again.map(({ jobKey }) => jobKey)).size).toBe(1)
  expect(await rowOf(service().database, 'together', 'i1')).toMatchObject({ attempts: 1 })
})

test('a refused batch is split until the items that cause the refusal are alone', async () => {
  const flow = flowOf('apart', [{ concurrency: 2 }])
  const bad = new Set(['i3', 'i17'])
  const { own, batches } = batchReceiver(16, async (given) => {
    if (given.length === 1) return given.map(({ pk }) => (bad.has(pk) ? invalid : ok))
    return given.some(({ pk }) => bad.has(pk)) ? 'apart' : given.map(() => ok)
  })
  await service().run(flow, [own])
  await service().change(flow, items(32))
  await expect
    .poll(() => statesOf(service().database, 'apart'), soon)
    .toEqual({ done: 30, failed: 2 })
  for (const pk of bad) {
    expect(await rowOf(service().database, 'apart', pk)).toMatchObject({
      state: 'failed',
      attempts: 1,
    })
  }
  expect(batches.length).toBeLessThan(32)
})

test('an item is in only one batch at a time, and its newest version arrives last', async () => {
  const flow = flowOf('batch-order', [{ concurrency: 4 }])
  const hold = latch()
  let isFirst = true
  const { own, jobs } = batchReceiver(10, async (given) => {
    if (isFirst) {
      isFirst = false
      await hold.opened
    }
    return given.map(() => ok)
  })
  const version = (v: number) =>
    items(5).map(({ pk }) => change({ pk, hash: `h1:${v}`, value: { id: pk, v } }))
  await service().run(flow, [own])
  await service().change(flow, version(1))
  await expect.poll(() => jobs.length, soon).toBeGreaterThan(0)
  await service().change(flow, version(2))
  await service().change(flow, version(3))
  hold.open()
  await expect.poll(() => statesOf(service().database, 'batch-order'), soon).toEqual({ done: 5 })
  for (const { pk } of items(5)) {
    const seen = jobs.filter((job) => job.pk === pk).map(({ item }) => Number(item.v))
    expect(seen.at(-1)).toBe(3)
    expect(seen).toEqual([...seen].sort())
  }
})

test('changes and deletes do not share a request', async () => {
  const flow = flowOf('kinds', [{ concurrency: 1 }])
  const kinds: string[][] = []
  const { own } = batchReceiver(10, async (given) => {
    kinds.push([...new Set(given.map(({ kind }) => kind))])
    return given.map(() => ok)
  })
  await service().run(flow, [own])
  await service().change(
    flow,
    items(9).map((one, index) => ({ ...one, kind: index % 2 === 0 ? 'upsert' : 'delete' })),
  )
  await expect.poll(() => statesOf(service().database, 'kinds'), soon).toEqual({ done: 9 })
  expect(kinds.every(({ length }) => length === 1)).toBe(true)
})
