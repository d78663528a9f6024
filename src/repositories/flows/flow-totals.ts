import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { FlowTotalsTable } from '../../db/tables.ts'

export type FlowTotals = Selectable<FlowTotalsTable>

/**
 * Adds to the lifetime counts. The row stays locked until the transaction ends: last thing to do in it. `alongside` is a
 * statement that writes other rows, in the same trip to the server.
 */
export async function addJobTotals(
  trx: Trx,
  flow: string,
  jobs: { completed: number; failed: number },
  alongside?: RawBuilder<object>,
): Promise<void> {
  const query = alongside ? trx.with('alongside', () => sql<object>`(${alongside})`) : trx
  await query
    .insertInto('flow_totals')
    .values({ flow, jobs_completed: jobs.completed, jobs_failed: jobs.failed })
    .onConflict((conflict) =>
      conflict.column('flow').doUpdateSet((eb) => ({
        jobs_completed: eb('flow_totals.jobs_completed', '+', jobs.completed),
        jobs_failed: eb('flow_totals.jobs_failed', '+', jobs.failed),
      })),
    )
    .execute()
}

/** The part of a statement that adds to what was delivered in the lifetime of the flow; the last of its locks. */
export function addsCompleted(flow: string, completed: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    insert into flow_totals (flow, jobs_completed, jobs_failed) values (${flow}, ${completed}, 0)
    on conflict (flow) do update set
      jobs_completed = flow_totals.jobs_completed + excluded.jobs_completed`
}

/** Flows that never ran have no row. */
export async function listTotals(db: Db): Promise<FlowTotals[]> {
  return db.selectFrom('flow_totals').selectAll().orderBy('flow').execute()
}
