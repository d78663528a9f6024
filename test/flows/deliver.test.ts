import { expect, test } from 'vitest'
import { destinationIdentity } from '../../src/flows/definition/identity.ts'
import { jobKey } from '../../src/flows/deliver/attempt.ts'
import type { DeliveryResult } from '../../src/flows/types.ts'
import { useService } from './deliver-service.ts'
import {
  busy,
  change,
  down,
  flowOf,
  invalid,
  latch,
  receiver,
  rowOf,
  statesOf,
} from './deliver-support.ts'

const service = useService()
const soon = { timeout: 10_000, interval: 10 }

test('a change reaches every destination with its mapped body and its key', async () => {
  const flow = flowOf('all', [
    { map: '{ "code": id, "label": $uppercase(name) }' },
    { fields: { codigo: 'id' } },
    {},
  ])
  const receivers = [receiver(), receiver(), receiver()]
  const delivered = () => service().saved.filter((one) => one.flow === 'all')
  await service().run(flow, receivers)
  await service().change(flow, [
    { pk: '7', hash: 'h1:x', value: { id: '7', name: 'a' }, change: 5 },
  ])
  await expect.poll(() => statesOf(service().database, 'all'), soon).toEqual({ done: 3 })
  // Reported after the commit that the rows show.
  await expect.poll(() => delivered().length, soon).toBe(3)

  expect(receivers.map(({ calls }) => calls.map(({ body }) => body))).toEqual([
    [{ code: '7', label: 'A' }],
    [{ codigo: '7' }],
    [{ id: '7', name: 'a' }],
  ])
  expect(receivers[0]?.calls[0]).toEqual({
    flow: 'all',
    destination: 'web',
    pk: '7',
    key: ['7'],
    kind: 'upsert',
    item: { id: '7', name: 'a' },
    body: { code: '7', label: 'A' },
    jobKey: jobKey({
      flow: 'all',
      destination: 'web',
      identity: flow.destinations.map(destinationIdentity)[0] ?? '',
      pk: '7',
      change: 5,
      hash: 'h1:x',
      kind: 'upsert',
    }),
    attempt: 1,
    mayStart: expect.any(Function),
  })
  expect(await rowOf(service().database, 'all', '7')).toMatchObject({
    state: 'done',
    delivered_hash: 'h1:x',
    payload: null,
    version: 1,
  })
  expect(delivered()).toContainEqual(
    expect.objectContaining({ flow: 'all', destination: 'web-2', delivered: 1 }),
  )
})

test('changes during an attempt or a pause are merged; the newest arrives last, one attempt at a time', async () => {
  const flow = flowOf('order', [{ retry: { attempts: 5, initialMs: 60_000, maxMs: 60_000 } }])
  const hold = latch()
  const web = receiver(async ({ item }) => {
    if (item.v === 1) await hold.opened
    return item.v === 4 ? busy : { ok: true }
  })
  const version = (v: number) => change({ pk: 'a', hash: `h1:${v}`, value: { id: 'a', v } })
  const seen = () => web.calls.map(({ item }) => item.v)
  await service().run(flow, [web])
  await service().change(flow, [version(1)])
  await expect.poll(seen, soon).toEqual([1])
  await service().change(flow, [version(2)])
  await service().change(flow, [version(3)])
  await service().change(flow, [version(4)])
  // Were it not in order, it would have overtaken by now: another item has.
  await service().change(flow, [{ pk: 'b', value: { id: 'b' } }])
  await expect.poll(seen, soon).toEqual([1, undefined])
  hold.open()
  await expect.poll(seen, soon).toEqual([1, undefined, 4])
  // It waits for its next attempt in a minute; a change ends the pause.
  await expect
    .poll(() => rowOf(service().database, 'order', 'a'), soon)
    .toMatchObject({
      state: 'waiting',
      attempts: 1,
      last_error: 'HTTP 409',
      delivered_hash: 'h1:1',
    })
  await service().change(flow, [version(5)])
  await expect.poll(seen, soon).toEqual([1, undefined, 4, 5])
  await expect
    .poll(() => rowOf(service().database, 'order', 'a'), soon)
    .toMatchObject({ state: 'done', delivered_hash: 'h1:5', version: 5, last_error: null })
  const keys = web.calls.filter(({ pk }) => pk === 'a').map((call) => call.jobKey)
  expect(new Set(keys).size).toBe(3)
  expect(web.calls.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1])
})

