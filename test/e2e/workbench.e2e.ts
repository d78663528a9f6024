import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { startWooCommerce } from '../flows/shops/woocommerce.ts'
import { reachable } from '../flows/sources-sql-support.ts'
import { jsonFlow, startTarget, startTestFlows, type TestFlows } from '../support/flows.ts'
import {
  barriersInBothSchemes,
  button,
  expectText,
  openPage,
  tooWideAt,
  type WatchedPage,
} from './browser.ts'

const postgres = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const basic = Buffer.from('ck_canary:canary-woo-secret-123').toString('base64')
/** Another run on the same database has its own. */
const schema = `workbench_${process.pid}`
const patient = { timeout: 20_000, interval: 100 }

let shop: Awaited<ReturnType<typeof startWooCommerce>>
let target: Awaited<ReturnType<typeof startTarget>>
let flows: TestFlows
let erp: Client | undefined
let url: string
let opened: WatchedPage | undefined

beforeAll(async () => {
  target = await startTarget()
  shop = await startWooCommerce({ key: 'ck_canary', secret: 'canary-woo-secret-123' })
  if (postgres) {
    erp = new Client({ connectionString: postgres })
    await erp.connect()
    await erp.query(`create schema ${schema}; set search_path = ${schema};
      create table articulos (codigo text primary key, descripcion text, precio numeric(12,2), stock int, publicar int);
      insert into articulos values ('A-17', 'Yerba', 1250.5, 3, 1), ('A-18', 'Mate', 900, 7, 1), ('A-19', 'Oculto', 1, 1, 0)`)
  }
  flows = await startTestFlows({
    env: {
      FLOWS_WORKBENCH: 'true',
      ERP_DB_URL: `${postgres}?options=-c%20search_path%3D${schema}`,
      WOO_URL: shop.url,
      WOO_BASIC: basic,
    },
    files: {
      // biome-ignore-start lint/suspicious/noTemplateCurlyInString: references of the connections
      'connections.yaml': JSON.stringify({
        version: 1,
        connections: {
          'erp-base': { type: 'sql', driver: 'postgres', url: '${env:ERP_DB_URL}' },
          woocommerce: {
            type: 'http',
            url: '${env:WOO_URL}/wp-json/wc/v3',
            headers: { authorization: 'Basic ${env:WOO_BASIC}' },
            allowPrivateNetwork: true,
          },
          archivos: { type: 'folder', path: '${env:DIR}' },
        },
      }),
      // biome-ignore-end lint/suspicious/noTemplateCurlyInString: references of the connections
      'prices.flow.yaml': jsonFlow('prices', target.url, { description: 'first' }),
      'prices.json': [{ id: 'A-1', price: 1 }],
    },
  })
  url = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
})
afterEach(async () => {
  await opened?.close()
  opened = undefined
})
afterAll(async () => {
  await flows?.stop()
  await shop?.close()
  await target?.close()
  await erp?.query(`drop schema ${schema} cascade`)
  await erp?.end()
})

async function open(place: string, options = {}): Promise<Page> {
  opened = await openPage(`${url}${place}`, options)
  return opened.page
}

const editor = (page: Page) => page.locator('.cm-content')
/** Types in place of the first line with this text; its indentation stays. */
async function writeOver(page: Page, text: string, typed: string): Promise<void> {
  await page.locator('.cm-line', { hasText: text }).first().click()
  await page.keyboard.press('Home')
  await page.keyboard.press('Shift+End')
  await page.keyboard.type(typed)
  await page.keyboard.press('Escape')
}

test.skipIf(!postgres)(
  'articles of a SQL table reach WooCommerce by the browser alone',
  async () => {
    const page = await open('')
    await page.getByRole('link', { name: 'Definitions' }).click()
    await page.getByLabel('Name of the flow').fill('tienda')
    await button(page, 'Start').click()
    await expectText(editor(page), 'name: tienda')
    const connections = page.getByRole('region', { name: 'Connections' })
    await connections.locator('li', { hasText: 'woocommerce' }).getByText('Try').click()
    await expectText(connections, 'The address answers with HTTP')
    await connections.locator('li', { hasText: 'erp-base' }).getByText('Try').click()
    await expectText(connections, 'The database answers')
    await button(page, 'Dry run').click()
    const report = page.getByRole('region', { name: 'What would be sent' })
    await expectText(report, '2 records read.')
    await expectText(report, '"descripcion": "Yerba"')
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
    await expectText(report, 'POST ${env:WOO_URL}/wp-json/wc/v3/products/batch')
    const shown = await page.content()
    expect([shown.includes(basic), shown.includes('canary')]).toEqual([false, false])
    expect(shop.products.size).toBe(0)
    await button(page, 'Save and use').click()
    const dialog = page.getByRole('dialog', { name: 'Save tienda and send?' })
    await expectText(dialog, 'The source has 2 records.')
    await button(dialog, 'Save and send').click()
    await expectText(page.locator('.bench'), 'Saved. The flow runs by it now.')
    await expect.poll(() => shop.products.size, patient).toBe(2)
    expect(
      [...shop.products.values()].map(({ sku, regular_price }) => [sku, regular_price]),
    ).toEqual([
      ['A-17', '1250.50'],
      ['A-18', '900.00'],
    ])
    await page.getByRole('link', { name: 'Look at tienda' }).click()
    await page.locator('article.flow').waitFor()
    opened?.expectQuiet()
  },
)

