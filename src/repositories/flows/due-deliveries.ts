import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'
import { isHeld, type OwedRow, type SendTarget } from './deliveries.ts'

/** A place in the order in which a destination is sent what it is owed. */
type Place = { dueAt: string; queuedAt: string; pk: string }

/** Where a walk is: among what is due at once, and among what had to wait for its time. */
export type DuePlaces = { fresh: Place; late: Place }

/** `held`: nothing of the flow may be sent now. */
export type DueRow = OwedRow & Place & { isLate: boolean; held: boolean }

export const beforeAllDue: DuePlaces = {
  fresh: { dueAt: '-infinity', queuedAt: '-infinity', pk: '' },
  late: { dueAt: '-infinity', queuedAt: 'infinity', pk: '' },
}

/**
 * Asks for what a destination is owed and is due by the database's clock, behind `after`: `limit` rows of those whose time
 * has come, and as many of those that are due at once, oldest first. A time further ahead than `furthestMs` was written before
 * the clock was set back, and counts as come.
 *
 * Bounds over the columns of its index lead every planner to that index, which a counted table is read by in order. Of a table
 * that nobody has counted yet it takes what is owed for a handful of rows, and reads all that the destination is owed for each
 * page: the service has its tables counted within seconds.
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
        ${isHeld(target)} as held
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
  /** The next rows, `limit` at most. Fewer are the end; asked again it goes on behind it. */
  next(limit: number): Promise<DueRow[]>
}

/** Walks once over what a destination is owed and is due. A row that becomes owed meanwhile may stand behind it. */
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
