import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type { ChargebackState } from '../domain/chargeback.ts'
import type { ClientName } from '../domain/client-name.ts'
import type { ClosingLine, ClosingResult, ClosingState, ClosingTotals } from '../domain/closing.ts'
import type { StoredReason } from '../domain/flow-reasons.ts'
import type { StoredSum } from '../domain/money.ts'
import type { ChargeClass, Net } from '../domain/net-amount.ts'
import type { OrderStatus, Payment, PaymentMethod, ProviderRefund } from '../domain/order.ts'
import type { Role } from '../domain/permissions.ts'
import type { PaymentRefund, ProviderCharge, ProviderFee } from '../domain/provider-payment.ts'
import type { Who } from '../domain/who.ts'

/** A jsonb column: read parsed, written as JSON text, because pg sends a JavaScript array as a PostgreSQL array. */
type Json<T> = ColumnType<T, string, string>
/** The reason with its code, beside the text column; null in rows of a version without codes. */
type WhyColumn = ColumnType<StoredReason | null, string | null | undefined, string | null>
/** Set at insert, never changed. */
type Fixed<T> = ColumnType<T, T, never>
type WithDefault<T> = ColumnType<T, T | undefined, T>

type SettingsTable = { name: string; value: string; updated_at: Date }

type ClientsTable = {
  name: Fixed<ClientName>
  mp_user_id: number | null
  mp_nickname: string | null
  created_at: Fixed<Date>
}

export type OauthConnectionsTable = {
  client: Fixed<ClientName>
  mp_user_id: number
  live_mode: boolean
  access_token: string
  refresh_token: string | null
  public_key: string | null
  scope: string | null
  expires_at: Date
  connected_at: Date
  refreshed_at: Date
  refresh_started_at: Date | null
  status: 'connected' | 'lost'
  lost_reason: string | null
  version: WithDefault<number>
}

export type OauthStatesTable = {
  state_hash: string
  client: string
  code_verifier: string
  target_url: string | null
  browser_hash: string | null
  may_choose_account: boolean
  created_at: Date
  expires_at: Date
}

type InvitationsTable = {
  id: Fixed<string>
  client: Fixed<string>
  created_at: Fixed<Date>
  expires_at: Fixed<Date>
  used_at: Date | null
}

export type ApiKeysTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  key_hash: Fixed<string>
  key_mask: Fixed<string>
  /** The account of the key; null only for keys of clients without an account, made before this was stored. */
  mp_user_id: number | null
  description: string | null
  active: boolean
  created_at: Fixed<Date>
  last_used_at: Date | null
  revoked_at: Date | null
}

export type SessionsTable = {
  id: Fixed<string>
  /** Null: the administrator's. */
  key_id: Fixed<string | null>
  created_at: Fixed<Date>
  expires_at: Fixed<Date>
}

export type PeopleTable = {
  id: Fixed<string>
  /** Null: of the whole service. */
  client: Fixed<ClientName | null>
  name: Fixed<string>
  name_key: Fixed<string>
  role: Role
  stores: ColumnType<string[] | null, string | null, string | null>
  password_hash: string | null
  totp_secret: string | null
  totp_on: WithDefault<boolean>
  totp_step: number | null
  invitation_hash: string | null
  invitation_expires_at: Date | null
  created_at: Fixed<Date>
  signed_in_at: Date | null
  revoked_at: Date | null
}

export type PersonSessionsTable = {
  id: Fixed<string>
  token_hash: Fixed<string>
  person_id: Fixed<string>
  created_at: Fixed<Date>
  used_at: Date
  expires_at: Fixed<Date>
  ip_address: Fixed<string | null>
  user_agent: Fixed<string | null>
}

type SignInFailuresTable = { subject: string; failures: number; until: Date }

export type StoreLocation = {
  streetName: string
  streetNumber: string
  cityName: string
  stateName: string
  latitude: number
  longitude: number
  reference: string | null
}

export type CreationState = 'creating' | 'active' | 'deleting'

