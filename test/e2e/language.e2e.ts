import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { button, expectText, openPage, signIn } from './browser.ts'

let service: TestService
let url: string

beforeAll(async () => {
  service = await startTestService()
  await openOwnShop(service, 'Kiosco')
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
})
afterAll(async () => {
  await service?.stop()
})

const parts = (requested: string[]) =>
  requested.flatMap((address) => new URL(address).searchParams.get('part') ?? [])

test('a page brings the texts of its own language; the others follow, and then need no line', async () => {
  const { page, requested, expectQuiet, close } = await openPage(url)
  await button(page, 'Español').waitFor()
  expect(parts(requested)).toEqual(['en'])
  await signIn(page, adminToken)
  await expect.poll(() => parts(requested).sort()).toEqual(['en', 'later-views.js', 'texts/es.js'])
  const arrived = `performance.getEntriesByType('resource')
    .filter(({ name, responseEnd }) => name.includes('part=') && responseEnd > 0).length`
  await expect.poll(() => page.evaluate<number>(arrived)).toBe(3)

  await page.context().setOffline(true)
  await button(page, 'Español').click()
  await expectText(page.locator('h1'), 'Hoy')
  await page.locator('nav.ways').getByText('Clientes').click()
  await expectText(page.locator('h1'), 'Clientes')
  await page.context().setOffline(false)

  // The service knows what was chosen, and sends that language at once.
  requested.length = 0
  await page.reload()
  await expectText(page.locator('h1'), 'Clientes')
  expect(parts(requested).at(0)).toBe('es')
  expect(parts(requested)).not.toContain('texts/es.js')
  expectQuiet(/ERR_INTERNET_DISCONNECTED|Failed to load resource/)
  await close()
})

test('a language that was chosen before the service knew of it is shown all the same', async () => {
  const { page, requested, expectQuiet, close } = await openPage(url)
  await button(page, 'Español').click()
  await button(page, 'English').waitFor()
  await page.context().clearCookies()
  requested.length = 0
  await page.reload()
  await button(page, 'English').waitFor()
  expect(parts(requested)).toEqual(['en', 'texts/es.js'])
  expectQuiet()
  await close()
})

test('a view whose code does not arrive is told as a lost line, and shows once the line is back', async () => {
  const { page, close } = await openPage(url)
  await signIn(page, adminToken)
  await page.context().route(/part=later-views/, (route) => route.abort())
  await page.goto(`${url}#/clients`)
  await page.reload()
  await expectText(page.locator('main'), 'Connection lost')
  await page.context().unroute(/part=later-views/)
  await page.locator('main').getByText('Kiosco').first().waitFor()
  await close()
})
