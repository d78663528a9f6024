/** @module-tag long */

import { execFile } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import {
  connectionsHead,
  flowFromTemplate,
  templateNames,
} from '../../src/flows/definition/flow-template.ts'
import { flowJsonSchema } from '../../src/flows/definition/json-schema.ts'
import { checkFlows } from '../../src/flows/loading/check-flow-files.ts'
import { startTestFlows } from '../support/flows.ts'
import { startMercadoLibre } from './shops/mercadolibre.ts'
import { article, seller, sellerEnv, serve } from './shops/serve-template.ts'
import { startShopify } from './shops/shopify.ts'
import { startTiendanube } from './shops/tiendanube.ts'
import { startWooCommerce } from './shops/woocommerce.ts'

/**
 * Each template of `flows:new`, as it is but for addresses and pauses, against a double of its shop that follows the shop's
 * public documents. None of them was tried against the shop itself.
 */
test('tiendanube: items are created, changed and deleted under its own ids; an unanswered creation is found by its SKU', async () => {
  const shop = await startTiendanube({ store: '991', token: 'shop-token' })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve(
    'tiendanube',
    {
      TIENDANUBE_STORE: '991',
      TIENDANUBE_TOKEN: 'shop-token',
      TIENDANUBE_APP: 'ERP (sistemas@example.com)',
    },
    (text) =>
      text
        .replaceAll('https://api.tiendanube.com', shop.url)
        .replace('max: 1, per', 'max: 100, per'),
  )
  // A product with two sizes, created at the shop.
  const shirt = shop.put(
    'Remera',
    { sku: 'REM-S', price: '9.00', stock: 1 },
    { sku: 'REM-M', price: '9.00', stock: 1 },
  )
  shop.loseAnswerOf('POST')
  await bring(article('A 1/ñ', '1.234,50'), article('B', '10,00'), article('REM-M', '12,00', '7'))
  const variants = () => [...shop.products.values()].flatMap((product) => product.variants)
  expect(variants().slice(0, 2)).toMatchObject([
    { sku: 'REM-S', price: '9.00', stock: 1 },
    { sku: 'REM-M', price: '12.00', stock: 7 },
  ])
  // Two requests at once: either may be the first.
  const created = variants().slice(2)
  expect(created.map(({ sku }) => sku).toSorted()).toEqual(['A 1/ñ', 'B'])
  expect(shop.products.size).toBe(3)

  await bring(
    article('A 1/ñ', '1.300,00'),
    article('B', '10,00', '0'),
    article('REM-M', '12,00', '7'),
  )
  const asked = shop.asked.length
  expect(variants()).toContainEqual(expect.objectContaining({ sku: 'A 1/ñ', price: '1300.00' }))
  expect(variants()).toContainEqual(expect.objectContaining({ sku: 'B', stock: 0 }))
  await bring(article('A 1/ñ', '1.300,00'), article('REM-M', '12,00', '7'))
  expect(shop.asked.slice(asked).map(({ method }) => method)).toEqual(['PUT'])
  expect(variants()).toContainEqual(expect.objectContaining({ sku: 'B', stock: 0 }))
  // One variant of a product that was created at the shop: the others stay unchanged.
  await bring(article('A 1/ñ', '1.300,00'))
  expect(shirt.variants).toMatchObject([
    { sku: 'REM-S', price: '9.00', stock: 1 },
    { sku: 'REM-M', price: '12.00', stock: 0 },
  ])
  expect(await failures()).toEqual([])
})

test('woocommerce: a hundred by a request; an existing SKU is changed, a deleted product is created again', async () => {
  const shop = await startWooCommerce({ key: 'ck_1', secret: 'cs_1' })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('woocommerce', {
    WOO_URL: shop.url,
    WOO_BASIC: shop.basic,
  })
  const articles = Array.from({ length: 250 }, (_, index) => article(`W-${index}`, '1.500,00'))
  // One product exists under an unknown id; the answer to the first batch is lost.
  shop.put({ sku: 'W-7', regular_price: '1' })
  shop.loseAnswerOf('POST')
  await bring(...articles)
  const skus = () => [...shop.products.values()].map(({ sku }) => sku)
  expect(new Set(skus()).size).toBe(250)
  expect(shop.products.size).toBe(250)
  const prices = () => new Set([...shop.products.values()].map((one) => one.regular_price))
  expect(prices()).toEqual(new Set(['1500.00']))
  // Each item of the batch without an answer is looked up by its SKU: the shop's refusal also names a product with a similar SKU.
  expect(shop.asked.length).toBeLessThan(230)
  expect(await failures()).toEqual([])

  const removed = [...shop.products.values()].find(({ sku }) => sku === 'W-3')
  shop.products.delete(removed?.id ?? 0)
  const before = shop.asked.length
  await bring(...articles.slice(1).map((one) => ({ ...one, precio: '1.600,00' })))
  expect(prices()).toEqual(new Set(['1500.00', '1600.00']))
  expect(skus().filter((sku) => sku === 'W-3')).toHaveLength(1)
  expect([...shop.products.values()].find(({ sku }) => sku === 'W-0')).toMatchObject({
    status: 'draft',
    stock_quantity: 0,
  })
  // Few items have a request of their own: the deleted one, the one created again, the rest after the hundreds.
  expect(shop.asked.length - before).toBeLessThan(50)
  expect(await failures()).toEqual([])
})

