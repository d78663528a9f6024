import { type Insertable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { OrderOperationsTable } from '../../db/tables.ts'
import type { ChargebackState } from '../../domain/chargeback.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { isResultUnknown } from '../../domain/order-state.ts'
import type { IdempotencyScope } from './idempotency-keys.ts'
import type { OrderOperationRow } from './order-operations.ts'
import type { OrderRow } from './order-queries.ts'
import { unknownList } from './state-lists.ts'

/** What is read before a refund, in one statement. */
export type RefundStart = {
  /** The operation that the key is linked to. */
  linked: { operation: OrderOperationRow; fingerprint: string; at: Date } | undefined
  /** The open refund of the order. */
  open: OrderOperationRow | undefined
  /** The number of refunds of the order that repeat the request. */
  repeated: number
}

type StartRow = OrderOperationRow & {
  is_linked: boolean
  fingerprint: string
  linked_at: Date
  repeated: number
}

const start = fixedStatement<
  IdempotencyScope & { order_id: string; request_key: string },
  StartRow
>(`
  select operation.*, operation.id = link.operation_id as is_linked, link.fingerprint, link.created_at as linked_at,
    counted.repeated
  from (select count(*)::integer as repeated from order_operations
    where order_id = :order_id and request_key = :request_key) as counted
  left join idempotency_keys link on link.client = :client and link.route = :route and link.key = :key
  left join order_operations operation on operation.id = link.operation_id
    or operation.order_id = :order_id and operation.kind = 'refund' and operation.state in (${unknownList})`)

export async function findRefundStart(
  db: Db | Trx,
  orderId: string,
  scope: IdempotencyScope,
  requestKey: string,
): Promise<RefundStart> {
  const rows = await start(db, { ...scope, order_id: orderId, request_key: requestKey })
  let found: RefundStart = { linked: undefined, open: undefined, repeated: rows[0]?.repeated ?? 0 }
  for (const { is_linked: isLinked, fingerprint, linked_at: at, repeated, ...operation } of rows) {
    if (operation.id === null) continue
    if (isLinked) found = { ...found, linked: { operation, fingerprint, at } }
    const isOpen = isResultUnknown(operation.state)
    if (isOpen && operation.order_id === orderId) found = { ...found, open: operation }
  }
  return found
}

/** The cases that name one of these payments, and the payments that are charged back without a known case. */
export async function listCasesOfPayments(
  db: Db,
  client: ClientName,
  paymentIds: readonly string[],
): Promise<{ case_id: string | null; state: ChargebackState }[]> {
  if (paymentIds.length === 0) return []
  return db
    .selectFrom('chargebacks')
    .select(['case_id', 'state'])
    .where('client', '=', client)
    .where(
      sql<boolean>`(payment_id = any(${[...paymentIds]}::text[]) or jsonb_exists_any(payment_ids, ${[...paymentIds]}::text[]))`,
    )
    .execute()
}

const linkValues = `select :client::text, :route::text, :key::text, :fingerprint::text, :order_id::uuid, :operation_id::uuid,
      :created_at::timestamptz`

/**
 * A refund without an ERP key takes over the link of the last one. Another key takes over only the link of a refused
 * operation.
 */
const linkConflict = `on conflict (client, route, key) do update set fingerprint = excluded.fingerprint,
      order_id = excluded.order_id, operation_id = excluded.operation_id, created_at = excluded.created_at
    where :is_bare::boolean or exists (select from orders where id = idempotency_keys.order_id and creation = 'refused')
      or exists (select from order_operations where id = idempotency_keys.operation_id and state = 'refused')
      or idempotency_keys.operation_id = excluded.operation_id`

type NewRefund = Pick<
  Required<Insertable<OrderOperationsTable>>,
  | 'id'
  | 'refund_type'
  | 'amount_cents'
  | 'next_attempt_at'
  | 'sender'
  | 'sender_until'
  | 'unanswered_at'
  | 'request_key'
  | 'refunds_before'
  | 'created_at'
  | 'asked_by'
>

type RefundLink = IdempotencyScope & { fingerprint: string; isBare: boolean }

/** The values of the link of a key. */
type LinkValues = IdempotencyScope & {
  fingerprint: string
  is_bare: boolean
  order_id: string
  operation_id: string
  created_at: Date | string
}

/** The row, its link, and the order as it was read. */
type InsertValues = NewRefund & LinkValues & Pick<OrderRow, 'version' | 'denied_refunds'>

const insert = fixedStatement<InsertValues, OrderOperationRow>(`
  with locked as (
    select id from orders where id = :order_id::uuid and version = :version and denied_refunds = :denied_refunds for update
  ), link as (
    insert into idempotency_keys (client, route, key, fingerprint, order_id, operation_id, created_at)
    ${linkValues} from locked
    ${linkConflict}
    returning key
  ), intent as (
    insert into order_operations (id, order_id, client, kind, refund_type, amount_cents, state, next_attempt_at,
      sender, sender_until, unanswered_at, request_key, refunds_before, created_at, asked_by)
    select :operation_id::uuid, :order_id::uuid, :client::text, 'refund', :refund_type::text, :amount_cents::bigint,
      'intent', :next_attempt_at::timestamptz, :sender::uuid, :sender_until::timestamptz,
      :unanswered_at::timestamptz, :request_key::text, :refunds_before::jsonb, :created_at::timestamptz,
      :asked_by::jsonb from link
    returning *
  ), noted as (
    update orders set refund_open = true from intent where orders.id = intent.order_id
  )
  select * from intent`)

/**
 * Commits the intent of a refund with the link of its key in one statement. Undefined when the order has changed,
 * another refund of it is open, or the key is linked.
 */
export async function insertRefund(
  db: Db,
  order: Pick<OrderRow, 'id' | 'version' | 'denied_refunds'>,
  refund: NewRefund,
  { isBare, ...link }: RefundLink,
): Promise<OrderOperationRow | undefined> {
  try {
    const [row] = await insert(db, {
      ...refund,
      ...link,
      is_bare: isBare,
      operation_id: refund.id,
      order_id: order.id,
      version: order.version,
      denied_refunds: order.denied_refunds,
    })
    return row
  } catch (error) {
    // Another refund was begun, or this one by a duplicate request.
    const came = constraintOf(error)
    if (came === 'order_operations_one_open' || came === 'order_operations_pkey') return undefined
    throw error
  }
}

const relink = fixedStatement<LinkValues, { key: string }>(`
  insert into idempotency_keys (client, route, key, fingerprint, order_id, operation_id, created_at)
  ${linkValues} ${linkConflict} returning key`)

/** Links a key to an existing refund. Returns whether it did. */
export async function linkRefund(
  db: Db,
  { id, order_id }: Pick<OrderOperationRow, 'id' | 'order_id'>,
  { isBare, ...link }: RefundLink,
  at: Date,
): Promise<boolean> {
  const rows = await relink(db, {
    ...link,
    is_bare: isBare,
    operation_id: id,
    order_id,
    created_at: at,
  })
  return rows.length > 0
}

/** Deletes the link of a key to its refund. */
export async function unlinkRefund(db: Db, scope: IdempotencyScope): Promise<void> {
  await db
    .deleteFrom('idempotency_keys')
    .where('client', '=', scope.client)
    .where('route', '=', scope.route)
    .where('key', '=', scope.key)
    .execute()
}
