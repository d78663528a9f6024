import type { Database, Db } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { approve } from '../../repositories/flows/approvals.ts'
import { findHeldDrift, type HeldDriftRow } from '../../repositories/flows/schema-changes.ts'
import type { HeldDrift } from '../flow-service.ts'
import { readHeld } from '../poll/drift.ts'
import type { Finding } from '../poll/shape.ts'
import { type SwitchDeps, writeDown } from './switches.ts'

/** What a flow is held for; null when it is not held. */
export async function readHeldDrift(db: Db, flow: string): Promise<HeldDrift | null> {
  const { row, approvals, isApproved } = await readHeld(db, flow)
  if (!row) return null
  return heldDriftOf(row, isApproved ? (approvals[0]?.approved_at ?? null) : null)
}

export function heldDriftOf(row: HeldDriftRow, approvedAt: Date | null): HeldDrift {
  const { reason, since, read_number: read } = row
  // Written by holdFlow.
  return { reason, findings: row.findings as Finding[], since, read, approvedAt }
}

/**
 * Lets a held flow go on: the next poll sends what was found, if the source still looks like that, and what waits is sent
 * after it. With `read` only when nothing else was found since that was shown. Throws BAD_REQUEST when the flow is not held, and
 * CONFLICT when something else was found.
 */
export async function approveHeldDrift(
  deps: SwitchDeps & { database: Database },
  flow: string,
  read: number | undefined,
  actor: string,
): Promise<void> {
  const at = deps.now()
  await deps.database.transaction(async (trx) => {
    const held = await findHeldDrift(trx, flow)
    if (!held) throw new AppError('BAD_REQUEST', { message: 'The flow is not held' })
    if (read !== undefined && read !== held.read_number) {
      throw new AppError('CONFLICT', { message: `Something else was found: ${held.reason}` })
    }
    await approve(trx, {
      ...{ flow, subject: 'drift', pk: '', read_number: held.read_number },
      ...{ approved_by: actor, approved_at: at },
    })
    await writeDown(deps, trx, { at, flow, action: 'drift approved', actor, detail: held.reason })
  })
}
