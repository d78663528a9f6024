import type { OrderEvidence } from '../../domain/order.ts'
import { isUntouchable } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  type CallOptions,
  encodeReference,
  isAnswered,
  type NewProviderOrder,
  ProviderError,
} from '../../provider/provider.ts'
import {
  findOrderOfAnyClient,
  type OrderRow,
  planCheck,
} from '../../repositories/orders/order-queries.ts'
import type { KnownConnection } from '../connection/token-keeper.ts'
import type { PaymentDeps } from '../deps.ts'
import type { NewLease, SendLease } from '../operations/lease.ts'
import type { RequestContext } from '../operations/request-context.ts'
import { codeOf, endsIntent, runOperation } from '../operations/runner.ts'
import { applyNotCreated, applyUnknownCreation, type EvidenceSource } from './apply-evidence.ts'
import { confirmCreation, type Found, noteUnproven, searchOrder } from './found-order.ts'
import { moveOrder } from './move-order.ts'
import {
  canNotArrive,
  isKeyRemembered,
  nextCreationLook,
  nextUnknownCheck,
} from './plan-status-checks.ts'

export type CreationOutcome =
  | { kind: 'confirmed'; order: OrderRow }
  | { kind: 'refused'; order: OrderRow; error: ProviderError | AppError }
  | { kind: 'unknown'; order: OrderRow; error: unknown }

export type ResolveOptions = {
  /** The lease that came with the row, for the request that wrote it. */
  newLease?: NewLease | null
  /** The client's connection, as that request has found it. */
  connection?: KnownConnection | undefined
  /** A till asks for this charge now, so it may also be made when its first time is over. */
  isCharge?: boolean
}

/**
 * Brings the creation of an order to an outcome, for the request that made it and for whoever finds it open later. The
 * provider always gets the order's own key, so however often this runs there is at most one order.
 *
 * Sent is only what somebody may still want: nothing after a wish to cancel, nothing by itself after the order's time, and
 * nothing under a key that the provider may have forgotten. What is not sent is searched.
 */
export function resolveCreation(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  { newLease = null, connection, isCharge = false }: ResolveOptions = {},
): Promise<CreationOutcome> {
  return runOperation<OrderRow, OrderEvidence, CreationOutcome>(deps, context, {
    table: 'orders',
    id: order.id,
    order,
    row: order,
    newLease,
    connection,
    read: () => findOrderOfAnyClient(deps.database.db, order.id),
    async instead(known, lease) {
      const ended = endedAs(known)
      if (ended || maySend(deps, known, isCharge)) return ended
      return search(deps, known, context, lease)
    },
    call: (known, token, options) => create(deps, known, token, options),
    record: (known, evidence, lease) => record(deps, known, evidence, context, lease),
    fail: (known, error, lease) => settleFailure(deps, known, error, context, lease),
    leave: () => leaveToOther(deps, order),
  })
}

/** Another process is sending: what becomes of it is seen at the next look. */
async function leaveToOther(deps: PaymentDeps, order: OrderRow): Promise<CreationOutcome> {
  const nextCheckAt = nextUnknownCheck(deps, order.created_at)
  await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt })
  return { kind: 'unknown', order, error: undefined }
}

function endedAs(order: OrderRow): CreationOutcome | undefined {
  if (order.creation === 'confirmed') return { kind: 'confirmed', order }
  if (order.creation !== 'refused') return undefined
  const message = 'The provider refused an equal request a moment ago; nothing was charged'
  return { kind: 'refused', order, error: new AppError('PROVIDER_ERROR', { message }) }
}

function maySend(deps: PaymentDeps, order: OrderRow, isCharge: boolean): boolean {
  const now = deps.now()
  const sentAt = order.sent_at ?? order.created_at
  if (order.cancel_requested_at !== null || !isKeyRemembered(sentAt, now)) return false
  return isCharge || now < order.expires_at
}

async function create(
  deps: PaymentDeps,
  order: OrderRow,
  token: string,
  options: CallOptions,
): Promise<OrderEvidence> {
  const createAs = (externalReference: string) => {
    const content = { ...providerOrder(order), externalReference }
    return deps.provider.orders.create(token, order.id, content, options)
  }
  try {
    return await createAs(order.mp_external_reference)
  } catch (error) {
    const earlier = isKeyUsed(error) ? await replayEarlier(order, createAs) : undefined
    if (!earlier) throw error
    return earlier
  }
}

async function record(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
  context: RequestContext,
  lease: SendLease,
): Promise<CreationOutcome> {
  const after = await confirmCreation(deps, order, evidence, context, lease.sender)
  lease.wrote(after)
  if (after.creation === 'confirmed') return { kind: 'confirmed', order: after }
  // Evidence that contradicts the order confirms nothing: whether the customer is charged stays unknown.
  return keepUnknown(deps, order, context.source, lease)
}

async function settleFailure(
  deps: PaymentDeps,
  order: OrderRow,
  error: ProviderError | AppError,
  context: RequestContext,
  lease: SendLease,
): Promise<CreationOutcome> {
  // The key stands for an order of other content, or a refusal meets attempts that can no longer arrive: look.
  if (asksForSearch(deps, error, lease)) return search(deps, order, context, lease, error)
  const ended =
    endsIntent(error, lease) && (await endUnmade(deps, order, context.source, lease, error))
  return ended || keepUnknown(deps, order, context.source, lease, error)
}

