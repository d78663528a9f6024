import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { clearFaults, openOwnShop, retireShops, setFaults } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, readOrder, type Till } from '../support/till.ts'
import { close, openClosing, readClosing, sell, typeCharge, watchAfter } from './shop-day.ts'

const hourMs = 3_600_000

let service: TestService
/** Midnight in Buenos Aires of the day of each test, in milliseconds. */
let midnightMs: number
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(() => {
  const sinceMidnight = (service.clock.now().getTime() - 3 * hourMs) % (24 * hourMs)
  service.clock.advance(24 * hourMs - sinceMidnight)
  midnightMs = Math.floor(service.clock.now().getTime() / hourMs) * hourMs
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

/** Advances the clock to an hour of the test's day; hours from 24 on are of the next day. */
function untilHour(hour: number): void {
  service.clock.advance(midnightMs + hour * hourMs - service.clock.now().getTime())
}
const at = (hour: number) => new Date(midnightMs + hour * hourMs).toISOString()
const day = (offset = 0) =>
  new Date(midnightMs - 3 * hourMs + offset * 24 * hourMs).toISOString().slice(0, 10)
const span = (from: number, to: number) => ({
  business_day: undefined,
  from: at(from),
  to: at(to),
})
const credit = (amount: string) => ({ declared: { credit_card: amount } })
const sign = (till: Till, id: string) =>
  call(service, { method: 'POST', url: `/closings/${id}/sign`, token: till.key })
const declaredOf = async (id: string) => {
  const { declared } = await service.database.db
    .selectFrom('closings')
    .select('declared')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return declared
}
/** To the hour, because time passes while a test runs. */
const spanOf = ({ from, to }: { from: string; to: string }) =>
  [from, to].map((iso) => `${iso.slice(0, 13)}:00:00.000Z`)

test('two shifts of one day are two closings, both unsigned', async () => {
  const till = await openOwnShop(service, 'shifts')
  untilHour(10)
  await sell(service, till, 'A-1', { amount: '10,00' })
  untilHour(15)
  const first = await close(service, till, { ...span(6, 14), ...credit('10,00') })
  await sell(service, till, 'A-2', { amount: '20,00' })
  untilHour(23)
  const second = await close(service, till, { ...span(14, 22), ...credit('20,00') })
  expect([first.state, second.state]).toEqual(['agreed', 'agreed'])
  expect([first.number, second.number, second.from, second.business_day]).toEqual([
    1,
    2,
    first.to,
    first.business_day,
  ])
  expect(second.totals.here).toMatchObject({ count: 1, amount: '20.00' })
})

test('a first closing does not pass over what was sold before it, and the error names the time to close first', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'first span')
  untilHour(9)
  await sell(service, till, 'A-1', { amount: '9,00' })
  untilHour(11)
  await sell(service, till, 'A-2', { amount: '11,00' })
  untilHour(13)
  const refused = await openClosing(service, till, span(10, 12))
  expect([refused.statusCode, refused.json()]).toMatchObject([
    409,
    {
      code: 'CLOSING_GAP',
      uncovered: { from: at(0), to: at(10), business_day: day() },
      next_from: at(0),
    },
  ])
  const morning = await close(service, till, span(0, 10))
  const noon = await close(service, till, span(10, 12))
  untilHour(23)
  const rest = await close(service, till, { business_day: day() })
  const counts = [morning, noon, rest].map(({ totals }) => totals.here.count)
  expect(counts).toEqual([1, 1, 0])
})

test('a first closing says which days before it are in no closing, and these can be closed afterwards, once', async () => {
  const till = await openOwnShop(service, 'first day')
  untilHour(20)
  await sell(service, till, 'A-1')
  untilHour(24 + 12)
  const uncovered = { from: at(0), to: at(24), business_day: day() }
  const first = await openClosing(service, till, { business_day: day(1) })
  expect([first.statusCode, first.json()]).toMatchObject([202, { from: at(24), uncovered }])
  const again = await openClosing(service, till, { business_day: day(1) })
  expect([again.statusCode, again.json().uncovered]).toEqual([200, uncovered])
  const before = await close(service, till, { business_day: day() })
  expect([...spanOf(before), before.totals.here.count]).toEqual([at(0), at(24), 1])
  const covered = await openClosing(service, till, { business_day: day(1) })
  expect([covered.json().id, covered.json().uncovered]).toEqual([first.json().id, undefined])
})

