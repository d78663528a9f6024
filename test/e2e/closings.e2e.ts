import { readFile } from 'node:fs/promises'
import type { Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { readClosing, sell, today, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { deliver, openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  call,
  charge,
  createStore,
  pairTerminal,
  readOrder,
  sandboxCall,
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

let service: TestService
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
})
afterEach(async () => {
  opened?.expectQuiet()
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

/** The page where the shop is, at its own clock, at the closings of the day of the sales. */
async function open(till: Till, token = till.key, options = {}): Promise<Page> {
  const day = today(service)
  const view = `closings?day=${day}${token === adminToken ? `&client=${till.client}` : ''}`
  opened = await openPage(`${url}#/${view}`, {
    timezoneId: 'America/Argentina/Buenos_Aires',
    ...options,
  })
  await signIn(opened.page, token)
  return opened.page
}

const main = (page: Page) => page.locator('main')
const dialog = (page: Page) => page.locator('dialog')

function boxRow(page: Page, box = 'CAJA-1'): Locator {
  return page.getByRole('row', { name: box })
}

/** Closes the day of a box on the page, and has the service compare it. */
async function closeDay(page: Page, counted: Record<string, string> = {}): Promise<void> {
  await button(boxRow(page), 'Close the day').click()
  expect(await dialog(page).getByPlaceholder('0.00').count()).toBe(4)
  for (const [medium, amount] of Object.entries(counted)) {
    await dialog(page).getByLabel(medium, { exact: true }).fill(amount)
  }
  await button(dialog(page), 'Compare').click()
  await expectText(main(page), 'Mercado Pago needs a minute')
  await watchAfter(service, 61_000)
}

async function sign(page: Page): Promise<void> {
  await button(main(page), 'Sign').click()
  await expectText(dialog(page), 'Once signed it never changes')
  await button(dialog(page), 'Sign').click()
  await expectText(main(page), 'Signed at')
  expect(await button(main(page), 'Sign').count()).toBe(0)
  expect(await button(main(page), 'Count again').count()).toBe(0)
}

test('a chain closes its day with two clicks, signs what agrees with two more, and keeps what differs', async () => {
  const till = await openOwnShop(service, 'chain')
  const boxes = (store: number, from: number) =>
    Array.from({ length: 7 }, (_none, index) => `CAJA-${store}${from + index}`)
  const all = [...boxes(2, 1), ...boxes(3, 1)]
  await createStore(service, till, { id: 'SUC-2', boxes: boxes(2, 1) })
  await createStore(service, till, { id: 'SUC-10', boxes: boxes(3, 1) })
  for (const box of all) {
    await pairTerminal(service, till, box)
    await sell(service, till, `S-${box}`, { box, amount: '100,00' })
  }
  await typeCharge(service, till, {}, 'CAJA-21')
  const page = await open(till)
  const stores = page.locator('.store-closings')
  await expectText(stores.nth(1), /SUC-2[\s\S]*700\.00[\s\S]*0 of 7 closed/)
  await expectText(stores.nth(2), /SUC-10/)
  await button(page, 'Close all (14)').click()
  await button(dialog(page), 'Close 14 boxes').click()
  await expectText(dialog(page), 'Done: 14 of 14')
  await button(dialog(page), 'Close').click()
  await watchAfter(service, 61_000)
  await page.reload()
  await expectText(stores.nth(1), /7 of 7 closed[\s\S]*1 differs/)
  await button(page, 'Sign those that agree (13)').click()
  await expectText(dialog(page), 'Once signed')
  await button(dialog(page), 'Sign 13 closings').click()
  await expectText(dialog(page), 'Done: 13 of 13')
  await button(dialog(page), 'Close').click()
  await button(page, 'Only problems').click()
  await expectText(boxRow(page, 'CAJA-21'), /177\.50[\s\S]*differ/)
  expect(await page.locator('tbody tr').count()).toBe(1)
  await page.getByRole('searchbox').fill('caja-35')
  await button(page, 'Only problems').click()
  await expectText(boxRow(page, 'CAJA-35'), 'signed')
  const opener = stores.first().getByRole('button', { expanded: true })
  expect(await opener.count()).toBe(1)
  expect(await sidewaysOverflow(page)).toBe(0)
  expect(await seriousBarriers(page)).toEqual([])
})

test('closing many boxes can be stopped, lists what failed, and goes on later with the rest', async () => {
  const till = await openOwnShop(service, 'stopped')
  const boxes = Array.from({ length: 13 }, (_none, index) => `BOX-${index + 1}`)
  await createStore(service, till, { id: 'SUC-2', boxes })
  for (const box of boxes) {
    await pairTerminal(service, till, box)
    await sell(service, till, `T-${box}`, { box, amount: '10,00' })
  }
  const page = await open(till)
  let asked = 0
  const held = Promise.withResolvers<void>()
  await page.route('**/closings', async (route) => {
    if (route.request().method() !== 'POST') return route.continue()
    asked += 1
    if (asked === 2) {
      const body = { error: 'no', code: 'CLOSING_GAP', uncovered: {}, next_from: null }
      return route.fulfill({ status: 409, json: body })
    }
    if (asked === 4) await held.promise
    return route.continue()
  })
  await button(page, 'Close all (13)').click()
  await button(dialog(page), 'Close 13 boxes').click()
  await expectText(dialog(page), '3 of 13')
  await button(dialog(page), 'Stop').click()
  held.resolve()
  await expectText(dialog(page), /Done: 4 of 13[\s\S]*1 failed:[\s\S]*BOX-2/)
  await button(dialog(page), 'Close').click()
  await page.unroute('**/closings')
  await button(page, 'Close all (10)').click()
  await button(dialog(page), 'Close 10 boxes').click()
  await expectText(dialog(page), 'Done: 10 of 10')
  await button(dialog(page), 'Close').click()
  await expectText(page.locator('.store-closings').last(), '13 of 13 closed')
  opened?.expectQuiet(/409/)
  await opened?.close()
  opened = undefined
})

test('a day that agrees is counted, compared and signed on the page, and printed', async () => {
  const till = await openOwnShop(service, 'agrees')
  await sell(service, till, 'A-1', { amount: '1000,00' })
  await sell(service, till, 'A-2', { amount: '250,50' })
  await createStore(service, till, { id: 'IDLE', boxes: ['ASLEEP'] })
  const page = await open(till)
  await expectText(boxRow(page), /1,250\.50[\s\S]*not closed/)
  // As amounts are written on this page, and with a comma.
  await closeDay(page, { 'credit card': '1,250.5', 'debit card': '0,00' })
  await expectText(main(page), 'Everything agrees with Mercado Pago to the cent')
  await expectText(
    page.getByRole('row', { name: 'credit card' }),
    /1,250\.50[\s\S]*1,250\.50[\s\S]*0\.00/,
  )
  await sign(page)

  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download CSV' }).click()
  const csv = await readFile(await (await download).path(), 'utf8')
  expect(csv).toContain('"Reference"')
  const paper = page.context().waitForEvent('page')
  await page.getByRole('link', { name: 'Print' }).click()
  await expectText((await paper).locator('h1'), 'Closing 1 · CAJA-1')
  await (await paper).close()

  // Papers are in the language of the page, whatever the browser asks for.
  await button(page, 'Español').click()
  await expectText(main(page), /cierre/i)
  const inSpanish = page.context().waitForEvent('page')
  await page.getByRole('link', { name: 'Imprimir' }).click()
  await expectText((await inSpanish).locator('h1'), 'Cierre 1 · CAJA-1')
  await button(page, 'English').click()

  await page.getByRole('link', { name: 'Back to the closings' }).click()
  await expectText(boxRow(page), /signed[\s\S]*agrees/)
  // Where nothing was sold comes last, also once all the others are done, and asks for nothing.
  expect(await page.locator('main tbody tr').allInnerTexts()).toEqual([
    expect.stringContaining('CAJA-1'),
    expect.stringContaining('ASLEEP'),
  ])
  expect(await page.locator('main tbody .button.main').count()).toBe(0)
  await expectText(page.getByRole('region', { name: 'The day in numbers' }), /Agree\s+1/)
})

test('a day that differs shows the differing line first; once signed it is amended and stays', async () => {
  const till = await openOwnShop(service, 'differs')
  const sold = await sell(service, till, 'B-1')
  const waiting = (await charge(service, till, { reference: 'OPEN-1' })).json().order_id
  const payment = await typeCharge(service, till)
  const page = await open(till, adminToken)
  await closeDay(page)
  const first = page.locator('.difference').first()
  await expectText(first, 'missing here')
  await expectText(first, `Payment ${payment}`)
  await expectText(first, 'There is no charge')
  await expectText(first, /77\.50/)
  await expectText(first, 'Look for the sale')
  await expectText(page.locator('.difference').last(), 'no outcome yet')
  await expectText(main(page), '1 charge does not agree. Look at it before you sign')

  await sign(page)
  expect(await page.locator('.difference').count()).toBe(2)
  const later = await typeCharge(service, till, { amount: '12.00', at: await soldAt(till, sold) })
  await watchAfter(service, 5 * 60_000)
  await button(main(page), 'Add an amendment').click()
  await button(dialog(page), 'Add').click()
  await expectText(dialog(page), 'Write the reason')
  await dialog(page).getByLabel('Reason').fill('Apareció <b>otro</b> pago')
  await button(dialog(page), 'Add').click()
  const amendment = page.getByRole('article').filter({ hasText: 'Amendment 1' })
  await expectText(amendment, 'Apareció <b>otro</b> pago')
  await expectText(amendment, `Payment ${later}`)
  const signed = page.locator('.difference').filter({ hasText: 'no outcome yet' })
  await expectText(signed.first(), 'OPEN-1')
  expect((await readOrder(service, till, waiting)).json().outcome).toBe('unknown')

  await first.getByRole('link', { name: 'Settle it' }).click()
  await expectText(page.locator('#title'), 'Unmatched payments')
  await expectText(page.locator('.asked'), payment)
})

async function soldAt(till: Till, orderId: string): Promise<string> {
  return (await readOrder(service, till, orderId)).json().created_at
}

test('charges without a sale are taken in, given back or dismissed, each with a reason and once', async () => {
  const till = await openOwnShop(service, 'orphans')
  await sell(service, till, 'C-1')
  const adopted = await typeCharge(service, till, { amount: '10.00' })
  const refunded = await typeCharge(service, till, { amount: '20.00' })
  const dismissed = await typeCharge(service, till, { amount: '30.00' })
  await watchAfter(service, 5 * 60_000)
  const page = await open(till)
  await expectText(main(page), '3 unmatched payments.')
  await page.goto(`${url}#/overview`)
  const told = page.locator('.attention-line', { hasText: '3 unmatched payments' })
  await told.getByRole('link', { name: 'See unmatched payments' }).click()
  await expectText(page.locator('#title'), 'Unmatched payments')
  await page.goBack()
  await page.goBack()
  await page.getByRole('link', { name: 'Settle', exact: true }).click()
  const card = (payment: string) => page.getByRole('listitem').filter({ hasText: payment })

  await button(card(adopted), 'Adopt').click()
  await dialog(page).getByLabel('Ticket of the sale').fill('0001-00004712')
  await dialog(page).getByLabel('Reason').fill('Se tecleó en la terminal')
  await button(dialog(page), 'Adopt').click()
  await expect.poll(() => card(adopted).count(), { timeout: 20_000 }).toBe(0)

  await button(card(refunded), 'Refund').click()
  await dialog(page).getByLabel('Reason').fill('Cobrado dos veces')
  await button(dialog(page), /20\.00 back/).click()
  await expect.poll(() => card(refunded).count(), { timeout: 20_000 }).toBe(0)

  await button(card(dismissed), 'Dismiss').click()
  await dialog(page).getByLabel('Reason').fill('De otra app')
  await button(dialog(page), 'Dismiss').click()
  await expectText(main(page), 'There are none')

  await page.getByLabel('Which').selectOption('all')
  await expectText(card(adopted), /adopted as a sale[\s\S]*Se tecleó en la terminal/)
  await expectText(card(refunded), 'refunded')
  await expectText(card(dismissed), 'De otra app')
  const { orphans } = (await call(service, { url: '/orphans', token: till.key })).json()
  expect(
    Object.fromEntries(
      orphans.map((one: { payment_id: string; state: string }) => [one.payment_id, one.state]),
    ),
  ).toEqual({ [adopted]: 'adopted', [refunded]: 'refunded', [dismissed]: 'dismissed' })
  await card(adopted).getByRole('link', { name: 'See the order' }).click()
  await expectText(main(page), '0001-00004712')
})

test('the net of the month is shown by fee, financing and tax, and adds up', async () => {
  const till = await openOwnShop(service, 'net')
  for (const reference of ['N-1', 'N-2']) {
    await sell(service, till, reference, { amount: '1000,00' })
  }
  await watchAfter(service, 5 * 60_000)
  await watchAfter(service, 5 * 60_000)
  const page = await open(till)
  await page.getByRole('link', { name: 'Net', exact: true }).click()
  await expectText(main(page), 'From what was charged to what is left')
  const rows = await page.locator('.waterfall li').allInnerTexts()
  const cents = rows.map((row) => {
    const [, minus, digits] = /(−?) ?ARS\s?([\d,.]+)/.exec(row) ?? []
    return Math.round(Number(digits?.replaceAll(',', '')) * 100) * (minus ? -1 : 1)
  })
  expect(cents.length).toBeGreaterThan(2)
  const [gross = 0] = cents
  const net = cents.at(-1)
  expect(cents.slice(1, -1).reduce((left, part) => left + part, gross)).toBe(net)
  await page.getByRole('link', { name: 'Earlier' }).click()
  await expectText(main(page), 'No charges in this month')
})

test('two shifts of a day show their times, and a day before that is not closed is asked for first', async () => {
  const till = await openOwnShop(service, 'shifts')
  service.clock.stayInOneDay(30 * 60_000)
  // The first shift begins on the same day.
  service.clock.advance(10 * 60_000)
  const shift = async (minutes: number) => {
    await sell(service, till, `E-${minutes}`, { amount: '10,00' })
    const to = service.clock.now()
    const from = new Date(to.getTime() - minutes * 60_000)
    const opened = await call(service, {
      url: '/closings',
      token: till.key,
      body: { caja_id: 'CAJA-1', from: from.toISOString(), to: to.toISOString() },
    })
    await watchAfter(service, 61_000)
    return opened.json()
  }
  const first = await shift(5)
  const second = await shift(1)
  const page = await open(till)
  const timeOf = (iso: string) =>
    new Date(Date.parse(iso) - 3 * 3_600_000).toISOString().slice(11, 19)
  for (const { from, to, number } of [first, second]) {
    // With the date, where the browser's own clock has another day.
    await expectText(boxRow(page), new RegExp(`${timeOf(from)} to (\\S+, )?${timeOf(to)}`))
    await expectText(boxRow(page), `See closing ${number}`)
  }
  await expectText(boxRow(page), /20\.00[\s\S]*20\.00/)
  await page.getByRole('link', { name: `See closing ${first.number}` }).click()
  await button(main(page), 'Count again').click()
  await dialog(page).getByLabel('credit card', { exact: true }).fill('10.00')
  await button(dialog(page), 'Compare').click()
  await expectText(main(page), 'Mercado Pago needs a minute')
  await watchAfter(service, 61_000)
  await expectText(page.getByRole('row', { name: 'credit card' }), /10\.00[\s\S]*0\.00/)
  const { totals } = await readClosing(service, till, second.id)
  expect(totals.media).toMatchObject([{ medium: 'credit_card', declared: null }])
  await page.getByRole('link', { name: 'Back to the closings' }).click()
  await button(boxRow(page), 'Close the rest of the day').click()
  await button(dialog(page), 'Compare').click()
  await expectText(page.locator('#title'), 'Closing 3 · CAJA-1')
  await page.getByRole('link', { name: 'Back to the closings' }).click()

  await watchAfter(service, 61_000)
  await sell(service, till, 'E-3')
  await call(service, { method: 'POST', url: `/closings/${second.id}/sign`, token: till.key })
  const day = today(service)
  opened?.expectQuiet()
  await opened?.close()
  // The session ends with the day.
  service.clock.advance(24 * 3_600_000)
  const next = await open(till, till.key, { locale: 'es-AR' })
  await button(boxRow(next), 'Cerrar el día').click()
  await button(dialog(next), 'Comparar').click()
  await expectText(dialog(next), 'Antes hay cobros sin cerrar')
  await expectText(dialog(next), 'hay cobros que no están en ningún cierre')
  await dialog(next).getByRole('link', { name: 'Cerrá primero el' }).click()
  await expect.poll(() => next.url()).toContain(day)
  // The browser reports the refusal too.
  opened?.expectQuiet(/409/)
  await opened?.close()
  opened = undefined
})

/** A charge-back of a charge at the box; answers the number of its case. */
async function dispute(till: Till): Promise<string> {
  const paymentId = await typeCharge(service, till)
  const made = await sandboxCall(service, 'POST', '/_sandbox/chargebacks', {
    payment_id: Number(paymentId),
  })
  return (made as { id: string }).id
}

test('a charge-back is on the overview and in its list, with what is to be done and its end', async () => {
  const till = await openOwnShop(service, 'disputed')
  await sell(service, till, 'D-1')
  const caseId = await dispute(till)
  await watchAfter(service, 5 * 60_000)
  const page = await open(till)
  await page.goto(`${url}#/overview`)
  await expectText(main(page), '1 charge-back undecided')
  await page.getByRole('link', { name: 'See charge-backs' }).click()
  await expectText(main(page), 'Upload the documents of the sale before the deadline.')
  await expectText(page.locator('.chargeback'), caseId)
  await sandboxCall(service, 'POST', `/_sandbox/chargebacks/${caseId}/act`, { do: 'win' })
  await deliver(service, {
    dataId: caseId,
    type: 'topic_chargebacks_wh',
    body: { type: 'topic_chargebacks_wh', user_id: till.mpUserId },
  })
  await page.goto(`${url}#/closings/chargebacks?state=won`)
  await expectText(page.locator('.chargeback'), 'won')
})

test.each([
  { locale: 'es-AR', colorScheme: 'light' },
  { locale: 'en-GB', colorScheme: 'dark' },
] as const)(
  'nobody is kept out of the closings, at any width ($locale, $colorScheme)',
  async (look) => {
    const till = await openOwnShop(service, `barriers ${look.locale}`)
    const sold = await sell(service, till, 'D-1')
    await typeCharge(service, till)
    await dispute(till)
    await watchAfter(service, 5 * 60_000)
    const { id } = (
      await call(service, {
        url: '/closings',
        token: till.key,
        body: {
          caja_id: 'CAJA-1',
          business_day: today(service),
          declared: { credit_card: '1,00' },
        },
      })
    ).json()
    await watchAfter(service, 61_000)
    await call(service, { method: 'POST', url: `/closings/${id}/sign`, token: till.key })
    await call(service, {
      url: `/closings/${id}/amendments`,
      token: till.key,
      body: { reason: 'Después' },
    })
    expect((await readOrder(service, till, sold)).json().status).toBe('processed')
    const page = await open(till, till.key, { ...look, reducedMotion: 'reduce' })
    const views = {
      closings: '.closing-numbers',
      [`closings/${id}`]: '.amendment',
      'closings/orphans': '.orphan',
      'closings/chargebacks': '.chargeback',
      'closings/net': '.waterfall',
    }
    for (const [view, shown] of Object.entries(views)) {
      await page.goto(`${url}#/${view}`)
      await page.locator(shown).first().waitFor()
      expect(await seriousBarriers(page), view).toEqual([])
      expect(await tooWideAt(page), view).toEqual([])
      await page.setViewportSize({ width: 390, height: 840 })
      expect(await sidewaysOverflow(page)).toBe(0)
      await page.setViewportSize({ width: 1280, height: 840 })
    }
  },
)