function isKeyUsed(error: unknown): boolean {
  return error instanceof ProviderError && error.providerCode === 'idempotency_key_already_used'
}

/** A restored backup has rarely forgotten more sales of one text than these. */
const earlierAtMost = 3

/**
 * What the provider has under the key when that is this very sale under the reference of an earlier one. So it is after a
 * restored backup, when the order was found and taken in, holds its reference, and its till repeats the sale under its key:
 * the provider then answers with it. Under a key that is used nothing new can come of asking.
 */
async function replayEarlier(
  order: OrderRow,
  createAs: (reference: string) => Promise<OrderEvidence>,
): Promise<OrderEvidence | undefined> {
  const last = order.reference_attempt - 1
  for (let attempt = last; attempt >= 1 && attempt > last - earlierAtMost; attempt -= 1) {
    try {
      return await createAs(encodeReference(order.external_reference, attempt))
    } catch (error) {
      if (!isKeyUsed(error)) return undefined
    }
  }
  return undefined
}

/** Whether a refusal is best followed by a search: it says that the key is taken, or only old attempts make it doubtful. */
function asksForSearch(
  deps: PaymentDeps,
  error: ProviderError | AppError,
  { unansweredAt }: SendLease,
): error is ProviderError {
  if (!(error instanceof ProviderError)) return false
  if (isKeyUsed(error)) return true
  return error.provesAbsence && unansweredAt !== null && canNotArrive(deps, unansweredAt)
}

/**
 * Looks for the order by its reference. When the provider answers without it, and no attempt can still arrive, it was never
 * made. An order that shows up all the same opens its row again.
 */
async function search(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  lease: SendLease,
  refusal?: ProviderError,
): Promise<CreationOutcome> {
  // A refused attempt of just now had no effect: only those before it count.
  if (refusal?.provesAbsence) lease.settle()
  const isKeyTaken = refusal !== undefined && !refusal.provesAbsence
  const { source } = context
  const begunAt = deps.now()
  let found: Found
  try {
    found = await searchOrder(deps, order, context, { isKeyTaken, doubtfulAt: lease.doubtfulAt() })
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    const unknown = await keepUnknown(deps, order, source, lease, error)
    return { ...unknown, error: refusal ?? error }
  }
  if (found.evidence) return record(deps, order, found.evidence, context, lease)
  if (found.unproven.length > 0) {
    const noted = await noteUnproven(deps, order, found.unproven, source)
    return keepUnknown(deps, noted, source, lease, refusal)
  }
  const isUnmade = found.isAbsent && !isKeyTaken && canNotArrive(deps, lease.doubtfulAt(), begunAt)
  const proof = refusal ?? new AppError('PROVIDER_ERROR', { message: neverMade })
  const ended =
    isUnmade &&
    (await endUnmade(deps, order, source, lease, proof, refusal?.providerCode ?? 'not_found'))
  return ended || keepUnknown(deps, order, source, lease, refusal)
}

const neverMade = 'The provider has no such order; nothing was charged'

/** Closes the order as never made, unless somebody else sends by now (undefined) or it was found meanwhile. */
async function endUnmade(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  lease: SendLease,
  error: ProviderError | AppError,
  code = codeOf(error),
): Promise<CreationOutcome | undefined> {
  const { sender } = lease
  const proof = { code, unansweredAt: lease.doubtfulAt() }
  const { order: after } = await moveOrder(deps, deps.database.db, order, source, (current) => ({
    move: current.sender === sender ? applyNotCreated(current, deps.now(), proof) : undefined,
    along: { onlyOf: sender, frees: sender },
  }))
  lease.wrote(after)
  if (after.creation === 'refused') return { kind: 'refused', order: after, error }
  return endedAs(after)
}

/** The content under the key: made of the row alone, so that every repetition is equal to the first. */
function providerOrder(order: OrderRow): NewProviderOrder {
  return {
    externalReference: order.mp_external_reference,
    amountCents: order.amount_cents,
    isWholeAmount: order.whole_amount,
    terminalId: order.terminal_id,
    description: order.description,
    ticketNumber: order.send_ticket_number ? order.ticket_number : null,
    printTicket: order.print_ticket,
    paymentMethod: order.payment_method,
    expirationMinutes: order.expiration_minutes,
  }
}

async function keepUnknown(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  lease: SendLease,
  error?: ProviderError | AppError,
): Promise<Extract<CreationOutcome, { kind: 'unknown' }>> {
  const { order: unknown } = await moveOrder(deps, deps.database.db, order, source, (current) => {
    const move = applyUnknownCreation(current, deps.now())
    if (isUntouchable(current.status)) return { move }
    const answered = error === undefined || isAnswered(error)
    const doubtfulAt = lease.doubtfulAt()
    return {
      move,
      look: { checkedAt: null },
      plan: (order) => nextCreationLook(deps, order, { answered, doubtfulAt }),
    }
  })
  return { kind: 'unknown', order: unknown, error }
}
