import type { ErrorCode } from '../errors/app-error.ts'
import type { FieldReason } from '../errors/field-reasons.ts'

export type ProviderOperation =
  | 'order.create'
  | 'order.read'
  | 'order.search'
  | 'order.cancel'
  | 'order.refund'
  | 'order.simulate'
  | 'payment.read'
  | 'payment.search'
  | 'chargeback.read'
  | 'chargeback.search'
  | 'report.config'
  | 'report.order'
  | 'report.task'
  | 'report.list'
  | 'oauth.exchange'
  | 'oauth.refresh'
  | 'store.create'
  | 'store.find'
  | 'store.update'
  | 'store.delete'
  | 'pos.create'
  | 'pos.find'
  | 'pos.update'
  | 'pos.delete'
  | 'terminal.list'
  | 'terminal.mode'
  | 'user.read'

type MoneyOperation = 'order.create' | 'order.cancel' | 'order.refund'

/** Whether an operation of this name charges, cancels or refunds. */
export function isMoneyOperation(operation: string): operation is MoneyOperation {
  return (
    operation === 'order.create' || operation === 'order.cancel' || operation === 'order.refund'
  )
}

/**
 * What a refusal proves about this call and earlier ones under its key. `absence`: none had an effect. `nothing`: this one had
 * none, which says nothing about the others; an earlier call of ours may be its cause. `unknown`: an effect may exist.
 */
type Proof = 'absence' | 'nothing' | 'unknown'

export type ErrorRow = {
  /** The provider's code, or the status of an answer without a code. */
  on: string | number
  /** Only with this status: the same code with another one comes from another system. */
  status?: number
  code: ErrorCode
  /** `absence` when not named. */
  proves?: Proof
  /** The provider also refuses so what an earlier call of ours has done: the order is read before the call counts as refused. */
  mayBeOurs?: true
  /** The same request is accepted some seconds later. */
  isForNow?: true
  /** Added to the message for the client; without it the catalogue's text is used. */
  hint?: string
  /** The field of the ERP's request that must be corrected. */
  field?: string
  /** Why that field is refused; without it the provider's code is named. */
  fieldReason?: FieldReason
}

/** Rows with the same meaning for several codes. */
function rows(codes: readonly (string | number)[], row: Omit<ErrorRow, 'on'>): ErrorRow[] {
  return codes.map((on) => ({ on, ...row }))
}

const schemaCodes = [
  'required_properties',
  'minimum_properties',
  'property_type',
  'property_value',
  'minimum_items',
  'maximum_items',
  'json_syntax_error',
  'empty_required_header',
  'invalid_idempotency_key_length',
]

const badShape = rows(schemaCodes, {
  code: 'PROVIDER_REJECTED',
  hint: 'a value does not meet its rules',
})
const unknownProperty: ErrorRow = {
  on: 'unsupported_properties',
  code: 'PROVIDER_REJECTED',
  hint: 'a field is not accepted in the country of this account',
}
const badId = rows(['invalid_path_param', 'bad_request'], {
  code: 'PROVIDER_REJECTED',
  hint: 'it does not accept the number of the order',
})
const noOrder: ErrorRow = { on: 'order_not_found', code: 'NOT_FOUND' }
/** About the owner of the order, and not about the token: a renewed token changes nothing. */
const notOwner: readonly ErrorRow[] = [
  { on: 'user_not_authorized', status: 401 },
  { on: 'invalid_order_owner', status: 400 },
].map((row) => ({
  ...row,
  code: 'ACCOUNT_MISMATCH',
  proves: 'nothing',
  hint: 'the order was made by another account',
}))
const tooLate = 'its time for refunds is over; return the money in another way'
const noPaymentThere = 'it does not have the payment'
const smallBalance = 'the balance of the account is too small for this refund'
/** Documented for QR orders, which this service does not send. */
const ofQrOrders = rows(
  [
    'bad_request',
    'unsupported_site',
    'marketplace_not_valid',
    'marketplace_fee_not_allowed',
    'sponsor_id_not_valid',
    'pos_not_found',
  ],
  { code: 'PROVIDER_REJECTED', proves: 'unknown' },
)
const storeGone = 'it does not know the store of this box yet'

