import { hash, randomUUID } from 'node:crypto'
import type { ClientName } from '../../domain/client-name.ts'
import { canonicalJson } from '../../domain/json.ts'
import { pointFromCents, wholeCurrencyOf } from '../../domain/money.ts'
import type { PaymentMethod } from '../../domain/order.ts'
import { encodeReference, providerKey, requestKey, saleKey } from '../../domain/provider-names.ts'
import { AppError, addOutcome, type ErrorExtra } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { asAppError } from '../../provider/provider.ts'
import {
  type ChargeStart,
  findChargeStart,
  findTerminalUse,
  insertCharge,
  type NewCharge,
  type TerminalUse,
} from '../../repositories/orders/charge-intents.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { noteDeniedCharge, type PosWithStore } from '../../repositories/stores/store-queries.ts'
import { auditFailure } from '../audit/activity.ts'
import { centsRefused, readSite } from '../connection/account-site.ts'
import type { KnownConnection } from '../connection/oauth-tokens.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  inTime,
  isOwnStore,
  type RequestContext,
  requireConnected,
  shortestCallMs,
  timeLeftMs,
} from '../operations/request-context.ts'
import { firstCheckAt, type NewLease, newLeaseColumns, newLeaseOf } from '../operations/runner.ts'
import { terminalBusy } from '../terminals/busy-terminal.ts'
import {
  cancelForgottenOrders,
  chooseTerminal,
  freeTerminal,
  tooSlow,
} from '../terminals/choose-terminal.ts'
import {
  findEarlier,
  findEarlierNow,
  isGivenUp,
  linkAdoptedOrder,
  requireOwnStore,
  route,
} from './duplicate-charge.ts'
import { notifyOrderChanged } from './order-changes.ts'
import { type CreationOutcome, resolveCreation, unknownCreation } from './send-charge.ts'

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

/** A requested charge, and what makes two requests the same charge. */
export type Sale = {
  client: ClientName
  request: OrderRequest
  context: RequestContext
  key: string | undefined
  /** Of the content that belongs to the key; empty without a key. */
  fingerprint: string
  /** Equal content counts as the same charge. */
  guard: boolean
  /** The same request again is the same charge, by its key or by its content. */
  repeatable: boolean
  /** Its order, once there is one: for an answer at the deadline. */
  order: OrderRow | undefined
  /** What the step that runs now says of the money when it fails and does not say it itself. */
  outcomeOnFailure: ErrorExtra
}

function asSale(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  key: string | undefined,
  context: RequestContext,
): Sale {
  const guard = key === undefined && deps.settings.duplicateOrderGuard
  const repeatable = guard || key !== undefined
  return {
    client,
    request,
    context,
    key,
    // Other Unicode forms of a text are equal content.
    fingerprint: key === undefined ? '' : hash('sha256', canonicalJson(request).normalize('NFC')),
    guard,
    repeatable,
    order: undefined,
    outcomeOnFailure: undecided({ repeatable }),
  }
}

/** An order with its state now. `replayed`: an earlier request made it. */
export type Charged = { order: OrderRow; replayed: boolean }

/**
 * Puts a charge on the terminal of a box, at most once. The intent is committed before the provider is called, under
 * one key for ever; equal requests (by Idempotency-Key, or by content) get the first order instead of a second charge.
 *
 * @throws NOT_FOUND (box), VALIDATION_ERROR (cents that the account's currency does not have), OAUTH_NOT_CONNECTED, CONNECTION_LOST,
 * TERMINAL_NOT_FOUND, TERMINAL_NOT_PDV, TERMINAL_BUSY, IDEMPOTENCY_CONFLICT, ORDER_ALREADY_PAID, PROVIDER_TIMEOUT (outcome unknown, with the order's id), PROVIDER_REJECTED,
 * PROVIDER_ERROR, RATE_LIMITED. Each says whether money moved.
 */
