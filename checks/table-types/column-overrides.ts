/** What the types of the columns have that the database does not say. Names are separated by spaces. */
export type TableOverrides = {
  /** Set at insert, never changed; `*` for all columns. Columns of a primary key, `client` and `created_at` always are. */
  fixed?: string
  /** Changed, though the comment above says otherwise. */
  changed?: string
  /** Every insert gives them, though the database has a default. */
  given?: string
  /** Not set at insert. */
  later?: string
  /** Never set to null by an update. */
  kept?: string
  /** The type of the value that is read; of jsonb, that of what is parsed. `table.column` is the union of that column's check. */
  types?: Readonly<Record<string, string>>
}

/** Types of columns that are the same in every table. */
export const sharedTypes: Readonly<Record<string, string>> = {
  client: 'ClientName',
  why: 'StoredReason',
}

/** What src/db/tables.ts imports for the types that are named here. */
export const imports = `import type { GeneratedAlways } from 'kysely'
import type { ClientName } from '../domain/client-name.ts'
import type { ClosingLine, ClosingTotals } from '../domain/closing.ts'
import type { EventChanges, EventType } from '../domain/event-types.ts'
import type { StoredReason } from '../texts/reason.ts'
import type { Net } from '../domain/net-amount.ts'
import type { Payment, ProviderRefund } from '../domain/order.ts'
import type { Standing } from '../domain/order-state.ts'
import type { Role } from '../domain/permissions.ts'
import type { PaymentRefund, ProviderCharge, ProviderFee } from '../domain/provider-payment.ts'
import type { Who } from '../domain/who.ts'
import type {
  AskedBody, AskedBy, Fixed, ItemRules, Json, Kept, KeptBody, Later, RememberedNames, SettlementTax, SettlementTotals, StoreLocation, StoredQuestion, WithDefault
} from './column-types.ts'
`

const record = 'Record<string, unknown>'
const texts = 'Record<string, string>'

export const overrides: Readonly<Record<string, TableOverrides>> = {
  activity_head: { changed: 'one', given: 'one' },
  activity_log: { fixed: '*', types: { metadata: record } },
  activity_seals: { fixed: '*' },
  alert_troubles: {
    given: 'about',
    types: { kind: 'fleet_states.kind', about: record },
  },
  api_keys: { fixed: 'key_hash key_mask' },
  charge_classes: { given: 'entity updated_at applied' },
  chargebacks: {
    fixed: 'mp_user_id found_at',
    given: 'payment_ids',
    types: { payment_ids: 'string[]' },
  },
  clients: { types: { name: 'ClientName' } },
  closing_amendments: {
    fixed: '*',
    types: { totals: 'ClosingTotals', lines: 'ClosingLine[]' },
  },
  closing_changes: { types: { client: 'string' } },
  closings: {
    fixed:
      'place number caja_id sucursal_id mp_user_id business_day from_at requested_from requested_to time_zone',
    given: 'declared lines failures',
    later: 'follows_at',
    types: {
      declared: 'Record<string, number>',
      totals: 'ClosingTotals',
      lines: 'ClosingLine[]',
    },
  },
  deliveries: {
    types: {
      payload: record,
      delivered_body: 'KeptBody',
      asked: 'AskedBody',
      remembered: 'RememberedNames',
    },
  },
  event_attempts: { fixed: '*' },
  event_consumers: { later: 'committed_at reader lease_until' },
  event_deletions: { types: { client: 'string' } },
  event_deliveries: { fixed: 'resource' },
  event_endpoints: {
    later:
      'former_secret former_until missed failures resting_until last_success_at stopped_at stop_reason notified_at',
    types: { types: 'EventType' },
  },
  event_head: { changed: 'one' },
  events: {
    fixed:
      'sucursal_id caja_id type at resource_type resource_id resource_version order_id changes data',
    types: { type: 'EventType', changes: 'EventChanges', data: record },
  },
  failure_groups: { types: { examples: 'unknown[]' } },
  fleet_changes: {
    fixed: '*',
    given: 'about',
    types: {
      kind: 'fleet_states.kind',
      from_state: 'fleet_states.state',
      about: record,
    },
  },
  fleet_states: { given: 'about', types: { about: record } },
  flow_activity: { fixed: '*' },
  flow_errors: { fixed: 'flow adapter pk error status attempts at' },
  flow_polls: { fixed: '*' },
  flow_state: {
    fixed: 'first_seen_at',
    kept: 'item_rules',
    types: {
      item_rules: 'ItemRules',
      record_fields: record,
      destination_identities: texts,
      destination_forms: texts,
      question: 'StoredQuestion',
      waiting_why: 'StoredReason',
    },
  },
  invitations: { fixed: 'expires_at', types: { client: 'string' } },
  item_attempts: { fixed: 'destination at kind hash attempt outcome status reason' },
  item_versions: { fixed: 'seen_at kind hash', types: { payload: record } },
  oauth_states: { given: 'may_choose_account' },
  order_calls: { fixed: '*' },
  order_events: { fixed: '*', types: { from_status: 'orders.status', to_status: 'orders.status' } },
  order_operations: {
    fixed: 'order_id kind refund_type asked_by',
    later: 'settled_as settled_at settled_reason possible_refunds',
    kept: 'settled_as settled_at settled_reason',
    types: {
      asked_by: 'AskedBy',
      refunds_before: 'string[]',
      possible_refunds: 'ProviderRefund[]',
    },
  },
  orders: {
    fixed:
      'caja_id sucursal_id terminal_id mp_user_id external_reference mp_external_reference reference_attempt amount_cents whole_amount description ticket_number send_ticket_number print_ticket payment_method expiration_minutes adopted_at',
    later: 'refund_unclear refund_contradicted currency',
    types: {
      payments: 'Payment[]',
      refunds: 'ProviderRefund[]',
      net: 'Net',
      standing: 'Standing',
    },
  },
  orphans: {
    fixed: 'payment_id caja_id sucursal_id amount_cents sold_at found_at',
    types: { settled_by: 'Who' },
  },
  payment_reads: { changed: 'name' },
  people: { fixed: 'name name_key', types: { role: 'Role', stores: 'string[]' } },
  pos: { fixed: 'store_id external_id mp_external_id' },
  provider_payments: {
    fixed: 'first_read_at',
    given: 'refunded_cents fees charges refunds',
    types: { fees: 'ProviderFee[]', charges: 'ProviderCharge[]', refunds: 'PaymentRefund[]' },
  },
  sessions: {
    fixed: 'token_hash person_id key_id admin_proof expires_at ip_address user_agent',
  },
  settlement_fetches: { fixed: 'report from_day to_day' },
  settlement_files: {
    fixed: 'report origin name digest rows added from_at to_at',
    types: { totals: 'SettlementTotals' },
  },
  settlement_rows: {
    fixed: 'report source_id type',
    types: { taxes: 'SettlementTax[]', others: texts },
  },
  stores: { fixed: 'external_id mp_external_id', types: { location: 'StoreLocation' } },
  webhook_log: { fixed: 'received_at', changed: 'client' },
}
