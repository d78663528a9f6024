import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { today, typeCharge, watchAfter } from '../closings/shop-day.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import {
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  reading,
  setFaults,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, enrol, payByCard, readOrder } from '../support/till.ts'
import {
  barriers,
  button,
  launchBrowser,
  openPage,
  signIn,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

/** Every view of both pages keeps nobody out (axe), fits the window, and complains of nothing, in both languages. */
let browser: Browser
let opened: WatchedPage | undefined
beforeAll(async () => {
  browser = await launchBrowser()
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(() => browser?.close())

const looks = [
  { language: 'en', locale: 'en-GB', colorScheme: 'light' },
  { language: 'es', locale: 'es-AR', colorScheme: 'dark' },
  { language: 'es', locale: 'es-AR', colorScheme: 'light' },
  { language: 'en', locale: 'en-GB', colorScheme: 'dark' },
].flatMap((look) => [
  { ...look, device: 'desktop', viewport: { width: 1280, height: 800 } },
  { ...look, device: 'phone', viewport: { width: 390, height: 780 } },
]) as Look[]

type Look = {
  language: 'en' | 'es'
  locale: string
  colorScheme: 'light' | 'dark'
  device: string
  viewport: { width: number; height: number }
}

/** Opens each view, waits until it shows something, and answers the barriers by view. */
async function barriersOf(
  page: Page,
  address: string,
  device: string,
  views: Record<string, string>,
): Promise<[string, string][]> {
  const found: [string, string][] = []
  for (const [view, shown] of Object.entries(views)) {
    await page.goto(`${address}#/${view}`)
    await page.locator(shown).first().waitFor()
    await expect.poll(() => page.locator('.loading').count(), { timeout: 20_000 }).toBe(0)
    for (const barrier of await barriers(page)) found.push([view, barrier])
    if (device === 'phone') continue
    for (const width of await tooWideAt(page)) found.push([view, `too wide at ${width}`])
  }
  return found
}

describe('the dashboard', () => {
  let service: TestService
  let address: string
  let paid: string
  let lost: string
  let closing: string
  beforeAll(async () => {
    service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
    address = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
    const shop = await openOwnShop(service, 'panaderia')
    await typeCharge(service, shop)
    await watchAfter(service, 5 * 60_000)
    closing = (
      await call(service, {
        url: '/closings',
        token: shop.key,
        body: { caja_id: 'CAJA-1', business_day: today(service) },
      })
    ).json().id
    await watchAfter(service, 61_000)
    await setFaults(service, { ...creation, kind: 'drop_before' }, { ...reading, kind: '503' })
    lost = (await charge(service, shop, { reference: 'LOST-1' })).json().order_id
    await clearFaults(service)
    await enrol(service, 'nueva', '7910001')
    paid = (await charge(service, shop, { reference: 'PAID-1' })).json().order_id
    await act(service, paid, payByCard)
    await readOrder(service, shop, paid)
    const open = (await charge(service, shop, { reference: 'OPEN-1' })).json().order_id
    const { mp_order_id } = (await readOrder(service, shop, open)).json()
    await deliver(service, { dataId: mp_order_id })
  })
  afterAll(() => service?.stop())

  test.each(looks)('in $language, $colorScheme, $device', async ({ language, device, ...look }) => {
    opened = await openPage(browser, address, { ...look, reducedMotion: 'reduce' })
    const { page } = opened
    await page.locator('#token').waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(await barriers(page)).toEqual([])
    await signIn(page, adminToken)
    expect(
      await barriersOf(page, address, device, {
        overview: '.numbers',
        orders: 'tbody tr',
        [`closings?client=panaderia&day=${today(service)}`]: '.closing-numbers',
        [`closings/${closing}?client=panaderia`]: '.difference',
        'closings/orphans?client=panaderia': '.orphan',
        'closings/net?client=panaderia': '.month',
        'orders?status=refunded': '.empty',
        stores: '.empty',
        'stores?client=panaderia': '.boxes .box',
        clients: '.c-keys',
        'clients?client=nueva': '.steps',
        'clients?new=1': '.inline-form',
        webhooks: '.c-signature',
        activity: '.c-action',
        // In doubt, until the service has found that it was never made.
        [`orders/${lost}`]: '.timeline',
        [`orders/${paid}`]: '.timeline',
      }),
    ).toEqual([])
    await page.locator('.summary .button.main').click()
    await page.getByRole('dialog').waitFor()
    expect(await barriers(page)).toEqual([])
    opened.expectQuiet()
  })
})

describe('the page of the flows', () => {
  let flows: TestFlows
  let target: TestTarget
  let address: string
  beforeAll(async () => {
    target = await startTarget()
    target.answer(() => 422)
    flows = await startTestFlows({
      files: {
        'prices.flow.yaml': jsonFlow('prices', target.url, { startPaused: false }),
        'prices.json': [{ id: 'A-1' }, { id: 'A-2' }],
        'broken.flow.yaml': 'version: 1\nname: broken\npolInterval: 1m\n',
      },
    })
    address = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
    await vi.waitFor(() => expect(target.received).toHaveLength(2), 20_000)
    await flows.flows.pause('prices', 'colleague', 'stocktaking')
  })
  afterAll(async () => {
    await flows?.stop()
    await target?.close()
  })

  test.each(looks)('in $language, $colorScheme, $device', async ({ language, device, ...look }) => {
    opened = await openPage(browser, address, { ...look, reducedMotion: 'reduce' })
    const { page } = opened
    await page.locator('article.flow').waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(
      await barriersOf(page, address, device, {
        flows: 'article.flow',
        'flows?flow=prices': 'tbody tr',
        errors: '.groups article',
        item: 'form[role=search]',
        'item?pk=A-1': 'table',
        'item?flow=prices&pk=A-1': '.version',
        activity: '.c-action',
      }),
    ).toEqual([])
    await page.goto(`${address}#/flows`)
    await button(page, language === 'es' ? 'Limitar' : 'Limit').click()
    await page.getByRole('dialog').waitFor()
    expect(await barriers(page)).toEqual([])
    opened.expectQuiet()
  })
})

describe('the virtual terminals', () => {
  let service: TestService
  beforeAll(async () => {
    service = await startTestService()
    const shop = await openOwnShop(service, 'panaderia')
    await charge(service, shop, { reference: 'OPEN-1' })
  })
  afterAll(() => service?.stop())

  test.each(looks)('in $language, $colorScheme, $device', async ({ language, device, ...look }) => {
    opened = await openPage(browser, `${service.sandbox.url}/`, {
      ...look,
      reducedMotion: 'reduce',
    })
    const { page } = opened
    await page.locator('.device').first().waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(await barriers(page)).toEqual([])
    if (device === 'desktop') expect(await tooWideAt(page)).toEqual([])
    opened.expectQuiet()
  })
})
