import { type Answered, serveShop } from './double.ts'

type Level = { location_id: string; stock: number }
type Variant = {
  id: number
  product_id: number
  sku: string
  price: string
  /** Total of all locations. */
  stock: number
  inventory_levels: Level[]
}
type Product = { id: number; name: { es: string }; published: boolean; variants: Variant[] }

/**
 * Tiendanube's products as https://tiendanube.github.io/api-documentation describes them:
 * - numeric ids of its own, and variants with price and stock
 * - stock by location (https://tiendanube.github.io/api-documentation/guides/multi-inventory/products): a plain `stock` is
 *   that of the first location
 * - required headers `authentication` (not `authorization`) and `user-agent`
 * - 422 for a stock that is no whole number from 0, and for a price below 0
 * - 404 for an unknown SKU, 422 for a product without a name
 * - a bucket of requests, reported in headers
 */
export async function startTiendanube(options: {
  store: string
  token: string
  bucket?: number
  /** An empty list is a shop from the time before locations. */
  locations?: readonly string[]
}) {
  const products = new Map<number, Product>()
  let lastId = 5_000
  const nextId = () => {
    lastId += 1
    return lastId
  }
  let left = options.bucket ?? 40
  let { locations = [] } = options
  const change = (variant: Variant, given: Partial<Variant>): Variant => {
    const { stock, inventory_levels: levels, ...others } = given
    Object.assign(variant, others)
    const [first] = variant.inventory_levels
    const changedLevels = levels ?? (stock !== undefined && first ? [{ ...first, stock }] : [])
    for (const { location_id, stock: at } of changedLevels) {
      const level = variant.inventory_levels.find((one) => one.location_id === location_id)
      if (level) level.stock = at
    }
    variant.stock = first
      ? variant.inventory_levels.reduce((sum, one) => sum + one.stock, 0)
      : (stock ?? variant.stock)
    return variant
  }
  const variantOf = (product: Product, given: Partial<Variant>): Variant =>
    change(
      {
        ...{ id: nextId(), product_id: product.id, sku: '', price: '0.00', stock: 0 },
        inventory_levels: locations.map((location_id) => ({ location_id, stock: 0 })),
      },
      given,
    )
  const act = (method: string, path: string, body: unknown): Answered => {
    const sku = /^products\/sku\/(.+)$/.exec(path)?.[1]
    if (method === 'GET' && sku !== undefined) {
      const wanted = decodeURIComponent(sku)
      const found = [...products.values()].find(({ variants }) =>
        variants.some((variant) => variant.sku === wanted),
      )
      return found ? { status: 200, body: found } : notFound
    }
    if (method === 'POST' && path === 'products') {
      const given = body as Partial<Omit<Product, 'variants'>> & { variants?: Partial<Variant>[] }
      if (!given.name?.es) return { status: 422, body: { name: ["can't be blank"] } }
      const refused = (given.variants ?? []).map(refusalOf).find(Boolean)
      if (refused) return refused
      const product: Product = {
        ...{ id: nextId(), name: given.name, published: given.published ?? true },
        variants: [],
      }
      product.variants = (given.variants ?? [{}]).map((one) => variantOf(product, one))
      products.set(product.id, product)
      return { status: 201, body: product }
    }
    const [, id, variantId] = /^products\/(\d+)(?:\/variants\/(\d+))?$/.exec(path) ?? []
    const product = products.get(Number(id))
    if (!product) return notFound
    if (method === 'DELETE') {
      products.delete(product.id)
      return { status: 200, body: {} }
    }
    const variant = product.variants.find((one) => one.id === Number(variantId))
    if (method !== 'PUT' || !variant) return notFound
    const { inventory_levels: levels = [] } = body as Partial<Variant>
    const refused = refusalOf(body as Partial<Variant>)
    if (refused) return refused
    if (levels.some(({ location_id }) => !locations.includes(location_id))) {
      return { status: 422, body: { inventory_levels: ['location does not exist'] } }
    }
    return { status: 200, body: change(variant, body as Partial<Variant>) }
  }
  const shop = await serveShop(({ method, path, headers, body }) => {
    const base = `/2025-03/${options.store}/`
    if (headers.authentication !== `bearer ${options.token}` || !headers['user-agent']) {
      return { status: 401, body: { code: 401, message: 'Unauthorized' } }
    }
    if (!path.startsWith(base)) return notFound
    const isOver = left === 0
    if (!isOver) left -= 1
    const answer = isOver ? tooMany : act(method, path.slice(base.length), body)
    return {
      ...answer,
      headers: {
        'x-rate-limit-limit': '40',
        'x-rate-limit-remaining': String(left),
        // Time until the bucket is full again, at two requests per second.
        'x-rate-limit-reset': String((40 - left) * 500),
      },
    }
  })
  return {
    ...shop,
    products,
    /** A person closes a location. Its stock is gone; a change that names it is refused. */
    closeLocation(closed: string) {
      locations = locations.filter((one) => one !== closed)
    },
    /** A person creates a product with these variants. */
    put(name: string, ...variants: Partial<Variant>[]) {
      const product: Product = { id: nextId(), name: { es: name }, published: true, variants: [] }
      product.variants = variants.map((one) => variantOf(product, one))
      products.set(product.id, product)
      return product
    },
  }
}

function refusalOf({ price, stock, inventory_levels: levels = [] }: Partial<Variant>) {
  const stocks = [stock, ...levels.map((level) => level.stock)].filter((one) => one !== undefined)
  if (stocks.some((one) => !Number.isInteger(one) || one < 0)) {
    return { status: 422, body: { stock: ['must be an integer greater than or equal to 0'] } }
  }
  if (price !== undefined && Number(price) < 0) {
    return { status: 422, body: { price: ['must be greater than or equal to 0'] } }
  }
  return undefined
}

const notFound: Answered = {
  status: 404,
  body: { code: 404, message: 'Not Found', description: 'Product with such id does not exist' },
}
const tooMany: Answered = { status: 429, body: { code: 429, message: 'Too Many Requests' } }
