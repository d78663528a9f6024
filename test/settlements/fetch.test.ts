import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { openToken } from '../../src/payments/connection/oauth-tokens.ts'
import {
  auditOf,
  clearFaults,
  forgetRequests,
  openOwnShop,
  providerRequests,
  setFaults,
} from '../support/money.ts'
import { type Alter, type ProviderProxy, startProviderProxy } from '../support/provider-proxy.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  payByCard,
  readOrder,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let proxy: ProviderProxy
let service: TestService
beforeAll(async () => {
  proxy = await startProviderProxy()
  service = await startTestService({ provider: { apiUrl: proxy.url } })
  proxy.target = service.sandbox.url
})
beforeEach(async () => {
  proxy.alter = undefined
  await clearFaults(service)
})
afterAll(async () => {
  await service.stop()
  await proxy.close()
})

const dayMs = 86_400_000
/** A day in the provider's time zone. */
const dayOf = (ms: number) => new Date(ms - 4 * 3_600_000).toISOString().slice(0, 10)

async function sellNow(till: Till, reference: string): Promise<string> {
  const { order_id } = (await charge(service, till, { reference, amount: '1000,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  return order_id
}

async function sellYesterday(till: Till): Promise<{ orderId: string; day: string }> {
  const order_id = await sellNow(till, 'F-1')
  const day = dayOf(service.clock.now().getTime())
  service.clock.advance(2 * dayMs)
  return { orderId: order_id, day }
}
const configure = (till: Till, config: object | null, kind = 'settlement') =>
  sandboxCall(service, 'PUT', '/_sandbox/reports', { user_id: till.mpUserId, kind, config })
const requestFetch = (till: Till, day: string, more: object = {}) =>
  call(service, {
    url: '/settlements/fetches',
    token: till.key,
    body: { report: 'settlement', from: day, to: day, ...more },
  })
const read = async (till: Till, id: string) =>
  (await call(service, { url: `/settlements/fetches/${id}`, token: till.key })).json()
const workAfter = async (ms: number) => {
  service.clock.advance(ms)
  await service.settlementJobs.workOnce()
}
const writesFor = async (till: Till) =>
  (await providerRequests(service)).filter(
    ({ user_id, method, path }) =>
      path.includes('_report') && user_id === till.mpUserId && method !== 'GET',
  )

test('a report is fetched with the shop’s own configuration, which is not changed', async () => {
  const till = await openOwnShop(service, 'fetched')
  const { orderId, day } = await sellYesterday(till)
  await configure(till, { separator: ';', display_timezone: 'GMT-03', file_name_prefix: 'shop' })
  await forgetRequests(service)
  const requested = await requestFetch(till, day)
  expect(requested.statusCode, requested.body).toBe(202)
  const { id } = requested.json()
  const again = await requestFetch(till, day)
  expect([again.statusCode, again.json().id]).toEqual([200, id])
  await workAfter(0)
  expect(await read(till, id)).toMatchObject({ state: 'ordered', ended_at: null })
  await workAfter(31_000)
  await workAfter(31_000)
  const done = await read(till, id)
  expect(done).toMatchObject({ state: 'taken_in', reason: null })
  expect((await writesFor(till)).map(({ method, path }) => `${method} ${path}`)).toEqual([
    'POST /v1/account/settlement_report',
  ])
  const { files } = (await call(service, { url: '/settlements/files', token: till.key })).json()
  expect(files).toMatchObject([
    {
      id: done.file_id,
      origin: 'fetched',
      name: expect.stringMatching(/^shop-\d+\.csv$/),
      rows: 1,
      added: 1,
      totals: { gross: '1000.00', net: '940.10' },
    },
  ])
  expect((await readOrder(service, till, orderId)).json().net).toMatchObject({
    state: 'settled',
    net: '940.10',
  })
})

test('a report that the shop has already is used again, and adds nothing when it was read before', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'reused')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  for (const _ of [1, 2, 3]) {
    const { id } = (await requestFetch(till, day)).json()
    for (let step = 0; step < 4; step += 1) await workAfter(31_000)
    expect(await read(till, id)).toMatchObject({ state: 'taken_in' })
  }
  const { files } = (await call(service, { url: '/settlements/files', token: till.key })).json()
  expect(files).toMatchObject([{ added: 1, readings: 3 }])
  const rows = await service.database.db
    .selectFrom('settlement_rows')
    .select('id')
    .where('client', '=', till.client as never)
    .execute()
  expect(rows).toHaveLength(1)
})

test('without a configuration, or without the required columns, a fetch is refused with the reason', async () => {
  const till = await openOwnShop(service, 'unconfigured')
  const { day } = await sellYesterday(till)
  await forgetRequests(service)
  const none = (await requestFetch(till, day)).json()
  await workAfter(0)
  expect(await read(till, none.id)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('no configuration'),
  })
  // Pages translate the code.
  const [entry] = await auditOf(service, till.client, 'settlement.taken_in')
  expect(entry?.error_message).toMatch(/^REPORT_NOT_CONFIGURED: /)
  await configure(till, { columns: [{ key: 'SOURCE_ID' }, { key: 'TRANSACTION_TYPE' }] })
  const few = (await requestFetch(till, day)).json()
  await workAfter(0)
  expect(await read(till, few.id)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('TRANSACTION_AMOUNT, SETTLEMENT_NET_AMOUNT'),
  })
  expect(await writesFor(till)).toEqual([])
  const { logs } = (
    await asAdmin(service, { url: '/admin/activity?client=unconfigured&status=failed' })
  ).json()
  expect(logs).toHaveLength(2)
})

