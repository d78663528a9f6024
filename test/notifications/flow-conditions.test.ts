import type { Selectable } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import type { FleetStatesTable } from '../../src/db/tables.ts'
import { conditions } from '../../src/notifications/notification-conditions.ts'
import type { Notifications } from '../../src/notifications/notifications.ts'
import { openTestDatabase } from '../support/database.ts'
import { createFailingFlow, type FailingFlow, seconds, start } from './failing-flow.ts'
import { openHttpReceiver } from './receivers.ts'

/** The receivers that a flow names are notified of its states and of those of its destinations, without a setting. */
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
  flow: FailingFlow,
  alerts: object,
  settings: Parameters<FailingFlow['process']>[2] = {},
  env: Record<string, string> = {},
) {
  const process = flow.process('one', {}, settings)
  running.push(process)
  await process.openFlow(flow.definition(alerts, env))
  return process
}

type State = Pick<Selectable<FleetStatesTable>, 'kind' | 'scope' | 'name' | 'state' | 'cause'>
type About = Record<string, string>
const ofFlow = (flow: FailingFlow, cause: string, state: State['state'] = 'down'): State => ({
  ...{ kind: 'flow', scope: '', name: flow.name },
  ...{ state, cause },
})
const ofDestination = (flow: FailingFlow, name: string, cause: string): State => ({
  ...{ kind: 'destination', scope: flow.name, name },
  ...{ state: 'down', cause },
})

/** Writes a state as the fleet does: one row for each subject. */
async function setState(given: State, about: About = {}): Promise<void> {
  const { state, cause, ...subject } = given
  const change = { state, cause, about: JSON.stringify(about) }
  await database.db
    .insertInto('fleet_states')
    .values({ ...subject, ...change, since: new Date(start) })
    .onConflict((conflict) => conflict.columns(['kind', 'scope', 'name']).doUpdateSet(change))
    .execute()
}
const setOk = (one: State) => setState({ ...one, state: 'ok', cause: null })

/** Runs the check as often as the service does, for this time. */
async function check(flow: FailingFlow, process: Notifications, forSeconds = 30): Promise<void> {
  for (let passed = 0; passed < forSeconds; passed += 2) {
    flow.clock.at += seconds(2)
    await process.checkOnce()
  }
}
const received = (receiver = hook) => receiver.bodies().map(({ type, data }) => [type, data.cause])

test('a source that cannot be read is notified once when it lasts, and once when it is read again', {
  tags: ['long'],
}, async () => {
  const flow = createFailingFlow(database)
  const process = await open(flow, { onJobFailed: [toHook({ destinations: ['dwh'] })] })
  await setState(ofFlow(flow, 'source_failing', 'attention'))
  await check(flow, process)
  expect(hook.calls).toEqual([])
  await setState(ofFlow(flow, 'source_failing'), { code: 'ECONNREFUSED' })
  await check(flow, process, 60)
  expect(received()).toEqual([['fleet.trouble', 'source_failing']])
  expect(hook.bodies()[0].data).toMatchObject({
    action: 'check_source',
    subjects: [{ kind: 'flow', flow: flow.name, state: 'down' }],
  })
  await setOk(ofFlow(flow, 'source_failing'))
  await check(flow, process, 60)
  expect(received().slice(1)).toEqual([['fleet.recovered', 'source_failing']])
})

test('a receiver is notified of its destinations and of its flow alone', async () => {
  const flow = createFailingFlow(database)
  const other = createFailingFlow(database)
  const process = await open(flow, {
    onJobFailed: [toHook({ destinations: ['dwh'] }), { type: 'webhook', url: `${hook.url}/all` }],
  })
  const rests = ofDestination(flow, 'web', 'destination_failing')
  await setState(rests)
  // What the flow has of its destination is that one's trouble.
  await setState(ofFlow(flow, 'destination_failing', 'attention'), { destination: 'web' })
  await setState(ofDestination(other, 'dwh', 'destination_failing'))
  await setState({ kind: 'box', scope: 'acme', name: '1', state: 'down', cause: 'refused' })
  await check(flow, process)
  expect(hook.calls.map(({ url }) => url)).toEqual(['/all'])
  expect(hook.bodies()[0].data.subjects).toMatchObject([
    { kind: 'destination', flow: flow.name, destination: 'web' },
  ])
})

