import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { clearFaults, forgetRequests, setFaults } from '../support/money.ts'
import { atProvider, providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol, location, type Till } from '../support/till.ts'

let services: Record<'v1' | 'v2', TestService>
let tills: Record<'v1' | 'v2', Till>
beforeAll(async () => {
  const v2 = await startTestService()
  const v1 = await startTestService({ database: v2.database, env: { MP_POS_API: 'v1' } })
  services = { v1, v2 }
  tills = { v1: await enrol(v1, 'first', '1101'), v2: await enrol(v2, 'second', '1102') }
})
beforeEach(async () => {
  await Promise.all(Object.values(services).map(forgetRequests))
})
afterEach(async () => {
  await Promise.all(Object.values(services).map(clearFaults))
})
afterAll(async () => {
  await services.v1.stop()
  await services.v2.stop()
})

const read = async (service: TestService, till: Till, id: string) =>
  call(service, { url: `/stores/${id}`, token: till.key })

describe.each(['v1', 'v2'] as const)('with the POS API %s', (generation) => {
  const posPath = generation === 'v1' ? '^/pos$' : '^/v2/pos$'
  const store = '^/users/[0-9]+/stores$'

  /** Where a creation can fail: at which call, how, and how many stores and boxes the provider made nevertheless. */
  const failures = [
    ['the store failed once', store, { kind: '500' }, 0, 0],
    ['the answer for the store was lost', store, { kind: 'drop_after' }, 1, 0],
    ['the answer for the store was cut', store, { kind: 'torn_body' }, 1, 0],
    ['the call for the store never arrived', store, { kind: 'drop_before' }, 0, 0],
    ['the first box failed repeatedly', posPath, { kind: '500', count: 20 }, 1, 0],
    ['every answer for the boxes was lost', posPath, { kind: 'drop_after', count: 20 }, 1, 1],
    ['the provider answered 429', store, { kind: '429', retry_after: 60 }, 0, 0],
  ] as const

  test('the first box of a new store, which the provider knows some seconds late, is made within the request', async () => {
    const service = services[generation]
    const code = generation === 'v1' ? 'non_existent_external_store_id' : 'store_not_found'
    const rule = { path: posPath, method: 'POST', kind: 'status', status: 404, code } as const
    await setFaults(service, { ...rule, count: 2 })
    const id = `${generation}-late-store`
    const before = service.sleeps.length
    const made = await createStore(service, tills[generation], { id, boxes: [`${id}-A`] })
    expect(made.statusCode, made.body).toBe(201)
    expect(service.sleeps.slice(before)).toEqual([2_000, 4_000])
    // A store that the provider does not have is said after some tries.
    await setFaults(service, rule)
    const url = `/stores/${id}/pos`
    const body = { pos: [{ external_id: `${id}-B`, name: 'B' }] }
    const refused = await call(service, { url, token: tills[generation].key, body })
    expect([refused.statusCode, refused.json().code]).toEqual([502, 'PROVIDER_REJECTED'])
    expect(refused.json().error).toContain('does not know the store of this box yet')
  })

  test.each(failures)('%s: the same request again finishes the work', async (name, path, rule) => {
    const service = services[generation]
    const till = tills[generation]
    const id = `${generation} ${name}`.replace(/[^a-z0-9]+/gi, '-').slice(0, 40)
    const create = () => createStore(service, till, { id, boxes: [`${id}-A`, `${id}-B`] })
    // The search that adopts is a GET and works; only the creation fails.
    await setFaults(service, { path, method: 'POST', count: 1, ...rule })
    const broken = await create()
    await clearFaults(service)
    if (broken.statusCode !== 201) {
      expect([429, 502, 504]).toContain(broken.statusCode)
      expect((await create()).statusCode).toBe(201)
    }
    const after = (await read(service, till, id)).json()
    expect(after).toMatchObject({
      state: 'active',
      pos: [{ state: 'active' }, { state: 'active' }],
    })
    const there = await atProvider(service, till.mpUserId)
    const stores = there.stores.filter(({ name: at }) => at === `Sucursal ${id}`)
    expect(stores.map((one) => String(one.id))).toEqual([after.mp_store_id])
    const boxes = there.pos.filter((box) => box.store_id === stores[0]?.id)
    expect(boxes.map((box) => String(box.id)).sort()).toEqual(
      after.pos.map((box: { mp_pos_id: string }) => box.mp_pos_id).sort(),
    )
    expect((await create()).statusCode).toBe(409)
  })
})

