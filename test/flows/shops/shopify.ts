import { type Answered, serveShop } from './double.ts'

type Variant = {
  id: string
  sku: string
  price: string
  item: string
  /** Stock by location. */
  stock: Record<string, number>
}
type Product = { id: string; handle: string; title: string; status: string; variants: Variant[] }
type Quantity = {
  inventoryItemId: string
  locationId: string
  quantity: number
  changeFromQuantity?: number | null
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
type Refusal = { code: string; field: string[]; message: string }
type Variables = {
  q?: string
  by?: { handle: string }
  product?: Input | string
  variants?: { id: string; price: string }[]
  stock?: { name: string; reason: string; quantities: Quantity[] }
  key?: string
}

/**
 * Shopify's Admin API as https://shopify.dev/docs/api/admin-graphql describes it.
 * - `productSet` changes the product with the identifier, or creates one. The given variants replace its list.
 * - `productVariants` finds by SKU.
 * - `productVariantsBulkUpdate` and `inventorySetQuantities` change one variant at one location. Since 2026-04 the latter has
 *   `changeFromQuantity` and an idempotency key.
 * - Refusals are `userErrors` with status 200. A query that costs more than the remaining points returns 200 with the error
 *   THROTTLED.
 */
export async function startShopify(options: {
  token: string
  points?: number
  locations?: readonly string[]
}) {
  const products = new Map<string, Product>()
  const { locations = ['gid://shopify/Location/1'] } = options
  let lastId = 8_000
  const nextId = () => {
    lastId += 1
    return lastId
  }
  let points = options.points ?? 2_000
  const cost = 20
  const variants = () => [...products.values()].flatMap((product) => product.variants)
  const refuse = (code: string, message: string): Refusal => ({ code, field: ['input'], message })
  const variantOf = (sku: string, price: string): Variant => {
    const id = nextId()
    return {
      ...{ id: `gid://shopify/ProductVariant/${id}`, sku, price },
      ...{ item: `gid://shopify/InventoryItem/${id}`, stock: {} },
    }
  }

  const productSet = (handle: string, input: Input) => {
    const refused = (code: string, message: string) => ({
      product: null,
      userErrors: [refuse(code, message)],
    })
    const known = products.get(handle)
    if (!known && !input.title) return refused('INVALID_INPUT', "Title can't be blank")
    const [variant] = input.variants ?? []
    if (variant && Number(variant.price) < 0)
      return refused('INVALID_INPUT', 'Price must be greater than or equal to 0')
    if (variant && !input.productOptions)
      return refused(
        'PRODUCT_OPTIONS_INPUT_MISSING',
        'Product options input is required when updating variants',
      )
    const places = (input.variants ?? []).flatMap((one) => one.inventoryQuantities)
    if (places.some(({ locationId }) => !locations.includes(locationId)))
      return refused('INVALID_INPUT', 'Location does not exist')
    const product: Product = known ?? {
      ...{ id: `gid://shopify/Product/${nextId()}`, handle, title: '', status: 'ACTIVE' },
      variants: [],
    }
    if (input.title) product.title = input.title
    if (input.status) product.status = input.status
    if (input.variants) {
      product.variants = input.variants.map((one, index) => {
        const own = product.variants[index] ?? variantOf('', '0.00')
        own.sku = one.inventoryItem.sku
        own.price = one.price
        for (const { locationId, quantity } of one.inventoryQuantities)
          own.stock[locationId] = quantity
        return own
      })
    }
    products.set(handle, product)
    return { product: { id: product.id }, userErrors: [] }
  }
  const bulkUpdate = (id: unknown, given: { id: string; price: string }[]) => {
    const product = [...products.values()].find((one) => one.id === id)
    if (!product)
      return { userErrors: [refuse('PRODUCT_DOES_NOT_EXIST', 'Product does not exist')] }
    for (const { id: one, price } of given) {
      const variant = product.variants.find((own) => own.id === one)
      if (!variant)
        return {
          userErrors: [refuse('PRODUCT_VARIANT_DOES_NOT_EXIST', 'Product variant does not exist')],
        }
      if (Number(price) < 0)
        return { userErrors: [refuse('NEGATIVE_PRICE_VALUE', 'Price is negative')] }
      variant.price = price
    }
    return { userErrors: [] }
  }
  const setQuantities = (quantities: Quantity[]) => {
    for (const one of quantities) {
      if (!('changeFromQuantity' in one))
        return {
          userErrors: [refuse('CHANGE_FROM_QUANTITY_MISSING', 'changeFromQuantity is missing')],
        }
      const variant = variants().find(({ item }) => item === one.inventoryItemId)
      if (!variant)
        return {
          userErrors: [refuse('INVALID_INVENTORY_ITEM', 'The inventory item could not be found')],
        }
      if (!locations.includes(one.locationId))
        return { userErrors: [refuse('INVALID_LOCATION', 'The location could not be found')] }
      variant.stock[one.locationId] = one.quantity
    }
    return { userErrors: [] }
  }
  const find = (q: string) => {
    const sku = /^sku:"(.*)"$/.exec(q)?.[1] ?? ''
    // A search also finds partial matches.
    return [...products.values()].flatMap(({ id, handle, variants: own }) =>
      own
        .filter((one) => one.sku.includes(sku))
        .map((one) => ({
          ...{ id: one.id, sku: one.sku, inventoryItem: { id: one.item } },
          product: { id, handle },
        })),
    )
  }

  const shop = await serveShop(({ method, path, headers, body }): Answered => {
    if (headers['x-shopify-access-token'] !== options.token) {
      return { status: 401, body: { errors: '[API] Invalid API key or access token' } }
    }
    if (method !== 'POST' || !/^\/admin\/api\/\d{4}-\d\d\/graphql\.json$/.test(path)) {
      return { status: 404, body: { errors: 'Not Found' } }
    }
    const { query, variables } = body as { query: string; variables: Variables }
    if (points < cost) {
      // The bucket refills by a hundred points per second.
      points += 3 * cost
      return {
        status: 200,
        body: { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }] },
      }
    }
    points -= cost
    const data: Record<string, unknown> = {}
    if (query.includes('productVariants(first: 50, query: $q)')) {
      data.productVariants = { nodes: find(variables.q ?? '') }
    }
    if (query.includes('productSet(identifier: $by, input: $product')) {
      data.productSet = productSet(variables.by?.handle ?? '', variables.product as Input)
    }
    if (query.includes('productVariantsBulkUpdate(productId: $product, variants: $variants)')) {
      data.productVariantsBulkUpdate = bulkUpdate(variables.product, variables.variants ?? [])
    }
    if (query.includes('inventorySetQuantities(input: $stock) @idempotent(key: $key)')) {
      data.inventorySetQuantities = setQuantities(variables.stock?.quantities ?? [])
    }
    if (Object.keys(data).length === 0) {
      return { status: 200, body: { errors: [{ message: 'unknown field' }] } }
    }
    return { status: 200, body: { data } }
  })
  return {
    ...shop,
    products,
    /** A person creates a product with one variant per SKU. */
    put(handle: string, ...skus: string[]) {
      const made = skus.map((sku) => variantOf(sku, '1.00'))
      const product: Product = {
        ...{ id: `gid://shopify/Product/${nextId()}`, handle, title: handle, status: 'ACTIVE' },
        variants: made,
      }
      products.set(handle, product)
      return product
    },
  }
}
