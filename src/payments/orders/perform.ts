import { AppError } from '../../errors/app-error.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import {
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type Access, aboutOrder, type KnownConnection, withAccess } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import type { SendLease } from '../operations/send-lease.ts'
import type { RequestContext } from '../request-context.ts'
import { nextUnknownCheck } from './check-and-retry-times.ts'

/** A failed call: an answer of the provider that is no success, no answer, or a failure before the call. */
export type CallFailure = ProviderError | AppError

/** What came of a call to the provider. */
type Sent<Answer> =
  | { kind: 'answered'; answer: Answer }
  | { kind: 'failed'; error: CallFailure }
  /** The lease was lost before anything was sent: the row shows what happened meanwhile. */
  | { kind: 'withheld' }

/** A call for an operation on an order. */
export type Performed<Answer> = {
  order: OrderRow
  lease: SendLease
  context: RequestContext
  /** The client's connection, if it is known already. */
  connection: KnownConnection | undefined
  call(access: Access, options: CallOptions): Promise<Answer>
}

/**
 * Calls the provider for an operation whose row is committed. Each attempt proves the lease first. A call of a token that the provider
 * refuses is repeated with a renewed one.
 */
export async function perform<Answer>(
  deps: PaymentDeps,
  { order, lease, context, connection, call }: Performed<Answer>,
): Promise<Sent<Answer>> {
  const options = { ...aboutOrder(order, context, connection), permit: lease.permit }
  try {
    const answer = await withAccess(deps, order.client, call, options)
    return { kind: 'answered', answer }
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    const isWithheld = error instanceof ProviderError && error.failure === 'withheld'
    return isWithheld ? { kind: 'withheld' } : { kind: 'failed', error }
  }
}

/**
 * Whether a failed call ends the operation. A refusal that proves that nothing was done ends it, unless an earlier attempt may
 * still arrive. Failures before the call (no connection, rate limit, refused token) end it only for the request that wrote it: that
 * request is answered that nothing was done, so it must not be done later.
 */
export function endsOperation(error: CallFailure, lease: SendLease): boolean {
  if (error instanceof ProviderError && error.effect === 'unknown') return false
  lease.settle()
  if (lease.unansweredAt !== null) return false
  return lease.isNew || (error instanceof ProviderError && error.provesAbsence)
}

/** The code of a failure, for the order's record. */
export function failureCodeOf(error: CallFailure): string | null {
  return error instanceof ProviderError ? error.providerCode : error.code
}

/** Ends a cancel or refund as refused. False when another process has taken the lease meanwhile. */
export function refuse(
  deps: PaymentDeps,
  { id }: OrderOperationRow,
  error: CallFailure,
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
    nextAttemptAt: nextUnknownCheck(deps, operation.created_at, lease.doubtfulAt),
  })
  return false
}
