import { sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { OrderStatus } from '../../domain/order.ts'
import { chargedInstead } from '../orders/order-operations.ts'
import { statesOf } from '../orders/state-lists.ts'

/** Consecutive refused charges of a box for one reason. */
export type NewRefusal = {
  client: ClientName
  cajaId: string
  code: string
  since: Date
  at: Date
  count: number
}

/** Stores the newest row of refusals of each existing box; a refusal for the same reason continues it. */
export async function saveRefusals(db: Db, refusals: readonly NewRefusal[]): Promise<void> {
  await sql`
    insert into box_sightings (client, caja_id, refused_code, refused_since, refused_at, refusals)
    select one.client, "cajaId", code, since, at, count
    from jsonb_to_recordset(${json(inSequence(refusals))}::jsonb) as one
      (client text, "cajaId" text, code text, since timestamptz, at timestamptz, count integer)
    join pos on pos.client = one.client and pos.external_id = "cajaId"
    order by one.client, "cajaId"
    on conflict (client, caja_id) do update set
      refused_code = excluded.refused_code,
      refused_at = excluded.refused_at,
      refused_since = case when ${continues} then box_sightings.refused_since else excluded.refused_since end,
      refusals = case when ${continues} then box_sightings.refusals else 0 end + excluded.refusals`.execute(
    db,
  )
}

/** No charge of the box was accepted in between. */
const continues = sql`(box_sightings.refused_code = excluded.refused_code and not exists (
  select from orders where orders.client = box_sightings.client and orders.caja_id = box_sightings.caja_id
    and orders.created_at > box_sightings.refused_at and orders.creation = 'confirmed'))`

/** What was read about the terminals of a box. */
export type NewFinding = {
  client: ClientName
  cajaId: string
  found: 'pdv' | 'standalone' | 'missing'
  terminalId: string | null
  at: Date
}

/** Stores the last finding about the terminals of each box. */
export async function saveFindings(db: Db, findings: readonly NewFinding[]): Promise<void> {
  await sql`
    insert into box_sightings (client, caja_id, found, terminal_id, found_since, found_at)
    select client, "cajaId", found, "terminalId", at, at
    from jsonb_to_recordset(${json(inSequence(findings))}::jsonb) as one
      (client text, "cajaId" text, found text, "terminalId" text, at timestamptz)
    order by client, "cajaId"
    on conflict (client, caja_id) do update set
      found = excluded.found,
      terminal_id = excluded.terminal_id,
      found_at = excluded.found_at,
      found_since = case when box_sightings.found = excluded.found then box_sightings.found_since
        else excluded.found_since end`.execute(db)
}

function inSequence<T extends { client: string; cajaId: string }>(rows: readonly T[]): T[] {
  const place = ({ client, cajaId }: T) => JSON.stringify([client, cajaId])
  return rows.toSorted((a, b) => (place(a) < place(b) ? -1 : 1))
}

export type BoxSightingRow = Awaited<ReturnType<typeof listSightings>>[number]

/** Each box in use with its stored observations; of one client, or of all. */
export async function listSightings(db: Db, client?: ClientName) {
  let query = db
    .selectFrom('pos')
    .innerJoin('stores', 'stores.id', 'pos.store_id')
    .leftJoin('box_sightings', (join) =>
      join
        .onRef('box_sightings.client', '=', 'pos.client')
        .onRef('box_sightings.caja_id', '=', 'pos.external_id'),
    )
    .where('pos.state', '=', 'active')
  if (client !== undefined) query = query.where('pos.client', '=', client)
  return query
    .select([
      'pos.client',
      'pos.external_id as cajaId',
      'stores.external_id as sucursalId',
      'refused_code as refusedCode',
      'refused_since as refusedSince',
      'refused_at as refusedAt',
      'refusals',
      'found',
      'terminal_id as terminalId',
      'found_since as foundSince',
      'found_at as foundAt',
    ])
    .orderBy('pos.client')
    .orderBy('stores.external_id')
    .orderBy('pos.external_id')
    .execute()
}

/** A charge of a box, as far as it shows the state of the box. */
export type BoxChargeRow = {
  client: ClientName
  cajaId: string
  orderId: string
  reference: string
  terminalId: string
  status: OrderStatus
  /** Whether the provider is known to have it. */
  creation: 'intent' | 'unknown' | 'confirmed' | 'refused'
  createdAt: Date
  /** When the provider was first known to have it. */
  confirmedAt: Date | null
  /** When the terminal first showed that it has it; null before that. */
  lifeAt: Date | null
  /** The time of the last status check. */
  checkedAt: Date | null
  /** Its last change. */
  changedAt: Date
  /** When it left the terminal; null while it may be there, and when it never was at the provider. */
  endedAt: Date | null
  expiresAt: Date
  /** Its cancel was requested here. */
  isGivenUp: boolean
  /**
   * Why it is unknown whether the customer has paid, while no person has settled it: `in_doubt`, the provider did not confirm the
   * charge; `contradicted`, what it shows contradicts the order.
   */
  doubt: 'in_doubt' | 'contradicted' | null
  /** A person's decision on an order in doubt. */
  settledAs: 'paid' | 'not_paid' | null
}

/**
 * The newest charges of each box in use, or of those `among` them, newest first. The terminal shows an order some
 * time before a status check. For paid or declined orders their answer is the sign of life; for others it is their
 * history. A charge that was begun after `doubtBefore` is too young to be in doubt.
 */
export async function listBoxCharges(
  db: Db,
  { limit, doubtBefore }: { limit: number; doubtBefore: Date },
  {
    client,
    among,
  }: {
    client?: ClientName | undefined
    among?: readonly { client: ClientName; cajaId: string }[]
  },
): Promise<BoxChargeRow[]> {
  const isAmong = sql`and (pos.client, pos.external_id) in (select client, "cajaId"
    from jsonb_to_recordset(${json(among ?? [])}::jsonb) as one (client text, "cajaId" text))`
  const { rows } = await sql<BoxChargeRow>`
    select pos.client, pos.external_id as "cajaId", o.id as "orderId", o.external_reference as reference,
      o.terminal_id as "terminalId", o.status, o.creation, o.created_at as "createdAt",
      case when o.creation = 'confirmed' then coalesce(seen.confirmed, o.created_at) end as "confirmedAt",
      case
        when o.creation <> 'confirmed' then null
        when o.status in (${statesOf('showsTerminal')}) then o.last_updated_at
        when o.payments -> -1 ->> 'statusDetail' = 'canceled_on_terminal' then o.last_updated_at
        when o.status in (${statesOf('refunded')}) then coalesce(seen.paid, o.last_updated_at)
        else seen.life
      end as "lifeAt",
      o.checked_at as "checkedAt", o.last_updated_at as "changedAt",
      case
        when o.creation <> 'confirmed' or o.status in (${statesOf('holdsTerminal')}) then null
        when o.status in (${statesOf('refunded')}) then coalesce(seen.paid, o.last_updated_at)
        else o.last_updated_at
      end as "endedAt",
      o.expires_at as "expiresAt", o.cancel_requested_at is not null as "isGivenUp",
      case when o.is_charge_unclear and o.created_at <= ${doubtBefore}::timestamptz then 'in_doubt'
        when o.is_contradicted then 'contradicted' end as doubt, o.settled_as as "settledAs"
    from pos
    cross join lateral (
      select id, external_reference, terminal_id, status, creation, created_at, payments, checked_at, last_updated_at,
        expires_at, cancel_requested_at, is_charge_unclear, is_contradicted, settled_as
      from order_figures as orders
      where orders.client = pos.client and orders.caja_id = pos.external_id
      order by created_at desc
      limit ${limit}
    ) as o
    left join lateral (
      select max(at) filter (where to_status = 'created') as confirmed,
        min(at) filter (where to_status <> 'created' and to_status in (${statesOf('open')})) as life,
        min(at) filter (where to_status = 'processed') as paid
      from order_events
      where order_events.order_id = o.id
        and o.status not in (${statesOf('showsTerminal')})
    ) as seen on true
    where pos.state = 'active' ${client === undefined ? sql`` : sql`and pos.client = ${client}`}
      ${among === undefined ? sql`` : isAmong}
    order by pos.client, pos.external_id, o.created_at desc`.execute(db)
  return rows
}

export type UndecidedRow = {
  client: ClientName
  cajaId: string
  orderId: string
  reference: string
  decision: 'paid_late' | 'paid_less' | 'settled_unpaid' | 'refund_in_doubt'
  /** The order's last change. */
  since: Date
  /** The reference of the charge that was made instead. */
  instead: string | null
}

/** For each box the newest order whose money a person must decide, by `decisionOf` and by its refunds; none made before `since`. */
export async function listUndecided(
  db: Db,
  since: Date,
  client?: ClientName,
): Promise<UndecidedRow[]> {
  const isOf = sql`late.created_at >= ${since}::timestamptz
    ${client === undefined ? sql`` : sql`and late.client = ${client}`}`
  const { rows } = await sql<UndecidedRow>`
    select distinct on (late.client, late.caja_id) late.client, late.caja_id as "cajaId", late.id as "orderId",
      late.external_reference as reference,
      case when is_refund_unclear then 'refund_in_doubt' when late.paid_after_close then 'paid_late'
        when late.settled_as = 'paid' then 'settled_unpaid'
        else 'paid_less' end as decision,
      late.last_updated_at as since,
      case when late.paid_after_close then (select instead.external_reference ${chargedInstead}) end as instead
    from (
      select * from order_figures as late where is_refund_unclear and ${isOf}
      union all
      select * from order_figures as late where ${isOf} and is_money_undecided
      union all
      select * from order_figures as late where ${isOf} and is_settled_unpaid
    ) as late
    order by late.client, late.caja_id, late.last_updated_at desc, late.id`.execute(db)
  return rows
}

export type ClientConnectionRow = {
  client: ClientName
  status: 'connected' | 'lost' | 'none'
  /** Whether it may be connected to one account only. */
  isPinned: boolean
  expiresAt: Date | null
  isRenewable: boolean
  refreshedAt: Date | null
  /** When the unfinished renewal was begun. */
  refreshStartedAt: Date | null
}

/** All clients with the state of their connection; or one client. */
export async function listClientConnections(
  db: Db,
  client?: ClientName,
): Promise<ClientConnectionRow[]> {
  let query = db
    .selectFrom('clients')
    .leftJoin('oauth_connections', 'oauth_connections.client', 'clients.name')
  if (client !== undefined) query = query.where('clients.name', '=', client)
  return query
    .select((eb) => [
      'clients.name as client',
      sql<ClientConnectionRow['status']>`coalesce(status, 'none')`.as('status'),
      eb('clients.mp_user_id', 'is not', null).as('isPinned'),
      'expires_at as expiresAt',
      eb('refresh_token', 'is not', null).as('isRenewable'),
      'refreshed_at as refreshedAt',
      'refresh_started_at as refreshStartedAt',
    ])
    .orderBy('clients.name')
    .execute() as Promise<ClientConnectionRow[]>
}

/**
 * Payments of each client that status checks found since its last webhook, up to `limit`, none older than `since`. A
 * webhook may come a little later, so the last moments (`before`) do not count yet.
 */
export async function listPaymentsWithoutWebhook(
  db: Db,
  {
    client,
    since,
    before,
    limit,
  }: { client?: ClientName | undefined; since: Date; before: Date; limit: number },
): Promise<{ client: ClientName; count: number; since: Date }[]> {
  const { rows } = await sql<{ client: ClientName; count: number; since: Date }>`
    select clients.name as client, untold.count::integer as count, untold.since
    from clients
    left join lateral (
      select received_at from webhook_log where client = clients.name order by received_at desc limit 1
    ) as webhook on true
    cross join lateral (
      select count(*) as count, min(at) as since from (
        select at from order_events
        where client = clients.name and to_status = 'processed' and source <> 'webhook'
          and at > greatest(webhook.received_at, ${since}::timestamptz) and at < ${before}::timestamptz
        limit ${limit}
      ) as ends
    ) as untold
    where untold.count > 0 ${client === undefined ? sql`` : sql`and clients.name = ${client}`}`.execute(
    db,
  )
  return rows
}