test('woocommerce: what is hidden, or in the bin, is published for a service that does not know it', async () => {
  const shop = await startWooCommerce({ key: 'ck_1', secret: 'cs_1' })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('woocommerce', {
    WOO_URL: shop.url,
    WOO_BASIC: shop.basic,
  })
  const meta_data = [{ key: '_erp_oculto', value: '1' }]
  shop.put({ sku: 'A', regular_price: '1', status: 'draft', meta_data })
  shop.put({ sku: 'B', regular_price: '1', status: 'trash' })
  await bring(article('A', '10,00'), article('B', '20,00'))
  expect(await failures()).toEqual([])
  expect([...shop.products.values()]).toMatchObject([
    { sku: 'A', regular_price: '10.00', stock_quantity: 3, status: 'publish' },
    { sku: 'B', regular_price: '20.00', stock_quantity: 3, status: 'publish' },
  ])
})

test('woocommerce: a refused item does not affect others in its batch', async () => {
  const shop = await startWooCommerce({ key: 'ck_1', secret: 'cs_1' })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve(
    'woocommerce',
    { WOO_URL: shop.url, WOO_BASIC: shop.basic },
    // A wrong mapping: the price of one item is not a text.
    (text) => text.replace('$string(precio)', 'codigo = "bad" ? $number(precio) : $string(precio)'),
  )
  await bring(article('a', '1,00'), article('bad', '2,00'), article('c', '3,00'))
  expect([...shop.products.values()].map(({ sku }) => sku).toSorted()).toEqual(['a', 'c'])
  expect(await failures()).toMatchObject([{ items: 1 }])
})

test('mercadolibre: the listing with the SKU gets price and stock, a delete pauses it; one renewal serves all', async () => {
  const shop = await startMercadoLibre(seller)
  onTestFinished(() => shop.close())
  const { flows, bring, failures } = await serve('mercadolibre', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url),
  )
  shop.publish('MLA1', 'A 1/ñ')
  shop.publish('MLA2', 'B')
  shop.publish('MLA3', 'AUTO', { hasAutomaticPrice: true })
  shop.publish('MLA4', 'NO')
  shop.loseAnswerOf('PUT')
  await bring(
    article('A 1/ñ', '1.234,50', '7'),
    article('B', '10,00', '0'),
    { ...article('NO', '9,00'), mercadolibre: 'N' },
    article('AUTO', '5,00', '2'),
    article('UNKNOWN', '5,00'),
  )
  expect([...shop.listings.values()]).toMatchObject([
    { id: 'MLA1', price: 1234.5, available_quantity: 7, status: 'active' },
    { id: 'MLA2', price: 10, available_quantity: 0 },
    { id: 'MLA3', price: 1, available_quantity: 2 },
    { id: 'MLA4', price: 1, available_quantity: 1 },
  ])
  // Refused changes are reported: a price that the shop sets itself, and an article that is not published.
  const groups = await failures()
  const errors = groups.map(({ error }) => error).join()
  // The article without a listing has neither price nor stock.
  expect(groups.reduce((sum, { items }) => sum + items, 0)).toBe(3)
  expect(errors).toMatch(/price was not updated/)
  expect(errors).toMatch(/nothing is remembered of the item for \{remembered\.id\}/)
  expect(shop.issuer.renewals).toEqual([seller.refreshToken])

  shop.issuer.endAccess()
  flows.service.clock.advance(6 * 3_600_000)
  const asked = shop.asked.length
  await bring(
    article('A 1/ñ', '1.300,00', '7'),
    { ...article('NO', '9,00'), mercadolibre: 'N' },
    article('AUTO', '5,00', '2'),
  )
  expect([...shop.listings.values()]).toMatchObject([
    { id: 'MLA1', price: 1300 },
    { id: 'MLA2', status: 'paused' },
    { id: 'MLA3', status: 'active' },
    { id: 'MLA4', status: 'active' },
  ])
  expect(shop.issuer.renewals).toEqual([seller.refreshToken, 'TG-canary-refresh-1'])
  // Their ids are stored, except for the one that never existed, active or paused.
  const searches = shop.asked.slice(asked).filter(({ path }) => path.endsWith('/items/search'))
  expect(searches.map(({ query }) => query.get('seller_sku'))).toEqual(
    Array.from({ length: 4 }, () => 'UNKNOWN'),
  )
  expect(JSON.stringify(flows.logLines)).not.toContain('canary')
})

