import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { Secret } from '../../src/domain/secret.ts'
import type { AlertFlow, Alerts } from '../../src/notifications/flow-alerts.ts'
import { clearHeldDrift, writeHeldDrift } from '../../src/repositories/flows/schema-changes.ts'
import { grantIdOf } from '../../src/sync/oauth/lost-grant.ts'
import type { Finding } from '../../src/sync/poll/shape.ts'
import { openTestDatabase } from '../support/database.ts'
import { createWorld, minutes, seconds, type World } from './failure-world.ts'
import { openHttpReceiver } from './receivers.ts'

/** Whoever is told of failures is told when nothing of a flow, or nothing to a destination, is sent, and when it is again. */
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

/** With an access that is renewed at the destination `tienda`. */
async function open(world: World, alerts: object, processId = 'one', env = {}) {
  const process = world.process(processId)
  running.push(process)
  const flow: AlertFlow = {
    ...world.flow(alerts, env),
    destinations: [
      { name: 'dwh', type: 'sql' },
      { name: 'tienda', type: 'http', auth: authOf(world) },
    ] as AlertFlow['destinations'],
  }
  await process.openFlow(flow)
  await process.checkOnce()
  return process
}

const authOf = (world: World) => ({
  type: 'oauth2' as const,
  grant: 'refresh_token' as const,
  tokenUrl: new Secret('https://issuer.example.com/token', 'https://issuer.example.com/token'),
  clientId: new Secret('4242', '4242'),
  clientSecret: new Secret('canary-secret', 'X'),
  refreshToken: new Secret(`canary-first-of-${world.name}`, `\${env:MELI_REFRESH_TOKEN}`),
  clientAuth: 'form' as const,
})

async function after(ms: number, world: World, alerts: Alerts) {
  world.clock.at += ms
  await alerts.checkOnce()
}

const webhook = () => ({ onJobFailed: [{ type: 'webhook', url: hook.url }] })
const told = () => hook.bodies().map(({ type, data }) => [type, data.reason ?? null])

async function hold(world: World, reason: string, findings: Finding[] = []) {
  const at = new Date(world.clock.at)
  await database.transaction((trx) =>
    writeHeldDrift(trx, {
      ...{ flow: world.name, reason, findings, since: at, held_at: at, read_number: 1 },
    }),
  )
}
const release = (world: World) => database.transaction((trx) => clearHeldDrift(trx, world.name))

async function lose(world: World) {
  await database.db
    .insertInto('oauth_grants')
    .values({
      id: grantIdOf(authOf(world)) ?? '',
      refresh_token: `v1.k1.${randomUUID()}`,
      version: 3,
      lost_at: new Date(world.clock.at),
      lost_reason: 'invalid_grant',
      used_by: `${world.name}/tienda`,
      used_at: new Date(world.clock.at),
    })
    .execute()
}
const regain = (world: World) =>
  database.db.deleteFrom('oauth_grants').where('used_by', '=', `${world.name}/tienda`).execute()

test('a flow that is held is told once, with the call that lets it go on, and once when it goes on', async () => {
  const world = createWorld(database)
  const alerts = await open(world, webhook())
  expect(hook.calls).toEqual([])
  await hold(world, 'the field "price" is gone')
  await after(seconds(16), world, alerts)
  await after(minutes(10), world, alerts)
  expect(told()).toEqual([['flow.held', 'the field "price" is gone']])
  expect(hook.bodies()[0].data).toMatchObject({
    flow: world.name,
    approve: { method: 'POST', path: `/flow/${world.name}/drift/approve` },
  })
  await release(world)
  await after(minutes(10), world, alerts)
  await after(minutes(10), world, alerts)
  expect(told().slice(1)).toEqual([['flow.released', null]])
})

test('what a flow is held for is told in the language of its receiver', async () => {
  const world = createWorld(database)
  const env = { SLACK_URL: `${hook.url}/slack` }
  const alerts = await open(
    world,
    { onJobFailed: [{ type: 'slack', url: `\${env:SLACK_URL}` }] },
    'one',
    env,
  )
  const findings: Finding[] = [
    { kind: 'gone', field: 'precio' },
    { kind: 'type', field: 'alta', was: ['time', 'text'], is: 'number' },
    { kind: 'changed', items: 50, known: 80, maxPercent: 10 },
  ]
  await hold(world, 'the field "precio" is gone', findings)
  await after(seconds(16), world, alerts)
  const [text = ''] = hook.bodies().map((body) => body.text)
  expect(text.split('\n').slice(0, 2)).toEqual([
    `*${world.name}: el flujo está retenido, su origen no se ve como antes*`,
    'falta el campo "precio"; el campo "alta" era una hora o texto y es un número; 50 de 80 ítems cambiaron a la vez (62.5 %, más del 10 %)',
  ])
})

