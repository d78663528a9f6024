import { sql } from 'kysely'
import type { AskedBody } from '../../db/column-types.ts'
import type { Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import { deletedHash, isThere, noBody } from './deliveries.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/** An item that a destination would be sent because of a changed definition. */
export type AskedDelivery = {
  pk: string
  hash: string
  value: Record<string, unknown>
  asked: AskedBody
}

/**
 * Queues deliveries that wait for the answer of an operator. A row that waits with a change of the source stays as it is: that
 * change is sent after any answer. `change` is the number of the read.
 */
export async function askDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  asked: readonly AskedDelivery[],
  { change, at }: { change: number; at: Date },
): Promise<void> {
  if (asked.length === 0) return
  await sql`
    insert into deliveries
      (flow, destination, pk, version, change_number, kind, hash, payload, asked, state, attempts, queued_at,
        may_have_arrived)
    select ${flow}, ${destination}, pk, 1, ${change}, 'upsert', hash, value, asked, 'waiting', 0, ${at}, false
    from jsonb_to_recordset(${json(asked)}::jsonb) as one (pk text, hash text, value jsonb, asked jsonb)
    order by pk
    on conflict (flow, destination, pk) do update set
      version = deliveries.version + 1, change_number = excluded.change_number, kind = 'upsert',
      hash = excluded.hash, payload = excluded.payload, asked = excluded.asked, queued_at = excluded.queued_at,
      state = 'waiting', attempts = 0, last_error = null, last_status = null, why = null, not_before = null,
      due_at = '-infinity', finished_at = null, skipped = null
    where deliveries.state <> 'waiting'`.execute(trx)
}

/** Stores what a later delete needs of items whose present body a destination has. */
export async function keepForDeletes(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  kept: readonly Pick<AskedDelivery, 'pk' | 'asked'>[],
): Promise<void> {
  if (kept.length === 0) return
  await sql`
    update deliveries as row set
      delivered_body = one.asked->'body',
      claim = coalesce(row.claim, one.asked->'claim'->>'folded'),
      claim_exact = coalesce(row.claim_exact, one.asked->'claim'->>'exact')
    from jsonb_to_recordset(${json(kept)}::jsonb) as one (pk text, asked jsonb)
    where row.flow = ${flow} and row.destination = ${destination} and row.pk = one.pk
      and row.state = 'done' and row.delivered_digest = one.asked->>'digest'`.execute(trx)
}

/**
 * Ends up to `limit` deliveries that wait for an answer, as before the definition changed. Returns the keys of items that the
 * destination never had: the next read must find them again. Where something is remembered of one, its row stays for that.
 * Undefined when none was left.
 */
export async function withdrawAsked(
  trx: Trx,
  flow: string,
  { limit, at }: { limit: number; at: Date },
): Promise<string[] | undefined> {
  const { rows } = await sql<{ pk: string; isDeleted: boolean }>`
    with page as materialized (
      select ctid as place, pk, state = 'waiting' as is_waiting, ${isThere} as is_there from deliveries
      where flow = ${flow} and asked is not null
      order by flow, destination, pk
      limit ${limit}
      for update
    ), kept as (
      update deliveries as row set
        asked = null,
        state = case when is_waiting then 'done' else state end,
        kind = case when is_waiting and not is_there then 'delete' else kind end,
        hash = case when not is_waiting then hash when is_there then coalesce(delivered_hash, hash)
          else ${deletedHash} end,
        delivered_hash = case when is_waiting and not is_there then ${deletedHash} else delivered_hash end,
        payload = case when not is_waiting then payload end,
        finished_at = case when is_waiting then ${at}::timestamptz else finished_at end
      from page where row.ctid = page.place and (is_there or not is_waiting or remembered is not null)
    ), deleted as (
      delete from deliveries as row using page
      where row.ctid = page.place and is_waiting and not is_there and remembered is null
    )
    select pk, is_waiting and not is_there as "isDeleted" from page`.execute(trx)
  if (rows.length === 0) return undefined
  return rows.filter((row) => row.isDeleted).map(({ pk }) => pk)
}

