import type { Db } from '../../db/database.ts'
import { type ItemDelivery, listItemDeliveries } from '../../repositories/delivery-reports.ts'
import { findItem } from '../../repositories/flow-items.ts'
import type { ItemDestination, ItemView } from '../flow-service.ts'
import { reportItemHistory } from './item-history.ts'

/** Where one item is: what the source showed last, and what each destination of its flow got of it, now and before. */
export async function reportItem(
  deps: { db: Db; now: () => Date },
  flow: { name: string; destinations: readonly { name: string; type: string }[] },
  pk: string,
): Promise<ItemView> {
  const seen = (await findItem(deps.db, flow.name, pk)) ?? null
  const names = flow.destinations.map(({ name }) => name)
  const rows = await listItemDeliveries(deps.db, flow.name, names, pk)
  const byDestination = new Map(rows.map((row) => [row.destination, row]))
  return {
    seen,
    destinations: flow.destinations.map(({ name, type }) => {
      const row = byDestination.get(name)
      return { name, type, ...(row ? viewOf(row, seen?.hash, deps.now()) : nothingKnown) }
    }),
    history: await reportItemHistory(deps.db, flow.name, pk),
  }
}

const nothingKnown: Omit<ItemDestination, 'name' | 'type'> = {
  state: 'unknown',
  inSync: null,
  attempts: 0,
  lastError: null,
  lastStatus: null,
  queuedAt: null,
  nextAttemptAt: null,
  deliveredAt: null,
}

function viewOf(
  row: ItemDelivery,
  seenHash: string | undefined,
  now: Date,
): Omit<ItemDestination, 'name' | 'type'> {
  return {
    state: stateOf(row, now),
    inSync: isInSync(row, seenHash),
    attempts: row.attempts,
    lastError: row.last_error,
    lastStatus: row.last_status,
    queuedAt: row.queued_at,
    nextAttemptAt: row.state === 'waiting' ? row.not_before : null,
    deliveredAt: row.delivered_at,
  }
}

function stateOf({ state, not_before: notBefore }: ItemDelivery, now: Date) {
  if (state === 'done') return 'delivered'
  if (state === 'failed') return 'failed'
  return notBefore !== null && notBefore > now ? 'delayed' : 'waiting'
}

/** Without a seen hash only a delivered deletion is known to agree: a reset item may or may not have changed since. */
function isInSync(row: ItemDelivery, seenHash: string | undefined): boolean | null {
  if (row.state !== 'done') return false
  if (seenHash !== undefined) return row.delivered_hash === seenHash
  return row.kind === 'delete' ? true : null
}
