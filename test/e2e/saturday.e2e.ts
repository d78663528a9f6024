import type { Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type BusyShop, openBusyShop, refuseThreeBoxes } from '../support/busy-shop.ts'
import { eventually } from '../support/eventually.ts'
import { clearFaults, setFaults } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, enrol, pairTerminal, payByCard } from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  signIn,
  type WatchedPage,
} from './browser.ts'

let service: TestService
let saturday: BusyShop
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  saturday = await openBusyShop(service)
  const { shop, sell } = saturday
  await refuseThreeBoxes(service, saturday)
  await pairTerminal(service, shop, 'CAJA-5')
  const sold = await sell('CAJA-5')
  await act(service, sold.json().order_id, payByCard)
  await call(service, { url: `/orders/${sold.json().order_id}`, token: shop.key })
  await setFaults(service, { path: '/v1/orders', method: 'POST', kind: 'status', status: 503 })
  await sell('CAJA-5')
  await sell('CAJA-5')
  await clearFaults(service)
  await eventually(async () => {
    const { flows } = (await asAdmin(service, { url: '/health/fleet?only=problems' })).json()
    expect(flows[0]).toMatchObject({
      cause: 'destination_failing',
      destinations: [{ pending: 40 }],
    })
  })
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await saturday?.stop()
  await service?.stop()
})

const attention = (page: Page): Locator => page.locator('section.attention')
const line = (page: Page, text: RegExp): Locator =>
  attention(page).getByRole('listitem').filter({ hasText: text })

async function open(token = adminToken, locale = 'en-GB'): Promise<Page> {
  opened = await openPage(url, { locale })
  await signIn(opened.page, token)
  await attention(opened.page).waitFor()
  return opened.page
}

/** What each line says of the cause, and the one button that it offers. */
const wrong = [
  {
    place: /^\s*(Provider|Mercado Pago)/,
    en: [/Mercado Pago fails.*1 box is affected/, 'See the failures'],
    es: [/Mercado Pago falla.*Afecta a 1 caja/, 'Ver los errores'],
  },
  {
    place: /CAJA-1/,
    en: [/in standalone mode.*charges refused: 1/, 'Switch to PDV'],
    es: [/en modo independiente.*cobros rechazados: 1/, 'Pasar a PDV'],
  },
  {
    place: /CAJA-2/,
    en: [/No terminal is paired/, 'Open the box'],
    es: [/ninguna terminal vinculada/, 'Ver la caja'],
  },
  {
    place: /CAJA-3/,
    en: [/busy with another charge/, 'Free the terminal'],
    es: [/ocupada por otro cobro/, 'Liberar la terminal'],
  },
  {
    place: /articles → web/,
    en: [
      /sending is suspended.*Pending deliveries: 40\.( Next attempt in \d+ \w+\.)? Check/,
      'Open the flow',
    ],
    es: [
      /envío suspendido.*Envíos pendientes: 40\.( Próximo intento en \d+ \w+\.)? Revisá/,
      'Ver el flujo',
    ],
  },
] as const

/** Whatever is wrong has a line of its own, whose cause, beginning and button are seen as the page opens, and later too. */
async function expectAllNamed(page: Page, language: 'en' | 'es'): Promise<void> {
  const lines = attention(page).locator('.attention-line')
  await expect.poll(() => lines.allInnerTexts()).toHaveLength(wrong.length)
  for (const { place, [language]: told } of wrong) {
    const [cause, help] = told
    const own = lines.filter({ hasText: place })
    expect([place, await own.count()]).toEqual([place, 1])
    await expectText(own.locator('p'), cause)
    await expectText(own.locator('p'), language === 'en' ? /since \d\d:\d\d/ : /desde \d\d:\d\d/)
    const buttons = own.locator('.buttons').locator('button, a')
    expect(await buttons.allInnerTexts()).toEqual([help])
    expect(await buttons.isVisible()).toBe(true)
  }
  expect(await attention(page).innerText()).not.toMatch(
    /terminal_|attention\.|help\.|cause\.|\d{4}-\d\d-\d\dT/,
  )
}

test('the BusyShop: each thing that is wrong is named with its cause, since when, and its button, as the page opens', async () => {
  const page = await open()
  await expectAllNamed(page, 'en')
  // What is read again, now that the only client is known, says no less.
  await page.reload()
  await attention(page).waitFor()
  await page.waitForTimeout(2_000)
  await expectAllNamed(page, 'en')
  opened?.expectQuiet()
})

test('what needs somebody comes first, then what came in, by hour and by store, then the boxes and the service', async () => {
  const page = await open()
  const titles = [
    'Needs attention',
    'Approved today',
    'Sales by hour',
    'Sales by store',
    'Boxes',
    'Latest orders',
    'State of the service',
  ]
  const shown = await page.locator('main h2').allInnerTexts()
  const found = titles.map((title) => shown.findIndex((text) => text.includes(title)))
  expect(found).not.toContain(-1)
  expect(found).toEqual(found.toSorted((a, b) => a - b))
  expect([found[0], found.at(-1)]).toEqual([0, shown.length - 1])
  const top = (await attention(page).boundingBox())?.y ?? Number.POSITIVE_INFINITY
  expect(top).toBeLessThan(300)
  opened?.expectQuiet()
})

test('the same in Spanish', async () => {
  await expectAllNamed(await open(adminToken, 'es-AR'), 'es')
})

test('a client sees its own boxes, also where the provider fails, and neither flows nor others', async () => {
  const page = await open(saturday.shop.key)
  await expectText(line(page, /CAJA-1/), 'standalone mode')
  await expectText(line(page, /Mercado Pago.*fails/s), 'The shop is not the cause')
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

test('an operator of several clients reads the same, and with one of them chosen what is of that one', async () => {
  await enrol(service, 'Otra', '7930009')
  const page = await open()
  await expectText(line(page, /→ web/), 'sending is suspended')
  await expectText(line(page, /CAJA-2/), /Sabado/)
  await page.getByLabel('Client').selectOption('Sabado')
  await expect.poll(() => line(page, /→ web/).count()).toBe(0)
  await expectText(line(page, /CAJA-2/), 'No terminal is paired')
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
  await page.locator('.light', { hasText: 'CAJA-2' }).getByRole('link').click()
  await expectText(page.locator('main'), /before: does not work, no terminal paired/)
  await button(page, 'See all changes').click()
  await expectText(
    page.getByRole('dialog'),
    /Caja CAJA-2[\s\S]*before: does not work, no terminal paired/,
  )
  expect(await seriousBarriers(page)).toEqual([])
  opened?.expectQuiet()
})
