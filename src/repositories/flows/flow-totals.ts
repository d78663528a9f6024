import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { FlowTotalsTable } from '../../db/tables.ts'

export type FlowTotals = Selectable<FlowTotalsTable>

/**
 * Adds to the lifetime counts. The row stays locked until the transaction ends, so call it last. `alongside` is a
 * statement that writes other rows in the same round trip.
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

/** The part of a statement that adds to the lifetime count of deliveries. It takes its lock last. */
export function addsCompleted(flow: string, completed: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    insert into flow_totals (flow, jobs_completed, jobs_failed) values (${flow}, ${completed}, 0)
    on conflict (flow) do update set
      jobs_completed = flow_totals.jobs_completed + excluded.jobs_completed`
}

/** A flow that never ran has no row. */
export async function listTotals(db: Db): Promise<FlowTotals[]> {
  return db.selectFrom('flow_totals').selectAll().orderBy('flow').execute()
}
