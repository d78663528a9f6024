import { type Answered, serveShop } from './double.ts'

type Product = {
  id: string
  handle: string
  title: string
  status: string
  price: string
  sku: string
  stock: number
}
type Input = {
  handle?: string
  title?: string
  status?: string
  productOptions?: unknown[]
  variants?: {
    price: string
    inventoryItem: { sku: string }
    inventoryQuantities: { locationId: string; name: string; quantity: number }[]
  }[]
}

/**
 * Shopify's `productSet` as https://shopify.dev/docs/api/admin-graphql describes it: what the identifier finds is changed and else created,
 * refusals come as `userErrors` with status 200, and a query that costs more than is left is answered 200 with the error THROTTLED.
 */
export async function startShopify(options: { token: string; points?: number }) {
  const products = new Map<string, Product>()
  let lastId = 8_000
  const nextId = () => {
    lastId += 1
    return lastId
  }
  let points = options.points ?? 2_000
  const cost = 20

  const productSet = (handle: string, input: Input) => {
    const refuse = (code: string, message: string) => ({
      product: null,
      userErrors: [{ code, field: ['input'], message }],
    })
    const known = products.get(handle)
    if (!known && !input.title) return refuse('INVALID_INPUT', "Title can't be blank")
    const [variant] = input.variants ?? []
    if (variant && Number(variant.price) < 0)
      return refuse('INVALID_INPUT', 'Price must be greater than or equal to 0')
    if (variant && !input.productOptions)
      return refuse(
        'PRODUCT_OPTIONS_INPUT_MISSING',
        'Product options input is required when updating variants',
      )
    const product: Product = known ?? {
      ...{ id: `gid://shopify/Product/${nextId()}`, handle, title: '', status: 'ACTIVE' },
      ...{ price: '0.00', sku: '', stock: 0 },
    }
    if (input.title) product.title = input.title
    if (input.status) product.status = input.status
    if (variant) {
      product.price = variant.price
      product.sku = variant.inventoryItem.sku
      product.stock = variant.inventoryQuantities[0]?.quantity ?? 0
    }
    products.set(handle, product)
    return { product: { id: product.id }, userErrors: [] }
  }

  const shop = await serveShop(({ method, path, headers, body }): Answered => {
    if (headers['x-shopify-access-token'] !== options.token) {
      return { status: 401, body: { errors: '[API] Invalid API key or access token' } }
    }
    if (method !== 'POST' || !/^\/admin\/api\/\d{4}-\d\d\/graphql\.json$/.test(path)) {
      return { status: 404, body: { errors: 'Not Found' } }
    }
    const { query, variables } = body as {
      query: string
      variables: { by: { handle: string }; product: Input }
    }
    if (!query.includes('productSet(identifier: $by, input: $product')) {
      return { status: 200, body: { errors: [{ message: 'unknown field' }] } }
    }
    if (points < cost) {
      points += cost
      return {
        status: 200,
        body: { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }] },
      }
    }
    points -= cost
    return {
      status: 200,
      body: { data: { productSet: productSet(variables.by.handle, variables.product) } },
    }
  })
  return { ...shop, products }
}
