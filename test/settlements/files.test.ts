import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  openShop,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'

let service: TestService
let till: Till
let other: Till
beforeAll(async () => {
  service = await startTestService()
  till = await openShop(service, 'acme', '6101')
  other = await openShop(service, 'other', '6102')
})
afterAll(() => service.stop())

const columns =
  'EXTERNAL_REFERENCE,SOURCE_ID,ORDER_MP,TRANSACTION_TYPE,TRANSACTION_AMOUNT,TRANSACTION_DATE,FEE_AMOUNT,FINANCING_FEE_AMOUNT,TAXES_AMOUNT,TAXES_DISAGGREGATED,SETTLEMENT_NET_AMOUNT,MONEY_RELEASE_DATE'
const taxes =
  '"[{financial_entity:caba,amount:-10.00,detail:tax_withholding_sirtac-caba},{financial_entity:debitos_creditos,amount:-6.00,detail:tax_withholding_collector-debitos_creditos}]"'

type Sold = { orderId: string; mpOrderId: string; paymentId: string }

async function sell(reference: string, amount = '1000,00', seller = till): Promise<Sold> {
  const { order_id } = (await charge(service, seller, { reference, amount })).json()
  await act(service, order_id, payByCard)
  await readOrder(service, seller, order_id)
  const row = await service.database.db
    .selectFrom('orders')
    .selectAll()
    .where('id', '=', order_id)
    .executeTakeFirstOrThrow()
  return {
    orderId: order_id,
    mpOrderId: String(row.mp_order_id),
    paymentId: String(row.payments[0]?.referenceId),
  }
}

const lineOf = (sold: Sold, net = '940.10', reference = '') =>
  `${reference},${sold.paymentId},${sold.mpOrderId},SETTLEMENT,1000.00,2026-11-21T10:30:00.000-04:00,-43.90,0.00,-16.00,${taxes},${net},2026-12-01T10:30:00.000-04:00`

const upload = (lines: readonly string[], seller = till, query = '') =>
  service.app.inject({
    method: 'POST',
    url: `/settlements/files${query}`,
    headers: { 'x-api-token': seller.key, 'content-type': 'text/csv; charset=utf-8' },
    payload: [columns, ...lines, ''].join('\n'),
  })
const netOf = async ({ orderId }: Sold, seller = till) =>
  (await readOrder(service, seller, orderId)).json().net
const rowsOf = (client: string) =>
  service.database.db
    .selectFrom('settlement_rows')
    .selectAll()
    .where('client', '=', client as never)
    .orderBy('at')
    .execute()

test('a report settles the net of its charges, and uploaded three times it adds nothing', async () => {
  const till = await openShop(service, 'three times', '6105')
  const sold = await sell('N-1', '1000,00', till)
  const lines = [
    lineOf(sold),
    `,${sold.paymentId},${sold.mpOrderId},REFUND,-100.00,2026-11-22T10:00:00.000-04:00,4.39,0.00,0.00,,-95.61,`,
    `,99001,,PAYOUTS,-500.00,2026-11-22T11:00:00.000-04:00,0.00,0.00,0.00,,-500.00,`,
  ]
  const first = await upload(lines, till, '?name=dia.csv')
  expect(first.statusCode, first.body).toBe(200)
  expect(first.json()).toMatchObject({
    report: 'settlement',
    name: 'dia.csv',
    rows: 3,
    added: 3,
    changed: 0,
    known: 0,
    without_order: 1,
    totals: { gross: '400.00', fee: '39.51', financing: '0.00', taxes: '16.00', net: '344.49' },
    from: '2026-11-21T14:30:00.000Z',
    to: '2026-11-22T15:00:00.000Z',
  })
  expect(await netOf(sold, till)).toEqual({
    state: 'settled',
    gross: '1000.00',
    fee: '43.90',
    financing: '0.00',
    taxes: [
      { name: 'tax_withholding_sirtac-caba', detail: null, entity: 'caba', amount: '10.00' },
      {
        name: 'tax_withholding_collector-debitos_creditos',
        detail: null,
        entity: 'debitos_creditos',
        amount: '6.00',
      },
    ],
    not_classed: [],
    unexplained: '0.00',
    net: '940.10',
    release_on: '2026-12-01',
    expected: null,
    charged_back: null,
  })
  const before = await rowsOf(till.client)
  for (const _ of [2, 3]) {
    const again = await upload(lines, till, '?name=dia.csv')
    expect(again.json()).toMatchObject({ id: first.json().id, added: 0, changed: 0, known: 3 })
  }
  const after = await rowsOf(till.client)
  const content = (rows: typeof before) => rows.map(({ seen_in, ...row }) => row)
  expect(content(after)).toEqual(content(before))
  const { files, total } = (
    await call(service, { url: '/settlements/files', token: till.key })
  ).json()
  expect(total).toBe(1)
  expect(files).toMatchObject([{ name: 'dia.csv', added: 3, readings: 3, origin: 'handed_in' }])
})

