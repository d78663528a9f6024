import { type RawBuilder, sql } from 'kysely'
import type { Database, Trx } from '../../db/database.ts'
import { publishedCode, reasonsOfCode } from '../../texts/published-codes.ts'
import type { ReasonCode, StoredReason } from '../../texts/reason.ts'
import { type DeliveryPlace, deliveryPages } from './key-order.ts'

export type FailureGroup = {
  destination: string
  /** Of the first of its items. */
  error: string
  /** Of the first of its items. */
  why: StoredReason | null
  status: number | null
  items: number
  lastAt: Date
  /** The keys of its first `samplePks` items. */
  pks: string[]
}

const samplePks = 20
const rowsAtOnce = 2_000

/** Failures of one destination with the same code and status. `lastPk` is the last key that was read. */
type GroupPart = FailureGroup & { code: string | null; lastPk: string; scanned: number }

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
    select destination, why->>'code' as code, last_status as status, count(*) as items,
      count(*) as scanned, max(finished_at) as "lastAt", max(pk) as "lastPk",
      (array_agg(pk order by pk))[1:${sql.lit(samplePks)}] as pks,
      (array_agg(why order by pk))[1] as why, (array_agg(error order by pk))[1] as error
    from page
    group by destination, why->>'code', last_status
    order by destination, "lastPk"`
}

/**
 * Groups the failed deliveries of a flow by the published code of their reason and the status. The largest group comes first. `rows` is
 * the number of rows read, `limit` per statement.
 */
export async function groupFailures(
  database: Database,
  flow: string,
  limit = rowsAtOnce,
): Promise<{ value: FailureGroup[]; rows: number }> {
  const groups = new Map<string, FailureGroup>()
  let read = 0
  for await (const rows of deliveryPages(database, limit, (page) => failureParts(flow, page))) {
    for (const { code, lastPk, scanned, ...part } of rows) {
      read += scanned
      const key = JSON.stringify([part.destination, code && publishedCode(code), part.status])
      const known = groups.get(key)
      if (known) {
        known.items += part.items
        if (part.lastAt > known.lastAt) known.lastAt = part.lastAt
        known.pks = [...known.pks, ...part.pks].slice(0, samplePks)
      } else groups.set(key, part)
    }
  }
  const value = [...groups.values()].sort(
    (one, next) => next.items - one.items || next.lastAt.getTime() - one.lastAt.getTime(),
  )
  return { value, rows: read }
}

export type FailedFilter = {
  flow: string
  destination?: string | undefined
  pk?: string | undefined
  /** The exact error text. */
  error?: string | undefined
  /** The published code of the reason. */
  code?: string | undefined
  /** null: without a status. */
  status?: number | null | undefined
}

/** Whether a failed delivery is of the group that the filter names. */
function isOfGroup({ error, code, status }: FailedFilter): RawBuilder<boolean> {
  return sql<boolean>`(true
    ${error === undefined ? sql`` : sql`and last_error = ${error}`}
    ${code === undefined ? sql`` : sql`and why->>'code' = any(${reasonsOfCode(code)}::text[])`}
    ${status === undefined ? sql`` : sql`and last_status is not distinct from ${status}::int`})`
}

/** Failed deliveries of one destination: the last key, the number of rows, and the selected keys. */
type FailedRows = {
  destination: string
  lastPk: string
  scanned: number
  pks: string[]
}

/** Reads the next failed deliveries after a place, and which of them are selected. Run it through inKeyOrder. */
export function failedRows(
  filter: FailedFilter,
  page: { after: DeliveryPlace; limit: number },
): RawBuilder<FailedRows> {
  const { destination, pk } = filter
  return sql<FailedRows>`
    with page as materialized (
      select destination, pk, last_error, why, last_status from deliveries
      where flow = ${filter.flow} and state = 'failed'
        and (destination, pk) > (${page.after.destination}, ${page.after.pk})
        ${destination === undefined ? sql`` : sql`and destination = ${destination}`}
        ${pk === undefined ? sql`` : sql`and pk = ${pk}`}
      order by destination, pk
      limit ${page.limit}
    )
    select destination, max(pk) as "lastPk", count(*) as scanned,
      coalesce(array_agg(pk order by pk) filter (where ${isOfGroup(filter)}), '{}') as pks
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
 * Queues these failed deliveries again with all attempts, except those whose failure changed meanwhile. What was refused is
 * sent with another key, because a receiver answers a known key with its first response. An attempt in doubt keeps its key.
 * Returns the targets to wake.
 */
export async function requeueFailed(
  trx: Trx,
  filter: FailedFilter,
  { destination, pks }: { destination: string; pks: readonly string[] },
  at: Date,
): Promise<string[]> {
  const { flow } = filter
  const { rows } = await sql<{ pk: string }>`
    select pk from deliveries
    where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
      and state = 'failed' and ${isOfGroup(filter)}
    order by pk
    for update`.execute(trx)
  const found = rows.map(({ pk }) => pk)
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
