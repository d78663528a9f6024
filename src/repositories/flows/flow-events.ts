import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'

export const flowChannel = 'flow_changed'

/**
 * What changed in a flow. `state`: an operator or the service switched something. `poll`: a poll ended. `progress`: a
 * poll goes on. `deliveries`: some arrived or failed.
 */
export type FlowChange = {
  /** Null: all of them. */
  flow: string | null
  what: 'state' | 'poll' | 'progress' | 'deliveries'
}

/**
 * Notifies listeners as part of a writing statement, when its transaction commits. Use it at most once per poll or
 * second: PostgreSQL commits notifying transactions one at a time.
 */
export function notifyFlow(what: FlowChange['what']): RawBuilder<string> {
  return sql`pg_notify(${flowChannel}, json_build_object('flow', flow, 'what', ${what}::text)::text)`
}

export async function notifyDeliveries(db: Db, flows: readonly string[]): Promise<void> {
  await sql`select ${notifyFlow('deliveries')} from unnest(${flows}::text[]) as changed (flow)`.execute(
    db,
  )
}
