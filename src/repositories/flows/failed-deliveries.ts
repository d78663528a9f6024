import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { createTurns } from '../../db/event-loop-turns.ts'
import type { StoredReason } from '../../domain/flow-reasons.ts'
import { inKeyOrder } from './key-order.ts'

export type FailureGroup = {
  destination: string
  error: string
  /** Of the first of its items. */
  why: StoredReason | null
  status: number | null
  items: number
  lastAt: Date
  /** The first `samplePks` of its items. */
  pks: string[]
  /** By which it was grouped, where that is not its words. */
  cause?: string
}

/** What the words of a failure of an item come down to. */
export type NameCause = (error: string, pk: string) => string

/** A failed delivery of a flow, in the order of their keys. */
type Place = { destination: string; pk: string }

export const beforeAllFailed: Place = { destination: '', pk: '' }

/** Long words take a while to be judged, and tills are served by the same thread. */
const breathe = createTurns(10)
const samplePks = 20
const rowsAtOnce = 2_000
/** A receiver that words every refusal in its own way must not fill the memory. */
const groupsKept = 500

/** The failures of some rows of one destination that go by the same words; `lastPk` is the last of these rows. */
type GroupPart = FailureGroup & { lastPk: string }

/** Asks for the next failed deliveries after a place, grouped. To be run in key order. */
export function failureParts(
  flow: string,
  page: { after: Place; limit: number },
): RawBuilder<GroupPart> {
  return sql<GroupPart>`
    with page as materialized (
      select destination, pk, coalesce(last_error, '') as error, why, last_status, finished_at
      from deliveries
      where flow = ${flow} and state = 'failed'
        and (destination, pk) > (${page.after.destination}, ${page.after.pk})
      order by destination, pk
      limit ${page.limit}
    )
    select destination, error, last_status as status, count(*) as items,
      max(finished_at) as "lastAt", max(pk) as "lastPk",
      (array_agg(pk order by pk))[1:${sql.lit(samplePks)}] as pks, (array_agg(why order by pk))[1] as why
    from page
    group by destination, error, last_status
    order by destination, "lastPk"`
}

/**
 * The failed deliveries of a flow by what went wrong, most items first, and how many rows were read for that: `limit` in each
 * statement. By their words, or by what `causeOf` makes of them. Of more causes than 500, rare ones may be left out or counted short.
 */
export async function groupFailures(
  database: Database,
  flow: string,
  limit = rowsAtOnce,
  causeOf?: NameCause,
): Promise<{ value: FailureGroup[]; rows: number }> {
  let groups = new Map<string, FailureGroup>()
  let read = 0
  let after: Place | undefined = beforeAllFailed
  while (after) {
    const page = failureParts(flow, { after, limit })
    const { rows } = await inKeyOrder(database, (trx) => page.execute(trx))
    for (const part of rows) {
      await breathe()
      addPart(groups, part, causeOf)
    }
    if (groups.size > 2 * groupsKept) {
      groups = new Map(byItems(groups).slice(0, groupsKept))
    }
    const looked = rows.reduce((sum, { items }) => sum + items, 0)
    const last = rows.at(-1)
    after =
      last && looked === limit ? { destination: last.destination, pk: last.lastPk } : undefined
    read += looked
  }
  const most = byItems(groups).slice(0, groupsKept)
  return { value: most.map(([, group]) => group), rows: read }
}

function addPart(
  groups: Map<string, FailureGroup>,
  { lastPk, ...part }: GroupPart,
  causeOf?: NameCause,
): void {
  // Words that name an item are of that one alone.
  const cause = causeOf?.(part.error, part.pks[0] ?? '')
  const key = JSON.stringify([part.destination, part.status, cause ?? part.error])
  const known = groups.get(key)
  if (!known) {
    groups.set(key, cause === undefined ? part : { ...part, cause })
    return
  }
  known.items += part.items
  if (part.lastAt > known.lastAt) known.lastAt = part.lastAt
  known.pks = [...known.pks, ...part.pks].slice(0, samplePks)
}

function byItems(groups: ReadonlyMap<string, FailureGroup>): [string, FailureGroup][] {
  return [...groups].sort(
    ([, one], [, next]) => next.items - one.items || next.lastAt.getTime() - one.lastAt.getTime(),
  )
}

export type FailedFilter = {
  flow: string
  destination?: string | undefined
  pk?: string | undefined
  /** The words of one group of failures, exactly. */
  error?: string | undefined
  /** Whether a failure of an item with these words is wanted. */
  isWanted?: ((error: string, pk: string) => boolean) | undefined
}

/** The keys of failures that are wanted by their words. */
export async function wantedAmong(
  rows: readonly { pk: string; words: string }[],
  isWanted: NonNullable<FailedFilter['isWanted']>,
): Promise<string[]> {
  const found: string[] = []
  for (const { pk, words } of rows) {
    await breathe()
    if (isWanted(words, pk)) found.push(pk)
  }
  return found
}

/** Some failed deliveries of one destination: the last of them, how many they were, and which were asked for. */
export type FailedRows = {
  destination: string
  lastPk: string
  looked: number
  pks: string[]
  /** Their words, in the same order; only where somebody has to judge them. */
  errors?: string[]
}

/** Asks for the next failed deliveries after a place, and which of them are wanted. To be run in key order. */
export function failedRows(
  filter: FailedFilter,
  page: { after: Place; limit: number },
): RawBuilder<FailedRows> {
  const { destination, pk, error, isWanted } = filter
  return sql<FailedRows>`
    with page as materialized (
      select destination, pk, last_error from deliveries
      where flow = ${filter.flow} and state = 'failed'
        and (destination, pk) > (${page.after.destination}, ${page.after.pk})
        ${destination === undefined ? sql`` : sql`and destination = ${destination}`}
        ${pk === undefined ? sql`` : sql`and pk = ${pk}`}
      order by destination, pk
      limit ${page.limit}
    )
    select destination, max(pk) as "lastPk", count(*) as looked,
      coalesce(array_agg(pk order by pk)
        ${error === undefined ? sql`` : sql`filter (where last_error = ${error})`}, '{}') as pks
      ${isWanted === undefined ? sql`` : sql`, array_agg(coalesce(last_error, '') order by pk) as errors`}
    from page
    group by destination
    order by destination`
}

/**
 * Makes these failed deliveries owed again, with all their attempts, except those that no longer failed with the words of the
 * filter. Answers whom to wake.
 */
export async function reviveFailed(
  trx: Trx,
  { flow, error, isWanted = () => true }: Pick<FailedFilter, 'flow' | 'error' | 'isWanted'>,
  { destination, pks }: { destination: string; pks: readonly string[] },
  at: Date,
): Promise<string[]> {
  const { rows } = await sql<{ pk: string; words: string }>`
    select pk, coalesce(last_error, '') as words from deliveries
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
      and state = 'failed' ${error === undefined ? sql`` : sql`and last_error = ${error}`}
    order by pk
    for update`.execute(trx)
  const found = await wantedAmong(rows, isWanted)
  // Apart from the reading: in one statement a planner that underestimates the failures joins them row by row.
  await sql`
    update deliveries set
      state = 'waiting', version = version + 1, attempts = 0, queued_at = ${at},
      last_error = null, last_status = null, why = null, not_before = null, due_at = '-infinity',
      finished_at = null
    where flow = ${flow} and destination = ${destination} and pk = any(${found}::text[])`.execute(
    trx,
  )
  return found
}
