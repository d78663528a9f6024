import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { forgetRequests } from '../support/money.ts'
import { atProvider, providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, createStore, enrol, location, type Till } from '../support/till.ts'

let service: TestService
/** The same database behind a service that uses the provider's first POS API. */
let firstGeneration: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  firstGeneration = await startTestService({
    database: service.database,
    env: { MP_POS_API: 'v1' },
  })
  till = await enrol(service, 'acme', '1001')
  await createStore(service, till, { id: 'SUC-001', boxes: ['CAJA-01', 'CAJA 02'] })
  await createStore(service, till, { id: 'SUC-002', boxes: [] })
})
beforeEach(async () => {
  service.sleeps.length = 0
  await forgetRequests(service)
})
afterAll(async () => {
  await firstGeneration.stop()
  await service.stop()
})

const uuid = expect.stringMatching(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/)
const numberText = expect.stringMatching(/^\d+$/)

/** How often the pause that the specification asks for was slept. */
const pauses = ({ sleeps }: TestService) => sleeps.filter((ms) => ms === 2000).length

test('POST /stores creates a store with its boxes and answers with the ids of both sides', async () => {
  const own = await enrol(service, 'founder', '1004')
  const answer = await createStore(service, own, { id: 'SUC-001', boxes: ['CAJA-01', 'CAJA 02'] })
  expect(answer.statusCode).toBe(201)
  expect(answer.json()).toEqual({
    message: expect.any(String),
    store: { id: uuid, mpStoreId: numberText, externalId: 'SUC-001', name: 'Sucursal SUC-001' },
    pos: [
      { id: uuid, mpPosId: numberText, externalId: 'CAJA-01', name: 'Caja CAJA-01' },
      { id: uuid, mpPosId: numberText, externalId: 'CAJA 02', name: 'Caja CAJA 02' },
    ],
  })
  const { store, pos } = answer.json()
  const there = await atProvider(service, own.mpUserId)
  expect(there.stores.map(({ id }) => String(id))).toEqual([store.mpStoreId])
  expect(there.pos.map(({ id }) => String(id))).toEqual([pos[0].mpPosId, pos[1].mpPosId])
})

test('GET /stores and GET /stores/:id show the fields of the specification', async () => {
  const own = await enrol(service, 'reader', '1005')
  await createStore(service, own, { id: 'SUC-001', boxes: ['CAJA-01', 'CAJA 02'] })
  const one = await call(service, { url: '/stores/SUC-001', token: own.key })
  expect(one.statusCode).toBe(200)
  expect(one.json()).toEqual({
    id: uuid,
    external_id: 'SUC-001',
    name: 'Sucursal SUC-001',
    mp_store_id: numberText,
    location: { ...location, reference: null },
    pos: [
      {
        id: uuid,
        external_id: 'CAJA 02',
        name: 'Caja CAJA 02',
        mp_pos_id: numberText,
        state: 'active',
      },
      {
        id: uuid,
        external_id: 'CAJA-01',
        name: 'Caja CAJA-01',
        mp_pos_id: numberText,
        state: 'active',
      },
    ],
    created_at: expect.stringMatching(/Z$/),
    state: 'active',
  })
  const list = await call(service, { url: '/stores', token: own.key })
  expect(list.json()).toEqual({ stores: [one.json()], total: 1 })
})

