import { expect, onTestFinished, test } from 'vitest'
import { startMercadoLibre } from './shops/mercadolibre.ts'
import { article, seller, sellerEnv, serve } from './shops/serve-template.ts'
import { startShopify } from './shops/shopify.ts'
import { startTiendanube } from './shops/tiendanube.ts'
import { startWooCommerce } from './shops/woocommerce.ts'

/** What a shop cannot hold as the ERP has it: each template sends what the shop can hold, or the failure says it. */

async function woocommerce() {
  const shop = await startWooCommerce({ key: 'ck_1', secret: 'cs_1' })
  onTestFinished(() => shop.close())
  const flow = await serve('woocommerce', { WOO_URL: shop.url, WOO_BASIC: shop.basic })
  const stock = (sku: string) =>
    [...shop.products.values()].find((one) => one.sku === sku)?.stock_quantity
  return { shop, stock, ...flow }
}

async function tiendanube(locations: readonly string[] = []) {
  const shop = await startTiendanube({ store: '991', token: 'shop-token', locations })
  onTestFinished(() => shop.close())
  const env = { TIENDANUBE_STORE: '991', TIENDANUBE_TOKEN: 'shop-token', TIENDANUBE_APP: 'ERP' }
  const flow = await serve('tiendanube', env, (text) =>
    text.replaceAll('https://api.tiendanube.com', shop.url).replace('max: 1, per', 'max: 100, per'),
  )
  const variant = (sku: string) =>
    [...shop.products.values()].flatMap(({ variants }) => variants).find((one) => one.sku === sku)
  return { shop, variant, stock: (sku: string) => variant(sku)?.stock, ...flow }
}

async function shopify() {
  const shop = await startShopify({ token: 'shpat' })
  onTestFinished(() => shop.close())
  const flow = await serve('shopify', { SHOPIFY_SHOP: shop.url, SHOPIFY_TOKEN: 'shpat' })
  const variant = (sku: string) =>
    [...shop.products.values()].flatMap(({ variants }) => variants).find((one) => one.sku === sku)
  const stock = (sku: string) => variant(sku)?.stock['gid://shopify/Location/1']
  return { shop, variant, stock, ...flow }
}

async function mercadolibre(...skus: string[]) {
  const shop = await startMercadoLibre(seller)
  onTestFinished(() => shop.close())
  const flow = await serve('mercadolibre', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url),
  )
  for (const sku of skus) shop.publish(`MLA9${sku}`, sku)
  const listing = (sku: string) => shop.listings.get(`MLA9${sku}`)
  return { shop, listing, stock: (sku: string) => listing(sku)?.available_quantity, ...flow }
}

async function warehouses(...skus: string[]) {
  const shop = await startMercadoLibre({ ...seller, warehouses: ['100', '200'] })
  onTestFinished(() => shop.close())
  const flow = await serve('mercadolibre-warehouses', sellerEnv, (text) =>
    text.replaceAll('https://api.mercadolibre.com', shop.url).replaceAll('DEPOSITO', '100'),
  )
  for (const sku of skus) shop.publish(`MLA9${sku}`, sku)
  return { shop, stock: (sku: string) => shop.stockOf(`MLA9${sku}`)?.get('100'), ...flow }
}

const errors = async (failures: () => Promise<{ error: string }[]>) =>
  (await failures()).map(({ error }) => error).join('\n')

test.each([
  ['woocommerce', woocommerce],
  ['tiendanube', tiendanube],
  ['shopify', shopify],
  ['mercadolibre', () => mercadolibre('A', 'B')],
  ['mercadolibre-warehouses', () => warehouses('A', 'B')],
])(
  '%s: a stock below 0 is 0, and a fraction is rounded down',
  { tags: ['night'] },
  async (_, open) => {
    const { bring, failures, stock } = await open()
    await bring(article('A', '10,00', '5'), article('B', '10,00', '5'))
    await bring(article('A', '10,00', '-3'), article('B', '10,00', '2,9'))
    expect([stock('A'), stock('B')]).toEqual([0, 2])
    await bring(
      article('A', '10,00', '-0,5'),
      article('B', '10,00', '0,9'),
      article('C', '1,00', '-1'),
    )
    expect([stock('A'), stock('B')]).toEqual([0, 0])
    expect(await errors(failures)).not.toContain('stock')
    expect(await errors(failures)).not.toContain('quantity')
  },
)

