import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Sandbox } from '../../sandbox/server.ts'
import {
  type Connection,
  call,
  connect,
  createClock,
  location,
  startTestSandbox,
} from './support.ts'

const clock = createClock()
let sandbox: Sandbox
let seller: Connection

beforeEach(async () => {
  sandbox = await startTestSandbox({ now: clock.now })
  seller = await connect(sandbox)
})
afterEach(() => sandbox.close())

function ask(method: string, path: string, body?: unknown, key?: string) {
  return call(sandbox, method, path, {
    token: seller.token,
    body,
    ...(key !== undefined && { key }),
  })
}

async function makeStore(external_id = 'SUC001', changes: object = {}) {
  return ask('POST', `/users/${seller.userId}/stores`, {
    name: 'Sucursal Centro',
    external_id,
    location,
    ...changes,
  })
}

describe('stores', () => {
  it('are made, found, read, changed and deleted', async () => {
    const hours = { monday: [{ open: '08:00', close: '20:00' }] }
    const made = await makeStore('SUC001', { business_hours: hours })
    expect(made.status).toBe(201)
    expect(made.body).toEqual({
      id: expect.any(Number),
      name: 'Sucursal Centro',
      date_created: '2026-11-20T14:00:00.000Z',
      business_hours: hours,
      location: {
        address_line: 'Av. Corrientes 1234, Balvanera, Capital Federal, Argentina',
        latitude: -34.6037,
        longitude: -58.3816,
      },
      external_id: 'SUC001',
    })
    await makeStore('SUC002')
    const path = `/users/${seller.userId}/stores`
    const found = await ask('GET', `${path}/search?external_id=SUC001`)
    expect(found.body.paging).toEqual({ total: 1, offset: 0, limit: 50 })
    expect(found.body.results[0]).toMatchObject({
      id: String(made.body.id),
      date_creation: '2026-11-20T14:00:00.000Z',
    })
    const paged = await ask('GET', `${path}/search?limit=1&offset=1`)
    expect(paged.body.results.map((store: { external_id: string }) => store.external_id)).toEqual([
      'SUC002',
    ])
    expect((await ask('GET', `/stores/${made.body.id}`)).body).toEqual(found.body.results[0])
    const changed = await ask('PUT', `${path}/${made.body.id}`, { name: 'Otro' })
    expect(changed).toMatchObject({ status: 200, body: { name: 'Otro', external_id: 'SUC001' } })
    const deleted = await ask('DELETE', `${path}/${made.body.id}`)
    expect(deleted).toMatchObject({
      status: 200,
      body: { store: made.body.id, user: seller.userId },
    })
    expect((await ask('GET', `/stores/${made.body.id}`)).status).toBe(404)
  })

  it('refuse a second use of external_id, also by an update that repeats its own', async () => {
    const { body } = await makeStore()
    const duplicate = {
      status: 400,
      body: {
        message: "external id 'SUC001' is already assigned to this user",
        status: 400,
        cause: [],
      },
    }
    expect(await makeStore()).toMatchObject(duplicate)
    const path = `/users/${seller.userId}/stores/${body.id}`
    expect(await ask('PUT', path, { external_id: 'SUC001' })).toMatchObject(duplicate)
    const other = await connect(sandbox, 5001)
    seller = other
    expect((await makeStore()).status).toBe(201)
  })

  it.each([
    [{ name: '' }, 'INVALID_NAME'],
    [{ extra: 1 }, 'UNKNOWN_FIELD'],
    [{ external_id: 'SUC-1' }, 'VALIDATION_ERROR'],
    [{ external_id: 'S'.repeat(61) }, 'VALIDATION_ERROR'],
    [{ location: 'x' }, 'INVALID_LOCATION'],
    [{ location: { ...location, street_number: 12 } }, 'INVALID_STREET_NUMBER'],
    [{ location: { ...location, latitude: '1' } }, 'INVALID_LATITUDE'],
    [{ location: { ...location, longitude: 181 } }, 'INVALID_LONGITUDE'],
    [{ location: { ...location, state_name: 'Cordoba' } }, 'INVALID_STATE_NAME'],
    [{ location: { ...location, city_name: 'Nunez' } }, 'INVALID_CITY_NAME'],
    [{ business_hours: { someday: [] } }, 'INVALID_DAY'],
    [{ business_hours: { monday: [{ open: '8', close: '9' }] } }, 'INVALID_BUSINESS_HOURS'],
  ])('refuse %o', async (change, error) => {
    const answer = await makeStore('SUC001', change)
    expect(answer).toMatchObject({ status: 400, body: { error, status: 400 } })
  })

  it('belong to the seller of the token', async () => {
    const { body } = await makeStore()
    expect((await ask('GET', '/users/1/stores/search')).status).toBe(403)
    expect((await ask('GET', '/users/me-not/stores/search')).body.error).toBe('INVALID_USER_ID')
    const other = await connect(sandbox, 5001)
    const hidden = await call(sandbox, 'GET', `/stores/${body.id}`, { token: other.token })
    expect(hidden.status).toBe(404)
  })

  it('stay while they have boxes', async () => {
    const { body } = await makeStore()
    const pos = await ask('POST', '/pos', { name: 'Caja 1', store_id: body.id })
    const path = `/users/${seller.userId}/stores/${body.id}`
    expect((await ask('DELETE', path)).status).toBe(400)
    expect((await ask('DELETE', `/pos/${pos.body.id}`)).status).toBe(204)
    expect((await ask('DELETE', path)).status).toBe(200)
  })
})

