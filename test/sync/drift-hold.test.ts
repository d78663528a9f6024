import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { approve as approveRow } from '../../src/repositories/flows/approvals.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { createTestPoll } from './poll-support.ts'

/** A source that does not look as it did holds its flow: nothing is sent until somebody lets it, and then nothing is lost. */
let service: TestService
let target: TestTarget
let flows: TestFlows
let serial = 0
/** Of the flow; each test has its own. */
let shop = ''

type Row = Record<string, unknown>
const rows = (count: number, make: (n: number) => object = (n) => ({ price: n, name: `n${n}` })) =>
  Array.from({ length: count }, (_, n): Row => ({ id: `A-${n}`, ...make(n) }))
const sent = () => target.received.map(({ path }) => path.split('/').at(-1)).sort()
const sync = async () => (await flows.call('POST', `/sync/${shop}`)).json()
const drift = async () => (await flows.call('GET', `/flow/${shop}/drift`)).json().held
const approve = (body?: object) =>
  flows.call('POST', `/flow/${shop}/drift/approve`, body && { body })

async function begin(extra: Row, items: Row[]) {
  serial += 1
  shop = `shop-${serial}`
  flows = await startTestFlows({
    service,
    files: {
      'shop.flow.yaml': jsonFlow(shop, target.url, { startPaused: false, ...extra }),
      [`${shop}.json`]: items,
    },
  })
  expect(await sync()).toMatchObject({ name: shop })
  await flows.delivered()
  target.received.length = 0
}

beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())
beforeEach(async () => {
  target = await startTarget()
})
afterEach(async () => {
  if (shop !== '') await flows.stop()
  // What a test leaves would be waited for by the next.
  await service.database.db.deleteFrom('deliveries').execute()
  shop = ''
  await target.close()
})

test('a field that is gone sends nothing, is shown everywhere, survives a restart, and is sent when let', async () => {
  await begin({}, rows(20))
  await flows.write(
    `${shop}.json`,
    rows(20, (n) => ({ name: `n${n}` })),
  )
  expect(await sync()).toEqual({ name: shop, changes: 0, skipped: 'held' })
  const reason = 'the field "price" is gone'
  const held = {
    reason,
    findings: [{ kind: 'gone', field: 'price', was: null, is: null, items: null, known: null }],
    since: expect.stringMatching(/Z$/),
    read: expect.any(Number),
    approved_at: null,
  }
  expect(await drift()).toEqual(held)
  const [card] = (await flows.call('GET', '/flows')).json().flows
  expect(card).toMatchObject({
    held_drift: held,
    last_error: null,
    health: { state: 'attention', cause: 'drift_held' },
  })
  const metrics = await flows.call('GET', '/metrics', { headers: { accept: 'text/plain' } })
  expect(metrics.body).toContain(`tillbridge_flow_held{flow="${shop}"} 1`)
  const [error] = (await flows.call('GET', `/errors?flow=${shop}`)).json()
  expect(error).toMatchObject({ adapter: 'source', error: `held: ${reason}` })
  expect(flows.logLines.filter((line) => line.includes('a flow is held'))).toHaveLength(1)
  const preview = (await flows.call('GET', `/sync/${shop}/preview`)).json()
  expect(preview).toMatchObject({ changes: 20, drift: { verdict: 'hold', reason } })

  flows = await flows.restart()
  expect(await sync()).toMatchObject({ skipped: 'held' })
  expect(await drift()).toEqual(held)
  expect(sent()).toEqual([])

  expect((await approve()).json()).toEqual({ name: shop, status: 'approved', changes: 20 })
  await flows.delivered()
  expect(sent()).toEqual(
    rows(20)
      .map(({ id }) => id)
      .sort(),
  )
  expect(await drift()).toBeNull()
  const { activity } = (await flows.call('GET', `/flows/activity?flow=${shop}`)).json()
  expect(activity).toContainEqual(
    expect.objectContaining({ action: 'drift approved', detail: reason }),
  )
  const audited = await flows.service.database.db
    .selectFrom('activity_log')
    .select('action')
    .where('action', '=', 'flow.drift_approved')
    .execute()
  expect(audited).toHaveLength(1)
  expect(await sync()).toEqual({ name: shop, changes: 0 })
})

test('a source that looks as before again lets its flow go on by itself', async () => {
  await begin({}, rows(20))
  await flows.write(
    `${shop}.json`,
    rows(20, () => ({ price: 'N/A', name: 'x' })),
  )
  await sync()
  expect((await drift()).reason).toBe('the field "price" was a number and is text')
  await flows.write(
    `${shop}.json`,
    rows(20, (n) => ({ price: n === 3 ? 99 : n, name: `n${n}` })),
  )
  expect(await sync()).toEqual({ name: shop, changes: 1 })
  await flows.delivered()
  expect(sent()).toEqual(['A-3'])
  expect(await drift()).toBeNull()
})

