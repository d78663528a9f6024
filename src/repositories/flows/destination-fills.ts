import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { DeliveryTarget } from './deliveries.ts'

/** A destination that must get every item. `asked` is the number of the read from which on. */
export type DestinationFill = { destination: string; asked: number }

export async function listFills(db: Db | Trx, flow: string): Promise<DestinationFill[]> {
  return db
    .selectFrom('destination_fills')
    .select(['destination', 'asked'])
    .where('flow', '=', flow)
    .orderBy('destination')
    .execute()
}

/** A second request for the same destination starts again. */
export async function askFill(trx: Trx, { flow, destination }: DeliveryTarget): Promise<void> {
  await sql`
    insert into destination_fills (flow, destination, asked)
    values (${flow}, ${destination}, nextval('flow_reads'))
    on conflict (flow, destination) do update set asked = excluded.asked`.execute(trx)
}

/** Ends a fill, unless it was requested again meanwhile. */
export async function endFill(
  trx: Trx,
  flow: string,
  { destination, asked }: DestinationFill,
): Promise<void> {
  await trx
    .deleteFrom('destination_fills')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('asked', '=', asked)
    .execute()
}
