import type { BrowserContextOptions, Locator, Page, Request } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { freePort } from '../process/real-process.ts'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, pairTerminal, payByCard, readOrder } from '../support/till.ts'
import {
  button,
  expectText,
  openPage,
  seriousBarriers,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** Who may see what, and how somebody new gets in, through the browser alone but for what the ERP and the shop do. */
let service: TestService
let base: string
let opened: WatchedPage[] = []

beforeAll(async () => {
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
})

async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const one = await openPage(url, options)
  opened.push(one)
  return one.page
}

const main = (page: Page) => page.locator('main')

/** Clicks from the first one after the sign-in, whoever of the two makes them. */
function countClicks() {
  let clicks = 0
  return {
    get all() {
      return clicks
    },
    async click(target: Locator) {
      clicks += 1
      await target.click()
    },
  }
}

test('a new client is led from its link to an approved test charge in one place, in less than 12 clicks', async () => {
  const client = 'tienda nueva'
  const clicks = countClicks()
  const page = await open(`${base}/dashboard#/clients`)
  await signIn(page, adminToken)
  await clicks.click(main(page).getByRole('link', { name: 'New client' }))
  await page.getByLabel('Name of the client').fill(client)
  await clicks.click(button(page, 'Make the link'))
  const shown = page.locator('input.secret')
  await expect.poll(() => shown.count()).toBe(1)
  const link = await shown.inputValue()
  await clicks.click(button(page, 'Done, I stored it'))
  const next = page.locator('.steps [aria-current=step]')
  await expectText(next, 'Connect the account')
  await expectText(main(page), /Open invitations[\s\S]*tienda nueva/)

  const owner = await open(link, { locale: 'es-AR' })
  await clicks.click(button(owner, 'Seguir en Mercado Pago'))
  await expectText(main(owner), 'quiere cobrar en las terminales de tu cuenta')
  await clicks.click(owner.getByLabel('Crear una cuenta de prueba'))
  await clicks.click(button(owner, 'Autorizar'))
  await expectText(main(owner), 'La cuenta quedó conectada')
  await owner.goto(link)
  await expectText(main(owner), 'La cuenta ya está conectada')

  // It comes by itself, here as at each step.
  await expectText(next, 'Make a key for the ERP')
  await clicks.click(button(next, 'Create key'))
  await expect.poll(() => shown.count()).toBe(1)
  const key = await shown.inputValue()
  expect(key).toMatch(/^mk_[0-9a-f]{64}$/)
  await clicks.click(button(page, 'Done, I stored it'))

  await expectText(next, 'Create the store and its boxes')
  await next.getByLabel('Street').fill('Av. Corrientes')
  await next.getByLabel('Number').fill('1234')
  await next.getByLabel('City').fill('balvanera')
  await button(next, 'Add another box').click()
  expect(await next.getByLabel('Id of box 2').inputValue()).toBe('CAJA-2')
  await next.getByLabel('Id of box 2').fill('CAJA-2, CAJA-7')
  await expect.poll(() => next.getByLabel('Id of box 3').inputValue()).toBe('CAJA-7')
  for (const id of ['CAJA-2', 'CAJA-7']) await button(next, `Remove ${id}`).click()
  await clicks.click(button(next, 'Create the store'))
  await expectText(next.getByRole('alert'), 'location.city_name')
  await next.getByLabel('City').fill('Balvanera')
  await page.keyboard.press('Enter')

  await expectText(next, 'Pair a terminal')
  expect(await seriousBarriers(page)).toEqual([])
  const { oauth } = (
    await asAdmin(service, { url: `/admin/clients/${encodeURIComponent(client)}` })
  ).json()
  const till = { client, key, mpUserId: oauth.mp_user_id }
  await pairTerminal(service, till, 'CAJA-1', 'STANDALONE')
  await clicks.click(button(next, 'Switch CAJA-1 to integrated'))

  await expectText(next, 'Charge for the first time')
  await next.getByLabel('Amount').fill('1,234.50')
  await clicks.click(button(next, 'Send to the terminal'))
  await expectText(main(page), /Test charge: TEST-\d+/i)
  const { orders } = (await call(service, { url: '/orders', token: key })).json()
  await act(service, orders[0].order_id, payByCard)
  await expectText(main(page), /It works[\s\S]*Give it back/)
  await expectText(main(page), /ARS\s1,234\.50/)
  expect(clicks.all).toBeLessThan(12)
  expect(await page.locator('.steps').count()).toBe(0)
  expect(await seriousBarriers(page)).toEqual([])
  // The city that was refused.
  opened[0]?.expectQuiet(/status of 422/)
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
