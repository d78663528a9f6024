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

/** Ends these fills. One that was requested again meanwhile stays. */
export async function endFills(
  trx: Trx,
  flow: string,
  fills: readonly DestinationFill[],
): Promise<void> {
  for (const { destination, asked } of fills) {
    await trx
      .deleteFrom('destination_fills')
      .where('flow', '=', flow)
      .where('destination', '=', destination)
      .where('asked', '=', asked)
      .execute()
  }
}
