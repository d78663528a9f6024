import { sql } from 'kysely'
import type { Database } from '../../src/db/database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import { chain, daysOf, problemBoxes, typedCharges, unlistedSale } from './chain-plan.ts'
import { type ChainService, sandboxCall } from './chain-service.ts'
import type { Terminals } from './open-chain.ts'

/** How the sales end, in turn; most are paid. */
const ends = [...Array<string>(16).fill('processed'), 'failed', 'failed', 'canceled', 'expired']
const firstPaymentId = 910_000_000
const firstTypedId = 990_000_000
const paymentsAtOnce = 1_000

/** A payment as the sandbox takes it. */
export type SeededPayment = Record<string, unknown>

/**
 * Writes the sales of yesterday and today straight into the database, with the payments that the service would have read of them.
 * The boxes are there already. Answers how many sales there are, and the payments, for `tellSandbox`.
 */
export async function fillSales(
  database: Database,
  now: Date,
  terminals: Terminals,
): Promise<{ sales: number; payments: SeededPayment[] }> {
  const { yesterday, today } = daysOf(now)
  await fillOrders(database, { ...yesterday, first: 1, count: chain.salesYesterday, terminals })
  await fillOrders(database, {
    ...today,
    first: chain.salesYesterday + 1,
    count: chain.salesToday,
    terminals,
  })
  await fillPayments(database, now)
  await fillTyped(database, today)
  await sql`analyze`.execute(database.db)
  return {
    sales: chain.salesYesterday + chain.salesToday,
    payments: await readPayments(database),
  }
}

type Part = { from: Date; to: Date; first: number; count: number; terminals: Terminals }

async function fillOrders(
  { db }: Database,
  { from, to, first, count, terminals }: Part,
): Promise<void> {
  await sql`
    insert into orders (id, client, caja_id, sucursal_id, terminal_id, mp_user_id, external_reference,
      mp_external_reference, reference_attempt, amount_cents, send_ticket_number, print_ticket, payment_method,
      expiration_minutes, creation, mp_order_id, status, status_detail, version, payments, paid_cents, net, sent_at, created_at,
      last_updated_at, expires_at)
    select gen_random_uuid(), box.client, box.external_id, box.store, ${JSON.stringify(terminals)}::jsonb ->> box.external_id, box.mp_user_id,
      'V-' || n, 'V-' || n, 1, one.cents, true, true, 'all', 16, 'confirmed', 'ORDDEMO' || lpad(n::text, 10, '0'),
      one.status, case when one.paid then 'accredited' end, 3,
      case when one.paid or one.status = 'failed' then jsonb_build_array(jsonb_build_object(
        'id', 'PAYDEMO' || n, 'amountCents', one.cents, 'refundedCents', 0,
        'paidCents', case when one.paid then one.cents end,
        'status', case when one.paid then 'approved' else 'rejected' end,
        'statusDetail', case when one.paid then 'accredited' else 'insufficient_amount' end,
        'methodType', one.method, 'methodId', case one.method when 'debit_card' then 'debvisa' else 'visa' end,
        'installments', case when n % 6 = 0 and one.method = 'credit_card' then 3 else 1 end,
        'referenceId', (${firstPaymentId}::integer + n)::text)) else '[]' end,
      case when one.paid then one.cents else 0 end,
      case when one.paid then jsonb_build_object('state', 'estimated', 'taxes', '[]'::jsonb, 'expected', null,
        'feeCents', one.cents / 25, 'netCents', one.cents - one.cents / 25, 'releaseOn', null, 'grossCents', one.cents,
        'notClassed', '[]'::jsonb, 'financingCents', 0, 'unexplainedCents', 0) end,
      one.at, one.at, one.at + interval '9 seconds', one.at + interval '16 minutes'
    from generate_series(${first}::integer, ${first + count - 1}::integer) as n
    cross join lateral (
      select date_trunc('milliseconds', ${from}::timestamptz
          + (${to}::timestamptz - ${from}::timestamptz) * (n - ${first}::integer + 0.5) / ${count}::integer) as at,
        (${sql.val(ends)}::text[])[1 + n % ${ends.length}] as status, 50000 + n * 104729::bigint % 4000000 as cents,
        case n % 3 when 0 then 'credit_card' else 'debit_card' end as method
    ) as ended
    cross join lateral (select ended.*, ended.status = 'processed' as paid) as one
    join (
      select pos.client, pos.external_id, stores.external_id as store, clients.mp_user_id,
        row_number() over (order by pos.external_id) - 1 as place, count(*) over () as boxes
      from pos join stores on stores.id = pos.store_id join clients on clients.name = pos.client
      where pos.client = ${chain.client} and pos.external_id <> ${problemBoxes.withoutTerminal}
    ) as box on box.place = (n * 7919::bigint) % box.boxes`.execute(db)
  await sql`
    insert into order_events (order_id, client, at, source, from_status, to_status, status_detail, version)
    select id, client, last_updated_at, 'webhook', 'created', status, status_detail, 3
    from orders where client = ${chain.client} and created_at >= ${from}::timestamptz and created_at < ${to}::timestamptz`.execute(
    db,
  )
}

