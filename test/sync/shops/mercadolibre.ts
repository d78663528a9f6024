import { type Answered, serveShop } from './double.ts'
import { createIssuer, type Issuer } from './token-issuer.ts'

type Listing = {
  id: string
  sku: string
  price: number
  available_quantity: number
  status: 'active' | 'paused' | 'closed'
  /** Why it is paused; without a reason somebody paused it. */
  sub_status: string[]
  hasAutomaticPrice?: boolean
  hasDepots?: boolean
}

/**
 * Mercado Libre's listings as https://developers.mercadolibre.com.ar describes them: the access token in a header, six hours long, renewed
 * by a refresh token that works once (autenticacion-y-autorizacion); ids by the seller's SKU, and a search that finds nothing
 * answers 200 with an empty list (items-y-busquedas); price and stock by PUT (producto-sincroniza-modifica-publicaciones), whose
 * price is not taken, with a warning, where it is automatic (automatizaciones-de-precos); refusals with `error` and `cause`. A
 * search without `status` finds closed listings too, of which nothing can be changed. One without stock is paused by itself
 * (`out_of_stock`) and active again with stock; one that somebody paused stays so. The quantity of a seller with several depots
 * (`hasDepots`) is not taken from here.
 */
export async function startMercadoLibre(options: {
  user: string
  clientId: string
  clientSecret: string
  refreshToken: string
}) {
  const listings = new Map<string, Listing>()
  const issuer: Issuer = createIssuer(options)

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
    const { price, available_quantity: quantity, ...others } = given
    Object.assign(listing, others)
    if (quantity !== undefined && !listing.hasDepots) {
      listing.available_quantity = quantity
      const isOut = listing.sub_status.includes('out_of_stock')
      if (quantity === 0 && listing.status === 'active') {
        Object.assign(listing, { status: 'paused', sub_status: ['out_of_stock'] })
      } else if (quantity > 0 && isOut) {
        Object.assign(listing, { status: 'active', sub_status: [] })
      }
    }
    if (price !== undefined && listing.hasAutomaticPrice) {
      return { status: 200, body: { ...shown(listing), warnings: [automatic] } }
    }
    if (price !== undefined) listing.price = price
    return { status: 200, body: shown(listing) }
  }

  const shop = await serveShop((asked) => {
    const { method, path, query, body } = asked
    if (method === 'POST' && path === '/oauth/token') return issuer.answer(asked)
    if (!issuer.admits(asked)) return refusal(401, 'unauthorized', 'invalid access token')
    if (method === 'GET' && path === `/users/${options.user}/items/search`) {
      const sku = query.get('seller_sku')
      const status = query.get('status')
      const results = [...listings.values()]
        .filter((one) => one.sku === sku && (status === null || one.status === status))
        .map(({ id }) => id)
      const paging = { limit: 50, offset: 0, total: results.length }
      return { status: 200, body: { seller_id: options.user, query: null, paging, results } }
    }
    const listing = listings.get(/^\/items\/([\w-]+)$/.exec(path)?.[1] ?? '')
    if (!listing) return refusal(404, 'not_found', 'Item not found')
    if (method !== 'PUT') return { status: 200, body: shown(listing) }
    return change(listing, body as Partial<Listing>)
  })
  return {
    ...shop,
    listings,
    issuer,
    /** Somebody publishes it by hand. */
    publish(id: string, sku: string, extra: Partial<Listing> = {}) {
      listings.set(id, {
        ...{ id, sku, price: 1, available_quantity: 1, status: 'active', sub_status: [] },
        ...extra,
      })
    },
  }
}

const automatic = {
  code: 'item.price.not_updated',
  message: 'The price was not updated: the item has an active price automation',
}

function shown({ id, price, available_quantity, status, sub_status }: Listing) {
  return { id, site_id: 'MLA', price, available_quantity, status, sub_status, warnings: [] }
}

function refusal(status: number, error: string, message: string): Answered {
  return { status, body: { message, error, status, cause: [] } }
}
