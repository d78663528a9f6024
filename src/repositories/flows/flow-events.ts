import { type RawBuilder, sql } from 'kysely'
import type { Database, Db } from '../../db/database.ts'
import type { DeliveryTarget } from './delivery-target.ts'

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

export const deliveriesChannel = 'tillbridge_deliveries'

/** Wakes the worker of a destination, in the process that delivers, when the current transaction commits. It is only a hint. */
export function wakeDestination(
  database: Pick<Database, 'announce'>,
  { flow, destination }: DeliveryTarget,
): void {
  database.announce(deliveriesChannel, `${flow}/${destination}`)
}