/** The last read is older than the service's interval, so the next one begins at once and finds what the tills sold meanwhile. */
const readBeforeMs = 10 * 60_000

/** What the service would have read of the payments of the sales. */
async function fillPayments({ db }: Database, now: Date): Promise<void> {
  const readAt = new Date(now.getTime() - readBeforeMs)
  await sql`
    insert into provider_payments (client, payment_id, mp_user_id, status, status_detail, operation_type, channel, currency,
      external_reference, mp_pos_id, mp_store_id, caja_id, sucursal_id, amount_cents, amount_text, paid_cents, method_type,
      method_id, installments, sold_at, made_at, updated_at, order_id, fingerprint, first_read_at, changed_at)
    select orders.client, payment->>'referenceId', orders.mp_user_id, 'approved', 'accredited', 'pos_payment', 'POINT', 'ARS',
      orders.external_reference, pos.mp_pos_id, stores.mp_store_id, orders.caja_id, orders.sucursal_id, orders.paid_cents,
      (orders.paid_cents / 100.0)::numeric(14, 2)::text, orders.paid_cents, payment->>'methodType', payment->>'methodId',
      (payment->>'installments')::integer, orders.last_updated_at, orders.last_updated_at, orders.last_updated_at, orders.id,
      'demo ' || md5(orders.id::text), orders.last_updated_at, orders.last_updated_at
    from orders
    cross join lateral jsonb_array_elements(orders.payments) as payment
    join pos on pos.client = orders.client and pos.external_id = orders.caja_id
    join stores on stores.id = pos.store_id
    where orders.client = ${chain.client} and orders.paid_cents > 0 and orders.mp_order_id like 'ORDDEMO%'
      and orders.external_reference <> ${unlisted}`.execute(db)
  await sql`
    insert into payment_reads (client, name, mp_user_id, range, begins_at, ends_at, began_at, finished_at)
    select name, 'changes', mp_user_id, 'date_last_updated', ${readAt}::timestamptz - interval '1 day', ${readAt}, ${readAt}, ${readAt}
    from clients where name = ${chain.client}
    on conflict (client, name) do update set ends_at = excluded.ends_at, finished_at = excluded.finished_at`.execute(
    db,
  )
}

const unlisted = `V-${chain.salesYesterday + unlistedSale}`

/** Payments of no order, as the service keeps them. */
async function fillTyped({ db }: Database, { from, to }: { from: Date; to: Date }): Promise<void> {
  const at = new Date((from.getTime() + to.getTime()) / 2)
  for (const [index, { box, cents }] of typedCharges.entries()) {
    await sql`
      insert into provider_payments (client, payment_id, mp_user_id, status, status_detail, operation_type, channel, currency,
        mp_pos_id, mp_store_id, caja_id, sucursal_id, amount_cents, amount_text, paid_cents, method_type, method_id, installments,
        sold_at, made_at, updated_at, fingerprint, first_read_at, changed_at)
      select pos.client, ${String(firstTypedId + index)}, clients.mp_user_id, 'approved', 'accredited', 'pos_payment', 'POINT',
        'ARS', pos.mp_pos_id, stores.mp_store_id, pos.external_id, stores.external_id, ${cents}::bigint,
        (${cents}::bigint / 100.0)::numeric(14, 2)::text, ${cents}::bigint, 'debit_card', 'debvisa', 1, ${at}, ${at}, ${at},
        'demo ' || md5(${box}), ${at}, ${at}
      from pos join stores on stores.id = pos.store_id join clients on clients.name = pos.client
      where pos.client = ${chain.client} and pos.external_id = ${box}`.execute(db)
  }
}

/** Gives the sandbox the payments of the sales, so that their days can be closed. */
export async function tellSandbox(
  service: Pick<ChainService, 'sandboxUrl'>,
  payments: readonly SeededPayment[],
): Promise<void> {
  for (let from = 0; from < payments.length; from += paymentsAtOnce) {
    const some = payments.slice(from, from + paymentsAtOnce)
    await sandboxCall(service, 'POST', '/_sandbox/payments', some)
  }
}

async function readPayments({ db }: Database): Promise<SeededPayment[]> {
  const rows = await db
    .selectFrom('provider_payments')
    .select([
      'payment_id',
      'mp_user_id',
      'mp_pos_id',
      'amount_text',
      'external_reference',
      'method_type',
      'method_id',
      'installments',
      'sold_at',
    ])
    .where('client', '=', asClientName(chain.client))
    .where('fingerprint', 'like', 'demo %')
    .orderBy('sold_at')
    .execute()
  return rows.map((row) => ({
    id: Number(row.payment_id),
    user_id: Number(row.mp_user_id),
    pos_id: Number(row.mp_pos_id),
    amount: row.amount_text,
    at: row.sold_at.toISOString(),
    payment_method_type: row.method_type,
    payment_method_id: row.method_id,
    installments: row.installments,
    ...(row.external_reference !== null && { external_reference: row.external_reference }),
  }))
}
