import { randomUUID } from 'node:crypto'
import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { deleteOldest, json } from '../../db/statements.ts'
import { atOnce, type Step } from '../../db/steps.ts'
import type { FlowErrorsTable } from '../../db/tables.ts'
import { keptReason, type Reason, sentenceOf } from '../../texts/reason.ts'

type FlowErrorRow = Selectable<FlowErrorsTable>

type NewFlowError = {
  flow: string
  /** The destination's name, or `source`. */
  adapter: string
  pk: string
  /** Without secrets. */
  why: Reason
  at: Date
  status?: number | null
  attempts?: number
}

/** At most 1,000 rows. */
export async function insertFlowErrors(db: Db, errors: readonly NewFlowError[]): Promise<void> {
  if (errors.length === 0) return
  await db.insertInto('flow_errors').values(errors.map(errorRow)).execute()
}

/** Which stored errors of flows to list. */
export type FlowErrorFilter = {
  flow?: string | undefined
  adapter?: string | undefined
  pk?: string | undefined
  limit: number
}

/** Newest first. */
export async function listFlowErrors(db: Db, filter: FlowErrorFilter): Promise<FlowErrorRow[]> {
  let query = db.selectFrom('flow_errors').selectAll()
  if (filter.flow !== undefined) query = query.where('flow', '=', filter.flow)
  if (filter.adapter !== undefined) query = query.where('adapter', '=', filter.adapter)
  if (filter.pk !== undefined) query = query.where('pk', '=', filter.pk)
  return query.orderBy('at', 'desc').orderBy('id').limit(filter.limit).execute()
}

/** Returns how many rows were deleted, `limit` per statement. */
export async function deleteFlowErrorsBefore(
  db: Db,
  flow: string,
  before: Date,
  { limit = 5_000, step = atOnce }: { limit?: number; step?: Step } = {},
): Promise<number> {
  const old = sql`flow = ${flow} and at < ${before} order by at`
  let deleted = 0
  for (let found = limit; found === limit; deleted += found) {
    found = await step(() => deleteOldest(db, 'flow_errors', old, limit))
  }
  return deleted
}

function errorRow(error: NewFlowError): Insertable<FlowErrorsTable> {
  return {
    id: randomUUID(),
    flow: error.flow,
    adapter: error.adapter,
    pk: error.pk,
    error: sentenceOf(error.why, 'en'),
    why: json(error.why),
    status: error.status ?? null,
    attempts: error.attempts ?? 1,
    at: error.at,
  }
}

/** The same problem of the same item is recorded once in this time. */
const quietMs = 3_600_000

/** Records a problem of a source, unless it was recorded within the last hour. */
export async function insertSourceProblem(
  db: Db | Trx,
  given: { flow: string; pk: string; why: Reason; at: Date },
): Promise<void> {
  // The database stores no NUL in a text, so it is removed from a record that was refused for one.
  const problem = { ...given, pk: withoutNul(given.pk), why: keptReason(given.why) }
  const since = new Date(problem.at.getTime() - quietMs)
  const known = await db
    .selectFrom('flow_errors')
    .select('id')
    .where('flow', '=', problem.flow)
    .where('at', '>=', since)
    .where('adapter', '=', 'source')
    .where('pk', '=', problem.pk)
    .where('error', '=', sentenceOf(problem.why, 'en'))
    .limit(1)
    .executeTakeFirst()
  if (known) return
  await db
    .insertInto('flow_errors')
    .values(errorRow({ ...problem, adapter: 'source' }))
    .execute()
}

function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}