test('a failure in the middle keeps what exists and names the missing boxes', async () => {
  const { v2: service } = services
  const { v2: till } = tills
  const boxes = ['M-A', 'M-B', 'M-C']
  await setFaults(service, {
    path: '/v2/pos',
    method: 'POST',
    kind: 'status',
    status: 422,
    count: 20,
  })
  const broken = await createStore(service, till, { id: 'MIDDLE', boxes })
  expect([broken.statusCode, broken.json().code]).toEqual([502, 'PROVIDER_REJECTED'])
  expect(broken.json().error).toContain('missing boxes: M-A, M-B, M-C')
  await clearFaults(service)
  expect((await read(service, till, 'MIDDLE')).json()).toMatchObject({
    mp_store_id: expect.stringMatching(/^\d+$/),
    state: 'active',
    pos: boxes.map((id) => ({ external_id: id, mp_pos_id: null, state: 'creating' })),
  })
  await forgetRequests(service)
  const again = await createStore(service, till, { id: 'MIDDLE', boxes })
  expect(again.statusCode).toBe(201)
  expect(again.json().pos.map((box: { externalId: string }) => box.externalId)).toEqual(boxes)
  // The store is not made again.
  const made = await providerCalls(service, ['POST'])
  expect(made.map(({ path }) => path)).toEqual(['/v2/pos', '/v2/pos', '/v2/pos'])
})

test('a repeated request without one of the boxes does not create it, and that box stays listed', async () => {
  const { v2: service } = services
  const { v2: till } = tills
  await setFaults(service, {
    path: '/v2/pos',
    method: 'POST',
    kind: 'status',
    status: 422,
    count: 20,
  })
  await createStore(service, till, { id: 'LESS', boxes: ['L-TYPO', 'L-A'] })
  await clearFaults(service)
  const again = await createStore(service, till, { id: 'LESS', boxes: ['L-A'] })
  expect(again.json().pos).toMatchObject([{ externalId: 'L-A' }])
  expect((await read(service, till, 'LESS')).json().pos).toMatchObject([
    { external_id: 'L-A', state: 'active' },
    { external_id: 'L-TYPO', state: 'creating', mp_pos_id: null },
  ])
  const removed = await call(service, {
    method: 'DELETE',
    url: '/stores/LESS/pos/L-TYPO',
    token: till.key,
  })
  expect(removed.statusCode).toBe(200)
  expect((await read(service, till, 'LESS')).json().pos).toHaveLength(1)
})

