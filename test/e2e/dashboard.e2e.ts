import { randomUUID } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { sql } from 'kysely'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { insertOrders } from '../support/insert-orders.ts'
import { deliver, openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  call,
  charge,
  createStore,
  enrol,
  openShop,
  pairTerminal,
  payByCard,
  readOrder,
  type Till,
} from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  sidewaysOverflow,
  signIn,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

const hostileName = 'Kiosco <img src=x onerror=alert(1)> \u202Ecod.exe'
const hostileReference = '<script>alert(2)</script>\u202Egnirts '.padEnd(64, 'W')
const longText = `<b>ten kilobytes</b>\u202E${'x'.repeat(10_000)}`

let service: TestService
let url: string
let shop: Till & { terminalId: string }
let other: Till
let hostile: Till
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  shop = await openOwnShop(service, 'panaderia')
  other = await openOwnShop(service, 'ferreteria')
  hostile = await enrol(service, hostileName, '7900001')
  await createStore(service, hostile, { id: 'SUC <b>1</b>', boxes: ['CAJA <i>1</i>'] })
  await pairTerminal(service, hostile, 'CAJA <i>1</i>')
  await sell(other, 'FERRE-1')
  await sell(hostile, hostileReference, 'CAJA <i>1</i>')
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

/** A paid sale; answers our id. */
async function sell(till: Till, reference: string, box = 'CAJA-1'): Promise<string> {
  const created = await charge(service, till, { reference, box })
  expect(created.statusCode, created.body).toBe(201)
  const id = created.json().order_id
  await act(service, id, payByCard)
  expect((await readOrder(service, till, id)).json().status).toBe('processed')
  return id
}

/** The page of somebody who signed in with `token`, at a view. */
async function open(
  view = 'overview',
  token = adminToken,
  options: BrowserContextOptions = {},
): Promise<Page> {
  opened = await openPage(`${url}#/${view}`, options)
  await signIn(opened.page, token)
  return opened.page
}

const main = (page: Page) => page.locator('main')

async function goTo(page: Page, view: string): Promise<void> {
  await page.goto(`${url}#/${view}`)
}

test('a wrong token is told; the admin token shows every client; signing out forgets it', async () => {
  opened = await openPage(url)
  const { page, requested } = opened
  await page.locator('#token').fill('wrong')
  await page.keyboard.press('Enter')
  await expectText(page.getByRole('alert'), 'not valid')
  await page.locator('#token').fill(adminToken)
  await page.keyboard.press('Enter')
  await expectText(main(page), 'FERRE-1')
  await expectText(main(page), 'ferreteria')
  await page.reload()
  await expectText(main(page), 'FERRE-1')
  const [cookie] = await page.context().cookies()
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
  expect(decodeURIComponent(cookie?.value ?? '')).not.toContain(adminToken)
  expect(await page.evaluate('document.cookie')).toBe('')
  expect(
    await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])'),
  ).not.toContain(adminToken)
  await button(page, 'Sign out').click()
  expect(await page.locator('#token').inputValue()).toBe('')
  await page.reload()
  await page.locator('#token').waitFor()
  expect(await page.context().cookies()).toEqual([])
  expect([...requested, page.url()].filter((one) => one.includes(adminToken))).toEqual([])
  opened.expectQuiet(/401/)
})

test('a client key shows its own orders and nothing of others', async () => {
  const id = await sell(other, 'FERRE-2')
  await sell(shop, 'PAN-1')
  const page = await open('orders', shop.key)
  await expectText(main(page), 'PAN-1')
  expect(await main(page).innerText()).not.toContain('FERRE')
  const ways = await page.getByRole('navigation', { name: 'Sections' }).innerText()
  expect(ways.split(/\s+/)).toEqual(['Today', 'Orders', 'Boxes', 'Closings', 'Events'])
  await goTo(page, `orders/${id}?of=ferreteria`)
  await expectText(page.getByRole('alert'), 'There is no such order')
  expect(await main(page).innerText()).not.toContain('FERRE')
  opened?.expectQuiet(/404/)
})