const share = { drift: { changed: { maxPercent: 50, minItems: 10 } } }
const raised = (by: number) => rows(40, (n) => ({ price: n + by, name: `n${n}` }))

test('more changed items than the share are held, all of them, and sent when let', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, raised(1))
  expect(await sync()).toMatchObject({ skipped: 'held' })
  expect(await drift()).toMatchObject({
    reason: '40 of 40 items changed at once (100.0 %, more than 50 %)',
    findings: [{ kind: 'changed', items: 40, known: 40 }],
  })
  expect(sent()).toEqual([])
  expect((await approve({ read: (await drift()).read })).json()).toMatchObject({ changes: 40 })
  await flows.delivered()
  expect(sent()).toHaveLength(40)
})

const unnamed = rows(40, (n) => ({ price: n }))

test('a field that is gone from more items than the share is one hold, which goes on by one button', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, unnamed)
  expect(await sync()).toMatchObject({ skipped: 'held' })
  const both = {
    reason: 'the field "name" is gone; 40 of 40 items changed at once (100.0 %, more than 50 %)',
    findings: [
      { kind: 'gone', field: 'name' },
      { kind: 'changed', items: 40 },
    ],
  }
  const { read } = await drift()
  // Polls meanwhile change nothing of it.
  expect(await sync()).toMatchObject({ skipped: 'held' })
  expect(await drift()).toMatchObject({ ...both, read })
  expect(sent()).toEqual([])
  expect((await approve({ read })).json()).toMatchObject({ changes: 40 })
  await flows.delivered()
  expect(sent()).toHaveLength(40)
  expect(await drift()).toBeNull()
})

test('a share that is reached after a field that is gone was let through holds both, until both are', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, unnamed.slice(30))
  expect(await sync()).toMatchObject({ skipped: 'held' })
  expect((await drift()).findings).toMatchObject([{ kind: 'gone' }])
  await flows.write(`${shop}.json`, unnamed)
  expect((await approve()).json()).toMatchObject({ skipped: 'held' })
  expect((await drift()).findings).toMatchObject([{ kind: 'gone' }, { kind: 'changed' }])
  expect(sent()).toEqual([])
  expect((await approve()).json()).toMatchObject({ changes: 40 })
})

test('what is let through while a poll runs that holds it is let through by the next', async () => {
  const { database } = service
  const poll = await createTestPoll(database, { now: () => new Date() })
  const whole = rows(20).map((one) => ({ ...one, id: String(one.id) }))
  poll.rows = [whole]
  await poll.poll()
  poll.rows = [whole.map(({ id }) => ({ id }))]
  expect(await poll.poll()).toMatchObject({ skipped: 'held' })
  poll.beforeBatch = async () => {
    await database.transaction((trx) =>
      approveRow(trx, {
        ...{ flow: poll.name, subject: 'drift', pk: '', read_number: Number.MAX_SAFE_INTEGER },
        ...{ approved_by: 'somebody', approved_at: new Date() },
      }),
    )
    poll.beforeBatch = () => {}
  }
  expect(await poll.poll()).toMatchObject({ skipped: 'held' })
  expect(await poll.poll()).toMatchObject({ changes: 20 })
})

test('of a file that is cut nothing is sent before it can be told how much of it changed', async () => {
  const csv = (price: (n: number) => number) =>
    ['id,price,name', ...rows(20).map(({ id, name }, n) => `${id},${price(n)},${name}`), ''].join(
      '\n',
    )
  serial += 1
  shop = `shop-${serial}`
  const source = { type: 'file', path: `\${env:DIR}/${shop}.csv`, format: 'csv', settle: '0s' }
  const rule = { changed: { maxPercent: 50, minItems: 4 } }
  const extra = { startPaused: false, source, drift: rule }
  const files = {
    'shop.flow.yaml': jsonFlow(shop, target.url, extra),
    [`${shop}.csv`]: csv((n) => n),
  }
  flows = await startTestFlows({ service, files })
  expect(await sync()).toMatchObject({ changes: 20 })
  await flows.delivered()
  target.received.length = 0

  const changed = csv((n) => n + 1_000)
  // Four lines and a half: as few may change at any time.
  const cut = changed.slice(0, changed.indexOf('A-4,') + 'A-4,1004,n'.length)
  await flows.write(`${shop}.csv`, cut)
  expect(await sync()).toEqual({ name: shop, changes: 0 })
  expect(sent()).toEqual([])
  await flows.write(`${shop}.csv`, changed)
  expect(await sync()).toEqual({ name: shop, changes: 0, skipped: 'held' })
  const held = await drift()
  expect(held.findings).toMatchObject([{ kind: 'changed', items: 20 }])
  // Nor does what is held go on by a part of the file, before it is let through or after.
  await flows.write(`${shop}.csv`, cut)
  expect(await sync()).toEqual({ name: shop, changes: 0 })
  expect(await drift()).toMatchObject({ read: held.read })
  await approve()
  expect(sent()).toEqual([])
  await flows.write(`${shop}.csv`, changed)
  expect(await sync()).toEqual({ name: shop, changes: 20 })
  await flows.delivered()
  expect(sent()).toHaveLength(20)
})