test('a file that was read before changes nothing that a newer one has changed', async () => {
  const till = await openShop(service, 'old file', '6121')
  const sold = await sell('N-1', '1000,00', till)
  const first = await upload([lineOf(sold)], till)
  expect((await upload([lineOf(sold, '930.10')], till)).json()).toMatchObject({ changed: 1 })
  const content = async () => (await rowsOf(till.client)).map(({ seen_in, ...row }) => row)
  const before = await content()
  for (const query of ['', '?zone=-03:00']) {
    const again = await upload([lineOf(sold)], till, query)
    expect(again.json()).toMatchObject({ id: first.json().id, added: 0, changed: 0, known: 1 })
    expect(again.json().without_order).toBe(0)
  }
  expect(await content()).toEqual(before)
  expect(await netOf(sold, till)).toMatchObject({ net: '930.10' })
})

test('a second settlement of one payment with equal amounts is the same movement', async () => {
  const till = await openShop(service, 'other zone', '6122')
  const sold = await sell('N-1', '1000,00', till)
  const moved = lineOf(sold).replace('T10:30:00.000-04:00,-43', 'T10:30:00.000-03:00,-43')
  expect((await upload([lineOf(sold)], till)).json()).toMatchObject({ added: 1 })
  expect((await upload([moved], till)).json()).toMatchObject({ added: 0, changed: 0, known: 1 })
  expect((await upload([lineOf(sold, '930.10')], till)).json()).toMatchObject({ changed: 1 })
  expect((await rowsOf(till.client)).map(({ net_cents }) => net_cents)).toEqual([93_010])
})

test('another report with the same movements adds only the new ones', async () => {
  const [a, b] = [await sell('N-2'), await sell('N-3')]
  const refund = (at: string) =>
    `,${a.paymentId},${a.mpOrderId},REFUND,-100.00,${at},0.00,0.00,0.00,,-100.00,`
  // Two equal refunds on one day, and a third on the next day, before which the first report ends.
  const early = [
    lineOf(a),
    refund('2026-11-22T10:00:00-04:00'),
    refund('2026-11-22T10:00:00-04:00'),
  ]
  expect((await upload(early)).json()).toMatchObject({ added: 3 })
  const late = [...early, refund('2026-11-23T10:00:00-04:00'), lineOf(b)]
  expect((await upload(late)).json()).toMatchObject({ rows: 5, added: 2, known: 3 })
  const tail = [refund('2026-11-23T11:00:00-03:00')]
  expect((await upload(tail)).json()).toMatchObject({ rows: 1, added: 0, known: 1 })
  const rows = (await rowsOf('acme')).filter(({ order_id }) => order_id === a.orderId)
  expect(rows.map(({ net_cents }) => net_cents)).toEqual([94_010, -10_000, -10_000, -10_000])
})

test('a report with fewer columns removes nothing, and a corrected movement is changed in place', async () => {
  const sold = await sell('N-4')
  await upload([lineOf(sold)])
  const bare = `SOURCE_ID;TRANSACTION_TYPE;TRANSACTION_AMOUNT;SETTLEMENT_NET_AMOUNT\n${sold.paymentId};SETTLEMENT;1.000,00;940,10\n`
  const json = await call(service, {
    url: '/settlements/files',
    token: till.key,
    body: { content: bare },
  })
  expect(json.json()).toMatchObject({ rows: 1, added: 0, changed: 0, known: 1 })
  expect(await netOf(sold)).toMatchObject({ state: 'settled', fee: '43.90', unexplained: '0.00' })
  expect((await upload([lineOf(sold, '930.10')])).json()).toMatchObject({ added: 0, changed: 1 })
  expect(await netOf(sold)).toMatchObject({ net: '930.10', unexplained: '10.00' })
})

