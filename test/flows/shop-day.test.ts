/** @module-tag night */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import {
  connectionsHead,
  flowFromTemplate,
  type TemplateName,
} from '../../src/flows/definition/flow-template.ts'
import { startTestFlows } from '../support/flows.ts'
import { type Article, dayOf, type ShopOfDay, seeded } from './shops/day.ts'
import type { Asked, Shop } from './shops/double.ts'
import { startMercadoLibre } from './shops/mercadolibre.ts'
import { startShopify } from './shops/shopify.ts'
import { startTiendanube } from './shops/tiendanube.ts'
import { startWooCommerce } from './shops/woocommerce.ts'

/**
 * A day of 300 changes by each shop template:
 * - variations, two locations, articles that disappear and return
 * - persons who edit, count and delete in the shop
 * - minutes of 429 and 5xx
 * - edits of the prices in the definition, with an answer or taken back, and restarts while the flow asks
 * - articles under another id, and SKUs that another article has for a while
 *
 * After each step and at the end shop and source agree, only items that the source removed are missing, and no request was sent more
 * than eight times, the attempts of an item: one that a person removed needs three requests that succeed.
 */
const simple = Array.from({ length: 16 }, (_, index) => `S-${index}`)
const variations = ['REM-S', 'REM-M', 'REM-L']
const skus = [...simple, ...variations]
const soon = { timeout: 20_000, interval: 10 }

type Setup = {
  template: TemplateName
  env: (url: string) => Record<string, string>
  adapt?: (text: string, url: string) => string
  /** Articles that always have the same price. */
  onePrice?: readonly string[]
  open(): Promise<{ shop: Shop; day: ShopOfDay; skus?: readonly string[] }>
}

const woocommerce: Setup = {
  template: 'woocommerce',
  env: (url) => ({ WOO_URL: url, WOO_BASIC: Buffer.from('ck_1:cs_1').toString('base64') }),
  async open() {
    const shop = await startWooCommerce({ key: 'ck_1', secret: 'cs_1' })
    const parent = shop.put({ type: 'variable', name: 'Remera' })
    for (const sku of [...variations, 'REM-XL']) {
      shop.put({
        type: 'variation',
        parent_id: parent.id,
        sku,
        regular_price: '1',
        manage_stock: true,
      })
    }
    const of = (sku: string) => [...shop.products.values()].filter((one) => one.sku === sku)
    const isShown = ({ status }: { status: string }) => status === 'publish'
    return {
      shop,
      day: {
        onSale(sku) {
          const [one, ...others] = of(sku).filter(isShown)
          expect(others).toEqual([])
          return one && one.stock_quantity > 0
            ? { price: Number(one.regular_price), stock: one.stock_quantity }
            : 'not on sale'
        },
        persons: {
          edit(sku) {
            for (const one of of(sku)) one.name = `Editado ${sku}`
            return of(sku).length > 0
          },
          // Into the bin, or out of it for good.
          remove(sku) {
            const [one] = of(sku)
            if (one?.type !== 'simple') return false
            if (Number(sku.slice(2)) % 2 === 0) one.status = 'trash'
            else shop.products.delete(one.id)
            return true
          },
          recount: () => false,
        },
        untouched: () => [
          ...(shop.products.has(parent.id) ? [] : ['the product of the variations is gone']),
          ...of('REM-XL').flatMap((one) => (one.regular_price === '1' ? [] : ['REM-XL changed'])),
          ...(of('REM-XL').length === 1 ? [] : ['REM-XL is gone']),
        ],
      },
    }
  },
}

