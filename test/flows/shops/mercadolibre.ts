import { type Answered, serveShop } from './double.ts'
import { createIssuer, type Issuer } from './token-issuer.ts'

type Variation = { id: number; sku: string; price: number; available_quantity: number }

type Listing = {
  id: string
  sku: string
  price: number
  available_quantity: number
  status: 'active' | 'paused' | 'closed'
  /** Why the listing is paused; empty when a person paused it. */
  sub_status: string[]
  variations: Variation[]
  hasAutomaticPrice?: boolean
  /** Least price of its category. */
  leastPrice?: number
  /** Mercado Libre keeps the stock in its own warehouse (Full). */
  isFull?: boolean
}

/**
 * Mercado Libre's listings as https://developers.mercadolibre.com.ar describes them:
 * - autenticacion-y-autorizacion: the access token is in a header and valid for six hours. A refresh token works once.
 * - items-y-busquedas: ids by the seller's SKU, of a listing or of one of its variations. A search without a result returns
 *   200 with an empty list. Without `status` it also finds closed listings, which cannot be changed.
 * - producto-sincroniza-modifica-publicaciones: price and stock by PUT. A listing without stock is paused (`out_of_stock`),
 *   and active again with stock. A listing that a person paused stays paused.
 * - variaciones: a PUT names all variations by id and deletes the others. All have the same price. The SKU of a variation is
 *   an attribute that a GET shows with `include_attributes=all`.
 * - validaciones: a stock is a whole number from 0; a price below the least one of the category refuses the whole request. So
 *   does a stock of a listing whose stock Mercado Libre keeps.
 * - automatizaciones-de-precos: a new value for an automatic price is ignored with a warning.
 * - stock-multi-origen, with `warehouses`: `available_quantity` is ignored. The stock of a warehouse is changed at the user
 *   product, with the version of its last GET in `x-version`: 400 without it, 409 with another.
 */
