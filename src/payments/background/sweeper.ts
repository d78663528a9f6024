import type { ClientName } from '../../domain/client-name.ts'
import { holdsTerminal, isCancelRequested } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import { createBackgroundJob } from '../../jobs/background-job.ts'
import { withLease } from '../../jobs/with-lease.ts'
import { findDueWork } from '../../repositories/due-work.ts'
import {
  leaseDueOperations,
  type OrderOperationRow,
  planAttempt,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import {
  findOrderOfAnyClient,
  leaseDueOrders,
  type OrderRow,
  planCheck,
} from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import { type AccountPauses, AccountQueues } from '../operations/account-queues.ts'
import { isForgotten, isKeyRemembered, nextUnknownCheck } from '../orders/check-and-retry-times.ts'
import { refreshOrder } from '../orders/read.ts'
import { settleRefundByReading } from '../orders/record-refund.ts'
import { cancelAtProvider, keepOpen, settleCancel } from '../orders/send-cancel.ts'
import { refundAtProvider } from '../orders/send-refund.ts'
import { answerWithinMs, serviceContext } from '../request-context.ts'
import type { WebhookInbox } from '../webhooks/webhook-inbox.ts'
import { type KeptTimes, runHousekeeping } from './payment-housekeeping.ts'

export type Sweeper = {
  start(): void
  /** Searches for due orders now, if it was started. */
  wake(): void
  /** Starts nothing new, and resolves when all running work is done. */
  stop(): Promise<void>
  /** Does all that is due now, for tests. Returns how many orders were checked. */
  sweepOnce(): Promise<number>
}

/** 16 per account: enough to check 150 tills of one shop within seconds. */
const checksAtOnce = 32
const operationsAtOnce = 16
/** With the limit of 16: some 30 status checks a second for the orders of one account, in each process. */
const checkRestMs = 500
const housekeepingMs = 3600_000
/** When the work of the hour is another process's, it is looked at again after this: longer than a lease lasts. */
const leaseRetryMs = 15_000

/** Finishes what requests left open, in every process. Leases of rows keep two processes off the same work. */
export function createSweeper(
  deps: PaymentDeps,
  inbox: WebhookInbox,
  pauses: AccountPauses,
  { intervalMs, keep }: { intervalMs: number; keep: KeptTimes },
): Sweeper {
  const { db } = deps.database
  const statusChecks = new AccountQueues(deps, {
    name: 'sweeper',
    pauses,
    atOnce: checksAtOnce,
    restMs: checkRestMs,
    async lease(now, leaseUntil, limits) {
      // An order that a request has just checked is not due.
      await deps.statusChecks.flush()
      const orders = await leaseDueOrders(db, now, leaseUntil, limits)
      return orders.map((order) => ({ id: order.id, account: order.mp_user_id, order }))
    },
    work: ({ order }) => checkOrder(deps, pauses, order),
  })
  const operations = new AccountQueues(deps, {
    name: 'sweeper of operations',
    pauses,
    atOnce: operationsAtOnce,
    async lease(now, leaseUntil, limits) {
      const due = await leaseDueOperations(db, now, leaseUntil, limits)
      return due.map(({ mp_user_id, ...operation }) => ({
        id: operation.id,
        account: mp_user_id,
        operation,
      }))
    },
    work: ({ operation }) => finishOperation(deps, pauses, operation),
  })
  // Rows of other processes that were killed are found here too. One cheap statement: an idle service asks nothing else for it.
  const look = createBackgroundJob(deps, {
    name: 'sweeper',
    intervalMs,
    async run() {
      const due = await findDueWork(db, deps.now())
      if (due.webhooks) inbox.wake()
      if (due.statusChecks) statusChecks.wake()
      if (due.operations) operations.wake()
    },
  })
  let lastHousekeeping = 0
  const housekeeping = createBackgroundJob(deps, {
    name: 'housekeeping',
    intervalMs,
    async run(stopped) {
      const now = deps.now().getTime()
      if (now - lastHousekeeping < housekeepingMs) return
      lastHousekeeping = now
      const done = await withLease(deps, 'housekeeping', ({ signal }) =>
        runHousekeeping(deps, keep, AbortSignal.any([stopped, signal])),
      )
      // Another process does this hour's work, or had the lease when it was killed: then it is free a moment later.
      if (!done) lastHousekeeping = now - housekeepingMs + leaseRetryMs
    },
  })

  let isStarted = false
  return {
    wake() {
      if (isStarted) statusChecks.wake()
    },
    async sweepOnce() {
      await inbox.workDue()
      const checked = await statusChecks.once()
      await operations.once()
      await housekeeping.once()
      return checked
    },
    start() {
      isStarted = true
      look.start()
      housekeeping.start()
    },
    async stop() {
      await look.stop()
      await Promise.all([inbox, statusChecks, operations, housekeeping].map((job) => job.stop()))
    },
  }
}

async function checkOrder(
  deps: PaymentDeps,
  pauses: AccountPauses,
  order: OrderRow,
): Promise<void> {
  try {
    const pausedUntil = pauses.pausedUntil(order.mp_user_id, deps.now())
    if (pausedUntil) {
      await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt: pausedUntil })
      return
    }
    const {
      order: current,
      stale,
      failure,
    } = await refreshOrder(deps, order, serviceContext(deps, 'sweeper'))
    pauses.note(order.mp_user_id, failure, deps.now())
    if (!stale && isForgotten(current, deps.now()) && current.mp_order_id !== null) {
      await cancelAtProvider(deps, current, serviceContext(deps, 'sweeper', answerWithinMs))
    }
  } catch (error) {
    logFailure(deps, { orderId: order.id, client: order.client }, error)
  }
}