const tiendanube: Setup = {
  template: 'tiendanube',
  env: () => ({ TIENDANUBE_STORE: '991', TIENDANUBE_TOKEN: 'shop-token', TIENDANUBE_APP: 'ERP' }),
  adapt: (text, url) =>
    text.replaceAll('https://api.tiendanube.com', url).replace('max: 1, per', 'max: 1000, per'),
  async open() {
    const shop = await startTiendanube({
      ...{ store: '991', token: 'shop-token', bucket: 1_000_000 },
      locations: ['main', 'other'],
    })
    const shirt = shop.put(
      'Remera',
      ...[...variations, 'REM-XL'].map((sku) => ({ sku, price: '1.00' })),
    )
    const all = () => [...shop.products.values()].flatMap((product) => product.variants)
    const of = (sku: string) => all().find((one) => one.sku === sku)
    const other = (sku: string) => of(sku)?.inventory_levels[1]
    const counted = new Map<string, number>()
    return {
      shop,
      day: {
        onSale(sku) {
          expect(all().filter((one) => one.sku === sku).length).toBeLessThanOrEqual(1)
          const one = of(sku)
          const stock = one?.inventory_levels[0]?.stock ?? 0
          return one && stock > 0 ? { price: Number(one.price), stock } : 'not on sale'
        },
        persons: {
          edit(sku) {
            const product = [...shop.products.values()].find(({ variants }) =>
              variants.some((one) => one.sku === sku),
            )
            if (product) product.name.es = `Editado ${sku}`
            return product !== undefined
          },
          remove(sku) {
            const product = [...shop.products.values()].find(
              ({ variants }) => variants[0]?.sku === sku,
            )
            counted.delete(sku)
            return product !== undefined && product !== shirt && shop.products.delete(product.id)
          },
          recount(sku) {
            const level = other(sku)
            if (!level) return false
            level.stock += 3
            counted.set(sku, level.stock)
            return true
          },
        },
        untouched: () => [
          ...(shop.products.get(shirt.id) === shirt && shirt.variants.length === 4
            ? []
            : ['the shirt lost a variant']),
          ...(of('REM-XL')?.price === '1.00' ? [] : ['REM-XL changed']),
          ...[...counted].flatMap(([sku, stock]) =>
            other(sku)?.stock === stock ? [] : [`the other location of ${sku} changed`],
          ),
        ],
      },
    }
  },
}

const shopify: Setup = {
  template: 'shopify',
  env: (url) => ({ SHOPIFY_SHOP: url, SHOPIFY_TOKEN: 'shpat' }),
  async open() {
    const [main, second] = ['gid://shopify/Location/1', 'gid://shopify/Location/2']
    const shop = await startShopify({
      token: 'shpat',
      points: 1_000_000,
      locations: [main, second] as string[],
    })
    const shirt = shop.put('remera', ...variations, 'REM-XL')
    const all = () =>
      [...shop.products.values()].flatMap((product) =>
        product.variants.map((variant) => ({ product, variant })),
      )
    const of = (sku: string) => all().filter(({ variant }) => variant.sku === sku)
    const counted = new Map<string, number>()
    return {
      shop,
      day: {
        onSale(sku) {
          const [one, ...others] = of(sku)
          expect(others).toEqual([])
          const stock = one?.variant.stock[main as string] ?? 0
          const isOn = one && one.product.status === 'ACTIVE' && stock > 0
          return isOn ? { price: Number(one.variant.price), stock } : 'not on sale'
        },
        persons: {
          edit(sku) {
            for (const { product } of of(sku)) product.title = `Editado ${sku}`
            return of(sku).length > 0
          },
          remove(sku) {
            const [one] = of(sku)
            counted.delete(sku)
            return (
              one !== undefined && one.product !== shirt && shop.products.delete(one.product.handle)
            )
          },
          recount(sku) {
            const [one] = of(sku)
            if (!one) return false
            const stock = (one.variant.stock[second as string] ?? 0) + 3
            one.variant.stock[second as string] = stock
            counted.set(sku, stock)
            return true
          },
        },
        untouched: () => [
          ...(shop.products.get('remera') === shirt && shirt.variants.length === 4
            ? []
            : ['the shirt lost a variant']),
          ...(of('REM-XL')[0]?.variant.price === '1.00' ? [] : ['REM-XL changed']),
          ...[...counted].flatMap(([sku, stock]) =>
            of(sku)[0]?.variant.stock[second as string] === stock
              ? []
              : [`the other location of ${sku} changed`],
          ),
        ],
      },
    }
  },
}

const seller = {
  ...{ user: '8035443', clientId: '4242' },
  ...{ clientSecret: 'canary-meli-secret', refreshToken: 'TG-canary-first' },
}
const sellerEnv = () => ({
  ...{ MELI_APP_ID: seller.clientId, MELI_APP_SECRET: seller.clientSecret },
  ...{ MELI_USER_ID: seller.user, MELI_REFRESH_TOKEN: seller.refreshToken },
})

