import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import type { Notifications } from '../../src/notifications/notifications.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { writeResults } from '../../src/repositories/flows/delivery-results.ts'
import {
  needsPostgres,
  openPostgresClone,
  openTestDatabase,
  postgresUrl,
} from '../support/database.ts'
import { createFailingFlow, type FailingFlow, hours, minutes, seconds } from './failing-flow.ts'
import { openHttpReceiver } from './receivers.ts'

let database: Database
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let other: Awaited<ReturnType<typeof openHttpReceiver>>
const running: Notifications[] = []

beforeAll(async () => {
  database = await openTestDatabase()
  hook = await openHttpReceiver()
  other = await openHttpReceiver()
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((alerts) => alerts.stop()))
  hook.reset()
  other.reset()
})

afterAll(async () => {
  await Promise.all([hook.close(), other.close(), database.close()])
})

const toHook = () => ({ type: 'webhook', url: hook.url })
const range = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => `p${String(from + index).padStart(4, '0')}`)

async function open(flow: FailingFlow, alerts: object = { onJobFailed: [toHook()] }, id = 'one') {
  const process = flow.process(id)
  running.push(process)
  await process.openFlow(flow.definition(alerts))
  return process
}

/** Advances the clock and runs one check. */
async function after(ms: number, flow: FailingFlow, alerts: Notifications) {
  flow.clock.at += ms
  await alerts.checkOnce()
}

const received = (receiver = hook) =>
  receiver.bodies().map(({ type, data }) => [type, data.failed ?? data.open ?? null])

test('a thousand failures make one message with their number, the first of them and how to send them again', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  await flow.fail(range(0, 999))
  await alerts.checkOnce()
  await after(seconds(20), flow, alerts)
  await flow.fail(['p9999'])
  await after(seconds(9), flow, alerts)
  expect(hook.calls).toHaveLength(0)
  await after(seconds(1), flow, alerts)
  await after(minutes(4), flow, alerts)
  expect(hook.bodies()).toEqual([
    {
      type: 'flow.failed',
      timestamp: '2026-11-21T12:00:30.000Z',
      data: {
        flow: flow.name,
        destination: 'web',
        failed: 1_000,
        open: 1_000,
        since: '2026-11-21T12:00:00.000Z',
        examples: range(0, 5).map((pk) => ({
          pk,
          error: 'HTTP 422',
          attempts: 5,
          at: '2026-11-21T12:00:00.000Z',
        })),
        retry: { method: 'POST', path: `/flow/${flow.name}/retry`, body: { destination: 'web' } },
      },
    },
  ])
}, 60_000)

test('new failures are sent after the interval, a reminder after the repeat, and the recovery when all are delivered', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  await flow.fail(['a', 'b'])
  await after(seconds(30), flow, alerts)
  expect(received()).toEqual([['flow.failed', 2]])
  await flow.fail(['c'])
  // The same item fails again with a newer change: another failure, still one item.
  await flow.fail(['a'])
  await after(minutes(4), flow, alerts)
  expect(hook.calls).toHaveLength(1)
  await after(minutes(1), flow, alerts)
  expect(received().slice(1)).toEqual([['flow.failed', 2]])
  expect(hook.bodies()[1].data.open).toBe(3)

  await after(hours(4) - 1, flow, alerts)
  expect(hook.calls).toHaveLength(2)
  await after(1, flow, alerts)
  expect(received().slice(2)).toEqual([['flow.failed.reminder', 3]])
  expect(hook.bodies()[2].data).toMatchObject({ since: '2026-11-21T12:00:00.000Z' })
  expect(hook.bodies()[2].data.examples).toHaveLength(3)

  // A retry is no recovery yet.
  await flow.retry()
  await after(minutes(6), flow, alerts)
  await flow.deliver(['a', 'b'])
  await after(minutes(6), flow, alerts)
  expect(hook.calls).toHaveLength(3)
  await flow.deliver(['c'])
  await alerts.checkOnce()
  expect(hook.bodies().slice(3)).toMatchObject([
    { type: 'flow.recovered', data: { destination: 'web', since: '2026-11-21T12:00:00.000Z' } },
  ])
  await after(hours(9), flow, alerts)
  expect(hook.calls).toHaveLength(4)

  // After a recovery a new failure is notified as the first.
  await flow.fail(['a'])
  await after(seconds(30), flow, alerts)
  expect(received().slice(4)).toEqual([['flow.failed', 1]])
  expect(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(5)
})

test('a thousand failures of a destination that has failed before make one message', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  await flow.fail(['1'])
  await after(minutes(1), flow, alerts)
  await after(minutes(10), flow, alerts)
  hook.reset()
  await flow.fail(range(2, 22))
  await after(seconds(1), flow, alerts)
  await flow.fail(range(22, 1_002))
  await after(seconds(30), flow, alerts)
  expect(hook.bodies().map(({ data }) => data.failed)).toEqual([1_000])
})