export type StoresTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  external_id: Fixed<string>
  mp_external_id: Fixed<string>
  name: string
  location: Json<StoreLocation>
  mp_store_id: string | null
  state: CreationState
  created_at: Fixed<Date>
  /** IANA; null: that of the account's country. */
  time_zone: Generated<string | null>
}

export type PosTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  store_id: Fixed<string>
  external_id: Fixed<string>
  mp_external_id: Fixed<string>
  name: string
  mp_pos_id: string | null
  state: CreationState
  created_at: Fixed<Date>
  /** How many charges of this box were answered as `not_charged`. */
  denied_charges: Generated<number>
  /** Grows with each charge that begins on the box, and with each order found for it. */
  revision: Generated<number>
}

export type OrdersTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  caja_id: Fixed<string>
  sucursal_id: Fixed<string>
  terminal_id: Fixed<string>
  mp_user_id: Fixed<number>
  external_reference: Fixed<string>
  mp_external_reference: Fixed<string>
  reference_attempt: Fixed<number>
  amount_cents: Fixed<number>
  /** Sent without decimals: the account's currency has no cents. */
  whole_amount: ColumnType<boolean, boolean | undefined, never>
  description: Fixed<string | null>
  ticket_number: Fixed<string | null>
  /** Fixed with the order: a repeated request must have the same content under its key. */
  send_ticket_number: Fixed<boolean>
  print_ticket: Fixed<boolean>
  payment_method: Fixed<PaymentMethod>
  expiration_minutes: Fixed<number>
  creation: 'intent' | 'unknown' | 'confirmed' | 'refused'
  mp_order_id: string | null
  status: OrderStatus
  status_detail: string | null
  version: WithDefault<number>
  payments: ColumnType<Payment[], string | undefined, string>
  refunds: ColumnType<ProviderRefund[], string | undefined, string>
  /** What the shop received: docs/reference/amounts.md. */
  paid_cents: WithDefault<number>
  refunded_cents: WithDefault<number>
  paid_after_close: WithDefault<boolean>
  /** Whether a person must decide about a further payment of this order; null: there was none. */
  surplus: ColumnType<
    'open' | 'decided' | null,
    'open' | 'decided' | null | undefined,
    'open' | 'decided' | null
  >
  conflict: string | null
  /** The provider's status of the open order, when it is none that is known here. */
  unknown_status: ColumnType<string | null, string | null | undefined, string | null>
  cancel_requested_at: Date | null
  sent_at: Date | null
  unanswered_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  request_key: ColumnType<string | null, string | null | undefined, string | null>
  reopened_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  refund_open: Generated<boolean>
  /** How many refunds of this order were refused. */
  denied_refunds: Generated<number>
  created_at: Fixed<Date>
  last_updated_at: Date
  expires_at: Date
  checked_at: Date | null
  checks: WithDefault<number>
  next_check_at: Date | null
  /** When the order was found at the provider without a row of ours. */
  adopted_at: ColumnType<Date | null, Date | null | undefined, never>
  /** The owner of the lease on this order's key. */
  sender: string | null
  sender_until: Date | null
  /** A person's decision on an order in doubt. */
  settled_as: ColumnType<
    'paid' | 'not_paid' | null,
    'paid' | 'not_paid' | null | undefined,
    'paid' | 'not_paid' | null
  >
  settled_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  settled_reason: ColumnType<string | null, string | null | undefined, string | null>
  /** Why a person must decide how the open refund ended. */
  refund_unclear: ColumnType<string | null, never, string | null>
  /** What contradicts a person's decision on a refund, from the provider. */
  refund_contradicted: ColumnType<string | null, never, string | null>
  /** As the provider first named it (`ARS`). */
  currency: ColumnType<string | null, never, string | null>
  /** A person has decided on a refund of the order. */
  refund_settled: Generated<boolean>
  /** What the seller receives for the charge, as far as known. */
  net: ColumnType<Net | null, string | null | undefined, string | null>
}

export type ChargeClassesTable = {
  name: Fixed<string>
  /** Empty: any entity, or none. */
  entity: Fixed<string>
  class: ChargeClass
  origin: WithDefault<'built_in' | 'operator'>
  updated_at: Date
  applied: boolean
}