describe('POS v1', () => {
  it('are made by either store reference, found, read, changed and deleted', async () => {
    const store = (await makeStore()).body
    const made = await ask('POST', '/pos', {
      name: 'Caja 1',
      fixed_amount: true,
      category: 621102,
      external_store_id: 'SUC001',
      external_id: 'SUC001POS001',
    })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      id: expect.any(Number),
      qr: { image: expect.stringContaining('https://') },
      status: 'active',
      user_id: seller.userId,
      fixed_amount: true,
      category: 621102,
      store_id: String(store.id),
      external_store_id: 'SUC001',
      external_id: 'SUC001POS001',
    })
    const found = await ask('GET', `/pos?store_id=${store.id}&external_id=SUC001POS001`)
    expect(found.body.results).toEqual([made.body])
    expect((await ask('GET', '/pos?external_id=OTHER')).body.paging.total).toBe(0)
    const path = `/pos/${made.body.id}`
    const changed = await ask('PUT', path, { name: 'Caja A' })
    expect(changed.body).toMatchObject({ name: 'Caja A', external_id: 'SUC001POS001' })
    expect(changed.body).not.toHaveProperty('qr')
    expect((await ask('GET', path)).body.name).toBe('Caja A')
    expect(await ask('DELETE', path)).toMatchObject({ status: 204, body: '' })
    expect((await ask('GET', path)).status).toBe(404)
    expect((await ask('DELETE', path)).status).toBe(404)
  })

  it('refuse a second use of external_id with 409', async () => {
    const { body } = await makeStore()
    const make = () => ask('POST', '/pos', { name: 'Caja', store_id: body.id, external_id: 'C1' })
    const first = await make()
    const duplicate = {
      status: 409,
      body: {
        message: 'Point of sale with corresponding user and id exists',
        error: 'point_of_sale_exists',
        status: 409,
        cause: [],
      },
    }
    expect(await make()).toMatchObject(duplicate)
    expect(await ask('PUT', `/pos/${first.body.id}`, { external_id: 'C1' })).toMatchObject(
      duplicate,
    )
  })

  it.each([
    [undefined, 'MISSING_BODY'],
    [{ store_id: 0 }, 'INVALID_NAME'],
    [{ name: 'n'.repeat(45) }, 'NAME_TOO_LONG'],
    [{ name: 'Caja' }, 'INVALID_STORE_ID'],
    [{ name: 'Caja', store_id: 'x' }, 'INVALID_STORE_ID'],
    [{ name: 'Caja', external_store_id: 'NOPE' }, 'INEXISTENT_EXTERNAL_STORE_ID'],
    [{ name: 'Caja', external_id: 'CAJA-1' }, 'INVALID_EXTERNAL_ID'],
    [{ name: 'Caja', external_id: 'C'.repeat(40) }, 'EXTERNAL_ID_TOO_LONG'],
    [{ name: 'Caja', category: 1 }, 'UNKNOWN_MCC'],
    [{ name: 'Caja', fixed_amount: 'yes' }, 'INVALID_FIXED_AMOUNT'],
    [{ name: 'Caja', typo: 1 }, 'UNKNOWN_FIELD_EXCEPTION'],
  ])('refuse %o', async (body, error) => {
    expect(await ask('POST', '/pos', body)).toMatchObject({ status: 400, body: { error } })
  })

  it('refuse two store references that contradict each other', async () => {
    const { body } = await makeStore('SUC001')
    await makeStore('SUC002')
    const answer = await ask('POST', '/pos', {
      name: 'Caja',
      store_id: body.id,
      external_store_id: 'SUC002',
    })
    expect(answer.body.error).toBe('EXTERNAL_STORE_ID_NOT_MATCH')
  })
})

