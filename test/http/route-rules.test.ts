import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyInstance, RouteOptions } from 'fastify'
import { fastifyPlugin } from 'fastify-plugin'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Audience } from '../../src/http/audiences.ts'
import { createServer } from '../../src/http/create-server.ts'
import { type Authentication, guard } from '../../src/http/guard.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'

/** What each route says of itself: whose it is, and what a person needs for it. */
const routes = new Map<unknown, RouteOptions[]>()
const collect = (message: unknown) => {
  const { fastify } = message as { fastify: FastifyInstance }
  const own: RouteOptions[] = []
  routes.set(fastify.server, own)
  fastify.addHook('onRoute', (route) => void own.push(route))
}

let service: TestService
let flows: TestFlows
beforeAll(async () => {
  subscribe('fastify.initialization', collect)
  service = await startTestService()
  flows = await startTestFlows({ service })
})
afterAll(async () => {
  unsubscribe('fastify.initialization', collect)
  await flows.stop()
  await service.stop()
})

const nameOf = ({ method, url }: RouteOptions) => `${method} ${url}`
const listeners = { payment: () => service.app, control: () => flows.app }

describe.each(Object.entries(listeners))('%s listener', (name, appOf) => {
  const routesHere = () => routes.get(appOf().server) ?? []
  const guarded = () => routesHere().filter(({ config }) => config?.audience !== 'public')

  test('T3: every route has an audience, and what is not public says what it needs', () => {
    expect(guarded().length).toBeGreaterThan(40)
    const silent = routesHere().filter(({ config }) => config?.audience === undefined)
    expect(silent.map(nameOf)).toEqual([])
    expect(
      guarded()
        .filter(({ config }) => !config?.needs)
        .map(nameOf),
    ).toEqual([])
  })

  test('where people of a client come, a route says how it keeps them to their stores', () => {
    const ofClients = guarded().filter(({ config }) =>
      ['client', 'managers', 'person'].includes(String(config?.audience)),
    )
    expect(ofClients.length > 0).toBe(name === 'payment')
    expect(ofClients.filter(({ config }) => !config?.within).map(nameOf)).toEqual([])
  })

  test('only reads are compressed and run in turns', () => {
    const lists = routesHere().filter(({ compress }) => compress)
    expect(lists.length).toBeGreaterThan(10)
    expect(lists.filter(({ method }) => method !== 'GET').map(nameOf)).toEqual([])
  })

  test('no route answers with a slash more at its end', () => {
    const twice = guarded().filter(({ method, url }) =>
      appOf().hasRoute({ method: method as 'GET', url: `${url}/` }),
    )
    expect(twice.map(nameOf)).toEqual([])
    const page = name === 'payment' ? 'dashboard' : 'admin'
    const slashes = routesHere().filter(({ url }) => /.\/$/.test(url))
    expect(slashes.map(nameOf)).toEqual(['GET /docs/', `GET /${page}/`])
  })

  test('six hooks of ours stand on the root', () => {
    expect(rootHooks(appOf())).toEqual({
      // One each of ours, and of @fastify/cookie.
      onRequest: 2,
      onSend: 2,
      preValidation: 1,
      preHandler: 1,
      // One of ours, and of this test, of @fastify/swagger, rate-limit and compress.
      onRoute: 5,
      preClose: 1,
      // Of @fastify/swagger and of @fastify/rate-limit.
      onReady: 1,
      onRegister: 1,
    })
  })
})

/** How many hooks of each stage hold for all routes of a listener. */
function rootHooks(app: FastifyInstance): Record<string, number> {
  const symbol = Object.getOwnPropertySymbols(app).find(
    ({ description }) => description === 'fastify.hooks',
  )
  const hooks = Object.entries(Reflect.get(app, symbol as symbol) as Record<string, unknown[]>)
  return Object.fromEntries(
    hooks.flatMap(([stage, { length }]) => (length ? [[stage, length]] : [])),
  )
}

describe('a route of people', () => {
  const serverWith = async (audience: Audience, config: RouteOptions['config']) => {
    const app = createServer({ logger: false })
    app.register(fastifyPlugin(async () => undefined, { name: 'authentication' }))
    app.decorate('authentication', {} as Authentication)
    app.register(async (scope) => {
      await scope.register(guard, { audience })
      scope.get('/things', { ...(config && { config }) }, async () => ({}))
    })
    return app.ready()
  }

  test('T57: stops the start when it does not say what it needs', async () => {
    await expect(serverWith('client', {})).rejects.toThrow(
      'GET /things does not say needs and within',
    )
    await expect(serverWith('managers', { needs: 'see' })).rejects.toThrow('say within')
    await expect(serverWith('admin', undefined)).rejects.toThrow('say needs')
    await serverWith('client', { needs: 'see', within: 'list' })
    await serverWith('admin', { needs: 'administer' })
    await serverWith('public', undefined)
  })
})