export type SettlementFilesTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  report: Fixed<'settlement' | 'release'>
  origin: Fixed<'handed_in' | 'fetched'>
  name: Fixed<string | null>
  digest: Fixed<string>
  rows: Fixed<number>
  added: Fixed<number>
  totals: Json<{
    grossCents: StoredSum
    feeCents: StoredSum
    financingCents: StoredSum
    taxesCents: StoredSum
    netCents: StoredSum
  }>
  from_at: Fixed<Date | null>
  to_at: Fixed<Date | null>
  readings: WithDefault<number>
  created_at: Fixed<Date>
  last_read_at: Date
}

export type SettlementFetchesTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  report: Fixed<'settlement' | 'release'>
  from_day: Fixed<string>
  to_day: Fixed<string>
  state: 'waiting' | 'ordered' | 'taken_in' | 'refused'
  task_id: ColumnType<string | null, string | null | undefined, string | null>
  file_name: ColumnType<string | null, string | null | undefined, string | null>
  file_id: ColumnType<string | null, string | null | undefined, string | null>
  reason: ColumnType<string | null, string | null | undefined, string | null>
  failures: WithDefault<number>
  next_look_at: Date | null
  created_at: Fixed<Date>
  ended_at: ColumnType<Date | null, Date | null | undefined, Date | null>
}

export type SettlementRowsTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  report: Fixed<'settlement' | 'release'>
  source_id: Fixed<string>
  type: Fixed<string>
  detail: string
  at: Date | null
  order_id: string | null
  mp_order_id: string | null
  external_reference: string | null
  gross_cents: number | null
  fee_cents: number
  financing_cents: number
  taxes_cents: number
  taxes: Json<{ name: string; entity: string | null; cents: number }[]>
  net_cents: number
  release_on: string | null
  is_released: boolean | null
  installments: number | null
  others: Json<Record<string, string>>
  seen_in: string
  created_at: Fixed<Date>
  last_updated_at: Date
}

type AccountWebhooksTable = {
  mp_user_id: Fixed<number>
  /** Webhooks in a row that arrived in time. */
  in_time: number
  heard_at: Date
  /** Orders whose change a status check found, and whose webhook has not come since. */
  untold: WithDefault<string[]>
  untold_at: Date | null
}

export type ProviderPaymentsTable = {
  client: Fixed<ClientName>
  payment_id: Fixed<string>
  mp_user_id: number
  status: string
  status_detail: string | null
  operation_type: string | null
  channel: string | null
  currency: string | null
  external_reference: string | null
  mp_order_id: string | null
  mp_pos_id: string | null
  mp_store_id: string | null
  caja_id: string | null
  sucursal_id: string | null
  amount_cents: number | null
  amount_text: string | null
  refunded_cents: number
  paid_cents: number | null
  net_cents: number | null
  net_text: string | null
  method_type: string | null
  method_id: string | null
  installments: number | null
  fees: Json<ProviderFee[]>
  charges: Json<ProviderCharge[]>
  refunds: Json<PaymentRefund[]>
  sold_at: Date
  made_at: Date | null
  updated_at: Date | null
  release_at: Date | null
  release_status: string | null
  order_id: string | null
  /** The order that this is a further payment of: not the order's own. */
  surplus_of: ColumnType<string | null, string | null | undefined, string | null>
  fingerprint: string
  first_read_at: Fixed<Date>
  changed_at: Date
}

export type OrphansTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  payment_id: Fixed<string>
  caja_id: Fixed<string | null>
  sucursal_id: Fixed<string | null>
  amount_cents: Fixed<number>
  sold_at: Fixed<Date>
  state: 'open' | 'adopted' | 'refunded' | 'dismissed'
  reason: string | null
  order_id: string | null
  /** The order that this is a further payment of. */
  surplus_of: string | null
  found_at: Fixed<Date>
  settled_at: Date | null
  told_at: Date | null
  end_told_at: Date | null
  settled_by: ColumnType<Who | null, string | null, string | null>
  /** It was adopted in order to be refunded. */
  refund_asked: WithDefault<boolean>
}

