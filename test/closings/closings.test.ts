import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { ClientName } from '../../src/domain/client-name.ts'
import { means } from '../../src/domain/closing.ts'
import { sign as signAt } from '../../src/payments/closings/closings.ts'
import { textIn } from '../../src/texts/texts.ts'
import {
  clearFaults,
  newAccount,
  openOwnShop,
  refund,
  retireShops,
  setFaults,
} from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  changeAccount,
  charge,
  createStore,
  pairTerminal,
  sandboxCall,
  type Till,
} from '../support/till.ts'
import {
  close,
  openClosing,
  readClosing,
  sell,
  today,
  typeCharge,
  untilMorning,
  watchAfter,
} from './shop-day.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
beforeEach(async () => {
  await clearFaults(service)
  await sandboxCall(service, 'PUT', '/_sandbox/index', {})
  untilMorning(service)
})
afterEach(() => retireShops(service))
afterAll(() => service.stop())

const sign = (till: Till, id: string) =>
  call(service, { method: 'POST', url: `/closings/${id}/sign`, token: till.key })
const amend = (till: Till, id: string) =>
  call(service, { url: `/closings/${id}/amendments`, token: till.key, body: { reason: 'late' } })

test('a day of a box that is right to the cent is agreed a minute after its closing was opened', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'right')
  await sell(service, till, 'A-1')
  const orderId = await sell(service, till, 'A-2', { amount: '500,00' })
  await refund(service, till, orderId, '200,00')
  const opened = await openClosing(service, till, { declared: { credit_card: '1500,00' } })
  expect(opened.statusCode).toBe(202)
  expect(opened.json()).toMatchObject({ number: 1, state: 'open' })
  const { id } = opened.json()
  await service.paymentWatch.watchOnce()
  expect((await readClosing(service, till, id)).state).toBe('open')
  await watchAfter(service, 61_000)
  expect(await readClosing(service, till, id)).toMatchObject({
    state: 'agreed',
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    business_day: today(service),
    time_zone: 'America/Argentina/Buenos_Aires',
    lines: [],
    totals: {
      here: { count: 2, amount: '1500.00', refunded: '200.00' },
      there: { count: 2, amount: '1500.00', refunded: '200.00', net: '1410.15' },
      media: [{ medium: 'credit_card', declared: '1500.00', difference: '0.00' }],
      refunds: { count: 1, amount: '200.00' },
    },
  })
})

test('a payment that only the provider has is a line with both sides, a message and an action; an online sale is not', async () => {
  const till = await openOwnShop(service, 'typed')
  const paymentId = await typeCharge(service, till)
  await typeCharge(service, till, { pos_id: undefined })
  const { state, lines } = await close(service, till)
  expect(state).toBe('differs')
  expect(lines).toMatchObject([
    {
      kind: 'missing_here',
      order_id: null,
      payment_id: paymentId,
      here: null,
      there: { amount: '77.50', method: 'credit_card' },
      action: 'adopt_or_refund',
    },
  ])
  expect(lines[0].message).toMatch(/^Mercado Pago tiene este cobro/)
})

test('a wrong count has a line with both sums, and a charge that only a person can decide says so', async () => {
  const till = await openOwnShop(service, 'counted wrongly')
  await sell(service, till, 'A-1', { amount: '1234,50' })
  const counted = await close(service, till, { declared: { credit_card: '1200,00' } })
  const medium = { medium: 'credit_card', declared: '1200.00', charged: '1234.50' }
  expect(counted).toMatchObject({
    state: 'differs',
    lines: [{ counted: medium, action: 'count_again' }],
  })
  expect(counted.lines[0].message).toBe(
    'crédito: se contó 1.200,00 y se cobró 1.234,50. Contá otra vez y buscá si falta un comprobante.',
  )
  const file = await call(service, { url: `/closings/${counted.id}/csv`, token: till.key })
  expect(file.body.trim().split('\r\n')).toHaveLength(2)

  const other = await openOwnShop(service, 'in doubt')
  const { order_id } = (await charge(service, other, { reference: 'A-1' })).json()
  await act(service, order_id, { do: 'hold' })
  expect(await close(service, other)).toMatchObject({
    state: 'unverified',
    lines: [{ kind: 'in_doubt', order_id, action: 'decide' }],
  })
})

