import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Person, permissionsOf, type Role } from '../../src/domain/permissions.ts'
import { today, typeCharge, watchAfter } from '../closings/shop-day.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { clearFaults, creation, openOwnShop, reading, setFaults } from '../support/money.ts'
import { by, codeAt, goodPassword, join } from '../support/people.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, payByCard, readOrder } from '../support/till.ts'
import { button, expectText, openPage, type WatchedPage } from './browser.ts'

/** What a person sees on both pages is what the role allows, by the table that the guards use. */

let service: TestService
let flows: TestFlows
let target: TestTarget
let dashboard: string
let admin: string
let opened: WatchedPage | undefined
const ids = { paid: '', open: '', lost: '', agreed: '' }

const people = {
  'administrator of the service': { role: 'administrator', client: null, stores: null },
  'administrator of a client': { role: 'administrator', client: 'panaderia', stores: null },
  supervisor: { role: 'supervisor', client: 'panaderia', stores: ['SUC-1'] },
  viewer: { role: 'viewer', client: 'panaderia', stores: null },
  'flow operator': { role: 'flow_operator', client: null, stores: null },
  'viewer of the service': { role: 'viewer', client: null, stores: null },
} as const satisfies Record<string, Pick<Person, 'role' | 'client' | 'stores'>>
type Who = keyof typeof people
const all = Object.keys(people) as Who[]
const mayOf = (who: Who): string[] => permissionsOf(people[who])

beforeAll(async () => {
  service = await startTestService({ env: { PROVIDER_TIMEOUT_MS: '500' }, hangsAreShort: true })
  dashboard = `${await service.app.listen({ host: '127.0.0.1', port: 0 })}/dashboard`
  const shop = await openOwnShop(service, 'panaderia')
  await typeCharge(service, shop)
  await watchAfter(service, 5 * 60_000)
  ids.paid = (await charge(service, shop, { reference: 'PAID-1' })).json().order_id
  await act(service, ids.paid, payByCard)
  await readOrder(service, shop, ids.paid)
  ids.agreed = (
    await call(service, {
      url: '/closings',
      token: shop.key,
      body: { caja_id: 'CAJA-1', business_day: today(service) },
    })
  ).json().id
  await watchAfter(service, 61_000)
  await setFaults(service, { ...creation, kind: 'drop_before' }, { ...reading, kind: '503' })
  ids.lost = (await charge(service, shop, { reference: 'LOST-1' })).json().order_id
  ids.open = (await charge(service, shop, { reference: 'OPEN-1' })).json().order_id ?? ids.lost
  for (const [name, { role, client, stores }] of Object.entries(people)) {
    const person = { name, role: role as Role, client, stores: stores && [...stores] }
    await join(service, person)
  }
  target = await startTarget()
  target.answer(() => 422)
  flows = await startTestFlows({
    service,
    env: { SYNC_TOKEN: 'canary-sync-token-for-operators-0123' },
    files: {
      'prices.flow.yaml': jsonFlow('prices', target.url),
      'prices.json': [{ id: 'A-1' }],
    },
  })
  admin = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
  await flows.flows.sync('prices', { force: true })
  await flows.delivered()
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await clearFaults(service)
  await flows?.stop()
  await target?.close()
  await service?.stop()
})

async function signIn(url: string, name: string, code = ''): Promise<Page> {
  opened = await openPage(url)
  const { page } = opened
  await button(page, 'Sign in with a name and a password').click()
  await page.locator('#person').fill(name)
  await page.locator('input[name=password]').fill(goodPassword)
  await page.locator('input[name=code]').fill(code)
  await page.keyboard.press('Enter')
  await page.locator('#title').waitFor()
  return page
}

/** Shows a view and waits until all of it is there. */
async function show(page: Page, address: string): Promise<void> {
  await page.goto(address)
  await expect.poll(() => page.locator('.loading').count(), { timeout: 20_000 }).toBe(0)
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))')
}