/** Each refusal that the provider file documents, by our operation (file 1.2, 2.1 to 2.5, 3, 4, 5). */
export const errorRows: Record<ProviderOperation, readonly ErrorRow[]> = {
  'order.create': [
    ...badShape,
    unknownProperty,
    { on: 'forbidden_checking_terminal_owner', code: 'TERMINAL_NOT_FOUND' },
    ...rows(['already_queued_order_on_terminal', 'already_queued_order_for_terminal'], {
      code: 'TERMINAL_BUSY',
    }),
    // It may leave an order behind that has failed.
    { on: 402, code: 'PROVIDER_REJECTED', proves: 'unknown' },
    ...ofQrOrders,
  ],
  'order.read': [...badId, noOrder, ...notOwner],
  'order.search': rows(['missing_required_params', 'invalid_parameter', 'bad_request'], {
    code: 'PROVIDER_REJECTED',
  }),
  'order.cancel': [
    ...badShape,
    ...badId,
    noOrder,
    ...notOwner,
    { on: 'cannot_cancel_order', code: 'ORDER_NOT_CANCELABLE' },
    ...rows(['order_already_canceled', 'in_store_order_locked_error'], {
      code: 'ORDER_NOT_CANCELABLE',
      proves: 'nothing',
    }),
  ],
  'order.refund': [
    ...badShape,
    ...badId,
    unknownProperty,
    noOrder,
    ...notOwner,
    ...rows(['unsupported_partially_refunds', 'partial_refund_forbidden_with_tips', '3024'], {
      code: 'PARTIAL_REFUND_NOT_SUPPORTED',
    }),
    ...rows(['refund_amount_exceeds', 'amount_not_refundable'], { code: 'REFUND_AMOUNT_EXCEEDS' }),
    { on: '2017', code: 'REFUND_AMOUNT_EXCEEDS', proves: 'nothing', mayBeOurs: true },
    ...rows(['refund_in_progress', 'movement_operations_pending'], {
      code: 'REFUND_IN_PROGRESS',
      proves: 'nothing',
    }),
    { on: 'order_payment_not_yet_enabled_for_refund', code: 'REFUND_IN_PROGRESS' },
    {
      on: 'order_already_refunded',
      code: 'ORDER_ALREADY_REFUNDED',
      proves: 'nothing',
      mayBeOurs: true,
    },
    ...rows(['refund_period_exceeded', 'in_store_payment_refund_order', '2024', '15016'], {
      code: 'ORDER_NOT_REFUNDABLE',
      hint: tooLate,
    }),
    ...rows(['transaction_not_found', '2000', '2032'], {
      code: 'ORDER_NOT_REFUNDABLE',
      hint: noPaymentThere,
    }),
    ...rows(
      [
        'cannot_refund_order',
        'payment_not_refundable',
        'max_refunds_exceeded',
        'action_not_allowed_for_current_state',
        '2022',
        '2025',
        '2027',
        '2029',
      ],
      { code: 'ORDER_NOT_REFUNDABLE' },
    ),
    // A payment that is refunded already is answered so, too.
    ...rows(['2018', '2063'], {
      code: 'ORDER_NOT_REFUNDABLE',
      proves: 'nothing',
      mayBeOurs: true,
    }),
    ...rows(['insufficient_money_for_refund', '2030', '2031'], {
      code: 'PROVIDER_REJECTED',
      hint: smallBalance,
    }),
    ...rows(['2085', '4040', '4041', '4292'], {
      code: 'PROVIDER_REJECTED',
      hint: 'a value does not meet its rules',
    }),
  ],
  'order.simulate': [
    {
      on: 'bad_request',
      code: 'PROVIDER_REJECTED',
      hint: 'it does not accept this event for the order',
    },
    { on: 'forbidden', code: 'NOT_SANDBOX' },
    noOrder,
  ],
  'payment.read': [{ on: '2000', code: 'NOT_FOUND' }],
  'payment.search': [],
  'chargeback.read': [],
  'chargeback.search': [],
  'report.config': [],
  'report.order': [],
  'report.task': [],
  'report.list': [],
  'oauth.exchange': [
    ...rows(['invalid_grant', 'invalid_scope', 'unauthorized_client', 'forbidden'], {
      code: 'OAUTH_DENIED',
    }),
    ...rows(['invalid_client', 'invalid_request', 'unsupported_grant_type', 401], {
      code: 'PROVIDER_REJECTED',
      hint: 'the settings of this application at the provider must be checked',
    }),
  ],
  'oauth.refresh': [
    ...rows(['invalid_grant', 'unauthorized_client', 'forbidden'], { code: 'CONNECTION_LOST' }),
    ...rows(['invalid_client', 'invalid_request', 'invalid_scope', 'unsupported_grant_type', 401], {
      code: 'PROVIDER_REJECTED',
      hint: 'the settings of this application at the provider must be checked',
    }),
  ],
  'store.create': [
    ...fieldRows({
      INVALID_NAME: 'name',
      INVALID_LOCATION: 'location',
      INVALID_STREET_NAME: 'location.street_name',
      INVALID_STREET_NUMBER: 'location.street_number',
      INVALID_CITY_NAME: 'location.city_name',
      INVALID_STATE_NAME: 'location.state_name',
      INVALID_ZIP_CODE: 'location',
      INVALID_LATITUDE: 'location.latitude',
      INVALID_LONGITUDE: 'location.longitude',
      INVALID_REFERENCE: 'location.reference',
      INVALID_EXTERNAL_ID: 'external_id',
    }),
    // A taken external_id has the same code, and only the text differs: search before or after.
    ...rows(['VALIDATION_ERROR', 'validation_error', 'BAD_REQUEST', 'bad_request'], {
      code: 'VALIDATION_ERROR',
      field: '',
      fieldReason: { code: 'STORE_REFUSED' },
    }),
    ...rows(['UNKNOWN_FIELD', 'INVALID_USER_ID', 'INVALID_BUSINESS_HOURS', 'INVALID_DAY'], {
      code: 'PROVIDER_REJECTED',
    }),
    ...rows(['Forbidden', 'forbidden', 403], {
      code: 'PROVIDER_REJECTED',
      hint: 'this account may not create stores',
    }),
  ],
  'store.find': rows(
    ['INVALID_USER_ID', 'INVALID_OFFSET', 'INVALID_LIMIT', 'INVALID_EXTERNAL_ID'],
    {
      code: 'PROVIDER_REJECTED',
    },
  ),
  'store.update': rows(['INVALID_STORE_ID', 'INVALID_USER_ID', 'UNKNOWN_FIELD'], {
    code: 'PROVIDER_REJECTED',
  }),
  'store.delete': rows(['INVALID_USER_ID', 'INVALID_STORE_ID', 'UNKNOWN_FIELD'], {
    code: 'PROVIDER_REJECTED',
  }),
  'pos.create': [
    ...fieldRows({
      INVALID_NAME: 'pos.name',
      NAME_TOO_LONG: 'pos.name',
      INVALID_EXTERNAL_ID: 'pos.external_id',
      EXTERNAL_ID_TOO_LONG: 'pos.external_id',
    }),
    ...rows(['point_of_sale_exists', 'pos_already_exists'], { code: 'CONFLICT' }),
    ...rows(
      [
        'INVALID_STORE_ID',
        'INVALID_EXTERNAL_STORE_ID',
        'EXTERNAL_STORE_ID_NOT_MATCH',
        'INEXISTENT_EXTERNAL_STORE_ID',
        'non_existent_external_store_id',
        'invalid_external_store_id',
        'store_not_found',
        'internal_error_check_store_owner',
      ],
      { code: 'PROVIDER_REJECTED', hint: storeGone, isForNow: true },
    ),
    ...rows(
      [
        'MISSING_BODY',
        'UNKNOWN_FIELD_EXCEPTION',
        'INVALID_FIXED_AMOUNT',
        'FIXED_AMOUNT_FALSE',
        'INVALID_CATEGORY',
        'UNKNOWN_MCC',
        'INVALID_URL',
        'URL_TOO_LONG',
        'bad_request',
        'unprocessable_entity',
      ],
      { code: 'PROVIDER_REJECTED' },
    ),
    ...rows(['idempotency_key_already_used', 'conflict'], {
      code: 'PROVIDER_REJECTED',
      proves: 'unknown',
      hint: 'the same box is being created already; repeat the request',
    }),
  ],
  'pos.find': rows(['INVALID_LIMIT', 'INVALID_OFFSET', 'INVALID_EXTERNAL_ID'], {
    code: 'PROVIDER_REJECTED',
  }),
  'pos.update': rows(['INVALID_POS_ID', 'INVALID_NAME', 'NAME_TOO_LONG'], {
    code: 'PROVIDER_REJECTED',
  }),
  'pos.delete': rows(['INVALID_POS_ID'], { code: 'PROVIDER_REJECTED' }),
  'terminal.list': [],
  'terminal.mode': [
    {
      on: 'unsupported_site',
      code: 'PROVIDER_REJECTED',
      hint: 'it cannot switch terminals in the country of this account',
    },
    ...rows(
      ['unsupported_properties', 'required_properties', 'property_value', 'invalid_payload'],
      {
        code: 'PROVIDER_REJECTED',
      },
    ),
    {
      on: 'terminal_not_allowed_action',
      code: 'PROVIDER_REJECTED',
      hint: 'this model of terminal cannot be switched',
    },
    ...rows(['store_pos_not_found', 'not_found', 404], { code: 'TERMINAL_NOT_FOUND' }),
    // The body of the 412 is not documented, so the status decides.
    { on: 412, code: 'ONE_PDV_PER_BOX' },
  ],
  'user.read': [],
}