test('a flow that is held for another thing later is told again, and another process tells nothing twice', async () => {
  const world = createWorld(database)
  const alerts = await open(world, webhook())
  const other = await open(world, webhook(), 'two')
  await hold(world, 'the field "price" is gone')
  await after(seconds(16), world, alerts)
  await after(0, world, other)
  await release(world)
  world.clock.at += minutes(10)
  await hold(world, 'the field "name" is gone')
  await after(seconds(16), world, other)
  await after(0, world, alerts)
  expect(told()).toEqual([
    ['flow.held', 'the field "price" is gone'],
    ['flow.held', 'the field "name" is gone'],
  ])
})

test('nobody is told that a flow goes on who does not want to hear of ends', async () => {
  const world = createWorld(database)
  const alerts = await open(world, { ...webhook(), group: { resolved: false } })
  await hold(world, 'the field "price" is gone')
  await after(seconds(16), world, alerts)
  await release(world)
  await after(minutes(10), world, alerts)
  expect(told()).toEqual([['flow.held', 'the field "price" is gone']])
})

test('an access that is lost is told to whoever hears of its destination, with what to do and without a secret', async () => {
  const world = createWorld(database)
  const env = { SLACK_URL: `${hook.url}/slack` }
  const onJobFailed = [
    { type: 'webhook', url: hook.url, destinations: ['tienda'] },
    { type: 'webhook', url: `${hook.url}/dwh`, destinations: ['dwh'] },
    { type: 'slack', url: `\${env:SLACK_URL}` },
  ]
  const alerts = await open(world, { onJobFailed }, 'one', env)
  await lose(world)
  await after(seconds(16), world, alerts)
  await after(minutes(10), world, alerts)
  expect(hook.calls.map(({ url }) => url).toSorted()).toEqual(['/', '/slack'])
  const [body] = hook.bodies().filter(({ type }) => type !== undefined)
  expect(body).toMatchObject({
    type: 'flow.unauthorized',
    data: {
      flow: world.name,
      destination: 'tienda',
      place: `\${env:MELI_REFRESH_TOKEN}`,
      reason:
        'the issuer refused the refresh token (invalid_grant); it was revoked, was used by somebody else, or came back with a restored backup',
    },
  })
  const slack = hook.calls.find(({ url }) => url === '/slack')?.body ?? ''
  expect(slack).toContain('se perdió la autorización de tienda')
  expect(slack).toContain('Autorice la aplicación otra vez')
  expect(slack).toContain(
    'quien lo emite rechazó el refresh token (invalid_grant); se revocó, lo usó otro o volvió con una copia de seguridad',
  )
  expect(slack).not.toContain('the ')
  expect(hook.calls.map(({ body: text }) => text).join()).not.toContain('canary')

  hook.reset()
  await regain(world)
  await after(minutes(10), world, alerts)
  expect(hook.bodies().map(({ type }) => type)).toContain('flow.authorized')
  expect(hook.calls).toHaveLength(2)
})

test('a lost access of the source is told to everybody, also to who hears of one destination only', async () => {
  const world = createWorld(database)
  const alerts = world.process('one')
  running.push(alerts)
  const channel = { type: 'webhook', url: hook.url, destinations: ['dwh'] }
  await alerts.openFlow({
    ...world.flow({ onJobFailed: [channel] }),
    source: { type: 'http', auth: authOf(world) } as AlertFlow['source'],
    destinations: [{ name: 'dwh', type: 'sql' }] as AlertFlow['destinations'],
  })
  await alerts.checkOnce()
  await lose(world)
  await after(minutes(10), world, alerts)
  expect(hook.bodies().map(({ type }) => type)).toEqual(['flow.unauthorized'])
  expect(hook.bodies()[0].data).toMatchObject({ flow: world.name, destination: 'source' })
  await regain(world)
  await after(minutes(10), world, alerts)
  expect(hook.bodies().map(({ type }) => type)).toEqual(['flow.unauthorized', 'flow.authorized'])
})
