import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { DeliveryTarget } from './delivery-target.ts'

/**
 * The identity of an item at its destination, as digests that name the destination's place too: as it is written, and folded as
 * receivers may compare it.
 */
export type ItemClaim = { exact: string; folded: string }

/**
 * Another item with the identity of an item that is to be deleted. `deletes`: its flow will delete it. Another flow never does,
 * or not while it is paused. `isOverwritten`: at this destination of the same flow the item that is to be deleted was sent after it.
 */
export type Claimant = {
  flow: string
  pk: string
  isExact: boolean
  deletes: boolean
  isOverwritten: boolean
}

/** The flows that run here: those that delete what they miss, and the others. */
export type OpenFlows = { deleting: readonly string[]; keeping: readonly string[] }

/**
 * For those of these items whose identity another living item has, that item: of any flow with a definition, unless the flow keeps
 * what it misses, and its complete reads missed the item. One that has exactly the same comes first, then one that will be
 * deleted by its own flow.
 */
export async function findClaimants(
  db: Db,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
  { deleting, keeping }: OpenFlows,
): Promise<Map<string, Claimant>> {
  const { rows } = await sql<Claimant & { own: string }>`
    select own.pk as own, other.* from deliveries as own cross join lateral (
      select one.flow, one.pk, one.claim_exact = own.claim_exact as "isExact",
        one.flow = own.flow or one.flow = any(${deleting}::text[])
          and not exists (select from flow_pause where flow_pause.flow = one.flow) as deletes,
        (one.flow, one.destination, one.state) = (own.flow, own.destination, 'done')
          and one.claim_exact = own.claim_exact and one.delivered_at <= own.delivered_at as "isOverwritten"
      from deliveries as one
      where one.claim = own.claim and one.kind = 'upsert'
        and (one.flow, one.destination, one.pk) <> (own.flow, own.destination, own.pk)
        and not exists (
          select from flow_state where flow_state.flow = one.flow and is_without_definition
        )
        and not (one.flow = any(${keeping}::text[]) and exists (
          select from flow_items as item
          where item.flow = one.flow and item.pk = one.pk and item.missed_scans > 0
        ))
      order by "isExact" desc, "isOverwritten" desc nulls last, deletes desc
      limit 1
    ) as other
    where own.flow = ${flow} and own.destination = ${destination} and own.pk = any(${pks}::text[])`.execute(
    db,
  )
  return new Map(rows.map(({ own, ...claimant }) => [own, claimant]))
}

/** How many other items a report names. */
const mostNamed = 10

/** By destination, the keys of other items of the flow that have the identity of this one there. */
export async function listNamesakes(
  db: Db,
  flow: string,
  destinations: readonly string[],
  pk: string,
): Promise<Map<string, string[]>> {
  const { rows } = await sql<{ destination: string; pk: string }>`
    select own.destination, other.pk
    from deliveries as own
    cross join lateral (
      select one.pk from (${withClaim(sql`own.claim`)}) as one
      where one.kind = 'upsert' and one.claim_exact = own.claim_exact
        and (one.flow, one.destination) = (own.flow, own.destination) and one.pk <> own.pk
      order by one.pk limit ${mostNamed}
    ) as other
    where own.flow = ${flow} and own.destination = any(${destinations}::text[]) and own.pk = ${pk}
      and own.kind = 'upsert' and own.claim is not null
    order by own.destination, other.pk`.execute(db)
  const byDestination = Map.groupBy(rows, ({ destination }) => destination)
  return new Map([...byDestination].map(([name, found]) => [name, found.map((one) => one.pk)]))
}

/** How many identities several items of one destination have, and the keys of the items of some of them. */
type SameIdentities = { count: number; groups: string[][] }

/** Entries of the index per statement: it takes a few milliseconds. */
const claimsAtOnce = 10_000

/**
 * Counts the identities that several items of a destination have. It walks the index of claims, which shows where two
 * rows have one, and reads only these.
 */
export async function countSameIdentities(
  db: Db,
  { flow, destination }: DeliveryTarget,
): Promise<SameIdentities & { rows: number }> {
  type Page = { rows: number; last: string; count: number; groups: string[][] | null }
  const sum: SameIdentities & { rows: number } = { count: 0, groups: [], rows: 0 }
  let after: string | null = ''
  while (after !== null) {
    const found: { rows: Page[] } = await sql<Page>`
      with page as materialized (
        select claim from deliveries where claim > ${after}::text order by claim limit ${claimsAtOnce}
      ), shared as (
        select claim from page group by claim having count(*) > 1
        -- The next page may go on with the last one.
        union select max(claim) from page
      ), found as (
        select (array_agg(one.pk order by one.pk))[1:${sql.lit(mostNamed)}] as pks
        from shared cross join lateral (${withClaim(sql`shared.claim`)}) as one
        where one.kind = 'upsert' and (one.flow, one.destination) = (${flow}, ${destination})
        group by one.claim_exact having count(*) > 1
      )
      select count(*)::float8 as rows, max(claim) as last,
        (select count(*)::float8 from found) as count, (select json_agg(pks order by pks) from found) as groups
      from page`.execute(db)
    const [page] = found.rows
    if (!page) break
    sum.rows += page.rows
    sum.count += page.count
    sum.groups = [...sum.groups, ...(page.groups ?? [])].slice(0, mostNamed)
    after = page.rows < claimsAtOnce ? null : page.last
  }
  return sum
}

/** The rows with a claim, by its index, whatever the planner knows of the table. */
function withClaim(claim: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`select flow, destination, pk, kind, claim_exact from deliveries where claim = ${claim} offset 0`
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
