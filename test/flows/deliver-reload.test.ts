import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { cleanDeliveries } from '../../src/flows/engine/flow-housekeeping.ts'
import { upsertHashes } from '../../src/repositories/flows/flow-items.ts'
import { useService } from './deliver-service.ts'
import {
  busy,
  createService,
  down,
  flowOf,
  invalid,
  latch,
  leading,
  receiver,
  rowOf,
  statesOf,
} from './deliver-support.ts'

const service = useService()
const soon = { timeout: 10_000, interval: 10 }
const slowly = { retry: { attempts: 9, initialMs: 60_000, maxMs: 60_000 } }

test('a new definition is used when the running attempts have ended, and nothing is lost', async () => {
  const before = flowOf('reload', [{ concurrency: 1, map: '{ "old": id }' }, {}])
  const after = flowOf('reload', [{ concurrency: 1, map: '{ "new": id }' }])
  const hold = latch()
  const old = receiver(async () => {
    await hold.opened
    return { ok: true }
  })
  const removed = receiver(async () => busy)
  const young = receiver()
  await service().run(before, [old, removed])
  await service().change(
    before,
    [...'abc'].map((pk) => ({ pk })),
  )
  await expect.poll(() => old.calls.length, soon).toBe(1)
  const reloaded = service().run(after, [young])
  await service().change(before, [{ pk: 'd' }])
  expect(young.calls).toEqual([])
  expect(old.closed).toBe(false)
  hold.open()
  await reloaded
  expect([old.closed, removed.closed, young.closed]).toEqual([true, true, false])
  await expect.poll(() => young.calls.length, soon).toBe(3)
  expect(old.calls.map(({ body }) => body)).toEqual([{ old: 'a' }])
  expect(young.calls.map(({ body }) => body)).toEqual([{ new: 'b' }, { new: 'c' }, { new: 'd' }])
  await expect
    .poll(() => rowOf(service().database, 'reload', 'd'), soon)
    .toMatchObject({ state: 'done' })

  // Deliveries to the other destination wait.
  expect(await rowOf(service().database, 'reload', 'd', 'web-1')).toMatchObject({
    state: 'waiting',
  })
  const returned = receiver()
  await service().run(before, [young, returned])
  await service().retry({ flow: 'reload' })
  await expect.poll(() => statesOf(service().database, 'reload'), soon).toEqual({ done: 8 })
})

test('a definition that cannot be opened changes nothing', async () => {
  const good = flowOf('bad-reload')
  const web = receiver()
  await service().run(good, [web])
  const unopened = receiver()
  const two = flowOf('bad-reload', [{}, { name: 'unknown' }])
  await expect(service().run(two, [unopened])).rejects.toThrow('no receiver for unknown')
  await expect(
    service().run(flowOf('bad-reload', [{ map: '{ "a" ' }]), [unopened]),
  ).rejects.toThrow()
  expect(unopened.closed).toBe(true)
  expect(web.closed).toBe(false)
  await service().change(good, [{ pk: 'a' }])
  await expect.poll(() => web.calls.length, soon).toBe(1)
})

test('a reload keeps the open breaker and the rate limit; changed rules start again', async () => {
  const rules = {
    concurrency: 1,
    breaker: { failures: 1, percent: 50, withinMs: 60_000, openForMs: 60_000 },
  }
  const web = receiver(async () => down)
  await service().run(flowOf('gate', [rules]), [web])
  await service().change(flowOf('gate', [rules]), [{ pk: 'a' }, { pk: 'b' }])
  await expect.poll(() => web.calls.length, soon).toBe(1)
  const young = receiver()
  await service().run(flowOf('gate', [{ ...rules, map: '{ "x": id }' }]), [young])
  await service().change(flowOf('gate', [rules]), [{ pk: 'c' }])
  // Another flow is served meanwhile.
  const other = receiver()
  await service().run(flowOf('gate-other'), [other])
  await service().change(flowOf('gate-other'), [{ pk: 'a' }])
  await expect.poll(() => other.calls.length, soon).toBe(1)
  expect(young.calls).toEqual([])
  await service().run(flowOf('gate', [{ ...rules, breaker: false }]), [young])
  await expect.poll(() => young.calls.map(({ pk }) => pk).sort(), soon).toEqual(['a', 'b', 'c'])
})

test('the deliveries of a closed flow wait until it is opened again', async () => {
  const flow = flowOf('closed')
  const web = receiver()
  await service().run(flow, [web])
  await service().close('closed')
  expect(web.closed).toBe(true)
  await service().change(flow, [{ pk: 'a' }, { pk: 'b' }])
  expect(await statesOf(service().database, 'closed')).toEqual({ waiting: 2 })
  await service().run(flow, [web])
  await expect.poll(() => statesOf(service().database, 'closed'), soon).toEqual({ done: 2 })
})