test('a file that was changed meanwhile is not overwritten; an earlier version comes back', async () => {
  const file = join(flows.flowsDir, 'prices.flow.yaml')
  const first = await readFile(file, 'utf8')
  const page = await open('#/workbench')
  await page.getByRole('link', { name: 'prices.flow.yaml' }).click()
  await expectText(page.locator('.bench'), 'No findings')
  await editor(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('\n# mine')
  await expectText(page.locator('.bench'), 'Not saved')
  await flows.write('prices.flow.yaml', `${first}\n# theirs`)
  await button(page, 'Save and use').click()
  await expectText(page.locator('.bench [role=alert]'), 'Another change was saved to this file')
  expect(await readFile(file, 'utf8')).toContain('# theirs')
  await button(page, 'Read the file again').click()
  await button(page.getByRole('dialog'), 'Read the file again').click()
  await expectText(editor(page), '# theirs')
  await editor(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('\n# third')
  await button(page, 'Save and use').click()
  await expectText(page.locator('.bench'), 'Saved. The flow runs by it now.')
  expect(await readFile(file, 'utf8')).toContain('# third')
  await button(page, 'Put into the editor').click()
  await expect.poll(() => editor(page).innerText()).not.toContain('# third')
  await button(page, 'Save and use').click()
  await expect.poll(() => readFile(file, 'utf8')).not.toContain('# third')
  opened?.expectQuiet(/409/)
})

test('a definition with an address of its own is refused with what to write instead; connections are completed', async () => {
  const page = await open('#/workbench?template=csv-drop&name=propia')
  await writeOver(page, 'connection: erp-archivos', 'connection: ')
  await page
    .locator('.cm-line', { hasText: /connection: $/ })
    .first()
    .click()
  await page.keyboard.press('End')
  await page.keyboard.press('Control+Space')
  await expectText(page.locator('.cm-tooltip-autocomplete'), 'archivos')
  await page.keyboard.press('Escape')
  await writeOver(page, 'connection:', 'url: http://127.0.0.1:9/')
  await expectText(page.locator('.bench .problems'), 'must use a connection')
  expect((await page.content()).includes(basic)).toBe(false)
  opened?.expectQuiet()
})

test('by keyboard alone: keys are completed, findings reached, and Tab leaves the editor', async () => {
  const page = await open('#/workbench?template=csv-drop&name=teclado')
  await expectText(editor(page), 'name: teclado')
  await page.locator('#title').focus()
  for (let steps = 0; steps < 20; steps++) {
    await page.keyboard.press('Tab')
    if ((await focused(page)) === 'textbox') break
  }
  expect(await focused(page)).toBe('textbox')
  await page.keyboard.press('Control+End')
  await page.keyboard.type('\nwind')
  await page.keyboard.press('Control+Space')
  await page.locator('.cm-tooltip-autocomplete').waitFor()
  // What was just drawn is not taken by a key that was meant for the text.
  await page.waitForTimeout(200)
  await page.keyboard.press('Enter')
  await expectText(editor(page), 'window:')
  await expectText(page.locator('.bench .problems'), 'window')
  await page.keyboard.press('Tab')
  expect(await focused(page)).not.toBe('textbox')
  await button(page, /^Line \d+$/)
    .first()
    .focus()
  await page.keyboard.press('Enter')
  expect(await focused(page)).toBe('textbox')
  opened?.expectQuiet()
})

test('going to another view and back keeps what was typed', async () => {
  const page = await open('#/workbench?template=csv-drop&name=borrador')
  await editor(page).click()
  await page.keyboard.press('Control+Home')
  await page.keyboard.type('# a draft\n')
  await page.getByRole('link', { name: 'Activity' }).click()
  await page.locator('h1', { hasText: 'Activity' }).waitFor()
  await page.goBack()
  await expectText(editor(page), '# a draft')
  await expectText(page.locator('main'), 'They are not saved.')
  opened?.expectQuiet()
})

test('where the workbench is off, a definition is shown and cannot be changed', async () => {
  const closed = await startTestFlows({
    env: { FLOWS_WORKBENCH: 'false' },
    files: { 'prices.flow.yaml': jsonFlow('prices', target.url) },
  })
  const address = `${await closed.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
  opened = await openPage(`${address}#/workbench?file=prices.flow.yaml`)
  const { page } = opened
  await expectText(page.locator('main'), 'Definitions cannot be saved here')
  await editor(page).click()
  await page.keyboard.type('x')
  expect(await button(page, 'Save and use').count()).toBe(0)
  await expectText(editor(page), /^\{"version"/)
  await opened.close()
  opened = undefined
  await closed.stop()
})

const looks = [
  { locale: 'en-GB', run: 'Dry run' },
  { locale: 'es-AR', run: 'Probar sin enviar' },
].flatMap((language) =>
  [1280, 390].map((width) => ({ ...language, viewport: { width, height: 800 }, width })),
)

test.each(looks)(
  'keeps nobody out, in light and dark colors: $locale, $width',
  async ({ run, width, ...look }) => {
    const page = await open('#/workbench', {
      ...look,
      colorScheme: 'light',
      reducedMotion: 'reduce',
    })
    await page.locator('main table').waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    await page.goto(`${url}#/workbench?template=csv-drop&name=mirar`)
    await page.locator('.bench .problems').waitFor()
    await page.locator('.beside').first().waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    await page.goto(`${url}#/workbench?file=prices.flow.yaml`)
    await editor(page).waitFor()
    await button(page, run).click()
    await page.locator('.side-by-side').first().waitFor()
    expect(await barriersInBothSchemes(page)).toEqual([])
    if (width > 390) expect(await tooWideAt(page)).toEqual([])
    opened?.expectQuiet()
  },
)

/** The role of what has the focus, also inside the editor's shadow. */
function focused(page: Page): Promise<string | null> {
  return page.evaluate<string | null>(`(() => {
    const { activeElement } = document
    const inside = activeElement?.shadowRoot?.activeElement ?? activeElement
    return inside?.getAttribute('role') ?? null
  })()`)
}
