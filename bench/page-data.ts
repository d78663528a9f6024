import { sql } from 'kysely'
import type { Database } from '../src/db/database.ts'
import type { Shop } from './bench-service.ts'

/** The ends that the orders come to, in turn: most are paid. */
const ends = [
  ...Array<string>(14).fill('processed'),
  'failed',
  'failed',
  'canceled',
  'expired',
  'refunded',
  'partially_refunded',
]
/** One in so many is still open; then it waits for its buyer. */
const openEvery = 401
/** Few enough for the time that one statement may take. */
const ordersAtOnce = 20_000
/** Beside the shop, which has as many boxes as a chain, each other client has a few. */
const boxesOfOthers = 5

/** Gives the shop `boxes` boxes in all, and it `clients - 1` smaller neighbours. */
export async function fillShops(
  database: Database,
  shop: Shop,
  { clients, boxes }: { clients: number; boxes: number },
): Promise<void> {
  const { db } = database
  await sql`
    insert into clients (name, mp_user_id, mp_nickname, created_at)
    select 'comercio ' || n, 8000000 + n, 'COMERCIO' || n, now()
    from generate_series(2, ${clients}) as n`.execute(db)
  await sql`
    insert into oauth_connections (client, mp_user_id, live_mode, access_token, expires_at, connected_at, refreshed_at,
      status)
    select name, mp_user_id, false, 'sealed', now() + interval '90 days', now(), now(), 'connected'
    from clients where name <> ${shop.client}`.execute(db)
  await sql`
    insert into api_keys (id, client, key_hash, key_mask, active, created_at)
    select gen_random_uuid(), name, md5(name), 'mk_0123…cdef', true, now()
    from clients where name <> ${shop.client}`.execute(db)
  await sql`
    insert into stores (id, client, external_id, mp_external_id, name, location, mp_store_id, state, created_at)
    select gen_random_uuid(), c.name, s.external_id, s.mp_external_id, s.name, s.location, 'M' || c.mp_user_id, 'active', now()
    from clients c, stores s where s.client = ${shop.client} and c.name <> s.client`.execute(db)
  await sql`
    insert into pos (id, client, store_id, external_id, mp_external_id, name, mp_pos_id, state, created_at)
    select gen_random_uuid(), s.client, s.id, 'CAJA-' || n, 'CAJA' || n, 'Caja ' || n, s.mp_store_id || n, 'active', now()
    from stores s
    cross join lateral generate_series(1, case when s.client = ${shop.client} then ${boxes}::integer
      else ${boxesOfOthers}::integer end) as n
    on conflict do nothing`.execute(db)
}

/**
 * Writes orders of the last days over all boxes straight into the database, with what was reported about each: its moves, a
 * webhook and an entry of the audit log. Answers the id of one of the shop's that was paid.
 */
export async function fillOrders(database: Database, shop: Shop, count: number): Promise<string> {
  const { db } = database
  for (let from = 1; from <= count; from += ordersAtOnce) {
    await sql`
    insert into orders (id, client, caja_id, sucursal_id, terminal_id, mp_user_id, external_reference,
      mp_external_reference, reference_attempt, amount_cents, send_ticket_number, print_ticket, payment_method,
      expiration_minutes, creation, mp_order_id, status, version, payments, paid_cents, sent_at, created_at,
      last_updated_at, expires_at)
    select gen_random_uuid(), box.client, box.external_id, box.store, ${shop.terminalId}, box.mp_user_id,
      'B-' || n, 'B-' || n, 1, 100 + n * 7, true, true, 'all', 16, 'confirmed', 'ORDBENCH' || n,
      one.status, 3,
      case when one.paid or one.status = 'failed' then jsonb_build_array(jsonb_build_object(
        'id', 'PAY' || n, 'amountCents', 100 + n * 7, 'refundedCents', 0,
        'paidCents', case when one.paid then 100 + n * 7 end,
        'status', case when one.paid then 'approved' else 'rejected' end,
        'statusDetail', case when one.paid then 'accredited' else 'insufficient_amount' end,
        'methodType', 'debit_card', 'methodId', 'visa', 'installments', 1, 'referenceId', null)) else '[]' end,
      case when one.paid then 100 + n * 7 else 0 end,
      one.at, one.at, one.at + interval '9 seconds', one.at + interval '16 minutes'
    from generate_series(${from}::integer, ${Math.min(count, from + ordersAtOnce - 1)}::integer) as n
    cross join lateral (select date_trunc('milliseconds', now()) - n * interval '20 seconds' as at,
      case when n % ${openEvery} = 0 then 'at_terminal'
        else (${sql.val(ends)}::text[])[1 + n % ${ends.length}] end as status) as ended
    cross join lateral (select ended.*,
      ended.status in ('processed', 'refunded', 'partially_refunded') as paid) as one
    join (
      select p.client, p.external_id, s.external_id as store, c.mp_user_id,
        row_number() over (order by p.id) - 1 as place, count(*) over () as boxes
      from pos p join stores s on s.id = p.store_id join clients c on c.name = p.client
    ) as box on box.place = (n * 7919::bigint) % box.boxes`.execute(db)
  }
  await sql`
    insert into order_events (order_id, client, at, source, from_status, to_status, status_detail, version)
    select id, client, last_updated_at, 'webhook', 'created', status, null, 3 from orders`.execute(
    db,
  )
  await sql`
    insert into webhook_log (id, client, mp_user_id, request_id, topic, action, resource_id, order_id,
      live_mode, signature_valid, signature_form, signed_at, status, payload, received_at, processed_at, duration_ms)
    select gen_random_uuid(), client, mp_user_id, id::text, 'order', 'order.' || status, mp_order_id, id,
      false, true, 'lower', last_updated_at, 'processed',
      jsonb_build_object('action', 'order.' || status, 'type', 'order', 'data', jsonb_build_object('id', mp_order_id)),
      last_updated_at, last_updated_at, 40
    from orders`.execute(db)
  // As the service writes it, but for the hashes of its chain.
  await sql`
    with entry as (
      insert into activity_log (id, client_name, ip_address, action, resource_type, resource_id, status, metadata,
        duration_ms, created_at, mac)
      select gen_random_uuid(), client, '192.0.2.7', 'order.created', 'order', id, 'success',
        jsonb_build_object('mp_order_id', mp_order_id, 'amount', amount_cents, 'caja_id', caja_id), 400, created_at,
        repeat('0', 64)
      from orders order by created_at
      returning seq, id
    )
    insert into activity_seals (seq, entry_id, hash)
    select (select seq from activity_head) + row_number() over (order by seq), id, repeat('0', 64)
    from entry`.execute(db)
  await sql`update activity_head set seq = (select max(seq) from activity_seals), mac = null`.execute(
    db,
  )
  await sql`analyze`.execute(db)
  const { rows } = await sql<{ id: string }>`
    select id from orders where status = 'processed' and client = ${shop.client}
    order by created_at desc limit 1`.execute(db)
  const [paid] = rows
  if (!paid) throw new Error('no order was paid')
  return paid.id
}

