import type { FastifyRequest } from 'fastify'
import { apiError } from './errors.ts'
import type { KeyUse } from './idempotency.ts'
import type { Pos, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { type Fields, isRecord } from './validation-errors.ts'

/** The given fields of a POS, checked, and the two references to its store. */
export type PosFields = {
  name?: string
  externalId?: string
  category?: number
  fixedAmount?: boolean
  storeId?: string | undefined
  externalStoreId?: string | undefined
}

/** What differs between the generations of the POS API. */
export type Generation = {
  base: string
  update: 'PUT' | 'PATCH'
  /** The idempotency key of a creation, where there is one. */
  useKey?: (ctx: Context, request: FastifyRequest, seller: Seller) => KeyUse
  read: (body: unknown, isNew: boolean) => PosFields
  show: (pos: Pos) => object
  showUpdated: (pos: Pos) => object
  /** Of a POS that names none. */
  fixedAmount: boolean
  errors: Record<
    | 'badId'
    | 'notFound'
    | 'duplicate'
    | 'noName'
    | 'noStore'
    | 'unknownStore'
    | 'unknownExternalStore'
    | 'otherStore',
    Parameters<typeof apiError>
  >
}

/** The first generation (provider facts 4.1 to 4.3). */
export const posV1: Generation = {
  base: '/pos',
  update: 'PUT',
  read: readFields,
  show: showPos,
  showUpdated: (pos) => {
    const { qr: _absent, ...shown } = showPos(pos)
    return shown
  },
  fixedAmount: false,
  errors: {
    badId: [400, 'INVALID_POS_ID', 'Invalid pos id'],
    notFound: [404, 'not_found', 'Point of sale not found'],
    duplicate: [409, 'point_of_sale_exists', 'Point of sale with corresponding user and id exists'],
    noName: [400, 'INVALID_NAME', 'name is required'],
    noStore: [400, 'INVALID_STORE_ID', 'store_id is required'],
    unknownStore: [400, 'INVALID_STORE_ID', 'store_id is not valid'],
    unknownExternalStore: [400, 'INEXISTENT_EXTERNAL_STORE_ID', 'external_store_id does not exist'],
    otherStore: [400, 'EXTERNAL_STORE_ID_NOT_MATCH', 'external_store_id does not match store_id'],
  },
}

function readBody(body: unknown): Fields {
  if (!isRecord(body)) throw apiError(400, 'MISSING_BODY', 'The body is missing')
  const known = 'name fixed_amount category store_id external_store_id external_id url'.split(' ')
  const extra = Object.keys(body).find((key) => !known.includes(key))
  if (extra !== undefined) {
    throw apiError(400, 'UNKNOWN_FIELD_EXCEPTION', `Unknown field: ${extra}`)
  }
  return body
}

function readFields(given: unknown, isNew: boolean): PosFields {
  const body = readBody(given)
  const { name, external_id, category, fixed_amount, url, store_id, external_store_id } = body
  const fields: PosFields = {}
  if (name !== undefined) {
    if (typeof name !== 'string' || name.trim() === '') {
      throw apiError(400, 'INVALID_NAME', 'name must be a non-empty string')
    }
    if (name.length >= 45) throw apiError(400, 'NAME_TOO_LONG', 'name must be under 45 characters')
    fields.name = name
  }
  if (fixed_amount !== undefined) {
    if (typeof fixed_amount !== 'boolean') {
      throw apiError(400, 'INVALID_FIXED_AMOUNT', 'fixed_amount must be a boolean')
    }
    fields.fixedAmount = fixed_amount
  }
  if (category !== undefined) {
    if (typeof category !== 'number' || !Number.isInteger(category)) {
      throw apiError(400, 'INVALID_CATEGORY', 'category must be an integer')
    }
    // Food and fuel of Argentina: no other family is accepted (provider facts 4.1).
    if (category !== 621102 && category !== 473000) {
      throw apiError(400, 'UNKNOWN_MCC', 'category is not a known MCC')
    }
    fields.category = category
  }
  if (external_id !== undefined) {
    if (typeof external_id !== 'string' || !/^[A-Za-z0-9]+$/.test(external_id)) {
      throw apiError(400, 'INVALID_EXTERNAL_ID', 'external_id must be alphanumeric')
    }
    if (external_id.length >= 40) {
      throw apiError(400, 'EXTERNAL_ID_TOO_LONG', 'external_id must be under 40 characters')
    }
    fields.externalId = external_id
  }
  if (url !== undefined) {
    if (typeof url !== 'string' || !URL.canParse(url)) {
      throw apiError(400, 'INVALID_URL', 'url is not valid')
    }
    if (url.length >= 300) throw apiError(400, 'URL_TOO_LONG', 'url must be under 300 characters')
    throw apiError(403, 'forbidden', 'The host of the url is not enabled')
  }
  if (isNew && name === undefined) throw apiError(...posV1.errors.noName)
  if (store_id !== undefined) fields.storeId = String(store_id)
  if (external_store_id === undefined) return fields
  if (typeof external_store_id !== 'string' || external_store_id === '') {
    throw apiError(400, 'INVALID_EXTERNAL_STORE_ID', 'external_store_id is not valid')
  }
  return { ...fields, externalStoreId: external_store_id }
}

function showPos(pos: Pos) {
  return {
    id: pos.id,
    qr: qrLinks(pos),
    status: 'active',
    date_created: pos.dateCreated,
    date_last_updated: pos.dateLastUpdated,
    uuid: pos.uuid,
    user_id: pos.userId,
    name: pos.name,
    fixed_amount: pos.fixedAmount,
    ...(pos.category !== null && { category: pos.category }),
    store_id: String(pos.storeId),
    ...(pos.externalStoreId !== null && { external_store_id: pos.externalStoreId }),
    ...(pos.externalId !== null && { external_id: pos.externalId }),
  }
}

/** The three URLs of the printed QR. */
export function qrLinks(pos: Pos) {
  const base = `https://www.mercadopago.com/instore/merchant/qr/${pos.id}`
  const mark = pos.uuid.slice(0, 8)
  return {
    image: `${base}/${mark}.png`,
    template_document: `${base}/template_${mark}.pdf`,
    template_image: `${base}/template_${mark}.png`,
  }
}