test('a request for the hours of a day is not answered with the rest of this day', async () => {
  const till = await openOwnShop(service, 'hours of a day')
  untilHour(13)
  await close(service, till, span(10, 12))
  untilHour(25)
  const rest = await close(service, till, { business_day: day() })
  expect(spanOf(rest)).toEqual([at(12), at(24)])
  const refused = await openClosing(service, till, span(0, 24))
  expect([refused.statusCode, refused.json().code]).toEqual([409, 'CLOSING_OVERLAPS'])
  const again = await openClosing(service, till, { business_day: day() })
  expect([again.statusCode, again.json().id]).toEqual([200, rest.id])
})

test('what is found late before the first closing of a box can be closed, once', async () => {
  const till = await openOwnShop(service, 'found late')
  untilHour(13)
  const first = (await openClosing(service, till, span(10, 12))).json()
  await typeCharge(service, till, { at: at(9) })
  await watchAfter(service, 61_000)
  await sign(till, first.id)
  const overlapping = await openClosing(service, till, span(8, 11))
  expect(overlapping.json()).toMatchObject({ code: 'CLOSING_OVERLAPS', closing: { id: first.id } })
  const gap = await openClosing(service, till, span(6, 8))
  expect(gap.json()).toMatchObject({
    code: 'CLOSING_GAP',
    uncovered: { from: at(8), to: at(10), business_day: day() },
  })
  const asked = await Promise.all([
    openClosing(service, till, span(8, 9.5)),
    openClosing(service, till, span(8, 9.5)),
  ])
  expect(asked.map(({ statusCode }) => statusCode).toSorted()).toEqual([200, 202])
  await watchAfter(service, 61_000)
  const late = await readClosing(service, till, asked[0]?.json().id)
  expect([...spanOf(late), late.number, late.totals.there.count]).toEqual([at(8), at(10), 2, 1])
  expect(await readClosing(service, till, first.id)).toMatchObject({ number: 1, state: 'signed' })
  const before = await openClosing(service, till, span(6, 8))
  expect([before.statusCode, before.json()]).toMatchObject([
    409,
    { code: 'CLOSING_OVERLAPS', closing: { id: late.id } },
  ])
  untilHour(14)
  const next = await openClosing(service, till, { business_day: day() })
  expect([next.json().number, next.json().from]).toEqual([3, first.to])
})

test('a request for another span does not change the count of a closing', async () => {
  const till = await openOwnShop(service, 'other span')
  untilHour(15)
  const { id } = await close(service, till, { ...span(6, 14), ...credit('10,00') })
  const other = await openClosing(service, till, { ...span(8, 12), ...credit('99,00') })
  expect([other.statusCode, other.json().code]).toEqual([409, 'CLOSING_OVERLAPS'])
  expect(await declaredOf(id)).toEqual({ credit_card: 1000 })
})

test('an overlapping span is refused, and the error names the closing that it overlaps', async () => {
  const till = await openOwnShop(service, 'overlap')
  untilHour(23)
  const first = await close(service, till, span(6, 14))
  await sign(till, first.id)
  const second = await close(service, till, span(14, 22))
  for (const [from, to, overlapped, state] of [
    [5, 7, first, 'signed'],
    [1, 5, first, 'signed'],
    [6, 22, first, 'signed'],
    [14, 20, second, 'agreed'],
    [21, 23, second, 'agreed'],
  ] as const) {
    const refused = await openClosing(service, till, span(from, to))
    expect([from, to, refused.statusCode, refused.json()]).toMatchObject([
      from,
      to,
      409,
      {
        code: 'CLOSING_OVERLAPS',
        closing: {
          id: overlapped.id,
          number: overlapped.number,
          state,
          from: overlapped.from,
          to: overlapped.to,
        },
        next_from: at(22),
      },
    ])
  }
})

test('a span before the first closing of a box is refused, and the error names where its closings begin', async () => {
  const till = await openOwnShop(service, 'before')
  untilHour(8)
  const first = (await openClosing(service, till, { business_day: day() })).json()
  const refused = await openClosing(service, till, { business_day: day(-1) })
  expect([refused.statusCode, refused.json()]).toMatchObject([
    409,
    { code: 'CLOSING_OVERLAPS', closing: { id: first.id }, next_from: first.to },
  ])
  expect(refused.json().error).toContain(`The closings of this place begin at ${first.from}`)
})

