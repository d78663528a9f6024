import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { AlertDeps, Alerts } from '../../src/notifications/flow-alerts.ts'
import { insertPoll } from '../../src/repositories/flows/flow-polls.ts'
import {
  clearProgress,
  insertFlowState,
  saveProgress,
  updateFlowState,
} from '../../src/repositories/flows/flow-state.ts'
import { deletePauses, insertPauses } from '../../src/repositories/flows/flow-switches.ts'
import { addJobTotals } from '../../src/repositories/flows/flow-totals.ts'
import { openTestDatabase } from '../support/database.ts'
import { createWorld, minutes, seconds, type World } from './failure-world.ts'
import { openHttpReceiver, openMailReceiver } from './receivers.ts'

let database: Database
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
const running: Alerts[] = []

beforeAll(async () => {
  database = await openTestDatabase()
  hook = await openHttpReceiver()
})

afterEach(async () => {
  await Promise.all(running.splice(0).map((alerts) => alerts.stop()))
  hook.reset()
})

afterAll(async () => {
  await Promise.all([hook.close(), database.close()])
})

async function open(world: World, onDegraded: object, change: Partial<AlertDeps> = {}) {
  const process = world.process('one', change)
  running.push(process)
  // The filter is about failures; how the flow is doing concerns everybody.
  const onJobFailed = [{ type: 'webhook', url: hook.url, destinations: ['dwh'] }]
  await process.openFlow(world.flow({ onJobFailed, onDegraded }))
  await process.checkOnce()
  return process
}

async function after(ms: number, world: World, alerts: Alerts) {
  world.clock.at += ms
  await alerts.checkOnce()
}

async function succeed(world: World, durationMs = 100) {
  const at = new Date(world.clock.at)
  await database.transaction(async (trx) => {
    await insertFlowState(trx, world.name, 'definition', at)
    await updateFlowState(trx, world.name, { last_success_at: at, last_poll_at: at })
    await insertPoll(trx, {
      flow: world.name,
      kind: 'full',
      startedAt: new Date(at.getTime() - durationMs),
      durationMs,
      rowsRead: 1,
      changes: 0,
      items: null,
      error: null,
    })
  })
}

const pause = (world: World) =>
  database.transaction((trx) =>
    insertPauses(trx, [world.name], { at: new Date(world.clock.at), by: 'test', reason: null }),
  )
const resume = (world: World) => database.transaction((trx) => deletePauses(trx, [world.name]))
const jobs = (world: World, completed: number, failed: number) =>
  database.transaction((trx) => addJobTotals(trx, world.name, { completed, failed }))
const told = () => hook.bodies().map(({ type, data }) => [type, data.condition, data.value ?? null])

test('a flow whose source is not read is told once when it begins and once when it ends', async () => {
  const world = createWorld(database)
  await succeed(world)
  const alerts = await open(world, { noSuccessfulPollFor: '15m' })
  await after(minutes(15), world, alerts)
  expect(told()).toEqual([])
  await after(seconds(15), world, alerts)
  await after(minutes(30), world, alerts)
  expect(hook.bodies()).toEqual([
    {
      type: 'flow.degraded',
      timestamp: '2026-11-21T12:15:15.000Z',
      data: {
        flow: world.name,
        condition: 'noSuccessfulPollFor',
        limit: 900_000,
        value: 915_000,
        since: '2026-11-21T12:15:15.000Z',
      },
    },
  ])
  await succeed(world)
  await after(seconds(15), world, alerts)
  await after(minutes(1), world, alerts)
  expect(hook.bodies().slice(1)).toMatchObject([
    { type: 'flow.restored', data: { since: '2026-11-21T12:15:15.000Z' } },
  ])
})

test('a flow that never polled alarms too, and a restart in the middle tells nothing again', async () => {
  const world = createWorld(database)
  const first = await open(world, { noSuccessfulPollFor: '15m' })
  await after(minutes(16), world, first)
  expect(told()).toEqual([['flow.degraded', 'noSuccessfulPollFor', null]])
  await first.stop()
  const second = await open(world, { noSuccessfulPollFor: '15m' })
  await after(minutes(16), world, second)
  expect(hook.calls).toHaveLength(1)
  await succeed(world)
  await after(seconds(15), world, second)
  expect(told().slice(1)).toEqual([['flow.restored', 'noSuccessfulPollFor', null]])
})

test('downtime of the service is no alarm: the flow gets its time to poll', async () => {
  const world = createWorld(database)
  await succeed(world)
  world.clock.at += minutes(600)
  const alerts = await open(world, { noSuccessfulPollFor: '15m' })
  await after(minutes(14), world, alerts)
  await succeed(world)
  await after(minutes(14), world, alerts)
  expect(told()).toEqual([])
})

