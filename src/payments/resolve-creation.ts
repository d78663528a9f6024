import type { Trx } from '../db/database.ts'
import { pointFromCents } from '../domain/money.ts'
import type { OrderEvidence } from '../domain/order.ts'
import { isUntouchable } from '../domain/order-state.ts'
import { AppError } from '../errors.ts'
import { encodeReference, type NewProviderOrder, ProviderError } from '../provider/provider.ts'
import { moveIdempotencyKeys } from '../repositories/idempotency-keys.ts'
import {
  findOrderOfAnyClient,
  lockOrder,
  type OrderRow,
  planCheck,
  updateOrder,
} from '../repositories/orders.ts'
import { recordSuccess } from './activity.ts'
import { shortestCallMs } from './answer-time.ts'
import {
  applyNotCreated,
  applyUnknownCreation,
  type EvidenceSource,
  nextCheck,
} from './apply-evidence.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { isAnswered, keyMemoryMs, nextUnknownAttempt } from './operation-ladder.ts'
import { aboutOrder, withOrderAccess } from './order-access.ts'
import { type Claim, sendAlone } from './send-alone.ts'
import { takeEvidence } from './take-evidence.ts'

export type CreationOutcome =
  | { kind: 'confirmed'; order: OrderRow }
  | { kind: 'refused'; order: OrderRow; error: ProviderError | AppError }
  | { kind: 'unknown'; order: OrderRow; error: unknown }

