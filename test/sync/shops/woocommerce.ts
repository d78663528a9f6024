import { type Answered, serveShop } from './double.ts'

type Product = {
  id: number
  sku: string
  name: string
  regular_price: string
  stock_quantity: number
}

/**
 * WooCommerce's products (REST API v3) as https://woocommerce.github.io/woocommerce-rest-api-docs describes them: keys by HTTP Basic,
 * ids of its own, a SKU that no two products have (the refusal names the one that has it), prices that are texts, and batches of 100 at
 * most, which answer 200 with an `error` in place of each object that was refused.
 */
export async function startWooCommerce(options: { key: string; secret: string }) {
  const products = new Map<number, Product>()
  let lastId = 700
  const nextId = () => {
    lastId += 1
    return lastId
  }
  const basic = Buffer.from(`${options.key}:${options.secret}`).toString('base64')

  const refusalOf = (given: Partial<Product>, own?: number): Answered | undefined => {
    if (given.regular_price !== undefined && typeof given.regular_price !== 'string') {
      return failure(400, 'rest_invalid_param', 'Invalid parameter(s): regular_price')
    }
    const holder = [...products.values()].find(({ id, sku }) => sku === given.sku && id !== own)
    if (given.sku === undefined || !holder) return undefined
    return failure(400, 'product_invalid_sku', 'Invalid or duplicated SKU.', {
      resource_id: holder.id,
      unique_sku: `${given.sku}-1`,
    })
  }
  const create = (given: Partial<Product>): Answered => {
    const refusal = refusalOf(given)
    if (refusal) return refusal
    const product: Product = {
      ...{ id: nextId(), sku: '', name: 'Product', regular_price: '', stock_quantity: 0 },
      ...given,
    }
    products.set(product.id, product)
    return { status: 201, body: product }
  }
  const update = (id: number, given: Partial<Product>): Answered => {
    const product = products.get(id)
    if (!product) return failure(400, 'woocommerce_rest_product_invalid_id', 'Invalid ID.')
    const refusal = refusalOf(given, id)
    if (refusal) return refusal
    return { status: 200, body: Object.assign(product, given) }
  }
  const entry = (id: number, { status, body }: Answered) =>
    status >= 400 ? { id, error: body } : body

  const shop = await serveShop(({ method, path, query, headers, body }) => {
    if (headers.authorization !== `Basic ${basic}`) {
      return failure(401, 'woocommerce_rest_cannot_view', 'Sorry, you cannot list resources.')
    }
    const rest = /^\/wp-json\/wc\/v3\/products(?:\/(batch|\d+))?$/.exec(path)
    if (!rest) return failure(404, 'rest_no_route', 'No route was found.')
    const id = Number(rest[1])
    if (rest[1] === 'batch') {
      const given = body as { create?: Partial<Product>[]; update?: Product[] }
      const many = (given.create?.length ?? 0) + (given.update?.length ?? 0)
      if (many > 100) {
        return failure(
          413,
          'woocommerce_rest_request_entity_too_large',
          'Unable to accept more than 100 items for this request.',
        )
      }
      return {
        status: 200,
        body: {
          ...(given.create && { create: given.create.map((one) => entry(0, create(one))) }),
          ...(given.update && {
            update: given.update.map((one) => entry(one.id, update(one.id, one))),
          }),
        },
      }
    }
    if (method === 'GET') {
      // Matches parts of a SKU too, as it does since 9.
      const sku = query.get('sku') ?? ''
      return { status: 200, body: [...products.values()].filter((one) => one.sku.includes(sku)) }
    }
    if (method === 'POST') return create(body as Partial<Product>)
    if (method === 'PUT') return update(id, body as Partial<Product>)
    const product = products.get(id)
    if (!product) return failure(404, 'woocommerce_rest_product_invalid_id', 'Invalid ID.')
    products.delete(id)
    return { status: 200, body: product }
  })
  return { ...shop, products, basic }
}

function failure(status: number, code: string, message: string, data: object = {}): Answered {
  return { status, body: { code, message, data: { status, ...data } } }
}
