import { AppError } from '../../errors/app-error.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import type { KeyedTable } from '../../repositories/operations/send-leases.ts'
import {
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type KnownConnection, withOrderAccess } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import { nextUnknownCheck } from '../orders/status-check-schedule.ts'
import { type NewLease, type SendLease, takeSendLease } from './lease.ts'
import { type RequestContext, timeLeftMs } from './request-context.ts'

/**
 * A charge, refund or cancel that is to be made at the provider. Its row is committed before the call; the row's id is the
 * idempotency key of every call.
 */
export type Intent<Row, Answer, End> = {
  table: KeyedTable
  id: string
  order: OrderRow
  /** The row as this request wrote or read it. */
  row: Row
  /** The lease that came with a new row; null for an earlier row, which another process may be sending. */
  newLease: NewLease | null
  /** The client's connection, if it is known already. */
  connection?: KnownConnection | undefined
  read(): Promise<Row | undefined>
  /** The result without a call: the operation has ended, or nothing may be sent for it any more. */
  instead(row: Row, lease: SendLease): Promise<End | undefined>
  call(row: Row, token: string, options: CallOptions): Promise<Answer>
  /** Commits the answer: the outcome, the order's state and the audit entry. */
  record(row: Row, answer: Answer, lease: SendLease): Promise<End>
  /** Commits a call that failed. */
  fail(row: Row, error: ProviderError | AppError, lease: SendLease): Promise<End>
  /** Another process is sending: the result as far as it is known. */
  leave(): Promise<End>
}

/** How often a request checks whether another process has finished the operation. */
const recheckMs = 200

/**
 * Makes an operation at the provider: for the request that wrote the intent, and for the sweeper that finds it open. One process
 * sends at a time, under the operation's key, and commits the outcome with its audit entry. The effect happens at most once.
 */
export async function runOperation<Row, Answer, End>(
  deps: PaymentDeps,
  context: RequestContext,
  intent: Intent<Row, Answer, End>,
): Promise<End> {
  return deps.once(`${intent.table}:${intent.id}`, async () => {
    for (let { newLease } = intent; ; newLease = null) {
      const lease = await takeSendLease(deps, intent, newLease)
      if (lease) {
        try {
          const end = await attempt(deps, context, intent, lease)
          if (end !== undefined) return end
        } finally {
          await lease.release()
        }
        // The call was withheld: the row shows what happened meanwhile.
        continue
      }
      const waits = context.source === 'api' && timeLeftMs(deps, context) > 0
      if (!waits) return intent.leave()
      await deps.changes.wait(intent.order.id, recheckMs)
    }
  })
}

/** Undefined when the lease was lost before anything was sent. */
async function attempt<Row, Answer, End>(
  deps: PaymentDeps,
  context: RequestContext,
  intent: Intent<Row, Answer, End>,
  lease: SendLease,
): Promise<End | undefined> {
  const row = lease.isNew ? intent.row : await intent.read()
  if (!row) return intent.leave()
  const end = await intent.instead(row, lease)
  if (end !== undefined) return end
  const call = (token: string, options: CallOptions) =>
    intent.call(row, token, { ...options, permit: lease.permit })
  let answer: Answer
  try {
    answer = await withOrderAccess(deps, intent.order, context, call, intent.connection)
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    if (error instanceof ProviderError && error.failure === 'withheld') return undefined
    return intent.fail(row, error, lease)
  }
  return intent.record(row, answer, lease)
}

/**
 * Whether a failed call ends the operation. A refusal that proves that nothing was done ends it, unless an earlier attempt may
 * still arrive. Failures before the call (no connection, rate limit, refused token) end it only for the request that wrote it: that
 * request is answered that nothing was done, so it must not be done later.
 */
export function endsIntent(error: ProviderError | AppError, lease: SendLease): boolean {
  if (error instanceof ProviderError && error.effect === 'unknown') return false
  lease.settle()
  if (lease.unansweredAt !== null) return false
  return lease.isNew || (error instanceof ProviderError && error.provesAbsence)
}

/** The code of a failure, for the order's record. */
export function failureCodeOf(error: ProviderError | AppError): string | null {
  return error instanceof ProviderError ? error.providerCode : error.code
}

/** Ends a cancel or refund as refused. False when another process has taken the lease meanwhile. */
export function refuse(
  deps: PaymentDeps,
  { id }: OrderOperationRow,
  error: ProviderError | AppError,
  { sender }: SendLease,
): Promise<boolean> {
  const end = {
    state: 'refused' as const,
    providerCode: failureCodeOf(error),
    finishedAt: deps.now(),
  }
  return settleOperation(deps.database.db, id, { ...end, sender })
}

/**
 * Ends a cancel or refund as refused, or keeps it open: the sweeper repeats it under its key until its outcome is known. Answers
 * whether it has ended.
 */
export async function endOrKeep(
  deps: PaymentDeps,
  operation: OrderOperationRow,
  error: ProviderError,
  isFinal: boolean,
  lease: SendLease,
): Promise<boolean> {
  if (isFinal && (await refuse(deps, operation, error, lease))) return true
  await settleOperation(deps.database.db, operation.id, {
    state: 'unknown',
    providerCode: error.providerCode,
    finishedAt: null,
    nextAttemptAt: nextUnknownCheck(deps, operation.created_at, lease.doubtfulAt()),
  })
  return false
}
