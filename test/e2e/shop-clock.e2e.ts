import { afterAll, beforeAll, expect, test } from 'vitest'
import { jsonFlow, startTestFlows } from '../support/flows.ts'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, createStore, payByCard, readOrder, type Till } from '../support/till.ts'
import { expectText, openPage, signIn } from './browser.ts'

/** What the pages call today, and how long ago, is what it is at the shops, whatever the reader's machine believes. */
let service: TestService
let url: string
let till: Till
let paidAt: Date

const zone = 'America/Argentina/Buenos_Aires'
const inShop = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-CA', { timeZone: zone, hourCycle: 'h23', ...options }).format(paidAt)

beforeAll(async () => {
  service = await startTestService()
  url = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  till = await openOwnShop(service, 'panaderia')
  const { order_id: id } = (await charge(service, till, { reference: 'HERE-1' })).json()
  await act(service, id, payByCard)
  paidAt = new Date((await readOrder(service, till, id)).json().created_at)
})
afterAll(async () => {
  await service?.stop()
})

test.each([
  ['a client key', () => till.key],
  ['the administrator', () => adminToken],
])(
  '%s in Tokyo, with a clock that is 9 hours wrong, reads the day and the hours of the shop',
  async (_who, token) => {
    const opened = await openPage(url, { timezoneId: 'Asia/Tokyo' })
    const { page } = opened
    await page.clock.setSystemTime(Date.now() + 9 * 3600_000)
    await page.reload()
    await signIn(page, token())
    const main = page.locator('main')
    await expectText(main, /HERE-1/)
    const time = inShop({ hour: '2-digit', minute: '2-digit', second: '2-digit' })
    await expectText(main.getByRole('row', { name: /HERE-1/ }), time)
    await expectText(main.locator('.light'), /(?:second|minute)s? ago|now/)
    await expectText(main, `Best: ${Number(inShop({ hour: '2-digit' }))}:00`)
    await page.goto(`${url}#/orders?day=today`)
    await expectText(main, /1 order ·[\s\S]*HERE-1/)
    await page.goto(`${url}#/orders?day=yesterday`)
    await expectText(main, 'No order matches')
    await page.goto(`${url}#/closings`)
    const day = inShop({ year: 'numeric', month: '2-digit', day: '2-digit' })
    await expect.poll(() => page.locator('input[name=day]').inputValue()).toBe(day)
    await expectText(main.getByRole('row', { name: /CAJA-1/ }), /1,234\.50/)
    opened.expectQuiet()
    await opened.close()
  },
)

test('the page of the flows in Tokyo shows the times of the shops, and names their zone', async () => {
  const side = await startTestFlows({
    service,
    files: { 'prices.flow.yaml': jsonFlow('prices', 'http://127.0.0.1:9'), 'prices.json': [] },
  })
  await side.flows.pause('prices', 'colleague', 'stocktaking')
  const admin = `${await side.app.listen({ host: '127.0.0.1', port: 0 })}/admin#/activity`
  const opened = await openPage(admin, { timezoneId: 'Asia/Tokyo' })
  const { page } = opened
  await expectText(page.locator('main .zone'), `Times of the shops: ${zone}`)
  const time = page.locator('main tbody time').first()
  await time.waitFor()
  const at = new Date((await time.getAttribute('datetime')) ?? '')
  const hours = { timeZone: zone, hourCycle: 'h23', hour: '2-digit', minute: '2-digit' } as const
  await expectText(time, new Intl.DateTimeFormat('en-CA', hours).format(at))
  opened.expectQuiet()
  await opened.close()
  await side.stop()
})

test('with shops in several zones a page says whose times it shows, and with one of them chosen by its key nothing', async () => {
  const far = await openOwnShop(service, 'almacen')
  await createStore(service, far, { id: 'SUC-MX', boxes: ['CAJA-MX'] })
  const moved = await call(service, {
    method: 'PUT',
    url: '/stores/SUC-MX/time-zone',
    token: far.key,
    body: { time_zone: 'America/Mexico_City' },
  })
  expect(moved.statusCode, moved.body).toBe(200)
  const opened = await openPage(url, { timezoneId: 'Asia/Tokyo' })
  const { page } = opened
  await signIn(page, adminToken)
  await expectText(page.locator('main .zone'), /your browser's time zone \(Asia\/Tokyo\)/)
  const own = await openPage(url, { timezoneId: 'Asia/Tokyo' })
  await signIn(own.page, till.key)
  await expectText(own.page.locator('main'), 'HERE-1')
  expect(await own.page.locator('main .zone').count()).toBe(0)
  for (const one of [opened, own]) {
    one.expectQuiet()
    await one.close()
  }
})