/** The next change of the shop is answered as if another value stood there. */
const tampered = [
  [
    'woocommerce: an old stock',
    woocommerce,
    (text: string) => text.replaceAll(/"stock_quantity":\d+/g, '"stock_quantity":77'),
    /stock.*4.*77/,
  ],
  [
    'woocommerce: an empty price',
    woocommerce,
    (text: string) => text.replaceAll(/"regular_price":"[^"]*"/g, '"regular_price":""'),
    /precio.*20.00/,
  ],
  [
    'tiendanube: an old stock',
    tiendanube,
    (text: string) => text.replaceAll(/"stock":\d+/g, '"stock":77'),
    /stock.*4.*77/,
  ],
  [
    'tiendanube: an old stock of the location',
    () => tiendanube(['main', 'other']),
    (text: string) => text.replaceAll(/"stock":\d+/g, '"stock":77'),
    /stock.*4.*77/,
  ],
  [
    'tiendanube: an empty price',
    tiendanube,
    (text: string) => text.replaceAll(/"price":"[^"]*"/g, '"price":null'),
    /precio.*20.00/,
  ],
  [
    'mercadolibre: an old price',
    () => mercadolibre('A', 'B'),
    (text: string) => text.replaceAll(/"price":[\d.]+/g, '"price":77'),
    /precio.*20.*77/,
  ],
  [
    'mercadolibre: an old stock',
    () => mercadolibre('A', 'B'),
    (text: string) => text.replaceAll(/"available_quantity":\d+/g, '"available_quantity":77'),
    /stock.*4.*77/,
  ],
  [
    'mercadolibre-warehouses: an old stock',
    () => warehouses('A', 'B'),
    (text: string) => text.replaceAll(/"quantity":\d+/g, '"quantity":77'),
    /stock.*4.*77/,
  ],
  [
    'shopify: an old price',
    shopify,
    (text: string) => text.replaceAll(/"price":"[^"]*"/g, '"price":"77.00"'),
    /precio.*20.00.*77.00/,
  ],
] as const

test.each(tampered)(
  '%s in the answer fails the item, with both values',
  { tags: ['night'] },
  async (_, open, change, cause) => {
    const { shop, bring, failures } = await open()
    await bring(article('A', '10,00', '9'), article('B', '10,00', '9'))
    expect(await failures()).toEqual([])
    shop.alter(({ method, path }, text) =>
      method !== 'GET' && !path.includes('oauth') ? change(text) : text,
    )
    const asked = shop.asked.length
    await bring(article('A', '20,00', '4'), article('B', '10,00', '9'))
    expect(await errors(failures)).toMatch(cause)
    // Sent once more, not until all attempts are spent.
    const changes = shop.asked
      .slice(asked)
      .filter(({ method }) => method === 'PUT' || method === 'POST')
    expect(changes.length).toBeLessThanOrEqual(4)
    // The next change that the shop takes ends it.
    shop.alter((_asked, text) => text)
    await bring(article('A', '21,00', '5'), article('B', '10,00', '9'))
    expect(await failures()).toEqual([])
  },
)

test('woocommerce: an entry of a batch that shows another value fails alone', {
  tags: ['night'],
}, async () => {
  const { shop, bring, failures } = await woocommerce()
  const articles = ['A', 'B', 'C'].map((sku) => article(sku, '10,00', '9'))
  await bring(...articles)
  shop.alter(({ method }, text) =>
    method === 'GET' ? text : text.replaceAll(/("sku":"B".*?"stock_quantity":)\d+/g, '$177'),
  )
  await bring(...articles.map((one) => ({ ...one, stock: '4' })))
  expect(await failures()).toMatchObject([
    { items: 1, error: expect.stringMatching(/stock.*4.*77/) },
  ])
})