/** Rows for all operations; the rows of the operation itself have priority. */
export const commonRows: readonly ErrorRow[] = [
  {
    on: 'PA_UNAUTHORIZED_RESULT_FROM_POLICIES',
    code: 'PROVIDER_REJECTED',
    proves: 'nothing',
    hint: 'the production credentials of this application are not activated',
  },
  // Made before the provider reads a request (provider file 0.5).
  { on: 'unauthorized', status: 401, code: 'CONNECTION_LOST', proves: 'nothing' },
  ...rows(['too_many_requests', 'local_rate_limited', 'usage_quota_exceeded'], {
    status: 429,
    code: 'RATE_LIMITED',
    proves: 'nothing',
  }),
  // The key is in use or was used: an earlier call of ours may have made a resource under it.
  ...rows(['idempotency_key_already_used', 'idempotency_validation_failed'], {
    code: 'PROVIDER_REJECTED',
    proves: 'unknown',
  }),
  ...rows(['resource_locked', 'conflict', 423], {
    code: 'PROVIDER_REJECTED',
    proves: 'unknown',
    hint: 'it still works on the same request; repeat it',
  }),
  { on: 401, code: 'CONNECTION_LOST', proves: 'nothing' },
  { on: 429, code: 'RATE_LIMITED', proves: 'nothing' },
]

