import type { Db, Trx } from '../../db/database.ts'
import type { DeleteApprovalsTable } from '../../db/tables.ts'

/**
 * What an operator approved, for one use: deletes that need approval (of one item; of all with pk ''), or a changed
 * destination. It covers what the read of this number found, and nothing later.
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

/** A later approval of the same subject replaces the earlier one. */
export async function approve(trx: Trx, row: ApprovalRow): Promise<void> {
  const { flow: _, subject: __, pk: ___, ...changed } = row
  await trx
    .insertInto('delete_approvals')
    .values(row)
    .onConflict((conflict) => conflict.columns(['flow', 'subject', 'pk']).doUpdateSet(changed))
    .execute()
}

/** Approvals count for one scan. One that was given while the scan ran counts for the next. */
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