test('a charge that the report has with another amount differs', async () => {
  const sold = await sell('N-5', '1200,00')
  await upload([lineOf(sold)])
  expect(await netOf(sold)).toMatchObject({
    state: 'differs',
    gross: '1000.00',
    net: '940.10',
    expected: { gross: '1200.00', net: null },
  })
})

test('a movement is found by its reference when its payment is that of the order', async () => {
  const sold = await sell('N-6')
  const line = (source: string) =>
    lineOf({ ...sold, mpOrderId: '', paymentId: source }, '940.10', 'N-6')
  expect((await upload([line('1')])).json()).toMatchObject({ without_order: 1 })
  expect(await netOf(sold)).toBeNull()
  expect((await upload([line(sold.paymentId)])).json()).toMatchObject({ without_order: 0 })
  expect(await netOf(sold)).toMatchObject({ state: 'settled' })
})

test('a release report settles the net, and its balances are not movements', async () => {
  const sold = await sell('N-7')
  const content = [
    'DATE,SOURCE_ID,RECORD_TYPE,DESCRIPTION,NET_CREDIT_AMOUNT,NET_DEBIT_AMOUNT,GROSS_AMOUNT,MP_FEE_AMOUNT,ORDER_MP',
    '2026-11-21T00:00:00.000-04:00,,initial_available_balance,,10.00,0.00,,,',
    `2026-12-01T10:30:00.000-04:00,${sold.paymentId},release,payment,956.10,0.00,1000.00,-43.90,${sold.mpOrderId}`,
    ',,total,,956.10,0.00,,,',
  ].join('\n')
  const url = '/settlements/files'
  const answer = await call(service, { url, token: till.key, body: { content } })
  expect(answer.json()).toMatchObject({ report: 'release', rows: 1, totals: { net: '956.10' } })
  expect(await netOf(sold)).toMatchObject({
    state: 'settled',
    net: '956.10',
    fee: '43.90',
    release_on: '2026-12-01',
  })
})

test('a file that cannot be parsed is refused as a whole, and the error names its line', async () => {
  const sold = await sell('N-8')
  const refused = await upload([lineOf(sold), lineOf(sold, 'much')])
  expect(refused.statusCode).toBe(422)
  expect(refused.json().details).toEqual([
    {
      path: 'content',
      message:
        'Line 3 has a SETTLEMENT_NET_AMOUNT that cannot be read: expected an amount such as 1234.50 (got "much")',
    },
  ])
  expect(await netOf(sold)).toBeNull()
  const zone = await upload([lineOf(sold)], till, '?zone=Madrid')
  expect(zone.statusCode).toBe(422)
  const bytes = await service.app.inject({
    method: 'POST',
    url: '/settlements/files',
    headers: { 'x-api-token': till.key, 'content-type': 'text/csv' },
    payload: Buffer.from([0x41, 0xff]),
  })
  expect(bytes.statusCode).toBe(400)
})

test('a report does not affect orders of another client', async () => {
  const sold = await sell('N-9')
  expect((await upload([lineOf(sold)], other)).json()).toMatchObject({ added: 1, without_order: 1 })
  expect(await netOf(sold)).toBeNull()
  const files = await call(service, { url: '/settlements/files', token: other.key })
  expect(files.json().total).toBe(1)
})

test('the net of a span is the sum of its charges, to the cent', async () => {
  const shop = await openShop(service, 'sums', '6103')
  const url = `/settlements/net?from=${new Date(service.clock.now().getTime() - 3_600_000).toISOString()}`
  const sold = [await sell('S-1', '1000,00', shop), await sell('S-2', '1000,00', shop)]
  await sell('S-3', '55,55', shop)
  await upload(
    sold.map((one) => lineOf(one)),
    shop,
  )
  const net = (await call(service, { url, token: shop.key })).json()
  expect(net).toMatchObject({
    orders: 2,
    estimated: 0,
    settled: 2,
    differs: 0,
    gross: '2000.00',
    fee: '87.80',
    financing: '0.00',
    taxes: [
      { name: 'tax_withholding_sirtac-caba', entity: 'caba', amount: '20.00' },
      {
        name: 'tax_withholding_collector-debitos_creditos',
        entity: 'debitos_creditos',
        amount: '12.00',
      },
    ],
    taxes_total: '32.00',
    unexplained: '0.00',
    net: '1880.20',
    unknown: { orders: 1, gross: '55.55' },
  })
})