test('mercadolibre: a variation gets its stock, and a variation that a person adds meanwhile stays', async () => {
  const shop = await startMercadoLibre(seller)
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('mercadolibre', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url),
  )
  const variation = (id: number, sku: string) => ({ id, sku, price: 1, available_quantity: 1 })
  const shirt = [variation(11, 'S'), variation(12, 'M')]
  shop.publish('MLA1', '', { variations: shirt })
  await bring(article('S', '10,00', '4'), article('M', '10,00', '6'))
  expect(shop.listings.get('MLA1')).toMatchObject({
    variations: [
      { sku: 'S', price: 10, available_quantity: 4 },
      { sku: 'M', price: 10, available_quantity: 6 },
    ],
  })
  shirt.push(variation(13, 'L'))
  shop.listings.get('MLA1')?.variations.splice(0, 2, ...shirt)
  for (const one of shop.listings.get('MLA1')?.variations ?? []) one.price = 10
  await bring(article('S', '12,00', '4'))
  expect(shop.listings.get('MLA1')).toMatchObject({
    status: 'active',
    variations: [
      { sku: 'S', price: 12, available_quantity: 4 },
      { sku: 'M', price: 12, available_quantity: 0 },
      { sku: 'L', price: 12, available_quantity: 1 },
    ],
  })
  expect(await failures()).toEqual([])
})