describe('POS v2', () => {
  it('are made once per key', async () => {
    const store = (await makeStore()).body
    const body = { name: 'Caja 1', store_id: String(store.id), external_id: 'C1' }
    const made = await ask('POST', '/v2/pos', body, 'k1')
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      id: expect.any(Number),
      date_created: '2026-11-20T14:00:00Z',
      store_id: String(store.id),
      qr_response: { uuid: expect.any(String), qr_code: expect.any(String) },
    })
    expect(await ask('POST', '/v2/pos', body, 'k1')).toMatchObject({ status: 201, body: made.body })
    const other = await ask('POST', '/v2/pos', { ...body, name: 'Otra' }, 'k1')
    expect(other).toMatchObject({
      status: 400,
      body: { errors: [{ code: 'idempotency_key_already_used' }] },
    })
    const taken = await ask('POST', '/v2/pos', body, 'k2')
    expect(taken).toMatchObject({ status: 409, body: { errors: [{ code: 'pos_already_exists' }] } })
    expect((await ask('GET', '/v2/pos?external_id=C1')).body.results).toEqual([made.body])
    const path = `/v2/pos/${made.body.id}`
    expect((await ask('PATCH', path, { name: 'Caja B' })).body.name).toBe('Caja B')
    expect((await ask('DELETE', path)).status).toBe(204)
    expect((await ask('GET', path)).status).toBe(404)
  })

  it('takes its name from external_id when it has none', async () => {
    await makeStore()
    const made = await ask(
      'POST',
      '/v2/pos',
      { external_store_id: 'SUC001', external_id: 'C9' },
      'k',
    )
    expect(made.body.name).toBe('C9')
  })

  it.each([
    [{ store_id: 123 }, 400, 'bad_request', 'store_id expected string, but got number'],
    [{ external_id: 'C-1' }, 400, 'bad_request', 'external_id does not meet the expected format'],
    [{ name: 'Caja Ñandú' }, 400, 'bad_request', 'name does not meet the expected format'],
    [{ name: ' Caja' }, 400, 'bad_request', 'name does not meet the expected format'],
    [{ fixed_amount: true }, 400, 'bad_request', 'fixed_amount is not supported'],
    [{ name: 'Caja' }, 400, 'bad_request', 'store_id or external_store_id is required'],
    [{ name: 'Caja', store_id: '1' }, 404, 'store_not_found', 'Store not found'],
    [
      { external_store_id: 'NOPE' },
      400,
      'invalid_external_store_id',
      'external_store_id is not valid',
    ],
  ])('refuse %o', async (body, status, code, message) => {
    expect(await ask('POST', '/v2/pos', body, 'k')).toMatchObject({
      status,
      body: { errors: [{ code, message }] },
    })
  })

  it('demand a key of 1 to 64 characters', async () => {
    const missing = await ask('POST', '/v2/pos', {})
    expect(missing.body.errors[0].message).toBe('Missing X-Idempotency-Key header')
    expect((await ask('POST', '/v2/pos', {}, 'k'.repeat(65))).status).toBe(400)
  })
})