test('a closing after charges that no closing contains is refused, and the error names the open span', async () => {
  const till = await openOwnShop(service, 'gap')
  untilHour(23)
  const first = await close(service, till, { business_day: day() })
  untilHour(24 + 10)
  await sell(service, till, 'A-1')
  untilHour(48 + 20)
  const refused = await openClosing(service, till, { business_day: day(2) })
  expect([refused.statusCode, refused.json()]).toMatchObject([
    409,
    {
      code: 'CLOSING_GAP',
      uncovered: { from: first.to, to: at(48), business_day: day(1) },
      next_from: first.to,
    },
  ])
  const between = await close(service, till, { business_day: day(1) })
  expect([...spanOf(between), between.totals.here.count]).toEqual([at(23), at(48), 1])
  const last = await close(service, till, { business_day: day(2) })
  expect([last.number, ...spanOf(last)]).toEqual([3, at(48), at(68)])
})

test('days without a paid charge become part of the next closing', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'quiet days')
  untilHour(20)
  const first = await close(service, till, { business_day: day() })
  untilHour(24 * 20)
  const { order_id } = (await charge(service, till, { reference: 'CANCELED' })).json()
  await act(service, order_id, { do: 'cancel' })
  await readOrder(service, till, order_id)
  untilHour(24 * 40 + 20)
  await sell(service, till, 'A-1')
  const next = await close(service, till, { business_day: day(40) })
  expect(next).toMatchObject({ number: 2, from: first.to, business_day: day(40), state: 'agreed' })
  const again = await openClosing(service, till, { business_day: day(40) })
  expect([again.statusCode, again.json().id]).toEqual([200, next.id])
  untilHour(24 * 41 + 12)
  const shift = await openClosing(service, till, span(24 * 41 + 6, 24 * 41 + 12))
  expect(shift.json()).toMatchObject({ number: 3, from: next.to, to: at(24 * 41 + 12) })
  const repeated = await openClosing(service, till, span(24 * 41 + 6, 24 * 41 + 12))
  expect([repeated.statusCode, repeated.json().id]).toEqual([200, shift.json().id])
})

test('a request for the same span corrects the count until it is signed, and the audit log has both counts', async () => {
  const till = await openOwnShop(service, 'same span')
  untilHour(15)
  const { id } = await close(service, till, { ...span(6, 14), ...credit('10,00') })
  const corrected = await openClosing(service, till, { ...span(6, 14), ...credit('0,00') })
  expect([corrected.statusCode, corrected.json().id]).toEqual([200, id])
  await watchAfter(service, 61_000)
  expect((await sign(till, id)).json().state).toBe('signed')
  for (const body of [{}, credit('0,00')]) {
    const again = await openClosing(service, till, { ...span(6, 14), ...body })
    expect([again.statusCode, again.json()]).toMatchObject([200, { id, state: 'signed' }])
  }
  const late = await openClosing(service, till, { ...span(6, 14), ...credit('5,00') })
  expect([late.statusCode, late.json()]).toMatchObject([
    409,
    { code: 'CLOSING_SIGNED', closing: { id, state: 'signed' } },
  ])
  expect(await declaredOf(id)).toEqual({ credit_card: 0 })
  const url = `/admin/activity?client=${encodeURIComponent(till.client)}`
  const { logs } = (await asAdmin(service, { url })).json()
  expect(
    logs
      .filter(({ action }: { action: string }) => /^closing\.(opened|counted)$/.test(action))
      .map(({ action, metadata }: { action: string; metadata: object }) => ({ action, metadata }))
      .reverse(),
  ).toMatchObject([
    {
      action: 'closing.opened',
      metadata: { from: at(6), to: at(14), declared: { credit_card: '10.00' } },
    },
    {
      action: 'closing.counted',
      metadata: { before: { credit_card: '10.00' }, declared: { credit_card: '0.00' } },
    },
  ])
})

