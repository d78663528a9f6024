import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { DeliveryTarget } from './deliveries.ts'

/**
 * The identity of an item at its destination, as digests that name the destination's place too: as it is written, and folded as
 * receivers may compare it.
 */
export type ItemClaim = { exact: string; folded: string }

/** Another item with the identity of an item that is to be deleted. */
export type Claimant = { flow: string; pk: string; isExact: boolean }

/**
 * For those of these items whose identity another living item has, that item: one of the same flow, or of one of `flows`
 * unless it is paused. One that has exactly the same comes first.
 */
export async function findClaimants(
  db: Db,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
  flows: readonly string[],
): Promise<Map<string, Claimant>> {
  const { rows } = await sql<Claimant & { own: string }>`
    select own.pk as own, other.flow, other.pk, other.claim_exact = own.claim_exact as "isExact"
    from deliveries as own cross join lateral (
      select flow, pk, claim_exact from deliveries as one
      where one.claim = own.claim and one.kind = 'upsert'
        and (one.flow, one.destination, one.pk) <> (own.flow, own.destination, own.pk)
        and (one.flow = own.flow or one.flow = any(${flows}::text[])
          and not exists (select from flow_pause where flow_pause.flow = one.flow))
      order by one.claim_exact = own.claim_exact desc
      limit 1
    ) as other
    where own.flow = ${flow} and own.destination = ${destination} and own.pk = any(${pks}::text[])`.execute(
    db,
  )
  return new Map(rows.map(({ own, ...claimant }) => [own, claimant]))
}

/** Which waiting upserts deletes follow: those of items whose identity is not known, or all. */
export type FollowedUpserts = 'unidentified' | 'all'

/**
 * The query of the number of the first read with such an upsert that still waits; null if none does. Deletes found by that read
 * or a later one wait for it: its item may have the identity of one that is to be deleted.
 */
export function firstUpsert(
  { flow, destination }: DeliveryTarget,
  which: FollowedUpserts,
): RawBuilder<unknown> {
  return sql`
    select min(change_number) from deliveries as waiting
    where waiting.flow = ${flow}::text and waiting.destination = ${destination}::text
      and waiting.state = 'waiting' and waiting.kind = 'upsert'
      ${which === 'unidentified' ? sql`and waiting.claim is null` : sql``}`
}

/** What `firstUpsert` finds. */
export async function firstWaitingUpsert(
  db: Db,
  target: DeliveryTarget,
  which: FollowedUpserts,
): Promise<number | undefined> {
  const { rows } = await sql<{ first: number | null }>`
    select (${firstUpsert(target, which)}) as first`.execute(db)
  return rows[0]?.first ?? undefined
}