/** Codes that only repeat the status: the code of a cause is more exact. */
const statusWords: ReadonlySet<string> = new Set([
  'bad_request',
  'not_found',
  'forbidden',
  'Forbidden',
  'unauthorized',
  'validation_error',
])

/**
 * The rows of a refusal, those of the causes first. When the main code only repeats the status, the codes of the causes decide.
 * `unknown` is a code of which no row tells.
 */
export function rowsOfRefusal(
  operation: ProviderOperation,
  status: number | null,
  codes: readonly string[],
): { rows: readonly ErrorRow[]; unknown: string | null } {
  const [main, ...causes] = codes
  const isRepeated = main !== undefined && causes.length > 0 && statusWords.has(main)
  const decisive = isRepeated ? causes : codes
  const known = [...errorRows[operation], ...commonRows]
  const find = (code: string) =>
    known.find((row) => row.on === code && (row.status === undefined || row.status === status))
  const rows = decisive.flatMap((code) => find(code) ?? [])
  const unknown = decisive.find((code) => !find(code) && !isPlain(code, status))
  return { rows, unknown: rows.length === 0 ? (unknown ?? null) : null }
}

/** A code that tells no more than the status does. */
function isPlain(code: string, status: number | null): boolean {
  return statusWords.has(code) || code === String(status)
}

function fieldRows(fields: Record<string, string>): ErrorRow[] {
  return Object.entries(fields).map(([on, field]) => ({ on, code: 'VALIDATION_ERROR', field }))
}