test.each(['mercadolibre', 'mercadolibre-warehouses'] as const)(
  '%s: an article under another key keeps its stock, though its first attempt fails; a variation that goes loses its own',
  async (template) => {
    const isByWarehouse = template === 'mercadolibre-warehouses'
    const shop = await startMercadoLibre({
      ...seller,
      ...(isByWarehouse && { warehouses: ['100', '200'] }),
    })
    onTestFinished(() => shop.close())
    const { bring, failures } = await serve(template, sellerEnv, (text) =>
      text
        .replaceAll('https://api.mercadolibre.com', shop.url)
        .replaceAll('DEPOSITO', '100')
        .replace('key: codigo', 'key: [descripcion, codigo]')
        .replaceAll('{pk}', '{body.sku}')
        .replaceAll('{ "price": (', '{ "sku": codigo, "price": (')
        .replaceAll(/(?:\$|(?<=\())pk\b/g, (name) => `$split(${name}, /[|]/)[1]`),
    )
    const stockOf = (id: string) =>
      isByWarehouse ? shop.stockOf(id)?.get('100') : shop.listings.get(id)?.available_quantity
    shop.publish('MLA1', 'A')
    shop.publish('MLA2', 'B')
    const variation = (id: number, sku: string) => ({ id, sku, price: 1, available_quantity: 1 })
    if (!isByWarehouse)
      shop.publish('MLA3', '', { variations: [variation(11, 'S'), variation(12, 'M')] })
    const named = (descripcion: string, codigo: string, stock?: string) => ({
      ...article(codigo, '9,00', stock),
      descripcion,
    })
    const shirt = isByWarehouse ? [] : [named('5', 'S', '4'), named('6', 'M', '6')]
    await bring(named('1', 'A'), named('2', 'B'), ...shirt)
    expect([stockOf('MLA1'), stockOf('MLA2')]).toEqual([3, 3])
    let refusals = 1
    shop.interrupt(({ method, path }) => {
      if (method !== 'PUT' || !/MLAU?1\b/.test(path) || refusals === 0) return undefined
      refusals -= 1
      return { status: 503, body: { message: 'not now' } }
    })
    const asked = shop.asked.length
    await bring(named('0', 'A', '5'), named('2', 'B'), ...shirt.slice(0, 1))
    expect(stockOf('MLA1')).toBe(5)
    const zeros = shop.asked
      .slice(asked)
      .filter(({ path, body }) => /MLAU?1\b/.test(path) && /quantity":0/.test(JSON.stringify(body)))
    expect(zeros).toEqual([])
    expect(
      shop.listings.get('MLA3')?.variations.map((one) => one.available_quantity) ?? [],
    ).toEqual(isByWarehouse ? [] : [4, 0])
    expect(await failures()).toEqual([])
  },
)

test('mercadolibre: a SKU that moves to another variation takes its stock there', async () => {
  const shop = await startMercadoLibre(seller)
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('mercadolibre', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url),
  )
  const variation = (id: number, sku: string) => ({ id, sku, price: 1, available_quantity: 1 })
  shop.publish('MLA1', '', { variations: [variation(11, 'S'), variation(12, 'old')] })
  await bring(article('S', '10,00', '4'))
  const [first, second] = shop.listings.get('MLA1')?.variations ?? []
  Object.assign(first ?? {}, { sku: 'gone' })
  Object.assign(second ?? {}, { sku: 'S' })
  await bring(article('S', '10,00', '7'))
  expect(shop.listings.get('MLA1')?.variations).toMatchObject([
    { sku: 'gone', available_quantity: 4 },
    { sku: 'S', available_quantity: 7 },
  ])
  expect(await failures()).toEqual([])
})

test('mercadolibre-warehouses: the stock of one warehouse is set with its version, also after a sale; others stay', async () => {
  const shop = await startMercadoLibre({ ...seller, warehouses: ['100', '200'] })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('mercadolibre-warehouses', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url).replaceAll('DEPOSITO', '100'),
  )
  shop.publish('MLA1', 'A')
  shop.publish('MLA2', 'B')
  await bring(article('A', '10,50', '4'), article('B', '9,00', '0'))
  expect(shop.listings.get('MLA1')).toMatchObject({ price: 10.5 })
  expect(shop.stockOf('MLA1')).toEqual(new Map(Object.entries({ 100: 4, 200: 1 })))
  shop.sell('MLA1', '100')
  await bring(article('A', '10,50', '9'))
  expect(shop.stockOf('MLA1')).toEqual(new Map(Object.entries({ 100: 9, 200: 1 })))
  expect(shop.stockOf('MLA2')).toEqual(new Map(Object.entries({ 100: 0, 200: 1 })))
  // Published again, it gets price and stock by the next change of either.
  Object.assign(shop.listings.get('MLA1') ?? {}, { status: 'closed' })
  shop.publish('MLA3', 'A')
  await bring(article('A', '10,50', '8'))
  expect(shop.listings.get('MLA3')).toMatchObject({ price: 10.5 })
  expect(shop.stockOf('MLA3')).toEqual(new Map(Object.entries({ 100: 8, 200: 1 })))
  expect(await failures()).toEqual([])
})

test('shopify: the handle prevents duplicates; refusals are reported, throttling is waited for, deletes archive', async () => {
  const shop = await startShopify({ token: 'shpat', points: 90 })
  onTestFinished(() => shop.close())
  const { bring, failures } = await serve('shopify', {
    SHOPIFY_SHOP: shop.url,
    SHOPIFY_TOKEN: 'shpat',
  })
  shop.loseAnswerOf('POST')
  await bring(article('A-1', '10,50', '4'), article('A 1', '11,00'), article('neg', '-1,00'))
  const shown = () =>
    [...shop.products.values()]
      .flatMap(({ status, variants }) =>
        variants.map(({ sku, price, stock }) => ({
          sku,
          price,
          status,
          stock: Object.values(stock)[0],
        })),
      )
      .toSorted((a, b) => (a.sku < b.sku ? -1 : 1))
  expect(shown()).toEqual([
    { sku: 'A 1', price: '11.00', stock: 3, status: 'ACTIVE' },
    { sku: 'A-1', price: '10.50', stock: 4, status: 'ACTIVE' },
  ])
  expect(await failures()).toMatchObject([{ items: 1 }])
  await bring(article('A-1', '12,00', '4'), article('neg', '-1,00'))
  expect(shown()).toMatchObject([
    { sku: 'A 1', status: 'ARCHIVED' },
    { sku: 'A-1', price: '12.00', status: 'ACTIVE' },
  ])
  await bring(article('A-1', '12,00', '4'), article('A 1', '11,00'))
  expect(shown()).toMatchObject([{ sku: 'A 1', status: 'ACTIVE' }, { sku: 'A-1' }])
  expect(shop.products.size).toBe(2)
})