test('mercadolibre: a price that the category refuses does not hold back the stock, nor the reverse', {
  tags: ['night'],
}, async () => {
  const { shop, listing, bring, failures } = await mercadolibre('A', 'B')
  Object.assign(shop.listings.get('MLA9A') ?? {}, { leastPrice: 100, price: 100 })
  Object.assign(shop.listings.get('MLA9B') ?? {}, { isFull: true })
  await bring(article('A', '50,00', '7'), article('B', '50,00', '7'))
  expect(listing('A')).toMatchObject({ price: 100, available_quantity: 7 })
  expect(listing('B')).toMatchObject({ price: 50, available_quantity: 1 })
  expect(await errors(failures)).toMatch(/price/)
  expect(await errors(failures)).toMatch(/available_quantity/)
})

test('shopify: a price that the shop refuses does not hold back the stock, of its own products too', {
  tags: ['night'],
}, async () => {
  const { shop, variant, stock, bring, failures } = await shopify()
  const [made] = shop.put('a-mano', 'HAND').variants
  if (made) made.stock['gid://shopify/Location/1'] = 1
  await bring(article('OWN', '10,00', '5'), article('HAND', '10,00', '5'))
  await bring(article('OWN', '-1,00', '3'), article('HAND', '-1,00', '3'))
  for (const sku of ['OWN', 'HAND']) {
    expect(stock(sku)).toBe(3)
    expect(variant(sku)?.price).toBe('10.00')
  }
  expect((await failures()).reduce((sum, { items }) => sum + items, 0)).toBe(2)
})

test.each([
  ['without locations', []],
  ['with locations', ['main', 'other']],
])(
  'tiendanube %s: a price that the shop refuses does not hold back the stock, nor the reverse',
  { tags: ['night'] },
  async (_, locations) => {
    const { shop, variant, stock, bring, failures } = await tiendanube(locations)
    await bring(article('A', '10,00', '5'), article('B', '10,00', '5'))
    await bring(article('A', '-1,00', '3'), article('B', '11,00', '4'))
    expect([variant('A')?.price, stock('A')]).toEqual(['10.00', 3])
    expect([variant('B')?.price, stock('B')]).toEqual(['11.00', 4])
    expect(await failures()).toMatchObject([{ items: 1, error: expect.stringMatching(/price/) }])
    if (locations.length === 0) return
    shop.closeLocation('main')
    await bring(article('A', '20,00', '7'), article('B', '20,00', '7'))
    expect([variant('A')?.price, variant('B')?.price]).toEqual(['20.00', '20.00'])
    expect(await failures()).toMatchObject([{ items: 2, error: expect.stringMatching(/location/) }])
  },
)

test('woocommerce: a price that the shop refuses does not hold back the stock, nor the reverse', {
  tags: ['night'],
}, async () => {
  const { shop, bring, failures } = await woocommerce()
  const known = (sku: string) => [...shop.products.values()].find((one) => one.sku === sku)
  const parent = shop.put({ type: 'variable' })
  shop.put({ sku: 'V', type: 'variation', parent_id: parent.id, regular_price: '10.00' })
  const skus = ['A', 'B', 'C', 'V']
  await bring(...skus.map((sku) => article(sku, '10,00', '5')))
  for (const sku of ['A', 'V']) Object.assign(known(sku) ?? {}, { refused: 'regular_price' })
  Object.assign(known('B') ?? {}, { refused: 'stock_quantity' })
  await bring(...skus.map((sku) => article(sku, '20,00', '3')))
  const held = skus.map((sku) => [known(sku)?.regular_price, known(sku)?.stock_quantity])
  expect(held).toEqual([
    ['10.00', 3],
    ['20.00', 5],
    ['20.00', 3],
    ['10.00', 3],
  ])
  expect(await failures()).toMatchObject([
    { status: 400, items: 3, error: expect.stringMatching(/regular_price|stock_quantity/) },
  ])
  // The shop takes it again, and nothing is left over.
  for (const sku of skus) delete known(sku)?.refused
  await bring(...skus.map((sku) => article(sku, '21,00', '2')))
  expect(await failures()).toEqual([])
})