test('a charge that was paid without being read is read for the closing, and makes no difference', async () => {
  const till = await openOwnShop(service, 'window closed')
  const { order_id } = (await charge(service, till, { reference: 'A-1' })).json()
  await act(service, order_id, { do: 'pay' })
  const { state, totals } = await close(service, till)
  expect([state, totals.here.count]).toEqual(['agreed', 1])
})

test('a day is not agreed while a charge is open', { tags: ['long'] }, async () => {
  const till = await openOwnShop(service, 'waiting')
  await sell(service, till, 'A-1')
  const { order_id } = (await charge(service, till, { reference: 'A-2' })).json()
  const closing = await close(service, till)
  expect(closing).toMatchObject({
    state: 'unverified',
    reason: 'something_open',
    lines: [{ kind: 'pending', order_id, there: null, action: 'wait' }],
  })
  await act(service, order_id, { do: 'cancel' })
  await watchAfter(service, 61_000)
  expect((await readClosing(service, till, closing.id)).state).toBe('agreed')
})

test('a closing is unverified while the provider cannot be read, and agreed afterwards', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'unreadable')
  await sell(service, till, 'A-1')
  await setFaults(service, {
    path: '^/v1/payments/search$',
    kind: '500',
    user_id: till.mpUserId,
  })
  const { id } = (await openClosing(service, till)).json()
  for (let round = 0; round < 5; round += 1) await watchAfter(service, 20 * 60_000)
  expect(await readClosing(service, till, id)).toMatchObject({
    state: 'unverified',
    reason: 'provider_unreadable',
  })
  await clearFaults(service)
  await watchAfter(service, 70 * 60_000)
  await watchAfter(service, 16 * 60_000)
  expect((await readClosing(service, till, id)).state).toBe('agreed')
})

test('a count of an unknown means of payment is refused, and each known one has a word', async () => {
  const till = await openOwnShop(service, 'means')
  const refused = await openClosing(service, till, { declared: { tarjeta: '1,00' } })
  expect([refused.statusCode, refused.json().details]).toEqual([
    422,
    [{ path: 'declared.tarjeta', message: 'is not a known field' }],
  ])
  const declared = Object.fromEntries(means.map((name) => [name, '1,00']))
  expect((await openClosing(service, till, { declared })).statusCode).toBe(202)
  for (const name of means) expect(textIn('es', `closing.method.${name}`)).not.toBe('')
})

test('a count that is corrected during the comparison is compared, and audited', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'corrected')
  await sell(service, till, 'A-1')
  const wrong = { credit_card: '1,00' }
  const { id } = (await openClosing(service, till, { declared: wrong })).json()
  await setFaults(service, {
    path: '^/v1/payments/search$',
    kind: 'latency',
    delay_ms: 1_000,
    count: 1,
    user_id: till.mpUserId,
  })
  service.clock.advance(61_000)
  const watched = service.paymentWatch.watchOnce()
  await expect.poll(async () => (await readClosing(service, till, id)).state).toBe('checking')
  await openClosing(service, till, { declared: { credit_card: '1000,00' } })
  await watched
  expect(await readClosing(service, till, id)).toMatchObject({
    state: 'agreed',
    totals: { media: [{ medium: 'credit_card', declared: '1000.00', difference: '0.00' }] },
  })
  const url = `/admin/activity?client=${encodeURIComponent(till.client)}&action=closing.counted`
  expect((await asAdmin(service, { url })).json().logs).toMatchObject([
    {
      resource_id: id,
      metadata: { before: { credit_card: '1.00' }, declared: { credit_card: '1000.00' } },
    },
  ])
})

test('a count that is corrected during a failing comparison is compared when it is due', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'corrected and failing')
  await sell(service, till, 'A-1')
  const { id } = (await openClosing(service, till, { declared: { credit_card: '1,00' } })).json()
  const searching = { path: '^/v1/payments/search$', user_id: till.mpUserId }
  await setFaults(service, { ...searching, kind: '500' })
  for (let round = 0; round < 2; round += 1) await watchAfter(service, 20 * 60_000)
  await setFaults(
    service,
    { ...searching, kind: 'latency', delay_ms: 1_000, count: 1 },
    { ...searching, kind: '500' },
  )
  service.clock.advance(20 * 60_000)
  const { db } = service.database
  await db.updateTable('closings').set({ state: 'open' }).where('id', '=', id).execute()
  const watched = service.paymentWatch.watchOnce()
  await expect.poll(async () => (await readClosing(service, till, id)).state).toBe('checking')
  await openClosing(service, till, { declared: { credit_card: '2,00' } })
  await watched.catch(() => undefined)
  // The failed attempt was for the earlier count: the corrected one is due, and has not failed yet.
  const { state, failures, next_check_at } = await db
    .selectFrom('closings')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  expect([state, failures]).toEqual(['checking', 2])
  expect(next_check_at?.getTime()).toBeLessThanOrEqual(service.clock.now().getTime())
})