test('a charge appears without a reload, and what became of it sooner than the page looks by itself', async () => {
  const page = await open('orders?client=panaderia')
  await expectText(main(page), 'Filters')
  const created = await charge(service, shop, { reference: 'LIVE-1', amount: '4711,50' })
  const id = created.json().order_id
  const row = page.getByRole('row', { name: /LIVE-1/ })
  await expectText(row, /4,711\.50[\s\S]*on the (way|terminal)/)
  const seenAt = performance.now()
  await act(service, id, payByCard)
  await readOrder(service, shop, id)
  await expectText(row, 'paid')
  // By itself it would have looked 5 s after it saw the charge, or 15 s while it is told what happens.
  expect(performance.now() - seenAt).toBeLessThan(4_000)
  await row.getByRole('link').first().click()
  await expectText(page.locator('h1'), 'LIVE-1')
  await expectText(main(page), /4,711\.50[\s\S]*What to tell the cashier[\s\S]*Visa/)
  await page.getByRole('link', { name: 'Back to the orders' }).click()
  await expectText(main(page), 'LIVE-1')
  expect(new URL(page.url()).hash).toContain('client=panaderia')
  opened?.expectQuiet()
})

test('a link to an order opens for the administrator, however many clients there are', async () => {
  const id = await sell(other, 'LINK-1')
  const { mp_order_id } = (await readOrder(service, other, id)).json()
  for (const linked of [id, mp_order_id]) {
    const page = await open(`orders/${linked}`)
    await expectText(page.locator('h1'), 'LINK-1')
    await expectText(main(page), /1,234\.50[\s\S]*The till asked for a charge/)
    await page.reload()
    await expectText(page.locator('h1'), 'LINK-1')
    opened?.expectQuiet()
    await opened?.close()
  }
  const page = await open(`orders/${randomUUID()}`)
  await expectText(page.getByRole('alert'), 'no such order')
})

test('a link to an order opens where there is one client only', async () => {
  const alone = await startTestService()
  try {
    const only = await openOwnShop(alone, 'solo')
    const id = (await charge(alone, only, { reference: 'SOLO-1' })).json().order_id
    const address = await alone.app.listen({ host: '127.0.0.1', port: 0 })
    opened = await openPage(`${address}/dashboard#/orders/${id}`)
    const { page } = opened
    await page.locator('#token').fill(adminToken)
    await page.keyboard.press('Enter')
    await expectText(page.locator('h1'), 'SOLO-1')
    await expectText(main(page), 'The till asked for a charge')
    opened.expectQuiet()
  } finally {
    await opened?.close()
    await alone.stop()
  }
})

