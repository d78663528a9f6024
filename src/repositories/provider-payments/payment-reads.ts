import type { Insertable, Selectable } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import type { PaymentReadsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'

export type PaymentReadRow = Selectable<PaymentReadsTable>
/** The progress of a read of payments: the columns that a page changes. */
export type ReadProgress = Pick<
  PaymentReadRow,
  | 'next_offset'
  | 'total'
  | 'began_at'
  | 'finished_at'
  | 'restarts'
  | 'part_begins_at'
  | 'part_ends_at'
>
type Name = { client: ClientName; name: string }

/** Plans a read of payments. An unfinished one of this name stays unchanged. */
export async function planRead(db: Db, read: Insertable<PaymentReadsTable>): Promise<void> {
  await db
    .insertInto('payment_reads')
    .values(read)
    .onConflict((conflict) => conflict.columns(['client', 'name']).doNothing())
    .execute()
}

export async function findRead(
  db: Db | Trx,
  { client, name }: Name,
): Promise<PaymentReadRow | undefined> {
  return db
    .selectFrom('payment_reads')
    .selectAll()
    .where('client', '=', client)
    .where('name', '=', name)
    .executeTakeFirst()
}

/** Records the progress of a read. Returns false when it has moved since it was last seen. */
export async function advanceRead(
  db: Db | Trx,
  before: PaymentReadRow,
  after: ReadProgress,
): Promise<boolean> {
  const result = await db
    .updateTable('payment_reads')
    .set(after)
    .where('client', '=', before.client)
    .where('name', '=', before.name)
    .where('next_offset', '=', before.next_offset)
    .where('restarts', '=', before.restarts)
    // The time span is compared, so that a page of another span changes nothing.
    .where('mp_user_id', '=', before.mp_user_id)
    .where('begins_at', '=', before.begins_at)
    .where('ends_at', '=', before.ends_at)
    .where('part_ends_at', 'is not distinct from', before.part_ends_at)
    .where('finished_at', 'is', null)
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/** Restarts a read over another time span, if it has not moved since it was last seen. */
export async function beginReadAgain(
  db: Db,
  before: PaymentReadRow,
  span: { mpUserId: number; from: Date; to: Date },
): Promise<void> {
  await db
    .updateTable('payment_reads')
    .set({
      mp_user_id: span.mpUserId,
      begins_at: span.from,
      ends_at: span.to,
      next_offset: 0,
      total: null,
      began_at: null,
      finished_at: null,
      restarts: 0,
      part_begins_at: null,
      part_ends_at: null,
    })
    .where('client', '=', before.client)
    .where('name', '=', before.name)
    .where('mp_user_id', '=', before.mp_user_id)
    .where('ends_at', '=', before.ends_at)
    .where('finished_at', 'is not distinct from', before.finished_at)
    .execute()
}

/**
 * Keeps the read of a client's former account, and continues the one that was kept of its present account. Without one there is no
 * read of this name afterwards.
 */
export async function exchangeRead(
  trx: Trx,
  { client, name }: Name,
  { from, to }: { from: number; to: number },
): Promise<void> {
  const keptName = (mpUserId: number) => `${name} ${mpUserId}`
  const rename = (mpUserId: number, before: string, after: string) =>
    trx
      .updateTable('payment_reads')
      .set({ name: after })
      .where('client', '=', client)
      .where('name', '=', before)
      .where('mp_user_id', '=', mpUserId)
      .execute()
  await rename(from, name, keptName(from))
  await rename(to, keptName(to), name)
}

/** Deletes the reads of a client whose names begin with `prefix`. */
export async function deleteReads(db: Db | Trx, client: ClientName, prefix: string): Promise<void> {
  await db
    .deleteFrom('payment_reads')
    .where('client', '=', client)
    .where((eb) => eb.fn<boolean>('starts_with', ['name', eb.val(prefix)]))
    .execute()
}
