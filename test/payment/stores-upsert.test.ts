import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { serviceActor } from '../../src/payments/request-context.ts'
import { upsertStore } from '../../src/payments/stores/upsert-store.ts'
import { forgetRequests, setFaults } from '../support/money.ts'
import { atProvider, providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, enrol, sandboxCall, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

const location = {
  streetName: 'Av. Corrientes',
  streetNumber: '1234',
  cityName: 'Balvanera',
  stateName: 'Capital Federal',
  latitude: -34.6037,
  longitude: -58.3816,
  reference: null,
}

async function upsert(till: Till, name: string, pos: { externalId: string; name: string }[]) {
  await upsertStore(
    service.deps,
    asClientName(till.client),
    { store: { externalId: 'SUC-1', name, location }, pos },
    serviceActor(service.clock.now()),
  )
}

test('an upsert creates a store, changes it, adds and renames its boxes, and repeats nothing', async () => {
  const till = await enrol(service, 'acme')
  await upsert(till, 'Centro', [{ externalId: 'CAJA-1', name: 'Caja 1' }])
  await upsert(till, 'Centro Nuevo', [
    { externalId: 'CAJA-1', name: 'Caja Uno' },
    { externalId: 'CAJA-2', name: 'Caja 2' },
  ])
  const { stores } = (await call(service, { url: '/stores', token: till.key })).json()
  expect(stores).toMatchObject([
    {
      name: 'Centro Nuevo',
      pos: [
        { external_id: 'CAJA-1', name: 'Caja Uno' },
        { external_id: 'CAJA-2', name: 'Caja 2' },
      ],
    },
  ])
  const state = await atProvider(service, till.mpUserId)
  expect(state.stores.map((store) => store.name)).toEqual(['Centro Nuevo'])
  expect(state.pos.map((pos) => pos.name).sort()).toEqual(['Caja 2', 'Caja Uno'])

  await sandboxCall(service, 'DELETE', '/_sandbox/requests')
  await upsert(till, 'Centro Nuevo', [{ externalId: 'CAJA-2', name: 'Caja 2' }])
  expect(await sandboxCall(service, 'GET', '/_sandbox/requests')).toMatchObject({ requests: [] })
})

test.each([
  ['store', '/users/', 'PUT', ['Norte', 'Sur'], ['Caja 1', 'Caja 1']],
  ['box', '/v2/pos/', 'PATCH', ['Centro', 'Centro'], ['Caja A', 'Caja B']],
] as const)(
  'two changes of a %s at the same time leave it as the provider has it',
  { tags: ['long'] },
  async (what, path, method, names, boxes) => {
    const till = await enrol(service, `two of a ${what}`, what === 'box' ? '1302' : '1301')
    const make = (index: 0 | 1) =>
      upsert(till, names[index], [{ externalId: 'CAJA-1', name: boxes[index] }])
    await upsert(till, 'Centro', [{ externalId: 'CAJA-1', name: 'Caja 1' }])
    await forgetRequests(service)
    // The first answer would arrive after the second change has ended.
    await setFaults(service, { path, method, kind: 'latency_after', delay_ms: 200, count: 1 })
    const first = make(0)
    await expect.poll(async () => (await providerCalls(service, [method])).length).toBe(1)
    await make(1).catch(() => undefined)
    await first
    const there = await atProvider(service, till.mpUserId)
    const here = (await call(service, { url: '/stores/SUC-1', token: till.key })).json()
    expect([here.name, here.pos[0].name]).toEqual([there.stores[0]?.name, there.pos[0]?.name])
  },
)
