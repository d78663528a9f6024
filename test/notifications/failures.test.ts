import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../src/db/database.ts'
import type { Notifications } from '../../src/notifications/notifications.ts'
import { recordChanges } from '../../src/repositories/flows/deliveries.ts'
import { writeResults } from '../../src/repositories/flows/delivery-results.ts'
import {
  needsPostgres,
  openPostgresClone,
  openTestDatabase,
  postgresUrl,
} from '../support/database.ts'
import { createWorld, hours, minutes, seconds, type World } from './failure-world.ts'
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

async function open(world: World, alerts: object = { onJobFailed: [toHook()] }, id = 'one') {
  const process = world.process(id)
  running.push(process)
  await process.openFlow(world.flow(alerts))
  return process
}

/** Moves the clock and looks. */
async function after(ms: number, world: World, alerts: Notifications) {
  world.clock.at += ms
  await alerts.checkOnce()
}

const told = (receiver = hook) =>
  receiver.bodies().map(({ type, data }) => [type, data.failed ?? data.open ?? null])

test('a thousand failures are one message: how many, the first of them, and how to send them again', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  await world.fail(range(0, 999))
  await alerts.checkOnce()
  await after(seconds(20), world, alerts)
  await world.fail(['p9999'])
  await after(seconds(9), world, alerts)
  expect(hook.calls).toHaveLength(0)
  await after(seconds(1), world, alerts)
  await after(minutes(4), world, alerts)
  expect(hook.bodies()).toEqual([
    {
      type: 'flow.failed',
      timestamp: '2026-11-21T12:00:30.000Z',
      data: {
        flow: world.name,
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
        retry: { method: 'POST', path: `/flow/${world.name}/retry`, body: { destination: 'web' } },
      },
    },
  ])
}, 60_000)

test('new failures wait for the interval, a reminder for the repeat, and recovery for the deliveries', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  await world.fail(['a', 'b'])
  await after(seconds(30), world, alerts)
  expect(told()).toEqual([['flow.failed', 2]])
  await world.fail(['c'])
  // The same item fails again with a newer change: another failure, still one item.
  await world.fail(['a'])
  await after(minutes(4), world, alerts)
  expect(hook.calls).toHaveLength(1)
  await after(minutes(1), world, alerts)
  expect(told().slice(1)).toEqual([['flow.failed', 2]])
  expect(hook.bodies()[1].data.open).toBe(3)

  await after(hours(4) - 1, world, alerts)
  expect(hook.calls).toHaveLength(2)
  await after(1, world, alerts)
  expect(told().slice(2)).toEqual([['flow.failed.reminder', 3]])
  expect(hook.bodies()[2].data).toMatchObject({ since: '2026-11-21T12:00:00.000Z' })
  expect(hook.bodies()[2].data.examples).toHaveLength(3)

  // A retry is no recovery yet.
  await world.retry()
  await after(minutes(6), world, alerts)
  await world.deliver(['a', 'b'])
  await after(minutes(6), world, alerts)
  expect(hook.calls).toHaveLength(3)
  await world.deliver(['c'])
  await alerts.checkOnce()
  expect(hook.bodies().slice(3)).toMatchObject([
    { type: 'flow.recovered', data: { destination: 'web', since: '2026-11-21T12:00:00.000Z' } },
  ])
  await after(hours(9), world, alerts)
  expect(hook.calls).toHaveLength(4)

  // What was well again and changes now is no failure, and what fails anew is told anew.
  await world.fail(['a'])
  await after(seconds(30), world, alerts)
  expect(told().slice(4)).toEqual([['flow.failed', 1]])
  expect(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(5)
})

test('also of a receiver that is failing already a thousand failures are one message', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  await world.fail(['1'])
  await after(minutes(1), world, alerts)
  await after(minutes(10), world, alerts)
  hook.reset()
  await world.fail(range(2, 22))
  await after(seconds(1), world, alerts)
  await world.fail(range(22, 1_002))
  await after(seconds(30), world, alerts)
  expect(hook.bodies().map(({ data }) => data.failed)).toEqual([1_000])
})

test('a receiver that fails and recovers all the time hears at most one message an interval', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  for (let minute = 0; minute < 11; minute += 1) {
    await world.fail(['a'])
    await after(seconds(30), world, alerts)
    await world.deliver(['a'])
    await after(seconds(30), world, alerts)
  }
  expect(hook.bodies().map(({ timestamp }) => timestamp.slice(11, 19))).toEqual([
    '12:00:30',
    '12:05:30',
    '12:10:30',
  ])
})

