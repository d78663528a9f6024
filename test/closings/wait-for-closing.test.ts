import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, type Till } from '../support/till.ts'
import { close, openClosing, sell, watchAfter } from './shop-day.ts'

/** `GET /closings/{id}?wait=` answers with the result as soon as there is one. */
let service: TestService
/** What deadlines go by. */
let atMs = 0

beforeAll(async () => {
  service = await startTestService({ stopwatch: () => atMs })
})
afterAll(() => service.stop())
afterEach(() => {
  service.onSleep.current = undefined
})

const read = (till: Till, id: string, wait: number | string) =>
  call(service, { url: `/closings/${id}?wait=${wait}`, token: till.key })

async function openDay(client: string): Promise<{ till: Till; id: string }> {
  const till = await openOwnShop(service, client)
  await sell(service, till, 'R-1')
  return { till, id: (await openClosing(service, till)).json().id }
}

test('a waiting till gets the result when the closing is compared', async () => {
  const { till, id } = await openDay('waits')
  service.onSleep.current = async () => {
    service.onSleep.current = undefined
    await watchAfter(service, 61_000)
  }
  const { state, totals } = (await read(till, id, 30)).json()
  expect([state, totals.here.amount]).toEqual(['agreed', '1000.00'])
})

test('after the time a closing without a result is answered as it is', async () => {
  const { till, id } = await openDay('late')
  const before = service.sleeps.length
  service.onSleep.current = async () => {
    atMs += 1_000
  }
  expect((await read(till, id, 3)).json()).toMatchObject({ id, state: 'open' })
  expect(service.sleeps.slice(before)).toEqual([1_000, 1_000, 1_000])
})

test('a closing with a result is answered at once, and an unknown one is 404', async () => {
  const till = await openOwnShop(service, 'ready')
  const { id } = await close(service, till)
  const before = service.sleeps.length
  expect((await read(till, id, 30)).statusCode).toBe(200)
  expect((await read(till, '5e6d7c8b-0000-4000-8000-000000000000', 30)).statusCode).toBe(404)
  expect((await read(till, id, 31)).statusCode).toBe(422)
  expect(service.sleeps.length).toBe(before)
})

test('a key that is revoked meanwhile gets no closing', async () => {
  const { till, id } = await openDay('revoked')
  service.onSleep.current = async () => {
    service.onSleep.current = undefined
    await asAdmin(service, { url: '/api-keys/revoke', body: { client: till.client } })
  }
  expect((await read(till, id, 30)).statusCode).toBe(401)
})

test('waiting requests take no turn from the lists of their client', async () => {
  const { till, id } = await openDay('turns')
  const go = Promise.withResolvers<void>()
  let waiting = 0
  service.onSleep.current = async () => {
    waiting += 1
    await go.promise
    atMs += 60_000
  }
  const waits = [1, 2, 3, 4, 5].map(() => read(till, id, 30))
  await expect.poll(() => waiting).toBe(5)
  expect((await call(service, { url: '/closings', token: till.key })).statusCode).toBe(200)
  go.resolve()
  for (const answer of await Promise.all(waits)) expect(answer.statusCode).toBe(200)
})
