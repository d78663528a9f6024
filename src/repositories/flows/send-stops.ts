import type { Selectable } from 'kysely'
import { type Db, notify, type Trx } from '../../db/database.ts'
import type { SendStopsTable } from '../../db/tables.ts'

/** The scope of a stop. A null flow means every flow, a null destination every destination. */
export type StopScope = { flow: string | null; destination: string | null }

/** `endedAt` is null while the stop is in force. */
export type SendStop = StopScope & {
  since: Date
  by: string
  reason: string | null
  endedAt: Date | null
}

/** Notifies every process that a stop began or ended. The payload is empty. */
export const stopChannel = 'tillbridge_send_stops'

/** The stops in force and the ended ones, the widest scope first. */
export async function listSendStops(db: Db | Trx): Promise<SendStop[]> {
  const rows = await db
    .selectFrom('send_stops')
    .selectAll()
    .orderBy('flow')
    .orderBy('destination')
    .execute()
  return rows.map(stopOf)
}

/** Stops sending. A stop in force keeps its first author and reason. Returns the stop, and whether it is new. */
export async function beginSendStop(
  trx: Trx,
  { flow, destination, since, by, reason }: Omit<SendStop, 'endedAt'>,
): Promise<{ stop: SendStop; isNew: boolean }> {
  const key = keyOf({ flow, destination })
  const own = { stopped_at: since, stopped_by: by, reason, ended_at: null }
  const begun = await trx
    .insertInto('send_stops')
    .values({ ...key, ...own })
    .onConflict((conflict) =>
      conflict
        .columns(['flow', 'destination'])
        .doUpdateSet(own)
        .where('send_stops.ended_at', 'is not', null),
    )
    .returningAll()
    .executeTakeFirst()
  if (begun) {
    await notify(trx, stopChannel, '')
    return { stop: stopOf(begun), isNew: true }
  }
  const found = await trx
    .selectFrom('send_stops')
    .selectAll()
    .where('flow', '=', key.flow)
    .where('destination', '=', key.destination)
    .executeTakeFirstOrThrow()
  return { stop: stopOf(found), isNew: false }
}

/** Ends the stop of exactly this scope. Returns whether there was one. */
export async function endSendStop(trx: Trx, scope: StopScope, at: Date): Promise<boolean> {
  const { flow, destination } = keyOf(scope)
  const result = await trx
    .updateTable('send_stops')
    .set({ ended_at: at })
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  if (result.numUpdatedRows === 0n) return false
  await notify(trx, stopChannel, '')
  return true
}

/** Whether the stop covers this destination of this flow. */
export function concerns(stop: StopScope, flow: string, destination: string): boolean {
  return (stop.flow ?? flow) === flow && (stop.destination ?? destination) === destination
}

function keyOf({ flow, destination }: StopScope) {
  return { flow: flow ?? '', destination: destination ?? '' }
}

function stopOf(row: Selectable<SendStopsTable>): SendStop {
  return {
    flow: row.flow || null,
    destination: row.destination || null,
    since: row.stopped_at,
    by: row.stopped_by,
    reason: row.reason,
    endedAt: row.ended_at,
  }
}
