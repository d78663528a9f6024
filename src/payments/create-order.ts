import { randomUUID } from 'node:crypto'
import type { Db, Trx } from '../db/database.ts'
import { constraintOf } from '../db/failures.ts'
import { hashSecret } from '../domain/api-key.ts'
import { canonicalJson } from '../domain/canonical-json.ts'
import type { ClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import type { PaymentMethod } from '../domain/order.ts'
import { isOpen, isPaid } from '../domain/order-state.ts'
import { providerKey, requestKey, saleKey } from '../domain/provider-key.ts'
import { AppError, type ErrorExtra, withMoneyOutcome } from '../errors.ts'
import { encodeReference, ProviderError, toAppError } from '../provider/provider.ts'
import { findIdempotencyKey, tieIdempotencyKey } from '../repositories/idempotency-keys.ts'
import {
  countOrders,
  findEqualOrder,
  findOrder,
  highestReferenceAttempt,
  insertOrder,
  isReferenceTaken,
  type OrderRow,
} from '../repositories/orders.ts'
import { findPos, lockPos, type PosWithStore } from '../repositories/stores.ts'
import { auditFailure } from './activity.ts'
import { findAdoptedSales } from './adopted-sales.ts'
import { inTime, shortestCallMs, timeLeftMs } from './answer-time.ts'
import type { Actor, PaymentDeps } from './deps.ts'
import { tellOrderChanged } from './order-changes.ts'
import { refreshOrder } from './read-order.ts'
import { type CreationOutcome, resolveCreation } from './resolve-creation.ts'
import { firstLook, newSender } from './send-alone.ts'
import {
  cancelForgotten,
  cancelForgottenOrders,
  chooseTerminal,
  freeTerminal,
  terminalBusy,
} from './terminal-slot.ts'
import { withAccess } from './token-keeper.ts'
import { unknownCreation } from './unknown-creation.ts'

export type OrderRequest = {
  cajaId: string
  externalReference: string
  amountCents: number
  description: string | null
  ticketNumber: string | null
  printTicket: boolean
  paymentMethod: PaymentMethod
  expirationMinutes: number
}

const route = 'POST /orders'

/**
 * Puts a charge on the terminal of a box, at most once. The intent is committed before the provider is called, under
 * one key for ever; equal requests (by Idempotency-Key, or by content) get the first order instead of a second charge.
 *
 * Throws NOT_FOUND (box), OAUTH_NOT_CONNECTED, CONNECTION_LOST, TERMINAL_NOT_FOUND, TERMINAL_NOT_PDV, TERMINAL_BUSY,
 * IDEMPOTENCY_CONFLICT, ORDER_ALREADY_PAID, PROVIDER_TIMEOUT (outcome unknown, with the order's id), PROVIDER_REJECTED,
 * PROVIDER_ERROR, RATE_LIMITED. Each says whether money moved.
 */
export async function createOrder(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  idempotencyKey: string | undefined,
  actor: Actor,
): Promise<{ order: OrderRow; replayed: boolean }> {
  const metadata = { amount: pointFromCents(request.amountCents), caja_id: request.cajaId }
  const entry = {
    client,
    actor,
    action: 'order.created',
    resourceType: 'order',
    resourceId: null,
    metadata,
  }
  const identity = identify(deps, client, request, idempotencyKey)
  const progress: Progress = { order: undefined }
  return auditFailure(deps, entry, () =>
    inTime(actor, charge(deps, identity, request, actor, progress), () =>
      tooLate(identity, progress),
    ),
  )
}

/** How far a charge has come, for an answer that cannot wait for its end. */
type Progress = { order: OrderRow | undefined }

function tooLate({ repeatable }: Identity, { order }: Progress): AppError {
  if (order) return unknownCreation(order, undefined, repeatable)
  return new AppError('PROVIDER_TIMEOUT', { extra: { outcome: 'unknown', retrySafe: repeatable } })
}

async function charge(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
  actor: Actor,
  progress: Progress,
): Promise<{ order: OrderRow; replayed: boolean }> {
  return withMoneyOutcome({ outcome: 'not_charged', retrySafe: true }, () =>
    chargeOnce(deps, identity, request, actor, progress),
  )
}

async function chargeOnce(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
  actor: Actor,
  progress: Progress,
): Promise<{ order: OrderRow; replayed: boolean }> {
  const { db } = deps.database
  const { client } = identity
  // Until this is answered nobody knows whether an equal request before this one has charged.
  const unanswered: ErrorExtra = { outcome: 'unknown', retrySafe: identity.repeatable }
  const earlier = await withMoneyOutcome(unanswered, () => findEarlierNow(deps, identity, request))
  if (earlier) return replay(deps, identity, earlier, actor)

  const pos = await findPos(db, client, request.cajaId)
  if (pos?.state !== 'active' || pos.mp_pos_id === null) {
    throw new AppError('NOT_FOUND', { message: 'There is no such box; check caja_id' })
  }
  const mpPosId = pos.mp_pos_id
  let place: Place
  try {
    place = { pos, ...(await findTerminal(deps, client, mpPosId)) }
    await freeTerminal(deps, client, place.terminalId)
  } catch (error) {
    // "Not charged" would be a lie when an equal request, perhaps one whose caller is gone, was quicker than this one.
    const twin = await withMoneyOutcome(unanswered, () => findEarlier(deps, db, identity, request))
    if (twin) return replay(deps, identity, twin, actor)
    throw error
  }

  const attempt = () => attemptCharge(deps, identity, request, place, actor, progress)
  return attempt().catch(async (error) => {
    // The slot may be held by an order of ours that nobody wants any more, known only now: one more attempt then.
    if (isBusy(error) && (await cancelForgottenOrders(deps, place.terminalId))) return attempt()
    throw error
  })
}

async function findTerminal(
  deps: PaymentDeps,
  client: ClientName,
  mpPosId: string,
): Promise<{ terminalId: string; mpUserId: number }> {
  try {
    return await withAccess(deps, client, async (access) => ({
      terminalId: await chooseTerminal(deps, access.token, mpPosId),
      mpUserId: access.mpUserId,
    }))
  } catch (error) {
    throw error instanceof ProviderError ? toAppError(error, 'terminal.list') : error
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof AppError && error.code === 'TERMINAL_BUSY'
}

async function attemptCharge(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
  place: Place,
  actor: Actor,
  progress: Progress,
): Promise<{ order: OrderRow; replayed: boolean }> {
  if (timeLeftMs(actor) < shortestCallMs) {
    throw new AppError('PROVIDER_TIMEOUT', {
      message: 'The provider was too slow for the charge to begin; nothing was charged',
    })
  }
  // A commit whose answer got lost may have happened: then the intent is there and will be carried out.
  const intent = await withMoneyOutcome(
    { outcome: 'unknown', retrySafe: identity.repeatable },
    () => writeIntent(deps, identity, request, place),
  )
  progress.order = intent.order
  if (intent.replayed) return replay(deps, identity, intent.order, actor)
  return callProvider(deps, identity, intent.order, actor, intent.order.sender)
}

type Identity = {
  client: ClientName
  key: string | undefined
  fingerprint: string
  /** Equal content counts as the same charge. */
  guard: boolean
  /** The same request again is the same charge, by its key or by its content. */
  repeatable: boolean
}

function identify(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  key: string | undefined,
): Identity {
  const guard = key === undefined && deps.settings.duplicateOrderGuard
  return {
    client,
    key,
    // The same text in another Unicode form is no other content.
    fingerprint: hashSecret(canonicalJson(request).normalize('NFC')),
    guard,
    repeatable: guard || key !== undefined,
  }
}

/** A till that asks again must not wait long for what it can also read. */
const replayReadMs = 5_000

/**
 * The same, after the order was read at the provider: since anybody looked it may have been paid, have ended on the terminal,
 * or have been refunded in the provider's panel. When the provider is silent the local state decides. One that its cashier gave up while the provider was
 * silent is canceled first, as he wished: the charge he asks for now is another one.
 */
async function findEarlierNow(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
): Promise<OrderRow | undefined> {
  const { db } = deps.database
  await claimAdopted(deps, identity, request)
  const earlier = identity.guard
    ? await findEqual(deps, db, identity, request)
    : await findEarlier(deps, db, identity, request)
  if (!earlier) return undefined
  if (isGivenUp(earlier)) await cancelForgotten(deps, earlier, replayReadMs)
  else if (earlier.creation === 'confirmed') await refreshOrder(deps, earlier, 'api', replayReadMs)
  return findEarlier(deps, db, identity, request)
}

/** The order that this request has made before; undefined when it is a new charge. */
async function findEarlier(
  deps: PaymentDeps,
  db: Db | Trx,
  identity: Identity,
  request: OrderRequest,
): Promise<OrderRow | undefined> {
  const { client, key } = identity
  if (key !== undefined) {
    const tie = await findIdempotencyKey(db, { client, route, key })
    if (!tie) return undefined
    const order = await findOrder(db, client, tie.order_id)
    // A creation that the provider refused has no answer to repeat: the key is free for the next attempt.
    if (!order || order.creation === 'refused') return undefined
    if (tie.fingerprint !== identity.fingerprint) {
      throw new AppError('IDEMPOTENCY_CONFLICT', {
        extra: { outcome: 'not_charged', retrySafe: false },
      })
    }
    return order
  }
  if (!identity.guard) return undefined
  const equal = await findEqual(deps, db, identity, request)
  if (equal && isCharged(equal)) {
    throw new AppError('ORDER_ALREADY_PAID', {
      extra: { outcome: 'charged', retrySafe: false, orderId: equal.id, status: equal.status },
    })
  }
  return equal
}

/** Ties a key that nobody knows to the adopted order that it may well have made. */
async function claimAdopted(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
): Promise<void> {
  const { client, key } = identity
  if (key === undefined) return
  const { db } = deps.database
  const [adopted] = await findAdoptedSales(db, client, request, untied(deps))
  if (!adopted || (await findIdempotencyKey(db, { client, route, key }))) return
  const pos = await findPos(db, client, request.cajaId)
  await deps.database.transaction(async (trx) => {
    // In line with every other sale of the box: of two keys one gets the order.
    if (pos && (await lockPos(trx, client, pos.id))) await tieAdopted(deps, trx, identity, request)
  })
}

/**
 * The adopted order that this key now stands for; undefined when there is none left. A till that repeats a sale of which a
 * restored backup has lost the key must not charge again. One that ended without money may be any sale's: it is nobody's.
 * The box's row must be locked.
 */
async function tieAdopted(
  deps: PaymentDeps,
  trx: Trx,
  { client, key, fingerprint }: Identity,
  request: OrderRequest,
): Promise<OrderRow | undefined> {
  if (key === undefined) return undefined
  const [order] = await findAdoptedSales(trx, client, request, untied(deps))
  if (!order) return undefined
  const tie = { fingerprint, orderId: order.id, operationId: null, createdAt: deps.now() }
  return (await tieIdempotencyKey(trx, { client, route, key }, tie)) ? order : undefined
}

/** From then on an equal sale under a key of its own is taken for another one. */
const adoptedLatelyMs = 24 * 3600_000

function untied(deps: PaymentDeps): { route: string; adoptedSince: Date } {
  return { route, adoptedSince: new Date(deps.now().getTime() - adoptedLatelyMs) }
}

/** The provider ends an order at its time; one that it still shows as open a day later answers no new request. */
const openAtMostMs = 24 * 3600_000

/** The order of equal content that is charged, or else the one that still may be. */
async function findEqual(
  deps: PaymentDeps,
  db: Db | Trx,
  { client }: Identity,
  request: OrderRequest,
): Promise<OrderRow | undefined> {
  const endedBefore = new Date(deps.now().getTime() - openAtMostMs)
  const equal = await findEqualOrder(db, client, request, endedBefore)
  if (equal && isCharged(equal)) return equal
  // One that was adopted may stand under another text.
  const adopted = await findAdoptedSales(db, client, request)
  return (
    adopted.find(isCharged) ??
    equal ??
    adopted.find(({ status, expires_at }) => isOpen(status) && expires_at >= endedBefore)
  )
}

function isCharged(order: OrderRow): boolean {
  const hasLatePayment = order.paid_after_close && order.refunded_cents < order.paid_cents
  return isPaid(order.status) || hasLatePayment
}

/** The first answer again, with the order's state of now. An order still being made is waited for. */
async function replay(
  deps: PaymentDeps,
  identity: Identity,
  order: OrderRow,
  actor: Actor,
): Promise<{ order: OrderRow; replayed: boolean }> {
  const current =
    order.creation === 'confirmed'
      ? order
      : (await callProvider(deps, identity, order, actor, null)).order
  // The customer must not be sent to a terminal from which this service is about to take the charge.
  if (isGivenUp(current)) throw unknownCreation(current, undefined, identity.repeatable)
  return { order: current, replayed: true }
}

function isGivenUp(order: OrderRow): boolean {
  return order.status === 'created' && order.cancel_requested_at !== null
}

type Place = { pos: PosWithStore; terminalId: string; mpUserId: number }

/** Commits the intent. The box's row lock puts equal requests in line, so that only one of them becomes an order. */
async function writeIntent(
  deps: PaymentDeps,
  identity: Identity,
  request: OrderRequest,
  place: Place,
): Promise<{ order: OrderRow; replayed: boolean }> {
  const { client } = identity
  try {
    return await deps.database.transaction(async (trx) => {
      if (!(await lockPos(trx, client, place.pos.id))) {
        throw new AppError('NOT_FOUND', {
          message: 'The box was removed meanwhile',
          extra: { outcome: 'not_charged', retrySafe: false },
        })
      }
      const earlier = await findEarlier(deps, trx, identity, request)
      if (earlier) return { order: earlier, replayed: true }
      const adopted = await tieAdopted(deps, trx, identity, request)
      if (adopted) return { order: adopted, replayed: true }
      const now = deps.now()
      const reference = await freeReference(trx, client, place.mpUserId, request.externalReference)
      const repeated = repeatedAs(identity, request, place)
      const order = await insertOrder(trx, {
        id: providerKey(repeated, (await countOrders(trx, repeated)) + 1),
        request_key: repeated,
        client,
        caja_id: place.pos.external_id,
        sucursal_id: place.pos.store_external_id,
        terminal_id: place.terminalId,
        mp_user_id: place.mpUserId,
        external_reference: request.externalReference,
        mp_external_reference: reference.text,
        reference_attempt: reference.attempt,
        amount_cents: request.amountCents,
        description: request.description,
        ticket_number: request.ticketNumber,
        send_ticket_number: deps.settings.sendTicketNumber,
        print_ticket: request.printTicket,
        payment_method: request.paymentMethod,
        expiration_minutes: request.expirationMinutes,
        creation: 'intent',
        mp_order_id: null,
        status: 'created',
        status_detail: null,
        conflict: null,
        cancel_requested_at: null,
        sent_at: null,
        created_at: now,
        last_updated_at: now,
        expires_at: new Date(now.getTime() + request.expirationMinutes * 60_000),
        checked_at: null,
        // Each attempt puts it off, so that the sweeper works beside no request that is alive.
        next_check_at: firstLook(now),
        ...newSender(now),
      })
      await tellOrderChanged(trx, order)
      if (identity.key !== undefined) {
        const tied = await tieIdempotencyKey(
          trx,
          { client, route, key: identity.key },
          {
            fingerprint: identity.fingerprint,
            orderId: order.id,
            operationId: null,
            createdAt: now,
          },
        )
        if (!tied) throw new KeyTaken()
      }
      return { order, replayed: false }
    })
  } catch (error) {
    // Two boxes took the same free reference or key at once: the next try finds what the other one has written.
    if (error instanceof KeyTaken || takenByTwin.has(constraintOf(error) ?? '')) {
      return writeIntent(deps, identity, request, place)
    }
    throw error
  }
}

const takenByTwin: ReadonlySet<string> = new Set([
  'orders_pkey',
  'orders_mp_user_id_mp_external_reference_key',
])

/**
 * What makes two requests the same charge, for the key at the provider: the till's key, or else the sale. Where equal sales
 * count as different ones nothing does: a new sale must not be answered with one that a restored backup forgot.
 */
function repeatedAs({ client, key, guard }: Identity, request: OrderRequest, place: Place): string {
  if (key !== undefined) return requestKey('order', client, place.mpUserId, key)
  return guard ? saleKey(client, place.mpUserId, request) : requestKey('once', randomUUID())
}

/** A request for another box took the Idempotency-Key between our look and our intent. */
class KeyTaken extends Error {}

/** The provider wants each reference once per account, so later orders with the same text get a suffix. */
async function freeReference(
  trx: Trx,
  client: ClientName,
  mpUserId: number,
  externalReference: string,
): Promise<{ text: string; attempt: number }> {
  let attempt = (await highestReferenceAttempt(trx, client, externalReference)) + 1
  let text = encodeReference(externalReference, attempt)
  while (await isReferenceTaken(trx, mpUserId, text)) {
    attempt += 1
    text = encodeReference(externalReference, attempt)
  }
  return { text, attempt }
}

async function callProvider(
  deps: PaymentDeps,
  identity: Identity,
  order: OrderRow,
  actor: Actor,
  held: string | null,
): Promise<{ order: OrderRow; replayed: boolean }> {
  const known: ErrorExtra = {
    outcome: 'unknown',
    retrySafe: identity.repeatable,
    orderId: order.id,
  }
  return withMoneyOutcome(known, async () => {
    const withinMs = Math.max(shortestCallMs, timeLeftMs(actor))
    const options = { source: 'api' as const, actor, withinMs, held, isCharge: true }
    const made = await orderOf(deps, identity, await resolveCreation(deps, order, options))
    return { order: made, replayed: made.id !== order.id }
  })
}

async function orderOf(
  deps: PaymentDeps,
  identity: Identity,
  outcome: CreationOutcome,
): Promise<OrderRow> {
  switch (outcome.kind) {
    case 'confirmed':
      return outcome.order
    case 'refused': {
      const { order, error } = outcome
      const refusal = error instanceof ProviderError ? toAppError(error, 'order.create') : error
      if (refusal.code === 'TERMINAL_BUSY') {
        throw await terminalBusy(deps, order.client, order.terminal_id, error)
      }
      throw new AppError(refusal.code, {
        message: refusal.message,
        ...(refusal.details && { details: refusal.details }),
        cause: error,
        extra: { ...refusal.extra, outcome: 'not_charged', retrySafe: true },
      })
    }
    case 'unknown':
      throw unknownCreation(outcome.order, outcome.error, identity.repeatable)
    default:
      return outcome satisfies never
  }
}
