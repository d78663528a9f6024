import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { EventAttemptsTable } from '../../db/tables.ts'
import {
  type ListPage,
  type PageRequest,
  partBySequence,
  type SequenceCursor,
  toListPage,
} from '../list-page.ts'
import type { EndpointKey } from './event-endpoints.ts'
import type { EventRow } from './event-log.ts'

export type AttemptRow = Selectable<EventAttemptsTable>
export type NewAttempt = Insertable<EventAttemptsTable>

export async function insertAttempts(db: Db | Trx, attempts: readonly NewAttempt[]): Promise<void> {
  if (attempts.length > 0) await db.insertInto('event_attempts').values(attempts).execute()
}

/** Of one event only, or of all; `outcome`: only those that succeeded, or failed. */
type AttemptFilter = {
  eventId: string | undefined
  outcome: 'success' | 'failed' | undefined
}

/** The attempts at an endpoint, newest first. */
export async function listAttempts(
  db: Db,
  { id }: EndpointKey,
  { eventId, outcome }: AttemptFilter,
  pageRequest: PageRequest<SequenceCursor>,
): Promise<ListPage<AttemptRow>> {
  let query = db.selectFrom('event_attempts').where('endpoint_id', '=', id)
  if (eventId !== undefined) query = query.where('event_id', '=', eventId)
  if (outcome !== undefined) {
    const isAccepted = sql<boolean>`coalesce(status between 200 and 299, false)`
    query = query.where(isAccepted, '=', outcome === 'success')
  }
  const rows = await partBySequence(query, 'seq', pageRequest).selectAll().execute()
  return toListPage(db, 'event_attempts', query, rows, pageRequest)
}

/** An event that was sent to an endpoint. Undefined when it never was, or is deleted. */
export async function findSentEvent(
  db: Db | Trx,
  { client, id }: EndpointKey,
  eventId: string,
): Promise<(EventRow & { position: number }) | undefined> {
  const { rows } = await sql<EventRow & { position: number }>`
    select * from events where client = ${client} and id = ${eventId} and position = (
      select position from event_attempts where endpoint_id = ${id} and event_id = ${eventId} limit 1)`.execute(
    db,
  )
  return rows[0]
}

/** Deletes at most `limit` attempts from before a time, oldest first. Returns how many. */
export async function deleteOldAttempts(db: Db, before: Date, limit: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from event_attempts where seq in (
      select seq from (select seq, at from event_attempts order by seq limit ${limit}) as oldest where at < ${before})`.execute(
    db,
  )
  return Number(numAffectedRows)
}
