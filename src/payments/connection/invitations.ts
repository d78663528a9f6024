import { AppError } from '../../errors/app-error.ts'
import {
  deleteOpenInvitation,
  findInvitation,
} from '../../repositories/connection/invitation-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

/**
 * Revokes an unused invitation: its link no longer starts a login.
 *
 * @throws NOT_FOUND for any other
 */
export async function revokeInvitation(deps: PaymentDeps, id: string, actor: Actor): Promise<void> {
  const { db } = deps.database
  const client = (await findInvitation(db, id))?.client ?? null
  const entry = {
    client,
    actor,
    action: 'invitation.revoked',
    resourceId: id,
  }
  await auditFailure(deps, entry, () =>
    deps.database.transaction(async (trx) => {
      if (!(await deleteOpenInvitation(trx, id, deps.now()))) {
        throw new AppError('NOT_FOUND', { message: 'No such invitation is open' })
      }
      await recordSuccess(deps, trx, entry)
    }),
  )
}
