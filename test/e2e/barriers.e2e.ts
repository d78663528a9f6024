import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { today, typeCharge, watchAfter } from '../closings/shop-day.ts'
import { eventually } from '../support/eventually.ts'
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
import { codeOf, goodPassword, join } from '../support/people.ts'
import { timesAsMany } from '../support/rounds.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, enrol, payByCard, readOrder } from '../support/till.ts'
import {
  barriersInBothSchemes,
  button,
  openPage,
  signIn,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

/**
 * Every view of both pages keeps nobody out (axe), fits the window, and complains of nothing: each language once, and each width;
 * with TEST_ROUNDS above 1 each language at each width.
 */
/** Twenty views and more, each looked at at several widths; other tests keep the processor busy. */
vi.setConfig({ testTimeout: 180_000 })

let opened: WatchedPage | undefined
afterEach(async () => {
  await opened?.close()
  opened = undefined
})

const allLooks = [
  { language: 'en', locale: 'en-GB' },
  { language: 'es', locale: 'es-AR' },
].flatMap((look) => [
  { ...look, device: 'desktop', viewport: { width: 1280, height: 800 } },
  { ...look, device: 'phone', viewport: { width: 390, height: 780 } },
]) as Look[]
const isFew = ({ language, device }: Look) => (language === 'en') === (device === 'desktop')
const looks = timesAsMany > 1 ? allLooks : allLooks.filter(isFew)

type Look = {
  language: 'en' | 'es'
  locale: string
  device: string
  viewport: { width: number; height: number }
}

/** A page in the light colors, whose animations are at their end. */
async function open(address: string, look: Omit<Look, 'language' | 'device'>): Promise<Page> {
  opened = await openPage(address, { ...look, colorScheme: 'light', reducedMotion: 'reduce' })
  return opened.page
}

test('a text that cannot be read in the dark colors alone is found', async () => {
  const page = await open('about:blank', { locale: 'en-GB', viewport: { width: 390, height: 780 } })
  const ofDark = 'p { color: #333; background: #222 }'
  await page.setContent(
    `<html lang=en><title>t</title><style>@media (prefers-color-scheme: dark) { ${ofDark} }</style><main><h1>t</h1><p>text`,
  )
  expect(await barriersInBothSchemes(page)).toEqual([
    expect.stringMatching(/^dark: color-contrast: <p>/),
  ])
})

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
    for (const barrier of await barriersInBothSchemes(page)) found.push([view, barrier])
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
    await join(service, { name: 'Ana', role: 'administrator', client: 'panaderia' })
  })
  afterAll(() => service?.stop())

  test.each(looks)('in $language, on a $device', async ({ language, device, ...look }) => {
    const page = await open(address, look)
    await page.locator('#token').waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(await barriersInBothSchemes(page)).toEqual([])
    await signIn(page, adminToken)
    expect(
      await barriersOf(page, address, device, {
        overview: '.numbers',
        'overview/trend?period=week': '.trend',
        orders: 'tbody tr',
        [`closings?client=panaderia&day=${today(service)}`]: '.closing-numbers',
        [`closings/${closing}?client=panaderia`]: '.difference',
        'closings/orphans?client=panaderia': '.orphan',
        'closings/net?client=panaderia': '.month',
        'closings/chargebacks?client=panaderia': '.empty',
        'orders?status=refunded': '.empty',
        stores: '.empty',
        'stores?client=panaderia': '.boxes .box',
        'stores/CAJA-1?client=panaderia': '.ability',
        clients: '.c-keys',
        'clients?client=nueva': '.steps',
        'clients?new=1': '.inline-form',
        webhooks: '.c-signature',
        activity: '.c-action',
        people: '.c-role',
        // In doubt, until the service has found that it was never made.
        [`orders/${lost}`]: '.timeline',
        [`orders/${paid}`]: '.timeline',
      }),
    ).toEqual([])
    await page.locator('.summary .button.main').click()
    await page.getByRole('dialog').waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    await page.goto(`${address}#/people?client=panaderia`)
    await page.locator('.title .button.main').click()
    await page.locator('dialog .store-picker input').first().waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.locator('.head-buttons .button').last().click()
    await signInByName(page)
    expect(
      await barriersOf(page, address, device, {
        account: 'main table',
        people: '.c-role',
        [`orders/${paid}`]: '.timeline',
      }),
    ).toEqual([])
    opened?.expectQuiet()
  })

  test.each(looks)(
    'an invitation of a flow operator, in $language, on a $device',
    async ({ language, device, ...look }) => {
      const name = `operator ${language} ${device}`
      const invited = await asAdmin(service, {
        url: '/people',
        body: { name, role: 'flow_operator' },
      })
      const page = await open(`${address}#/invitation/${codeOf(invited)}`, look)
      await page.locator('input[name=password]').fill(goodPassword)
      expect(await barriersInBothSchemes(page)).toEqual([])
      await page.keyboard.press('Enter')
      await page.locator('main table').waitFor()
      expect(await barriersInBothSchemes(page)).toEqual([])
      // The session that the page preloads is used only without an invitation, and the events are not of this role.
      opened?.expectQuiet(/preload|403/)
    },
  )
})

/** From the form for a token to that for a name, and in. */
async function signInByName(page: Page): Promise<void> {
  await page.locator('.sign-in .button.quiet.wide').first().click()
  await page.locator('#person').fill('Ana')
  expect(await barriersInBothSchemes(page)).toEqual([])
  await page.locator('input[name=password]').fill(goodPassword)
  await page.keyboard.press('Enter')
  await page.locator('#title').waitFor()
}

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
    await eventually(() => expect(target.received).toHaveLength(2))
    await flows.flows.pause('prices', 'colleague', 'stocktaking')
  })
  afterAll(async () => {
    await flows?.stop()
    await target?.close()
  })

  test.each(looks)('in $language, on a $device', async ({ language, device, ...look }) => {
    const page = await open(address, look)
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
        destinations: 'tbody tr',
        'destinations?name=web': 'tbody tr',
        workbench: '.c-file',
        'workbench?file=prices.flow.yaml': '.cm-content',
      }),
    ).toEqual([])
    await page.goto(`${address}#/flows`)
    await button(page, language === 'es' ? 'Limitar' : 'Limit').click()
    await page.getByRole('dialog').waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    await page.keyboard.press('Escape')
    const signIn = language === 'es' ? 'Ingresar' : 'Sign in'
    await page.locator('.head-buttons').getByRole('button', { name: signIn }).click()
    await page.locator('#person').waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    for (const guide of ['guide', 'guide/how-to/people']) {
      await page.goto(new URL(guide, address).href)
      await page.locator('h1').waitFor()
      expect([guide, await barriersInBothSchemes(page)]).toEqual([guide, []])
      if (device === 'desktop') expect([guide, await tooWideAt(page)]).toEqual([guide, []])
    }
    opened?.expectQuiet()
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

  test.each(looks)('in $language, on a $device', async ({ language, device, ...look }) => {
    const page = await open(`${service.sandbox.url}/`, look)
    await page.locator('.device').first().waitFor()
    expect(await page.locator('html').getAttribute('lang')).toBe(language)
    expect(await barriersInBothSchemes(page)).toEqual([])
    if (device === 'desktop') expect(await tooWideAt(page)).toEqual([])
    opened?.expectQuiet()
  })
})