test('failures and recoveries in turn make at most one message an interval', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  for (let minute = 0; minute < 11; minute += 1) {
    await flow.fail(['a'])
    await after(seconds(30), flow, alerts)
    await flow.deliver(['a'])
    await after(seconds(30), flow, alerts)
  }
  expect(hook.bodies().map(({ timestamp }) => timestamp.slice(11, 19))).toEqual([
    '12:00:30',
    '12:05:30',
    '12:10:30',
  ])
})

test('failures that are delivered before their notification make one message with none open', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  await flow.fail(['a'])
  await alerts.checkOnce()
  await flow.retry()
  await flow.deliver(['a'])
  await after(minutes(1), flow, alerts)
  await after(hours(5), flow, alerts)
  expect(hook.bodies()).toMatchObject([{ type: 'flow.failed', data: { failed: 1, open: 0 } }])
})

test('without resolved there is no message on recovery, and the next failure is notified like the first', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow, { onJobFailed: [toHook()], group: { resolved: false } })
  await flow.fail(['a'])
  await after(seconds(30), flow, alerts)
  await flow.deliver(['a'])
  await after(hours(5), flow, alerts)
  await flow.fail(['a'])
  await alerts.checkOnce()
  expect(received()).toEqual([['flow.failed', 1]])
  await after(seconds(30), flow, alerts)
  expect(received()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 1],
  ])
})

test('a receiver is notified of its destinations only, and of each once although it is named twice', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow, {
    onJobFailed: [
      { ...toHook(), destinations: ['dwh'] },
      { ...toHook(), destinations: ['dwh'] },
      { type: 'webhook', url: other.url },
    ],
  })
  await flow.fail(['a', 'b'], 'web')
  await flow.fail(['c'], 'dwh')
  await after(seconds(30), flow, alerts)
  expect(received()).toEqual([['flow.failed', 1]])
  expect(hook.bodies()[0].data.destination).toBe('dwh')
  expect(received(other).sort()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 2],
  ])
})

test('a receiver that is down delays no other and gets each message later; the log shows no secret of it', async () => {
  const flow = createFailingFlow(database)
  const process = flow.process('one')
  running.push(process)
  const down = `\${env:DOWN}`
  const definition = flow.definition(
    {
      onJobFailed: [
        { type: 'slack', url: down },
        { type: 'webhook', url: other.url },
      ],
    },
    { DOWN: `${hook.url}/services/canary` },
  )
  await process.openFlow(definition)
  hook.answer = (response) => response.writeHead(503, { 'retry-after': '15' }).end('canary')
  await flow.fail(['a'])
  await after(seconds(30), flow, process)
  expect(received(other)).toEqual([['flow.failed', 1]])
  expect(hook.calls).toHaveLength(1)
  await after(seconds(14), flow, process)
  expect(hook.calls).toHaveLength(1)
  await after(seconds(1), flow, process)
  await after(seconds(19), flow, process)
  expect(hook.calls).toHaveLength(2)
  hook.answer = (response) => response.end()
  await flow.fail(['b'])
  await after(seconds(1), flow, process)
  expect(hook.calls).toHaveLength(3)
  expect(new Set(hook.calls.map(({ body }) => body)).size).toBe(1)
  await after(minutes(5), flow, process)
  expect(hook.bodies()[3].text).toContain('Fallas nuevas: 1; sin entregar ahora: 2')
  expect(flow.logged.join()).toContain('notification not sent')
  expect(flow.logged.join()).not.toContain('canary')
})

test('the next process notifies failures that were committed before, and none twice', async () => {
  const flow = createFailingFlow(database)
  const first = await open(flow)
  await flow.fail(['a', 'b'])
  await first.checkOnce()
  await first.stop()
  // No process runs when this one fails.
  await flow.fail(['c'])
  const second = await open(flow, undefined, 'two')
  await after(seconds(30), flow, second)
  expect(received()).toEqual([['flow.failed', 3]])
  await second.stop()
  const third = await open(flow, undefined, 'three')
  await after(minutes(10), flow, third)
  expect(hook.calls).toHaveLength(1)
})

test('a message whose sender died is sent by another process under the same id', async () => {
  const flow = createFailingFlow(database)
  const first = await open(flow)
  const second = await open(flow, undefined, 'two')
  await flow.fail(['a'])
  await first.checkOnce()
  flow.clock.at += seconds(30)
  const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  hook.answer = async (response) => {
    arrived()
    await released
    response.end()
  }
  const dying = first.checkOnce()
  await arrival
  await second.checkOnce()
  expect(hook.calls).toHaveLength(1)
  hook.answer = (response) => response.end()
  await after(seconds(11), flow, second)
  release()
  await dying
  await after(minutes(10), flow, second)
  expect(hook.calls.map(({ headers }) => headers['webhook-id'])).toEqual(
    Array(2).fill(hook.calls[0]?.headers['webhook-id']),
  )
})