export type ChargebacksTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  mp_user_id: Fixed<number>
  case_id: string | null
  payment_id: string
  payment_ids: ColumnType<string[], string, string>
  order_id: string | null
  caja_id: string | null
  sucursal_id: string | null
  amount_cents: number | null
  amount_text: string | null
  currency: string | null
  reason: string | null
  coverage_eligible: boolean | null
  coverage_applied: boolean | null
  documentation_status: string | null
  documents_due_at: Date | null
  state: ChargebackState
  opened_at: Date | null
  updated_at: Date | null
  found_at: Fixed<Date>
  read_at: Date | null
  decided_at: Date | null
  next_read_at: Date | null
  failures: WithDefault<number>
  told_at: Date | null
  deadline_told_at: Date | null
  end_told_at: Date | null
}

type AccountSitesTable = { mp_user_id: number; site_id: string | null; read_at: Date }

export type ClosingsTable = {
  id: Fixed<string>
  client: Fixed<ClientName>
  place: Fixed<string>
  number: Fixed<number>
  caja_id: Fixed<string | null>
  sucursal_id: Fixed<string>
  mp_user_id: Fixed<number>
  /** As `2026-11-21`. */
  business_day: Fixed<string>
  from_at: Fixed<Date>
  to_at: Date
  /** As requested. */
  requested_from: Fixed<Date>
  requested_to: Fixed<Date>
  /** Where the closing before it ends; null for the first one of a box or store. */
  follows_at: ColumnType<Date | null, never, Date | null>
  time_zone: Fixed<string>
  declared: Json<Record<string, number>>
  state: ClosingState
  result: ClosingResult | null
  reason: string | null
  read_at: Date | null
  totals: Json<ClosingTotals> | null
  lines: Json<ClosingLine[]>
  failures: number
  next_check_at: Date | null
  created_at: Fixed<Date>
  signed_at: Date | null
  signed_by: string | null
}

type ClosingChangesTable = { closing_id: string; client: string; changed_at: Date }

export type ClosingAmendmentsTable = {
  id: Fixed<string>
  closing_id: Fixed<string>
  client: Fixed<ClientName>
  number: Fixed<number>
  reason: Fixed<string>
  result: Fixed<ClosingResult>
  totals: ColumnType<ClosingTotals, string, never>
  lines: ColumnType<ClosingLine[], string, never>
  created_at: Fixed<Date>
  created_by: Fixed<string | null>
}

export type PaymentReadsTable = {
  client: ClientName
  name: string
  mp_user_id: number
  range: 'date_created' | 'date_last_updated'
  begins_at: Date
  ends_at: Date
  part_begins_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  part_ends_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  mp_pos_id: string | null
  mp_store_id: string | null
  next_offset: WithDefault<number>
  total: ColumnType<number | null, number | null | undefined, number | null>
  began_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  finished_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  restarts: WithDefault<number>
}

/** The requester of an operation that the service may end later. */
export type AskedBy = {
  address: string | null
  key_id?: string
  person?: { id: string; name: string }
  session_id?: string
  reason?: string
}

export type OrderOperationsTable = {
  id: Fixed<string>
  order_id: Fixed<string>
  client: Fixed<ClientName>
  kind: Fixed<'cancel' | 'refund'>
  refund_type: Fixed<'total' | 'partial' | null>
  /** The amount to refund; after the refund, what was refunded: a total refund may return less than expected. */
  amount_cents: number | null
  state: 'intent' | 'unknown' | 'done' | 'refused'
  mp_refund_id: string | null
  provider_code: string | null
  attempts: WithDefault<number>
  next_attempt_at: Date | null
  /** The owner of the lease on this operation's key. */
  sender: string | null
  sender_until: Date | null
  unanswered_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  request_key: ColumnType<string | null, string | null | undefined, string | null>
  /** The provider's ids of the order's refunds when the intent was written; null when its list was not read then. */
  refunds_before: ColumnType<string[] | null, string | null | undefined, string | null>
  created_at: Fixed<Date>
  /** Null for operations of the service itself. */
  asked_by: ColumnType<AskedBy | null, string | null | undefined, never>
  finished_at: Date | null
  /** A person's decision on a refund of unknown outcome. */
  settled_as: ColumnType<'refunded' | 'not_refunded' | null, never, 'refunded' | 'not_refunded'>
  settled_at: ColumnType<Date | null, never, Date>
  settled_reason: ColumnType<string | null, never, string>
  /** The provider's refunds that may be this one. */
  possible_refunds: ColumnType<ProviderRefund[] | null, never, string | null>
}

