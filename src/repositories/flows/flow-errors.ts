import { randomUUID } from 'node:crypto'
import { type Insertable, type Selectable, sql } from 'kysely'
import { type Db, json } from '../../db/database.ts'
import { atOnce, type Step } from '../../db/steps.ts'
import type { FlowErrorsTable } from '../../db/tables.ts'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'

export type FlowErrorRow = Selectable<FlowErrorsTable>

export type NewFlowError = {
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
  let deleted = 0
  for (let found = limit; found === limit; deleted += found) {
    const { numAffectedRows } = await step(() =>
      sql`
        delete from flow_errors where ctid = any(array(
          select ctid from flow_errors where flow = ${flow} and at < ${before}
          order by at limit ${limit}))`.execute(db),
    )
    found = Number(numAffectedRows ?? 0)
  }
  return deleted
}

export function errorRow(error: NewFlowError): Insertable<FlowErrorsTable> {
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
