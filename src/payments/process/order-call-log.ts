import type { Database } from '../../db/database.ts'
import { isDatabaseUnavailable } from '../../db/database-failures.ts'
import type { Log } from '../../domain/log.ts'
import { createBatchingWriter } from '../../jobs/batching-writer.ts'
import type { ProviderCallObserver } from '../../provider/provider.ts'
import { insertOrderCalls, type NewOrderCall } from '../../repositories/orders/timeline-queries.ts'

/** The log of requests and provider calls about orders, for their timelines. */
export type OrderCallLog = {
  /** Writes a call a moment later, unless it is a plain one. The caller neither waits for it nor fails with it. */
  note(call: NewOrderCall): void
  recordProviderCall: ProviderCallObserver
  /** Writes what is pending. Never fails. */
  flush(): Promise<void>
  /** Writes the rest, if the database is available. */
  close(): Promise<void>
}

/** A charge makes several calls at once: one statement writes them, after the charge's own. */
const afterMs = 200
const retryMs = 5_000
const rowsAtOnce = 500
/** A limit while the database is not available. */
const pendingAtMost = 5_000

/** A call that takes longer is logged although it succeeded. */
const slowMs = 2_000

/**
 * Operations that the order itself records when they succeed, in `created_at`, `sent_at`, its history and its count of status
 * checks.
 */
const recordedByOrder = {
  request: { createOrder: 201, readOrder: 200 },
  provider: { 'order.create': 201, 'order.read': 200 },
} as const

const idShape = /^[\w-]{1,100}$/
const longestText = 200

/**
 * Calls wait in memory and are written in batches, so a crash loses only the last moments of this log. A call that succeeds at
 * once and is visible in the order is not logged: that would be most of a sale's writes.
 */
export function createOrderCallLog(database: Database, now: () => Date, log: Log): OrderCallLog {
  let pending: NewOrderCall[] = []
  let dropped = 0

  const write = async () => {
    while (pending.length > 0) {
      const calls = pending.splice(0, rowsAtOnce)
      try {
        await insertOrderCalls(database.db, calls)
      } catch (error) {
        if (!isDatabaseUnavailable(error)) {
          log.error({ err: error, calls: calls.length }, 'order calls not logged')
          continue
        }
        pending = [...calls, ...pending]
        return { retryAfterMs: retryMs }
      }
    }
    if (dropped > 0) log.warn({ calls: dropped }, 'order calls not logged')
    dropped = 0
    return undefined
  }
  const isEmpty = () => pending.length === 0
  const writer = createBatchingWriter({ name: 'order calls', afterMs, isEmpty, write, log })

  const note = (call: NewOrderCall) => {
    // A value that cannot be an order's id might not be text that the database accepts.
    if (!idShape.test(call.order) || isPlain(call)) return
    if (pending.length >= pendingAtMost) {
      pending.shift()
      dropped += 1
    }
    pending.push(call)
    writer.later()
  }

  return {
    note,
    recordProviderCall(entry) {
      if (!entry.about) return
      const { operation, status, attempt, durationMs } = entry
      // Before the entry is built: most calls are plain ones.
      if (isPlain({ kind: 'provider', operation, status, attempt, duration_ms: durationMs })) return
      note({
        order: entry.about.orderId,
        client: entry.about.client,
        kind: 'provider',
        at: new Date(now().getTime() - entry.durationMs),
        duration_ms: Math.round(entry.durationMs),
        operation: entry.operation,
        caller: entry.about.source,
        status: entry.status,
        code: plain(entry.code ?? entry.failure),
        attempt: entry.attempt,
        request_id: plain(entry.requestId),
      })
    },
    flush: writer.flush,
    async close() {
      await writer.flush()
      if (pending.length > 0) log.warn({ calls: pending.length }, 'order calls not logged')
    },
  }
}

/** A till's request, or a first call to the provider, that succeeded at once. */
function isPlain({
  kind,
  caller,
  operation,
  status,
  attempt,
  duration_ms,
}: Pick<NewOrderCall, 'kind' | 'operation' | 'status' | 'attempt' | 'duration_ms'> & {
  caller?: string
}): boolean {
  if (kind === 'request' && caller !== 'key') return false
  const recorded: Readonly<Record<string, number>> = recordedByOrder[kind]
  return recorded[operation] === status && attempt === 1 && duration_ms < slowMs
}

/** Text from the provider, cut to what the database accepts. */
function plain(text: string | null): string | null {
  return (
    text
      ?.replace(/\p{Cc}/gu, '')
      .slice(0, longestText)
      .toWellFormed() ?? null
  )
}
