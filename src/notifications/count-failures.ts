import type { Database } from '../db/database.ts'
import type { DeliveryTarget } from '../repositories/flows/deliveries.ts'
import {
  addPending,
  examplesKept,
  listUntold,
  takeUntold,
} from '../repositories/notifications/failure-queries.ts'
import { exampleOf } from './compose-failures.ts'

export type AlertTarget = DeliveryTarget & {
  /** Keys of those who are told about it. Without any, its failures wait for somebody to be told. */
  channels: readonly string[]
}

const rowsAtOnce = 1_000
/** Of a destination in one look: a mountain of old failures must not keep others from being told. */
const batchesAtOnce = 20

/**
 * Adds the final failures that are not counted yet to what each receiver is to be told. Marking and adding is one
 * transaction, and what counts is the row itself, not its time: failures may commit in another order than they happened.
 */
export async function countFailures(
  database: Database,
  targets: readonly AlertTarget[],
): Promise<void> {
  const told = targets.filter(({ channels }) => channels.length > 0)
  if (told.length === 0) return
  const untold = await listUntold(
    database.db,
    told.map(({ flow, destination }) => ({ flow, destination })),
  )
  const isUntold = ({ flow, destination }: AlertTarget) =>
    untold.some((one) => one.flow === flow && one.destination === destination)
  for (const target of told.filter(isUntold)) {
    let counted = rowsAtOnce
    for (let batch = 0; batch < batchesAtOnce && counted === rowsAtOnce; batch += 1) {
      counted = await countBatch(database, target)
    }
  }
}

async function countBatch(database: Database, target: AlertTarget): Promise<number> {
  const { flow, destination, channels } = target
  return database.transaction(async (trx) => {
    const failures = await takeUntold(trx, { flow, destination }, rowsAtOnce)
    const [first] = failures
    if (!first) return 0
    const pending = {
      count: failures.length,
      firstAt: first.at,
      examples: failures.slice(0, examplesKept).map(exampleOf),
    }
    // In the same order everywhere, so that two processes never wait for each other.
    for (const channel of [...channels].sort()) {
      await addPending(trx, { flow, channel, kind: 'failures', subject: destination }, pending)
    }
    return failures.length
  })
}
