import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/database.ts'

export const flowChannel = 'flow_changed'

/**
 * What changed about a flow: `state` somebody or the service switched something, `poll` a poll came to its end,
 * `progress` one goes on, `deliveries` some arrived or failed.
 */
export type FlowChange = {
  /** Null: all of them. */
  flow: string | null
  what: 'state' | 'poll' | 'progress' | 'deliveries'
}

/**
 * Tells listeners as part of a statement that writes a row of a flow, when and if its transaction commits. Only for what
 * happens once per poll or second: PostgreSQL lets transactions that notify commit one at a time.
 */
export function tellFlow(what: FlowChange['what']): RawBuilder<string> {
  return sql`pg_notify(${flowChannel}, json_build_object('flow', flow, 'what', ${what}::text)::text)`
}

export async function tellDeliveries(db: Db, flows: readonly string[]): Promise<void> {
  await sql`select ${tellFlow('deliveries')} from unnest(${flows}::text[]) as told (flow)`.execute(
    db,
  )
}
