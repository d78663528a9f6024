import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  breakProvider,
  forgetRequests,
  healProvider,
  openOwnShop,
  providerRequests,
} from '../support/money.ts'
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

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(() => healProvider(service))
afterAll(() => service.stop())

const dayMs = 86_400_000
/** A day by the provider's time. */
const dayOf = (ms: number) => new Date(ms - 4 * 3_600_000).toISOString().slice(0, 10)

async function sellYesterday(till: Till): Promise<{ orderId: string; day: string }> {
  const { order_id } = (await charge(service, till, { reference: 'F-1', amount: '1000,00' })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, till, order_id)
  const day = dayOf(service.clock.now().getTime())
  service.clock.advance(2 * dayMs)
  return { orderId: order_id, day }
}
const configure = (till: Till, config: object | null, kind = 'settlement') =>
  sandboxCall(service, 'PUT', '/_sandbox/reports', { user_id: till.mpUserId, kind, config })
const want = (till: Till, day: string, more: object = {}) =>
  call(service, {
    url: '/settlements/fetches',
    token: till.key,
    body: { report: 'settlement', from: day, to: day, ...more },
  })
const read = async (till: Till, id: string) =>
  (await call(service, { url: `/settlements/fetches/${id}`, token: till.key })).json()
const workAfter = async (ms: number) => {
  service.clock.advance(ms)
  await service.settlementWork.workOnce()
}
const writesAbout = async (till: Till) =>
  (await providerRequests(service)).filter(
    ({ user_id, method, path }) =>
      path.includes('_report') && user_id === till.mpUserId && method !== 'GET',
  )

test('a report is fetched with the shop’s own configuration, which nobody changes', async () => {
  const till = await openOwnShop(service, 'fetched')
  const { orderId, day } = await sellYesterday(till)
  await configure(till, { separator: ';', display_timezone: 'GMT-03', file_name_prefix: 'shop' })
  await forgetRequests(service)
  const wanted = await want(till, day)
  expect(wanted.statusCode, wanted.body).toBe(202)
  const { id } = wanted.json()
  const again = await want(till, day)
  expect([again.statusCode, again.json().id]).toEqual([200, id])
  await workAfter(0)
  expect(await read(till, id)).toMatchObject({ state: 'ordered', ended_at: null })
  await workAfter(31_000)
  await workAfter(31_000)
  const done = await read(till, id)
  expect(done).toMatchObject({ state: 'taken_in', reason: null })
  expect((await writesAbout(till)).map(({ method, path }) => `${method} ${path}`)).toEqual([
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

test('a report that the shop has already is used again, and adds nothing when it was read', async () => {
  const till = await openOwnShop(service, 'reused')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  for (const _ of [1, 2, 3]) {
    const { id } = (await want(till, day)).json()
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

test('without a configuration, or without the columns that count, a fetch is refused and says so', async () => {
  const till = await openOwnShop(service, 'unconfigured')
  const { day } = await sellYesterday(till)
  await forgetRequests(service)
  const none = (await want(till, day)).json()
  await workAfter(0)
  expect(await read(till, none.id)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('no configuration'),
  })
  await configure(till, { columns: [{ key: 'SOURCE_ID' }, { key: 'TRANSACTION_TYPE' }] })
  const few = (await want(till, day)).json()
  await workAfter(0)
  expect(await read(till, few.id)).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('TRANSACTION_AMOUNT, SETTLEMENT_NET_AMOUNT'),
  })
  expect(await writesAbout(till)).toEqual([])
  const { logs } = (
    await asAdmin(service, { url: '/admin/activity?client=unconfigured&status=failed' })
  ).json()
  expect(logs).toHaveLength(2)
})

test('a provider that fails is asked again, and the report is fetched once', async () => {
  const till = await openOwnShop(service, 'failing')
  const { day } = await sellYesterday(till)
  await configure(till, {})
  const broken = { path: '/v1/account/', kind: '500', user_id: till.mpUserId }
  await breakProvider(service, { ...broken, method: 'GET' })
  const { id } = (await want(till, day)).json()
  await workAfter(0)
  await workAfter(61_000)
  expect(await read(till, id)).toMatchObject({ state: 'waiting' })
  await healProvider(service)
  // The answer to the order gets lost, after the provider has taken it.
  await forgetRequests(service)
  await breakProvider(service, { ...broken, method: 'POST', kind: 'drop_after' })
  await workAfter(5 * 60_000)
  await healProvider(service)
  for (let step = 0; step < 4; step += 1) await workAfter(10 * 60_000)
  expect(await read(till, id)).toMatchObject({ state: 'taken_in' })
  expect(await writesAbout(till)).toHaveLength(1)
})

test('days that are not over, turned round, or too many are refused', async () => {
  const till = await openOwnShop(service, 'spans')
  const day = (ms: number) => dayOf(service.clock.now().getTime() + ms)
  for (const [from, to] of [
    [day(0), day(0)],
    [day(-2 * dayMs), day(-3 * dayMs)],
    [day(-70 * dayMs), day(-2 * dayMs)],
  ]) {
    expect((await want(till, '', { from, to })).statusCode).toBe(422)
  }
})
