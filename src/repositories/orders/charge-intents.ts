import type { Insertable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { fixedStatement } from '../../db/statements.ts'
import type { OrdersTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { UsedConnection } from '../connection/connection-queries.ts'
import type { PosWithStore } from '../stores/store-queries.ts'
import type { OrderRow } from './order-queries.ts'
import { listOf, unknownList } from './state-lists.ts'

/** What is read before a charge, in one statement. */
export type ChargeStart = {
  pos: PosWithStore | undefined
  connection: UsedConnection | undefined
  /** The site of the connected account; null if the provider names none, undefined if it was never read. */
  site: string | null | undefined
  /** No order has this key or equal content, and no adopted order may be this charge. */
  isNew: boolean
}

/** A compile error unless the two share no column name: one row holds the columns of both. */
type Apart<A, B> = Extract<keyof A, keyof B> extends never ? A : never

/** A box and its connection; the columns of one that does not exist are null. */
type StartRow = PosWithStore &
  Apart<UsedConnection, PosWithStore> & {
    has_earlier: boolean
    site_id: string | null
    is_site_read: boolean
  }

type StartValues = {
  client: ClientName
  route: string
  key: string | undefined
  by_content: boolean
  caja_id: string
  reference: string
  amount_cents: number
}

const start = fixedStatement<StartValues, StartRow>(`
  select pos.*, stores.external_id as store_external_id, stores.mp_store_id,
    c.mp_user_id, c.live_mode, c.access_token, c.refresh_token, c.expires_at, c.connected_at, c.refreshed_at, c.status, c.version,
    s.site_id, s.mp_user_id is not null as is_site_read,
    exists (select from idempotency_keys where client = :client and route = :route and key = :key)
    or exists (select from orders where client = :client and caja_id = :caja_id
      and amount_cents = :amount_cents and adopted_at is not null)
    or (:by_content and exists (select from orders where client = :client and caja_id = :caja_id
      and amount_cents = :amount_cents and normalize(external_reference) = normalize(:reference::text)
      and (status in (${listOf('paid')}, ${listOf('open')})
        or paid_after_close or creation in (${unknownList})))) as has_earlier
  from (select 1) as always
  left join (pos join stores on stores.id = pos.store_id) on pos.client = :client and pos.external_id = :caja_id
  left join oauth_connections c on c.client = :client
  left join account_sites s on s.mp_user_id = c.mp_user_id`)

/** Reads the box, the client's connection, and whether an earlier order may be this charge. */
export async function findChargeStart(
  db: Db,
  client: ClientName,
  charge: {
    route: string
    key: string | undefined
    byContent: boolean
    cajaId: string
    externalReference: string
    amountCents: number
  },
): Promise<ChargeStart> {
  const [row] = await start(db, {
    client,
    route: charge.route,
    key: charge.key,
    by_content: charge.byContent,
    caja_id: charge.cajaId,
    reference: charge.externalReference,
    amount_cents: charge.amountCents,
  })
  if (!row) throw new Error('a row is always there')
  return {
    pos: row.id === null ? undefined : row,
    connection: row.access_token === null ? undefined : row,
    site: row.is_site_read ? row.site_id : undefined,
    isNew: !row.has_earlier,
  }
}

/** The open orders of the terminal, and how often an equal charge was requested before. */
export type TerminalUse = {
  /** As `findOpenOrdersOnTerminal`. */
  open: OrderRow[]
  /** Orders that repeat the request. */
  repeated: number
  /** The highest attempt number of this reference text. */
  attempts: number
}

type UseRow = OrderRow & { repeated: number; attempts: number }

type UseValues = { client: ClientName; terminal_id: string; request_key: string; reference: string }

const use = fixedStatement<UseValues, UseRow>(`
  select open.*, counted.* from (
    select (select count(*) from orders
        where left(request_key, 16) = left(:request_key::text, 16) and request_key = :request_key)::integer as repeated,
      (select coalesce(max(reference_attempt), 0) from orders
        where client = :client and normalize(external_reference) = normalize(:reference::text)) as attempts
  ) as counted
  left join lateral (
    select * from orders where terminal_id = :terminal_id and status in (${listOf('holdsTerminal')})
    order by created_at desc limit 10
  ) as open on true`)

export async function findTerminalUse(
  db: Db,
  client: ClientName,
  charge: { terminalId: string; requestKey: string; externalReference: string },
): Promise<TerminalUse> {
  const rows = await use(db, {
    client,
    terminal_id: charge.terminalId,
    request_key: charge.requestKey,
    reference: charge.externalReference,
  })
  const { repeated = 0, attempts = 0 } = rows[0] ?? {}
  const open = rows
    .filter(({ id }) => id !== null)
    .map(({ repeated: _, attempts: __, ...order }) => order)
  return { open, repeated, attempts }
}

const types = {
  id: 'uuid',
  request_key: 'text',
  client: 'text',
  caja_id: 'text',
  sucursal_id: 'text',
  terminal_id: 'text',
  mp_user_id: 'bigint',
  external_reference: 'text',
  mp_external_reference: 'text',
  reference_attempt: 'integer',
  amount_cents: 'bigint',
  whole_amount: 'boolean',
  description: 'text',
  ticket_number: 'text',
  send_ticket_number: 'boolean',
  print_ticket: 'boolean',
  payment_method: 'text',
  expiration_minutes: 'integer',
  creation: 'text',
  status: 'text',
  sent_at: 'timestamptz',
  unanswered_at: 'timestamptz',
  created_at: 'timestamptz',
  last_updated_at: 'timestamptz',
  expires_at: 'timestamptz',
  next_check_at: 'timestamptz',
  sender: 'uuid',
  sender_until: 'timestamptz',
} as const satisfies Partial<Record<keyof Insertable<OrdersTable>, string>>

/** The row of an intent. The other columns have no value yet. */
export type NewCharge = Required<Pick<Insertable<OrdersTable>, keyof typeof types>>

const columns = Object.keys(types).join(', ')
const values = Object.entries(types)
  .map(([column, type]) => `:${column}::${type}`)
  .join(', ')

type InsertedRow = OrderRow & { is_taken: boolean }

/** The row, what was read before it, and the link of its key. */
type InsertValues = NewCharge &
  Pick<PosWithStore, 'revision' | 'denied_charges'> &
  Pick<UsedConnection, 'access_token'> & {
    pos_id: string
    route: string
    key: string | undefined
    fingerprint: string
  }

const insert = fixedStatement<InsertValues, InsertedRow>(`
  with taken as (
    select exists (select from orders where mp_user_id = :mp_user_id::bigint
      and mp_external_reference = :mp_external_reference::text) as is_taken
  ), box as (
    update pos set revision = revision + 1
    where id = :pos_id and client = :client and state = 'active'
      and revision = :revision and denied_charges = :denied_charges
      and exists (select from oauth_connections c where c.client = :client and c.access_token = :access_token)
      and not (select is_taken from taken)
    returning id
  ), link as (
    insert into idempotency_keys (client, route, key, fingerprint, order_id, operation_id, created_at)
    select :client::text, :route::text, :key::text, :fingerprint::text, :id::uuid, null, :created_at::timestamptz from box where :key::text is not null
    on conflict (client, route, key) do update set fingerprint = excluded.fingerprint, order_id = excluded.order_id,
      operation_id = null, created_at = excluded.created_at
    where exists (select from orders where id = idempotency_keys.order_id and creation = 'refused')
    returning key
  ), intent as (
    insert into orders (${columns})
    select ${values} from box where :key::text is null or exists (select from link)
    returning *
  )
  select intent.*, taken.is_taken from taken left join intent on true`)

/**
 * Commits an intent in one statement, under the lock of its box. Conditions: the box and the client's connection are
 * unchanged since they were read, the reference is free (else `isTaken`), and the key has no order. Without `order` a
 * condition failed, or an equal request came first.
 */
export async function insertCharge(
  db: Db | Trx,
  order: NewCharge,
  seen: Pick<PosWithStore, 'id' | 'revision' | 'denied_charges'>,
  connection: Pick<UsedConnection, 'access_token'>,
  link: { route: string; key: string | undefined; fingerprint: string },
): Promise<{ order: OrderRow | undefined; isTaken: boolean }> {
  try {
    const [row] = await insert(db, {
      ...order,
      pos_id: seen.id,
      revision: seen.revision,
      denied_charges: seen.denied_charges,
      // The token is sealed again with every pair, while versions start from 1 with each connection.
      access_token: connection.access_token,
      ...link,
    })
    const { is_taken: isTaken = false, ...inserted } = row ?? ({} as Partial<InsertedRow>)
    return { order: inserted.id ? (inserted as OrderRow) : undefined, isTaken }
  } catch (error) {
    const duplicate = constraintOf(error)
    if (duplicate !== 'orders_pkey' && duplicate !== referenceKey) throw error
    return { order: undefined, isTaken: duplicate === referenceKey }
  }
}

const referenceKey = 'orders_mp_user_id_mp_external_reference_key'