test('a refused store leaves no row, and the corrected request is a new one', async () => {
  const { v2: service } = services
  const { v2: till } = tills
  const request = (city: string, box: string) =>
    call(service, {
      url: '/stores',
      token: till.key,
      body: {
        name: 'Norte',
        external_id: 'NORTE',
        location: { ...location, city_name: city },
        pos: [{ name: box, external_id: box }],
      },
    })
  const refused = await request('Nunez', 'N-TYPO')
  expect(refused.statusCode).toBe(422)
  expect(refused.json()).toMatchObject({
    code: 'VALIDATION_ERROR',
    details: [
      {
        path: 'location.city_name',
        message: expect.stringMatching(/^the provider refused it \(INVALID_CITY_NAME: .*: Núñez, /),
      },
    ],
  })
  expect((await read(service, till, 'NORTE')).statusCode).toBe(404)
  const created = await request('Núñez', 'N-A')
  expect(created.statusCode).toBe(201)
  const after = (await read(service, till, 'NORTE')).json()
  expect(after).toMatchObject({ location: { city_name: 'Núñez' }, pos: [{ external_id: 'N-A' }] })
})

test('a store of unknown creation takes the corrected names of the repeated request', async () => {
  const { v2: service } = services
  const { v2: till } = tills
  const request = (name: string, box: string) =>
    call(service, {
      url: '/stores',
      token: till.key,
      body: { name, external_id: 'SUR', location, pos: [{ name: box, external_id: box }] },
    })
  await setFaults(service, { path: '/users/', method: 'POST', kind: '500', count: 1 })
  const broken = await request('Sur', 'S-TYPO')
  expect(broken.statusCode).toBe(502)
  expect(broken.json().error).toContain('it is not known whether store SUR was created')
  await clearFaults(service)
  expect((await read(service, till, 'SUR')).json()).toMatchObject({
    state: 'creating',
    mp_store_id: null,
  })
  expect((await request('Sucursal Sur', 'S-A')).statusCode).toBe(201)
  expect((await read(service, till, 'SUR')).json()).toMatchObject({
    name: 'Sucursal Sur',
    pos: [{ external_id: 'S-A' }],
  })
})

test('refused boxes leave no row in a store that existed before', async () => {
  const { v2: service } = services
  const { v2: till } = tills
  await createStore(service, till, { id: 'BASE', boxes: ['BASE-1'] })
  await setFaults(service, {
    path: '/v2/pos',
    method: 'POST',
    kind: 'status',
    status: 422,
    count: 20,
  })
  const add = (...ids: string[]) =>
    call(service, {
      url: '/stores/BASE/pos',
      token: till.key,
      body: { pos: ids.map((id) => ({ name: id, external_id: id })) },
    })
  const refused = await add('BASE-2', 'BASE-3')
  expect(refused.statusCode).toBe(502)
  expect(refused.json().error).toContain('BASE-2, BASE-3')
  expect((await read(service, till, 'BASE')).json().pos).toHaveLength(1)
  await clearFaults(service)
  // One of two boxes is made before the failure; the other one is kept for the repeated request.
  const { length } = await providerCalls(service, ['POST'])
  expect(length).toBeGreaterThan(0)
  const taken = await enrol(service, 'neighbour', '1102')
  await createStore(service, taken, { id: 'NEIGHBOUR', boxes: ['BASE-5'] })
  const half = await add('BASE-4', 'BASE-5')
  expect(half.statusCode).toBe(409)
  expect((await read(service, till, 'BASE')).json().pos).toMatchObject([
    { external_id: 'BASE-1', state: 'active' },
    { external_id: 'BASE-4', state: 'active' },
    { external_id: 'BASE-5', state: 'creating' },
  ])
})

test('without a connection no row is written', async () => {
  const { v2: service } = services
  const offline = await enrol(service, 'offline', '1103')
  await createStore(service, offline, { id: 'OFF', boxes: ['OFF-1'] })
  await call(service, { method: 'POST', url: '/oauth/logout', token: offline.key })
  const before = (await call(service, { url: '/stores', token: offline.key })).json()
  const refusals = [
    await createStore(service, offline, { id: 'OFF-NEW', boxes: ['OFF-2'] }),
    await call(service, {
      url: '/stores/OFF/pos',
      token: offline.key,
      body: { pos: [{ name: 'x', external_id: 'OFF-3' }] },
    }),
    await call(service, { method: 'DELETE', url: '/stores/OFF', token: offline.key }),
    await call(service, { method: 'DELETE', url: '/stores/OFF/pos/OFF-1', token: offline.key }),
  ]
  for (const answer of refusals) {
    expect([answer.statusCode, answer.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  }
  expect((await call(service, { url: '/stores', token: offline.key })).json()).toEqual(before)
})

test('a failed creation is audited as failed, with its reason', async () => {
  const { v2: service } = services
  const till = await enrol(service, 'audited', '1103')
  const post = { method: 'POST', kind: 'status', status: 422, count: 20 }
  await setFaults(service, { path: '/v2/pos', ...post })
  await createStore(service, till, { id: 'MIDDLE', boxes: ['M-A'] })
  await clearFaults(service)
  await setFaults(service, { path: '/users/', method: 'POST', kind: '500', count: 1 })
  await createStore(service, till, { id: 'SUR', boxes: [] })
  await clearFaults(service)
  const body = {
    name: 'Norte',
    external_id: 'NORTE',
    location: { ...location, city_name: 'Nunez' },
  }
  await call(service, { url: '/stores', token: till.key, body })
  const answer = await asAdmin(service, {
    url: '/admin/activity?client=audited&action=store.created&status=failed&limit=200',
  })
  const entries = answer
    .json()
    .logs.map((entry: Record<string, string>) => `${entry.resource_id} ${entry.error_message}`)
  expect(entries).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^MIDDLE PROVIDER_REJECTED: /),
      expect.stringMatching(/^SUR PROVIDER_ERROR: /),
      expect.stringMatching(/^NORTE VALIDATION_ERROR: /),
    ]),
  )
})
