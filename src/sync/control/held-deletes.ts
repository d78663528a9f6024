import type { Database, Db } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { approve, listApprovals } from '../../repositories/flows/approvals.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import {
  countMissedSince,
  findHeldDeletes,
  findMissed,
  type HeldDeletesRow,
  listMissed,
} from '../../repositories/flows/missed-items.ts'
import type { FlowService, HeldDeletes } from '../flow-service.ts'
import { type SwitchDeps, writeDown } from './switches.ts'

const keysShown = 20

/** What is missing at the source of a flow and not deleted yet, and why not. */
export async function readHeldDeletes(
  db: Db,
  flow: string,
  scans: number,
): ReturnType<FlowService['heldDeletes']> {
  const held = await findHeldDeletes(db, flow)
  const [approval] = await listApprovals(db, flow, 'deletes')
  return {
    scans,
    held: held ? heldOf(held) : null,
    missing: await countMissedSince(db, flow, Number.MAX_SAFE_INTEGER),
    pks: await listMissed(db, flow, undefined, keysShown),
    approvedAt: approval?.approved_at ?? null,
  }
}

export function heldOf({ items, known, reason, why, since }: HeldDeletesRow): HeldDeletes {
  return { items, known, reason, why, since }
}

/**
 * Lets deletes through that are held back: of one item that the last full scan has missed, or of all that it found held. The
 * next full scan sends them, if the items are still missing by then; what vanishes later is held back as ever. Answers how many
 * they are. Throws BAD_REQUEST when there is nothing to approve.
 */
export async function approveHeldDeletes(
  deps: SwitchDeps & { database: Database },
  flow: string,
  pk: string | undefined,
  actor: string,
): Promise<number> {
  const { db } = deps.database
  const at = deps.now()
  const held = await findHeldDeletes(db, flow)
  const [missed] = pk === undefined ? [] : await findMissed(db, flow, [pk])
  const read = pk === undefined ? held?.read_number : missed?.since
  if (read === undefined) {
    throw new AppError('BAD_REQUEST', {
      message:
        pk === undefined ? 'No deletes are held back' : 'The item is not missing at the source',
    })
  }
  const count = pk === undefined ? await countMissedSince(db, flow, read) : 1
  await deps.database.transaction(async (trx) => {
    await approve(trx, {
      ...{ flow, subject: 'deletes', pk: pk ?? '', read_number: read },
      ...{ approved_by: actor, approved_at: at },
    })
    await requestFullScan(trx, flow)
    const detail = pk === undefined ? `${count} deletes` : `the delete of ${pk}`
    await writeDown(deps, trx, { at, flow, action: 'deletes approved', actor, detail })
  })
  return count
}
