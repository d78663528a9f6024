import type { Browser, BrowserContextOptions, Page, Request } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { freePort } from '../process/real-process.ts'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import {
  act,
  asAdmin,
  charge,
  createStore,
  pairTerminal,
  payByCard,
  readOrder,
} from '../support/till.ts'
import {
  button,
  expectText,
  launchBrowser,
  openPage,
  seriousBarriers,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** Who may see what, and how somebody new gets in, through the browser alone but for what the ERP and the shop do. */
let browser: Browser
let service: TestService
let base: string
let opened: WatchedPage[] = []

beforeAll(async () => {
  browser = await launchBrowser()
  // The provider sends browsers back to this address, so it is known before the service listens.
  const port = await freePort()
  base = `http://127.0.0.1:${port}`
  service = await startTestService({ publicUrl: base })
  await service.app.listen({ host: '127.0.0.1', port })
})
afterEach(async () => {
  for (const one of opened) await one.close()
  opened = []
})
afterAll(async () => {
  await service?.stop()
  await browser?.close()
})

async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const one = await openPage(browser, url, options)
  opened.push(one)
  return one.page
}

const main = (page: Page) => page.locator('main')
const secretOf = async (page: Page): Promise<string> => {
  const shown = page.getByRole('dialog').locator('input.secret')
  await shown.waitFor()
  return shown.inputValue()
}

test('a new client is led from its link to its first charge', async () => {
  const client = 'tienda nueva'
  const page = await open(`${base}/dashboard#/clients`)
  await signIn(page, adminToken)
  await button(page, 'New client').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill(client)
  await button(dialog, 'Make the link').click()
  const link = await secretOf(page)
  await button(dialog, 'Done, I stored it').click()

  const owner = await open(link, { locale: 'es-AR' })
  await button(owner, 'Seguir en Mercado Pago').click()
  await expectText(main(owner), 'quiere cobrar en las terminales de su cuenta')
  await owner.getByLabel('Crear una cuenta de prueba').check()
  await button(owner, 'Autorizar').click()
  await expectText(main(owner), 'La cuenta quedó conectada')
  await owner.goto(link)
  await expectText(main(owner), 'La cuenta ya está conectada')

  await page.goto(`${base}/dashboard#/clients?client=${encodeURIComponent(client)}`)
  const next = page.locator('.steps [aria-current=step]')
  await expectText(next, 'Make a key for the ERP')
  await button(next, 'Create key').click()
  await dialog.locator('button[type=submit]').click()
  const key = await secretOf(page)
  expect(key).toMatch(/^mk_[0-9a-f]{64}$/)
  await button(dialog, 'Done, I stored it').click()
  await expectText(next, 'Create the store and its boxes')

  const { oauth } = (
    await asAdmin(service, { url: `/admin/clients/${encodeURIComponent(client)}` })
  ).json()
  const till = { client, key, mpUserId: oauth.mp_user_id }
  expect((await createStore(service, till, { id: 'SUC-1', boxes: ['CAJA-1'] })).statusCode).toBe(
    201,
  )
  // It would come by itself, as elsewhere; a reload is sooner.
  await page.reload()
  await expectText(next, 'Pair a terminal')
  await pairTerminal(service, till, 'CAJA-1')
  await page.reload()
  await expectText(next, 'Charge for the first time')
  expect(await seriousBarriers(page)).toEqual([])
  await button(page, 'Test charge').click()
  await button(dialog, 'Send to the terminal').click()
  await expectText(main(page), /Order TEST-\d+[\s\S]*ARS\s100\.00/)
  const id = decodeURIComponent(new URL(page.url()).hash).split(/[/?]/)[2] ?? ''
  await act(service, id, payByCard)
  await expectText(main(page), /paid[\s\S]*Refund/)
  await page.goto(`${base}/dashboard#/clients?client=${encodeURIComponent(client)}`)
  await expectText(main(page), /Keys/)
  await expect.poll(() => page.locator('.steps').count(), { timeout: 20_000 }).toBe(0)
  opened[0]?.expectQuiet()
  opened[1]?.expectQuiet(/40[49]/)
})

/** What was answered; nothing for an answer that the browser does not keep. */
async function bodyOf(request: Request): Promise<string> {
  const response = await request.response()
  return (await response?.text().catch(() => '')) ?? ''
}

test('a client key gets nothing of another client to see or to hear, whatever address is tried', async () => {
  const own = await openOwnShop(service, 'panaderia')
  const other = await openOwnShop(service, 'ferreteria')
  await charge(service, own, { reference: 'PAN-1' })
  const theirs = (await charge(service, other, { reference: 'FERRE-1' })).json().order_id
  const { mp_order_id } = (await readOrder(service, other, theirs)).json()
  const page = await open(`${base}/dashboard`)
  const answers: Promise<string>[] = []
  page.on('requestfinished', (request) => {
    if (request.resourceType() === 'fetch') answers.push(bodyOf(request))
  })
  await signIn(page, own.key)
  for (const [view, shown] of [
    ['overview', 'PAN-1'],
    ['overview?client=ferreteria', 'PAN-1'],
    ['orders?client=ferreteria', 'PAN-1'],
    ['orders?q=FERRE', 'No order matches'],
    ['stores?client=ferreteria', 'CAJA-1'],
    ['clients', 'PAN-1'],
    ['webhooks?client=ferreteria', 'PAN-1'],
    ['activity?client=ferreteria', 'PAN-1'],
    [`orders/${theirs}`, 'There is no such order'],
    [`orders/${theirs}?of=ferreteria&client=ferreteria`, 'There is no such order'],
    [`orders/${mp_order_id}`, 'There is no such order'],
  ] as const) {
    await page.goto(`${base}/dashboard#/${view}`)
    await expectText(main(page), shown)
    expect([view, await main(page).innerText()]).toEqual([
      view,
      expect.not.stringMatching(/ferre/i),
    ])
  }
  // The other goes on charging: nothing of it is told live either.
  const events = await page.evaluate<string>(`(async () => {
    const ended = new AbortController()
    const { body } = await fetch('/events?client=panaderia', { signal: ended.signal })
    const reader = body.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!text.includes('resync')) text += (await reader.read()).value
    ended.abort()
    return text
  })()`)
  expect(events).not.toMatch(/ferre/i)
  const refused = await page.evaluate<number[]>(`Promise.all([
    '/orders?client=ferreteria', '/events?client=ferreteria', '/stores?client=ferreteria',
    '/statistics?from=2026-01-01T00:00:00Z&client=ferreteria', '/admin/orders', '/admin/clients', '/api-keys',
    '/admin/webhooks/logs', '/admin/activity', '/admin/statistics?from=2026-01-01T00:00:00Z',
  ].map(async (path) => {
    const answer = await fetch(path)
    await answer.text()
    return answer.status
  }))`)
  expect(refused).toEqual(refused.map(() => 403))
  expect(answers.length).toBeGreaterThan(20)
  const heard = (await Promise.all(answers)).filter((text) => /ferre/i.test(text))
  expect(heard).toEqual([])

  await button(page, 'Sign out').click()
  await page.locator('#token').waitFor()
  expect(await page.evaluate<number>("fetch('/orders').then((answer) => answer.status)")).toBe(401)
  opened[0]?.expectQuiet(/40[134]/)
})