test('a stop aborts the running attempts without counting them; the next process begins at once', {
  tags: ['long'],
}, async () => {
  const flow = flowOf('stopped', [{ concurrency: 2 }])
  const first = createService(service().database, { leader: leading })
  await first.start()
  const deaf = latch()
  const old = receiver(async ({ pk }, signal) => {
    if (pk === 'polite') {
      return await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
    await deaf.opened
    return { ok: true }
  })
  await first.run(flow, [old])
  await first.change(flow, [{ pk: 'polite' }, { pk: 'deaf' }, { pk: 'waiting' }])
  await expect.poll(() => old.calls.length, soon).toBe(2)
  // A reload that waits for running attempts does not delay the stop, nor begin after it.
  const never = receiver()
  const reloading = first.run(flowOf('stopped', [{ concurrency: 1 }]), [never])
  await setImmediate()
  expect(old.closed).toBe(false)
  const startedAt = performance.now()
  await first.stop({ timeoutMs: 50 })
  await reloading
  expect(performance.now() - startedAt).toBeLessThan(10_000)
  expect([old.closed, never.closed, never.calls]).toEqual([true, true, []])
  expect(await service().countActive()).toBe(0)
  await first.stop()
  await expect(first.run(flow, [old])).rejects.toThrow('deliveries are stopped')

  const young = receiver()
  await service().run(flow, [young])
  await expect.poll(() => statesOf(service().database, 'stopped'), soon).toEqual({ done: 3 })
  expect(young.calls.map(({ pk, attempt }) => `${pk} ${attempt}`).sort()).toEqual([
    'deaf 1',
    'polite 1',
    'waiting 1',
  ])
  for (const { pk, jobKey } of old.calls) {
    expect(young.calls.find((call) => call.pk === pk)?.jobKey).toBe(jobKey)
  }
  // Its late answer finds that the claim is another's, and changes nothing.
  deaf.open()
  const row = await rowOf(service().database, 'stopped', 'deaf')
  expect(row).toMatchObject({ state: 'done', version: 1 })
})

test('housekeeping removes old rows, but not what a destination has of a known item', async () => {
  let shiftMs = 0
  const now = () => new Date(Date.now() + shiftMs)
  const own = createService(service().database, { leader: leading, now })
  await own.start()
  const flow = flowOf('clean', [slowly], {
    queue: {
      keepCompletedMs: 3_600_000,
      keepFailedMs: 7_200_000,
      keepHistoryMs: 7_200_000,
    },
  })
  const web = receiver(async ({ pk }) => {
    if (pk === 'waits') return busy
    return pk === 'failed' ? invalid : { ok: true }
  })
  await own.run(flow, [web])
  const { database } = own
  await database.transaction((trx) =>
    upsertHashes(trx, 'clean', [{ pk: 'known', hash: 'h1:a' }], { read: 1, at: new Date() }),
  )
  await own.change(flow, [{ pk: 'known' }, { pk: 'gone' }, { pk: 'failed' }, { pk: 'waits' }])
  await expect
    .poll(() => statesOf(database, 'clean'), soon)
    .toEqual({ done: 2, failed: 1, waiting: 1 })
  expect(await cleanDeliveries({ database, now }, flow)).toMatchObject({ deliveries: 0, errors: 0 })
  shiftMs = 3_660_000
  expect(await cleanDeliveries({ database, now }, flow)).toMatchObject({ deliveries: 1, errors: 0 })
  expect(await rowOf(database, 'clean', 'gone')).toBeUndefined()
  expect(await rowOf(database, 'clean', 'known')).toMatchObject({
    delivered_hash: 'h1:a',
    payload: null,
  })
  shiftMs = 7_260_000
  expect(await cleanDeliveries({ database, now }, flow)).toMatchObject({ deliveries: 1, errors: 1 })
  expect(await statesOf(database, 'clean')).toEqual({ done: 1, waiting: 1 })

  // A removed delivery is queued again with the next change.
  await own.change(flow, [{ pk: 'gone', hash: 'h1:b' }])
  await expect
    .poll(() => rowOf(database, 'clean', 'gone'), soon)
    .toMatchObject({ state: 'done', delivered_hash: 'h1:b', version: 1 })
  expect(own.saved.flatMap((one) => one.finals)).toHaveLength(1)
  await own.stop()
})
