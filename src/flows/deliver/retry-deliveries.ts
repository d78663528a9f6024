import type { KeptBody } from '../../db/column-types.ts'
import type { Database } from '../../db/database.ts'
import { endPauses } from '../../repositories/flows/delayed-deliveries.ts'
import {
  type DeliveryTarget,
  lockDelivery,
  requeueDelivery,
} from '../../repositories/flows/deliveries.ts'
import { writeResults } from '../../repositories/flows/delivery-results.ts'
import {
  type FailedFilter,
  failedRows,
  requeueFailed,
} from '../../repositories/flows/failed-deliveries.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import { resetHashes } from '../../repositories/flows/flow-items.ts'
import { requestFullScan } from '../../repositories/flows/flow-state.ts'
import { findContent } from '../../repositories/flows/item-versions.ts'
import { deliveryPages } from '../../repositories/flows/key-order.ts'
import { keyRecord } from '../item/item.ts'
import type { QueueLog } from './delivery-worker.ts'
import type { Outcome } from './retry-rules.ts'
import type { ItemOutcome } from './save-outcomes.ts'

export type SendAgainDeps = { database: Database; now: () => Date }

const rowsAtOnce = 1_000

/**
 * Queues failed deliveries again from their first attempt: of a flow, a destination, an item, or one group of
 * failures. It walks once over the present failures, `limit` per transaction. Returns how many.
 */
export async function retryFailed(
  deps: SendAgainDeps,
  filter: FailedFilter,
  limit = rowsAtOnce,
): Promise<number> {
  const { database } = deps
  const { flow } = filter
  const at = deps.now()
  let total = 0
  for await (const rows of deliveryPages(database, limit, (page) => failedRows(filter, page))) {
    for (const group of rows) {
      if (group.pks.length === 0) continue
      total += await database.transaction(async (trx) => {
        const requeued = await requeueFailed(trx, filter, group, at)
        if (requeued.length > 0) {
          wakeDestination(database, { flow, destination: group.destination })
        }
        return requeued.length
      })
    }
  }
  return total
}

/**
 * Ends the pauses between attempts of a destination: all its deliveries are due now. Earlier attempts still count. It
 * walks once over delayed deliveries, `limit` per transaction. Returns how many.
 */
export async function tryNow(
  deps: SendAgainDeps,
  { flow, destination }: DeliveryTarget,
  limit = rowsAtOnce,
): Promise<number> {
  const at = deps.now()
  let total = 0
  for (;;) {
    const pks = await deps.database.transaction(async (trx) => {
      const due = await endPauses(trx, { flow, destination }, { at, limit })
      if (due.length > 0) wakeDestination(deps.database, { flow, destination })
      return due
    })
    total += pks.length
    if (pks.length < limit) return total
  }
}

/**
 * Handles an attempt after its lease was lost. Its request may arrive after a newer version of another process, for
 * example when this process was suspended. Then the newer version is queued again. Without its content the item is
 * forgotten, and the next poll (a full one) finds it again.
 */
export async function requeueAfterLostLease(
  { database, now, log }: SendAgainDeps & { log: QueueLog },
  target: DeliveryTarget & { keyNames: readonly string[] },
  { pk, outcome }: ItemOutcome<Outcome>,
): Promise<void> {
  const { kind } = outcome
  if (kind === 'nothing' || kind === 'unchanged' || kind === 'waits') return
  if (outcome.kind === 'postponed' && !outcome.mayHaveArrived) return
  const { flow, destination, keyNames } = target
  const became = await database.transaction(async (trx) => {
    const row = await lockDelivery(trx, target, pk)
    // A permanent failure is visible as out of date. For the same version both processes sent the same body under one
    // key.
    if (!row || row.state === 'failed' || row.version <= outcome.version) return 'fine'
    const kept = row.payload ?? (await findContent(trx, flow, row))
    const payload = kept ?? (row.kind === 'delete' ? keyRecord(keyNames, pk) : undefined)
    if (!payload) return 'not kept'
    // A completed delete left no record of the item. The late request may have created it again.
    const begun = { body: bodyOf(outcome) }
    await writeResults(trx, target, [{ pk, became: 'begun', begun }], now())
    await requeueDelivery(trx, target, { pk, payload, at: now() })
    wakeDestination(database, target)
    return 'requeued'
  })
  if (became === 'fine') return
  if (became === 'not kept') {
    await database.transaction(async (trx) => {
      await resetHashes(trx, flow, [pk])
      await requestFullScan(trx, flow)
    })
  }
  log.warn({ flow, destination, pk }, 'a late request may have arrived; the item is sent again')
}

/** What a delete of the same item needs of the sent body. */
function bodyOf(outcome: Outcome): KeptBody | undefined {
  if (outcome.kind === 'delivered') return outcome.body
  return 'begun' in outcome ? outcome.begun?.body : undefined
}