test('different items are sent concurrently, up to the number of the definition', async () => {
  const flow = flowOf('parallel', [{ concurrency: 3 }])
  const hold = latch()
  let running = 0
  let most = 0
  const web = receiver(async () => {
    running += 1
    most = Math.max(most, running)
    await hold.opened
    running -= 1
    return { ok: true }
  })
  await service().run(flow, [web])
  await service().change(
    flow,
    [...'abcdefgh'].map((pk) => ({ pk })),
  )
  await expect.poll(() => web.calls.length, soon).toBe(3)
  expect(await service().countActive()).toBeGreaterThanOrEqual(3)
  hold.open()
  await expect.poll(() => statesOf(service().database, 'parallel'), soon).toEqual({ done: 8 })
  expect(most).toBe(3)
})

test('a failure is retried under the same key; after the last attempt it is recorded and reported once', async () => {
  const flow = flowOf('used-up', [{ retry: { attempts: 3 } }])
  const web = receiver(async () => busy)
  const finals = () =>
    service()
      .saved.filter((one) => one.flow === 'used-up')
      .flatMap((one) => one.finals)
  await service().run(flow, [web])
  await service().change(flow, [{ pk: 'x' }])
  await expect.poll(() => finals().length, soon).toBe(1)

  expect(web.calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  expect(new Set(web.calls.map((call) => call.jobKey)).size).toBe(1)
  expect(finals()[0]).toMatchObject({
    flow: 'used-up',
    destination: 'web',
    pk: 'x',
    why: { code: 'HTTP_STATUS', data: { status: 409 } },
    status: 409,
    attempts: 3,
  })
  expect(await rowOf(service().database, 'used-up', 'x')).toMatchObject({
    state: 'failed',
    attempts: 3,
    last_error: 'HTTP 409',
    last_status: 409,
    payload: { id: 'x' },
    delivered_hash: null,
  })
  const errors = await service()
    .database.db.selectFrom('flow_errors')
    .selectAll()
    .where('flow', '=', 'used-up')
    .execute()
  expect(errors).toMatchObject([
    { adapter: 'web', pk: 'x', error: 'HTTP 409', status: 409, attempts: 3 },
  ])
  const [logged, ...more] = service().log.lines.filter(
    ({ fields }) => 'flow' in fields && fields.flow === 'used-up',
  )
  expect(more).toEqual([])
  expect(logged).toMatchObject({
    level: 'warn',
    fields: { destination: 'web', failed: 1, first: [{ pk: 'x', status: 409, attempts: 3 }] },
  })
  const totals = await service()
    .database.db.selectFrom('flow_totals')
    .selectAll()
    .where('flow', '=', 'used-up')
    .executeTakeFirst()
  expect(totals).toMatchObject({ jobs_completed: 0, jobs_failed: 1 })
})

test('a failure that a retry cannot change is final at the first attempt', async () => {
  const flow = flowOf('final', [{ map: '{ "n": $number(name) }' }])
  const web = receiver(async () => invalid)
  await service().run(flow, [web])
  await service().change(flow, [
    { pk: 'refused', value: { id: 'refused', name: '1' } },
    { pk: 'unmapped', value: { id: 'unmapped', name: 'one' } },
  ])
  await expect.poll(() => statesOf(service().database, 'final'), soon).toEqual({ failed: 2 })
  expect(web.calls.map(({ pk }) => pk)).toEqual(['refused'])
  const row = await rowOf(service().database, 'final', 'unmapped')
  expect(row).toMatchObject({ attempts: 1, last_status: null })
  expect(row?.last_error).toMatch(/^map failed at line 1/)
})

test('a mapping that timed out, as on a busy machine, is retried like any failure', {
  tags: ['long'],
}, async () => {
  const endless = '($endless := function($n) { $endless($n + 1) }; $endless(1))'
  const flow = flowOf('slow-map', [{ map: endless, retry: { attempts: 2 } }])
  await service().run(flow, [receiver(async () => ({ ok: true }))])
  await service().change(flow, [{ pk: 'x' }])
  await expect
    .poll(() => rowOf(service().database, 'slow-map', 'x'), soon)
    .toMatchObject({ state: 'failed', attempts: 2, delivered_hash: null })
})

test('a destination that throws, or that does not end in time, is retried', async () => {
  const flow = flowOf('throws', [{ timeoutMs: 50, retry: { attempts: 3 } }])
  const web = receiver(async (job, signal) => {
    if (job.attempt === 1) throw new Error('password=hunter2')
    if (job.attempt === 2) {
      return await new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    }
    return invalid
  })
  await service().run(flow, [web])
  await service().change(flow, [{ pk: 'x' }])
  const reasons = new Set<string>()
  await expect
    .poll(async () => {
      const row = await rowOf(service().database, 'throws', 'x')
      if (row?.last_error) reasons.add(row.last_error)
      return row?.state
    }, soon)
    .toBe('failed')
  expect(web.calls).toHaveLength(3)
  expect([...reasons].join()).not.toContain('hunter2')
  const logged = service().log.lines.find(({ message }) => message.includes('unexpected error'))
  expect(logged?.fields).toMatchObject({ flow: 'throws', destination: 'web', pk: 'x' })
})

test('a Retry-After that is longer than the retry pause counts, and delays other items too', {
  tags: ['long'],
}, async () => {
  const flow = flowOf('wish', [{ concurrency: 1, retry: { attempts: 5 } }])
  const times = new Map<string, number[]>()
  const web = receiver(async ({ pk, attempt }): Promise<DeliveryResult> => {
    times.set(pk, [...(times.get(pk) ?? []), performance.now()])
    return pk === 'a' && attempt === 1 ? { ...down, retryAfterSeconds: 0.4 } : { ok: true }
  })
  await service().run(flow, [web])
  await service().change(flow, [{ pk: 'a' }, { pk: 'b' }])
  await expect.poll(() => statesOf(service().database, 'wish'), soon).toEqual({ done: 2 })
  const [first = 0, second = 0] = times.get('a') ?? []
  expect(second - first).toBeGreaterThan(380)
  expect((times.get('b')?.[0] ?? 0) - first).toBeGreaterThan(380)
  expect(web.calls.filter(({ pk }) => pk === 'b')).toMatchObject([{ attempt: 1 }])
})

test('while a breaker is open jobs wait without attempts; one probe finds the end of the outage', {
  tags: ['long'],
}, async () => {
  const openForMs = 300
  const flow = flowOf('breaker', [
    {
      concurrency: 2,
      retry: { attempts: 9 },
      breaker: { failures: 2, percent: 50, withinMs: 60_000, openForMs },
    },
  ])
  let healthy = false
  const times: number[] = []
  const web = receiver(async () => {
    times.push(performance.now())
    return healthy ? { ok: true } : down
  })
  await service().run(flow, [web])
  await service().change(
    flow,
    [...'abcdef'].map((pk) => ({ pk })),
  )
  await expect.poll(() => times.length, soon).toBe(3)
  healthy = true
  await expect.poll(() => statesOf(service().database, 'breaker'), soon).toEqual({ done: 6 })
  // Two outages opened it; the third call was the only one of its time, and came after the pause.
  expect((times[2] ?? 0) - (times[1] ?? 0)).toBeGreaterThan(openForMs - 20)
  expect((times[3] ?? 0) - (times[2] ?? 0)).toBeGreaterThan(openForMs - 20)
  const most = Math.max(...web.calls.map(({ attempt }) => attempt))
  expect(most).toBeLessThanOrEqual(3)
  expect(web.calls).toHaveLength(9)
})

test('the attempts that test a destination in an outage use up none of an item', {
  tags: ['long'],
}, async () => {
  const flow = flowOf('outage', [
    {
      concurrency: 2,
      retry: { attempts: 3, initialMs: 5, maxMs: 10 },
      breaker: { failures: 2, percent: 50, withinMs: 60_000, openForMs: 20 },
    },
  ])
  let healthy = false
  const web = receiver(async () => (healthy ? { ok: true } : down))
  await service().run(flow, [web])
  await service().change(flow, [{ pk: 'a' }, { pk: 'b' }])
  await expect.poll(() => web.calls.length, soon).toBeGreaterThan(15)
  healthy = true
  await expect.poll(() => statesOf(service().database, 'outage'), soon).toEqual({ done: 2 })
})

test('an item that alone makes the receiver fail uses up its attempts, though it tests the receiver', {
  tags: ['long'],
}, async () => {
  const flow = flowOf('poison', [
    {
      concurrency: 1,
      retry: { attempts: 3, initialMs: 5, maxMs: 10 },
      breaker: { failures: 1, percent: 100, withinMs: 60_000, openForMs: 20 },
    },
  ])
  const web = receiver(async ({ pk }) => (pk === 'poison' ? down : { ok: true }))
  await service().run(flow, [web])
  await service().change(flow, [{ pk: 'poison' }])
  for (let others = 0; others < 200; others += 1) {
    const states = await statesOf(service().database, 'poison')
    if (states.failed === 1) break
    await service().change(flow, [{ pk: `other-${others}` }])
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await expect.poll(async () => (await statesOf(service().database, 'poison')).failed, soon).toBe(1)
})

test('no more attempts begin than the rate limit allows', { tags: ['long'] }, async () => {
  const flow = flowOf('rate', [{ rateLimit: { max: 3, perMs: 300 } }])
  const times: number[] = []
  const web = receiver(async () => {
    times.push(performance.now())
    return { ok: true }
  })
  await service().run(flow, [web])
  await service().change(
    flow,
    [...'abcdefg'].map((pk) => ({ pk })),
  )
  await expect.poll(() => statesOf(service().database, 'rate'), soon).toEqual({ done: 7 })
  const gaps = times.slice(3).map((at, index) => at - (times[index] ?? 0))
  expect(Math.min(...gaps)).toBeGreaterThan(280)
})

test('whatever fails or changes meanwhile, the last version arrives, and none after a newer one', {
  tags: ['long'],
}, async () => {
  const flow = flowOf('storm', [{ concurrency: 6, retry: { attempts: 50, initialMs: 1 } }])
  // A fixed sequence, so that every run is the same storm.
  let seed = 20261121
  const chance = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const received = new Map<string, number[]>()
  const inHand = new Set<string>()
  const overlaps: string[] = []
  const web = receiver(async ({ pk, item }): Promise<DeliveryResult> => {
    if (inHand.has(pk)) overlaps.push(pk)
    inHand.add(pk)
    const fails = chance() < 0.25
    const arrives = !fails || chance() < 0.5
    await new Promise((resolve) => setTimeout(resolve, chance() * 8))
    // Some that arrive are answered with a failure all the same.
    if (arrives) received.set(pk, [...(received.get(pk) ?? []), Number(item.v)])
    inHand.delete(pk)
    return fails ? busy : { ok: true }
  })
  await service().run(flow, [web])
  const last = new Map<string, number>()
  for (let round = 1; round <= 40; round++) {
    const pks = new Set(Array.from({ length: 5 }, () => `k${Math.floor(chance() * 12)}`))
    for (const pk of pks) last.set(pk, round)
    await service().change(
      flow,
      [...pks].map((pk) => ({ pk, hash: `h1:${round}`, value: { id: pk, v: round } })),
    )
  }
  await expect.poll(() => statesOf(service().database, 'storm'), soon).toEqual({ done: last.size })
  expect(overlaps).toEqual([])
  for (const [pk, versions] of received) {
    expect(versions).toEqual([...versions].sort((a, b) => a - b))
    expect(versions.at(-1)).toBe(last.get(pk))
  }
  expect(received.size).toBe(last.size)
})

test('failed deliveries can be sent again: one, all of one error, or all', async () => {
  const flow = flowOf('letters')
  let healthy = false
  const web = receiver(async ({ pk }): Promise<DeliveryResult> => {
    if (healthy) return { ok: true }
    const data = { status: 422, said: pk < 'c' ? 'city' : 'zip' }
    return { ...invalid, why: { code: 'HTTP_STATUS', data } }
  })
  await service().run(flow, [web])
  await service().change(
    flow,
    [...'abcde'].map((pk) => ({ pk })),
  )
  await expect.poll(() => statesOf(service().database, 'letters'), soon).toEqual({ failed: 5 })
  healthy = true
  expect(await service().retry({ flow: 'letters', pk: 'unknown' })).toBe(0)
  expect(await service().retry({ flow: 'letters', destination: 'other' })).toBe(0)
  expect(await service().retry({ flow: 'letters', destination: 'web', pk: 'a' })).toBe(1)
  await expect
    .poll(() => rowOf(service().database, 'letters', 'a'), soon)
    .toMatchObject({ state: 'done', attempts: 0, last_error: null })
  expect(await service().retry({ flow: 'letters', error: 'HTTP 422 zip' })).toBe(3)
  await expect
    .poll(() => statesOf(service().database, 'letters'), soon)
    .toEqual({ done: 4, failed: 1 })
  expect(await service().retry({ flow: 'letters' })).toBe(1)
  await expect.poll(() => statesOf(service().database, 'letters'), soon).toEqual({ done: 5 })
  expect(web.calls).toHaveLength(10)
  expect(web.calls.slice(5).every(({ attempt }) => attempt === 1)).toBe(true)
})

test('changes that were rolled back leave nothing', async () => {
  const flow = flowOf('rolled-back')
  const web = receiver()
  await service().run(flow, [web])
  await expect(
    service().database.transaction(async (trx) => {
      await service().enqueue(trx, { flow }, [change({ pk: 'ghost' })])
      throw new Error('the poll failed')
    }),
  ).rejects.toThrow('the poll failed')
  await service().change(flow, [{ pk: 'real' }])
  await expect.poll(() => statesOf(service().database, 'rolled-back'), soon).toEqual({ done: 1 })
  expect(web.calls.map(({ pk }) => pk)).toEqual(['real'])
})

test('a delete after a waiting upsert: only the delete is sent, with the body that was delivered', async () => {
  const rules = [
    { concurrency: 1, map: '{ "code": id, "total": $number(price) * 2, "bad": $round(name) }' },
    { concurrency: 1, fields: { code: 'id', label: 'name' } },
    { concurrency: 1, fields: { label: 'name' } },
  ]
  const { deletes } = flowOf('deleted')
  const flow = flowOf('deleted', rules, { deletes: { ...deletes, mode: 'delete' } })
  const hold = latch()
  const slow = () =>
    receiver(async ({ pk }) => {
      if (pk === 'first') await hold.opened
      return { ok: true }
    })
  const receivers = [slow(), slow(), slow()]
  await service().run(flow, receivers)
  await service().change(flow, [{ pk: 'gone', value: { id: 'gone', name: 2, price: '1' } }])
  await expect.poll(() => statesOf(service().database, 'deleted'), soon).toEqual({ done: 3 })
  await service().change(flow, [{ pk: 'first', value: { id: 'first', name: 2, price: '1' } }])
  for (const one of receivers) await expect.poll(() => one.calls.length, soon).toBe(2)
  await service().change(flow, [
    { pk: 'gone', hash: 'h1:b', value: { id: 'gone', name: 3, price: '1' } },
  ])
  await service().change(flow, [
    { pk: 'gone', kind: 'delete', hash: 'deleted', value: { id: 'gone' } },
  ])
  hold.open()
  await expect.poll(() => statesOf(service().database, 'deleted'), soon).toEqual({ done: 6 })
  const sent = receivers.map(({ calls }) => calls.map(({ pk, kind, body }) => ({ pk, kind, body })))
  expect(sent.map((calls) => calls[2])).toEqual([
    { pk: 'gone', kind: 'delete', body: { code: 'gone', total: 2, bad: 2 } },
    { pk: 'gone', kind: 'delete', body: { code: 'gone', label: 2 } },
    { pk: 'gone', kind: 'delete', body: { label: 2 } },
  ])
  expect(sent.every((calls) => calls.length === 3)).toBe(true)
})

test('keys of any form arrive unchanged', async () => {
  const flow = flowOf('hostile')
  const web = receiver()
  await service().run(flow, [web])
  const pks = [
    'a/b/../c',
    'o\'neill "x" \\ ; drop table deliveries; --',
    'ñandú·東京·🧉',
    ' leading and trailing ',
    '%2F%00?#&',
    '{}',
    '$1 :pk {pk} [*]',
    'x'.repeat(1_000),
    Array.from({ length: 1_000 }, (_, i) => 'áéíóúñüßçø'[(i * 7 + (i >> 3)) % 10]).join(''),
  ]
  await service().change(
    flow,
    pks.map((pk) => ({ pk })),
  )
  await expect
    .poll(() => statesOf(service().database, 'hostile'), soon)
    .toEqual({ done: pks.length })
  expect(web.calls.map(({ pk }) => pk).sort()).toEqual([...pks].sort())
  expect(new Set(web.calls.map((call) => call.jobKey)).size).toBe(pks.length)
})

test('a thousand items reach a fast destination, each once', { tags: ['long'] }, async () => {
  const flow = flowOf('thousand')
  const web = receiver()
  await service().run(flow, [web])
  const pks = Array.from({ length: 1_000 }, (_, index) => String(index))
  await service().change(
    flow,
    pks.map((pk) => ({ pk })),
  )
  await expect.poll(() => statesOf(service().database, 'thousand'), soon).toEqual({ done: 1_000 })
  expect(web.calls).toHaveLength(1_000)
  expect(new Set(web.calls.map(({ pk }) => pk)).size).toBe(1_000)
})