export type IdempotencyKeysTable = {
  client: ClientName
  route: string
  key: string
  fingerprint: string
  order_id: string
  operation_id: string | null
  created_at: Date
}

export type OrderEventsTable = {
  id: Generated<number>
  order_id: string
  client: ClientName
  at: Date
  source: string
  from_status: OrderStatus | null
  to_status: OrderStatus | null
  status_detail: string | null
  version: number
  note: string | null
}

export type OrderCallsTable = {
  id: Generated<number>
  order_id: string
  client: ClientName
  kind: 'request' | 'provider'
  at: Date
  duration_ms: number
  operation: string
  caller: string
  status: number | null
  code: string | null
  attempt: number
  request_id: string | null
}

type WebhookStatus = 'received' | 'processed' | 'duplicate' | 'ignored' | 'failed' | 'rejected'

export type WebhookLogTable = {
  id: Fixed<string>
  delivery_key: Fixed<string | null>
  client: ClientName | null
  mp_user_id: number | null
  request_id: string | null
  topic: string | null
  action: string | null
  resource_id: string | null
  order_id: string | null
  live_mode: boolean | null
  signature_valid: boolean
  signature_form: string | null
  signed_at: Date | null
  status: WebhookStatus
  error_message: string | null
  payload: Json<unknown> | null
  deliveries: WithDefault<number>
  attempts: WithDefault<number>
  next_attempt_at: Date | null
  received_at: Fixed<Date>
  processed_at: Date | null
  duration_ms: number | null
}

export type ActivityLogTable = {
  /** The order of writing; the place in the chain is that of its seal. */
  seq: GeneratedAlways<number>
  id: Fixed<string>
  client_name: Fixed<string | null>
  ip_address: Fixed<string | null>
  action: Fixed<string>
  resource_type: Fixed<string>
  resource_id: Fixed<string | null>
  status: Fixed<'success' | 'failed'>
  error_message: Fixed<string | null>
  metadata: ColumnType<Record<string, unknown>, string, never>
  duration_ms: Fixed<number>
  created_at: Fixed<Date>
  key_id: Fixed<string>
  /** Null except for entries from before the seals had a table of their own. */
  previous_hash: ColumnType<string | null, undefined, never>
  hash: Fixed<string>
}

export type ActivitySealsTable = {
  seq: Fixed<number>
  entry_id: Fixed<string>
  previous_hash: Fixed<string>
  hash: Fixed<string>
}

type ActivityUnsealedTable = { entry_id: Fixed<string> }

export type ActivityHeadTable = {
  one: boolean
  seq: number
  hash: string
  key_id: string | null
  mac: string | null
}

export type ActivityArchivesTable = {
  first_seq: Fixed<number>
  last_seq: Fixed<number>
  last_hash: Fixed<string>
  key_ids: Fixed<string[]>
  archived_at: Fixed<Date>
}

type LeasesTable = {
  name: string
  owner: string
  deadline: Date
  token: number
  in_hand: WithDefault<number>
}

type BoxSightingsTable = {
  client: ClientName
  caja_id: string
  refused_code: string | null
  refused_since: Date | null
  refused_at: Date | null
  refusals: WithDefault<number>
  found: 'pdv' | 'standalone' | 'missing' | null
  terminal_id: string | null
  found_since: Date | null
  found_at: Date | null
}