export async function createOrder(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  idempotencyKey: string | undefined,
  context: RequestContext,
): Promise<Charged> {
  const metadata = { amount: pointFromCents(request.amountCents), caja_id: request.cajaId }
  const { actor } = context
  const entry = { client, actor, action: 'order.created', resourceId: null, metadata }
  const sale = asSale(deps, client, request, idempotencyKey, context)
  try {
    return await auditFailure(deps, entry, () =>
      inTime(deps, context, charge(deps, sale), () => tooLate(sale)),
    )
  } catch (cause) {
    const error = addOutcome(cause, sale.outcomeOnFailure)
    const code = error instanceof AppError ? error.code : 'INTERNAL_ERROR'
    deps.fleet.recordRefusal(client, request.cajaId, code)
    throw error
  }
}

function tooLate(sale: Sale): AppError {
  if (sale.order) return unknownCreation(sale.order, undefined, sale.repeatable)
  return new AppError('PROVIDER_TIMEOUT', { extra: undecided(sale) })
}

/** Whether this request, or an equal one before it, has charged is unknown until the provider answers. */
function undecided({ repeatable }: Pick<Sale, 'repeatable'>): ErrorExtra {
  return moneyOutcome(repeatable ? 'chargeUndecided' : 'chargeUndecidedOnce')
}

async function charge(deps: PaymentDeps, sale: Sale): Promise<Charged> {
  const start = await readChargeStart(deps, sale)
  try {
    return await chargeOnce(deps, sale, start)
  } catch (cause) {
    const error = addOutcome(cause, sale.outcomeOnFailure)
    if (error.extra.outcome !== 'not_charged' || !start.pos) throw error
    sale.outcomeOnFailure = undecided(sale)
    const earlier = await denyCharge(deps, sale, start.pos)
    if (!earlier) throw error
    return replay(deps, sale, earlier)
  }
}

/** What is read before a charge. */
type Start = Pick<ChargeStart, 'pos' | 'site' | 'isNew'> & {
  connection: KnownConnection | undefined
}

async function readChargeStart(
  deps: PaymentDeps,
  { client, request, key, guard }: Sale,
): Promise<Start> {
  const seenMs = performance.now()
  const wanted = { ...request, route, key, byContent: guard }
  const start = await findChargeStart(deps.database.db, client, wanted)
  return { ...start, connection: start.connection && { row: start.connection, seenMs } }
}

/**
 * Makes "not charged" true for every equal request that is under way: an order that one of them has made already is returned
 * instead, and none of them makes one afterwards (`writeIntent`).
 */
async function denyCharge(
  deps: PaymentDeps,
  sale: Sale,
  pos: PosWithStore,
): Promise<OrderRow | undefined> {
  if (!sale.repeatable) return undefined
  return deps.database.transaction(async (trx) => {
    await noteDeniedCharge(trx, sale.client, pos.id)
    return findEarlier(deps, trx, sale)
  })
}

/** The steps of a charge, in their order. */
async function chargeOnce(deps: PaymentDeps, sale: Sale, start: Start): Promise<Charged> {
  const { client, request, context } = sale
  const earlier = start.isNew ? undefined : await findEarlierNow(deps, sale)
  if (earlier) return replay(deps, sale, earlier)

  const notMade = moneyOutcome('chargeNotMade')
  sale.outcomeOnFailure = notMade
  const { pos, site, connection: known } = start
  const isOwn = pos && isOwnStore(context, pos.store_external_id)
  if (!isOwn || pos.state !== 'active' || pos.mp_pos_id === null) {
    throw new AppError('NOT_FOUND', { message: 'There is no such box; check caja_id' })
  }
  const { amountCents } = request
  const currency = wholeCurrencyOf(
    site === undefined ? await readSite(deps, client, amountCents, known, context) : site,
  )
  if (currency !== undefined && amountCents % 100 !== 0) throw centsRefused(amountCents, currency)
  const terminal = await chooseTerminal(deps, client, pos.mp_pos_id, known, context)
  const repeated = repeatedAs(sale, terminal.mpUserId)
  const place: Place = { pos, repeated, isWhole: currency !== undefined, ...terminal }
  const use = await findUse(deps, sale, place)
  await freeTerminal(deps, client, place.terminalId, use.open, context)

  for (let isSecond = false; ; isSecond = true) {
    try {
      sale.outcomeOnFailure = undecided(sale)
      const intent = await writeIntent(deps, sale, place, { start, use })
      sale.order = intent.order
      if (!intent.newLease) return await replay(deps, sale, intent.order)
      return await callProvider(deps, sale, intent.order, intent)
    } catch (error) {
      if (isSecond || !(error instanceof AppError && error.code === 'TERMINAL_BUSY')) throw error
      sale.outcomeOnFailure = notMade
      // The terminal may be busy with a forgotten order of ours that is known only now: one more attempt then.
      if (!(await cancelForgottenOrders(deps, place.terminalId, context))) throw error
    }
  }
}

