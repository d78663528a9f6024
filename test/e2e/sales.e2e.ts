import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { sell, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { createStore, pairTerminal, type Till } from '../support/till.ts'
import {
  expectText,
  openPage,
  seriousBarriers,
  sidewaysOverflow,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** What each store sold, beside what Mercado Pago says, on the first page. */

let service: TestService
let url: string
let chain: Till
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  chain = await openOwnShop(service, 'cadena')
  for (const number of [2, 10, 3, 4, 5, 6, 7, 8, 9]) {
    await createStore(service, chain, { id: `SUC-${number}`, boxes: [`CAJA-${number}`] })
  }
  await pairTerminal(service, chain, 'CAJA-2')
  await sell(service, chain, 'A-1')
  await sell(service, chain, 'A-2', { box: 'CAJA-2', amount: '500,00' })
  await typeCharge(service, chain, {}, 'CAJA-2')
  await watchAfter(service, 61_000)
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

async function open(
  view = 'overview',
  options: BrowserContextOptions = {},
  token = adminToken,
): Promise<Page> {
  opened = await openPage(`${url}#/${view}`, options)
  await signIn(opened.page, token)
  return opened.page
}

const stores = (page: Page) => page.locator('.store-row')
const storeOf = (page: Page, id: string) =>
  page.locator('.store-row', { hasText: new RegExp(`${id}(?![0-9])`) })

test('the first page shows what each store sold and where Mercado Pago says otherwise, without a click', async () => {
  const page = await open()
  await expectText(storeOf(page, 'SUC-1'), /1,000\.00[\s\S]*agrees/)
  await expectText(storeOf(page, 'SUC-2'), /500\.00[\s\S]*577\.50[\s\S]*\+ARS\s77\.50/)
  await expectText(storeOf(page, 'SUC-2'), /0 of 1/)
  const names = await page.locator('.store-row .opener').allInnerTexts()
  expect(names.map((text) => /SUC-\d+/.exec(text)?.[0])).toEqual(
    Array.from({ length: 10 }, (_none, index) => `SUC-${index + 1}`),
  )
  opened?.expectQuiet()
})

test('a store opens to its boxes by the keyboard, and a box leads to its page and its orders', async () => {
  const page = await open()
  await storeOf(page, 'SUC-2').getByRole('button').focus()
  await page.keyboard.press('Enter')
  const box = page.locator('.box-row', { hasText: 'CAJA-2' })
  await expectText(box, /500\.00[\s\S]*577\.50[\s\S]*77\.50/)
  await box.getByRole('link', { name: /CAJA-2/ }).click()
  await expectText(page.locator('h1'), 'CAJA-2')
  await page.getByRole('link', { name: 'See all' }).click()
  await expectText(page.locator('h1'), 'Orders')
  await expectText(page.locator('main'), 'A-2')
  expect(await page.locator('main').innerText()).not.toContain('A-1')
  opened?.expectQuiet()
})

test('stores are found by name, kept to those with problems, and sorted by what they sold', async () => {
  const page = await open()
  await page.getByRole('searchbox', { name: 'Find a store' }).fill('suc-7')
  await expect.poll(() => stores(page).count()).toBe(1)
  await page.getByRole('searchbox', { name: 'Find a store' }).fill('')
  const panel = page.locator('section', { has: page.locator('#stores') })
  await panel.getByRole('button', { name: 'Only problems' }).click()
  await expect.poll(() => stores(page).count()).toBe(1)
  await expectText(stores(page), 'SUC-2')
  await panel.getByRole('button', { name: 'Only problems' }).click()
  await panel.getByRole('button', { name: 'Difference' }).click()
  await expectText(stores(page).first(), 'SUC-2')
  const head = panel.getByRole('columnheader', { name: 'Difference' })
  expect(await head.getAttribute('aria-sort')).toBe('descending')
  opened?.expectQuiet()
})

test('another span has its own sales, by day, and no boxes of now', async () => {
  const page = await open()
  await page.getByRole('link', { name: 'Yesterday' }).click()
  await expectText(storeOf(page, 'SUC-1'), '—')
  expect(await page.locator('.light').count()).toBe(0)
  await page.getByRole('link', { name: '7 days' }).click()
  await expectText(storeOf(page, 'SUC-1'), '1,000.00')
  await expectText(page.locator('main'), 'Sales by day')
  await page.reload()
  await expectText(storeOf(page, 'SUC-1'), '1,000.00')
  expect(new URL(page.url()).hash).toContain('period=week')
  await page.getByText('Other dates').click()
  await page.locator('input[name=from]').fill('2026-01-05')
  await expect.poll(() => new URL(page.url()).hash).toContain('from=')
  opened?.expectQuiet()
})

test.each(['light', 'dark'] as const)(
  'on a phone the sum and its plot are seen without scrolling, and nothing is a barrier (%s)',
  async (colorScheme) => {
    const viewport = { width: 390, height: 844 }
    const page = await open('overview', { viewport, colorScheme, locale: 'es-AR' })
    await expectText(storeOf(page, 'SUC-2'), /\+\$\s?77,50/)
    const plot = await page.locator('.chart').first().boundingBox()
    expect((plot?.y ?? 844) + (plot?.height ?? 0)).toBeLessThan(844 - 60)
    const height = await page.evaluate<number>('document.documentElement.scrollHeight')
    expect(height).toBeLessThanOrEqual(3 * 844)
    expect(await sidewaysOverflow(page)).toBe(0)
    expect(await seriousBarriers(page)).toEqual([])
    await storeOf(page, 'SUC-2').getByRole('button').click()
    await expectText(page.locator('main'), 'Mercado Pago dice')
    expect(await sidewaysOverflow(page)).toBe(0)
    opened?.expectQuiet()
  },
)