/** Listings of the articles, each with an earlier closed listing, and one listing with a variation that the ERP does not have. */
async function openMercadoLibre(warehouses?: readonly string[]) {
  const shop = await startMercadoLibre({ ...seller, ...(warehouses && { warehouses }) })
  for (const [index, sku] of simple.entries()) {
    shop.publish(`MLA1${index}`, sku, { status: 'closed' })
    shop.publish(`MLA2${index}`, sku)
  }
  const of = (sku: string) =>
    [...shop.listings.values()].find(
      (one) =>
        one.status !== 'closed' && (one.sku === sku || one.variations.some((v) => v.sku === sku)),
    )
  const relist = (sku: string) => {
    const one = of(sku)
    if (!one || one.variations.length > 0) return undefined
    one.status = 'closed'
    const id = `MLA3${shop.listings.size}`
    // Without stock: what the ERP never wrote to it does not take away.
    shop.publish(id, sku, {
      ...{ available_quantity: 0, status: 'paused', sub_status: ['out_of_stock'] },
    })
    return id
  }
  const closedThatChanged = () =>
    [...shop.listings.values()].flatMap((one) =>
      one.status === 'closed' && one.id.startsWith('MLA1') && one.price !== 1
        ? [`${one.id} changed`]
        : [],
    )
  return { shop, of, relist, closedThatChanged }
}

const mercadolibre: Setup = {
  template: 'mercadolibre',
  env: sellerEnv,
  onePrice: variations,
  adapt: (text, url) => text.replaceAll('https://api.mercadolibre.com', url),
  async open() {
    const { shop, of, relist, closedThatChanged } = await openMercadoLibre()
    let added = 100
    const one = (sku: string) => {
      added += 1
      return { id: added, sku, price: 10, available_quantity: 3 }
    }
    shop.publish('MLA9', '', { variations: [...variations, 'REM-XL'].map(one) })
    const shirt = () => shop.listings.get('MLA9')?.variations ?? []
    const xl = () => shirt().filter(({ sku }) => sku.startsWith('REM-XL'))
    return {
      shop,
      day: {
        onSale(sku) {
          const variation = of(sku)?.variations.find((each) => each.sku === sku)
          const { price, available_quantity: stock } = variation ?? of(sku) ?? {}
          return of(sku)?.status === 'active' && price !== undefined && stock
            ? { price, stock }
            : 'not on sale'
        },
        persons: {
          // Adds a variation to the shirt.
          edit(sku) {
            shirt().push({ ...one(`REM-XL-${added}`), price: shirt()[0]?.price ?? 10 })
            return of(sku) !== undefined
          },
          // Ends the listing and publishes the article again.
          remove: (sku) => relist(sku) !== undefined,
          recount: () => false,
        },
        untouched: () => [
          ...closedThatChanged(),
          ...(xl().length === added - 103 ? [] : ['the shirt lost a variation']),
          ...xl().flatMap((v) => (v.available_quantity === 3 ? [] : [`${v.sku} changed`])),
        ],
      },
    }
  },
}

const warehouses: Setup = {
  template: 'mercadolibre-warehouses',
  env: sellerEnv,
  adapt: (text, url) =>
    text.replaceAll('https://api.mercadolibre.com', url).replaceAll('DEPOSITO', '100'),
  async open() {
    const { shop, of, relist, closedThatChanged } = await openMercadoLibre(['100', '200'])
    const counted = new Map<string, number>()
    const stockOf = (sku: string, warehouse: string) =>
      shop.stockOf(of(sku)?.id ?? '')?.get(warehouse) ?? 0
    return {
      shop,
      skus: simple,
      day: {
        onSale(sku) {
          const stock = stockOf(sku, '100')
          return stock > 0 ? { price: of(sku)?.price ?? 0, stock } : 'not on sale'
        },
        persons: {
          edit: (sku) => of(sku) !== undefined,
          remove(sku) {
            counted.delete(sku)
            return relist(sku) !== undefined
          },
          // Sells from the other warehouse, so that the version is another one.
          recount(sku) {
            const { id } = of(sku) ?? {}
            if (!id) return false
            shop.sell(id, '200')
            counted.set(sku, stockOf(sku, '200'))
            return true
          },
        },
        untouched: () => [
          ...closedThatChanged(),
          ...[...counted].flatMap(([sku, stock]) =>
            stockOf(sku, '200') === stock ? [] : [`the other warehouse of ${sku} changed`],
          ),
        ],
      },
    }
  },
}

/** By step: the factor of the prices in the edited definition, and what a person does about the question. */
const edits = new Map<number, readonly [number, 'send' | 'keep' | 'take back']>([
  [5, [2, 'send']],
  [9, [1, 'send']],
  [14, [2, 'keep']],
  [18, [1, 'send']],
  [20, [2, 'take back']],
])
/** Steps in which keys change. An edit finds two articles with each other's SKU, or with the same one. */
const recreations = new Set([1, 2, 6, 10, 13, 17, 23, 25, 28])
const swaps = new Set([4, 15, 24])
const takeovers = new Set([8, 19, 27])
const corrections = new Set([7, 11, 17, 21, 26])
const statuses = [429, 500, 502, 503, 409, 423]

