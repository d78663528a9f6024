import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { jsonFlow, startTarget, startTestFlows, type TestFlows } from '../support/flows.ts'
import { barriers, button, expectText, openPage, tooWideAt, type WatchedPage } from './browser.ts'

const token = 'sync-token-for-tests-0123456789abcdef'

let target: Awaited<ReturnType<typeof startTarget>>
let flows: TestFlows
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  target = await startTarget()
  const priced = (name: string) => {
    const flow = jsonFlow(name, target.url) as { destinations: object[] }
    const [web] = flow.destinations
    return { ...flow, destinations: [{ ...web, map: '{ "sku": id, "cents": price * 100 }' }] }
  }
  const byCode = (name: string) => {
    const flow = jsonFlow(name, target.url) as { destinations: object[] }
    const at = { url: `${target.url}/${name}/{body.code}` }
    const twin = {
      name: 'twin',
      filter: 'web = "yes"',
      request: { method: 'PUT', ...at },
      delete: at,
    }
    return { ...flow, destinations: [{ ...flow.destinations[0], ...twin }] }
  }
  const codes = (web: string) => [
    { id: 'T-1', code: 'X', web: 'yes' },
    { id: 'T-2', code: 'X', web: 'yes' },
    { id: 'T-3', code: 'Y', web },
  ]
  flows = await startTestFlows({
    env: { SYNC_TOKEN: token },
    files: {
      'prices.flow.yaml': priced('prices'),
      'prices.json': [
        { id: 'A-17', price: 12, name: 'Yerba' },
        { id: 'B-1', price: 1 },
      ],
      'codes.flow.yaml': byCode('codes'),
      'codes.json': codes('yes'),
      'stock.flow.yaml': jsonFlow('stock', target.url),
      'stock.json': [{ id: 'B-1', stock: 3 }],
    },
  })
  const sync = async (name: string) => {
    await flows.flows.sync(name, { force: true })
    await flows.delivered()
  }
  await sync('prices')
  await sync('stock')
  await sync('codes')
  await flows.write('codes.json', codes('no'))
  await sync('codes')
  target.answer(({ path }) => (path.startsWith('/prices/') ? 422 : 200))
  await flows.write('prices.json', [
    { id: 'A-17', price: 15, name: 'Yerba' },
    { id: 'B-1', price: 2 },
  ])
  await sync('prices')
  url = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await target?.close()
})

async function signedIn(options = {}) {
  opened = await openPage(url, options)
  const { page } = opened
  await page.locator('#token').fill(token)
  await page.keyboard.press('Enter')
  await page.locator('article.flow').first().waitFor()
  await page.evaluate(
    'globalThis.clicks = 0; addEventListener("click", (event) => { if (event.isTrusted) clicks += 1 }, true)',
  )
  return page
}

test('why article A-17 has a wrong price takes two clicks at most after the sign-in', async () => {
  const page = await signedIn()
  await page.getByRole('link', { name: 'Find item' }).click()
  await page.getByLabel('Item key').focus()
  await page.keyboard.type('A-17')
  const sides = page.getByRole('region', { name: 'From the source to web' })
  await expectText(sides, '1 field changed since the last delivery')
  await expectText(sides.locator('mark').nth(0), 'price: 15')
  await expectText(sides.locator('del').nth(0), '12')
  await expectText(sides.locator('mark').nth(1), 'cents: 1500')
  await expectText(sides, `PUT ${target.url}/prices/A-17`)
  await expectText(sides, /Last answer[\s\S]*failed[\s\S]*422/)
  expect(await page.evaluate<number>('clicks')).toBeLessThanOrEqual(2)
  opened?.expectQuiet(/401/)
})

test('the flow in which the item failed comes first, and its page offers what is needed now', async () => {
  const page = await signedIn()
  await page.goto(`${url}#/item?pk=B-1`)
  const found = page.getByRole('table', { name: 'Flows that know' }).locator('tbody tr')
  await expectText(found.nth(0), /prices[\s\S]*failed/)
  await expectText(found.nth(1), 'stock')
  await found.nth(0).getByRole('link').click()
  const main = page.locator('main .button.main:visible')
  await expectText(main.last(), 'Retry what failed')
  expect(await button(page, 'Send again').isVisible()).toBe(false)
  await page.getByText('More', { exact: true }).click()
  await button(page, 'Send again').waitFor()
  await button(page, 'Sync this item').waitFor()
  // A refresh does not close it.
  await page.getByRole('button', { name: 'Find', exact: true }).click()
  await button(page, 'Send again').waitFor()
  opened?.expectQuiet(/401/)
})

test('an item that is still there, and two that are one there, are named on their pages and on that of the destination', async () => {
  const page = await signedIn()
  await page.goto(`${url}#/item?flow=codes&pk=T-3`)
  await expectText(page.locator('main'), 'No longer to be sent, but still there')
  await expectText(page.getByRole('table', { name: 'Where it is' }), /still there[\s\S]*filter/)
  await page.goto(`${url}#/item?flow=codes&pk=T-1`)
  await expectText(page.locator('main'), 'Another item of the flow has the same identity there')
  await expectText(page.locator('main'), 'Same identity there as: T-2')
  await page.goto(`${url}#/destinations?name=twin`)
  const panel = page.locator('section.panel', { hasText: 'The last hour' })
  await expectText(panel, /No longer to be sent, still there\s*1/)
  await expectText(panel, /Several items are one there\s*1\s*codes: T-1, T-2/)
  opened?.expectQuiet(/401/)
})

const looks = ['en-GB', 'es-AR'].flatMap((locale) =>
  (['light', 'dark'] as const).flatMap((colorScheme) =>
    [1280, 390].map((width) => ({ locale, colorScheme, width })),
  ),
)

test.each(looks)('keeps nobody out: $locale, $colorScheme, $width', async ({ width, ...look }) => {
  const viewport = { width, height: 800 }
  const page = await signedIn({ ...look, viewport, reducedMotion: 'reduce' })
  await page.goto(`${url}#/item?flow=prices&pk=A-17`)
  await page.locator('.side-by-side mark').first().waitFor()
  expect(await barriers(page)).toEqual([])
  if (width > 390) expect(await tooWideAt(page)).toEqual([])
  opened?.expectQuiet(/401/)
})
