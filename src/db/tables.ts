import type { ColumnType, Generated } from 'kysely'
import type { ClientName } from '../domain/client-name.ts'
import type { OrderStatus, Payment, PaymentMethod, ProviderRefund } from '../domain/order.ts'

/** A jsonb column: read parsed, written as JSON text, since pg takes a JavaScript array for a PostgreSQL array. */
type Json<T> = ColumnType<T, string, string>
/** Set at insert, never changed. */
type Fixed<T> = ColumnType<T, T, never>
type WithDefault<T> = ColumnType<T, T | undefined, T>

export type SettingsTable = { name: string; value: string; updated_at: Date }

export type ClientsTable = {
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

export type InvitationsTable = {
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
  /** The account it was made for; null only for keys from before this was kept, of clients without an account. */
  mp_user_id: number | null
  description: string | null
  active: boolean
  created_at: Fixed<Date>
  last_used_at: Date | null
  revoked_at: Date | null
}

export type SessionsTable = {
  id: Fixed<string>
  /** null: the administrator's. */
  key_id: Fixed<string | null>
  created_at: Fixed<Date>
  expires_at: Fixed<Date>
}

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
  paid_cents: WithDefault<number>
  refunded_cents: WithDefault<number>
  paid_after_close: WithDefault<boolean>
  conflict: string | null
  cancel_requested_at: Date | null
  sent_at: Date | null
  unanswered_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  request_key: ColumnType<string | null, string | null | undefined, string | null>
  reopened_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  refund_open: Generated<boolean>
  created_at: Fixed<Date>
  last_updated_at: Date
  expires_at: Date
  checked_at: Date | null
  checks: WithDefault<number>
  next_check_at: Date | null
  /** When the order was found at the provider without a row of ours. */
  adopted_at: ColumnType<Date | null, Date | null | undefined, never>
  /** Who sends to the provider under this order's key now. */
  sender: string | null
  sender_until: Date | null
}

export type OrderSearchesTable = {
  mp_user_id: number
  searched_until: Date
  ends_at: Date
  finished_at: Date | null
}

export type OrderOperationsTable = {
  id: Fixed<string>
  order_id: Fixed<string>
  client: Fixed<ClientName>
  kind: Fixed<'cancel' | 'refund'>
  refund_type: Fixed<'total' | 'partial' | null>
  /** What is to be given back; once it is, what was: a total refund may find less than was thought. */
  amount_cents: number | null
  state: 'intent' | 'unknown' | 'done' | 'refused'
  mp_refund_id: string | null
  provider_code: string | null
  attempts: WithDefault<number>
  next_attempt_at: Date | null
  /** Who sends to the provider under this operation's key now. */
  sender: string | null
  sender_until: Date | null
  unanswered_at: ColumnType<Date | null, Date | null | undefined, Date | null>
  request_key: ColumnType<string | null, string | null | undefined, string | null>
  created_at: Fixed<Date>
  finished_at: Date | null
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
  is_look: boolean
  at: Date
  duration_ms: number
  operation: string
  caller: string
  status: number | null
  code: string | null
  attempt: number
  request_id: string | null
}

export type WebhookStatus =
  | 'received'
  | 'processed'
  | 'duplicate'
  | 'ignored'
  | 'failed'
  | 'rejected'

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
  seq: Fixed<number>
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
  previous_hash: Fixed<string>
  hash: Fixed<string>
}

export type ActivityHeadTable = { one: boolean; seq: number; hash: string }

export type LeasesTable = { name: string; owner: string; deadline: Date; token: number }

export type Tables = {
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
  order_searches: OrderSearchesTable
  order_operations: OrderOperationsTable
  idempotency_keys: IdempotencyKeysTable
  order_events: OrderEventsTable
  order_calls: OrderCallsTable
  webhook_log: WebhookLogTable
  activity_log: ActivityLogTable
  activity_head: ActivityHeadTable
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
  flow_alerts: FlowAlertsTable
}

export type FlowPauseTable = {
  flow: string
  paused_at: WithDefault<Date>
  paused_by: WithDefault<string>
  reason: string | null
}

export type FlowLimitsTable = {
  flow: string
  run_limit: number
  run_count: WithDefault<number>
  set_at: Date
}

export type FlowStateTable = {
  flow: Fixed<string>
  definition_hash: string
  pending_definition_hash: string | null
  item_form: string | null
  cursor: string | null
  cursor_origin: string | null
  last_full_scan_at: Date | null
  full_scan_due: WithDefault<boolean>
  forget_due: WithDefault<boolean>
  resets: WithDefault<number>
  first_seen_at: Fixed<Date>
  last_poll_at: Date | null
  last_success_at: Date | null
}

export type FlowItemsTable = { flow: string; pk: string; hash: string; changed_at: Date }

export type DeliveriesTable = {
  flow: Fixed<string>
  destination: Fixed<string>
  pk: Fixed<string>
  version: number
  kind: 'upsert' | 'delete'
  hash: string
  payload: Json<Record<string, unknown>> | null
  delivered_hash: string | null
  delivered_at: Date | null
  state: 'waiting' | 'done' | 'failed'
  attempts: WithDefault<number>
  last_error: string | null
  last_status: number | null
  queued_at: Date
  not_before: Date | null
  finished_at: Date | null
  told_version: number | null
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
  outcome: Fixed<'delivered' | 'retry' | 'failed'>
  status: Fixed<number | null>
  reason: Fixed<string | null>
}

export type FlowErrorsTable = {
  id: Fixed<string>
  flow: Fixed<string>
  adapter: Fixed<string>
  pk: Fixed<string>
  error: Fixed<string>
  status: Fixed<number | null>
  attempts: Fixed<number>
  at: Fixed<Date>
}

export type FlowPollsTable = {
  id: Generated<number>
  flow: string
  kind: 'full' | 'incremental'
  started_at: Date
  duration_ms: number
  rows_read: number
  changes: number
  error: string | null
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

export type FlowActivityTable = {
  id: Generated<number>
  at: Date
  flow: string | null
  action: string
  actor: string
  detail: string | null
}

export type FlowAlertsTable = {
  flow: Fixed<string>
  channel: Fixed<string>
  kind: Fixed<'failures' | 'degraded'>
  subject: Fixed<string>
  pending: WithDefault<number>
  first_pending_at: Date | null
  examples: ColumnType<unknown[], string | undefined, string>
  firing: WithDefault<boolean>
  firing_since: Date | null
  last_sent_at: Date | null
  messages: WithDefault<number>
  message: Json<unknown> | null
  attempts: WithDefault<number>
  next_attempt_at: Date | null
}
