import { buffer } from 'node:stream/consumers'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  cancel,
  canceling,
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  orderRow,
  reading,
  refund,
  setFaults,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  signIn,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

/** Orders as people look for them, and what can be done about one of which nobody knows how it ended. */
let service: TestService
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
})
afterEach(async () => {
  await clearFaults(service)
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

async function open(
  view: string,
  token = adminToken,
  options: BrowserContextOptions = {},
): Promise<Page> {
  opened = await openPage(`${url}#/${view}`, options)
  await signIn(opened.page, token)
  return opened.page
}

const main = (page: Page) => page.locator('main')
const hashOf = (page: Page) => new URL(page.url()).hash

async function sell(till: Till, reference: string, amount: string): Promise<string> {
  const { order_id: id } = (await charge(service, till, { reference, amount })).json()
  await act(service, id, payByCard)
  await readOrder(service, till, id)
  return id
}

/** A charge whose answer got lost, while the provider cannot be read either. */
async function loseCharge(till: Till, reference: string): Promise<string> {
  await setFaults(service, { ...creation, kind: 'drop_before' }, { ...reading, kind: '503' })
  return (await charge(service, till, { reference })).json().order_id
}

/** A paid, a partly refunded, a declined and a lost order. */
async function openBusyShop(client: string): Promise<Till & { lost: string }> {
  const till = await openOwnShop(service, client)
  await sell(till, 'PAID-1', '100,00')
  const part = await sell(till, 'PART-1', '1234,50')
  await refund(service, till, part, '234,50')
  const { order_id: poor } = (await charge(service, till, { reference: 'POOR-1' })).json()
  await act(service, poor, { do: 'decline', status_detail: 'insufficient_amount' })
  await readOrder(service, till, poor)
  const lost = await loseCharge(till, 'LOST-1')
  await clearFaults(service)
  return { ...till, lost }
}

test('tabs tell how many orders stand where, and the sum is of what is filtered', async () => {
  const till = await openBusyShop('pestanas')
  const page = await open('orders?client=pestanas')
  const tabs = page.getByRole('navigation', { name: 'Orders by how they stand' })
  await expectText(
    tabs,
    /All\s+4\s+On the way\s+0\s+Paid\s+2\s+With a refund\s+1\s+Not paid\s+1\s+In doubt\s+1/,
  )
  await expectText(
    main(page),
    /4 orders · paid ARS\s1,334\.50 · refunded ARS\s234\.50 · kept ARS\s1,100\.00/,
  )
  await tabs.getByRole('link', { name: /In doubt/ }).click()
  await expectText(main(page), /1 order ·[\s\S]*LOST-1/)
  const rows = main(page).locator('tbody tr')
  await expectText(rows, /in doubt/)
  expect(await rows.innerText()).not.toContain('on the way')
  expect(hashOf(page)).toContain('standing=in_doubt')
  await tabs.getByRole('link', { name: /Paid/ }).first().click()
  await expectText(main(page), /2 orders · paid ARS\s1,334\.50/)
  await page.goBack()
  await expectText(rows, 'LOST-1')
  expect(till.lost).toEqual(expect.any(String))
  expect(await seriousBarriers(page)).toEqual([])
  expect(await tooWideAt(page)).toEqual([])
  opened?.expectQuiet()
})

test('orders are found while somebody types, by amounts of either language too, and one step back leads out of it', async () => {
  await openBusyShop('buscada')
  const page = await open('overview?client=buscada')
  await page.goto(`${url}#/orders?client=buscada`)
  const search = page.getByLabel('Search')
  await expectText(main(page), /4 orders/)
  await expectText(main(page), 'an amount such as 1,234.50')
  for (const amount of ['1,234.50', '1.234,50', '1234,5', '1234.5', '1234']) {
    await search.fill('')
    await search.pressSequentially(amount)
    await expectText(main(page), /\b3 orders[\s\S]*PART-1/)
    await expect.poll(() => decodeURIComponent(hashOf(page))).toContain(`q=${amount}`)
    expect(await search.inputValue()).toBe(amount)
  }
  await search.fill('part-')
  await expectText(main(page), /1 order ·[\s\S]*PART-1/)
  await page.goBack()
  await expectText(page.locator('h1'), 'Today')
  opened?.expectQuiet()
})

test('what is shown can be asked for by day and by box, and all of it is saved', async () => {
  const till = await openOwnShop(service, 'fechada')
  await sell(till, 'TODAY-1', '10,00')
  const old = await sell(till, 'OLD-1', '20,00')
  await service.database.db
    .updateTable('orders')
    .set({ created_at: new Date(Date.now() - 24 * 3_600_000) } as never)
    .where('id', '=', old)
    .execute()
  for (let n = 0; n < 27; n += 1) await sell(till, `MANY-${n}`, '1,00')
  const page = await open('orders?client=fechada', adminToken, { acceptDownloads: true })
  await expectText(main(page), /29 orders/)
  const days = page.getByRole('group', { name: 'Day' })
  await days.getByRole('link', { name: 'Yesterday' }).click()
  await expectText(main(page), /1 order ·[\s\S]*OLD-1/)
  await days.getByRole('link', { name: 'Today' }).click()
  await expectText(main(page), /28 orders · paid ARS\s37\.00/)
  const begun = page.waitForEvent('download')
  await button(page, 'Download CSV').click()
  const text = (await buffer(await (await begun).createReadStream())).toString('utf8')
  const rows = text.split('\r\n').slice(1)
  // The page shows 25 of them.
  expect(rows).toHaveLength(28)
  expect(text).not.toContain('OLD-1')
  await page.getByLabel('Box').fill('CAJA-9')
  await page.keyboard.press('Tab')
  await expectText(main(page), 'No order matches')
  await page.getByRole('link', { name: 'Clear filters' }).first().click()
  await expectText(main(page), /29 orders/)
  opened?.expectQuiet()
})

test('an order in doubt is no dead end: the provider is asked now, and what somebody saw is written down', async () => {
  const till = await openOwnShop(service, 'dudosa')
  const id = await loseCharge(till, 'DOUBT-1')
  const page = await open(`orders/${id}`, till.key)
  await expectText(main(page), /in doubt[\s\S]*It is not known yet whether the customer has paid/)
  await button(page, 'Ask Mercado Pago now').click()
  await expectText(page.locator('#toasts'), /could not be asked|does not know it yet/)
  expect(await seriousBarriers(page)).toEqual([])
  await button(page, 'I looked: not paid').click()
  const dialog = page.getByRole('dialog')
  await button(dialog, 'It was not paid').click()
  await expectText(dialog.getByRole('alert'), 'Say who looked')
  await dialog.getByLabel('Who looked').fill('Ana, at the terminal')
  await button(dialog, 'It was not paid').click()
  await expectText(main(page), /not paid by a person[\s\S]*Ana, at the terminal/)
  const order = (await readOrder(service, till, id)).json()
  expect(order).toMatchObject({ settled: { as: 'not_paid' }, standing: 'not_paid' })
  await page.goto(`${url}#/orders`)
  await expectText(page.getByRole('row', { name: /DOUBT-1/ }), 'said not to be paid')
  opened?.expectQuiet()
})

test('a late payment says what was charged instead, and is settled on its page', async () => {
  const till = await openOwnShop(service, 'tardía')
  const made = (await charge(service, till, { reference: 'LATE-1', amount: '100,00' })).json()
  await cancel(service, till, made.order_id)
  await sell(till, 'LATE-1', '100,00')
  await act(service, made.order_id, { ...payByCard, force: true })
  const { mp_order_id: dataId } = await orderRow(service, made.order_id)
  await deliver(service, { dataId: String(dataId) })
  const page = await open(`orders/${made.order_id}`, till.key)
  await expectText(
    main(page),
    /Paid after it counted as not paid: [\s\S]*Charged instead:[\s\S]*LATE-1/,
  )
  expect(await seriousBarriers(page)).toEqual([])
  await button(page, 'Say that it was paid').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Who looked').fill('Ana, at the account')
  await button(dialog, 'It was paid').click()
  await expect.poll(() => button(page, 'Say that it was paid').count()).toBe(0)
  expect((await readOrder(service, till, made.order_id)).json().needs_decision).toBeNull()
  opened?.expectQuiet()
})

test('an order with interest and a further payment shows each amount by its name', async () => {
  const till = await openOwnShop(service, 'cuotas')
  const { order_id: id } = (
    await charge(service, till, { reference: 'PLAN-1', amount: '100,00' })
  ).json()
  const inPlan = { ...payByCard, installments: 6, interest_amount: '18.40' }
  await act(service, id, inPlan)
  await act(service, id, { ...payByCard, do: 'pay_again' })
  const page = await open(`orders/${id}`, till.key)
  await expectText(
    main(page),
    /more than one payment[\s\S]*Paid by the buyer[\s\S]*118\.40[\s\S]*Received by the shop[\s\S]*100\.00[\s\S]*further payment/,
  )
  opened?.expectQuiet()
})

test('a lost order that the provider has after all is found by asking', async () => {
  const till = await openOwnShop(service, 'hallada')
  await setFaults(service, { ...creation, kind: 'drop_after' }, { ...reading, kind: '503' })
  const { order_id: id } = (await charge(service, till, { reference: 'FOUND-1' })).json()
  const page = await open(`orders/${id}?of=hallada`)
  await expectText(main(page), 'in doubt')
  await clearFaults(service)
  await button(page, 'Ask Mercado Pago now').click()
  await expectText(page.locator('#toasts'), 'Mercado Pago says: on the way')
  await expect.poll(() => button(page, 'Ask Mercado Pago now').count()).toBe(0)
})

test('a cancel that comes too late says so, offers no red button and promises nothing', async () => {
  const till = await openOwnShop(service, 'tarde')
  const { order_id: id } = (await charge(service, till, { reference: 'LATE-1' })).json()
  const page = await open(`orders/${id}?of=tarde`)
  await button(page, 'Cancel order').click()
  const dialog = page.getByRole('dialog')
  await act(service, id, { do: 'fetch' })
  // A device that takes no cancel while the order is on its screen.
  const refusal = { kind: 'status', status: 409, code: 'cannot_cancel_order' }
  await setFaults(service, { ...canceling, ...refusal })
  await button(dialog, 'Cancel the order').click()
  await expectText(dialog, /too late[\s\S]*Cancel on its screen/)
  expect(await dialog.innerText()).not.toMatch(/safe/i)
  expect(await page.locator('dialog .danger').count()).toBe(0)
  expect(await seriousBarriers(page)).toEqual([])
  await button(dialog, 'Understood').click()
  // Another device, or this one with newer software, may take it.
  await expect.poll(() => button(page, 'Cancel order').count()).toBe(1)
  opened?.expectQuiet(/409/)
})

test('an order on the terminal is asked to be canceled, and says so until the terminal answers', async () => {
  const till = await openOwnShop(service, 'en la terminal')
  const { order_id: id } = (await charge(service, till, { reference: 'ASK-1' })).json()
  await act(service, id, { do: 'fetch' })
  await readOrder(service, till, id)
  const page = await open(`orders/${id}?of=en la terminal`)
  await button(page, 'Cancel order').click()
  await expectText(page.getByRole('dialog'), 'it may still take the money')
  await button(page.getByRole('dialog'), 'Cancel the order').click()
  await expectText(main(page), 'The cancel is requested')
  await expect.poll(() => button(page, 'Cancel order').count()).toBe(0)
  opened?.expectQuiet()
})

test('a refund takes amounts as they are written in either language', async () => {
  const till = await openOwnShop(service, 'importes')
  const id = await sell(till, 'BOTH-1', '5000,00')
  const page = await open(`orders/${id}?of=importes`)
  for (const [typed, refunded] of [
    ['1,234.50', '1234.50'],
    ['1.000,25', '2234.75'],
  ] as const) {
    await button(page, 'Refund').click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('A part').check()
    const field = dialog.getByLabel('Amount to refund')
    expect(await field.getAttribute('placeholder')).toBe('1,234.50')
    await field.fill('1.2.3')
    await page.keyboard.press('Enter')
    await expectText(dialog.getByRole('alert'), 'for example 1,234.50')
    await field.fill(typed)
    await page.keyboard.press('Enter')
    await expect.poll(() => dialog.count(), { timeout: 20_000 }).toBe(0)
    const { refunds } = (await readOrder(service, till, id)).json()
    const sum = refunds.reduce(
      (all: number, one: { amount: string }) => all + Number(one.amount),
      0,
    )
    expect(sum.toFixed(2)).toBe(refunded)
  }
  await expectText(
    main(page),
    /Paid\s+ARS\s5,000\.00\s+Refunded\s+− ARS\s2,234\.75\s+Kept\s+ARS\s2,765\.25/,
  )
  opened?.expectQuiet()
})

test('an order leads to its box and its client, and each of them back to its orders', async () => {
  const till = await openOwnShop(service, 'enlazada')
  const id = await sell(till, 'LINKED-1', '10,00')
  const page = await open(`orders/${id}?of=enlazada`)
  await main(page).getByRole('link', { name: 'CAJA-1', exact: true }).click()
  await expectText(page.locator('h1'), 'CAJA-1')
  await main(page).getByRole('link', { name: 'See all', exact: true }).click()
  await expectText(main(page), 'LINKED-1')
  expect(hashOf(page)).toContain('caja_id=CAJA-1')
  await main(page).getByRole('link', { name: 'LINKED-1' }).click()
  await main(page).getByRole('link', { name: 'enlazada' }).click()
  await expectText(page.locator('h1'), 'Clients')
  await main(page).getByRole('link', { name: 'Webhooks' }).click()
  await expectText(page.locator('h1'), 'Webhooks')
  const status = (await call(service, { url: `/orders/${id}`, token: till.key })).json().status
  expect(status).toBe('processed')
  opened?.expectQuiet()
})
