import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { Secret } from '../../src/domain/secret.ts'
import type { AlertFlow, Alerts } from '../../src/notifications/flow-alerts.ts'
import { grantIdOf } from '../../src/sync/oauth/lost-grant.ts'
import { openTestDatabase } from '../support/database.ts'
import { createWorld, minutes, seconds, type World } from './failure-world.ts'
import { openHttpReceiver } from './receivers.ts'

/** Whoever is told of failures is told when nothing to a destination is sent, and when it is again. */
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