test('a closing whose audit entry cannot be written is not opened', async () => {
  const till = await openOwnShop(service, 'no log')
  const { db } = service.database
  await sql`create function refuse_closing_entry() returns trigger language plpgsql as
    $$ begin raise exception 'no entry'; end $$`.execute(db)
  await sql`create trigger refuse_closing_entry before insert on activity_log for each row
    when (new.action like 'closing.%') execute function refuse_closing_entry()`.execute(db)
  try {
    expect((await openClosing(service, till)).statusCode).toBe(500)
  } finally {
    await sql`drop trigger refuse_closing_entry on activity_log`.execute(db)
    await sql`drop function refuse_closing_entry()`.execute(db)
  }
  const listed = await call(service, { url: '/closings', token: till.key })
  expect(listed.json().total).toBe(0)
})

test('a search index that lags by 40 s hides no payment', async () => {
  const till = await openOwnShop(service, 'lag')
  await sandboxCall(service, 'PUT', '/_sandbox/index', { lag_ms: 40_000 })
  await sell(service, till, 'A-1')
  const paymentId = await typeCharge(service, till)
  const { lines, totals } = await close(service, till)
  expect(lines.map((line: { payment_id: string }) => line.payment_id)).toEqual([paymentId])
  expect(totals.there.count).toBe(2)
})

test('a repeated request returns the same closing until it is signed; the next one begins where it ended', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'twice')
  await sell(service, till, 'A-1')
  const closing = await close(service, till)
  const again = await openClosing(service, till)
  expect([again.statusCode, again.json()]).toMatchObject([
    200,
    { id: closing.id, number: 1, state: 'agreed', from: closing.from, to: closing.to },
  ])
  expect((await sign(till, closing.id)).json()).toMatchObject({ state: 'signed', result: 'agreed' })
  await sell(service, till, 'A-2', { amount: '2,00' })
  const next = await close(service, till)
  expect(next).toMatchObject({ number: 2, from: closing.to, state: 'agreed' })
  expect(next.totals.here).toMatchObject({ count: 1, amount: '2.00' })
})

test('an unsigned closing is compared again with what was sold since', async () => {
  const till = await openOwnShop(service, 'more')
  await sell(service, till, 'A-1')
  const { id } = await close(service, till)
  await sell(service, till, 'A-2')
  expect((await openClosing(service, till)).json()).toMatchObject({ id, state: 'open' })
  await watchAfter(service, 61_000)
  expect((await readClosing(service, till, id)).totals.here.count).toBe(2)
})

test('the audit log names the result that was signed, also when a comparison ended meanwhile', async () => {
  const till = await openOwnShop(service, 'signed meanwhile')
  const { id } = await close(service, till)
  const { database } = service
  const meanwhile: typeof database.transaction = async (work) => {
    await sql`update closings set state = 'differs' where id = ${id}`.execute(database.db)
    return database.transaction(work)
  }
  const deps = { ...service.deps, database: { ...database, transaction: meanwhile } }
  const actor = { ipAddress: '127.0.0.1', startedAt: service.clock.now() }
  expect(await signAt(deps, till.client as ClientName, id, actor)).toMatchObject({
    result: 'differs',
  })
  const { rows } = await sql`select metadata ->> 'result' as result from activity_log
    where action = 'closing.signed' and resource_id = ${id}`.execute(database.db)
  expect(rows).toEqual([{ result: 'differs' }])
})

