import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startTestFlows } from '../support/flows.ts'
import { startTestService } from '../support/service.ts'
import { button, expectText, launchBrowser, openPage, type WatchedPage } from './browser.ts'

/** The description of each listener can be read and tried in a browser, under the policy of every page. */
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

test.each([
  ['payment API', startTestService, '#/Service/readHealth'],
  ['flow control API', startTestFlows, '#/Service/readControlHealth'],
])('the pages of the %s', async (name, start, operation) => {
  const service = await start()
  try {
    const address = await service.app.listen({ host: '127.0.0.1', port: 0 })
    opened = await openPage(browser, `${address}/docs${operation}`)
    const { page, requested } = opened
    await expectText(page.locator('.info .title'), `tillbridge ${name}`)
    await button(page, 'Try it out').click()
    await button(page, 'Execute').click()
    await expectText(page.locator('.live-responses-table tbody .response-col_status'), '200')
    expect(requested.filter((url) => !url.startsWith(address) && !url.startsWith('data:'))).toEqual(
      [],
    )
    opened.expectQuiet()
  } finally {
    await service.stop()
  }
})