/** Finishes a cancel or refund whose outcome was lost, under its own key. */
async function finishOperation(
  deps: PaymentDeps,
  pauses: AccountPauses,
  operation: OrderOperationRow,
): Promise<void> {
  try {
    const found = await findOrderOfAnyClient(deps.database.db, operation.order_id)
    if (!found) return
    const pausedUntil = pauses.pausedUntil(found.mp_user_id, deps.now())
    if (pausedUntil) {
      await planAttempt(deps.database.db, operation.id, pausedUntil)
      return
    }
    const { order, stale, failure } = await refreshOrder(
      deps,
      found,
      serviceContext(deps, 'sweeper'),
    )
    pauses.note(found.mp_user_id, failure, deps.now())
    const context = serviceContext(deps, 'sweeper', answerWithinMs)
    if (operation.kind === 'refund' && isKeyRemembered(operation.created_at, deps.now())) {
      await refundAtProvider(deps, order, operation, context)
      return
    }
    if (stale) {
      await tryLater(deps, operation)
    } else if (operation.kind === 'refund') {
      await settleRefundByReading(deps, order, operation, context.actor)
    } else if (isCancelRequested(order)) {
      await keepOpen(deps, operation)
    } else if (holdsTerminal(order.status)) {
      await cancelAtProvider(deps, order, context)
    } else {
      await settleCancel(deps, order, operation, context.actor)
    }
  } catch (error) {
    logFailure(deps, { orderId: operation.order_id, client: operation.client }, error)
  }
}

/** For when the provider cannot be read. */
async function tryLater(deps: PaymentDeps, operation: OrderOperationRow): Promise<void> {
  await settleOperation(deps.database.db, operation.id, {
    state: 'unknown',
    finishedAt: null,
    nextAttemptAt: nextUnknownCheck(deps, operation.created_at),
  })
}

function logFailure(
  deps: PaymentDeps,
  about: { orderId: string; client: ClientName },
  error: unknown,
): void {
  if (error instanceof AppError) {
    deps.log.info(
      { ...about, code: error.code },
      'order still open; checked again in the next round',
    )
  } else {
    deps.log.error({ ...about, err: error }, 'status check failed')
  }
}