test('only a closing with a result can be signed, and a signed one never changes: amendments refer to it', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'signed')
  await sell(service, till, 'A-1')
  const { id } = (await openClosing(service, till)).json()
  const early = await sign(till, id)
  expect([early.statusCode, early.json().code]).toEqual([409, 'CLOSING_NOT_CHECKED'])
  expect((await amend(till, id)).json().code).toBe('CLOSING_NOT_SIGNED')
  await watchAfter(service, 61_000)
  const signed = (await sign(till, id)).json()
  expect((await sign(till, id)).json()).toEqual(signed)

  await typeCharge(service, till, { at: new Date(Date.parse(signed.to) - 60_000).toISOString() })
  await watchAfter(service, 4 * 60_000)
  const amended = await amend(till, id)
  expect(amended.statusCode).toBe(201)
  expect(amended.json()).toMatchObject({
    closing_id: id,
    number: 1,
    result: 'differs',
    lines: [{ kind: 'missing_here' }],
  })
  const { amendments, ...after } = await readClosing(service, till, id)
  expect(amendments).toEqual([amended.json()])
  const { amendments: _, ...before } = signed
  expect(after).toEqual(before)
  const { db } = service.database
  for (const change of [
    db.updateTable('closings').set({ reason: 'x' }).where('id', '=', id),
    db.deleteFrom('closings').where('id', '=', id),
    db.deleteFrom('closing_amendments').where('closing_id', '=', id),
  ]) {
    await expect(change.execute()).rejects.toMatchObject({ code: '23001' })
  }
})

test('a closing of a store contains all its boxes, and uses the time zone of the store', {
  tags: ['long'],
}, async () => {
  const till = await openOwnShop(service, 'store')
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2', 'CAJA-3'] })
  for (const box of ['CAJA-2', 'CAJA-3']) await pairTerminal(service, till, box)
  const zone = await call(service, {
    method: 'PUT',
    url: '/stores/SUC-2/time-zone',
    token: till.key,
    body: { time_zone: 'America/Bogota' },
  })
  expect(zone.json()).toEqual({ sucursal_id: 'SUC-2', time_zone: 'America/Bogota' })
  await sell(service, till, 'A-1', { box: 'CAJA-2' })
  await sell(service, till, 'A-2', { box: 'CAJA-3' })
  await sell(service, till, 'A-3')
  const closing = await close(service, till, { caja_id: undefined, sucursal_id: 'SUC-2' })
  expect(closing).toMatchObject({
    state: 'agreed',
    caja_id: null,
    time_zone: 'America/Bogota',
    from: `${today(service)}T05:00:00.000Z`,
    totals: { here: { count: 2 }, there: { count: 2 } },
  })
  const listed = await call(service, { url: '/closings?sucursal_id=SUC-2', token: till.key })
  expect(listed.json()).toMatchObject({ total: 1, closings: [{ id: closing.id, differences: 0 }] })
})

test('a charge of a terminal that was moved to another box is a difference at both boxes', async () => {
  const till = await openOwnShop(service, 'carried')
  await createStore(service, till, { id: 'SUC-2', boxes: ['CAJA-2'] })
  const orderId = await sell(service, till, 'A-1')
  const { payments } = await service.database.db
    .selectFrom('orders')
    .select('payments')
    .where('id', '=', orderId)
    .executeTakeFirstOrThrow()
  await service.database.db
    .updateTable('orders')
    .set({ version: 90, payments: JSON.stringify(payments), ...{ caja_id: 'CAJA-2' } } as never)
    .where('id', '=', orderId)
    .execute()
  const closing = await close(service, till, { caja_id: 'CAJA-2' })
  expect(closing.lines).toMatchObject([
    {
      kind: 'other_box',
      order_id: orderId,
      here: { caja_id: 'CAJA-2' },
      there: { caja_id: 'CAJA-1' },
    },
  ])
})

