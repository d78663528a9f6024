import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { button, expectText, openPage, signIn, type WatchedPage } from './browser.ts'

/** An operator stops sending to the web shop, and starts it again. */
const token = 'canary-sync-token-for-operators-0123'
let target: TestTarget
let flows: TestFlows
let address: string
let opened: WatchedPage | undefined

/** As many flows as a chain has, which all send to the web shop. */
const names = Array.from({ length: 15 }, (_, index) => `flow-${index + 1}`)

beforeAll(async () => {
  target = await startTarget()
  const flowOf = (name: string) => {
    const flow = jsonFlow(name, target.url) as { destinations: object[] }
    return { ...flow, destinations: flow.destinations.map((one) => ({ ...one, name: 'tienda' })) }
  }
  flows = await startTestFlows({
    env: { SYNC_TOKEN: token },
    files: Object.fromEntries(
      names.flatMap((name) => [
        [`${name}.flow.yaml`, flowOf(name)],
        [`${name}.json`, [{ id: 'A-1' }]],
      ]),
    ),
  })
  address = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

/** Counts what the operator clicks from now on. */
const countClicks = (page: Page) =>
  page.evaluate(`window.clicks = 0; addEventListener('click', () => { window.clicks += 1 }, true)`)

test('from sign-in on, stopping the web shop takes two clicks, and all flows hold', async () => {
  opened = await openPage(address)
  const { page } = opened
  await page.locator('#token').waitFor()
  await signIn(page, token)
  await countClicks(page)
  await button(page, 'Stop sending…').click()
  await button(page.getByRole('dialog'), 'Stop: tienda').click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await page.evaluate('window.clicks')).toBe(2)
  await expectText(
    page.locator('.note').first(),
    /Nothing is sent to tienda\s+Stopped by 127\.0\.0\.1/,
  )

  for (const name of names) await flows.flows.sync(name, { force: true })
  await page.waitForTimeout(1_500)
  expect(target.received).toEqual([])

  await page.goto(`${address}#/destinations?name=tienda`)
  await expectText(page.locator('tbody'), 'Sending is stopped')
  await button(page, 'Start sending').click()
  await button(page.getByRole('dialog'), 'Start sending').click()
  await eventually(() => expect(target.received).toHaveLength(15))
  await expectText(page.locator('tbody'), 'sending')
  opened.expectQuiet(/401/)
})

test('a pause asks what stops, and says what goes on', async () => {
  opened = await openPage(address)
  const { page } = opened
  await page.locator('#token').waitFor()
  await signIn(page, token)
  await flows.flows.resume('flow-1', 'test')
  await page.goto(`${address}#/flows?flow=flow-1`)
  const card = page.locator('article.flow')
  await button(card, 'Pause').click()
  const dialog = page.getByRole('dialog')
  await expectText(dialog, 'What was found already is still delivered.')
  await dialog.getByRole('radio', { name: 'Stop everything' }).check()
  await dialog.getByRole('textbox').fill('wrong prices')
  await button(dialog, 'Pause').click()
  await expectText(card, 'Paused by 127.0.0.1')
  await expectText(card, /Nothing of flow-1 is sent\s+Stopped by 127\.0\.0\.1.*\s+wrong prices/)
  expect(await flows.flows.sendStops()).toMatchObject([
    { flow: 'flow-1', destination: null, reason: 'wrong prices' },
  ])
  await button(card, 'Resume').click()
  await expectText(card, 'Running')
  // Each is a switch of its own.
  await expectText(card, 'Nothing of flow-1 is sent')
  opened.expectQuiet(/401/)
})
