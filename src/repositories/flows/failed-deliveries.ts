import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { createTurns } from '../../db/event-loop-pauses.ts'
import type { ReasonCode, StoredReason } from '../../domain/flow-reasons.ts'
import { type DeliveryPlace, deliveryPages } from './key-order.ts'

export type FailureGroup = {
  destination: string
  error: string
  /** Of the first of its items. */
  why: StoredReason | null
  status: number | null
  items: number
  lastAt: Date
  /** The keys of its first `samplePks` items. */
  pks: string[]
  /** The cause that grouped it, if the error text did not. */
  cause?: string
}

/** Reduces the error text of an item to its cause. */
export type NameCause = (error: string, pk: string) => string

/** A long error text takes time to classify, and charges run on the same thread. */
const yieldToEventLoop = createTurns(10)
const samplePks = 20
const rowsAtOnce = 2_000
/** A receiver that words each refusal differently must not fill the memory. */
const groupsKept = 500

/** Failures of one destination with the same error text. `lastPk` is the last key that was read. */
type GroupPart = FailureGroup & { lastPk: string; scanned: number }

/** Reads the next failed deliveries after a place, grouped. Run it through inKeyOrder. */
export function failureParts(
  flow: string,
  page: { after: DeliveryPlace; limit: number },
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
    select destination, error, last_status as status, count(*) as items, count(*) as scanned,
      max(finished_at) as "lastAt", max(pk) as "lastPk",
      (array_agg(pk order by pk))[1:${sql.lit(samplePks)}] as pks, (array_agg(why order by pk))[1] as why
    from page
    group by destination, error, last_status
    order by destination, "lastPk"`
}

/**
 * Groups the failed deliveries of a flow by error text, or by what `causeOf` makes of it. The largest group comes
 * first. `rows` is the number of rows read, `limit` per statement. Beyond 500 groups, rare ones may be missing or
 * counted too low.
 */
export async function groupFailures(
  database: Database,
  flow: string,
  limit = rowsAtOnce,
  causeOf?: NameCause,
): Promise<{ value: FailureGroup[]; rows: number }> {
  let groups = new Map<string, FailureGroup>()
  let read = 0
  for await (const rows of deliveryPages(database, limit, (page) => failureParts(flow, page))) {
    for (const part of rows) {
      await yieldToEventLoop()
      addPart(groups, part, causeOf)
      read += part.scanned
    }
    if (groups.size > 2 * groupsKept) {
      groups = new Map(byItems(groups).slice(0, groupsKept))
    }
  }
  const most = byItems(groups).slice(0, groupsKept)
  return { value: most.map(([, group]) => group), rows: read }
}

function addPart(
  groups: Map<string, FailureGroup>,
  { lastPk, scanned, ...part }: GroupPart,
  causeOf?: NameCause,
): void {
  // A text that names an item belongs to that item only.
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
  /** The exact error text of a group. */
  error?: string | undefined
  /** Selects a failure by its error text and key. */
  isSelected?: ((error: string, pk: string) => boolean) | undefined
}

/** The keys of the failures that the filter selects. */
export async function selectedAmong(
  rows: readonly { pk: string; words: string }[],
  isSelected: NonNullable<FailedFilter['isSelected']>,
): Promise<string[]> {
  const found: string[] = []
  for (const { pk, words } of rows) {
    await yieldToEventLoop()
    if (isSelected(words, pk)) found.push(pk)
  }
  return found
}

/** Failed deliveries of one destination: the last key, the number of rows, and the selected keys. */
export type FailedRows = {
  destination: string
  lastPk: string
  scanned: number
  pks: string[]
  /** Their error texts in the same order; only if a filter needs them. */
  errors?: string[]
}

/** Reads the next failed deliveries after a place, and which of them are selected. Run it through inKeyOrder. */
export function failedRows(
  filter: FailedFilter,
  page: { after: DeliveryPlace; limit: number },
): RawBuilder<FailedRows> {
  const { destination, pk, error, isSelected } = filter
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
    select destination, max(pk) as "lastPk", count(*) as scanned,
      coalesce(array_agg(pk order by pk)
        ${error === undefined ? sql`` : sql`filter (where last_error = ${error})`}, '{}') as pks
      ${isSelected === undefined ? sql`` : sql`, array_agg(coalesce(last_error, '') order by pk) as errors`}
    from page
    group by destination
    order by destination`
}

/** Statuses after which it is not known whether the receiver did anything: it was busy. */
const undecidedStatuses = [408, 409, 423, 425, 429]
/** Reasons of a refusal by the body of a successful response. */
const refusalCodes: readonly ReasonCode[] = [
  ...(['HTTP_STATUS', 'ANSWER_DIFFERS', 'BATCH_REFUSED', 'BATCH_SAID', 'BATCH_UNKNOWN'] as const),
]

/** Whether the receiver refused the row for good, so that nothing of it is in doubt. */
const isRefused = sql<boolean>`(
  (last_status between 400 and 499 and last_status <> all(${undecidedStatuses}::int[]))
  or (last_status between 200 and 299 and why->>'code' = any(${refusalCodes}::text[]))
)`

/**
 * Queues these failed deliveries again with all attempts, except those whose error text changed meanwhile. What was refused is
 * sent with another key, because a receiver answers a known key with its first response. An attempt in doubt keeps its key.
 * Returns the targets to wake.
 */
export async function requeueFailed(
  trx: Trx,
  { flow, error, isSelected = () => true }: Pick<FailedFilter, 'flow' | 'error' | 'isSelected'>,
  { destination, pks }: { destination: string; pks: readonly string[] },
  at: Date,
): Promise<string[]> {
  const { rows } = await sql<{ pk: string; words: string }>`
    select pk, coalesce(last_error, '') as words from deliveries
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
      and state = 'failed' ${error === undefined ? sql`` : sql`and last_error = ${error}`}
    order by pk
    for update`.execute(trx)
  const found = await selectedAmong(rows, isSelected)
  // A separate statement: in one with the read, a planner that underestimates the failures joins row by row.
  await sql`
    update deliveries set
      state = 'waiting', version = version + 1, attempts = 0, queued_at = ${at},
      change_number = case when ${isRefused} then nextval('flow_reads') else change_number end,
      last_error = null, last_status = null, why = null, not_before = null, due_at = '-infinity',
      finished_at = null
    where flow = ${flow} and destination = ${destination} and pk = any(${found}::text[])`.execute(
    trx,
  )
  return found
}
