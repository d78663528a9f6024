import { type Answered, serveShop } from './double.ts'

type Variant = { id: number; product_id: number; sku: string; price: string; stock: number }
type Product = { id: number; name: { es: string }; published: boolean; variants: Variant[] }

/**
 * Tiendanube's products as https://tiendanube.github.io/api-documentation describes them: numeric ids of its own, variants that carry
 * price and stock, `authentication` (not `authorization`) and a `user-agent` that are required, 404 for a SKU that is not
 * there, 422 for a product without a name, and a bucket of requests that its headers tell of.
 */
export async function startTiendanube(options: { store: string; token: string; bucket?: number }) {
  const products = new Map<number, Product>()
  let lastId = 5_000
  const nextId = () => {
    lastId += 1
    return lastId
  }
  let left = options.bucket ?? 40
  const variantOf = (product: Product, given: Partial<Variant>): Variant => ({
    ...{ id: nextId(), product_id: product.id, sku: '', price: '0.00', stock: 0 },
    ...given,
  })
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
    Object.assign(variant, body)
    return { status: 200, body: variant }
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
        // Until the bucket is full again, at two requests a second.
        'x-rate-limit-reset': String((40 - left) * 500),
      },
    }
  })
  return { ...shop, products }
}

const notFound: Answered = {
  status: 404,
  body: { code: 404, message: 'Not Found', description: 'Product with such id does not exist' },
}
const tooMany: Answered = { status: 429, body: { code: 429, message: 'Too Many Requests' } }
