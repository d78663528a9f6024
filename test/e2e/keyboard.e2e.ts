import type { Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { sell } from '../closings/shop-day.ts'
import { jsonFlow, startTarget, startTestFlows, type TestFlows } from '../support/flows.ts'
import { openOwnShop } from '../support/money.ts'
import { by, goodPassword, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge, createStore, pairTerminal } from '../support/till.ts'
import { expectText, openPage, type WatchedPage } from './browser.ts'

/** The tasks of a chain with keys alone: Tab, Enter, Space and letters. Nothing is focused or pressed by script. */

const token = 'canary-sync-token-for-operators-0123'
let service: TestService
let flows: TestFlows
let target: Awaited<ReturnType<typeof startTarget>>
let dashboard: string
let admin: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  const shop = await openOwnShop(service, 'acme')
  await createStore(service, shop, { id: 'SUC-2', boxes: ['CAJA-2', 'CAJA-17'] })
  await pairTerminal(service, shop, 'CAJA-2')
  await pairTerminal(service, shop, 'CAJA-17')
  await sell(service, shop, 'SOLD-1')
  await sell(service, shop, 'SOLD-2', { box: 'CAJA-2' })
  const ana = await join(service, { name: 'Ana Gómez', role: 'administrator', client: 'acme' })
  const order = { reference: 'X-1', box: 'CAJA-2' }
  const { order_id: canceled } = (await charge(service, shop, order)).json()
  await by(service, ana, {
    url: '/orders/cancel',
    headers: { 'x-reason': encodeURIComponent('Se arrepintió') },
    body: { order_id: canceled },
  })
  await call(service, {
    method: 'PATCH',
    url: '/terminals/operating-mode',
    token: shop.key,
    body: { caja_id: 'CAJA-17', operating_mode: 'STANDALONE' },
  })
  dashboard = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`

  target = await startTarget()
  target.answer(({ path }) => (path.includes('A-17') ? 422 : 200))
  const flow = jsonFlow('prices', target.url) as { destinations: object[] }
  const shopFlow = {
    ...flow,
    destinations: flow.destinations.map((one) => ({ ...one, name: 'tienda' })),
  }
  flows = await startTestFlows({
    service,
    env: { SYNC_TOKEN: token },
    files: { 'prices.flow.yaml': shopFlow, 'prices.json': [{ id: 'A-17' }, { id: 'A-18' }] },
  })
  await flows.flows.sync('prices', { force: true })
  await flows.delivered()
  admin = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
  await service?.stop()
})

const mostTabs = 80

/** Goes on with Tab until `wanted` has the focus. Fails where the focus cannot be seen on the way. */
async function tabTo(page: Page, wanted: Locator): Promise<void> {
  await wanted.waitFor()
  for (let tabs = 0; tabs < mostTabs; tabs += 1) {
    if (await hasFocus(wanted)) {
      expect(await isFocusSeen(page)).toBe(true)
      return
    }
    await page.keyboard.press('Tab')
  }
  throw new Error(`not reached with ${mostTabs} times Tab: ${wanted}`)
}

function hasFocus(wanted: Locator): Promise<boolean> {
  return wanted.evaluate((element) => {
    const { ownerDocument } = element as unknown as { ownerDocument: { activeElement: unknown } }
    return ownerDocument.activeElement === (element as unknown)
  })
}

/** Whether what has the focus is drawn otherwise than without it. */
function isFocusSeen(page: Page): Promise<boolean> {
  return page.evaluate<boolean>(`(() => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement)
    return (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) || boxShadow !== 'none'
  })()`)
}

async function press(page: Page, wanted: Locator, key = 'Enter'): Promise<void> {
  await tabTo(page, wanted)
  await page.keyboard.press(key)
}

const main = (page: Page) => page.locator('main')
const link = (page: Page, name: string | RegExp) => page.getByRole('link', { name, exact: true })
const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: true })

async function enter(): Promise<Page> {
  opened = await openPage(dashboard)
  const { page } = opened
  await press(page, button(page, 'Sign in with a name and a password'))
  await page.keyboard.type('ana gómez')
  await page.keyboard.press('Tab')
  await page.keyboard.type(goodPassword)
  await page.keyboard.press('Enter')
  await page.locator('#title').waitFor()
  return page
}

async function enterFlows(): Promise<Page> {
  opened = await openPage(admin)
  const { page } = opened
  await page.locator('#token').waitFor()
  await page.keyboard.type(token)
  await page.keyboard.press('Enter')
  await page.locator('#title').waitFor()
  return page
}

test('sales per store, and why box 17 cannot charge', async () => {
  const page = await enter()
  const store = page.locator('.store-row', { hasText: 'SUC-2' })
  await press(page, store.getByRole('button'))
  await expectText(page.locator('.box-row', { hasText: 'CAJA-2' }), /1,000\.00/)
  // From the top again: the first Tab is the way past the head.
  await page.reload()
  await page.locator('.attention-line').first().waitFor()
  await page.keyboard.press('Tab')
  await expectText(page.locator(':focus'), 'Skip to content')
  await page.keyboard.press('Enter')
  await press(
    page,
    page
      .locator('.attention-line')
      .getByRole('link', { name: /CAJA-17/ })
      .first(),
  )
  await expectText(page.locator('h1'), 'CAJA-17')
  await expectText(page.locator('.abilities'), /Charge no[\s\S]*standalone/)
  opened?.expectQuiet()
})

test('who cancelled order X, and why', async () => {
  const page = await enter()
  await press(page, link(page, 'Orders'))
  await press(page, main(page).getByRole('link', { name: 'X-1' }).first())
  await expectText(page.locator('.timeline').first(), /Ana Gómez[\s\S]*Se arrepintió/)
  opened?.expectQuiet()
})

test('half of a sale is refunded, and a window that is left gives the focus back', async () => {
  const page = await enter()
  await press(page, link(page, 'Orders'))
  await press(page, main(page).getByRole('link', { name: 'SOLD-1' }).first())
  await press(page, button(page, 'Refund'))
  const dialog = page.getByRole('dialog')
  await dialog.waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  expect(await page.locator(':focus').innerText()).toBe('Refund')
  await page.keyboard.press('Enter')
  await tabTo(page, dialog.getByRole('radio').first())
  await page.keyboard.press('ArrowDown')
  await tabTo(page, dialog.locator('input[name=amount]'))
  await page.keyboard.type('617,25')
  await tabTo(page, dialog.locator('input[name=reason]'))
  await page.keyboard.type('mitad')
  await page.keyboard.press('Enter')
  await expectText(main(page), 'partly refunded')
  opened?.expectQuiet()
})

test('all stores are closed', async () => {
  const page = await enter()
  await press(page, link(page, /^Close all stores/))
  const dialog = page.getByRole('dialog')
  await press(page, dialog.getByRole('button', { name: /^Close \d+ boxes/ }))
  await expectText(dialog, /Done: (\d+) of \1/)
  opened?.expectQuiet()
})

test('the web shop is stopped, and started again', async () => {
  const page = await enterFlows()
  await press(page, button(page, 'Stop sending…'))
  await press(page, button(page, 'Stop: tienda'))
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await page.locator(':focus').innerText()).toBe('Stop sending…')
  await press(page, button(page, 'Start sending'))
  await press(page, page.getByRole('dialog').getByRole('button', { name: 'Start sending' }))
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await expect.poll(() => button(page, 'Start sending').count()).toBe(0)
  opened?.expectQuiet(/401/)
})

test('why article A-17 is not as it should be', async () => {
  const page = await enterFlows()
  await press(page, link(page, 'Find item'))
  await tabTo(page, page.getByLabel('Item key'))
  await page.keyboard.type('A-17')
  await page.keyboard.press('Enter')
  await expectText(main(page), /HTTP 422/)
  opened?.expectQuiet(/401/)
})