/** The names of the buttons in the view, and of links that begin something. */
async function deedsOf(page: Page): Promise<string[]> {
  const details = page.locator('main details > summary')
  for (let at = 0; at < (await details.count()); at += 1) {
    const one = details.nth(at)
    if ((await one.locator('..').getAttribute('open')) === null) await one.click()
  }
  const texts = await page
    .locator('main button, main a.button[href*="close=all"]')
    .evaluateAll((found) =>
      (found as unknown as { innerText: string; checkVisibility(): boolean }[])
        .filter((one) => one.checkVisibility())
        .map((one) => one.innerText.trim()),
    )
  return [...new Set(texts)]
}

type Deeds = [RegExp, string][]

/** A day that nobody has closed. */
const yesterday = () => new Date(Date.parse(today(service)) - 86_400_000).toISOString().slice(0, 10)

/** Of each view of payments what not everybody may do, with the permission that it needs. */
const paymentDeeds = (): [string, Deeds][] => [
  [`orders/${ids.paid}`, [[/^Refund$/, 'move_money']]],
  [
    `orders/${ids.lost}`,
    [
      [/^Ask Mercado Pago now$/, 'move_money'],
      [/^I looked: paid$/, 'move_money'],
      [/^I looked: not paid$/, 'move_money'],
      [/^Cancel order$/, 'move_money'],
    ],
  ],
  [`closings?day=${yesterday()}`, [[/^Close the day$/, 'close_days']]],
  [
    `closings/${ids.agreed}`,
    [
      [/^Sign$/, 'close_days'],
      [/^Count again$/, 'close_days'],
    ],
  ],
  [
    'closings/orphans',
    [
      [/^Adopt$/, 'move_money'],
      [/^Refund$/, 'move_money'],
      [/^Dismiss$/, 'move_money'],
    ],
  ],
  ['stores/CAJA-1', [[/^Switch to standalone$/, 'switch_terminals']]],
]

/** What everybody may press: it shows, sorts or opens something. */
const harmless =
  /^(|Download.*|Show .*|Only problems|All changes|Copy|Clear.*|✕|Store|Sold|Difference|Boxes|Details|Line \d+|Cuts?|Where .*|Read the file again|Start|Find.*|Put .*)$/

test.each(all.filter((who) => people[who].client !== null))(
  'T57: payments: the buttons of %s are those of the role',
  async (who) => {
    const page = await signIn(dashboard, who)
    for (const [view, deeds] of paymentDeeds()) {
      await show(page, `${dashboard}#/${view}`)
      const seen = await deedsOf(page)
      for (const [text, needs] of deeds) {
        const isSeen = seen.some((one) => text.test(one))
        expect([view, String(text), isSeen, seen]).toEqual([
          view,
          String(text),
          mayOf(who).includes(needs),
          seen,
        ])
      }
      const isListed = (text: string) => deeds.some(([deed]) => deed.test(text))
      if (who === 'viewer') {
        expect([view, seen.filter((text) => !harmless.test(text) && !isListed(text))]).toEqual([
          view,
          [],
        ])
      }
    }
    expect(await page.locator('.role-note').count()).toBe(who === 'viewer' ? 1 : 0)
    const ways = await page.locator('nav.ways a').allInnerTexts()
    expect(ways.includes('People')).toBe(mayOf(who).includes('manage_people'))
    expect(ways.includes('Activity')).toBe(mayOf(who).includes('see_activity'))
    expect(ways.includes('Events')).toBe(mayOf(who).includes('set_up'))
    await show(page, `${dashboard}#/closings`)
    const tabs = await page.locator('.tabs a').allInnerTexts()
    // Of the client as a whole, which a supervisor of some stores does not see.
    expect(tabs.includes('Net')).toBe(people[who].stores === null)
    opened?.expectQuiet()
  },
)

const flowDeeds: [string, RegExp[]][] = [
  ['flows', [/^Pause all/, /^Stop sending/, /^Read files again$/]],
  ['flows?flow=prices', [/^Sync$/, /^Resume|^Pause/, /^Limit$/, /^Reset$/, /^Resync$/]],
  ['errors', [/^Send .*again$/]],
  ['item?flow=prices&pk=A-1', [/^Retry what failed$/]],
  ['destinations', [/^Stop/]],
  ['destinations?name=web', [/^Stop/]],
  ['workbench?file=prices.flow.yaml', [/^Dry run$/, /^Save and use$/]],
]