function findUse(
  deps: PaymentDeps,
  { client, request: { externalReference } }: Sale,
  { terminalId, repeated: requestKey }: Place,
): Promise<TerminalUse> {
  const wanted = { terminalId, requestKey, externalReference }
  return findTerminalUse(deps.database.db, client, wanted)
}

/** The first order with its current state. An order that is still being made is waited for. */
async function replay(deps: PaymentDeps, sale: Sale, order: OrderRow): Promise<Charged> {
  requireOwnStore(sale, order)
  const current =
    order.creation === 'confirmed' ? order : (await callProvider(deps, sale, order)).order
  // The terminal's charge is about to be canceled: the customer must not be sent to it.
  if (isGivenUp(current)) throw unknownCreation(current, undefined, sale.repeatable)
  return { order: current, replayed: true }
}

type Place = {
  pos: PosWithStore
  terminalId: string
  mpUserId: number
  /** The amount is sent without decimals. */
  isWhole: boolean
  /** What makes two requests the same charge, for the key at the provider. */
  repeated: string
}

type Intent = {
  order: OrderRow
  /** The lease on a new order's key; absent for an earlier order. */
  newLease?: NewLease
  connection?: KnownConnection
}

/**
 * Commits the intent if what was read (`start`, `use`) still holds. Else it is read again, until an equal request turns out to have been
 * first or the intent is committed: so only one of several equal requests becomes an order. A commit whose answer was lost may have
 * happened: then the sweeper makes the charge of that intent.
 */
async function writeIntent(
  deps: PaymentDeps,
  sale: Sale,
  place: Place,
  { start, use }: { start: Start; use: TerminalUse },
): Promise<Intent> {
  const { db } = deps.database
  const { key, fingerprint, context } = sale
  for (;;) {
    await requireConnected(context, undecided(sale))
    if (timeLeftMs(deps, context) < shortestCallMs) throw tooSlow()
    const provenMs = performance.now()
    const { pos, connection } = start
    if (pos?.state !== 'active') throw boxRemoved()
    if (connection?.row.mp_user_id !== place.mpUserId) throw accountChanged()
    const row = newCharge(deps, sale, place, use)
    const link = { route, key, fingerprint }
    const { order, isTaken } = await insertCharge(db, row, pos, connection.row, link)
    if (order) {
      notifyOrderChanged(deps.database, order)
      const newLease = newLeaseOf(order, provenMs)
      return { order, newLease, connection: { ...connection, seenMs: provenMs } }
    }
    start = await readChargeStart(deps, sale)
    if (!start.isNew) {
      await linkAdoptedOrder(deps, sale)
      const earlier = await findEarlier(deps, db, sale)
      if (earlier) return { order: earlier }
    }
    if (start.pos && start.pos.denied_charges !== place.pos.denied_charges) throw deniedMeanwhile()
    const { attempts } = use
    use = await findUse(deps, sale, place)
    // Another client of the account, or an order found at the provider, has this reference.
    if (isTaken) use = { ...use, attempts: Math.max(use.attempts, attempts + 1) }
  }
}

