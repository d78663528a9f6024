import type { BrowserContext } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { fillShops } from '../../bench/page-data.ts'
import { jsonFlow, startTestFlows, type TestFlows } from '../support/flows.ts'
import { openOwnShop } from '../support/money.ts'
import { countPageBytes, type PageRequests, sumOfBytes } from '../support/page-bytes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { charge } from '../support/till.ts'
import { browser, expectText } from './browser.ts'

/** What a page of a thousand boxes and two hundred flows asks of the line before it shows something: counted, not timed. */
const mostBytes = 100 * 1024
const boxes = 1_000
const flows = 200

let service: TestService
let side: TestFlows
let dashboard: string
let admin: string
let context: BrowserContext

beforeAll(async () => {
  service = await startTestService()
  const shop = await openOwnShop(service, 'cadena')
  const clients = 40
  await fillShops(
    service.database,
    { ...shop, client: 'cadena' },
    { clients, boxes: boxes - (clients - 1) * 5 },
  )
  await charge(service, shop, { reference: 'ABIERTA' })
  dashboard = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  const names = Array.from({ length: flows }, (_, index) => `flow-${index}`)
  side = await startTestFlows({
    service,
    files: Object.fromEntries(
      names.map((name) => [`${name}.flow.yaml`, jsonFlow(name, 'http://127.0.0.1:9')]),
    ),
  })
  admin = `${await side.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(() => context?.close())
afterAll(async () => {
  await side?.stop()
  await service?.stop()
})

/** A page that asks for the first time, and whose time goes on only when it is told. */
async function open(url: string) {
  context = await browser.newContext({ locale: 'es-AR' })
  await context.request.post(new URL('/session', dashboard).href, { data: { token: adminToken } })
  const page = await context.newPage()
  const asked = await countPageBytes(await context.newCDPSession(page))
  await page.clock.install()
  await page.goto(url)
  return { page, asked }
}

const countOf = (asked: PageRequests, path: string) =>
  [...asked.values()].filter(({ url }) => new URL(url).pathname === path).length

/** Without what comes after the content: the other language, and the views that are not seen first. */
const withoutLater = (asked: PageRequests): PageRequests =>
  new Map([...asked].filter(([, { url }]) => !/part=(texts|later)/.test(url)))

const greeting = 'retry: 2000\n\nevent: resync\ndata: {}\n\n'.length

test('the overview of a thousand boxes: what needs somebody, within 100 KB, asked for once', async () => {
  const { page, asked } = await open(dashboard)
  await expectText(page.locator('main'), '1.000 cajas')
  await page.locator('.light', { hasText: 'CAJA-1' }).first().waitFor()
  expect(await page.locator('.light').count()).toBe(12)
  await expectText(
    page.locator('section', { has: page.locator('#boxes') }),
    'Mostrar las 1.000 cajas',
  )
  // The stream has told that everything may have changed, which was looked at after it had begun.
  await expect
    .poll(() => [...asked.values()].find(({ url }) => url.endsWith('/events'))?.uncompressed)
    .toBeGreaterThanOrEqual(greeting)
  await page.clock.runFor(10_000)
  await page.evaluate('0')
  expect(countOf(asked, '/overview')).toBe(1)
  const first = withoutLater(asked)
  expect(sumOfBytes(first)).toBeLessThanOrEqual(mostBytes)
  // Among them the plot, which is seen first, and the sums of the day before, which nobody waits for.
  expect(first.size).toBeLessThanOrEqual(14)
  expect(asked.size - first.size).toBe(2)
  // While nothing is told, it looks again every 15 seconds.
  await page.clock.runFor(10_000)
  await expect.poll(() => countOf(asked, '/overview')).toBe(2)

  await page.getByRole('searchbox', { name: 'Buscar una caja' }).fill('caja-805')
  await expectText(page.locator('.lights'), 'CAJA-805')
  expect(await page.locator('.light').count()).toBe(1)
})

test.each(['payments', 'flows'])(
  'the first data of the %s do not wait for the stream of events',
  async (which) => {
    context = await browser.newContext({ locale: 'es-AR' })
    await context.request.post(new URL('/session', dashboard).href, { data: { token: adminToken } })
    const page = await context.newPage()
    await page.clock.install()
    await page.clock.pauseAt(Date.now() + 60_000)
    let isAsked = false
    await page.route(/\/events(\?|$)/, () => {
      // No answer comes, and no time goes by.
      isAsked = true
    })
    await page.goto(which === 'payments' ? dashboard : admin)
    await page.locator('.numbers .value').first().waitFor()
    expect(isAsked).toBe(true)
  },
)

test('a thousand rows are drawn over several frames, and hold up nobody who scrolls already', async () => {
  const { page } = await open(dashboard)
  await page.locator('.light').first().waitFor()
  await page.evaluate(`globalThis.drawn = []; new MutationObserver((changes) => {
    drawn.push(changes.flatMap(({ addedNodes }) => [...addedNodes]).filter((node) => node.matches?.('.light')).length)
  }).observe(document.querySelector('main'), { childList: true, subtree: true })`)
  await page.getByRole('button', { name: 'Mostrar las 1.000 cajas' }).click()
  await expect.poll(() => page.locator('.light').count(), { timeout: 10_000 }).toBe(boxes)
  expect(await page.evaluate<number>('Math.max(...drawn)')).toBeLessThanOrEqual(100)
})

test('the table of two hundred flows comes within 100 KB', async () => {
  const { page, asked } = await open(admin)
  await page.locator('main tbody tr').first().waitFor()
  expect(sumOfBytes(asked)).toBeLessThanOrEqual(mostBytes)
  // Among them whose session it is, which is asked for beside the flows.
  expect(asked.size).toBeLessThanOrEqual(10)
})
