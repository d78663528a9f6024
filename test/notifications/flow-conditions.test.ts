import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { FleetStatesTable } from '../../src/db/tables.ts'
import { conditions } from '../../src/notifications/notification-conditions.ts'
import type { Notifications } from '../../src/notifications/notifications.ts'
import { openTestDatabase } from '../support/database.ts'
import { createWorld, seconds, start, type World } from './failure-world.ts'
import { openHttpReceiver } from './receivers.ts'

/** The receivers that a flow names are notified of its own states, and of those of its destinations, without a setting. */
let database: Database
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let operator: Awaited<ReturnType<typeof openHttpReceiver>>
const running: Notifications[] = []

beforeAll(async () => {
  database = await openTestDatabase()
  hook = await openHttpReceiver()
  operator = await openHttpReceiver()
})
beforeEach(async () => {
  for (const table of ['fleet_states', 'alert_troubles', 'alert_messages'] as const) {
    await database.db.deleteFrom(table).execute()
  }
})
afterEach(async () => {
  await Promise.all(running.splice(0).map((process) => process.stop()))
  hook.reset()
  operator.reset()
})
afterAll(async () => {
  await Promise.all([hook.close(), operator.close(), database.close()])
})

const toHook = (more: object = {}) => ({ type: 'webhook', url: hook.url, ...more })

async function open(
  world: World,
  alerts: object,
  settings: Parameters<World['process']>[2] = {},
  env: Record<string, string> = {},
) {
  const process = world.process('one', {}, settings)
  running.push(process)
  await process.openFlow(world.flow(alerts, env))
  return process
}

type State = Pick<FleetStatesTable, 'kind' | 'scope' | 'name' | 'state' | 'cause'>
type About = Record<string, string>
const ofFlow = (world: World, cause: string, state: State['state'] = 'down'): State => ({
  ...{ kind: 'flow', scope: '', name: world.name },
  ...{ state, cause },
})
const ofDestination = (world: World, name: string, cause: string): State => ({
  ...{ kind: 'destination', scope: world.name, name },
  ...{ state: 'down', cause },
})

/** As the fleet keeps it: a row for each thing. */
async function become(given: State, about: About = {}): Promise<void> {
  const { state, cause, ...subject } = given
  const change = { state, cause, about: JSON.stringify(about) }
  await database.db
    .insertInto('fleet_states')
    .values({ ...subject, ...change, since: new Date(start) })
    .onConflict((conflict) => conflict.columns(['kind', 'scope', 'name']).doUpdateSet(change))
    .execute()
}
const well = (one: State) => become({ ...one, state: 'ok', cause: null })

/** Looks as often as the service does, for so long. */
async function look(world: World, process: Notifications, forSeconds = 30): Promise<void> {
  for (let passed = 0; passed < forSeconds; passed += 2) {
    world.clock.at += seconds(2)
    await process.checkOnce()
  }
}
const told = (receiver = hook) => receiver.bodies().map(({ type, data }) => [type, data.cause])

test('a source that cannot be read is notified once when it lasts, and once when it is read again', async () => {
  const world = createWorld(database)
  const process = await open(world, { onJobFailed: [toHook({ destinations: ['dwh'] })] })
  await become(ofFlow(world, 'source_failing', 'attention'))
  await look(world, process)
  expect(hook.calls).toEqual([])
  await become(ofFlow(world, 'source_failing'), { code: 'ECONNREFUSED' })
  await look(world, process, 60)
  expect(told()).toEqual([['fleet.trouble', 'source_failing']])
  expect(hook.bodies()[0].data).toMatchObject({
    action: 'check_source',
    subjects: [{ kind: 'flow', flow: world.name, state: 'down' }],
  })
  await well(ofFlow(world, 'source_failing'))
  await look(world, process, 60)
  expect(told().slice(1)).toEqual([['fleet.recovered', 'source_failing']])
})