export type FleetStatesTable = {
  kind: 'box' | 'connection' | 'flow' | 'destination'
  scope: string
  name: string
  state: 'ok' | 'attention' | 'down' | 'unknown'
  cause: string | null
  since: Date | null
  about: Json<Record<string, unknown>>
}

export type FleetChangesTable = {
  id: Generated<number>
  at: Date
  kind: FleetStatesTable['kind']
  scope: string
  name: string
  from_state: FleetStatesTable['state'] | null
  from_cause: string | null
  state: FleetStatesTable['state'] | 'gone'
  cause: string | null
  since: Date | null
  about: Json<Record<string, unknown>>
}

export type Tables = {
  people: PeopleTable
  person_sessions: PersonSessionsTable
  sign_in_failures: SignInFailuresTable
  box_sightings: BoxSightingsTable
  fleet_states: FleetStatesTable
  fleet_changes: FleetChangesTable
  alert_troubles: AlertTroublesTable
  alert_messages: AlertMessagesTable
  settings: SettingsTable
  clients: ClientsTable
  oauth_connections: OauthConnectionsTable
  oauth_states: OauthStatesTable
  invitations: InvitationsTable
  api_keys: ApiKeysTable
  sessions: SessionsTable
  stores: StoresTable
  pos: PosTable
  orders: OrdersTable
  account_webhooks: AccountWebhooksTable
  charge_classes: ChargeClassesTable
  settlement_files: SettlementFilesTable
  settlement_rows: SettlementRowsTable
  settlement_fetches: SettlementFetchesTable
  provider_payments: ProviderPaymentsTable
  payment_reads: PaymentReadsTable
  account_sites: AccountSitesTable
  orphans: OrphansTable
  chargebacks: ChargebacksTable
  closings: ClosingsTable
  closing_changes: ClosingChangesTable
  closing_amendments: ClosingAmendmentsTable
  order_operations: OrderOperationsTable
  idempotency_keys: IdempotencyKeysTable
  order_events: OrderEventsTable
  order_calls: OrderCallsTable
  webhook_log: WebhookLogTable
  activity_log: ActivityLogTable
  activity_seals: ActivitySealsTable
  activity_unsealed: ActivityUnsealedTable
  activity_head: ActivityHeadTable
  activity_archives: ActivityArchivesTable
  leases: LeasesTable
  flow_pause: FlowPauseTable
  flow_limits: FlowLimitsTable
  flow_state: FlowStateTable
  flow_items: FlowItemsTable
  deliveries: DeliveriesTable
  item_versions: ItemVersionsTable
  item_attempts: ItemAttemptsTable
  flow_errors: FlowErrorsTable
  flow_polls: FlowPollsTable
  flow_totals: FlowTotalsTable
  flow_progress: FlowProgressTable
  flow_activity: FlowActivityTable
  failure_groups: FailureGroupsTable
  destination_states: DestinationStatesTable
  send_stops: SendStopsTable
  oauth_grants: OauthGrantsTable
}

type FlowPauseTable = {
  flow: string
  paused_at: WithDefault<Date>
  paused_by: WithDefault<string>
  reason: string | null
  why: WhyColumn
}

type FlowLimitsTable = {
  flow: string
  run_limit: number
  run_count: WithDefault<number>
  set_at: Date
}

/** The rules that keys and hashes of items were made by, and a SHA-256 (hex) of what else determines them: the source as it is read. */
export type ItemRules = {
  source: string
  key: string[]
  hash: { ignore: string[]; trim: boolean; emptyAsNull: boolean; decimals: Record<string, number> }
}

/** How an operator answers the question of a flow. */
export type Answer = 'send' | 'send_without_deletes' | 'keep'

/** What a destination would be sent because of a changed definition: numbers of items. */
export type AskedCounts = {
  new: number
  changed: number
  /** Delivered items that the definition excludes now. They stay there. */
  excluded: number
  /** Items whose mapping fails. */
  notMappable: number
  unchanged: number
}

/**
 * What a flow asks: about a changed definition, or about deletes that deletes.guard holds. `definition`: SHA-256 (hex) of what was
 * compared; absent in a question about deletes. Without `number`, the number of the read that asks, the comparison has not
 * ended. `answer` is set until it is applied.
 */
