import type { OrderEvidence } from '../../domain/order.ts'
import { isFinal } from '../../domain/order-state.ts'
import { encodeReference } from '../../domain/provider-names.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import {
  type CallOptions,
  isAnswered,
  type NewProviderOrder,
  ProviderError,
} from '../../provider/provider.ts'
import {
  findOrderOfAnyClient,
  type OrderRow,
  planCheck,
} from '../../repositories/orders/order-queries.ts'
import type { Access, KnownConnection } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  type KeyedRow,
  type NewLease,
  type SendLease,
  takeSendLease,
} from '../operations/send-lease.ts'
import type { EvidenceSource, RequestContext } from '../request-context.ts'
import {
  canNotArrive,
  isKeyRemembered,
  nextCreationCheck,
  nextUnknownCheck,
} from './check-and-retry-times.ts'
import { type Found, noteUnproven, searchOrder } from './find-at-provider.ts'
import {
  type CallFailure,
  endsOperation,
  failureCodeOf,
  type Performed,
  perform,
} from './perform.ts'
import { confirmCreation, keepNextCheck, moveOrder } from './state.ts'

export type CreationOutcome =
  | { kind: 'confirmed'; order: OrderRow }
  | { kind: 'refused'; order: OrderRow; error: CallFailure }
  | { kind: 'unknown'; order: OrderRow; error: unknown }

type ResolveOptions = {
  /** The lease that was inserted with the row, for the request that did it. */
  newLease?: NewLease | null
  /** The client's connection, if it is already read. */
  connection?: KnownConnection | undefined
  /** A request asks for this charge now, so it may be sent after its first deadline, too. */
  isCharge?: boolean
}

/**
 * Finds the outcome of an order's creation, for its request and for the sweeper. The provider always gets the order's own key, so
 * there is at most one order.
 *
 * Nothing is sent after a requested cancel, after the order's expiry without a request, or under a key that the provider may have
 * forgotten. Then the order is searched at the provider.
 */
export function resolveCreation(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  options: ResolveOptions = {},
): Promise<CreationOutcome> {
  return deps.once(`orders:${order.id}`, () => sendCreation(deps, order, context, options))
}

async function sendCreation(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  { newLease = null, connection, isCharge = false }: ResolveOptions,
): Promise<CreationOutcome> {
  const row: KeyedRow = { table: 'orders', id: order.id, orderId: order.id }
  for (let its = newLease; ; its = null) {
    await using lease = await takeSendLease(deps, row, its, context)
    if (!lease) return await leaveToOther(deps, order)
    const known = lease.isNew ? order : await findOrderOfAnyClient(deps.database.db, order.id)
    if (!known) return await leaveToOther(deps, order)
    const ended = endedAs(known)
    if (ended) return ended
    if (!maySend(deps, known, isCharge)) return await search(deps, known, context, lease)
    const through = { order: known, lease, context, connection }
    const call = ({ token }: Access, options: CallOptions) =>
      deps.provider.orders.create(token, known.id, providerOrder(known), options)
    const sent = await perform(deps, { ...through, call })
    switch (sent.kind) {
      case 'answered':
        return await record(deps, known, sent.answer, context, lease)
      case 'failed': {
        const earlier = isKeyUsed(sent.error) && (await replayEarlier(deps, through))
        if (earlier) return await record(deps, known, earlier, context, lease)
        return await recordFailure(deps, known, sent.error, context, lease)
      }
      case 'withheld':
        continue
      default:
        return sent satisfies never
    }
  }
}

/** Another process is sending: the next status check shows the outcome. */
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

async function recordFailure(
  deps: PaymentDeps,
  order: OrderRow,
  error: CallFailure,
  context: RequestContext,
  lease: SendLease,
): Promise<CreationOutcome> {
  // The key belongs to an order of other content, or no earlier attempt can still arrive: search.
  if (asksForSearch(deps, error, lease)) return search(deps, order, context, lease, error)
  const ended =
    endsOperation(error, lease) && (await endUnmade(deps, order, context.source, lease, error))
  return ended || keepUnknown(deps, order, context.source, lease, error)
}

function isKeyUsed(error: unknown): boolean {
  return error instanceof ProviderError && error.providerCode === 'idempotency_key_already_used'
}

/** A restored backup rarely lacks more charges of one reference text than these. */
const earlierAtMost = 3

/**
 * The provider's order under the key, when it is this charge under an earlier reference. That happens after a restored backup:
 * the order was adopted and has its reference, and the till repeats the charge under its key. A used key never makes a new order.
 */