test('failures that are mended before they are told are one message that says so', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  await world.fail(['a'])
  await alerts.checkOnce()
  await world.retry()
  await world.deliver(['a'])
  await after(minutes(1), world, alerts)
  await after(hours(5), world, alerts)
  expect(hook.bodies()).toMatchObject([{ type: 'flow.failed', data: { failed: 1, open: 0 } }])
})

test('without resolved there is no message on recovery, and the next failure is told as the first was', async () => {
  const world = createWorld(database)
  const alerts = await open(world, { onJobFailed: [toHook()], group: { resolved: false } })
  await world.fail(['a'])
  await after(seconds(30), world, alerts)
  await world.deliver(['a'])
  await after(hours(5), world, alerts)
  await world.fail(['a'])
  await alerts.checkOnce()
  expect(told()).toEqual([['flow.failed', 1]])
  await after(seconds(30), world, alerts)
  expect(told()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 1],
  ])
})

test('a receiver hears of its destinations only, and two entries for it are one', async () => {
  const world = createWorld(database)
  const alerts = await open(world, {
    onJobFailed: [
      { ...toHook(), destinations: ['dwh'] },
      { ...toHook(), destinations: ['dwh'] },
      { type: 'webhook', url: other.url },
    ],
  })
  await world.fail(['a', 'b'], 'web')
  await world.fail(['c'], 'dwh')
  await after(seconds(30), world, alerts)
  expect(told()).toEqual([['flow.failed', 1]])
  expect(hook.bodies()[0].data.destination).toBe('dwh')
  expect(told(other).sort()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 2],
  ])
})

test('a receiver that is down holds up nobody and gets everything later, without secrets in the log', async () => {
  const world = createWorld(database)
  const process = world.process('one')
  running.push(process)
  const down = `\${env:DOWN}`
  const flow = world.flow(
    {
      onJobFailed: [
        { type: 'slack', url: down },
        { type: 'webhook', url: other.url },
      ],
    },
    { DOWN: `${hook.url}/services/canary` },
  )
  await process.openFlow(flow)
  hook.answer = (response) => response.writeHead(503, { 'retry-after': '15' }).end('canary')
  await world.fail(['a'])
  await after(seconds(30), world, process)
  expect(told(other)).toEqual([['flow.failed', 1]])
  expect(hook.calls).toHaveLength(1)
  await after(seconds(14), world, process)
  expect(hook.calls).toHaveLength(1)
  await after(seconds(1), world, process)
  await after(seconds(19), world, process)
  expect(hook.calls).toHaveLength(2)
  hook.answer = (response) => response.end()
  await world.fail(['b'])
  await after(seconds(1), world, process)
  expect(hook.calls).toHaveLength(3)
  expect(new Set(hook.calls.map(({ body }) => body)).size).toBe(1)
  await after(minutes(5), world, process)
  expect(hook.bodies()[3].text).toContain('Fallas nuevas: 1; sin entregar ahora: 2')
  expect(world.logged.join()).toContain('notification not sent')
  expect(world.logged.join()).not.toContain('canary')
})

test('what was committed is told by the next process, and nothing twice', async () => {
  const world = createWorld(database)
  const first = await open(world)
  await world.fail(['a', 'b'])
  await first.checkOnce()
  await first.stop()
  // Nobody is there when this one fails.
  await world.fail(['c'])
  const second = await open(world, undefined, 'two')
  await after(seconds(30), world, second)
  expect(told()).toEqual([['flow.failed', 3]])
  await second.stop()
  const third = await open(world, undefined, 'three')
  await after(minutes(10), world, third)
  expect(hook.calls).toHaveLength(1)
})

test('a message whose sender died is sent by another process under the same id', async () => {
  const world = createWorld(database)
  const first = await open(world)
  const second = await open(world, undefined, 'two')
  await world.fail(['a'])
  await first.checkOnce()
  world.clock.at += seconds(30)
  const { promise: seen, resolve: arrived } = Promise.withResolvers<void>()
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  hook.answer = async (response) => {
    arrived()
    await held
    response.end()
  }
  const dying = first.checkOnce()
  await seen
  await second.checkOnce()
  expect(hook.calls).toHaveLength(1)
  hook.answer = (response) => response.end()
  await after(seconds(11), world, second)
  release()
  await dying
  await after(minutes(10), world, second)
  expect(hook.calls.map(({ headers }) => headers['webhook-id'])).toEqual(
    Array(2).fill(hook.calls[0]?.headers['webhook-id']),
  )
})