test('the second POS API is called as documented: store first, then box by box', async () => {
  await createStore(service, till, { id: 'S2', boxes: ['B21', 'B-22'] })
  const [storeCall, ...boxCalls] = await providerCalls(service, ['POST'])
  expect(storeCall).toMatchObject({ path: '/users/1001/stores', query: '', user_id: 1001 })
  expect(storeCall?.body).toEqual({ name: 'Sucursal S2', external_id: 'S2', location })
  // The provider documents no idempotency for stores.
  expect(storeCall?.headers).not.toHaveProperty('x-idempotency-key')
  const rows = await service.database.db.selectFrom('pos').selectAll().execute()
  const row = (externalId: string) => rows.find(({ external_id }) => external_id === externalId)
  const { mp_store_id } = (await call(service, { url: '/stores/S2', token: till.key })).json()
  const sent = boxCalls.map(({ path, body, headers }) => ({
    path,
    body,
    key: headers['x-idempotency-key'],
  }))
  expect(sent).toEqual([
    {
      path: '/v2/pos',
      body: { name: 'Caja B21', external_id: 'B21', store_id: mp_store_id },
      key: row('B21')?.id,
    },
    {
      path: '/v2/pos',
      body: { name: 'Caja B-22', external_id: row('B-22')?.mp_external_id, store_id: mp_store_id },
      key: row('B-22')?.id,
    },
  ])
})

test('the first POS API is called as documented', async () => {
  const old = await enrol(firstGeneration, 'old', '1002')
  await forgetRequests(firstGeneration)
  const answer = await createStore(firstGeneration, old, { id: 'S-OLD', boxes: ['B1'] })
  expect(answer.statusCode).toBe(201)
  const calls = await providerCalls(firstGeneration, ['POST'])
  expect(calls.map(({ path }) => path)).toEqual(['/users/1002/stores', '/pos'])
  const [storeCall, boxCall] = calls
  const { external_id } = (storeCall?.body ?? {}) as { external_id?: string }
  expect(boxCall?.body).toEqual({
    name: 'Caja B1',
    external_id: 'B1',
    store_id: answer.json().store.mpStoreId,
    external_store_id: external_id,
    fixed_amount: true,
  })
  expect(boxCall?.headers).not.toHaveProperty('x-idempotency-key')
  const deleted = await call(firstGeneration, {
    method: 'DELETE',
    url: '/stores/S-OLD',
    token: old.key,
  })
  expect(deleted.json().deleted).toEqual({ store: 1, pos: 1 })
  const deletions = await providerCalls(firstGeneration, ['DELETE'])
  expect(deletions.map(({ path }) => path)).toEqual([
    `/pos/${answer.json().pos[0].mpPosId}`,
    `/users/1002/stores/${answer.json().store.mpStoreId}`,
  ])
})

test('the optional reference of the location is passed on, an empty one as none', async () => {
  for (const [id, reference, sent] of [
    ['R1', 'Planta baja', { reference: 'Planta baja' }],
    ['R2', '', {}],
    ['R3', null, {}],
  ] as const) {
    await forgetRequests(service)
    const answer = await call(service, {
      url: '/stores',
      token: till.key,
      body: { name: id, external_id: id, location: { ...location, reference } },
    })
    expect(answer.statusCode).toBe(201)
    expect(answer.json().pos).toEqual([])
    const [asked] = await providerCalls(service, ['POST'])
    expect(asked?.body).toEqual({ name: id, external_id: id, location: { ...location, ...sent } })
    const read = await call(service, { url: `/stores/${id}`, token: till.key })
    expect(read.json().location.reference).toBe(reference || null)
  }
})