export async function startMercadoLibre(options: {
  user: string
  clientId: string
  clientSecret: string
  refreshToken: string
  /** Ids of the seller's warehouses, if the account manages stock by warehouse. */
  warehouses?: readonly string[]
}) {
  const listings = new Map<string, Listing>()
  /** By user product id: the stock of each warehouse, and the version. */
  const products = new Map<string, { version: number; stock: Map<string, number> }>()
  const issuer: Issuer = createIssuer(options)
  const { warehouses } = options

  const changeVariations = (listing: Listing, given: readonly Partial<Variation>[]) => {
    const named = given.map((one) => ({
      one,
      variation: listing.variations.find(({ id }) => id === one.id),
    }))
    const prices = new Set(named.map(({ one, variation }) => one.price ?? variation?.price))
    if (prices.size > 1) {
      return refusal(400, 'item.variations.price.different', 'All variations need the same price')
    }
    if (named.some(({ variation }) => !variation)) {
      return refusal(400, 'item.variations.invalid', 'A new variation needs attribute_combinations')
    }
    listing.variations = named.flatMap(({ one, variation }) =>
      variation ? [Object.assign(variation, definedOf(one))] : [],
    )
    listing.price = listing.variations[0]?.price ?? listing.price
    return undefined
  }

  const followStock = (listing: Listing) => {
    const { variations } = listing
    if (variations.length > 0) {
      listing.available_quantity = variations.reduce((sum, one) => sum + one.available_quantity, 0)
    }
    const isOut = listing.sub_status.includes('out_of_stock')
    if (listing.available_quantity === 0 && listing.status === 'active') {
      Object.assign(listing, { status: 'paused', sub_status: ['out_of_stock'] })
    } else if (listing.available_quantity > 0 && isOut) {
      Object.assign(listing, { status: 'active', sub_status: [] })
    }
  }

  const change = (listing: Listing, given: Partial<Listing>): Answered => {
    if (listing.status === 'closed') {
      return refusal(
        400,
        'validation_error',
        `Cannot update item ${listing.id} [status:closed, has_bids:false]`,
      )
    }
    const isNumber = (value: unknown) => value === undefined || typeof value === 'number'
    if (!isNumber(given.price) || !isNumber(given.available_quantity)) {
      return refusal(400, 'body.invalid_field_types', 'Invalid field types')
    }
    const { price, available_quantity: quantity, variations } = given
    const prices = [given, ...(variations ?? [])].map(
      (one) => one.price ?? Number.POSITIVE_INFINITY,
    )
    if (prices.some((one) => one < (listing.leastPrice ?? 0))) {
      return refusal(400, 'item.price.invalid', `The price is below ${listing.leastPrice}`)
    }
    const quantities = [given, ...(variations ?? [])].flatMap((one) => one.available_quantity ?? [])
    if (quantities.some((one) => !Number.isInteger(one) || one < 0)) {
      return refusal(400, 'item.available_quantity.invalid', 'available_quantity is invalid')
    }
    if (quantities.length > 0 && listing.isFull) {
      return refusal(400, 'field_not_updatable', 'available_quantity is not modifiable')
    }
    const isOfWhole = price !== undefined || quantity !== undefined
    if (listing.variations.length > 0 && isOfWhole) {
      return refusal(400, 'field_not_updatable', 'The item has variations: send them')
    }
    const refused = variations && changeVariations(listing, variations)
    if (refused) return refused
    if (quantity !== undefined && !warehouses) listing.available_quantity = quantity
    followStock(listing)
    if (price !== undefined && listing.hasAutomaticPrice) {
      return { status: 200, body: { ...shown(listing), warnings: [automatic] } }
    }
    if (price !== undefined) listing.price = price
    return { status: 200, body: shown(listing) }
  }

  const answerStock = (id: string, method: string, version: unknown, body: unknown): Answered => {
    const product = products.get(id)
    if (!product) return refusal(404, 'not_found', 'stock-locations not found')
    const locations = () =>
      [...product.stock].map(([store_id, quantity]) => ({
        ...{ type: 'seller_warehouse', store_id, network_node_id: `N${store_id}`, quantity },
      }))
    const headers = { 'x-version': String(product.version) }
    if (method === 'GET') return { status: 200, headers, body: { id, locations: locations() } }
    if (version === undefined) return refusal(400, 'bad_request', 'Missing X-Version header')
    if (version !== headers['x-version']) return refusal(409, 'conflict', 'Version mismatch')
    const given = (body as { locations: { store_id: string; quantity: number }[] }).locations
    const unknown = given.find(({ store_id }) => !product.stock.has(store_id))
    if (unknown) return refusal(400, 'bad_request', `store not found: ${unknown.store_id}`)
    for (const { store_id, quantity } of given) product.stock.set(store_id, quantity)
    product.version += 1
    return { status: 200, body: { id, locations: locations() } }
  }

  const shop = await serveShop((asked) => {
    const { method, path, query, body, headers } = asked
    if (method === 'POST' && path === '/oauth/token') return issuer.answer(asked)
    if (!issuer.admits(asked)) return refusal(401, 'unauthorized', 'invalid access token')
    if (method === 'GET' && path === `/users/${options.user}/items/search`) {
      const sku = query.get('seller_sku')
      const status = query.get('status')
      const results = [...listings.values()]
        .filter((one) => one.sku === sku || one.variations.some((each) => each.sku === sku))
        .filter((one) => status === null || one.status === status)
        .map(({ id }) => id)
      const paging = { limit: 50, offset: 0, total: results.length }
      return { status: 200, body: { seller_id: options.user, query: null, paging, results } }
    }
    const [, product, of] =
      /^\/user-products\/(\w+)\/stock(\/type\/seller_warehouse)?$/.exec(path) ?? []
    if (product && (method === 'GET') === (of === undefined)) {
      return answerStock(product, method, headers['x-version'], body)
    }
    const listing = listings.get(/^\/items\/([\w-]+)$/.exec(path)?.[1] ?? '')
    if (!listing) return refusal(404, 'not_found', 'Item not found')
    if (method === 'PUT') return change(listing, body as Partial<Listing>)
    return { status: 200, body: shown(listing, query.get('include_attributes') === 'all') }
  })
  return {
    ...shop,
    listings,
    products,
    issuer,
    /** A person publishes a listing, with or without variations. */
    publish(id: string, sku: string, extra: Partial<Listing> = {}) {
      const listing: Listing = {
        ...{ id, sku, price: 1, available_quantity: 1, status: 'active', sub_status: [] },
        variations: [],
        ...extra,
      }
      listings.set(id, listing)
      if (!warehouses) return
      const stock = new Map(warehouses.map((one, index) => [one, index]))
      products.set(productOf(id), { version: 1, stock })
    },
    /** A sale: the stock of a warehouse and the version change. */
    sell(id: string, warehouse: string) {
      const product = products.get(productOf(id))
      if (!product) return
      product.version += 1
      product.stock.set(warehouse, Math.max((product.stock.get(warehouse) ?? 0) - 1, 0))
    },
    stockOf: (id: string) => products.get(productOf(id))?.stock,
  }
}

const productOf = (id: string) => id.replace('MLA', 'MLAU')

function definedOf(one: Partial<Variation>): Partial<Variation> {
  return Object.fromEntries(Object.entries(one).filter(([, value]) => value !== undefined))
}

const automatic = {
  code: 'item.price.not_updated',
  message: 'The price was not updated: the item has an active price automation',
}

function shown(listing: Listing, hasAttributes = false) {
  const { id, price, available_quantity, status, sub_status, variations } = listing
  return {
    ...{ id, site_id: 'MLA', price, available_quantity, status, sub_status, warnings: [] },
    user_product_id: productOf(id),
    ...(variations.length === 0 && {
      attributes: [{ id: 'SELLER_SKU', name: 'SKU', value_name: listing.sku }],
    }),
    variations: variations.map(({ sku, ...one }) => ({
      ...one,
      ...(hasAttributes && { attributes: [{ id: 'SELLER_SKU', name: 'SKU', value_name: sku }] }),
    })),
  }
}

function refusal(status: number, error: string, message: string): Answered {
  return { status, body: { message, error, status, cause: [] } }
}