/** One item in so many was refused by its destination, in a few ways. */
const failedEvery = 100

/** Writes the stored state of the items of a flow: most are delivered. */
export async function fillFlow(database: Database, flow: string, count: number): Promise<void> {
  const { db } = database
  await sql`
    insert into flow_items (flow, pk, hash, changed_at)
    select ${flow}, 'A-' || n, md5(n::text), now() from generate_series(1, ${count}) as n`.execute(
    db,
  )
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, delivered_hash, delivered_at, state,
      attempts, last_error, last_status, queued_at, finished_at)
    select ${flow}, 'web', 'A-' || n, 1, 'upsert', md5(n::text),
      case when is_failed then '{"id": 1}'::jsonb end,
      case when not is_failed then md5(n::text) end, case when not is_failed then now() end,
      case when is_failed then 'failed' else 'done' end, 1,
      case when is_failed then 'the shop answered 422: field ' || chr(97 + (n / ${failedEvery} % 20)) end,
      case when is_failed then 422 end, now(), now()
    from (select n, n % ${failedEvery} = 0 as is_failed from generate_series(1, ${count}) as n) as one`.execute(
    db,
  )
  await sql`
    insert into item_versions (flow, pk, seen_at, kind, hash, payload)
    select ${flow}, 'A-' || n, now(), 'upsert', md5(n::text),
      jsonb_build_object('id', 'A-' || n, 'name', 'Artículo ' || n, 'price', n)
    from generate_series(1, ${count}) as n`.execute(db)
  await sql`
    insert into item_attempts (flow, pk, destination, at, kind, hash, attempt, outcome, status, reason)
    select flow, pk, destination, now(), kind, hash, 1, case state when 'done' then 'delivered' else 'failed' end,
      coalesce(last_status, 200), last_error
    from deliveries where flow = ${flow}`.execute(db)
  await sql`
    insert into flow_errors (id, flow, adapter, pk, error, status, attempts, at)
    select gen_random_uuid(), flow, destination, pk, last_error, last_status, attempts, finished_at
    from deliveries where flow = ${flow} and state = 'failed'`.execute(db)
  await sql`analyze`.execute(db)
}

/** Gives these flows `groups` failed deliveries in turn, each refused in words of its own. */
export async function fillFailures(
  database: Database,
  flows: readonly string[],
  groups: number,
): Promise<void> {
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, last_error, last_status,
      queued_at, finished_at)
    select (${flows}::text[])[1 + n % ${flows.length}], 'web', 'A-' || n, 1, 'upsert', md5(n::text), '{"id": 1}', 'failed', 3,
      'the shop answered 422: field ' || translate(n::text, '0123456789', 'abcdefghij'), 422, now(), now()
    from generate_series(1, ${groups}::integer) as n`.execute(database.db)
  await sql`
    insert into flow_errors (id, flow, adapter, pk, error, status, attempts, at)
    select gen_random_uuid(), flow, destination, pk, last_error, last_status, attempts, finished_at
    from deliveries where state = 'failed'`.execute(database.db)
  await sql`analyze`.execute(database.db)
}