test('shopify: a variant that is not stocked at the location is activated there', {
  tags: ['night'],
}, async () => {
  const { shop, stock, variant, bring, failures } = await shopify()
  shop.put('a-mano', 'HAND')
  await bring(article('HAND', '10,00', '5'))
  expect(stock('HAND')).toBe(5)
  // A person takes it out of the location again.
  const known = variant('HAND')
  if (known) known.stock = { 'gid://shopify/Location/2': 8 }
  await bring(article('HAND', '11,00', '6'))
  expect(variant('HAND')).toMatchObject({ price: '11.00' })
  expect(variant('HAND')?.stock).toEqual({
    'gid://shopify/Location/1': 6,
    'gid://shopify/Location/2': 8,
  })
  expect(await failures()).toEqual([])
})

test('shopify: a product that a person deleted is made again, and one made by hand is found again', {
  tags: ['night'],
}, async () => {
  const { shop, variant, bring, failures } = await shopify()
  shop.put('a-mano', 'HAND')
  await bring(article('OWN', '10,00', '5'), article('HAND', '10,00', '5'))
  shop.products.clear()
  shop.put('otro', 'HAND')
  await bring(article('OWN', '11,00', '6'), article('HAND', '11,00', '6'))
  for (const sku of ['OWN', 'HAND']) expect(variant(sku)?.price).toBe('11.00')
  expect([...shop.products.keys()].toSorted()).toEqual(['erp-own', 'otro'])
  expect(await failures()).toEqual([])
})

/** The merchant gives a product another SKU, and its former SKU to another product. */
const moved = [
  [
    'tiendanube',
    async () => {
      const { shop, variant, stock, ...flow } = await tiendanube(['main'])
      const move = () => {
        Object.assign(variant('A') ?? {}, { sku: 'OLD' })
        shop.put('Otro', { sku: 'A', price: '1.00' })
      }
      const held = (sku: string) => [Number(variant(sku)?.price), stock(sku)]
      return { ...flow, shop, move, held, isAskedBefore: false }
    },
  ],
  [
    'woocommerce',
    async () => {
      const { shop, stock, ...flow } = await woocommerce()
      const known = (sku: string) => [...shop.products.values()].find((one) => one.sku === sku)
      const move = () => {
        Object.assign(known('A') ?? {}, { sku: 'OLD' })
        shop.put({ sku: 'A' })
      }
      const held = (sku: string) => [Number(known(sku)?.regular_price), stock(sku)]
      return { ...flow, shop, move, held, isAskedBefore: false }
    },
  ],
  [
    'shopify',
    async () => {
      const { shop, variant, stock, ...flow } = await shopify()
      const move = () => {
        Object.assign(variant('A') ?? {}, { sku: 'OLD' })
        shop.put('otro', 'A')
      }
      const held = (sku: string) => [Number(variant(sku)?.price), stock(sku)]
      return { ...flow, shop, move, held, isAskedBefore: false }
    },
  ],
  [
    'mercadolibre',
    async () => {
      const { shop, listing, ...flow } = await mercadolibre('A', 'B')
      const of = (sku: string) => [...shop.listings.values()].find((one) => one.sku === sku)
      const move = () => {
        Object.assign(listing('A') ?? {}, { sku: 'OLD' })
        shop.publish('MLA77', 'A')
      }
      const held = (sku: string) => [of(sku)?.price, of(sku)?.available_quantity]
      return { ...flow, shop, move, held, isAskedBefore: true }
    },
  ],
  [
    'mercadolibre-warehouses',
    async () => {
      const { shop, ...flow } = await warehouses('A', 'B')
      const of = (sku: string) => [...shop.listings.values()].find((one) => one.sku === sku)
      const move = () => {
        Object.assign(shop.listings.get('MLA9A') ?? {}, { sku: 'OLD' })
        shop.publish('MLA77', 'A')
      }
      const held = (sku: string) => [of(sku)?.price, shop.stockOf(of(sku)?.id ?? '')?.get('100')]
      return { ...flow, shop, move, held, isAskedBefore: true }
    },
  ],
] as const