test('a closing by business day contains the rest of the day after its shifts', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'rest of the day')
  untilHour(15)
  const shift = await close(service, till, { ...span(6, 14), ...credit('1,00') })
  const rest = await close(service, till, { business_day: day(), ...credit('2,00') })
  expect([rest.number, ...spanOf(rest)]).toEqual([2, at(14), at(15)])
  untilHour(24 + 9)
  const later = await openClosing(service, till, { business_day: day() })
  expect([later.statusCode, later.json().id]).toEqual([200, rest.id])
  expect(await declaredOf(shift.id)).toEqual({ credit_card: 100 })
  expect(await declaredOf(rest.id)).toEqual({ credit_card: 200 })
})

test('only the last closing of a place is extended', async () => {
  const till = await openOwnShop(service, 'extended')
  untilHour(12)
  const first = await close(service, till, { business_day: day() })
  await sell(service, till, 'A-1')
  untilHour(14)
  const extended = await openClosing(service, till, { business_day: day() })
  expect(extended.json().id).toBe(first.id)
  expect(spanOf(extended.json())).toEqual([at(0), at(14)])
  untilHour(15)
  const shift = await close(service, till, span(15, 18))
  expect([shift.number, shift.from], JSON.stringify(shift)).toEqual([2, extended.json().to])
  await sell(service, till, 'A-2')
  untilHour(19)
  const rest = await openClosing(service, till, { business_day: day() })
  expect([rest.json().number, rest.json().from]).toEqual([3, shift.to])
  const url = `/closings/${first.id}/count`
  const counted = await call(service, { url, token: till.key, body: credit('1,00') })
  expect(counted.json()).toMatchObject({ id: first.id, to: extended.json().to })
  const early = await openClosing(service, till, span(15, 18))
  expect(early.json()).toMatchObject({ code: 'CLOSING_OVERLAPS', closing: { id: shift.id } })
})

test('a count is corrected by the id of its closing, and the last closing is extended to now', async () => {
  const till = await openOwnShop(service, 'counted by id')
  untilHour(12)
  const { id } = await close(service, till, { business_day: day(), ...credit('1,00') })
  const count = (body: object) =>
    call(service, { url: `/closings/${id}/count`, token: till.key, body })
  await sell(service, till, 'A-1', { amount: '7,00' })
  untilHour(14)
  const counted = (await count(credit('7,00'))).json()
  expect([counted.state, ...spanOf(counted)]).toEqual(['open', at(0), at(14)])
  await watchAfter(service, 61_000)
  expect((await count({})).json()).toMatchObject({ id, state: 'agreed' })
  expect(await declaredOf(id)).toEqual({ credit_card: 700 })
  await sign(till, id)
  const late = await count(credit('8,00'))
  expect([late.statusCode, late.json().code]).toEqual([409, 'CLOSING_SIGNED'])
  expect((await count(credit('7,00'))).json()).toMatchObject({ id, state: 'signed' })
})

test('after a failed read the extended closing also reads what was sold since', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'extended unread')
  untilHour(12)
  await sell(service, till, 'A-1')
  await openClosing(service, till, { business_day: day() })
  // New payments are read, and changed ones are not.
  const fault = { path: '^/v1/payments/search$', kind: '500' as const, skip: 1 }
  await setFaults(service, { ...fault, user_id: till.mpUserId })
  for (let round = 0; round < 4; round += 1) await watchAfter(service, 20 * 60_000)
  await clearFaults(service)
  const paymentId = await typeCharge(service, till)
  await sell(service, till, 'A-2')
  untilHour(14)
  const { id } = (await openClosing(service, till, { business_day: day() })).json()
  await watchAfter(service, 61_000)
  expect(await readClosing(service, till, id)).toMatchObject({
    state: 'differs',
    lines: [{ kind: 'missing_here', payment_id: paymentId }],
  })
})

test('a box and its store are closed separately, with the same charge in both', async () => {
  const till = await openOwnShop(service, 'box and store')
  untilHour(12)
  await sell(service, till, 'A-1')
  untilHour(13)
  const box = await close(service, till, span(6, 13))
  const store = await close(service, till, {
    ...span(8, 13),
    caja_id: undefined,
    sucursal_id: 'SUC-1',
  })
  expect([box.number, store.number]).toEqual([1, 1])
  expect([box.totals.here.count, store.totals.here.count]).toEqual([1, 1])
})