test.each([
  ['woocommerce', woocommerce],
  ['tiendanube', tiendanube],
  ['shopify', shopify],
  ['mercadolibre', mercadolibre],
  ['mercadolibre-warehouses', warehouses],
])(
  '%s: a day in the shop',
  async (_, setup) => {
    const { shop, day, skus: own = skus } = await setup.open()
    onTestFinished(() => shop.close())
    const erp = dayOf(own, 7, setup.onePrice)
    const { text, connections } = flowFromTemplate({
      template: setup.template,
      name: 'articulos',
      schema: 'x.json',
    })
    const given = setup.adapt?.(text, shop.url) ?? text
    const adapted = keyedById(given)
      .replace('pollInterval: 1m', 'pollInterval: 1h\nallowPrivateNetwork: true')
      .replace('settle: 5s', 'settle: 0s')
      .replace(
        /^deletes:.*$/m,
        'deletes: { mode: delete, guard: { maxPercent: 100, minItems: 100 } }',
      )
      .replace(/ {4}(?:rateLimit|budget):.*\n/g, '')
      .replaceAll(
        '    type: http\n',
        '    type: http\n    breaker: false\n    retry: { attempts: 8, initial: 100ms, max: 100ms, jitter: 0, respectRetryAfter: false }\n',
      )
    const env = setup.env(shop.url)
    let flows = await startTestFlows({ env })
    onTestFinished(() => flows.stop())
    const all = `${connectionsHead}${Object.values(connections).join('')}`
    await flows.write(
      'connections.yaml',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the connections
      (setup.adapt?.(all, shop.url) ?? all).replace('${env:ERP_CARPETA}', '${env:DIR}'),
    )
    const define = async (factor: number) => {
      const text = adapted.replaceAll('MELI_USER_ID', env.MELI_USER_ID ?? '')
      const edited = text
        .replaceAll('$number(precio)', `($number(precio) * ${factor})`)
        .replaceAll('$string(precio)', `$string($number(precio) * ${factor})`)
      await flows.write('articulos.flow.yaml', factor === 1 ? text : edited)
      expect(await post('/flows/reload')).toMatchObject({ problems: [] })
    }
    const post = async (path: string, body?: object) => {
      const answer = await flows.call('POST', path, body && { body })
      expect(answer.statusCode, answer.body).toBeLessThan(300)
      return answer.json()
    }
    const bring = async (articles: readonly Article[]) => {
      const lines = articles.map(
        ({ id, codigo, precio, stock }) => `${id};${codigo};${codigo};${precio};${stock};S`,
      )
      const csv = `id;codigo;descripcion;precio;stock;mercadolibre\r\n${lines.join('\r\n')}\r\n`
      await writeFile(join(flows.dir, 'articulos.csv'), csv, 'latin1')
    }
    const settle = async () => {
      await post('/sync/articulos')
      const countOpen = async () =>
        (await flows.call('GET', '/flow/articulos/waiting')).json().waiting.length
      await expect.poll(countOpen, soon).toBe(0)
    }
    const question = async () => (await flows.call('GET', '/flow/articulos/question')).json()

    /** Edits the definition while changes of the source wait, brings more of them, and answers or takes the edit back. */
    const edit = async (factor: number, how: 'send' | 'keep' | 'take back') => {
      await post('/sending/stop', { flow: 'articulos' })
      await bring(erp.change(4))
      await post('/sync/articulos')
      const before = shop.asked.length
      await define(factor)
      await expect.poll(question, soon).toMatchObject({ state: 'asked' })
      await post('/sending/start', { flow: 'articulos' })
      const { number } = await question()
      await bring(erp.change(3))
      await post('/sync/articulos')
      // Neither is an answer.
      await post('/flow/articulos/pause')
      await post('/flow/articulos/resume')
      await post('/flows/resume')
      await bring(erp.change(3))
      await post('/sync/articulos')
      if (factor === 2 && how !== 'take back') flows = await flows.restart()
      await expect.poll(question, soon).toMatchObject({ state: 'asked' })
      await post('/sync/articulos')
      expect(await question()).toMatchObject({ state: 'asked', number })
      const sent = shop.asked.slice(before).map(({ method, path }) => `${method} ${path}`)
      expect(sent).toEqual([])
      if (how === 'take back') await define(factor === 1 ? 2 : 1)
      else await post('/flow/articulos/question', { number, answer: how })
      await expect.poll(question, soon).toMatchObject({ state: 'none' })
    }
    await bring(erp.list())
    await define(1)
    await settle()

    // Each step is a poll: 30 of 10 changes, one of them with a minute in which the shop fails.
    const touched = new Set<string>()
    const luck = seeded(11)
    let factors = [1]
    let corrected: string[] = []
    for (let step = 0; step < 30; step += 1) {
      const sku = erp.pick(own)
      if (step % 3 === 1) day.persons.edit(sku)
      if (step % 3 === 2) day.persons.recount(sku)
      if (step % 5 === 3 && erp.isListed(sku) && day.persons.remove(sku)) touched.add(sku)
      // Each request at most once, so that no item uses up its attempts.
      const interrupted = new Set<string>()
      shop.interrupt(({ method, path, query, body }) => {
        const name = `${method} ${path}?${query} ${JSON.stringify(body)}`
        if (step % 10 !== 4 || interrupted.size >= 20 || interrupted.has(name)) return undefined
        if (luck() < 0.4) return undefined
        interrupted.add(name)
        const status = statuses[interrupted.size % statuses.length] ?? 503
        // The body of an ordinary refusal, for which the template has rules.
        return {
          status,
          headers: { 'retry-after': '1' },
          body: { errors: [{ message: 'not now' }], code: 'not_now' },
        }
      })
      const unsettled = corrected
      corrected = []
      if (recreations.has(step)) erp.recreate()
      if (corrections.has(step)) corrected = erp.correct()
      if (swaps.has(step)) erp.swap()
      if (takeovers.has(step)) erp.takeOver()
      const [factor, how] = edits.get(step) ?? []
      if (factor && how) {
        await edit(factor, how)
        factors = how === 'send' ? [factor] : how === 'keep' ? [...factors, factor] : factors
      } else await bring(erp.change(10))
      await settle()
      // Of two articles with one SKU either may be shown, and after the correction the other one until the next poll.
      const unsure = new Set([...corrected, ...unsettled, ...erp.shared()])
      for (const one of own.filter((sku) => !touched.has(sku))) {
        const possible = factors.flatMap((factor) => erp.expected(one, factor))
        const shown = day.onSale(one)
        const isShown = shown !== 'not on sale'
        expect(isShown, `${one} after step ${step}`).toBe(possible[0] !== 'not on sale')
        if (!unsure.has(one)) expect(possible, `${one} after step ${step}`).toContainEqual(shown)
      }
    }
    // An item that a person removed is created again when the ERP changes it.
    shop.interrupt(() => undefined)
    erp.correct()
    const recounted = (articles: readonly Article[]) =>
      articles.map((one) => (touched.has(one.codigo) ? { ...one, stock: '41' } : one))
    await bring(recounted(erp.list()))
    await settle()
    await bring(erp.list())
    await settle()

    const { failures } = (await flows.call('GET', '/flow/articulos/failures')).json()
    expect(failures).toEqual([])
    const shown = Object.fromEntries(own.map((sku) => [sku, day.onSale(sku)]))
    expect(shown).toEqual(Object.fromEntries(own.map((sku) => [sku, erp.expected(sku)[0]])))
    expect(day.untouched()).toEqual([])
    expect(mostSent(shop.asked)).toBeLessThanOrEqual(8)
  },
  120_000,
)

/** The template for an ERP whose records have another key than the SKU. */
function keyedById(text: string): string {
  return (
    text
      .replace('key: codigo', 'key: [id, codigo]')
      .replaceAll('{pk}', '{body.sku}')
      // A map without the SKU. The requests of these templates have bodies of their own.
      .replaceAll('{ "price": (', '{ "sku": codigo, "price": (')
      // Without quotes, which would end a text of the file.
      .replaceAll(/(?:\$|(?<=\())pk\b/g, (name) => `$split(${name}, /[|]/)[1]`)
  )
}

/** How often the same request was sent: one of the same key, or of the same address and body in a row for one item. */
function mostSent(asked: readonly Asked[]): number {
  const times = new Map<string, number>()
  for (const { method, path, headers } of asked) {
    const key = headers['idempotency-key']
    if (typeof key !== 'string' || method === 'GET') continue
    const name = `${method} ${path} ${key}`
    times.set(name, (times.get(name) ?? 0) + 1)
  }
  return Math.max(...times.values())
}