test('filters and pages stay over a reload, and back and forward lead through them', async () => {
  const own = await openShop(service, 'almacen', '7900008')
  await sell(own, 'ALM-PAID')
  await insertOrders(
    service.database.db,
    sql`select (jsonb_populate_record(one, jsonb_build_object('id', gen_random_uuid(),
      'mp_order_id', 'ORDALM' || n, 'mp_external_reference', 'ALM-' || n, 'external_reference', 'ALM-' || n,
      'created_at', one.created_at - n * interval '1 minute'))).*
    from orders as one, generate_series(1, 60) as n where one.external_reference = 'ALM-PAID'`,
  )
  const page = await open('orders?client=almacen')
  const rows = main(page).locator('tbody tr')
  const where = page.getByRole('navigation', { name: 'Pages' })
  await expectText(where, '1–25 of 61')
  await page.getByRole('link', { name: 'Older' }).click()
  await expectText(where, '26–50 of 61')
  await expectText(rows.first(), 'ALM-25')
  await page.getByRole('link', { name: 'Older' }).click()
  await expectText(where, '51–61 of 61')
  await expectText(rows.last(), 'ALM-60')
  expect(await page.getByRole('link', { name: 'Older' }).count()).toBe(0)
  await page.reload()
  await expectText(where, '51–61 of 61')
  await page.getByRole('link', { name: 'Newer' }).click()
  await expectText(where, '26–50 of 61')
  await expectText(rows.first(), 'ALM-25')
  await page.goBack()
  await expectText(where, '51–61 of 61')

  await page.getByLabel('Search').fill('alm-1')
  await expectText(main(page), /11 orders\s/)
  await page.getByLabel('Status').selectOption('processed')
  await expect.poll(() => new URL(page.url()).hash).toContain('status=processed')
  await rows.first().getByRole('link').first().click()
  await expectText(page.locator('h1'), 'ALM-1')
  await page.goBack()
  const filters = () =>
    Promise.all([
      page.getByLabel('Search').inputValue(),
      page.getByLabel('Status').inputValue(),
      rows.count(),
    ])
  await expect.poll(filters, { timeout: 20_000 }).toEqual(['alm-1', 'processed', 11])
  await page.reload()
  await expect.poll(filters, { timeout: 20_000 }).toEqual(['alm-1', 'processed', 11])
  await page.goForward()
  await expectText(page.locator('h1'), 'ALM-1')
  await page.getByRole('link', { name: 'Back to the orders' }).click()
  await expect.poll(filters, { timeout: 20_000 }).toEqual(['alm-1', 'processed', 11])
  opened?.expectQuiet()
})

test('orders are searched, and saved as a file that no spreadsheet takes for formulas', async () => {
  await sell(shop, '=HYPERLINK("http://x")')
  await sell(shop, 'OTHER-9')
  const page = await open('orders?client=panaderia')
  await page.getByLabel('Search').fill('hyperlink')
  await expectText(main(page), /1 order\s/)
  expect(await main(page).innerText()).not.toContain('OTHER-9')
  const begun = page.waitForEvent('download')
  await button(page, 'Download CSV').click()
  const file = await (await begun).createReadStream()
  const [head, ...rows] = (await buffer(file)).toString('utf8').split('\r\n')
  expect(head).toMatch(/^\ufeff"Created","Reference",/)
  expect(rows).toHaveLength(1)
  expect(rows[0]).toContain(`"'=HYPERLINK(""http://x"")"`)
  expect(rows[0]).toContain('"1234.50"')
  await expectText(page.locator('#toasts'), '1 order saved')
  opened?.expectQuiet()
})

test('a refund asks first, says what it does, and gives back that much once', async () => {
  const id = await sell(shop, 'REFUND-1')
  const page = await open(`orders/${id}?of=panaderia`)
  await button(page, 'Refund').click()
  const dialog = page.getByRole('dialog')
  await button(dialog, 'Back').click()
  expect((await readOrder(service, shop, id)).json().refunds).toEqual([])
  await button(page, 'Refund').click()
  await dialog.getByLabel('A part').check()
  await dialog.getByLabel('Amount to refund').fill('9999,00')
  await page.keyboard.press('Enter')
  await expectText(dialog.getByRole('alert'), 'more than can be refunded')
  await dialog.getByLabel('Amount to refund').fill('234,50')
  await button(dialog, 'Refund ARS 234.50').click()
  await expectText(page.locator('#toasts'), '234.50 refunded')
  await expectText(main(page), /Refunded\s+− ARS\s234\.50\s+Kept\s+ARS\s1,000\.00/)
  const steps = page.locator('.timeline').first()
  await expectText(steps, /asked for a charge[\s\S]*paid[\s\S]*Refunded ARS\s234\.50/)
  await page.getByText(/^Every step/).click()
  const story = page.locator('.every-step .timeline').first()
  await expectText(story, /Sent to Mercado Pago[\s\S]*paid[\s\S]*Refunded ARS\s234\.50/)
  await expectText(story, /A user of the dashboard asked to refund[\s\S]*refund it 201/)
  const order = (await readOrder(service, shop, id)).json()
  expect(order).toMatchObject({ status: 'partially_refunded', refunds: [{ amount: '234.50' }] })
  const inLedger = service.sandbox.ledger().orders.find((one) => one.id === order.mp_order_id)
  expect(inLedger?.refunds).toMatchObject([{ amount: '234.50' }])
  opened?.expectQuiet()
})