export type ResolveOptions = {
  source: EvidenceSource
  actor: Actor
  /** Longest time that it may take. */
  withinMs: number
  /** The claim that came with the row, for the request that wrote it. */
  held?: string | null
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
export async function resolveCreation(
  deps: PaymentDeps,
  order: OrderRow,
  options: ResolveOptions,
): Promise<CreationOutcome> {
  return deps.once(`create:${order.id}`, async () => {
    const until = performance.now() + options.withinMs
    const leftMs = () => Math.max(shortestCallMs, until - performance.now())
    let held = options.held ?? null
    for (;;) {
      const row = { table: 'orders' as const, id: order.id }
      const sent = await sendAlone(deps, row, held, (claim) =>
        settle(deps, order, options, claim, leftMs),
      )
      if (sent?.result) return sent.result
      // Taken over by somebody else: his outcome is ours.
      held = null
      const waits = options.source === 'api' && performance.now() < until
      if (!waits) return leaveToOther(deps, order)
      await deps.changes.wait(order.id, lookAgainMs)
    }
  })
}

/** How often a request looks whether another process is through with its order. */
const lookAgainMs = 200

/** Another process is sending: what becomes of it is seen at the next look. */
async function leaveToOther(deps: PaymentDeps, order: OrderRow): Promise<CreationOutcome> {
  const now = deps.now()
  const nextCheckAt = nextUnknownAttempt(now, order.created_at)
  await planCheck(deps.database.db, order.id, { checkedAt: null, nextCheckAt })
  return { kind: 'unknown', order, error: undefined }
}

/** The outcome, as far as one claim brings it; undefined when the claim was lost. */
async function settle(
  deps: PaymentDeps,
  order: OrderRow,
  options: ResolveOptions,
  claim: Claim,
  leftMs: () => number,
): Promise<CreationOutcome | undefined> {
  const known = options.held ? order : await findOrderOfAnyClient(deps.database.db, order.id)
  if (!known) return { kind: 'unknown', order, error: undefined }
  if (known.creation === 'confirmed') return { kind: 'confirmed', order: known }
  if (known.creation === 'refused') {
    const message = 'The provider refused an equal request a moment ago; nothing was charged'
    return { kind: 'refused', order: known, error: new AppError('PROVIDER_ERROR', { message }) }
  }
  const { source } = options
  try {
    return maySend(deps, known, options)
      ? await send(deps, known, options, claim, leftMs)
      : await search(deps, known, options, claim, leftMs)
  } catch (error) {
    if (error instanceof ProviderError && error.failure === 'withheld') {
      const now = await findOrderOfAnyClient(deps.database.db, order.id)
      const isStillOurs = now?.sender === claim.sender
      return isStillOurs && now ? search(deps, now, options, claim, leftMs) : undefined
    }
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    const isUnsent = error instanceof AppError || hasNoEffect(error)
    if (isUnsent) claim.settle()
    if (isUnsent && claim.unansweredAt === null && mayEnd(error, options)) {
      const code = error instanceof ProviderError ? error.providerCode : error.code
      const after = await endUnmade(deps, known, source, claim, code)
      if (after.creation === 'confirmed') return { kind: 'confirmed', order: after }
      if (after.creation === 'refused') return { kind: 'refused', order: after, error }
    }
    return { kind: 'unknown', order: await keepUnknown(deps, known, source, error), error }
  }
}

function maySend(deps: PaymentDeps, order: OrderRow, { isCharge }: ResolveOptions): boolean {
  const now = deps.now().getTime()
  const sentAt = order.sent_at ?? order.created_at
  if (order.cancel_requested_at !== null || now - sentAt.getTime() >= keyMemoryMs) return false
  return isCharge === true || now < order.expires_at.getTime()
}

function hasNoEffect(error: unknown): error is ProviderError {
  return error instanceof ProviderError && error.effect === 'none'
}

/**
 * Whether a call without effect ends the order. A refusal that says so itself does. "No connection", "wait" and "who are
 * you" end it only for the request that began it: its till hears that nothing was charged, and must not find it made later.
 */
function mayEnd(error: unknown, { held }: ResolveOptions): error is ProviderError | AppError {
  if (error instanceof ProviderError) return error.provesAbsence || Boolean(held)
  return error instanceof AppError && Boolean(held)
}

async function send(
  deps: PaymentDeps,
  order: OrderRow,
  options: ResolveOptions,
  claim: Claim,
  leftMs: () => number,
): Promise<CreationOutcome> {
  const { source, actor } = options
  const create = (reference: string) =>
    withOrderAccess(deps, order, (access) =>
      deps.provider.orders.create(
        access.token,
        order.id,
        { ...providerOrder(order), externalReference: reference },
        { about: aboutOrder(order, source), deadlineMs: leftMs(), permit: claim.permit },
      ),
    )
  let evidence: OrderEvidence | undefined
  try {
    evidence = await create(order.mp_external_reference)
  } catch (error) {
    if (!asksForSearch(deps, error, claim)) throw error
    if (isKeyUsed(error)) evidence = await replayEarlier(order, create)
    // The key stands for an order of other content, or a refusal meets attempts that can no longer arrive: look.
    if (!evidence) return await search(deps, order, options, claim, leftMs, error as ProviderError)
  }
  const after = await confirmCreation(deps, order, evidence, source, actor)
  return confirmed(deps, order, after, source)
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
  create: (reference: string) => Promise<OrderEvidence>,
): Promise<OrderEvidence | undefined> {
  const last = order.reference_attempt - 1
  for (let attempt = last; attempt >= 1 && attempt > last - earlierAtMost; attempt -= 1) {
    try {
      return await create(encodeReference(order.external_reference, attempt))
    } catch (error) {
      if (!isKeyUsed(error)) return undefined
    }
  }
  return undefined
}

/** Whether a refusal is best followed by a search: it says that the key is taken, or only old attempts make it doubtful. */
function asksForSearch(deps: PaymentDeps, error: unknown, claim: Claim): boolean {
  if (!(error instanceof ProviderError)) return false
  if (isKeyUsed(error)) return true
  return (
    error.provesAbsence && claim.unansweredAt !== null && canNotArrive(deps, claim.unansweredAt)
  )
}

/** Whether the attempts that nobody answered were begun so long ago that nothing still holds them back on their way. */
function canNotArrive(deps: PaymentDeps, unansweredAt: Date | null, at = deps.now()): boolean {
  if (unansweredAt === null) return true
  return at.getTime() - unansweredAt.getTime() >= deps.settings.lateArrivalMs
}

/**
 * Looks for the order by its reference. When the provider answers without it, and no attempt can still arrive, it was never
 * made. An order that shows up all the same opens its row again.
 */
async function search(
  deps: PaymentDeps,
  order: OrderRow,
  { source, actor }: ResolveOptions,
  claim: Claim,
  leftMs: () => number,
  refusal?: ProviderError,
): Promise<CreationOutcome> {
  // A refused attempt of just now had no effect: only those before it count.
  if (refusal?.provesAbsence) claim.settle()
  const isKeyTaken = refusal !== undefined && !refusal.provesAbsence
  const begunAt = deps.now()
  let found: Found
  try {
    found = await searchOrder(deps, order, source, { deadlineMs: leftMs(), isKeyTaken })
  } catch (error) {
    if (!(error instanceof ProviderError || error instanceof AppError)) throw error
    const unknown = await keepUnknown(deps, order, source, error)
    return { kind: 'unknown', order: unknown, error: refusal ?? error }
  }
  if (found.evidence) {
    const after = await confirmCreation(deps, order, found.evidence, source, actor)
    return confirmed(deps, order, after, source)
  }
  if (found.isAbsent && !isKeyTaken && canNotArrive(deps, claim.doubtfulAt(), begunAt)) {
    const after = await endUnmade(deps, order, source, claim, refusal?.providerCode ?? 'not_found')
    if (after.creation === 'confirmed') return { kind: 'confirmed', order: after }
    if (after.creation === 'refused') {
      const error = refusal ?? new AppError('PROVIDER_ERROR', { message: neverMade })
      return { kind: 'refused', order: after, error }
    }
  }
  return {
    kind: 'unknown',
    order: await keepUnknown(deps, order, source, refusal),
    error: refusal,
  }
}

const neverMade = 'The provider has no such order; nothing was charged'

/** Evidence that contradicts the order confirms nothing: whether the customer is charged stays unknown. */
async function confirmed(
  deps: PaymentDeps,
  order: OrderRow,
  after: OrderRow,
  source: EvidenceSource,
): Promise<CreationOutcome> {
  return after.creation === 'confirmed'
    ? { kind: 'confirmed', order: after }
    : { kind: 'unknown', order: await keepUnknown(deps, order, source), error: undefined }
}

/** Closes the order as never made, unless somebody else sends by now or it was found meanwhile. */
async function endUnmade(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  claim: Claim,
  code: string | null,
): Promise<OrderRow> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    if (locked.sender !== claim.sender) return locked
    return applyNotCreated(trx, locked, source, deps.now(), {
      code,
      unansweredAt: claim.doubtfulAt(),
    })
  })
}