/** Those of these items that no destination was ever to get. */
export async function withoutDeliveries(
  trx: Trx,
  flow: string,
  pks: readonly string[],
): Promise<string[]> {
  const { rows } = await sql<{ pk: string }>`
    select wanted.pk from unnest(${pks}::text[]) as wanted (pk)
    where not exists (
      select from flow_state cross join lateral jsonb_object_keys(destination_identities) as name
      join deliveries on (deliveries.flow, destination, deliveries.pk) = (${flow}, name, wanted.pk)
      where flow_state.flow = ${flow}
        and not (kind = 'delete' and state = 'done' and delivered_hash = ${deletedHash})
    )`.execute(trx)
  return rows.map(({ pk }) => pk)
}

/**
 * Ends up to `limit` deliveries that wait for an answer, as though they had been delivered. Those whose mapping fails wait like
 * others: their attempt fails, and the failure is reported. Returns whether there were any.
 */
export async function keepAsDelivered(
  trx: Trx,
  flow: string,
  { limit, at }: { limit: number; at: Date },
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with page as materialized (
      select ctid as place, state = 'waiting' and asked->'digest' is not null as is_kept from deliveries
      where flow = ${flow} and asked is not null
      order by flow, destination, pk
      limit ${limit}
      for update
    )
    update deliveries as row set
      asked = null,
      state = case when is_kept then 'done' else state end,
      delivered_hash = case when is_kept then hash else delivered_hash end,
      delivered_digest = case when is_kept then asked->>'digest' else delivered_digest end,
      delivered_body = case when is_kept then coalesce(delivered_body, asked->'body') else delivered_body end,
      claim = case when is_kept then coalesce(claim, asked->'claim'->>'folded') else claim end,
      claim_exact = case when is_kept then coalesce(claim_exact, asked->'claim'->>'exact') else claim_exact end,
      payload = case when not is_kept then payload end,
      finished_at = case when is_kept then ${at}::timestamptz else finished_at end
    from page where row.ctid = page.place`.execute(trx)
  return Number(numAffectedRows ?? 0) > 0
}

/**
 * Forgets what a destination has, of up to `limit` items: it is another place now. What waits is sent there. Returns whether
 * more may be left.
 */
export async function forgetDeliveredItems(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  limit: number,
): Promise<boolean> {
  const isOfDestination = sql`flow = ${flow} and destination = ${destination}`
  const results = [
    await sql`
      delete from deliveries where ${isOfDestination} and pk in (
        select pk from deliveries where ${isOfDestination} and state <> 'waiting' order by pk limit ${limit}
      )`.execute(trx),
    await sql`
      update deliveries set
        delivered_hash = null, delivered_digest = null, delivered_body = null, delivered_at = null,
        claim = null, claim_exact = null, may_have_arrived = false, due_at = '-infinity', not_before = null,
        remembered = null
      where ${isOfDestination} and pk in (
        select pk from deliveries
        where ${isOfDestination} 
          and (delivered_hash is not null or may_have_arrived or claim is not null or remembered is not null
            or due_at > '-infinity')
        order by pk limit ${limit}
      )`.execute(trx),
  ]
  return results.some(({ numAffectedRows }) => Number(numAffectedRows ?? 0) === limit)
}

/**
 * Forgets which bodies a destination has, of the next `limit` items after a key: whatever is found next is sent. Returns the
 * last key; undefined after the last item.
 */
export async function forgetBodies(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  { after, limit }: { after: string; limit: number },
): Promise<string | undefined> {
  // Locked first: an update of the same statement would not find a row that another one has just moved.
  const { rows } = await sql<{ pk: string }>`
    select pk from deliveries
    where (flow, destination, pk) > (${flow}, ${destination}, ${after})
      and (flow, destination) <= (${flow}, ${destination})
    order by flow, destination, pk
    limit ${limit}
    for update`.execute(trx)
  const pks = rows.map(({ pk }) => pk)
  // An attempt that runs now is one of before: what waits becomes the next version. It is a change of its own, because a receiver
  // that remembers idempotency keys would answer for the former one without doing anything.
  await sql`
    update deliveries set
      delivered_digest = ${sql.lit(noBody)},
      version = case when state = 'waiting' then version + 1 else version end,
      change_number = case when state = 'waiting' then nextval('flow_reads') else change_number end
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`.execute(trx)
  return pks.length === limit ? pks.at(-1) : undefined
}