test('the overview tells what came in, how each box fares and leads to its page', async () => {
  const own = await openShop(service, 'libreria', '7900004')
  await sell(own, 'LIB-1')
  const page = await open('overview?client=libreria')
  await expect
    .poll(() => page.getByLabel('Client').locator('option').count(), { timeout: 20_000 })
    .toBeGreaterThan(2)
  expect(await page.getByLabel('Client').inputValue()).toBe('libreria')
  await expectText(main(page), /Approved today\s+ARS\s1,234\.50[\s\S]*Approval rate\s+100%/)
  const told = /^\d+:00 to \d+:00: ARS\s1,234\.50, 1 paid of 1$/
  await page.getByText('As a list').press('Enter')
  await expectText(page.locator('.hour-list li'), told)
  // Hours are those of the shop.
  const hour = Number(
    new Intl.DateTimeFormat('en', {
      timeZone: 'America/Argentina/Buenos_Aires',
      hour: 'numeric',
      hourCycle: 'h23',
    }).format(),
  )
  const bars = await page.locator('.hours .u-over').boundingBox()
  if (!bars) throw new Error('there is no chart')
  // Over the bar of this hour, which may have passed since the sale.
  for (const at of [hour, hour - 1]) {
    await page.mouse.move(bars.x + ((at + 0.5) / 24) * bars.width, bars.y + bars.height / 2)
    if (await page.locator('.chart-tip').isVisible()) break
  }
  await expectText(page.locator('.chart-tip'), told)
  const box = page.getByRole('link', { name: /Caja CAJA-1.*works.*Today ARS\s1,234\.50 · 1 paid/s })
  await box.click()
  await expectText(main(page), /Charge yes[\s\S]*LIB-1/)
  expect(new URL(page.url()).hash).toContain('stores/CAJA-1')
  opened?.expectQuiet()
})

test('a new client stands in the list once it is told of, however long the page would not look by itself', async () => {
  const page = await open('overview')
  // Its clock stands still, so nothing is due by time.
  await page.clock.setFixedTime(new Date())
  await page.reload()
  const names = page.getByLabel('Client').locator('option')
  await expect.poll(() => names.allInnerTexts(), { timeout: 20_000 }).toContain('panaderia')
  await enrol(service, 'recien llegada', '7900055')
  await expect.poll(() => names.allInnerTexts(), { timeout: 20_000 }).toContain('recien llegada')
  opened?.expectQuiet()
})

test('going back leaves no question standing over another view', async () => {
  const id = await sell(shop, 'BACK-1')
  const page = await open('orders?client=panaderia')
  await goTo(page, `orders/${id}?of=panaderia`)
  await button(page, /^Refund/).click()
  await page.getByRole('dialog').waitFor()
  await page.goBack()
  await expect.poll(() => page.getByRole('dialog').count(), { timeout: 20_000 }).toBe(0)
  await expectText(page.locator('#title'), 'Orders')
  opened?.expectQuiet()
})

test('an order that no terminal shows yet can be canceled', async () => {
  const created = await charge(service, shop, { reference: 'CANCEL-1' })
  const id = created.json().order_id
  const page = await open(`orders/${id}?of=panaderia`)
  await button(page, 'Cancel order').click()
  await button(page.getByRole('dialog'), 'Cancel the order').click()
  await expectText(main(page), 'canceled')
  await expect.poll(() => button(page, 'Cancel order').count()).toBe(0)
  expect((await readOrder(service, shop, id)).json().status).toBe('canceled')
  opened?.expectQuiet()
})

