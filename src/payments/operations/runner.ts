import { randomUUID } from 'node:crypto'
import { AppError } from '../../errors/app-error.ts'
import type { SendPermit } from '../../outbound/outbound.ts'
import { type CallOptions, ProviderError } from '../../provider/provider.ts'
import {
  acquireSendLease,
  beginAttempt,
  type KeyedTable,
  releaseSendLease,
  renewSendLease,
} from '../../repositories/operations/send-leases.ts'
import {
  type OrderOperationRow,
  settleOperation,
} from '../../repositories/orders/order-operations.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { type KnownConnection, withOrderAccess } from '../connection/oauth-tokens.ts'
import type { PaymentDeps } from '../deps.ts'
import { nextUnknownCheck } from '../orders/check-and-retry-times.ts'
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

/** How long a process that died blocks the others from sending. */
const leaseMs = 5_000
/** After this time without proof another process may have taken the lease. */
const freshMs = leaseMs - 500
/** The sweeper takes an open operation up this long after its lease has ended. */
const checkAfterMs = 1_000

/** The lease columns of a new row: its own request sends at once, so the row notes the first attempt. */
export function newLeaseColumns(now: Date) {
  const sender: string = randomUUID()
  return { sender, sender_until: new Date(now.getTime() + leaseMs), unanswered_at: now }
}

/** The lease that came with a new row. */
export type NewLease = {
  sender: string
  /** When the attempt was begun that the row notes. */
  begunAt: Date
  /** When the row was written, by performance.now(): the lease is proven from then on. */
  provenMs: number
}

/** The lease of a row written with `newLeaseColumns`; `provenMs` is when the statement began. */
export function newLeaseOf(
  row: { sender: string | null; created_at: Date },
  provenMs: number,
): NewLease {
  return { sender: row.sender as string, begunAt: row.created_at, provenMs }
}

/** When the sweeper takes up a row whose request has stored nothing since `now`. */
export function firstCheckAt(now: Date): Date {
  return new Date(now.getTime() + leaseMs + checkAfterMs)
}

/** The exclusive right to send under the key of a row. */
export type SendLease = {
  /** The owner of the lease in the row. */
  sender: string
  /** It came with the row: nothing was sent under the key before. */
  isNew: boolean
  /** When the latest earlier attempt without an answer began, whose effect may still come; null when all were answered. */
  unansweredAt: Date | null
  /** The same, including the attempts under this lease. */
  doubtfulAt(): Date | null
  /** Proves before each attempt that the lease is still owned. */
  permit: SendPermit
  /** Notes that every attempt under this lease was answered and had no effect. */
  settle(): void
  /** Notes the row as it was written last, which may have released the lease. */
  wrote(row: { sender: string | null }): void
  /** Ends the lease, unless the row as it was written last has released it. Never fails: what is not released expires. */
  release(): Promise<void>
}

/**
 * Takes the exclusive right to send under the key of this row; undefined while another process has it. `newLease` is the lease that
 * came with a new row. It is renewed until it is released.
 *
 * A process may be suspended at any moment and lose its lease meanwhile. So each attempt proves the lease by a statement right
 * before it, which also notes the attempt, and by the time since then at its first byte. Without proof nothing is sent.
 */
export async function takeSendLease(
  deps: PaymentDeps,
  { table, id }: { table: KeyedTable; id: string },
  newLease: NewLease | null,
): Promise<SendLease | undefined> {
  const { db } = deps.database
  const sender = newLease?.sender ?? randomUUID()
  const times = () => {
    const now = deps.now()
    return { now, until: new Date(now.getTime() + leaseMs), checkAt: firstCheckAt(now) }
  }
  const taken =
    newLease === null
      ? await acquireSendLease(db, table, id, sender, times())
      : { unansweredAt: null }
  if (!taken) return undefined
  const renewal = setInterval(() => {
    renewSendLease(db, table, id, sender, times()).catch((error) =>
      deps.log.warn({ err: error, id }, 'lease not renewed'),
    )
  }, leaseMs / 3)
  const { unansweredAt } = taken
  let noted = newLease
  let doubtfulAt = newLease?.begunAt ?? unansweredAt
  let isSettled = false
  let isFree = false
  return {
    sender,
    isNew: newLease !== null,
    unansweredAt,
    doubtfulAt: () => doubtfulAt,
    async permit() {
      const first = noted
      noted = null
      // The statement that wrote the row has noted this attempt and proven the lease.
      if (first && isFresh(first, deps.now())) {
        return () => performance.now() - first.provenMs < freshMs
      }
      const askedAt = performance.now()
      const begun = times()
      if (!(await beginAttempt(db, table, id, sender, begun))) return undefined
      doubtfulAt = begun.now
      isSettled = false
      return () => performance.now() - askedAt < freshMs
    },
    settle() {
      doubtfulAt = unansweredAt
      isSettled = true
    },
    wrote(row) {
      isFree = row.sender !== sender
    },
    async release() {
      clearInterval(renewal)
      if (isFree) return
      await releaseSendLease(db, table, id, sender, isSettled ? unansweredAt : undefined).catch(
        (error) => deps.log.warn({ err: error, id }, 'lease not released; it expires'),
      )
    },
  }
}

/** By both clocks: only one of them advances while the machine is suspended. */
function isFresh({ begunAt, provenMs }: NewLease, now: Date): boolean {
  const ageMs = Math.max(performance.now() - provenMs, now.getTime() - begunAt.getTime())
  return ageMs < freshMs / 2
}