test('any ERP id and name reach the provider in its alphabet and come back as the ERP wrote them', async () => {
  const store = { id: 'Suc. Nº 1/«Ñandú»', boxes: ['caja/7', 'caja.7', 'Caja 7', '日本-7'] }
  const body = {
    name: 'Sucursal «Ñandú» & Cía.',
    external_id: store.id,
    location,
    pos: store.boxes.map((id) => ({ name: `Caja «${id}» ¡ñ! ${'x'.repeat(60)}`, external_id: id })),
  }
  const answer = await call(service, { url: '/stores', token: till.key, body })
  expect(answer.statusCode, answer.body).toBe(201)
  expect(answer.json().store.externalId).toBe(store.id)
  const boxes = answer.json().pos
  expect(boxes.map((box: { externalId: string }) => box.externalId)).toEqual(store.boxes)
  expect(boxes[0].name).toMatch(/^Caja «/)
  const sent = await providerCalls(service, ['POST'])
  const ids = sent.map(({ body: asked }) => (asked as { external_id: string }).external_id)
  expect(ids[0]).toMatch(/^[A-Za-z0-9]{1,60}$/)
  expect(new Set(ids).size).toBe(5)
  for (const asked of sent.slice(1)) {
    const { external_id, name } = asked.body as { external_id: string; name: string }
    expect(external_id).toMatch(/^[A-Za-z0-9]{1,39}$/)
    expect(name).toMatch(/^[A-Za-z0-9_-][A-Za-z0-9 _-]{0,43}[A-Za-z0-9_-]$/)
  }
  const path = `/stores/${encodeURIComponent(store.id)}`
  expect((await call(service, { url: path, token: till.key })).json().name).toBe(body.name)
})

test('a box whose name has no letter of the provider’s alphabet is named by its id', async () => {
  const pos = [{ name: '日本', external_id: 'J1' }]
  await call(service, { url: '/stores/SUC-002/pos', token: till.key, body: { pos } })
  const [asked] = await providerCalls(service, ['POST'])
  expect(asked?.body).toMatchObject({ name: 'J1', external_id: 'J1' })
})

test('a request pauses two seconds between its boxes, and only there', async () => {
  await createStore(service, till, { id: 'P0', boxes: [] })
  expect(pauses(service)).toBe(0)
  await createStore(service, till, { id: 'P1', boxes: ['P1A'] })
  expect(pauses(service)).toBe(0)
  await createStore(service, till, { id: 'P4', boxes: ['P4A', 'P4B', 'P4C', 'P4D'] })
  expect(pauses(service)).toBe(3)
  await call(service, {
    url: '/stores/P0/pos',
    token: till.key,
    body: { pos: ['X', 'Y', 'Z'].map((id) => ({ name: id, external_id: id })) },
  })
  expect(pauses(service)).toBe(5)
})

test('POST /stores/:id/pos adds boxes to a store and answers with those only', async () => {
  const pos = [{ name: 'Caja 9', external_id: 'CAJA-09' }]
  const before = (await call(service, { url: '/stores/SUC-001', token: till.key })).json().pos
  const answer = await call(service, { url: '/stores/SUC-001/pos', token: till.key, body: { pos } })
  expect(answer.statusCode).toBe(201)
  expect(answer.json()).toEqual({
    message: expect.any(String),
    pos: [{ id: uuid, mpPosId: numberText, externalId: 'CAJA-09', name: 'Caja 9' }],
  })
  const read = await call(service, { url: '/stores/SUC-001', token: till.key })
  expect(read.json().pos).toHaveLength(before.length + 1)
})

test('adding boxes to an unknown store is 404 and calls no provider', async () => {
  const pos = [{ name: 'Caja', external_id: 'LOST' }]
  const answer = await call(service, { url: '/stores/NONE/pos', token: till.key, body: { pos } })
  expect([answer.statusCode, answer.json().code]).toEqual([404, 'NOT_FOUND'])
  expect(await providerCalls(service)).toEqual([])
})

test('creating a complete store again is 409, and nothing is called or changed', async () => {
  const before = (await call(service, { url: '/stores/SUC-001', token: till.key })).json()
  const answer = await createStore(service, till, { id: 'SUC-001', boxes: ['NEW-BOX'] })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONFLICT'])
  expect(await providerCalls(service)).toEqual([])
  expect((await call(service, { url: '/stores/SUC-001', token: till.key })).json()).toEqual(before)
})

