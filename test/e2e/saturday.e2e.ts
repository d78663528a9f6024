import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { faults, noFaults } from '../support/provider-requests.ts'
import { breakThreeBoxes, openSaturday, type Saturday } from '../support/saturday.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, pairTerminal, payByCard } from '../support/till.ts'
import {
  button,
  expectText,
  launchBrowser,
  openPage,
  seriousBarriers,
  signIn,
  type WatchedPage,
} from './browser.ts'

let browser: Browser
let service: TestService
let saturday: Saturday
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  browser = await launchBrowser()
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  saturday = await openSaturday(service)
  const { shop, sell } = saturday
  await breakThreeBoxes(service, saturday)
  await pairTerminal(service, shop, 'CAJA-5')
  const sold = await sell('CAJA-5')
  await act(service, sold.json().order_id, payByCard)
  await call(service, { url: `/orders/${sold.json().order_id}`, token: shop.key })
  await faults(service, { path: '/v1/orders', method: 'POST', kind: 'status', status: 503 })
  await sell('CAJA-5')
  await sell('CAJA-5')
  await noFaults(service)
  await vi.waitFor(async () => {
    const { flows } = (await asAdmin(service, { url: '/health/fleet?only=problems' })).json()
    expect(flows[0]).toMatchObject({
      cause: 'destination_resting',
      destinations: [{ owed: 40 }],
    })
  }, 20_000)
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await saturday?.stop()
  await service?.stop()
  await browser?.close()
})

const attention = (page: Page): Locator => page.locator('section.attention')
const line = (page: Page, text: RegExp): Locator =>
  attention(page).getByRole('listitem').filter({ hasText: text })

async function open(token = adminToken, locale = 'en-GB'): Promise<Page> {
  opened = await openPage(browser, url, { locale })
  await signIn(opened.page, token)
  await attention(opened.page).waitFor()
  return opened.page
}

test('the Saturday: everything that is wrong stands first on the overview, with its cause and its button', async () => {
  const page = await open()
  const told = [
    /CAJA-1[\s\S]*standalone mode[\s\S]*Switch to PDV/,
    /CAJA-2[\s\S]*No terminal is paired[\s\S]*Open the box/,
    /CAJA-3[\s\S]*held by another charge[\s\S]*Free the terminal/,
    /Mercado Pago fails at order\.create[\s\S]*See the failures/,
    /→ web[\s\S]*rests after failures/,
  ]
  for (const text of told) await expectText(attention(page), text)
  opened?.expectQuiet()
})

test('the same in Spanish', async () => {
  const page = await open(adminToken, 'es-AR')
  await expectText(line(page, /CAJA-1/), /modo independiente.*cobros rechazados: 1.*Pasar a PDV/s)
  await expectText(line(page, /→ web/), /descansa después de fallar/)
  expect(await attention(page).innerText()).not.toMatch(/terminal_|attention\.|help\.|cause\./)
})

test('a client sees its own boxes and the provider, and neither flows nor others', async () => {
  const page = await open(saturday.shop.key)
  await expectText(line(page, /CAJA-1/), 'standalone mode')
  await expectText(line(page, /Mercado Pago.*fails/s), 'order.create')
  expect(await attention(page).innerText()).not.toContain('articles')
  opened?.expectQuiet()
})

test('the button mends it, and the line goes', async () => {
  const page = await open()
  await button(line(page, /CAJA-1/), 'Switch to PDV').click()
  await button(page.getByRole('dialog'), 'Switch the mode').click()
  await expect.poll(() => line(page, /CAJA-1.*standalone/s).count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet()
})

test('when a box stopped working and when it came back is read beside it', async () => {
  await service.deps.fleet.tick()
  await pairTerminal(service, saturday.shop, 'CAJA-2')
  service.clock.advance(11_000)
  const token = saturday.shop.key
  await call(service, { url: '/terminals', token })
  await service.deps.fleet.flush()
  await service.deps.fleet.tick()
  const page = await open(token)
  await page
    .locator('.light', { hasText: 'CAJA-2' })
    .getByRole('button', { name: /^History/ })
    .click()
  await expectText(
    page.getByRole('dialog'),
    /Caja CAJA-2[\s\S]*before: does not work, no terminal paired/,
  )
  expect(await seriousBarriers(page)).toEqual([])
  opened?.expectQuiet()
})
