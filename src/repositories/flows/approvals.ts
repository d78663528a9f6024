import type { Db, Trx } from '../../db/database.ts'
import type { DeleteApprovalsTable } from '../../db/tables.ts'

/**
 * What somebody has let through, once: the deletes that were held (of one item, or with pk '' of all), or another destination. It is about
 * what the read of this number has found, and nothing later.
 */
export type ApprovalRow = DeleteApprovalsTable

/** Approvals of one kind that no poll has used yet. */
export async function listApprovals(
  db: Db | Trx,
  flow: string,
  subject: ApprovalRow['subject'],
): Promise<ApprovalRow[]> {
  return db
    .selectFrom('delete_approvals')
    .selectAll()
    .where('flow', '=', flow)
    .where('subject', '=', subject)
    .execute()
}

/** A later approval of the same takes the place of the one before. */
export async function approve(trx: Trx, row: ApprovalRow): Promise<void> {
  const { flow: _, subject: __, pk: ___, ...changed } = row
  await trx
    .insertInto('delete_approvals')
    .values(row)
    .onConflict((conflict) => conflict.columns(['flow', 'subject', 'pk']).doUpdateSet(changed))
    .execute()
}

/** They count for one scan; what was approved while it ran counts for the next. */
export async function endApprovals(
  db: Db | Trx,
  flow: string,
  approvals: readonly ApprovalRow[],
): Promise<void> {
  for (const { subject, pk, approved_at: at } of approvals) {
    await db
      .deleteFrom('delete_approvals')
      .where('flow', '=', flow)
      .where('subject', '=', subject)
      .where('pk', '=', pk)
      .where('approved_at', '=', at)
      .execute()
  }
}