test('T22: only a report may be larger than other bodies, up to its own limit', {
  tags: ['long'],
}, async () => {
  const till = await openShop(service, 'large', '6104')
  const line = (id: number) =>
    `,${id},,PAYOUTS,-1.00,2026-11-22T11:00:00.000-04:00,0.00,0.00,0.00,,-1.00,`
  const lines = Array.from({ length: 5_000 }, (_, id) => line(id))
  const large = await upload(lines, till)
  expect(large.json()).toMatchObject({ rows: 5_000, added: 5_000, totals: { net: '-5000.00' } })
  expect((await upload(lines, till)).json()).toMatchObject({ added: 0, known: 5_000 })
  const url = '/settlements/files'
  const json = await call(service, { url, token: till.key, body: { content: lines.join('\n') } })
  expect(json.statusCode).toBe(413)
  const huge = Array.from({ length: 9 }, () => 'x'.repeat(1024 * 1024))
  expect((await upload(huge, till)).statusCode).toBe(413)
})

test('an upload is audited', async () => {
  const shop = await openShop(service, 'audited', '6106')
  const lines = [1, 2, 3].map(
    (id) => `,${id},,PAYOUTS,-1.00,2026-11-22T11:00:00.000-04:00,0.00,0.00,0.00,,-1.00,`,
  )
  const sold = await sell('N-10', '1000,00', shop)
  for (const report of [lines, [lineOf(sold)], [lineOf(sold, '930.10')]]) {
    expect((await upload(report, shop)).statusCode).toBe(200)
  }
  const { logs } = (
    await asAdmin(service, { url: '/admin/activity?client=audited&limit=200' })
  ).json()
  const taken = logs.filter((entry: { action: string }) => entry.action === 'settlement.taken_in')
  expect(taken).toHaveLength(3)
  expect(taken.at(-1)).toMatchObject({
    resource_type: 'settlement',
    status: 'success',
    metadata: { report: 'settlement', rows: 3, added: 3 },
  })
})

test('a report whose audit entry cannot be written is not stored', async () => {
  const sold = await sell('N-0')
  const { db } = service.database
  await sql`create function refuse_report_entry() returns trigger language plpgsql as
    $$ begin raise exception 'no entry'; end $$`.execute(db)
  await sql`create trigger refuse_report_entry before insert on activity_log for each row
    when (new.action like 'settlement.%') execute function refuse_report_entry()`.execute(db)
  try {
    expect((await upload([lineOf(sold)], till, '?name=sin.csv')).statusCode).toBe(500)
  } finally {
    await sql`drop trigger refuse_report_entry on activity_log`.execute(db)
    await sql`drop function refuse_report_entry()`.execute(db)
  }
  const names = async () => {
    const listed = await call(service, { url: '/settlements/files?limit=100', token: till.key })
    return listed.json().files.map((file: { name: string | null }) => file.name)
  }
  expect(await names()).not.toContain('sin.csv')
  expect((await upload([lineOf(sold)], till, '?name=sin.csv')).statusCode).toBe(200)
  expect(await names()).toContain('sin.csv')
})

test('a report of releases without a movement is stored as one of releases', async () => {
  const answer = await service.app.inject({
    method: 'POST',
    url: '/settlements/files',
    headers: { 'x-api-token': till.key, 'content-type': 'text/csv; charset=utf-8' },
    payload: [
      'DATE,SOURCE_ID,RECORD_TYPE,DESCRIPTION,NET_CREDIT_AMOUNT,NET_DEBIT_AMOUNT,GROSS_AMOUNT',
      '2026-11-21T00:00:00.000-04:00,,initial_available_balance,,0.00,0.00,0.00',
      '',
    ].join('\n'),
  })
  expect(answer.json(), answer.body).toMatchObject({ report: 'release', rows: 0 })
})
