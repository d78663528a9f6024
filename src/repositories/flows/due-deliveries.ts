import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { needsApproval, type PendingDelivery, type SendTarget } from './deliveries.ts'

/** A place in the order in which a destination gets its deliveries. */
type Place = { dueAt: string; queuedAt: string; pk: string }

/** How far a walk has come: among deliveries due at once, and among those that had to wait. */
export type DuePlaces = { fresh: Place; late: Place }

/** `needsApproval`: nothing may be sent to the destination now. */
export type DueRow = PendingDelivery & Place & { isLate: boolean; needsApproval: boolean }

export const beforeAllDue: DuePlaces = {
  fresh: { dueAt: '-infinity', queuedAt: '-infinity', pk: '' },
  late: { dueAt: '-infinity', queuedAt: 'infinity', pk: '' },
}

/**
 * Reads deliveries that are due by the database's clock, after `after`: `limit` rows whose time has come, and `limit`
 * due at once, oldest first. A time more than `furthestMs` ahead was written before the clock was set back, and
 * counts as due.
 * Bounds over the index columns lead every planner to that index, once the table has statistics. Without statistics
 * each page reads all waiting rows of the destination. The service analyzes its tables within seconds.
 */
export function dueDeliveries(
  target: SendTarget,
  page: { after: DuePlaces; furthestMs: number; limit: number },
): RawBuilder<DueRow> {
  const { flow, destination } = target
  const rowsOf = (after: Place, last: RawBuilder<boolean>, isLate: boolean) => sql`
    (select pk, version, change_number, kind, hash, payload, state, attempts,
        delivered_hash, delivered_body, delivered_fields, may_have_arrived, queued_at,
        due_at::text as "dueAt", queued_at::text as "queuedAt", ${sql.lit(isLate)} as "isLate",
        ${needsApproval(target)} as "needsApproval"
      from deliveries
      where state = 'waiting'
        and (flow, destination, due_at, queued_at, pk) > (${flow}::text, ${destination}::text,
          ${after.dueAt}::timestamptz, ${after.queuedAt}::timestamptz, ${after.pk}::text)
        and ${last}
      order by flow, destination, due_at, queued_at, pk
      limit ${page.limit})`
  const until = (time: RawBuilder<unknown>) =>
    sql<boolean>`(flow, destination, due_at) <= (${flow}::text, ${destination}::text, ${time})`
  const furthest = sql`now() + ${page.furthestMs} * interval '1 millisecond'`
  const farAhead = sql<boolean>`(flow, destination, due_at) > (${flow}::text, ${destination}::text, ${furthest})
        and (flow, destination) <= (${flow}::text, ${destination}::text)`
  const { fresh, late } = page.after
  return sql<DueRow>`
    ${rowsOf(late, until(sql`now()`), true)}
    union all ${rowsOf(late, farAhead, true)}
    union all ${rowsOf(fresh, until(sql`'-infinity'::timestamptz`), false)}`
}

export type DueWalk = {
  /** The next rows, at most `limit`. Fewer rows mean the end; a further call continues after it. */
  next(limit: number): Promise<DueRow[]>
}

/**
 * Walks once over the due deliveries of a destination. A row that is queued meanwhile may lie before the current
 * place.
 */
export function walkDue(db: Db, target: SendTarget, furthestMs: number): DueWalk {
  let after = beforeAllDue
  return {
    next: async (limit) => {
      const { rows } = await dueDeliveries(target, { after, furthestMs, limit }).execute(db)
      const isLate = (row: DueRow) => row.isLate
      const taken = [...rows.filter(isLate), ...rows.filter((row) => !row.isLate)].slice(0, limit)
      after = {
        late: taken.findLast(isLate) ?? after.late,
        fresh: taken.findLast((row) => !row.isLate) ?? after.fresh,
      }
      return taken
    },
  }
}
