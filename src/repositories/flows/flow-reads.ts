import { sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'

/**
 * The number of a read of a source that begins now: greater than those of all reads that began before it, in any process.
 * No clock decides which of two reads is the later one, nor who is the first to write.
 */
export async function nextRead(db: Db | Trx): Promise<number> {
  const { rows } = await sql<{ read: number }>`select nextval('flow_reads') as read`.execute(db)
  const [row] = rows
  if (!row) throw new Error('the sequence flow_reads gave no number')
  return row.read
}

/** The number of a poll that begins now. Everybody can see from here on that it has begun. */
export async function beginPollRead(db: Db, flow: string): Promise<number> {
  const row = await db
    .updateTable('flow_state')
    .set({ read_number: sql<number>`nextval('flow_reads')` })
    .where('flow', '=', flow)
    .returning('read_number')
    .executeTakeFirstOrThrow()
  return row.read_number
}

/** Whether a poll of the flow began after this read did. None begins until the transaction ends. */
export async function hasPollBegunSince(trx: Trx, flow: string, read: number): Promise<boolean> {
  const row = await trx
    .selectFrom('flow_state')
    .select('read_number')
    .where('flow', '=', flow)
    .forShare()
    .executeTakeFirst()
  return row !== undefined && row.read_number > read
}
