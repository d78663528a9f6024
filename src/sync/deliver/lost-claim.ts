import type { Database } from '../../db/database.ts'
import { type DeliveryTarget, lockOwed, oweOnceMore } from '../../repositories/flows/deliveries.ts'
import { writeResults } from '../../repositories/flows/delivery-results.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import { findContent } from '../../repositories/flows/item-versions.ts'
import { keyRecord } from '../item/key.ts'
import type { DeliveryQueue } from '../queue/queue.ts'
import type { QueueLog } from '../queue/queue-log.ts'
import type { Settled } from '../queue/settlements.ts'
import type { Outcome } from './outcome.ts'

export type LostClaimDeps = {
  database: Database
  queue: Pick<DeliveryQueue, 'wake'>
  now: () => Date
  log: QueueLog
}

/**
 * After an attempt whose claim was lost. It may have arrived behind a newer version that another process has sent since, as
 * when this one stood still in the middle of a request: then the newer one is owed once more. When its content is not kept
 * any longer the item is forgotten, and the next poll, a full one, finds it again.
 */
export async function makeGoodLostClaim(
  { database, queue, now, log }: LostClaimDeps,
  target: DeliveryTarget & { keyNames: readonly string[] },
  { claim: { pk }, outcome }: Settled<Outcome>,
): Promise<void> {
  if (outcome.kind === 'nothing' || outcome.kind === 'unchanged') return
  if (outcome.kind === 'postponed' && !outcome.mayHaveArrived) return
  const { flow, destination, keyNames } = target
  const became = await database.transaction(async (trx) => {
    const row = await lockOwed(trx, target, pk)
    // What failed for good shows as out of date; of the same version both have sent the same, under one key.
    if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'
    const kept = row.payload ?? (await findContent(trx, flow, row))
    const payload = kept ?? (row.kind === 'delete' ? keyRecord(keyNames, pk) : undefined)
    if (!payload) return 'not kept'
    // A delete that is done has left no record of what was there; the late request may have put it back.
    const begun = { fields: fieldsOf(outcome) }
    await writeResults(trx, target, [{ pk, became: 'begun', begun }], now())
    await oweOnceMore(trx, target, { pk, payload, at: now() })
    queue.wake(flow, destination)
    return 'owed'
  })
  if (became === 'fine') return
  if (became === 'not kept') {
    await database.transaction(async (trx) => {
      await resetHashes(trx, flow, [pk])
      await requestFullScan(trx, flow)
    })
  }
  log.warn({ flow, destination, pk }, 'a late request may have arrived; the item is sent once more')
}

/** What an attempt sent of the fields that a delete of the same item uses. */
function fieldsOf(outcome: Outcome): unknown {
  if (outcome.kind === 'delivered') return outcome.fields
  return 'begun' in outcome ? outcome.begun?.fields : undefined
}