/** The content under the key: made of the row alone, so that every repetition is equal to the first. */
function providerOrder(order: OrderRow): NewProviderOrder {
  return {
    externalReference: order.mp_external_reference,
    amountCents: order.amount_cents,
    terminalId: order.terminal_id,
    description: order.description,
    ticketNumber: order.send_ticket_number ? order.ticket_number : null,
    printTicket: order.print_ticket,
    paymentMethod: order.payment_method,
    expirationMinutes: order.expiration_minutes,
  }
}

export type Found = {
  evidence: OrderEvidence | undefined
  /** The provider answered, and has nothing under our reference. */
  isAbsent: boolean
}

/**
 * Looks for the order at the provider by its reference. Only a hit that agrees in reference, terminal and amount counts: the
 * search is not documented for terminals. When the provider says that the key is taken, another terminal is no
 * contradiction: the box may have got a new one since.
 */
export async function searchOrder(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  { deadlineMs, isKeyTaken = false }: { deadlineMs: number; isKeyTaken?: boolean },
): Promise<Found> {
  const hits = await withOrderAccess(deps, order, (access) =>
    deps.provider.orders.search(
      access.token,
      {
        externalReference: order.mp_external_reference,
        from: new Date(order.created_at.getTime() - 3600_000),
        to: new Date(order.created_at.getTime() + 48 * 3600_000),
      },
      { about: aboutOrder(order, source), deadlineMs },
    ),
  )
  const ours = hits.filter((hit) => hit.externalReference === order.mp_external_reference)
  const evidence = ours.find(
    (hit) =>
      hit.amountCents === order.amount_cents &&
      (isKeyTaken || hit.terminalId === order.terminal_id),
  )
  return { evidence, isAbsent: ours.length === 0 }
}

/**
 * Records that the provider has the order, with the audit entry of its creation. One that had counted as refused opens
 * again. An order that stands in another row already, as after a restored backup, is that row's: this one was never made,
 * and the other is returned.
 */
export async function confirmCreation(
  deps: PaymentDeps,
  order: OrderRow,
  evidence: OrderEvidence,
  source: EvidenceSource,
  actor: Actor,
): Promise<OrderRow> {
  return deps.database.transaction(async (trx) => {
    const locked = await lockOrder(trx, order.id)
    const holder = await findOrderOfAnyClient(trx, evidence.mpOrderId)
    if (holder && holder.id !== order.id) {
      if (holder.client !== order.client) return locked
      await applyNotCreated(trx, locked, source, deps.now(), {
        code: 'stands in another order',
        unansweredAt: null,
      })
      await moveIdempotencyKeys(trx, { from: order.id, to: holder.id })
      return holder
    }
    const isNew = locked.creation !== 'confirmed'
    const late = isNew && locked.creation !== 'refused' && (await makeRoom(trx, locked))
    const { order: after } = await takeEvidence(deps, trx, late || locked, evidence, source)
    if (isNew && after.creation === 'confirmed') {
      await recordSuccess(deps, trx, {
        client: order.client,
        actor,
        action: 'order.created',
        resourceType: 'order',
        resourceId: order.id,
        metadata: {
          mp_order_id: evidence.mpOrderId,
          amount: pointFromCents(order.amount_cents),
          caja_id: order.caja_id,
        },
      })
    }
    return after
  })
}

/** The provider counts an order's time from when it has it, so one that it got late is not over yet. */
async function makeRoom(trx: Trx, order: OrderRow): Promise<OrderRow | false> {
  const sentAt = order.unanswered_at
  if (sentAt === null || order.cancel_requested_at !== null) return false
  const expiresAt = new Date(sentAt.getTime() + order.expiration_minutes * 60_000)
  if (expiresAt.getTime() - order.expires_at.getTime() < 60_000) return false
  return updateOrder(trx, order.id, { expires_at: expiresAt })
}

async function keepUnknown(
  deps: PaymentDeps,
  order: OrderRow,
  source: EvidenceSource,
  error?: unknown,
): Promise<OrderRow> {
  const unknown = await deps.database.transaction(async (trx) =>
    applyUnknownCreation(trx, await lockOrder(trx, order.id), source, deps.now()),
  )
  if (!isUntouchable(unknown.status)) {
    const now = deps.now()
    await planCheck(deps.database.db, order.id, {
      checkedAt: null,
      nextCheckAt:
        now.getTime() - order.created_at.getTime() < keyMemoryMs
          ? nextUnknownAttempt(now, order.created_at)
          : nextCheck(unknown, now, error === undefined || isAnswered(error)),
    })
  }
  return unknown
}
