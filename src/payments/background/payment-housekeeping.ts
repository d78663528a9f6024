import { createThrottledSteps } from '../../jobs/throttled-steps.ts'
import { deleteExpiredStates } from '../../repositories/connection/connection-queries.ts'
import { deleteOldAttempts } from '../../repositories/events/event-attempts.ts'
import { deleteFormerSecrets } from '../../repositories/events/event-endpoints.ts'
import { deleteOldEvents } from '../../repositories/events/event-log.ts'
import { deleteIdempotencyKeys } from '../../repositories/orders/idempotency-keys.ts'
import { deleteOldOrders } from '../../repositories/orders/old-orders.ts'
import { deleteOrderCalls } from '../../repositories/orders/timeline-queries.ts'
import { rememberRemoval } from '../../repositories/settings.ts'
import { deleteOldWebhooks } from '../../repositories/webhooks/webhook-log.ts'
import { deleteOldEntries } from '../audit/delete-old-entries.ts'
import { renewDueConnections } from '../connection/oauth-tokens.ts'
import type { PaymentDeps } from '../deps.ts'

/** How long rows are kept: orders with their rows, the calls of their timelines, webhooks, and entries of the audit log. */
export type KeptTimes = {
  ordersMs: number
  callsMs: number
  webhooksMs: number
  /** undefined: for ever. */
  auditMs: number | undefined
}

/** The documented time for the header `Idempotency-Key`. */
const keysMs = 30 * 24 * 3600_000
/** How long programs may be away without missing an event. */
const eventsMs = 30 * 24 * 3600_000
/** How long attempts to send events are shown: each may have 1,000 characters of an answer. */
const attemptsMs = 7 * 24 * 3600_000
/** A step takes some 10 ms of an idle database. */
const rowsAtOnce = 1_000
const ordersAtOnce = 100
/** Each is checked before, on the thread that serves the tills. */
const entriesAtOnce = 200

/** Renews connections, and deletes old rows in small steps. Ends early when `signal` aborts. */
export async function runHousekeeping(
  deps: PaymentDeps,
  keep: KeptTimes,
  signal: AbortSignal,
): Promise<void> {
  const { database } = deps
  const { db } = database
  const now = deps.now()
  const before = (ms: number) => new Date(now.getTime() - ms)
  const step = createThrottledSteps(deps, signal)

  /** Repeats `work` until it finds fewer rows than its limit. Returns the number of rows. */
  const inSteps = async (limit: number, work: (limit: number) => Promise<number>) => {
    let gone = 0
    for (let found = limit; found === limit && !signal.aborted; gone += found) {
      found = await step(() => work(limit))
    }
    return gone
  }

  await renewDueConnections(deps)
  await deleteExpiredStates(db, now)
  await deleteFormerSecrets(db, now)
  const deleted = {
    keys: await inSteps(rowsAtOnce, (limit) => deleteIdempotencyKeys(db, before(keysMs), limit)),
    events: await inSteps(rowsAtOnce, (limit) =>
      database.transaction((trx) => deleteOldEvents(trx, before(eventsMs), limit)),
    ),
    attempts: await inSteps(rowsAtOnce, (limit) =>
      deleteOldAttempts(db, before(attemptsMs), limit),
    ),
    calls: await inSteps(rowsAtOnce, (limit) => deleteOrderCalls(db, before(keep.callsMs), limit)),
    webhooks: await inSteps(rowsAtOnce, (limit) =>
      deleteOldWebhooks(db, before(keep.webhooksMs), limit),
    ),
    orders: await inSteps(ordersAtOnce, (limit) =>
      database.transaction((trx) => deleteOldOrders(trx, before(keep.ordersMs), limit)),
    ),
  }
  const { auditMs } = keep
  // Last: a log that was changed fails here.
  const entries =
    auditMs === undefined
      ? 0
      : await inSteps(entriesAtOnce, (limit) => deleteOldEntries(deps, before(auditMs), limit))
  if (Object.values(deleted).some((rows) => rows > 0) || entries > 0) {
    deps.log.info({ ...deleted, entries }, 'old rows deleted')
  }
  if (!signal.aborted) await rememberRemoval(db, now)
}