async function replayEarlier(
  deps: PaymentDeps,
  through: Omit<Performed<OrderEvidence>, 'call'>,
): Promise<OrderEvidence | undefined> {
  const { order } = through
  const last = order.reference_attempt - 1
  for (let attempt = last; attempt >= 1 && attempt > last - earlierAtMost; attempt -= 1) {
    const externalReference = encodeReference(order.external_reference, attempt)
    const content = { ...providerOrder(order), externalReference }
    const sent = await perform(deps, {
      ...through,
      call: ({ token }, options) => deps.provider.orders.create(token, order.id, content, options),
    })
    if (sent.kind === 'answered') return sent.answer
    if (sent.kind === 'withheld' || !isKeyUsed(sent.error)) return undefined
  }
  return undefined
}

/** Whether a search follows a refusal: the key is used, or only old attempts leave the outcome unknown. */
function asksForSearch(
  deps: PaymentDeps,
  error: CallFailure,
  { unansweredAt }: SendLease,
): error is ProviderError {
  if (!(error instanceof ProviderError)) return false
  if (isKeyUsed(error)) return true
  return error.provesAbsence && unansweredAt !== null && canNotArrive(deps, unansweredAt)
}

/**
 * Searches the order by its reference. When the provider does not have it and no attempt can still arrive, it was never made. If
 * the order is found later, its row is reopened.
 */
async function search(
  deps: PaymentDeps,
  order: OrderRow,
  context: RequestContext,
  lease: SendLease,
  refusal?: ProviderError,
): Promise<CreationOutcome> {
  // The refused attempt had no effect: only earlier ones count.
  if (refusal?.provesAbsence) lease.settle()
  const isKeyTaken = refusal !== undefined && !refusal.provesAbsence
  const { source } = context
  const begunAt = deps.now()
  let found: Found
  try {
    found = await searchOrder(deps, order, context, { isKeyTaken, doubtfulAt: lease.doubtfulAt })
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
  const isUnmade = found.isAbsent && !isKeyTaken && canNotArrive(deps, lease.doubtfulAt, begunAt)
  const proof = refusal ?? new AppError('PROVIDER_ERROR', { message: neverMade })
  const ended =
    isUnmade &&
    (await endUnmade(deps, order, source, lease, proof, refusal?.providerCode ?? 'not_found'))
  return ended || keepUnknown(deps, order, source, lease, refusal)
}

const neverMade = 'The provider has no such order; nothing was charged'

/** Closes the order as never made. Undefined when another process is sending or has found it meanwhile. */
async function endUnmade(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  lease: SendLease,
  error: CallFailure,
  code = failureCodeOf(error),
): Promise<CreationOutcome | undefined> {
  const { sender } = lease
  const notCreated = { kind: 'not_created' as const, code, unansweredAt: lease.doubtfulAt }
  const { order: after } = await moveOrder(
    deps,
    deps.database.db,
    order,
    source,
    (current) => (current.sender === sender ? notCreated : undefined),
    { along: () => ({ onlyOf: sender, frees: sender }) },
  )
  lease.wrote(after)
  if (after.creation === 'refused') return { kind: 'refused', order: after, error }
  return endedAs(after)
}

/** The content of the request, made from the row alone, so that every repeat is equal to the first. */
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
  error?: CallFailure,
): Promise<Extract<CreationOutcome, { kind: 'unknown' }>> {
  const answered = error === undefined || isAnswered(error)
  const { doubtfulAt } = lease
  const { order: unknown } = await moveOrder(
    deps,
    deps.database.db,
    order,
    source,
    { kind: 'creation_unknown' },
    {
      check: { checkedAt: null },
      plan: (known) =>
        isFinal(known.status)
          ? keepNextCheck(known)
          : nextCreationCheck(deps, known, { answered, doubtfulAt }),
    },
  )
  return { kind: 'unknown', order: unknown, error }
}

/**
 * 504: the provider may have the order. The till reads this order, or repeats the same request. A repeat is safe unless it has
 * neither a key nor the guard against duplicates (`repeatable`).
 */
export function unknownCreation(
  order: Pick<OrderRow, 'id' | 'status'>,
  cause: unknown,
  repeatable = true,
): AppError {
  const advice = repeatable
    ? 'ask for it by its order_id or repeat the same request'
    : 'ask for it by its order_id and do not charge again'
  return new AppError('PROVIDER_TIMEOUT', {
    message: `The provider did not confirm the order in time; ${advice}`,
    cause,
    extra: {
      ...moneyOutcome(repeatable ? 'chargeUndecided' : 'chargeUndecidedOnce'),
      orderId: order.id,
      status: order.status,
    },
  })
}