test('flows:new writes a file that is valid when its variables are set, and never overwrites one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-new-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const connectionsFile = join(folder, '../', `${basename(folder)}.yaml`)
  onTestFinished(() => rm(connectionsFile))
  const run = (...given: string[]) =>
    promisify(execFile)(process.execPath, ['src/commands/new-flow.ts', ...given], {
      env: { ...process.env, CONNECTIONS_FILE: connectionsFile },
    }).then(
      ({ stdout }) => ({ code: 0, said: stdout }),
      (error: { code: number; stderr: string }) => ({ code: error.code, said: error.stderr }),
    )
  const variables = new Set<string>()
  for (const template of templateNames) {
    const { code, said } = await run(template, '--name', `from-${template}`, folder)
    expect([template, code]).toEqual([template, 0])
    const named = /set in \.env: (.*)/.exec(said)?.[1] ?? ''
    const [, toAdd] = /^add to .*:\n((?: {2}.*\n)+)/m.exec(said) ?? []
    if (toAdd) await appendFile(connectionsFile, toAdd)
    for (const variable of named.split(', ')) variables.add(variable)
  }
  expect(await run('woocommerce', '--from', 'sql-table', '--name', 'other', folder)).toMatchObject({
    code: 0,
    said: expect.stringContaining('other.flow.yaml: written'),
  })
  const env = Object.fromEntries(
    [...variables].map((variable) => [variable, exampleOf(variable)] as const),
  )
  const own = { variables: new Set<string>(), files: [], folders: [] }
  const { lines, isGood } = await checkFlows(env, folder, own, connectionsFile)
  expect(lines.at(-1)).toBe('9 flows ok, 0 problems')
  expect(isGood).toBe(true)
  const schema = await readFile(join(folder, 'flow.schema.json'), 'utf8')
  expect(JSON.parse(schema)).toEqual(flowJsonSchema())
  const [first] = (await readFile(join(folder, 'other.flow.yaml'), 'utf8')).split('\n')
  expect(first).toBe('# yaml-language-server: $schema=./flow.schema.json')

  expect(await run('tiendanube', '--name', 'other', folder)).toMatchObject({ code: 1 })
  for (const wrong of [
    [],
    ['magento'],
    ['tiendanube', '--from', 'paper'],
    ['tiendanube', '--name', '../x'],
  ]) {
    expect(await run(...wrong)).toMatchObject({ code: 2, said: expect.stringContaining('usage') })
  }
  // A file that this process may not write is shown instead.
  const elsewhere = await promisify(execFile)(
    process.execPath,
    ['src/commands/new-flow.ts', 'shopify', '--name', 'shown', folder],
    { env: { ...process.env, CONNECTIONS_FILE: '/proc/connections.yaml' } },
  )
  expect(elsewhere.stdout).toContain('/proc/connections.yaml cannot be written (ENOENT); write it:')
  expect(elsewhere.stdout).toMatch(/^ {2}shopify:$/m)
})

function exampleOf(variable: string): string {
  if (variable === 'ERP_DB_URL') return 'mssql://reader:secret@erp.example.com:1433/erp'
  if (variable === 'DESTINO_DB_URL') return 'postgres://writer:secret@web.example.com:5432/web'
  return /URL|SHOP$/.test(variable) ? 'https://shop.example.com' : `value-of-${variable}`
}

test('a flow from flows:new is paused at first, and a dry run of its file shows what it would send', async () => {
  const { text, connections } = flowFromTemplate({
    ...{ template: 'csv-drop', name: 'nuevo', startPaused: true },
  })
  const flows = await startTestFlows({ env: { DESTINO_DB_URL: 'postgres://u@127.0.0.1:9/x' } })
  onTestFinished(() => flows.stop())
  await flows.write('articulos.csv', 'codigo;descripcion;precio;stock\r\nA-1;Yerba;12,50;3\r\n')
  const all = `${connectionsHead}${Object.values(connections).join('')}`
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the connections
  await flows.write('connections.yaml', all.replace('${env:ERP_CARPETA}', '${env:DIR}'))
  await flows.write('nuevo.flow.yaml', text.replace('settle: 5s', 'settle: 0s'))
  const reloaded = await flows.call('POST', '/flows/reload')
  expect(reloaded.statusCode, reloaded.body).toBe(200)
  const { flows: listed } = (await flows.call('GET', '/flows')).json()
  expect(listed).toMatchObject([{ name: 'nuevo', status: { paused: true } }])
  const run = (await flows.call('POST', '/flow-files/nuevo.flow.yaml/dry-run')).json()
  expect(run.records).toMatchObject([{ pk: 'A-1', destinations: [{ requests: [{}] }] }])
})