test('a lost access is notified with where the new token goes, in the language of the receiver', async () => {
  const flow = createFailingFlow(database)
  const env = { SLACK_URL: `${hook.url}/slack` }
  const process = await open(
    flow,
    { onJobFailed: [{ type: 'slack', url: `\${env:SLACK_URL}` }] },
    {},
    env,
  )
  const lost = ofDestination(flow, 'web', 'access_lost')
  await setState(lost, { code: 'invalid_grant', place: `\${env:MELI_REFRESH_TOKEN}` })
  await check(flow, process)
  const [text] = hook.bodies().map((body) => body.text as string)
  expect(text).toContain(
    `${flow.name} → web: El emisor del acceso ya no lo renueva (invalid_grant)`,
  )
  expect(text).toContain(`poné el nuevo refresh token en \${env:MELI_REFRESH_TOKEN}`)
  expect(text).toContain(`GET /errors?flow=${flow.name}`)
})

test('the receivers of the flow and of the settings are notified after the quiet hours, the latter also of boxes', {
  tags: ['long'],
}, async () => {
  const flow = createFailingFlow(database)
  const quietHours = { from: '11:00', to: '12:01', timezone: 'UTC' }
  const settings = { webhookUrl: operator.url, quietHours }
  const process = await open(flow, { onJobFailed: [toHook()] }, settings)
  await setState(ofFlow(flow, 'not_polled'))
  await setState({ kind: 'box', scope: 'acme', name: '1', state: 'down', cause: 'refused' })
  await check(flow, process, 40)
  expect([hook.calls, operator.calls]).toEqual([[], []])
  await check(flow, process, 60)
  expect(received()).toEqual([['fleet.trouble', 'not_polled']])
  expect(received(operator).toSorted()).toEqual([
    ['fleet.trouble', 'not_polled'],
    ['fleet.trouble', 'refused'],
  ])
})

test('a pause of a failing flow does not count as recovery', { tags: ['long'] }, async () => {
  const flow = createFailingFlow(database)
  const process = await open(flow, { onJobFailed: [toHook()] })
  await setState(ofFlow(flow, 'source_failing'))
  await check(flow, process)
  await setState(ofFlow(flow, 'flow_paused', 'attention'))
  await check(flow, process, 60)
  expect(received()).toEqual([['fleet.trouble', 'source_failing']])
  // A person resumes it, and it fails as before.
  await setState(ofFlow(flow, 'source_failing'))
  await check(flow, process)
  expect(received().slice(1)).toEqual([['fleet.trouble', 'source_failing']])
})

test('without resolved a receiver of a flow gets no recovery', async () => {
  const flow = createFailingFlow(database)
  const process = await open(flow, { onJobFailed: [toHook()], group: { resolved: false } })
  await setState(ofFlow(flow, 'not_polled'))
  await check(flow, process)
  await setOk(ofFlow(flow, 'not_polled'))
  await check(flow, process, 60)
  expect(received()).toEqual([['fleet.trouble', 'not_polled']])
})

test('a receiver that a flow gets later is notified of the problem that lasts, once', async () => {
  const flow = createFailingFlow(database)
  const other = createFailingFlow(database)
  const process = await open(flow, { onJobFailed: [toHook()] })
  await setState(ofFlow(other, 'not_polled'))
  await check(flow, process)
  expect(hook.calls).toEqual([])
  await process.openFlow(other.definition({ onJobFailed: [toHook()] }))
  await check(flow, process, 60)
  expect(hook.bodies().map(({ data }) => data.subjects[0].flow)).toEqual([other.name])
})

test.each(Object.entries(conditions).filter(([, from]) => from === 'never' || from === 'intended'))(
  '%s is never notified: %s',
  async (cause) => {
    const flow = createFailingFlow(database)
    const process = await open(flow, { onJobFailed: [toHook()] })
    await setState(ofFlow(flow, cause))
    await check(flow, process)
    expect(hook.calls).toEqual([])
  },
)
