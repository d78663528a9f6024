import type { ErrorCode } from '../errors/app-error.ts'
import type { FieldReason } from '../errors/field-reasons.ts'

export type ProviderOperation =
  | 'order.create'
  | 'order.read'
  | 'order.cancel'
  | 'order.refund'
  | 'order.simulate'
  | 'oauth.exchange'
  | 'oauth.refresh'
  | 'store.create'
  | 'store.delete'
  | 'pos.create'
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

export type ErrorRow = {
  /** The provider's code, or the status of an answer without a code. */
  on: string | number
  code: ErrorCode
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
const storeGone = 'it does not know the store of this box'

/** Each refusal that the provider file documents, by our operation (file 1.2, 2.1 to 2.5, 3, 4, 5). */
export const errorRows: Record<ProviderOperation, readonly ErrorRow[]> = {
  'order.create': [
    ...badShape,
    unknownProperty,
    { on: 'forbidden_checking_terminal_owner', code: 'TERMINAL_NOT_FOUND' },
    ...rows(['already_queued_order_on_terminal', 'already_queued_order_for_terminal'], {
      code: 'TERMINAL_BUSY',
    }),
  ],
  'order.read': [...badId, noOrder],
  'order.cancel': [
    ...badShape,
    ...badId,
    noOrder,
    ...rows(['cannot_cancel_order', 'order_already_canceled'], { code: 'ORDER_NOT_CANCELABLE' }),
  ],
  'order.refund': [
    ...badShape,
    ...badId,
    unknownProperty,
    noOrder,
    ...rows(['unsupported_partially_refunds', 'partial_refund_forbidden_with_tips'], {
      code: 'PARTIAL_REFUND_NOT_SUPPORTED',
    }),
    ...rows(['refund_amount_exceeds', 'amount_not_refundable'], { code: 'REFUND_AMOUNT_EXCEEDS' }),
    ...rows(
      [
        'refund_in_progress',
        'movement_operations_pending',
        'order_payment_not_yet_enabled_for_refund',
      ],
      { code: 'REFUND_IN_PROGRESS' },
    ),
    { on: 'order_already_refunded', code: 'ORDER_ALREADY_REFUNDED' },
    ...rows(
      [
        'cannot_refund_order',
        'refund_period_exceeded',
        'payment_not_refundable',
        'max_refunds_exceeded',
        'action_not_allowed_for_current_state',
        'transaction_not_found',
      ],
      { code: 'ORDER_NOT_REFUNDABLE' },
    ),
    {
      on: 'insufficient_money_for_refund',
      code: 'PROVIDER_REJECTED',
      hint: 'the balance of the account is too small for this refund',
    },
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
      { code: 'PROVIDER_REJECTED', hint: storeGone },
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
      hint: 'the same box is being created already; repeat the request',
    }),
  ],
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
    hint: 'the production credentials of this application are not activated',
  },
  { on: 401, code: 'CONNECTION_LOST' },
  { on: 429, code: 'RATE_LIMITED' },
  { on: 423, code: 'PROVIDER_REJECTED', hint: 'it still works on the same request; repeat it' },
]

function fieldRows(fields: Record<string, string>): ErrorRow[] {
  return Object.entries(fields).map(([on, field]) => ({ on, code: 'VALIDATION_ERROR', field }))
}
