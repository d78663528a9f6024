import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import {
  launchBrowser,
  openPage,
  seriousBarriers,
  sidewaysOverflow,
  type WatchedPage,
} from './browser.ts'

const hostileKey = '<img src=x onerror=alert(1)>\u202Eabc'
const hostileReason = '<script>alert(1)</script>\u202Egnirts '.padEnd(500, 'x')

let browser: Browser
let target: TestTarget
let flows: TestFlows
let url: string
let opened: WatchedPage | undefined

/** Each test has a flow of its own, so none depends on another. */
const names = [
  'pausing',
  'limited',
  'syncing',
  'failing',
  'resetting',
  'alerting',
  'hostile',
  'calm',
  'noticed',
  'a-keyboard',
]

beforeAll(async () => {
  browser = await launchBrowser()
  target = await startTarget()
  target.answer(({ path }) => (/^\/(failing|hostile)\//.test(path) ? 422 : 200))
  const files = Object.fromEntries(
    names.flatMap((name) => [
      [`${name}.flow.yaml`, jsonFlow(name, target.url, { startPaused: false, ...extraOf(name) })],
      [`${name}.json`, itemsOf(name)],
    ]),
  )
  flows = await startTestFlows({
    files: { ...files, 'broken.flow.yaml': 'version: 1\nname: broken\npolInterval: 1m\n' },
  })
  url = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
  await browser?.close()
})

function extraOf(name: string): Record<string, unknown> {
  if (name === 'hostile') return { description: '<b>bold</b>\u202E '.repeat(70) }
  if (name !== 'alerting') return {}
  return {
    alerts: {
      onJobFailed: [
        { type: 'webhook', url: `${target.url}/hook` },
        // Nothing listens there.
        { type: 'webhook', url: 'http://127.0.0.1:1/hook' },
      ],
    },
  }
}

function itemsOf(name: string): object[] {
  return name === 'hostile' ? [{ id: hostileKey }] : [{ id: 'A-1' }, { id: 'A-2' }]
}

async function open(view = '', options = {}): Promise<Page> {
  opened = await openPage(browser, `${url}#/${view}`, options)
  return opened.page
}

function card(page: Page, name: string): Locator {
  return page.locator('article.flow', { has: page.locator(`#flow-${name}`) })
}

async function expectText(locator: Locator, text: string | RegExp): Promise<void> {
  await expect
    .poll(() => locator.innerText(), { timeout: 20_000 })
    .toEqual(typeof text === 'string' ? expect.stringContaining(text) : expect.stringMatching(text))
}

const button = (scope: Page | Locator, name: string) =>
  scope.getByRole('button', { name, exact: true })

const sent = (name: string) => target.received.filter(({ path }) => path.startsWith(`/${name}/`))

test('a pause is shown with who and why, after a reload too, until the flow is resumed', async () => {
  const page = await open()
  const flow = card(page, 'pausing')
  await expectText(flow, 'Running')
  await button(flow, 'Pause').click()
  await page.getByLabel('Reason').fill('stocktaking until noon')
  await page.keyboard.press('Enter')
  await expectText(flow, 'stocktaking until noon')
  await expectText(flow, 'Paused by 127.0.0.1')
  await page.reload()
  await expectText(flow, 'stocktaking until noon')
  await button(flow, 'Resume').click()
  await expectText(flow, 'Running')

  await page.getByRole('link', { name: 'Activity' }).first().click()
  const log = page.getByRole('table', { name: 'Activity' })
  await expectText(log, 'stocktaking until noon')
  await expectText(log, 'Resumed')
  opened?.expectQuiet()
})

test('a limit counts on the card and ends in a pause', async () => {
  const page = await open()
  const flow = card(page, 'limited')
  await button(flow, 'Limit').click()
  await page.getByLabel('Runs until').fill('0')
  await page.keyboard.press('Enter')
  await expectText(page.locator('dialog [role=alert]'), '1 to 1000000')
  await page.getByLabel('Runs until').fill('2')
  await page.keyboard.press('Enter')
  await expectText(flow, '0/2')
  await button(flow, 'Sync').click()
  await expectText(flow, '1/2')
  await button(flow, 'Sync').click()
  await expectText(flow, '2/2')
  await expectText(flow, 'Paused by the service')
  await button(flow, 'Remove limit').click()
  await expectText(flow, 'still paused')
  opened?.expectQuiet()
})

test('sync tells how much changed, and asks before it runs a paused flow', async () => {
  await expect.poll(() => sent('syncing').length, { timeout: 20_000 }).toBe(2)
  const page = await open()
  const flow = card(page, 'syncing')
  await flows.write('syncing.json', [{ id: 'A-1', price: 2 }, { id: 'A-2' }, { id: 'A-3' }])
  await button(flow, 'Sync').click()
  await expectText(flow, 'Synced: 2 changes')
  await expect.poll(() => sent('syncing').length, { timeout: 20_000 }).toBe(4)
  await flows.flows.pause('syncing', 'colleague', 'price list is wrong')
  await expectText(flow, 'price list is wrong')
  await flows.write('syncing.json', [{ id: 'A-1', price: 3 }])
  await button(flow, 'Sync').click()
  await expectText(page.getByRole('dialog'), 'price list is wrong')
  await button(page, 'Back').click()
  expect(sent('syncing')).toHaveLength(4)
  await button(flow, 'Sync').click()
  await button(page, 'Run once').click()
  await expectText(flow, 'Synced: 1 change')
  await expectText(flow, 'Paused')
  opened?.expectQuiet()
})

test('failures stand together by cause; a group is sent again, and one item by itself', async () => {
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(2)
  const page = await open('errors?flow=failing')
  const group = page.locator('article', { hasText: '422' })
  await expectText(group, '2 items')
  await group.getByText('Which items').click()
  await button(group, 'Send again').first().click()
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(3)
  await expectText(group, '2 items')
  target.answer(({ path }) => (path.startsWith('/hostile/') ? 422 : 200))
  await button(group, 'Send all 2 again').click()
  await expect.poll(() => sent('failing').length, { timeout: 20_000 }).toBe(5)
  await expectText(page.locator('main'), 'Nothing failed')

  await page.goto(`${url}#/item`)
  await page.getByLabel('Item key').fill('A-1')
  await page.keyboard.press('Enter')
  await page.getByRole('table', { name: 'Flows that know' }).getByText('failing').click()
  await expectText(page.getByRole('table', { name: 'Where it is' }), /delivered[\s\S]*yes/)
  await expectText(page.getByRole('table', { name: 'Errors of this item' }), '422')
  await button(page, 'Sync this item').click()
  await expectText(page.locator('main'), 'Unchanged')
  opened?.expectQuiet()
})

test('reset asks first, and says how much is sent again to whom', async () => {
  await expect.poll(() => sent('resetting').length, { timeout: 20_000 }).toBe(2)
  const page = await open()
  const flow = card(page, 'resetting')
  await expectText(flow, /Items known\s+2/)
  await flow.getByText('More', { exact: true }).click()
  await button(flow, 'Reset').click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, /2 items would be sent again, to:\s+web/)
  await page.keyboard.press('Escape')
  await expect.poll(() => dialog.count(), { timeout: 20_000 }).toBe(0)
  await button(flow, 'Sync').click()
  await expectText(flow, 'nothing changed')
  await button(flow, 'Reset').click()
  await button(dialog, 'Reset').click()
  await expectText(flow, 'the next run sends everything again')
  await button(flow, 'Resync').click()
  await button(dialog, 'Resync').click()
  await expectText(flow, 'Synced: 2 changes')
  await expect.poll(() => sent('resetting').length, { timeout: 20_000 }).toBe(4)
  opened?.expectQuiet()
})

test('the test of alerts tells what became of each channel', async () => {
  const page = await open()
  const flow = card(page, 'alerting')
  await flow.getByText('More', { exact: true }).click()
  const answered = page.waitForResponse(/test-alerts/)
  await button(flow, 'Test alerts').click()
  expect((await answered).status()).toBe(207)
  const channels = page.getByRole('dialog').getByRole('listitem')
  await expect.poll(() => channels.count(), { timeout: 20_000 }).toBe(2)
  await expectText(channels.nth(0), 'sent')
  await expectText(channels.nth(1), /failed[\s\S]*refused/i)
  await button(page, 'Close').click()
  opened?.expectQuiet()
})

test('a wrong flow file is shown with its line and key, and is gone once it is mended', async () => {
  const page = await open()
  const problems = page.getByRole('region', { name: 'Problems of flow files' })
  await expectText(problems, /broken\.flow\.yaml:3:\d+/)
  await expectText(problems, 'polInterval')
  await flows.remove('broken.flow.yaml')
  await button(page, 'Read files again').click()
  await expect.poll(() => problems.count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet()
})

test('names and texts from outside are text, and nothing scrolls sideways on a phone', async () => {
  await flows.flows.pause('hostile', 'colleague', hostileReason)
  const page = await open('', { viewport: { width: 360, height: 740 } })
  await expectText(card(page, 'hostile'), '<script>alert(1)</script>')
  const key = encodeURIComponent(hostileKey)
  for (const [view, text] of [
    ['flows', '<b>bold</b>'],
    ['errors?flow=hostile', '<img src=x onerror=alert(1)>'],
    [`item?flow=hostile&pk=${key}`, '<img src=x onerror=alert(1)>'],
    ['activity', '<script>alert(1)</script>'],
  ] as const) {
    await page.goto(`${url}#/${view}`)
    await expectText(page.locator('main'), text)
    expect([view, await sidewaysOverflow(page)]).toEqual([view, 0])
    expect(await page.locator('main :is(img, script, b)').count()).toBe(0)
  }
  opened?.expectQuiet()
})

test.each(['light', 'dark'] as const)('keeps nobody out, %s', async (colorScheme) => {
  const page = await open('', { colorScheme, reducedMotion: 'reduce' })
  await expectText(card(page, 'pausing'), 'Last run')
  const barriers: string[] = await seriousBarriers(page)
  await button(card(page, 'pausing'), 'Pause').click()
  barriers.push(...(await seriousBarriers(page)))
  await page.keyboard.press('Escape')
  for (const view of ['errors', 'item?flow=hostile&pk=x', 'activity']) {
    await page.goto(`${url}#/${view}`)
    await expect.poll(() => page.locator('.loading').count(), { timeout: 20_000 }).toBe(0)
    barriers.push(...(await seriousBarriers(page)))
  }
  expect(barriers).toEqual([])
})

test('of many flows, those that need attention can be picked out', async () => {
  await flows.flows.pause('noticed', 'colleague', 'stocktaking')
  const page = await open()
  await expectText(card(page, 'noticed'), 'stocktaking')
  expect(await card(page, 'calm').count()).toBe(1)
  await page.getByLabel('Show').selectOption('attention')
  await expect.poll(() => card(page, 'calm').count(), { timeout: 20_000 }).toBe(0)
  expect(await card(page, 'noticed').count()).toBe(1)
  await page.getByLabel('Find flow').fill('nothing like it')
  await expectText(page.locator('main'), 'No flow matches')
  opened?.expectQuiet()
})

test('speaks Spanish and English, and keeps the choice', async () => {
  const page = await open('', { locale: 'es-AR' })
  await expectText(page.locator('h1'), 'Flujos')
  await button(page, 'English').click()
  await expectText(page.locator('h1'), 'Flows')
  await page.reload()
  await expectText(page.locator('h1'), 'Flows')
  expect(await page.locator('html').getAttribute('lang')).toBe('en')
  opened?.expectQuiet()
})

test('the keyboard alone pauses a flow', async () => {
  const page = await open()
  await expectText(card(page, 'a-keyboard'), 'Running')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('content')
  const pause = button(card(page, 'a-keyboard'), 'Pause')
  for (let step = 0; step < 200; step += 1) {
    await page.keyboard.press('Tab')
    if (await pause.evaluate((element) => element.matches(':focus'))) break
  }
  await page.keyboard.press('Enter')
  await page.keyboard.type('by keyboard')
  await page.keyboard.press('Enter')
  await expectText(card(page, 'a-keyboard'), 'by keyboard')
  opened?.expectQuiet()
})

test('a lost connection is told, what was seen stays, and it recovers by itself', async () => {
  const page = await open()
  await expectText(card(page, 'pausing'), 'Last run')
  await page.context().setOffline(true)
  await expectText(page.locator('main'), 'Connection lost')
  expect(await card(page, 'pausing').count()).toBe(1)
  await page.context().setOffline(false)
  await expectText(page.locator('header'), 'Live')
  await expect.poll(() => page.getByText('Connection lost').count(), { timeout: 20_000 }).toBe(0)
  opened?.expectQuiet(/ERR_INTERNET_DISCONNECTED/)
})

test('asks for the token where one is set, keeps it out of addresses, and forgets it', async () => {
  const token = 'sync-token-for-tests-0123456789'
  const guarded = await startTestFlows({ env: { SYNC_TOKEN: token } })
  try {
    const address = await guarded.app.listen({ host: '127.0.0.1', port: 0 })
    opened = await openPage(browser, `${address}/admin`)
    const { page, requested } = opened
    await page.getByLabel('Token').fill('wrong')
    await page.keyboard.press('Enter')
    await expectText(page.getByRole('alert'), 'not valid')
    await page.getByLabel('Token').fill(token)
    await page.keyboard.press('Enter')
    await expectText(page.locator('main'), 'No flows yet')
    await page.reload()
    await expectText(page.locator('main'), 'No flows yet')
    expect(await page.evaluate('Object.values(localStorage).join() + document.cookie')).toBe('')
    await button(page, 'Sign out').click()
    expect(await page.getByLabel('Token').inputValue()).toBe('')
    expect(await page.evaluate('sessionStorage.length')).toBe(0)
    expect([...requested, page.url()].filter((one) => one.includes(token))).toEqual([])
    opened.expectQuiet(/401/)
  } finally {
    await guarded.stop()
  }
})