test.each(all.filter((who) => mayOf(who).includes('see_flows')))(
  'T57: flows: the buttons of %s are those of the role',
  async (who) => {
    const page = await signIn(admin, who)
    const isAllowed = mayOf(who).includes('run_flows')
    for (const [view, deeds] of flowDeeds) {
      await show(page, `${admin}#/${view}`)
      const seen = await deedsOf(page)
      for (const text of deeds) {
        expect([view, String(text), seen.some((one) => text.test(one)), seen]).toEqual([
          view,
          String(text),
          isAllowed,
          seen,
        ])
      }
      if (isAllowed) continue
      expect([view, seen.filter((text) => !harmless.test(text))]).toEqual([view, []])
    }
    expect(await page.locator('.role-note').count()).toBe(isAllowed ? 0 : 1)
    opened?.expectQuiet(/401/)
  },
)

test('a flow operator signs in with a code, and what is done bears the name', async () => {
  const { cookie } = await join(service, { name: 'Leo Ruiz', role: 'flow_operator' })
  const account = (url: string, body: object) => by(service, { cookie }, { url, body })
  const { secret } = (await account('/account/totp', {})).json()
  const code = () => codeAt(secret, service.clock.now())
  await account('/account/totp/confirm', { code: code() })
  service.clock.advance(30_000)

  const page = await signIn(`${admin}#/flows?flow=prices`, 'leo ruiz', code())
  await expectText(page.locator('.head'), 'Leo Ruiz')
  await flows.flows.resume('prices', 'test')
  await button(page, 'Pause').click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox').fill('inventario')
  await page.keyboard.press('Enter')
  await expectText(page.locator('article.flow'), /Paused by Leo Ruiz[\s\S]*inventario/)
  await page.goto(`${admin}#/activity?flow=prices`)
  await expectText(page.locator('tbody tr').first(), 'Leo Ruiz')

  await page.locator('.head-buttons button', { hasText: 'Sign out' }).click()
  await page.locator('#person').waitFor()
  await page.locator('#person').fill('leo ruiz')
  await page.locator('input[name=password]').fill('canary-wrong')
  for (let round = 0; round < 6; round += 1) {
    await page.keyboard.press('Enter')
    await expectText(page.locator('[role=alert]'), /wrong|Too many/)
  }
  await expectText(page.locator('[role=alert]'), 'Too many wrong tries')
  opened?.expectQuiet(/401|429/)
})

test('whoever does not see flows is told so, and where no token is asked for a person signs in by choice', async () => {
  opened = await openPage(admin)
  await button(opened.page, 'Sign in with a name and a password').click()
  await opened.page.locator('#person').fill('supervisor')
  await opened.page.locator('input[name=password]').fill(goodPassword)
  await opened.page.keyboard.press('Enter')
  await expectText(opened.page.locator('[role=alert]'), 'Your role does not see the flows')
  await opened.close()

  const side = await startTestFlows({ service, files: {} })
  const open = `${await side.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
  opened = await openPage(`${open}#/workbench`)
  const { page } = opened
  await expectText(page.locator('main'), 'You are not signed in, and no SYNC_TOKEN is set')
  await page.locator('.head-buttons button', { hasText: 'Sign in' }).click()
  await button(page, 'Back').click()
  await page.locator('#title').waitFor()
  await page.locator('.head-buttons button', { hasText: 'Sign in' }).click()
  await page.locator('#person').fill('flow operator')
  await page.locator('input[name=password]').fill(goodPassword)
  await page.keyboard.press('Enter')
  await expectText(page.locator('.head'), 'flow operator')
  await expect.poll(() => page.locator('main').innerText()).not.toContain('SYNC_TOKEN')
  opened.expectQuiet()
  await side.stop()
})