test.each([
  ['ended', { state: 'refused' as const, reason: 'x', next_look_at: null, ended_at: new Date() }],
  ['moved', { file_name: 'other.csv' }],
])(
  'a fetch that another process has %s meanwhile stays as that process left it',
  { tags: ['long'] },
  async (name, set) => {
    const till = await openOwnShop(service, `fetch ${name}`)
    const { day } = await sellYesterday(till)
    await configure(till, {})
    const { id } = (await requestFetch(till, day)).json()
    await workAfter(0)
    await workAfter(31_000)
    const { db } = service.database
    await forgetRequests(service)
    await setFaults(service, {
      path: '/v1/account/settlement_report/.*csv',
      kind: 'latency',
      delay_ms: 800,
      user_id: till.mpUserId,
    })
    service.clock.advance(31_000)
    const worked = service.settlementJobs.workOnce()
    await expect
      .poll(async () => (await providerRequests(service)).some(({ path }) => path.endsWith('.csv')))
      .toBe(true)
    await db.updateTable('settlement_fetches').set(set).where('id', '=', id).execute()
    await worked
    const row = await db
      .selectFrom('settlement_fetches')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    expect(row).toMatchObject({ ...set, file_id: null, failures: 0 })
    const { files } = (await call(service, { url: '/settlements/files', token: till.key })).json()
    expect(files).toEqual([])
    expect(await auditOf(service, till.client, 'settlement.taken_in')).toEqual([])
  },
)

test('a failing provider is called again, and the report is fetched once', async () => {
  const till = await openOwnShop(service, 'failing')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  const broken = { path: '/v1/account/', kind: '500', user_id: till.mpUserId }
  await setFaults(service, { ...broken, method: 'GET' })
  const { id } = (await requestFetch(till, day)).json()
  await workAfter(0)
  await workAfter(61_000)
  expect(await read(till, id)).toMatchObject({ state: 'waiting' })
  await clearFaults(service)
  // The answer to the order is lost after the provider has accepted it.
  await forgetRequests(service)
  await setFaults(service, { ...broken, method: 'POST', kind: 'drop_after' })
  await workAfter(5 * 60_000)
  await clearFaults(service)
  for (let step = 0; step < 4; step += 1) await workAfter(10 * 60_000)
  expect(await read(till, id)).toMatchObject({ state: 'taken_in' })
  expect(await writesFor(till)).toHaveLength(1)
})

test('days that have not ended, in the wrong order, or too many are refused', async () => {
  const till = await openOwnShop(service, 'spans')
  const day = (ms: number) => dayOf(service.clock.now().getTime() + ms)
  for (const [from, to] of [
    [day(0), day(0)],
    [day(-2 * dayMs), day(-3 * dayMs)],
    [day(-70 * dayMs), day(-2 * dayMs)],
  ]) {
    expect((await requestFetch(till, '', { from, to })).statusCode).toBe(422)
  }
})

/** The list of reports begins with these entries. */
const listing =
  (entries: unknown[]): Alter =>
  ({ status, body }, { path }) =>
    path.endsWith('_report/list')
      ? { status, body: [...entries, ...(body as unknown as unknown[])] as never }
      : undefined

async function fetched(till: Till, day: string, steps = 4) {
  const { id } = (await requestFetch(till, day)).json()
  for (let step = 0; step < steps; step += 1) await workAfter(31_000)
  return read(till, id)
}

test('an order of a report that the provider answers with 203 creates nothing and is refused at once', async () => {
  const till = await openOwnShop(service, 'not created')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  proxy.alter = (_, { method, path }) =>
    method === 'POST' && path.endsWith('_report') ? { status: 203, body: { id: 1 } } : undefined
  expect(await fetched(till, day, 1)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('created no report (status 203)'),
  })
})

test('odd entries of the list are skipped: null, xlsx, deleted, pending, the connection test', async () => {
  const till = await openOwnShop(service, 'odd list')
  const { day } = await sellYesterday(till)
  const entry = {
    begin_date: `${day}T00:00:00.000-04:00`,
    end_date: `${day}T23:59:59.999-04:00`,
    date_created: new Date(service.clock.now()).toISOString(),
  }
  await configure(till, {})
  proxy.alter = listing([
    null,
    7,
    { ...entry, file_name: 'made.xlsx', status: 'processed' },
    { ...entry, file_name: 'removed.csv', status: 'deleted' },
    { ...entry, file_name: 'later.csv', status: 'pending' },
    { ...entry, file_name: 'half.csv', status: 'data-ready' },
    { ...entry, file_name: 'CONNECTION-CHECK-FILE.csv' },
    { ...entry, file_name: null },
    { ...entry, file_name: 'undated.csv', begin_date: null },
  ])
  expect(await fetched(till, day)).toMatchObject({ state: 'taken_in', reason: null })
})

