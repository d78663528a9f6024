import type { FastifyRequest } from 'fastify'
import { type ApiError, apiError } from './errors.ts'
import { useKey } from './idempotency.ts'
import { type Generation, type PosFields, qrLinks } from './pos-v1.ts'
import type { Pos, Seller } from './rows.ts'
import type { Context } from './sandbox-context.ts'
import { isRecord } from './validation-errors.ts'

const badExternalStore: Parameters<typeof apiError> = [
  400,
  'invalid_external_store_id',
  'external_store_id is not valid',
]

/** The second generation: idempotent creation, stricter fields (provider facts 4.4). */
export const posV2: Generation = {
  base: '/v2/pos',
  update: 'PATCH',
  useKey: usePosKey,
  read: readFields,
  show: showPos,
  showUpdated: showPos,
  fixedAmount: true,
  errors: {
    badId: [400, 'bad_request', 'pos id does not meet the expected format'],
    notFound: [404, 'pos_not_found', 'Point of sale not found'],
    duplicate: [409, 'pos_already_exists', 'A point of sale with this external_id exists'],
    noName: [400, 'bad_request', 'name or external_id is required'],
    noStore: [400, 'bad_request', 'store_id or external_store_id is required'],
    unknownStore: [404, 'store_not_found', 'Store not found'],
    unknownExternalStore: badExternalStore,
    otherStore: badExternalStore,
  },
}

function badRequest(message: string): ApiError {
  return apiError(400, 'bad_request', message)
}

/** 1 to 64 characters; another body is a 400 here, not a 409. */
function usePosKey(ctx: Context, request: FastifyRequest, seller: Seller) {
  return useKey(ctx, request, seller.id, {
    maxLength: 64,
    missing: badRequest('Missing X-Idempotency-Key header'),
    tooLong: badRequest('X-Idempotency-Key must have from 1 to 64 characters'),
    reused: apiError(
      400,
      'idempotency_key_already_used',
      'The idempotency key was already used with another request.',
    ),
  })
}

const rules: Record<string, { field: keyof PosFields; pattern: RegExp }> = {
  name: { field: 'name', pattern: /^(?=.{1,45}$)[A-Za-z0-9_-](?:[A-Za-z0-9 _-]*[A-Za-z0-9_-])?$/ },
  external_id: { field: 'externalId', pattern: /^[A-Za-z0-9]{1,40}$/ },
  store_id: { field: 'storeId', pattern: /^\d{1,20}$/ },
  external_store_id: { field: 'externalStoreId', pattern: /^.{1,60}$/ },
}

function readFields(body: unknown): PosFields {
  if (!isRecord(body)) throw badRequest('the request body is required')
  return Object.entries(body).reduce((fields: PosFields, [key, value]: [string, unknown]) => {
    const rule = Object.hasOwn(rules, key) ? rules[key] : undefined
    if (rule === undefined) throw badRequest(`${key} is not supported`)
    if (typeof value !== 'string') {
      throw badRequest(`${key} expected string, but got ${value === null ? 'null' : typeof value}`)
    }
    if (!rule.pattern.test(value)) throw badRequest(`${key} does not meet the expected format`)
    return Object.assign(fields, { [rule.field]: value })
  }, {})
}

function showPos(pos: Pos) {
  const seconds = (stamp: string) => stamp.replace(/\.\d+Z$/, 'Z')
  return {
    id: pos.id,
    name: pos.name,
    status: 'active',
    date_created: seconds(pos.dateCreated),
    date_last_updated: seconds(pos.dateLastUpdated),
    user_id: pos.userId,
    store_id: String(pos.storeId),
    ...(pos.externalStoreId !== null && { external_store_id: pos.externalStoreId }),
    ...(pos.externalId !== null && { external_id: pos.externalId }),
    qr_response: {
      uuid: pos.uuid,
      ...qrLinks(pos),
      qr_code: `00020101021126940014AR.COM.SANDBOX${pos.id}`,
    },
  }
}