export type StoredQuestion = {
  definition?: string
  number?: number
  askedAt?: string
  destinations?: (AskedCounts & { name: string; isMoved: boolean })[]
  /** Items that the source lost, or that the definition does not read any more. */
  missing?: number
  /** Changes of the source that the same read found. They are sent after any answer. */
  ofSource?: number
  examples?: { destination: string; pk: string; kind: 'new' | 'changed'; body: string }[]
  held?: HeldDeletes
  /** The missing items have keys of a former definition. */
  isOtherKey?: boolean
  answer?: Answer
  /** The answer concerns only these missing items. */
  pks?: string[]
}

/** Why deletes wait. `known`: the items of the flow. `letThrough`: items of the same loss that were deleted one by one. */
export type HeldDeletes = { why: StoredReason; known: number; letThrough: number }

export type FlowStateTable = {
  flow: Fixed<string>
  definition_hash: string
  item_form: string | null
  item_rules: ColumnType<ItemRules | null, string | undefined, string>
  cursor: string | null
  cursor_origin: string | null
  last_full_scan_at: Date | null
  full_scan_due: WithDefault<boolean>
  forget_due: WithDefault<boolean>
  resets: WithDefault<number>
  read_number: WithDefault<number>
  first_seen_at: Fixed<Date>
  last_poll_at: Date | null
  last_success_at: Date | null
  record_fields: ColumnType<Record<string, unknown> | null, string | undefined, string | null>
  record_fields_form: WithDefault<string | null>
  source_identity: WithDefault<string | null>
  destination_identities: ColumnType<Record<string, string>, string | undefined, string>
  destination_forms: ColumnType<Record<string, string>, string | undefined, string>
  question: ColumnType<StoredQuestion | null, string | undefined, string | null>
  holds_deletes: WithDefault<boolean>
  /** Why the last poll left a file for a later one; null if it did not. */
  waiting_why: WhyColumn
  waiting_since: Date | null
  /** The first name of a renamed flow, for idempotency keys; null for the present one. */
  key_name: WithDefault<string | null>
  is_without_definition: WithDefault<boolean>
}

type FlowItemsTable = {
  flow: string
  pk: string
  hash: string
  seen_as: WithDefault<string | null>
  changed_at: Date
  read_number: WithDefault<number>
  missed_scans: WithDefault<number>
  missed_since: number | null
}

export type DeliveriesTable = {
  flow: Fixed<string>
  destination: Fixed<string>
  pk: Fixed<string>
  version: number
  change_number: WithDefault<number>
  kind: 'upsert' | 'delete'
  hash: string
  payload: Json<Record<string, unknown>> | null
  delivered_hash: string | null
  delivered_digest: WithDefault<string | null>
  delivered_at: Date | null
  state: 'waiting' | 'done' | 'failed'
  attempts: WithDefault<number>
  last_error: string | null
  last_status: number | null
  why: WhyColumn
  queued_at: Date
  not_before: Date | null
  /** By the database's clock; `-infinity` if it is due at once. */
  due_at: WithDefault<Date>
  finished_at: Date | null
  skipped: WithDefault<string | null>
  told_version: number | null
  delivered_body: ColumnType<KeptBody | null, string | null | undefined, string | null>
  may_have_arrived: WithDefault<boolean>
  claim: WithDefault<string | null>
  claim_exact: WithDefault<string | null>
  asked: ColumnType<AskedBody | null, string | null | undefined, string | null>
  remembered: ColumnType<RememberedNames | null, string | null | undefined, string | null>
}

/** What is stored of a delivered body for a later delete or change: all of it, or the fields that are kept of it. */
export type KeptBody = { whole: unknown } | { part: Readonly<Record<string, unknown>> }

/**
 * What an item would be at its destination by the changed definition: the digest of its body, what is stored of it, and its
 * identity there. Without `digest` its mapping fails.
 */
export type AskedBody = {
  digest?: string
  body?: KeptBody | undefined
  claim?: { exact: string; folded: string } | undefined
}

