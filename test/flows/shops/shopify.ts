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
  by?: { handle?: string; id?: string }
  product?: Input | string
  id?: string
  item?: string
  location?: string
  variants?: { id: string; price: string }[]
  stock?: { name: string; reason: string; quantities: Quantity[] }
  key?: string
}

/**
 * Shopify's Admin API as https://shopify.dev/docs/api/admin-graphql describes it.
 * - `productSet` changes the product with the identifier, or creates one. The given variants replace its list.
 * - `productVariants` finds by SKU.
 * - `productVariantsBulkUpdate` and `inventorySetQuantities` change one variant at one location. Since 2026-04 the latter has
 *   `changeFromQuantity` and an idempotency key. Each mutation of a request takes effect by itself.
 * - `inventoryActivate` stocks an item at a location. Until then a quantity there is refused (ITEM_NOT_STOCKED_AT_LOCATION).
 *   It has an idempotency key too. A quantity is a whole number from 0.
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

  const productSet = (by: { handle?: string; id?: string }, input: Input) => {
    const ofId = [...products.values()].find(({ id }) => id === by.id)
    if (by.id !== undefined && !ofId) {
      return {
        product: null,
        userErrors: [refuse('PRODUCT_DOES_NOT_EXIST', 'Product does not exist')],
      }
    }
    const handle = ofId?.handle ?? by.handle ?? ''
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
    if (places.some(({ quantity }) => quantity < 0))
      return refused('INVALID_INPUT', "The quantity can't be negative")
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
    const nodes = product.variants.slice(0, 1).map(({ id, sku, price, item }) => ({
      ...{ id, sku, price, inventoryItem: { id: item } },
    }))
    return { userErrors: [], product: { id: product.id, variants: { nodes } } }
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
      if (price !== undefined) variant.price = price
    }
    const productVariants = product.variants
      .filter(({ id: own }) => given.some((one) => one.id === own))
      .map(({ id: own, sku, price }) => ({ id: own, sku, price }))
    return { userErrors: [], productVariants }
  }
  const activate = (item: unknown, location: string) => {
    const variant = variants().find((one) => one.item === item)
    if (!variant || !locations.includes(location)) return { inventoryLevel: null }
    variant.stock[location] ??= 0
    return { inventoryLevel: { id: `gid://shopify/InventoryLevel/${location}` } }
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
      if (one.quantity < 0)
        return {
          userErrors: [refuse('INVALID_QUANTITY_NEGATIVE', "The quantity can't be negative")],
        }
      if (!(one.locationId in variant.stock))
        return {
          userErrors: [
            refuse('ITEM_NOT_STOCKED_AT_LOCATION', 'The item is not stocked at the location'),
          ],
        }
      variant.stock[one.locationId] = one.quantity
    }
    return { userErrors: [] }
  }
  const find = (q: string, location: string) => {
    const sku = /^sku:"(.*)"$/.exec(q)?.[1] ?? ''
    // A search also finds partial matches.
    return [...products.values()].flatMap(({ id, handle, status, variants: own }) =>
      own
        .filter((one) => one.sku.includes(sku))
        .map((one) => ({
          ...{ id: one.id, sku: one.sku },
          inventoryItem: {
            id: one.item,
            inventoryLevel:
              location in one.stock ? { id: `gid://shopify/InventoryLevel/${location}` } : null,
          },
          product: { id, handle, status },
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
    const quantities = [
      ...(variables.stock?.quantities ?? []).map(({ quantity }) => quantity),
      ...[variables.product].flatMap((one) =>
        typeof one === 'object' ? (one.variants ?? []).flatMap(quantitiesOf) : [],
      ),
    ]
    if (quantities.some((one) => !Number.isInteger(one))) {
      return { status: 200, body: { errors: [{ message: 'Could not coerce value to Int' }] } }
    }
    // A field with @include of a false variable is left out.
    const asks = (field: string) => {
      const at = query.indexOf(field)
      if (at < 0) return false
      const [, name] =
        /^(?: @idempotent\([^)]*\))?(?: @include\(if: \$(\w+)\))?/.exec(
          query.slice(at + field.length),
        ) ?? []
      return name === undefined || (variables as Record<string, unknown>)[name] === true
    }
    if (asks('productVariants(first: 50, query: $q)')) {
      const [, location = ''] = /inventoryLevel\(locationId: "([^"]+)"\)/.exec(query) ?? []
      data.productVariants = { nodes: find(variables.q ?? '', location) }
    }
    if (asks('productSet(identifier: $by, input: $product, synchronous: true)')) {
      const { product, userErrors } = productSet(variables.by ?? {}, variables.product as Input)
      // Only what the query asks for: a change does not ask for the product.
      data.productSet = { userErrors, ...(query.includes('} product { id') && { product }) }
    }
    if (asks('inventoryActivate(inventoryItemId: $item, locationId: $location)')) {
      data.inventoryActivate = activate(variables.item, variables.location ?? '')
    }
    const bulk = /productVariantsBulkUpdate\(productId: \$(\w+), variants: \$variants\)/.exec(query)
    if (bulk && asks(bulk[0])) {
      const id = bulk[1] === 'product' ? variables.product : variables.id
      data.productVariantsBulkUpdate = bulkUpdate(id, variables.variants ?? [])
    }
    if (asks('inventorySetQuantities(input: $stock)')) {
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

function quantitiesOf({ inventoryQuantities }: NonNullable<Input['variants']>[number]): number[] {
  return inventoryQuantities.map(({ quantity }) => quantity)
}