test('days of 23 and 25 hours leave no gap', async () => {
  const till = await openOwnShop(service, 'clocks change')
  await call(service, {
    method: 'PUT',
    url: '/stores/SUC-1/time-zone',
    token: till.key,
    body: { time_zone: 'America/New_York' },
  })
  const days = ['2026-03-07', '2026-03-08', '2026-03-09', '2026-10-31', '2026-11-01', '2026-11-02']
  const closings = []
  for (const business_day of days) {
    closings.push((await openClosing(service, till, { business_day })).json())
  }
  expect(closings.map(spanOf)).toEqual([
    ['2026-03-07T05:00:00.000Z', '2026-03-08T05:00:00.000Z'],
    ['2026-03-08T05:00:00.000Z', '2026-03-09T04:00:00.000Z'],
    ['2026-03-09T04:00:00.000Z', '2026-03-10T04:00:00.000Z'],
    ['2026-03-10T04:00:00.000Z', '2026-11-01T04:00:00.000Z'],
    ['2026-11-01T04:00:00.000Z', '2026-11-02T05:00:00.000Z'],
    ['2026-11-02T05:00:00.000Z', '2026-11-03T05:00:00.000Z'],
  ])
})

test('a store whose time zone changes continues where its last closing ended', async () => {
  const till = await openOwnShop(service, 'zone changes')
  untilHour(25)
  await openClosing(service, till, { business_day: day() })
  await call(service, {
    method: 'PUT',
    url: '/stores/SUC-1/time-zone',
    token: till.key,
    body: { time_zone: 'America/Noronha' },
  })
  untilHour(48)
  const next = await openClosing(service, till, { business_day: day(1) })
  expect(next.json()).toMatchObject({ number: 2, from: at(24), to: at(47) })
})

test('the database refuses an overlap, a gap and a second first closing', async () => {
  const till = await openOwnShop(service, 'constraints')
  untilHour(23)
  const first = (await openClosing(service, till, span(6, 14))).json()
  const { db } = service.database
  const insert = (from: number, to: number, number: number) =>
    sql`insert into closings (id, client, place, number, caja_id, sucursal_id, mp_user_id, business_day, from_at, to_at,
        requested_from, requested_to, time_zone, declared, state, created_at)
      select gen_random_uuid(), client, place, ${number}::int, caja_id, sucursal_id, mp_user_id, business_day,
        ${at(from)}::timestamptz, ${at(to)}::timestamptz, requested_from, requested_to, time_zone, '{}', 'open', created_at
      from closings where id = ${first.id}`.execute(db)
  await expect(insert(13, 15, 100)).rejects.toMatchObject({ constraint: 'closings_follows_fkey' })
  await expect(insert(15, 16, 101)).rejects.toMatchObject({ constraint: 'closings_follows_fkey' })
  await expect(insert(1, 6, 102)).rejects.toMatchObject({ constraint: 'closings_follows_fkey' })
  await insert(14, 15, 103)
  await expect(insert(14, 16, 104)).rejects.toMatchObject({ constraint: 'closings_follows_key' })
  const extend = db
    .updateTable('closings')
    .set({ to_at: new Date(at(16)) })
    .where('id', '=', first.id)
  await expect(extend.execute()).rejects.toMatchObject({ constraint: 'closings_follows_fkey' })
  const secondFirst = service.database.transaction(async (trx) => {
    // As two transactions that each read no closing of the place.
    await sql`alter table closings disable trigger closings_follow`.execute(trx)
    await sql`insert into closings (id, client, place, number, sucursal_id, mp_user_id, business_day, from_at, to_at,
        requested_from, requested_to, time_zone, declared, state, created_at)
      select gen_random_uuid(), client, place, 200, sucursal_id, mp_user_id, business_day, ${at(1)}::timestamptz,
        ${at(2)}::timestamptz, requested_from, requested_to, time_zone, '{}', 'open', created_at
      from closings where id = ${first.id}`.execute(trx)
  })
  await expect(secondFirst).rejects.toMatchObject({ constraint: 'closings_first' })
  const rows = await db
    .selectFrom('closings')
    .select('number')
    .where('client', '=', asClientName(till.client))
    .execute()
  expect(rows).toHaveLength(2)
})