function newCharge(
  deps: PaymentDeps,
  { client, request }: Sale,
  { pos, terminalId, mpUserId, isWhole, repeated }: Place,
  use: TerminalUse,
): NewCharge {
  const now = deps.now()
  // The provider wants each reference once per account, so later orders with the same text get a suffix.
  const attempt = use.attempts + 1
  return {
    id: providerKey(repeated, use.repeated + 1),
    request_key: repeated,
    client,
    caja_id: pos.external_id,
    sucursal_id: pos.store_external_id,
    terminal_id: terminalId,
    mp_user_id: mpUserId,
    external_reference: request.externalReference,
    mp_external_reference: encodeReference(request.externalReference, attempt),
    reference_attempt: attempt,
    amount_cents: request.amountCents,
    whole_amount: isWhole,
    description: request.description,
    ticket_number: request.ticketNumber,
    send_ticket_number: deps.settings.sendTicketNumber,
    print_ticket: request.printTicket,
    payment_method: request.paymentMethod,
    expiration_minutes: request.expirationMinutes,
    creation: 'intent',
    status: 'created',
    sent_at: now,
    created_at: now,
    last_updated_at: now,
    expires_at: new Date(now.getTime() + request.expirationMinutes * 60_000),
    // Each attempt postpones it, so that the sweeper does not work beside the request.
    next_check_at: firstCheckAt(now),
    ...newLeaseColumns(now),
  }
}

/**
 * What makes two requests the same charge, for the key at the provider: the till's key, or else the sale. Where equal sales
 * count as different ones nothing does: a new sale must not be answered with one that a restored backup forgot.
 */
function repeatedAs({ client, request, key, guard }: Sale, mpUserId: number): string {
  if (key !== undefined) return requestKey('order', client, mpUserId, key)
  return guard ? saleKey(client, mpUserId, request) : requestKey('once', randomUUID())
}

function boxRemoved(): AppError {
  return new AppError('NOT_FOUND', {
    message: 'The box was removed meanwhile',
    extra: moneyOutcome('chargeImpossible'),
  })
}

/** The chosen terminal belongs to the previous account. */
function accountChanged(): AppError {
  return new AppError('ACCOUNT_MISMATCH', {
    message: 'The client was connected to another provider account, or disconnected, meanwhile',
    extra: moneyOutcome('chargeNotMade'),
  })
}

/** A later charge of this box was answered as not charged; this one would contradict that answer. */
function deniedMeanwhile(): AppError {
  return new AppError('SERVICE_UNAVAILABLE', {
    message: 'Another charge of this box was refused while this one waited; send it again',
    extra: moneyOutcome('chargeNotMade'),
  })
}

async function callProvider(
  deps: PaymentDeps,
  sale: Sale,
  order: OrderRow,
  { newLease, connection }: Partial<Intent> = {},
): Promise<Charged> {
  sale.outcomeOnFailure = { ...undecided(sale), orderId: order.id }
  const options = { newLease: newLease ?? null, connection, isCharge: true }
  const outcome = await resolveCreation(deps, order, sale.context, options)
  const made = await orderOf(deps, sale, outcome)
  return { order: made, replayed: made.id !== order.id }
}

async function orderOf(deps: PaymentDeps, sale: Sale, outcome: CreationOutcome): Promise<OrderRow> {
  switch (outcome.kind) {
    case 'confirmed':
      return outcome.order
    case 'refused': {
      const { order, error } = outcome
      const refusal = asAppError(error, 'order.create')
      if (refusal.code === 'TERMINAL_BUSY') {
        throw await terminalBusy(deps, order.client, order.terminal_id, sale.context, error)
      }
      throw new AppError(refusal.code, {
        message: refusal.message,
        ...(refusal.details && { details: refusal.details }),
        cause: error,
        extra: { ...refusal.extra, ...moneyOutcome('chargeNotMade') },
      })
    }
    case 'unknown':
      throw unknownCreation(outcome.order, outcome.error, sale.repeatable)
    default:
      return outcome satisfies never
  }
}