test('the mode of a box changes after a question, at the provider too', async () => {
  const own = await openShop(service, 'kiosco', '7900002')
  const modeAtProvider = async () =>
    (await call(service, { url: '/terminals', token: own.key })).json().terminals[0].operating_mode
  const page = await open('stores/CAJA-1?client=kiosco')
  await button(page, /^Switch to standalone/i).click()
  await button(page.getByRole('dialog'), 'Back').click()
  expect(await modeAtProvider()).toBe('PDV')
  await button(page, /^Switch to standalone/i).click()
  await page.getByRole('dialog').locator('button[type=submit]').click()
  await expectText(main(page), /Switch to integrated/i)
  expect(await modeAtProvider()).toBe('STANDALONE')
  opened?.expectQuiet()
})

test('a terminal that stays busy says which order holds it, and is freed after a reason', async () => {
  const own = await openShop(service, 'farmacia', '7900006')
  const created = await charge(service, own, { reference: 'HOLD-1' })
  const page = await open('stores?client=farmacia')
  await expectText(main(page), 'charging')
  await page.locator('.box a').click()
  await expectText(main(page), /Charge needs attention[\s\S]*Busy with HOLD-1/)
  await button(page, /^Free terminal…/).click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, /can be freed[\s\S]*HOLD-1[\s\S]*will be canceled/)
  expect(await seriousBarriers(page)).toEqual([])
  await button(dialog, 'Free the terminal').click()
  await expectText(dialog, 'Say why')
  await dialog.locator('[name=reason]').fill('box says busy')
  await button(dialog, 'Free the terminal').click()
  await expectText(dialog, 'The terminal is free now')
  await button(dialog, 'Back').click()
  const { status } = (await readOrder(service, own, created.json().order_id)).json()
  expect(status).toBe('canceled')
  await expect.poll(() => main(page).innerText()).not.toContain('Busy with')
  await goTo(page, 'activity?client=farmacia')
  await expectText(main(page), 'Terminal freed')
  opened?.expectQuiet()
})

test('a declined charge says why in the list already', async () => {
  const own = await openShop(service, 'polleria', '7900007')
  const created = await charge(service, own, { reference: 'POOR-1' })
  const id = created.json().order_id
  await act(service, id, { do: 'decline', status_detail: 'insufficient_amount' })
  await readOrder(service, own, id)
  const page = await open('orders', own.key)
  await expectText(page.getByRole('row', { name: /POOR-1/ }), /declined\s+insufficient funds/)
  await goTo(page, `orders/${id}`)
  await expectText(page.locator('.timeline').first(), /→\s+declined insufficient funds/)
  opened?.expectQuiet()
})

test('who reads Spanish reads what was refused, what came and what became of it in Spanish', async () => {
  const own = await openOwnShop(service, 'editorial')
  const id = await sell(own, 'LIBRO-1')
  const again = await charge(service, own, { reference: 'LIBRO-1' })
  expect(again.json().code).toBe('ORDER_ALREADY_PAID')
  const { mp_order_id } = (await readOrder(service, own, id)).json()
  await deliver(service, { dataId: mp_order_id, body: { action: 'order.processed' } })
  const page = await open('activity?client=editorial', adminToken, { locale: 'es-AR' })
  const refused = page.getByRole('row', { name: /Cobro creado[\s\S]*falló/ })
  await expectText(refused, 'Un cobro igual ya está pagado; no vuelvas a cobrar')
  await button(refused, 'Detalle').click()
  await expectText(page.locator('pre'), '"error": "ORDER_ALREADY_PAID: An equal order')
  await goTo(page, 'webhooks?client=editorial')
  await expectText(page.locator('td.c-event').first(), 'pagado')
  await goTo(page, `orders/${id}?of=editorial`)
  await page.getByText(/^Todos los pasos/).click()
  await expectText(page.locator('.every-step'), /Avisó Mercado Pago[\s\S]*pagado/)
  opened?.expectQuiet()
})