test('a receiver is notified of its destinations and of its flow alone', async () => {
  const world = createWorld(database)
  const other = createWorld(database)
  const process = await open(world, {
    onJobFailed: [toHook({ destinations: ['dwh'] }), { type: 'webhook', url: `${hook.url}/all` }],
  })
  const rests = ofDestination(world, 'web', 'destination_failing')
  await become(rests)
  // What the flow has of its destination is that one's trouble.
  await become(ofFlow(world, 'destination_failing', 'attention'), { destination: 'web' })
  await become(ofDestination(other, 'dwh', 'destination_failing'))
  await become({ kind: 'box', scope: 'acme', name: '1', state: 'down', cause: 'refused' })
  await look(world, process)
  expect(hook.calls.map(({ url }) => url)).toEqual(['/all'])
  expect(hook.bodies()[0].data.subjects).toMatchObject([
    { kind: 'destination', flow: world.name, destination: 'web' },
  ])
})

test('a lost access is notified with where the new token goes, in the language of the receiver', async () => {
  const world = createWorld(database)
  const env = { SLACK_URL: `${hook.url}/slack` }
  const process = await open(
    world,
    { onJobFailed: [{ type: 'slack', url: `\${env:SLACK_URL}` }] },
    {},
    env,
  )
  const lost = ofDestination(world, 'web', 'access_lost')
  await become(lost, { code: 'invalid_grant', place: `\${env:MELI_REFRESH_TOKEN}` })
  await look(world, process)
  const [text] = hook.bodies().map((body) => body.text as string)
  expect(text).toContain(
    `${world.name} → web: El emisor del acceso ya no lo renueva (invalid_grant)`,
  )
  expect(text).toContain(`poné el nuevo refresh token en \${env:MELI_REFRESH_TOKEN}`)
  expect(text).toContain(`GET /errors?flow=${world.name}`)
})

test('the receivers of the settings are notified of the same, and those of the flow get it in quiet hours no more than they', async () => {
  const world = createWorld(database)
  const quietHours = { from: '11:00', to: '12:01', timezone: 'UTC' }
  const settings = { webhookUrl: operator.url, quietHours }
  const process = await open(world, { onJobFailed: [toHook()] }, settings)
  await become(ofFlow(world, 'not_polled'))
  await become({ kind: 'box', scope: 'acme', name: '1', state: 'down', cause: 'refused' })
  await look(world, process, 40)
  expect([hook.calls, operator.calls]).toEqual([[], []])
  await look(world, process, 60)
  expect(told()).toEqual([['fleet.trouble', 'not_polled']])
  expect(told(operator).toSorted()).toEqual([
    ['fleet.trouble', 'not_polled'],
    ['fleet.trouble', 'refused'],
  ])
})

test('a flow that is paused while it fails is not notified as well again', async () => {
  const world = createWorld(database)
  const process = await open(world, { onJobFailed: [toHook()] })
  await become(ofFlow(world, 'source_failing'))
  await look(world, process)
  await become(ofFlow(world, 'flow_paused', 'attention'))
  await look(world, process, 60)
  expect(told()).toEqual([['fleet.trouble', 'source_failing']])
  // Somebody resumes it, and it fails as before.
  await become(ofFlow(world, 'source_failing'))
  await look(world, process)
  expect(told().slice(1)).toEqual([['fleet.trouble', 'source_failing']])
})

test('without resolved a receiver of a flow is notified of no end', async () => {
  const world = createWorld(database)
  const process = await open(world, { onJobFailed: [toHook()], group: { resolved: false } })
  await become(ofFlow(world, 'not_polled'))
  await look(world, process)
  await well(ofFlow(world, 'not_polled'))
  await look(world, process, 60)
  expect(told()).toEqual([['fleet.trouble', 'not_polled']])
})

test('what lasts is notified to receivers that a flow gets later, and to nobody twice', async () => {
  const world = createWorld(database)
  const other = createWorld(database)
  const process = await open(world, { onJobFailed: [toHook()] })
  await become(ofFlow(other, 'not_polled'))
  await look(world, process)
  expect(hook.calls).toEqual([])
  await process.openFlow(other.flow({ onJobFailed: [toHook()] }))
  await look(world, process, 60)
  expect(hook.bodies().map(({ data }) => data.subjects[0].flow)).toEqual([other.name])
})

test.each(Object.entries(conditions).filter(([, from]) => from === 'never' || from === 'intended'))(
  '%s is never notified: %s',
  async (cause) => {
    const world = createWorld(database)
    const process = await open(world, { onJobFailed: [toHook()] })
    await become(ofFlow(world, cause))
    await look(world, process)
    expect(hook.calls).toEqual([])
  },
)
