import type { Insertable, Selectable } from 'kysely'
import type { Db } from '../../db/database.ts'
import type { DestinationStatesTable } from '../../db/tables.ts'
import type { DeliveryTarget } from './delivery-target.ts'

export type DestinationStateRow = Selectable<DestinationStatesTable>
type NewDestinationState = Insertable<DestinationStatesTable>

/** Every destination that gets nothing; of all flows, or of one. */
export async function listDestinationStates(db: Db, flow?: string): Promise<DestinationStateRow[]> {
  const query = db.selectFrom('destination_states').selectAll()
  return (flow === undefined ? query : query.where('flow', '=', flow)).execute()
}

/** A repeated state keeps the time when it began. So does a probe of a destination to which nothing is sent. */
export async function writeDestinationState(db: Db, row: NewDestinationState): Promise<void> {
  const { flow, destination, since, ...changed } = row
  await db
    .insertInto('destination_states')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['flow', 'destination']).doUpdateSet((eb) => ({
        ...changed,
        since: eb
          .case()
          .when('destination_states.state', 'in', sameStates(row.state))
          .then(eb.ref('destination_states.since'))
          .else(since)
          .end(),
      })),
    )
    .execute()
}

function sameStates(state: NewDestinationState['state']): NewDestinationState['state'][] {
  return state === 'open' || state === 'probing' ? ['open', 'probing'] : [state]
}

/** Clears the state of a destination, or of all destinations of a flow. */
export async function deleteDestinationState(
  db: Db,
  { flow, destination }: { flow: string; destination?: DeliveryTarget['destination'] },
): Promise<void> {
  const query = db.deleteFrom('destination_states').where('flow', '=', flow)
  await (destination === undefined ? query : query.where('destination', '=', destination)).execute()
}
