import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openHttpReceiver } from '../notifications/receivers.ts'
import { bodyOf, endpointsPath, makeEndpoint, writeEvent } from '../support/endpoints.ts'
import { openOwnShop } from '../support/money.ts'
import { by, join } from '../support/people.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { call, type Till } from '../support/till.ts'
import {
  barriersInBothSchemes,
  button,
  expectText,
  openPage,
  sidewaysOverflow,
  signIn,
  type WatchedPage,
} from './browser.ts'

/** Endpoints and consumers of events on the dashboard: what a person sees of them, and does. */
const client = 'editorial'
let service: TestService
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
let till: Till
let address: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({ env: { EVENTS_PRIVATE_NETWORK: 'true' } })
  till = await openOwnShop(service, client)
  address = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
})
afterEach(async () => {
  opened?.expectQuiet()
  await opened?.close()
  hook.reset()
})
afterAll(async () => {
  await service?.stop()
  await hook.close()
})

async function open(view: string, options = {}) {
  opened = await openPage(address, options)
  await signIn(opened.page, adminToken)
  await opened.page.goto(`${address}#/${view}`)
  return opened.page
}

test('a new endpoint shows its secret once; a test message arrives; its attempts are listed with their answers', async () => {
  const page = await open(`events?client=${client}`)
  await button(page, 'New endpoint').click()
  const dialog = page.getByRole('dialog')
  await dialog.locator('[name=url]').fill(`${hook.url}/page`)
  await dialog.locator('[name=types]').fill('order.paid, order.refunded')
  await button(dialog, 'Create').click()
  const secret = await page.locator('input.secret').inputValue()
  expect(secret).toMatch(/^whsec_/)
  await button(page, 'Done, I stored it').click()
  expect(await page.locator('input.secret').count()).toBe(0)

  await page.getByRole('button', { name: /^Test/ }).click()
  await expectText(dialog, new URL(hook.url).host)
  await button(dialog, 'Test').click()
  await expect.poll(() => hook.calls.map(({ url }) => url)).toEqual(['/page'])

  hook.answer = (response) => response.writeHead(500).end('the ERP is being restarted')
  await writeEvent(service, client, 'o1')
  await service.endpoints.sendDue()
  await page.getByRole('link', { name: 'See attempts' }).click()
  await expectText(page.locator('tbody'), 'the ERP is being restarted')
  await expectText(page.locator('main'), /failing/)
  await page.getByRole('link', { name: 'order.paid' }).click()
  await page.getByText('Data', { exact: true }).click()
  await expectText(page.locator('pre'), '"id": "o1"')
  expect(await barriersInBothSchemes(page)).toEqual([])
})

test('before a stopped endpoint is resumed the page says how many events wait; before a replay it counts them', async () => {
  const { id } = await makeEndpoint(service, till, `${hook.url}/stopped`)
  hook.answer = (response, { url }) => response.writeHead(url === '/stopped' ? 410 : 200).end()
  for (const resource of ['o1', 'o2']) await writeEvent(service, client, resource)
  await service.endpoints.sendDue()
  const page = await open(`events/${id}?client=${client}`)
  await expectText(page.locator('main'), 'The address answered 410')
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: /^Resume/ }).click()
  await expectText(dialog, /\d+ events wait and are sent/)
  await button(dialog, 'Resume').click()
  await expectText(page.locator('main'), 'active')
  hook.reset()
  await service.endpoints.sendDue()
  const ids = hook.calls.filter(({ url }) => url === '/stopped').map((one) => bodyOf(one).id)
  expect(new Set(ids).size).toBeGreaterThan(2)

  await page.getByRole('button', { name: /^Send again/ }).click()
  await button(dialog, 'Send again').click()
  await expectText(dialog, 'Count first how many they are.')
  const hourAgo = await page.evaluate(() => {
    const at = new Date(Date.now() - 3_600_000)
    return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
  })
  await dialog.locator('[name=from]').fill(hourAgo)
  await button(dialog, 'Count').click()
  await expectText(dialog, /\d+ events are sent again, under their ids/)
  hook.reset()
  await button(dialog, 'Send again').click()
  await expect.poll(() => page.getByRole('dialog').count()).toBe(0)
  await service.endpoints.sendDue()
  const again = hook.calls.filter(({ url }) => url === '/stopped').map((one) => bodyOf(one).id)
  expect(again).toEqual(expect.arrayContaining([...new Set(ids)]))
})

test('on a phone endpoints, consumers and attempts fit, in Spanish, and keep nobody out', async () => {
  await call(service, {
    url: '/events/feed/consumers',
    token: till.key,
    body: { name: 'erp', from: 'beginning' },
  })
  const page = await open(`events?client=${client}`, {
    viewport: { width: 390, height: 844 },
    locale: 'es-AR',
  })
  await expectText(page.locator('main'), 'Consumidores')
  expect(await sidewaysOverflow(page)).toBe(0)
  expect(await barriersInBothSchemes(page)).toEqual([])
  await page.getByRole('link', { name: 'Ver intentos' }).first().click()
  await page.locator('tbody tr').first().waitFor()
  expect(await sidewaysOverflow(page)).toBe(0)
  expect(await barriersInBothSchemes(page)).toEqual([])
})

test('a person who sets up the client sees its endpoints; a viewer has no such page', async () => {
  const boss = await join(service, { name: 'Jefa', role: 'administrator', client })
  const list = await by(service, boss, { url: `${endpointsPath}?client=${client}` })
  expect(list.statusCode).toBe(200)
  opened = await openPage(address)
  await signIn(opened.page, till.key)
  await opened.page.locator('nav.ways a', { hasText: 'Events' }).click()
  await expectText(opened.page.locator('main'), 'Consumers')
})