test.each(moved)(
  '%s: an article whose SKU the merchant gave to another product is found there',
  { tags: ['night'] },
  async (_, open) => {
    const { shop, bring, failures, move, held, isAskedBefore } = await open()
    await bring(article('A', '10,00', '5'), article('B', '10,00', '5'))
    move()
    await bring(article('A', '20,00', '4'), article('B', '20,00', '4'))
    expect(held('A')).toEqual([20, 4])
    expect(held('B')).toEqual([20, 4])
    // Where the state is read before a change, the product that is no longer the article stays as it was.
    if (isAskedBefore) expect(held('OLD')).toEqual([10, 5])
    await bring(article('A', '30,00', '3'), article('B', '20,00', '4'))
    expect(held('A')).toEqual([30, 3])
    expect(held('OLD')[0]).not.toBe(30)
    const asked = shop.asked.length
    // The article leaves the ERP: only the product with its SKU loses its stock.
    await bring(article('B', '20,00', '4'))
    expect(shop.asked.length).toBeGreaterThan(asked)
    expect(held('OLD')[1]).not.toBe(0)
    expect(await failures()).toEqual([])
  },
)

test('two live listings of one SKU are reported, and neither is changed', {
  tags: ['night'],
}, async () => {
  const meli = await mercadolibre('A')
  meli.shop.publish('MLA9A2', 'A')
  await meli.bring(article('A', '10,00', '7'))
  expect(await errors(meli.failures)).toMatch(/2 values for id/)
  expect(meli.listing('A')).toMatchObject({ price: 1, available_quantity: 1 })

  const shop = await shopify()
  shop.shop.put('a-mano', 'A')
  shop.shop.put('otro', 'A')
  await shop.bring(article('A', '10,00', '7'))
  expect(await errors(shop.failures)).toMatch(/2 values for product/)

  const nube = await tiendanube()
  nube.shop.put('Remera', { sku: 'A', price: '1.00' }, { sku: 'A', price: '1.00' })
  await nube.bring(article('A', '10,00', '7'))
  expect(await errors(nube.failures)).toMatch(/2 values for variant/)

  const woo = await woocommerce()
  woo.shop.put({ sku: 'A' })
  woo.shop.put({ sku: 'A' })
  await woo.bring(article('A', '10,00', '7'))
  expect(await errors(woo.failures)).toMatch(/2 values for id/)
})

test('a second listing that is not live does not count: the live one is changed', {
  tags: ['night'],
}, async () => {
  const { shop, variant, bring, failures } = await shopify()
  shop.put('viejo', 'A').status = 'ARCHIVED'
  const live = shop.put('a-mano', 'A')
  await bring(article('A', '10,00', '7'))
  expect(live.variants[0]).toMatchObject({ price: '10.00' })
  expect(variant('A')?.price).toBe('1.00')

  const woo = await woocommerce()
  woo.shop.put({ sku: 'A', status: 'draft' })
  const shown = woo.shop.put({ sku: 'A' })
  await woo.bring(article('A', '10,00', '7'))
  expect(shown).toMatchObject({ regular_price: '10.00' })
  expect([...(await failures()), ...(await woo.failures())]).toEqual([])
})

test('woocommerce: a SKU is found behind many others that contain it', {
  tags: ['night'],
}, async () => {
  const { shop, bring, failures } = await woocommerce()
  for (let index = 0; index < 30; index += 1) shop.put({ sku: `A-${index}` })
  const own = shop.put({ sku: 'A' })
  await bring(article('A', '10,00', '7'))
  expect(own).toMatchObject({ regular_price: '10.00', stock_quantity: 7 })
  expect(shop.products.size).toBe(31)
  expect(await failures()).toEqual([])
})
