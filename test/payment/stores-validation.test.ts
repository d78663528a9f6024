import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { forgetRequests } from '../support/money.ts'
import { providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { asAdmin, type Call, call, enrol, location, type Till } from '../support/till.ts'

let service: TestService
let till: Till
beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme', '1301')
})
beforeEach(() => forgetRequests(service))
afterAll(() => service.stop())

const send = (request: Call) => call(service, { ...request, token: till.key })
const box = { name: 'Caja 1', external_id: 'C-1' }
const store = { name: 'Sucursal', external_id: 'S-1', location, pos: [box] }

/** The store with one field changed, or removed with undefined; `path` is dotted. */
function storeWith(path: string, value: unknown): object {
  const body = structuredClone(store) as Record<string, unknown>
  const names = path.split('.')
  const last = names.pop() as string
  let place = body
  for (const name of names) place = place[name] as Record<string, unknown>
  if (value === undefined) delete place[last]
  else place[last] = value
  return body
}

type Refused = [request: Call, path: string]

/** The creations of stores and boxes in the audit log, successful or not. */
async function creationsLogged(): Promise<string[]> {
  const { logs } = (await asAdmin(service, { url: '/admin/activity?limit=200' })).json()
  const lines = logs.map((entry: Record<string, string>) => `${entry.action} ${entry.status}`)
  return lines.filter((line: string) => /^(store|pos)\.created/.test(line)).sort()
}

/** Each request is 422 on its field, and none reached the provider, the database or the audit log. */
async function expectRefused(...refused: Refused[]) {
  const logged = await creationsLogged()
  for (const [request, path] of refused) {
    const answer = await send(request)
    expect([answer.statusCode, answer.json().code], path).toEqual([422, 'VALIDATION_ERROR'])
    const paths = answer.json().details.map((detail: { path: string }) => detail.path)
    expect([...new Set(paths)]).toEqual([path])
  }
  expect(await providerCalls(service)).toEqual([])
  expect((await send({ url: '/stores' })).json()).toEqual({ stores: [], total: 0 })
  expect(await creationsLogged()).toEqual(logged)
}

const creation = (path: string, value: unknown): Refused => [
  { url: '/stores', body: storeWith(path, value) },
  path,
]

const required = [
  'name',
  'external_id',
  'location',
  ...Object.keys(location).map((field) => `location.${field}`),
  'pos.0.name',
  'pos.0.external_id',
]

test('a store without a required field is 422 on that field', async () => {
  await expectRefused(...required.map((path) => creation(path, undefined)))
})

/** The longest text of each field. */
const longest: Record<string, number> = {
  name: 100,
  external_id: 64,
  'location.street_name': 150,
  'location.street_number': 20,
  'location.city_name': 100,
  'location.state_name': 100,
  'location.reference': 200,
  'pos.0.name': 100,
  'pos.0.external_id': 64,
}

test.each(Object.entries(longest))('%s has at most %i characters', async (path, length) => {
  const wrong = ['x'.repeat(length + 1), 'a\nb', 'a\u007f', '\ufeffa', 7, {}, []]
  // Only the reference may be empty or null.
  if (path !== 'location.reference') wrong.push('', null as never)
  await expectRefused(...wrong.map((value) => creation(path, value)))
})

test.each([
  ['location.latitude', 90],
  ['location.longitude', 180],
])('%s is a number from -%i to the same', async (path, edge) => {
  const wrong = [edge + 0.001, -edge - 0.001, String(edge), null, true]
  await expectRefused(...wrong.map((value) => creation(path, value)))
})

test('an unknown field is 422 at every level, so that a misspelt one is not ignored', async () => {
  const unknown = ['externalId', 'location.zip', 'pos.0.fixed_amount']
  await expectRefused(...unknown.map((path) => creation(path, 'x')))
})

test('boxes are a list of at most 100', async () => {
  const boxes = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: 'C', external_id: `C-${index}` }))
  const wrong = [boxes(101), null, 'C-1', { 0: box }]
  await expectRefused(...wrong.map((pos) => creation('pos', pos)))
  // 100 boxes are valid: here only the name of the store is wrong.
  const hundred = { ...store, name: '', pos: boxes(100) }
  await expectRefused([{ url: '/stores', body: hundred }, 'name'])
})

test('a body that is not an object, or missing, is 422', async () => {
  const headers = { 'content-type': 'application/json' }
  await expectRefused(
    [{ url: '/stores', headers, body: JSON.stringify([store]) }, 'body'],
    [{ url: '/stores', headers, body: '"text"' }, 'body'],
    [{ method: 'POST', url: '/stores' }, 'body'],
  )
})

test('adding boxes needs at least one', async () => {
  const add = (body: unknown): Call => ({ url: '/stores/S-1/pos', body })
  await expectRefused(
    [add({}), 'pos'],
    [add({ pos: [] }), 'pos'],
    [add({ pos: [box], name: 'x' }), 'name'],
    [add({ pos: [{ ...box, external_id: 'x'.repeat(65) }] }), 'pos.0.external_id'],
  )
})

test.each<[method: Call['method'] & string, url: (store: string, box: string) => string]>([
  ['GET', (id) => `/stores/${id}`],
  ['DELETE', (id) => `/stores/${id}`],
  ['DELETE', (id, pos) => `/stores/${id}/pos/${pos}`],
])('%s accepts in its path any id that a store or box can have', async (method, url) => {
  const status = async (id: string, pos = 'C-1') =>
    (await send({ method, url: url(id, pos) })).statusCode
  for (const id of ['x'.repeat(64), '%C3%91'.repeat(64), 'a%2Fb', '..%2F..', '__proto__', '%20']) {
    expect(await status(id), id).toBe(404)
    expect(await status('S-1', id), id).toBe(404)
  }
  for (const id of ['x'.repeat(65), 'a%0Ab', 'a%00b']) expect(await status(id), id).toBe(422)
  expect(await status('x'.repeat(1025))).toBe(404)
  expect(await status('%zz')).toBe(400)
  // An empty id is refused and never lists everything.
  expect([404, 422]).toContain(await status(''))
})

test('the edges of every limit are accepted, returned as sent, and audited', async () => {
  const full = {
    name: 'Ñ'.repeat(100),
    external_id: `S ${'ñ'.repeat(62)}`,
    location: {
      ...location,
      street_name: 'S'.repeat(150),
      street_number: '9'.repeat(20),
      latitude: -90,
      longitude: 180,
      reference: 'r'.repeat(200),
    },
    pos: [{ name: 'C'.repeat(100), external_id: `C ${'ó'.repeat(62)}` }],
  }
  expect(await creationsLogged()).toEqual([])
  const created = await send({ url: '/stores', body: full })
  expect(created.statusCode, created.body).toBe(201)
  const url = `/stores/${encodeURIComponent(full.external_id)}`
  expect((await send({ url })).json()).toMatchObject(full)
  const removed = await send({
    method: 'DELETE',
    url: `${url}/pos/${encodeURIComponent(full.pos[0]?.external_id ?? '')}`,
  })
  expect(removed.json().deleted).toEqual({ store: 0, pos: 1 })
  expect((await send({ method: 'DELETE', url })).json().deleted).toEqual({ store: 1, pos: 0 })
  expect(await creationsLogged()).toEqual(['pos.created success', 'store.created success'])
})