test('when a listed file no longer exists another report is ordered', async () => {
  const till = await openOwnShop(service, 'missing file')
  const { day } = await sellYesterday(till)
  const missing = {
    file_name: 'missing.csv',
    begin_date: `${day}T00:00:00.000-04:00`,
    end_date: `${day}T23:59:59.999-04:00`,
    date_created: service.clock.now().toISOString(),
  }
  await configure(till, {})
  proxy.alter = listing([missing])
  await forgetRequests(service)
  expect(await fetched(till, day, 6)).toMatchObject({ state: 'taken_in', reason: null })
  expect(await writesFor(till)).toHaveLength(1)
})

test('with the states data-ready and enabled a report is made when its file has a name', async () => {
  const till = await openOwnShop(service, 'other states')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  const words: Record<string, string> = { pending: 'data-ready', processed: 'enabled' }
  proxy.alter = ({ status, body }, { path }) =>
    path.includes('_report/task/')
      ? { status, body: { ...body, status: words[String(body.status)] } }
      : undefined
  const { id } = (await requestFetch(till, day)).json()
  await workAfter(0)
  await workAfter(31_000)
  expect(await read(till, id)).toMatchObject({ state: 'ordered' })
  await workAfter(31_000)
  expect(await read(till, id)).toMatchObject({ state: 'taken_in' })
})

test('a report that was made as xlsx is refused, and the reason names the format to set', async () => {
  const till = await openOwnShop(service, 'made as xlsx')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  proxy.alter = ({ status, body }, { path }) => {
    if (!path.includes('_report/task/') || typeof body.file_name !== 'string') return undefined
    return { status, body: { ...body, file_name: body.file_name.replace('.csv', '.xlsx') } }
  }
  expect(await fetched(till, day)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('set the format to CSV'),
  })
})

test('a report that was made before its day had ended is not the report of that day', async () => {
  const till = await openOwnShop(service, 'made at noon')
  await configure(till, {})
  const startMs = Math.ceil(service.clock.now().getTime() / dayMs) * dayMs
  service.clock.advance(startMs + 16 * 3_600_000 - service.clock.now().getTime())
  const day = dayOf(service.clock.now().getTime())
  await sellNow(till, 'N-1')
  const { access_token: encrypted } = await service.database.db
    .selectFrom('oauth_connections')
    .select('access_token')
    .where('mp_user_id', '=', till.mpUserId)
    .executeTakeFirstOrThrow()
  const token = openToken(service.deps, asClientName(till.client), 'access_token', encrypted)
  const ordered = await fetch(`${service.sandbox.url}/v1/account/settlement_report`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      begin_date: `${day}T04:00:00Z`,
      end_date: service.clock.now().toISOString().replace(/\.\d+/, ''),
    }),
  })
  expect(ordered.status).toBe(202)
  service.clock.advance(3_600_000)
  await sellNow(till, 'N-2')
  service.clock.advance(dayMs)
  await forgetRequests(service)
  expect(await fetched(till, day)).toMatchObject({ state: 'taken_in' })
  expect(await writesFor(till)).toHaveLength(1)
})

test('of a fetched report that is damaged after 510 rows no row is stored', async () => {
  const till = await openOwnShop(service, 'damaged late')
  const { day } = await sellYesterday(till)
  const box = await service.database.db
    .selectFrom('pos')
    .select('mp_pos_id')
    .where('client', '=', asClientName(till.client))
    .executeTakeFirstOrThrow()
  await sandboxCall(
    service,
    'POST',
    '/_sandbox/payments',
    Array.from({ length: 515 }, (_, at) => ({
      user_id: till.mpUserId,
      pos_id: box.mp_pos_id,
      amount: '10.00',
      id: 971_000_000 + at,
      at: `${day}T1${Math.floor(at / 60) % 10}:${String(at % 60).padStart(2, '0')}:00-04:00`,
    })),
  )
  await configure(till, {})
  proxy.alter = ({ status, body, text }) => {
    if (text === undefined) return undefined
    const lines = text.split('\r\n')
    lines[511] = String(lines[511]).split(',').slice(0, 3).join(',')
    return { status, body, text: lines.join('\r\n') }
  }
  expect(await fetched(till, day)).toMatchObject({
    state: 'refused',
    reason: expect.stringMatching(
      /^Line 512 has 3 values, and the header \d+: expected a value for /,
    ),
  })
  const rows = await service.database.db
    .selectFrom('settlement_rows')
    .select('id')
    .where('client', '=', asClientName(till.client))
    .execute()
  expect(rows).toEqual([])
})