test('failures that commit late, with an earlier time than those notified, are notified as well', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  const early = new Date(flow.clock.at)
  flow.clock.at += seconds(5)
  await flow.fail(['later'])
  await after(minutes(1), flow, alerts)
  const target = { flow: flow.name, destination: 'web', keepsHistory: false, isReadOnce: false }
  await database.transaction(async (trx) => {
    const to = { flow: flow.name, destinations: ['web'], keepsHistory: false }
    const change = {
      pk: 'early',
      kind: 'upsert' as const,
      hash: 'h',
      value: {},
      change: 1,
    }
    await recordChanges(trx, to, [change], early)
    const why = { code: 'UNEXPECTED' } as const
    const failed = { pk: 'early', became: 'failed', attempts: 1, why, status: null } as const
    await writeResults(trx, target, [failed], early)
  })
  await after(minutes(10), flow, alerts)
  expect(hook.bodies().map(({ data }) => data.examples[0].pk)).toEqual(['later', 'early'])
})

test('a paused flow causes no reminder, but a new failure of it is notified', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow)
  await flow.fail(['a'])
  await after(seconds(30), flow, alerts)
  const pause = { flow: flow.name, paused_at: new Date(), paused_by: 'test', reason: null }
  await database.db.insertInto('flow_pause').values(pause).execute()
  await after(hours(9), flow, alerts)
  expect(hook.calls).toHaveLength(1)
  await flow.fail(['b'])
  await after(seconds(30), flow, alerts)
  expect(received()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 1],
  ])
})

test('a receiver that a new definition no longer names gets nothing more and leaves no row; the other continues', async () => {
  const flow = createFailingFlow(database)
  const both = { onJobFailed: [toHook(), { type: 'webhook', url: other.url }] }
  const alerts = await open(flow, both)
  await flow.fail(['a'])
  await after(seconds(30), flow, alerts)
  await alerts.openFlow(flow.definition({ onJobFailed: [toHook()], group: { repeat: '1h' } }))
  await after(hours(1), flow, alerts)
  expect(received()).toEqual([
    ['flow.failed', 1],
    ['flow.failed.reminder', 1],
  ])
  expect(received(other)).toEqual([['flow.failed', 1]])
  const rows = await database.db
    .selectFrom('failure_groups')
    .select('channel')
    .where('flow', '=', flow.name)
    .execute()
  expect(rows).toHaveLength(1)
  alerts.closeFlow(flow.name)
  await after(hours(2), flow, alerts)
  expect(hook.calls).toHaveLength(2)
})

test('once started it checks by itself, and a stop waits for the message under way', async () => {
  const flow = createFailingFlow(database)
  const alerts = await open(flow, { onJobFailed: [toHook()], group: { wait: 0 } })
  let answered = false
  hook.answer = async (response) => {
    await wait(100)
    answered = true
    response.end()
  }
  alerts.start()
  await flow.fail(['a'])
  await expect.poll(() => hook.calls.length, { timeout: 10_000 }).toBe(1)
  await alerts.stop()
  expect(answered).toBe(true)
  const group = await database.db
    .selectFrom('failure_groups')
    .select('message_id')
    .where('flow', '=', flow.name)
    .executeTakeFirstOrThrow()
  expect(group.message_id).toBeNull()
})

test.skipIf(!postgresUrl)(
  `two processes on one database notify each failure once (${needsPostgres})`,
  async () => {
    const clone = await openPostgresClone(postgresUrl ?? '')
    const flow = createFailingFlow(clone.database)
    const databases = await Promise.all(
      [1, 2].map(() => openDatabase({ databaseUrl: clone.url, maxConnections: 4 })),
    )
    const processes = await Promise.all(
      databases.map(async (own, index) => {
        const process = flow.process(`p${index}`, { database: own })
        await process.openFlow(
          flow.definition({ onJobFailed: [toHook()], group: { interval: '1s' } }),
        )
        return process
      }),
    )
    let failures = 0
    for (let round = 0; round < 10; round += 1) {
      const pks = range(failures, failures + 40)
      failures += pks.length
      // Failures commit while all processes check.
      await Promise.all([flow.fail(pks), ...processes.map((one) => one.checkOnce())])
      flow.clock.at += seconds(40)
    }
    for (const _ of [1, 2]) {
      await Promise.all(processes.map((one) => one.checkOnce()))
      flow.clock.at += seconds(40)
    }
    await Promise.all(processes.map((one) => one.stop()))
    await Promise.all(databases.map((one) => one.close()))
    await clone.database.close()
    const counts = hook.bodies().map(({ data }) => data.failed as number)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(failures)
    expect(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(counts.length)
  },
)
