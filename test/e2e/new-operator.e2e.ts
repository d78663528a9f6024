import { Client } from 'pg'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWooCommerce } from '../flows/shops/woocommerce.ts'
import { reachable } from '../flows/sources-sql-support.ts'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { goodPassword } from '../support/people.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { expectText, openPage, signIn } from './browser.ts'

/**
 * What a new operator of flows does with an invitation and a task sheet only: articles of a table whose columns have
 * other names than those of the template reach WooCommerce. Each mistake is answered with what to do.
 */
const postgres = await reachable(
  process.env.TEST_DATABASE_URL || 'postgres://root@127.0.0.1:5432/test',
  'PostgreSQL (TEST_DATABASE_URL)',
)
const schema = `operator_${process.pid}`
const patient = { timeout: 20_000, interval: 100 }

let shop: Awaited<ReturnType<typeof startWooCommerce>>
let service: TestService
let flows: TestFlows
let erp: Client | undefined
let dashboard: string
/** Read again at a restart. */
let env: Record<string, string>
let admin: string

beforeAll(async () => {
  shop = await startWooCommerce({ key: 'ck_canary', secret: 'canary-woo-secret-123' })
  service = await startTestService()
  env = { ERP_DB_URL: `${postgres}?options=-c%20search_path%3D${schema}`, WOO_URL: shop.url }
  flows = await startTestFlows({
    service,
    env,
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
        },
      }),
      // biome-ignore-end lint/suspicious/noTemplateCurlyInString: references of the connections
    },
  })
  if (postgres) {
    erp = new Client({ connectionString: postgres })
    await erp.connect()
    await erp.query(`create schema ${schema}; set search_path = ${schema};
      create table productos (cod_articulo text primary key, detalle text, precio_venta numeric(12,2), existencias int);
      insert into productos select 'A-' || n, 'Artículo ' || n, n * 100.5, n % 9 from generate_series(1, 50) n`)
  }
  await listen()
})
afterAll(async () => {
  await flows?.stop()
  await service?.stop()
  await shop?.close()
  await erp?.query(`drop schema ${schema} cascade`)
  await erp?.end()
})

async function listen() {
  const anyPort = { host: '127.0.0.1', port: 0 }
  dashboard ??= `${await service.app.listen(anyPort)}/dashboard`
  admin = `${await flows.app.listen(anyPort)}/admin`
}

test.skipIf(!postgres)(
  'a new operator brings the articles of a table to WooCommerce by the browser alone',
  async () => {
    const spanish = { locale: 'es-AR' }
    const office = await openPage(`${dashboard}#/people`, spanish)
    await signIn(office.page, adminToken)
    await office.page.getByRole('button', { name: 'Invitar' }).first().click()
    await office.page.locator('dialog input[name=name]').fill('lucia')
    await office.page.locator('dialog select[name=role]').selectOption('flow_operator')
    await office.page.locator('dialog button[type=submit]').click()
    const link = await office.page.locator('dialog code').innerText()
    const told = await office.page.locator('dialog').innerText()
    expect(told).toMatch(/Sirve una vez, hasta el \p{L}+, \d+ de \p{L}+ de \d{4}/u)
    await office.close()

    const opened = await openPage(`${dashboard}#${link.split('#')[1]}`, spanish)
    const { page } = opened
    let steps = 0
    const press = async (name: string | RegExp) => {
      steps += 1
      const control = page.getByRole('button', { name, exact: true })
      await control
        .or(page.getByRole('link', { name, exact: true }))
        .first()
        .click()
    }
    const write = async (field: string, text: string) => {
      steps += 1
      await page.getByLabel(field).fill(text)
    }
    const overLine = async (text: string, typed: string) => {
      steps += 1
      await writeOver(page, text, typed)
    }
    const bench = page.locator('.bench')
    const report = page.getByRole('region', { name: 'Qué se enviaría' })

    await write('Contraseña nueva', goodPassword)
    await press('Guardar la contraseña')
    await expectText(page.locator('main'), 'Con tu rol trabajás en la página de los flujos.')
    const toFlows = page.getByRole('link', { name: 'Ir a los flujos' })
    expect(await toFlows.getAttribute('href')).toBe('http://127.0.0.1:8080/admin')

    // The service of the test listens elsewhere. The session is that of the invitation.
    await page.goto(admin)
    steps += 1
    await expectText(page.locator('main'), 'Todavía no hay flujos')
    await press('Armá el primero en Definiciones.')
    await write('Nombre del flujo', 'tienda')
    await press('Empezar')

    await expectText(bench, 'nombra la conexión woocommerce, que tiene un problema propio')
    await expectText(bench, 'un administrador la corrige en CONNECTIONS_FILE')
    env.WOO_BASIC = shop.basic
    flows = await flows.restart()
    await listen()
    await page.goto(`${admin}#/workbench?template=woocommerce&from=sql-table&name=tienda`)

    await overLine('pollInterval', 'pollInterval: 1h')
    await press('Probar sin enviar')
    const failure = bench.locator('[role=alert]')
    await expectText(failure, 'Corregí la tabla o columna en source.query')
    expect(await failure.innerText()).not.toContain('postgres source')

    await overLine(
      'query: SELECT',
      'query: SELECT cod_articulo, detalle, precio_venta, existencias FROM productos',
    )
    await overLine('key: codigo', 'key: cod_articulo')
    await press('Probar sin enviar')
    await expectText(report, 'estos campos faltan en todos los registros: "codigo"')
    await expectText(
      report,
      'Los registros tienen: cod_articulo, detalle, precio_venta, existencias',
    )
    // Who saves all the same sends nothing.
    await press('Guardar y usar')
    await press('Guardar y enviar')
    await press('Ver tienda')
    await expectText(page.locator('article.flow'), 'estos campos faltan en todos los registros')
    expect(shop.products.size).toBe(0)

    await press('Definición')
    await overLine(
      'query: SELECT',
      'query: SELECT cod_articulo AS codigo, detalle AS descripcion, precio_venta AS precio, existencias AS stock FROM productos',
    )
    await overLine('key: cod_articulo', 'key: codigo')
    await press('Probar sin enviar')
    await expectText(report, '"regular_price": "100.50"')
    await press('Guardar y usar')
    await press('Guardar y enviar')
    await press('Ver tienda')
    // At once, though the interval is an hour, and without a question: nothing was sent before.
    await expect.poll(() => shop.products.size, patient).toBe(50)
    await expectText(page.locator('article.flow'), 'Bien')

    await press('Buscar ítem')
    await write('Clave del ítem', 'A-17')
    await press('Buscar')
    await expectText(page.locator('main'), 'Todos los destinos tienen lo último')
    const article = [...shop.products.values()].find(({ sku }) => sku === 'A-17')
    expect(article).toMatchObject({ name: 'Artículo 17', regular_price: '1708.50' })
    expect(steps).toBeLessThanOrEqual(30)
    await opened.close()
  },
  300_000,
)

/** Types in place of the first line with this text; its indentation stays. */
async function writeOver(page: Page, text: string, typed: string): Promise<void> {
  await page.locator('.cm-line', { hasText: text }).first().click()
  await page.keyboard.press('Home')
  await page.keyboard.press('Shift+End')
  await page.keyboard.type(typed)
  await page.keyboard.press('Escape')
}
