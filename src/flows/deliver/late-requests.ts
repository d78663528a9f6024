import type { KeptBody } from '../../db/column-types.ts'
import type { Database } from '../../db/database.ts'
import type { Log } from '../../domain/log.ts'
import { lockDeliveries, requeueDelivery } from '../../repositories/flows/deliveries.ts'
import { writeResults } from '../../repositories/flows/delivery-results.ts'
import type { OutcomeTarget } from '../../repositories/flows/delivery-target.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import { findContent } from '../../repositories/flows/item-versions.ts'
import { keyRecord } from '../item/item.ts'
import type { DeliveryOutcome } from './retry-rules.ts'
import type { ItemOutcome } from './save-outcomes.ts'

/**
 * Handles attempts after their lease was lost. Their requests may arrive after newer versions of another process, for
 * example when this process was suspended. Then the newer versions are queued again. Where neither the row nor the history
 * has the content, the item is forgotten, and the next poll (a full one) finds it again.
 * All are in one transaction: no other process knows of these requests, and this one may be killed at any moment.
 */
export async function requeueAfterLostLease(
  { database, now, log }: { database: Database; now: () => Date; log: Log },
  target: OutcomeTarget & { keyNames: readonly string[] },
  group: readonly ItemOutcome<DeliveryOutcome>[],
): Promise<void> {
  const { flow, destination, keyNames } = target
  const sent = new Map(
    group.flatMap(({ pk, outcome }) => (mayHaveArrived(outcome) ? [[pk, outcome] as const] : [])),
  )
  if (sent.size === 0) return
  const again = await database.transaction(async (trx) => {
    const again: { pk: string; body: KeptBody | undefined; payload: Content | undefined }[] = []
    for (const row of await lockDeliveries(trx, target, [...sent.keys()])) {
      const { pk } = row
      const outcome = sent.get(pk)
      // A permanent failure is visible as out of date. For the same version both processes sent the same body under one
      // key.
      if (!outcome || row.state === 'failed' || row.version <= outcome.version) continue
      const kept = row.payload ?? (await findContent(trx, flow, row))
      const payload = kept ?? (row.kind === 'delete' ? keyRecord(keyNames, pk) : undefined)
      again.push({ pk, body: bodyOf(outcome), payload })
    }
    // A completed delete left no record of the item. The late request may have created it again.
    const begun = again.map(({ pk, body }) => ({ pk, became: 'begun' as const, begun: { body } }))
    await writeResults(trx, target, begun, now())
    const forgotten: string[] = []
    for (const { pk, payload } of again) {
      if (payload) await requeueDelivery(trx, target, { pk, payload, at: now() })
      else forgotten.push(pk)
    }
    if (forgotten.length > 0) {
      await resetHashes(trx, flow, forgotten)
      await requestFullScan(trx, flow)
    }
    if (again.length > forgotten.length) wakeDestination(database, target)
    return again
  })
  for (const { pk } of again) {
    log.warn({ flow, destination, pk }, 'a late request may have arrived; the item is sent again')
  }
}

type Content = Record<string, unknown>

type Sent = Exclude<DeliveryOutcome, { kind: 'nothing' | 'unchanged' | 'waits' }>

function mayHaveArrived(outcome: DeliveryOutcome): outcome is Sent {
  const { kind } = outcome
  if (kind === 'nothing' || kind === 'unchanged' || kind === 'waits') return false
  return kind !== 'postponed' || outcome.mayHaveArrived
}

/** What a delete of the same item needs of the sent body. */
function bodyOf(outcome: DeliveryOutcome): KeptBody | undefined {
  if (outcome.kind === 'delivered') return outcome.body
  return 'begun' in outcome ? outcome.begun?.body : undefined
}
