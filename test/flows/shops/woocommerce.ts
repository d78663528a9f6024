import { type Answered, serveShop } from './double.ts'

type Meta = { key: string; value: string }
export type WooProduct = {
  id: number
  parent_id: number
  type: 'simple' | 'variable' | 'variation'
  status: 'publish' | 'draft' | 'private' | 'trash'
  sku: string
  name: string
  regular_price: string
  manage_stock: boolean
  stock_quantity: number
  meta_data: Meta[]
  /** A field whose changes a plugin of the shop refuses. */
  refused?: 'regular_price' | 'stock_quantity'
}

/**
 * WooCommerce's products (REST API v3) as https://woocommerce.github.io/woocommerce-rest-api-docs and its issues describe
 * them:
 * - API keys by HTTP Basic, ids of its own, prices as text
 * - A SKU is unique; the refusal names the product that has it.
 * - A stock is a whole number. A list has ten products unless `per_page` says otherwise.
 * - A batch has at most 100 objects and returns 200, with an `error` in place of each refused object.
 * - A product in the bin keeps its SKU (woocommerce#62616) and is listed only with `status=trash`. Creating another one with
 *   that SKU is refused.
 * - Variations share the products' ids and are listed by SKU, but are changed only at `products/<parent>/variations/<id>`.
 */
export async function startWooCommerce(options: { key: string; secret: string }) {
  const products = new Map<number, WooProduct>()
  let lastId = 700
  const nextId = () => {
    lastId += 1
    return lastId
  }
  const basic = Buffer.from(`${options.key}:${options.secret}`).toString('base64')

  const refusalOf = (given: Partial<WooProduct>, own?: number): Answered | undefined => {
    const { refused } = products.get(own ?? 0) ?? {}
    if (
      refused &&
      given[refused] !== undefined &&
      given[refused] !== products.get(own ?? 0)?.[refused]
    ) {
      return failure(400, 'rest_invalid_param', `Invalid parameter(s): ${refused}`)
    }
    if (given.regular_price !== undefined && typeof given.regular_price !== 'string') {
      return failure(400, 'rest_invalid_param', 'Invalid parameter(s): regular_price')
    }
    if (given.stock_quantity !== undefined && !Number.isInteger(given.stock_quantity)) {
      return failure(400, 'rest_invalid_param', 'Invalid parameter(s): stock_quantity')
    }
    const same = (sku: string) => sku.toLowerCase() === given.sku?.toLowerCase()
    const holder = [...products.values()].find(({ id, sku }) => same(sku) && id !== own)
    if (given.sku === undefined || given.sku === '' || !holder) return undefined
    return failure(400, 'product_invalid_sku', 'Invalid or duplicated SKU.', {
      resource_id: holder.id,
      unique_sku: `${given.sku}-1`,
    })
  }
  const put = (given: Partial<WooProduct> = {}): WooProduct => {
    const product: WooProduct = {
      ...{
        id: nextId(),
        parent_id: 0,
        type: 'simple',
        status: 'publish',
        sku: '',
        name: 'Product',
      },
      ...{ regular_price: '', manage_stock: false, stock_quantity: 0, meta_data: [] },
      ...given,
    }
    products.set(product.id, product)
    return product
  }
  const create = (given: Partial<WooProduct>): Answered => {
    const refusal = refusalOf(given)
    return refusal ?? { status: 201, body: put(given) }
  }
  const change = (product: WooProduct, given: Partial<WooProduct>): Answered => {
    const refusal = refusalOf(given, product.id)
    if (refusal) return refusal
    const { meta_data = [], id: _, ...others } = given
    Object.assign(product, others)
    for (const meta of meta_data) {
      const known = product.meta_data.find(({ key }) => key === meta.key)
      if (known) known.value = meta.value
      else product.meta_data.push({ ...meta })
    }
    return { status: 200, body: product }
  }
  const update = (id: number, given: Partial<WooProduct>): Answered => {
    const product = products.get(id)
    if (!product) return failure(400, 'woocommerce_rest_product_invalid_id', 'Invalid ID.')
    if (product.type === 'variation') {
      return failure(
        404,
        'woocommerce_rest_invalid_product_id',
        'To manipulate product variations you should use the /products/<product_id>/variations/<id> endpoint.',
      )
    }
    return change(product, given)
  }
  const updateVariation = (parent: number, id: number, given: Partial<WooProduct>): Answered => {
    const variation = products.get(id)
    if (variation?.type !== 'variation' || variation.parent_id !== parent) {
      return failure(400, 'woocommerce_rest_product_variation_invalid_id', 'Invalid ID.')
    }
    return change(variation, given)
  }
  const entry = (id: number, { status, body }: Answered) =>
    status >= 400 ? { id, error: body } : body

  const shop = await serveShop(({ method, path, query, headers, body }) => {
    if (headers.authorization !== `Basic ${basic}`) {
      return failure(401, 'woocommerce_rest_cannot_view', 'Sorry, you cannot list resources.')
    }
    const [, rest] = /^\/wp-json\/wc\/v3\/products(?:\/(.+))?$/.exec(path) ?? []
    if (!path.startsWith('/wp-json/wc/v3/products')) {
      return failure(404, 'rest_no_route', 'No route was found.')
    }
    if (rest === 'batch') {
      const given = body as { create?: Partial<WooProduct>[]; update?: WooProduct[] }
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
    if (method === 'GET' && rest === undefined) {
      // Since version 9 a search matches parts of a SKU too. The bin is searched only on request.
      const sku = query.get('sku') ?? ''
      const isTrash = query.get('status') === 'trash'
      const found = [...products.values()].filter(
        (one) => one.sku.includes(sku) && (one.status === 'trash') === isTrash,
      )
      // Ten by default, a hundred at most.
      const perPage = Math.min(Number(query.get('per_page') ?? 10), 100)
      return {
        status: 200,
        headers: { 'x-wp-total': String(found.length) },
        body: found.slice(0, perPage),
      }
    }
    if (method === 'POST' && rest === undefined) return create(body as Partial<WooProduct>)
    const [, parent, variation] = /^(\d+)\/variations\/(\d+)$/.exec(rest ?? '') ?? []
    if (method === 'PUT' && variation !== undefined) {
      return updateVariation(Number(parent), Number(variation), body as Partial<WooProduct>)
    }
    const id = Number(rest)
    if (method === 'PUT') return update(id, body as Partial<WooProduct>)
    const product = products.get(id)
    if (!product) return failure(404, 'woocommerce_rest_product_invalid_id', 'Invalid ID.')
    if (method === 'DELETE' && query.get('force') !== 'true') product.status = 'trash'
    else if (method === 'DELETE') products.delete(id)
    return { status: 200, body: product }
  })
  return { ...shop, products, basic, put }
}

function failure(status: number, code: string, message: string, data: object = {}): Answered {
  return { status, body: { code, message, data: { status, ...data } } }
}