test('failures that commit late, with an earlier time than what was told, are told as well', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  const early = new Date(world.clock.at)
  world.clock.at += seconds(5)
  await world.fail(['later'])
  await after(minutes(1), world, alerts)
  const target = { flow: world.name, destination: 'web' }
  await database.transaction(async (trx) => {
    const to = { flow: world.name, destinations: ['web'], keepsHistory: false }
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
  await after(minutes(10), world, alerts)
  expect(hook.bodies().map(({ data }) => data.examples[0].pk)).toEqual(['later', 'early'])
})

test('a paused flow is not reminded of, but a new failure of it is told', async () => {
  const world = createWorld(database)
  const alerts = await open(world)
  await world.fail(['a'])
  await after(seconds(30), world, alerts)
  const pause = { flow: world.name, paused_at: new Date(), paused_by: 'test', reason: null }
  await database.db.insertInto('flow_pause').values(pause).execute()
  await after(hours(9), world, alerts)
  expect(hook.calls).toHaveLength(1)
  await world.fail(['b'])
  await after(seconds(30), world, alerts)
  expect(told()).toEqual([
    ['flow.failed', 1],
    ['flow.failed', 1],
  ])
})

test('receivers and destinations that a new definition drops are forgotten; the others go on', async () => {
  const world = createWorld(database)
  const both = { onJobFailed: [toHook(), { type: 'webhook', url: other.url }] }
  const alerts = await open(world, both)
  await world.fail(['a'])
  await after(seconds(30), world, alerts)
  await alerts.openFlow(world.flow({ onJobFailed: [toHook()], group: { repeat: '1h' } }))
  await after(hours(1), world, alerts)
  expect(told()).toEqual([
    ['flow.failed', 1],
    ['flow.failed.reminder', 1],
  ])
  expect(told(other)).toEqual([['flow.failed', 1]])
  const rows = await database.db
    .selectFrom('failure_groups')
    .select('channel')
    .where('flow', '=', world.name)
    .execute()
  expect(rows).toHaveLength(1)
  alerts.closeFlow(world.name)
  await after(hours(2), world, alerts)
  expect(hook.calls).toHaveLength(2)
})

test('once started it looks by itself, and a stop waits for the message under way', async () => {
  const world = createWorld(database)
  const alerts = await open(world, { onJobFailed: [toHook()], group: { wait: 0 } })
  let answered = false
  hook.answer = async (response) => {
    await wait(100)
    answered = true
    response.end()
  }
  alerts.start()
  await world.fail(['a'])
  await expect.poll(() => hook.calls.length, { timeout: 10_000 }).toBe(1)
  await alerts.stop()
  expect(answered).toBe(true)
  const group = await database.db
    .selectFrom('failure_groups')
    .select('message_id')
    .where('flow', '=', world.name)
    .executeTakeFirstOrThrow()
  expect(group.message_id).toBeNull()
})

test.skipIf(!postgresUrl)(
  `processes on one database tell each failure once (${needsPostgres})`,
  async () => {
    const clone = await openPostgresClone(postgresUrl ?? '')
    const world = createWorld(clone.database)
    const databases = await Promise.all(
      [1, 2].map(() => openDatabase({ databaseUrl: clone.url, maxConnections: 4 })),
    )
    const processes = await Promise.all(
      databases.map(async (own, index) => {
        const process = world.process(`p${index}`, { database: own })
        await process.openFlow(world.flow({ onJobFailed: [toHook()], group: { interval: '1s' } }))
        return process
      }),
    )
    let failures = 0
    for (let round = 0; round < 10; round += 1) {
      const pks = range(failures, failures + 40)
      failures += pks.length
      // Failures commit while all processes look.
      await Promise.all([world.fail(pks), ...processes.map((one) => one.checkOnce())])
      world.clock.at += seconds(40)
    }
    for (const _ of [1, 2]) {
      await Promise.all(processes.map((one) => one.checkOnce()))
      world.clock.at += seconds(40)
    }
    await Promise.all(processes.map((one) => one.stop()))
    await Promise.all(databases.map((one) => one.close()))
    await clone.database.close()
    const counts = hook.bodies().map(({ data }) => data.failed as number)
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(failures)
    expect(new Set(hook.calls.map(({ headers }) => headers['webhook-id'])).size).toBe(counts.length)
  },
)
