import { mkdirSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { by, codeAt, goodPassword, join, type TestPerson } from '../support/people.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { charge, openShop, type Till } from '../support/till.ts'
import {
  expectText,
  openPage,
  seriousBarriers,
  sidewaysOverflow,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** Named users: invited, signed in, and named by what they did. */

let service: TestService
let url: string
let shop: Till & { terminalId: string }
let ana: TestPerson
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  shop = await openShop(service, 'acme', '9600001')
  ana = await join(service, { name: 'Ana Gómez', role: 'administrator', client: 'acme' })
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await service?.stop()
})

async function signInByName(page: Page, name: string, password = goodPassword, code = '') {
  await page.getByRole('button', { name: 'Ingresar con nombre y contraseña' }).click()
  await page.locator('input[name=name]').fill(name)
  await page.locator('input[name=password]').fill(password)
  await page.locator('input[name=code]').fill(code)
  await page.locator('button[type=submit]').click()
}

test('who cancelled an order, and why, is seen with one click after the sign-in', async () => {
  const { order_id: id } = (await charge(service, shop, { reference: 'T-PEOPLE-1' })).json()
  await by(service, ana, {
    url: '/orders/cancel',
    headers: { 'x-reason': encodeURIComponent('Se arrepintió') },
    body: { order_id: id },
  })
  opened = await openPage(`${url}#/orders`, { locale: 'es-AR' })
  await signInByName(opened.page, 'ana gómez')
  let clicks = 0
  clicks += 1
  await opened.page.getByRole('link', { name: 'T-PEOPLE-1' }).first().click()
  await expectText(opened.page.locator('.timeline').first(), 'Ana Gómez: ')
  await expectText(opened.page.locator('.timeline').first(), 'Se arrepintió')
  expect(clicks).toBeLessThanOrEqual(2)
})

test('an invited person chooses a password by the link, and the code leaves the address', async () => {
  opened = await openPage(`${url}#/people?client=acme`, { locale: 'es-AR' })
  const { page } = opened
  await signIn(page, adminToken)
  await page.getByRole('button', { name: 'Invitar' }).first().click()
  await page.locator('dialog input[name=name]').fill('10.0.0.1')
  await page.locator('dialog select[name=role]').selectOption('viewer')
  await page.locator('dialog button[type=submit]').click()
  await expectText(page.locator('dialog'), 'name: tiene que ser el nombre de una persona')
  await page.locator('dialog input[name=name]').fill('luis')
  await page.locator('dialog button[type=submit]').click()
  const link = await page.locator('dialog code').innerText()
  expect(link).toContain('#/invitation/')
  await opened.close()
  opened = await openPage(`${url}#/invitation/${link.split('#/invitation/')[1]}`, {
    locale: 'es-AR',
  })
  // The name of the next sign-in, which a password manager stores too.
  expect(await opened.page.getByLabel('Tu nombre para ingresar').inputValue()).toBe('luis')
  await opened.page.locator('input[name=password]').fill('canary-una clave larga')
  await opened.page.locator('button[type=submit]').click()
  await opened.page.getByRole('link', { name: 'Mi cuenta' }).click()
  await expectText(opened.page.locator('main'), 'luis')
  expect(opened.page.url()).not.toContain('invitation')
})

test('codes are set up with a picture that this service made, and asked for at the next sign-in', async () => {
  await join(service, { name: 'eva', role: 'viewer', client: 'acme' })
  opened = await openPage(`${url}#/account`, { locale: 'es-AR' })
  const { page } = opened
  await signInByName(page, 'eva')
  await page.getByRole('button', { name: 'Configurar códigos' }).click()
  await page.locator('svg.qr path').waitFor()
  const secret = await page.locator('dialog code').innerText()
  await page.locator('dialog input[name=code]').fill(codeAt(secret, service.clock.now()))
  await page.locator('dialog button[type=submit]').click()
  await expectText(page.locator('main'), 'Cada ingreso pide un código.')
  await page.locator('.head-buttons button', { hasText: 'Salir' }).click()
  await signInByName(page, 'eva')
  await expectText(page.locator('main'), 'no son correctos')
  service.clock.advance(60_000)
  await page.locator('input[name=code]').fill(codeAt(secret, service.clock.now()))
  await page.locator('button[type=submit]').click()
  await page.getByRole('link', { name: 'Mi cuenta' }).waitFor()
})

test('the pages of people have no barriers and fit both widths, in both languages', async () => {
  const shots = process.env.PEOPLE_SHOTS
  if (shots) mkdirSync(shots, { recursive: true })
  for (const locale of ['es-AR', 'en-US']) {
    for (const width of [1280, 390]) {
      opened = await openPage(`${url}#/people`, {
        locale,
        viewport: { width, height: 900 },
      })
      const { page } = opened
      const byName = locale === 'es-AR' ? /con nombre/ : /with a name/
      await page.getByRole('button', { name: byName }).click()
      expect(await seriousBarriers(page)).toEqual([])
      if (shots) await page.screenshot({ path: `${shots}/sign-in-${locale}-${width}.png` })
      await page.locator('input[name=name]').fill('Ana Gómez')
      await page.locator('input[name=password]').fill(goodPassword)
      await page.locator('button[type=submit]').click()
      for (const view of ['people', 'account', 'activity']) {
        await page.locator(`nav.ways a[href*="#/${view}"]`).click()
        await page.locator('main table').waitFor()
        expect([view, locale, width, await seriousBarriers(page)]).toEqual([
          view,
          locale,
          width,
          [],
        ])
        expect([view, width, await sidewaysOverflow(page)]).toEqual([view, width, 0])
        if (shots)
          await page.screenshot({ path: `${shots}/${view}-${locale}-${width}.png`, fullPage: true })
      }
      await opened.close()
    }
  }
  opened = undefined
}, 180_000)