test('the webhook log shows what came, whole and as text, and works it again', async () => {
  const id = await sell(shop, 'HOOK-1')
  const { mp_order_id } = (await readOrder(service, shop, id)).json()
  await deliver(service, {
    dataId: mp_order_id,
    body: { action: 'order.processed', data: { id: mp_order_id, note: longText } },
  })
  const page = await open('webhooks?client=panaderia', adminToken, {
    viewport: { width: 360, height: 740 },
  })
  const entry = page.getByRole('row', { name: new RegExp(mp_order_id) })
  await expectText(entry, 'valid')
  await button(entry, 'Details').click()
  await expectText(page.locator('pre'), longText.slice(0, 5000))
  expect(await sidewaysOverflow(page)).toBe(0)
  expect(await page.locator('main :is(b, img, script)').count()).toBe(0)
  await button(entry, 'Replay').click()
  await expectText(page.locator('#toasts'), 'processed')
  opened?.expectQuiet()
})

test('the activity names who did what, and checks that the log is whole', async () => {
  const page = await open('activity?client=ferreteria')
  const log = page.getByRole('table', { name: 'Activity' })
  await expectText(log, 'Order created')
  await page.getByLabel('Action').selectOption('api_key.created')
  await expect.poll(() => log.innerText(), { timeout: 20_000 }).not.toContain('Order created')
  await expectText(log, 'Key created')
  await button(log.getByRole('row', { name: /Key created/ }), 'Details').click()
  await expectText(log.locator('pre'), '"hash"')
  await button(page, 'Check the chain').click()
  await expectText(main(page), /The log is whole: \d+ entries/)
  opened?.expectQuiet()
})

test('a revoked key ends the session', async () => {
  const till = await enrol(service, 'efimera', '7900003')
  const page = await open('orders', till.key)
  await expectText(main(page), 'no orders yet')
  await asAdmin(service, { url: '/api-keys/revoke', body: { client: 'efimera' } })
  await expectText(main(page), 'The session ended')
  expect(await page.locator('#token').inputValue()).toBe('')
  opened?.expectQuiet(/401/)
})

test('names from outside are text, and nothing scrolls sideways', async () => {
  const client = encodeURIComponent(hostileName)
  const { orders } = (await call(service, { url: '/orders', token: hostile.key })).json()
  const page = await open('overview', adminToken, { viewport: { width: 360, height: 740 } })
  for (const [view, text] of [
    // On a phone without the latest orders.
    [`overview?client=${client}`, 'CAJA <i>1</i>'],
    [`orders?client=${client}`, '<script>alert(2)</script>'],
    [`orders/${orders[0].order_id}?of=${client}`, '<script>alert(2)</script>'],
    [`stores?client=${client}`, 'CAJA <i>1</i>'],
    ['clients', '<img src=x onerror=alert(1)>'],
    [`webhooks?client=${client}`, 'Webhooks'],
    [`activity?client=${client}`, '<img src=x onerror=alert(1)>'],
  ] as const) {
    await goTo(page, view)
    await expectText(main(page), text)
    expect([view, await tooWideAt(page)]).toEqual([view, []])
    expect(await page.locator('main :is(img, script, b, i)').count()).toBe(0)
  }
  opened?.expectQuiet()
})