test('the CSV file of a closing lists all charges, in the language and the time of the shop', async () => {
  const till = await openOwnShop(service, 'paper')
  const sold = service.clock.now()
  const orderId = await sell(service, till, '=HYPERLINK("x")', { amount: '18034,40' })
  await refund(service, till, orderId, '34,40')
  const paymentId = await typeCharge(service, till)
  const { id } = await close(service, till)
  const read = (path: string, headers = {}) =>
    call(service, { url: `/closings/${id}/${path}`, token: till.key, headers })
  const csv = await read('csv')
  expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8')
  const day = today(service)
  expect(csv.headers['content-disposition']).toMatch(
    new RegExp(`"closing-1-${day}-00-00-${day}-08-0\\d.csv"`),
  )
  const [head, ...rows] = csv.body.trimEnd().split('\r\n')
  expect(head).toMatch(
    /^\uFEFF"Fecha y hora";"Sucursal";"Caja";"Referencia";"Medio";"Cuotas";"Importe"/,
  )
  expect(rows).toHaveLength(2)
  const inShop = new Date(sold.getTime() - 3 * 3_600_000).toISOString()
  const [year, month, dayOfMonth] = inShop.slice(0, 10).split('-')
  expect(rows[0]).toContain(`"${dayOfMonth}/${month}/${year} ${inShop.slice(11, 14)}`)
  expect(rows[0]).toContain(
    `;"Sucursal SUC-1";"Caja CAJA-1";"'=HYPERLINK(""x"")";"crédito";"1";"18034,40";"34,40";"18034,40";"34,40";`,
  )
  expect(rows[1]).toMatch(
    new RegExp(`;"";"crédito";"1";"";"";"77,50";"0,00";"[^"]*";"falta acá";"";"${paymentId}"$`),
  )
  const inEnglish = await read('csv?language=en')
  expect(inEnglish.body).toContain('"Date and time","Store","Box"')
  expect(inEnglish.body).toContain('"18034.40"')
})

test('the page of a closing has names, local times and formatted amounts', async () => {
  const till = await openOwnShop(service, 'page')
  await sell(service, till, 'A-1', { amount: '18034,40' })
  await typeCharge(service, till)
  const { id } = await close(service, till)
  await sign(till, id)
  const url = `/closings/${id}/print`
  const spanish = (await call(service, { url, token: till.key })).body
  const [year, month, day] = today(service).split('-')
  expect(spanish).toContain(`<td>Día</td><td>${day}/${month}/${year}</td>`)
  expect(spanish).toMatch(
    new RegExp(`<td>Período</td><td>${day}/${month}/${year} 00:00 – ${day}/${month}/${year} 08:0`),
  )
  expect(spanish).toContain('<td>Sucursal SUC-1</td>')
  expect(spanish).toContain('18.034,40')
  expect(spanish).toContain('crédito')
  expect(spanish).toMatch(
    new RegExp(`<td>falta acá</td><td>${day}/${month}/${year} \\d\\d:\\d\\d</td>`),
  )
  expect(spanish).toMatch(/<td>Firmado por<\/td><td>mk_/)
  const english = await call(service, { url: `${url}?language=en`, token: till.key })
  expect(english.headers['content-type']).toBe('text/html; charset=utf-8')
  expect(english.body).toContain('Closing 1 · CAJA-1')
  expect(english.body).toContain('18,034.40')
})

test('the page of a closing of a store names the box of each difference', async () => {
  const till = await openOwnShop(service, 'store page')
  await sell(service, till, 'A-1', { amount: '10,00' })
  await typeCharge(service, till)
  const { id } = await close(service, till, { caja_id: undefined, sucursal_id: 'SUC-1' })
  const page = await call(service, { url: `/closings/${id}/print`, token: till.key })
  expect(page.body).toMatch(/<th>Fecha y hora<\/th><th>Caja<\/th>/)
  expect(page.body).toMatch(/<td>falta acá<\/td><td>[\d/]+ [\d:]+<\/td><td>Caja CAJA-1<\/td>/)
})

test.each([
  ['neither a box nor a store', { caja_id: undefined }, 422],
  ['both of them', { sucursal_id: 'SUC-1' }, 422],
  ['a day in the future', { business_day: '2099-01-01' }, 422],
  ['no time', { business_day: undefined }, 422],
  ['a box that does not exist', { caja_id: 'NONE' }, 404],
])('a closing of %s is refused', async (_, body, status) => {
  const till = await openOwnShop(service, `refused ${status}`)
  expect((await openClosing(service, till, body)).statusCode).toBe(status)
})

test('a day of which another account has a part is not verified', async () => {
  const till = await openOwnShop(service, 'two accounts')
  await sell(service, till, 'A-1')
  await watchAfter(service, 5 * 60_000)
  await typeCharge(service, till)
  const moved = await changeAccount(service, till, newAccount())
  await watchAfter(service, 5 * 60_000)
  const closing = await close(service, moved)
  expect(closing).toMatchObject({
    state: 'unverified',
    reason: 'account_changed',
    totals: { here: { count: 1 } },
  })
})