export type RememberedNames = Readonly<Record<string, string | number | boolean>>

export type OauthGrantsTable = {
  id: Fixed<string>
  refresh_token: string
  access_token: WithDefault<string | null>
  expires_at: WithDefault<Date | null>
  renewed_at: WithDefault<Date | null>
  version: WithDefault<number>
  renewal_began_at: WithDefault<Date | null>
  unheard_since: WithDefault<Date | null>
  lost_at: WithDefault<Date | null>
  lost_reason: WithDefault<string | null>
  used_by: string
  used_at: Date
}

export type DestinationStatesTable = {
  flow: string
  destination: string
  state: 'silent' | 'open' | 'probing'
  cause: string | null
  why: WhyColumn
  since: Date
  next_attempt_at: Date | null
}

/** '' as the flow: every flow; '' as the destination: every destination. */
export type SendStopsTable = {
  flow: Fixed<string>
  destination: Fixed<string>
  stopped_at: Date
  stopped_by: string
  reason: string | null
  /** Null while the stop is in force. */
  ended_at: Date | null
}

export type ItemVersionsTable = {
  flow: Fixed<string>
  pk: Fixed<string>
  id: Generated<number>
  seen_at: Fixed<Date>
  kind: Fixed<'upsert' | 'delete'>
  hash: Fixed<string>
  payload: Json<Record<string, unknown>> | null
}

export type ItemAttemptsTable = {
  flow: Fixed<string>
  pk: Fixed<string>
  id: Generated<number>
  destination: Fixed<string>
  at: Fixed<Date>
  kind: Fixed<'upsert' | 'delete'>
  hash: Fixed<string>
  attempt: Fixed<number>
  outcome: Fixed<'delivered' | 'retry' | 'failed' | 'skipped'>
  status: Fixed<number | null>
  reason: Fixed<string | null>
  why: WhyColumn
}

export type FlowErrorsTable = {
  id: Fixed<string>
  flow: Fixed<string>
  adapter: Fixed<string>
  pk: Fixed<string>
  error: Fixed<string>
  why: WhyColumn
  status: Fixed<number | null>
  attempts: Fixed<number>
  at: Fixed<Date>
}

type FlowPollsTable = {
  id: Generated<number>
  flow: string
  kind: 'full' | 'incremental'
  started_at: Date
  duration_ms: number
  rows_read: number
  changes: number
  error: string | null
  why: WhyColumn
  items_new: number | null
  items_changed: number | null
  items_deleted: number | null
  items_refused: number | null
}

export type FlowTotalsTable = {
  flow: string
  runs: WithDefault<number>
  poll_errors: WithDefault<number>
  jobs_completed: WithDefault<number>
  jobs_failed: WithDefault<number>
}

export type FlowProgressTable = {
  flow: string
  started_at: Date
  rows_read: number
  changes: number
  updated_at: Date
}

type FlowActivityTable = {
  id: Generated<number>
  at: Date
  flow: string | null
  action: string
  actor: string
  detail: string | null
  why: WhyColumn
}

export type FailureGroupsTable = {
  flow: Fixed<string>
  channel: Fixed<string>
  destination: Fixed<string>
  pending: WithDefault<number>
  first_pending_at: Date | null
  examples: ColumnType<unknown[], string | undefined, string>
  firing: WithDefault<boolean>
  firing_since: Date | null
  last_sent_at: Date | null
  messages: WithDefault<number>
  /** The message that is being sent. */
  message_id: string | null
}

export type AlertTroublesTable = {
  kind: FleetStatesTable['kind']
  scope: Fixed<string>
  name: Fixed<string>
  cause: string
  state: string
  since: Date | null
  about: Json<Record<string, unknown>>
  raised_at: Date
  told_at: Date | null
  well_since: Date | null
}

export type AlertMessagesTable = {
  channel: Fixed<string>
  id: Fixed<string>
  message: Json<unknown>
  created_at: Fixed<Date>
  attempts: WithDefault<number>
  next_attempt_at: Date | null
  sent_at: Date | null
}