test('a box id of a client is unique: an existing one is 409, twice in a request is 422', async () => {
  const add = (store: string, ...ids: string[]) =>
    call(service, {
      url: `/stores/${store}/pos`,
      token: till.key,
      body: { pos: ids.map((id) => ({ name: id, external_id: id })) },
    })
  for (const store of ['SUC-001', 'SUC-002']) {
    const answer = await add(store, 'CAJA-01')
    expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONFLICT'])
    expect(answer.json().error).toContain('CAJA-01')
  }
  const mixed = await add('SUC-002', 'S2-NEW', 'CAJA-01')
  expect(mixed.statusCode).toBe(409)
  const twice = await add('SUC-002', 'S2-A', 'S2-B', 'S2-A')
  expect(twice.statusCode).toBe(422)
  expect(twice.json().details).toMatchObject([{ path: 'pos.2.external_id' }])
  const created = await createStore(service, till, { id: 'S3', boxes: ['S3-A', 'CAJA-01'] })
  expect(created.statusCode).toBe(409)
  expect((await call(service, { url: '/stores/S3', token: till.key })).statusCode).toBe(404)
  expect(await providerCalls(service, ['POST'])).toEqual([])
})

test('another client may use the same ids, and each reads its own', async () => {
  const other = await enrol(service, 'other', '1003')
  const answer = await createStore(service, other, { id: 'SUC-001', boxes: ['CAJA-01'] })
  expect(answer.statusCode).toBe(201)
  const mine = (await call(service, { url: '/stores/SUC-001', token: till.key })).json()
  const theirs = (await call(service, { url: '/stores/SUC-001', token: other.key })).json()
  expect(theirs.mp_store_id).not.toBe(mine.mp_store_id)
  expect(theirs.pos).toHaveLength(1)
})

test('a client on the same account neither takes over nor deletes the store of the first one', async () => {
  const duplicate = await enrol(service, 'duplicate', '1001')
  const before = await atProvider(service, 1001)
  const answer = await createStore(service, duplicate, { id: 'SUC-001', boxes: ['CAJA-01'] })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'CONFLICT'])
  expect((await call(service, { url: '/stores', token: duplicate.key })).json().total).toBe(0)
  await createStore(service, duplicate, { id: 'SECOND', boxes: [] })
  const pos = [{ name: 'Caja', external_id: 'CAJA-01' }]
  const box = await call(service, {
    url: '/stores/SECOND/pos',
    token: duplicate.key,
    body: { pos },
  })
  expect([box.statusCode, box.json().code]).toEqual([409, 'CONFLICT'])
  expect((await call(service, { url: '/stores/SECOND', token: duplicate.key })).json().pos).toEqual(
    [],
  )
  await call(service, { method: 'DELETE', url: '/stores/SECOND', token: duplicate.key })
  expect(await atProvider(service, 1001)).toEqual(before)
})

test('equal requests at the same time make one store: one creates it, the other is 409', async () => {
  for (let round = 0; round < 5; round++) {
    await forgetRequests(service)
    const id = `RACE-${round}`
    const answers = await Promise.all(
      [0, 1].map(() => createStore(service, till, { id, boxes: [`${id}-A`, `${id}-B`] })),
    )
    expect(answers.map(({ statusCode }) => statusCode).sort()).toEqual([201, 409])
    const made = await providerCalls(service, ['POST'])
    expect(made.map(({ path }) => path)).toEqual(['/users/1001/stores', '/v2/pos', '/v2/pos'])
  }
})

test('creating a store writes an audit entry for the store and for each box', async () => {
  const own = await enrol(service, 'audited', '1006')
  await createStore(service, own, { id: 'SUC-001', boxes: ['CAJA-01'] })
  const answer = await asAdmin(service, { url: '/admin/activity?client=audited' })
  const entries = answer
    .json()
    .logs.map((entry: Record<string, string>) => [entry.action, entry.resource_id, entry.status])
  expect(entries).toEqual(
    expect.arrayContaining([
      ['pos.created', 'CAJA-01', 'success'],
      ['store.created', 'SUC-001', 'success'],
    ]),
  )
})