test('a share of half is no drift, nor is a first import, nor many new items', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, [
    ...rows(40, (n) => ({ price: n < 20 ? n + 1 : n, name: `n${n}` })),
    ...rows(100, (n) => ({ price: n, name: 'new' })).map((one, n) => ({ ...one, id: `B-${n}` })),
  ])
  expect(await sync()).toEqual({ name: shop, changes: 120 })
})

test('what came after the approval, and is as much, holds the flow again', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, raised(1))
  await sync()
  const { read } = await drift()
  await flows.call('POST', `/flow/${shop}/pause`)
  expect((await approve({ read })).json()).toMatchObject({ skipped: 'paused' })
  expect((await drift()).approved_at).not.toBeNull()
  await flows.write(`${shop}.json`, raised(2))
  await flows.call('POST', `/flow/${shop}/resume`)
  expect(await sync()).toMatchObject({ skipped: 'held' })
  expect((await drift()).approved_at).toBeNull()
  expect((await drift()).read).toBeGreaterThan(read)
  expect((await approve({ read })).statusCode).toBe(409)
  expect(sent()).toEqual([])
  expect((await approve()).json()).toMatchObject({ changes: 40 })
})

test('a few changes more than those that were shown go with them', async () => {
  await begin(share, raised(0))
  await flows.write(`${shop}.json`, raised(1))
  await sync()
  await flows.write(
    `${shop}.json`,
    rows(40, (n) => ({ price: n < 5 ? 1000 : n + 1, name: `n${n}` })),
  )
  expect((await approve()).json()).toMatchObject({ changes: 40 })
})

test('many changes below the share are read twice and sent, and above it none', async () => {
  const { database, clock } = service
  const drift = { changed: { maxPercent: 80, minItems: 10 } }
  const poll = await createTestPoll(database, { now: clock.now, flow: { drift } })
  const changing = (count: number, by: number) => {
    const all = rows(1_500, (n) => ({ price: n < count ? n + by : n }))
    const batches = [all.slice(0, 500), all.slice(500, 1_000), all.slice(1_000)]
    poll.rows = batches.map((batch) =>
      batch.map(({ id, ...rest }) => ({ id: String(id), ...rest })),
    )
    return poll.poll()
  }
  expect(await changing(0, 0)).toMatchObject({ changes: 1_500 })
  expect(await changing(1_100, 1)).toMatchObject({ changes: 1_100 })
  expect(poll.scans).toHaveLength(3)
  const before = poll.enqueued.length
  expect(await changing(1_300, 2)).toMatchObject({ changes: 0, skipped: 'held' })
  expect(poll.enqueued).toHaveLength(before)
  const held = await database.db
    .selectFrom('held_changes')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('flow', '=', poll.name)
    .executeTakeFirstOrThrow()
  expect(held.count).toBe(1_300)
})

test('what is asked for while it is held waits, and is sent with the rest', async () => {
  await begin({}, rows(20))
  await flows.write(
    `${shop}.json`,
    rows(20, (n) => ({ name: `m${n}` })),
  )
  await sync()
  expect((await flows.call('POST', `/sync/${shop}/A-7`)).json()).toMatchObject({ changed: true })
  await vi.waitFor(async () =>
    expect((await flows.call('GET', `/flow/${shop}/waiting`)).json().waiting).toHaveLength(1),
  )
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(sent()).toEqual([])
  await approve()
  await flows.delivered()
  expect(sent()).toHaveLength(20)
})

test.each([
  ['the flow is not held', undefined, 400],
  ['a key is unknown', { all: true }, 400],
  ['a read is no number', { read: 'x' }, 400],
])('when %s it is refused with one field', async (_, body, status) => {
  await begin({}, rows(3))
  const response = await approve(body)
  expect([response.statusCode, Object.keys(response.json())]).toEqual([status, ['error']])
})

test('a flow that nobody defines is neither held nor let go on', async () => {
  await begin({}, rows(3))
  expect((await flows.call('GET', '/flow/none/drift')).statusCode).toBe(404)
  expect((await flows.call('POST', '/flow/none/drift/approve')).statusCode).toBe(404)
})