test('what the provider said of an order is text in its timeline, however long', async () => {
  const own = await openOwnShop(service, 'heladeria')
  const id = await sell(own, 'HIELO-1')
  const { mp_order_id } = (await readOrder(service, own, id)).json()
  await deliver(service, { dataId: mp_order_id, body: { action: longText } })
  const { db } = service.database
  const call = {
    order_id: id,
    client: own.client as never,
    kind: 'provider' as const,
    at: service.clock.now(),
    duration_ms: 7,
    operation: 'order.read',
    caller: 'api',
    status: 500,
    attempt: 1,
  }
  const mark = '<img src=x onerror=alert(1)>\u202Etxt.exe'
  await db
    .insertInto('order_calls')
    .values([
      { ...call, code: mark, request_id: mark },
      { ...call, code: 'x'.repeat(10_000), request_id: longText },
      { ...call, operation: mark, caller: mark, code: null, request_id: null },
    ])
    .execute()
  await db
    .insertInto('order_events')
    .values({
      order_id: id,
      client: own.client as never,
      at: service.clock.now(),
      from_status: 'processed',
      to_status: 'processed',
      status_detail: longText,
      source: 'webhook',
      note: longText,
      version: 99,
    })
    .execute()
  const page = await open(`orders/${id}?of=heladeria`, adminToken, {
    viewport: { width: 360, height: 740 },
  })
  await page.getByText(/^Every step/).click()
  const timeline = page.locator('.every-step .timeline').first()
  await expectText(timeline, '<img src=x onerror=alert(1)>')
  await expectText(timeline, longText.slice(0, 100))
  expect(await page.locator('main :is(img, script, b)').count()).toBe(0)
  expect(await tooWideAt(page)).toEqual([])
  opened?.expectQuiet()
})

test('an address that nobody was given is told as what it is', async () => {
  const page = await open()
  for (const [view, text] of [
    ['orders?cursor=garbage', /not allowed[\s\S]*a cursor that this list has given/],
    ['orders?cursor=older.7', /a cursor that this list has given/],
    ['activity?cursor=%3Cimg%20src=x%3E', /a cursor that this list has given/],
    ['orders/%3Cimg%20src=x%3E', 'There is no such order'],
    ['orders/%E0%A4%A', 'There is no such order'],
    ['stores?client=nobody', 'There is no such client'],
    ['orders?from=x&page=-3', /\d+ orders/],
    [`orders/${'9'.repeat(3000)}`, /not allowed|no such order/],
    ['nowhere/at?all', 'Today'],
  ] as const) {
    await goTo(page, view)
    await expectText(page.locator('body'), text)
    expect(await page.locator('main img').count()).toBe(0)
  }
  opened?.expectQuiet(/status of 4(04|22)/)
})

test('speaks Spanish and English, and keeps the choice', async () => {
  const page = await open('overview', adminToken, { locale: 'es-AR' })
  await expectText(page.locator('h1'), 'Hoy')
  await button(page, 'English').click()
  await expectText(page.locator('h1'), 'Today')
  await page.reload()
  await expectText(page.locator('h1'), 'Today')
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  opened?.expectQuiet()
})

test('the keyboard alone refunds an order', async () => {
  const id = await sell(shop, 'KEYS-1')
  const page = await open(`orders/${id}?of=panaderia`)
  await button(page, 'Refund').waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
  await press(page, button(page, 'Refund'))
  await press(page, page.getByRole('dialog').locator('button[type=submit]'))
  await expectText(main(page), /Refunded\s+− ARS/)
  expect((await readOrder(service, shop, id)).json().status).toBe('refunded')
  opened?.expectQuiet()
})

/** Reaches something by Tab and presses Enter on it. */
async function press(page: Page, target: Locator): Promise<void> {
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press('Tab')
    if (await target.evaluate((element) => element.matches(':focus'))) break
  }
  await page.keyboard.press('Enter')
}

test('a lost connection is told, what was seen stays, and it recovers by itself', async () => {
  const page = await open('orders?client=ferreteria')
  await expectText(main(page), 'FERRE-1')
  await page.context().setOffline(true)
  await expectText(main(page), 'Connection lost')
  expect(await main(page).innerText()).toContain('FERRE-1')
  await page.context().setOffline(false)
  await expect.poll(() => page.getByText('Connection lost').count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet(/ERR_INTERNET_DISCONNECTED/)
})