test('a paused flow and one outside its window alarm about nothing, and get their time afterwards', async () => {
  const world = createWorld(database)
  let isOpen = true
  await succeed(world, 400_000)
  await pause(world)
  await world.fail(['a'])
  const limits = { noSuccessfulPollFor: '15m', failedJobs: 1, pollLongerThan: '5m' }
  const alerts = await open(world, limits, { isInWindow: () => isOpen })
  await after(minutes(60), world, alerts)
  isOpen = false
  await resume(world)
  await after(minutes(60), world, alerts)
  expect(told()).toEqual([])
  isOpen = true
  await after(seconds(15), world, alerts)
  expect(told().sort()).toEqual([
    ['flow.degraded', 'failedJobs', 1],
    ['flow.degraded', 'pollLongerThan', 400_000],
  ])
  // In trouble and paused: nothing changes until somebody resumes it.
  await pause(world)
  await world.deliver(['a'])
  await after(minutes(30), world, alerts)
  expect(hook.calls).toHaveLength(2)
  await resume(world)
  await after(seconds(15), world, alerts)
  expect(told().slice(2)).toEqual([['flow.restored', 'failedJobs', null]])
})

test('a poll that takes too long is told while it runs, and one that died is not', async () => {
  const world = createWorld(database)
  const at = (ms: number) => new Date(world.clock.at + ms)
  const progress = (startedAt: Date) =>
    saveProgress(database.db, {
      flow: world.name,
      started_at: startedAt,
      rows_read: 1,
      changes: 0,
      updated_at: startedAt,
    })
  // Of a process that was killed hours ago.
  await progress(at(-minutes(300)))
  const alerts = await open(world, { pollLongerThan: '5m' })
  await after(minutes(4), world, alerts)
  expect(told()).toEqual([])
  await progress(at(0))
  await after(minutes(5), world, alerts)
  expect(told()).toEqual([])
  await after(seconds(15), world, alerts)
  expect(told()).toEqual([['flow.degraded', 'pollLongerThan', 315_000]])
  await clearProgress(database.db, world.name)
  await succeed(world, 320_000)
  await after(minutes(10), world, alerts)
  expect(hook.calls).toHaveLength(1)
  await succeed(world, 1_000)
  await after(seconds(15), world, alerts)
  expect(told().slice(1)).toEqual([['flow.restored', 'pollLongerThan', null]])
})

test('the share of failures is taken over fifteen minutes, and of few deliveries not at all', async () => {
  const world = createWorld(database)
  await jobs(world, 1_000, 900)
  const alerts = await open(world, { errorPercent: 5 })
  await jobs(world, 1, 4)
  await after(minutes(16), world, alerts)
  // They are too few to tell, and then too long ago.
  await after(minutes(16), world, alerts)
  await jobs(world, 95, 3)
  await after(minutes(1), world, alerts)
  expect(told()).toEqual([])
  await jobs(world, 0, 2)
  await after(seconds(15), world, alerts)
  expect(told()).toEqual([['flow.degraded', 'errorPercent', 5]])
  for (let minute = 0; minute < 16; minute += 1) await after(minutes(1), world, alerts)
  expect(told().slice(1)).toEqual([['flow.restored', 'errorPercent', null]])
})

test('failed deliveries count over all destinations, and a mail tells it in words', async () => {
  const world = createWorld(database)
  const smtp = await openMailReceiver()
  const mail = { smtpUrl: smtp.url, mailFrom: 'alerts@shop.example' }
  const alerts = world.process('one', { mail })
  running.push(alerts)
  const to = { type: 'email', to: 'ops@acme.example', destinations: ['dwh'], locale: 'en' }
  await alerts.openFlow(world.flow({ onJobFailed: [to], onDegraded: { failedJobs: 3 } }))
  await world.fail(['a', 'b'], 'web')
  await after(seconds(15), world, alerts)
  expect(smtp.mails).toHaveLength(0)
  await world.fail(['c'], 'dwh')
  await after(seconds(15), world, alerts)
  await world.deliver(['a'], 'web')
  await after(minutes(5), world, alerts)
  await alerts.checkOnce()
  await smtp.close()
  const texts = smtp.mails.map(({ head, text }) => [/^Subject: .*$/m.exec(head)?.[0].trim(), text])
  expect(texts).toEqual([
    [
      `Subject: [tillbridge] ${world.name}: the flow is not doing well`,
      expect.stringContaining('There are 3 failed deliveries (limit: 3).'),
    ],
    [
      `Subject: [tillbridge] ${world.name}: the flow is back to normal`,
      expect.stringContaining('below the limit again'),
    ],
    [
      `Subject: [tillbridge] ${world.name}: 1 delivery to dwh failed`,
      expect.stringContaining('- c: HTTP 422'),
    ],
  ])
})
