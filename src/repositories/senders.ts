import { sql } from 'kysely'
import type { Db } from '../db/database.ts'
import { columnHasCome } from './due.ts'

/** Rows whose id is a key at the provider. */
export type KeyedTable = 'orders' | 'order_operations'

/** Claims are short and follow each other; one that lies further ahead is of before the clock was set back. */
const claimsAhead = 2

/** Takes the right to send under the key of a row. Returns whether it was free. */
export async function takeSender(
  db: Db,
  table: KeyedTable,
  id: string,
  claim: { sender: string; now: Date; until: Date },
): Promise<boolean> {
  const furthestMs = claimsAhead * (claim.until.getTime() - claim.now.getTime())
  const isOver = columnHasCome('sender_until', claim.now, furthestMs)
  const result = await sql`update ${sql.table(table)}
    set sender = ${claim.sender}, sender_until = ${claim.until}
    where id = ${id} and (sender is null or ${isOver})`.execute(db)
  return result.numAffectedRows === 1n
}

/** Prolongs it, while it is still ours. */
export async function keepSender(
  db: Db,
  table: KeyedTable,
  id: string,
  claim: { sender: string; until: Date },
): Promise<void> {
  await sql`update ${sql.table(table)} set sender_until = ${claim.until}
    where id = ${id} and sender = ${claim.sender}`.execute(db)
}

export async function freeSender(
  db: Db,
  table: KeyedTable,
  id: string,
  sender: string,
): Promise<void> {
  await sql`update ${sql.table(table)} set sender = null, sender_until = null
    where id = ${id} and sender = ${sender}`.execute(db)
}
