import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents, wholeCurrencyOf } from '../../domain/money.ts'
import { AppError, addOutcome, codeOfFailure, type OutcomeError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import { asAppError, type ProviderError } from '../../provider/provider.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import { noteDeniedCharge, type PosWithStore } from '../../repositories/stores/store-queries.ts'
import { recordFailedWrite } from '../audit/activity.ts'
import { centsRefused, readSite } from '../connection/account-site.ts'
import type { PaymentDeps } from '../deps.ts'
import { byDeadline, isOwnStore, type RequestContext } from '../request-context.ts'
import { terminalBusy } from './busy-terminal.ts'
import {
  type ChargePlace,
  findUse,
  readChargeStart,
  repeatedAs,
  type Start,
  writeChargeIntent,
} from './charge-intent.ts'
import { cancelForgottenOrders, chooseTerminal, freeTerminal } from './choose-terminal.ts'
import { findEarlier, findEarlierNow, isGivenUp } from './duplicate-charge.ts'
import {
  asSale,
  type Conflict,
  chargeUndecided,
  noSuchBox,
  type OrderRequest,
  type Refused,
  refusedCharge,
  type Sale,
} from './sale.ts'
import { type CreationOutcome, resolveCreation, unknownCreation } from './send-charge.ts'

/** An order with its state now. `replayed`: an earlier request made it. */
type Charged = { order: OrderRow; replayed: boolean }

/** How a charge ended for its request. */
type ChargeResult =
  | ({ kind: 'charged' } & Charged)
  | Refused
  | Conflict
  /** The provider has not confirmed the order in time; without an order it is unknown whether there is one. */
  | { kind: 'unknown'; order?: OrderRow | undefined; cause?: unknown }
  /** It ended in the middle: it, or an equal one before it, may have been made. */
  | { kind: 'interrupted'; error: unknown }

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
  const sale = asSale(deps, client, request, idempotencyKey, context)
  const work = charge(deps, sale).catch(
    (error: unknown): ChargeResult => ({ kind: 'interrupted', error }),
  )
  const result = await byDeadline(deps, context, work)
  if (result?.kind === 'charged') return result
  const error = errorOf(sale, result ?? { kind: 'unknown', order: sale.order })
  const metadata = { amount: pointFromCents(request.amountCents), caja_id: request.cajaId }
  const { actor } = context
  const entry = { client, actor, action: 'order.created', resourceId: null, metadata }
  await recordFailedWrite(deps, entry, error)
  deps.fleet.recordRefusal(client, request.cajaId, codeOfFailure(error))
  throw error
}

/** The error of a charge that did not end well, with what it says of the money. */
function errorOf(
  sale: Sale,
  result: Exclude<ChargeResult, { kind: 'charged' }>,
): AppError | OutcomeError {
  switch (result.kind) {
    case 'refused':
    case 'conflict':
      return addOutcome(result.error, moneyOutcome('chargeNotMade'))
    case 'unknown':
      if (result.order) return unknownCreation(result.order, result.cause, sale.repeatable)
      return new AppError('PROVIDER_TIMEOUT', { extra: chargeUndecided(sale) })
    case 'interrupted':
      return addOutcome(result.error, {
        ...chargeUndecided(sale),
        ...(sale.order && { orderId: sale.order.id }),
      })
    default:
      return result satisfies never
  }
}

/** The steps of a charge, in their order. */
async function charge(deps: PaymentDeps, sale: Sale): Promise<ChargeResult> {
  const start = await readChargeStart(deps, sale)
  const earlier = start.isNew ? undefined : await findEarlierNow(deps, sale)
  const result = earlier
    ? await answerEarlier(deps, sale, earlier)
    : await chargeNew(deps, sale, start)
  if (result.kind !== 'refused' || !start.pos || !sale.repeatable) return result
  const made = await denyEqualCharges(deps, sale, start.pos)
  return made ? answerEarlier(deps, sale, made) : result
}

/**
 * Makes "not charged" true for every equal request that is under way: an order that one of them has made already is returned
 * instead, and none of them makes one afterwards (`writeIntent`).
 */
async function denyEqualCharges(
  deps: PaymentDeps,
  sale: Sale,
  pos: PosWithStore,
): Promise<OrderRow | Conflict | undefined> {
  return deps.database.transaction(async (trx) => {
    await noteDeniedCharge(trx, sale.client, pos.id)
    return findEarlier(deps, trx, sale)
  })
}

/** A charge that no earlier request has made. */
async function chargeNew(deps: PaymentDeps, sale: Sale, start: Start): Promise<ChargeResult> {
  const place = await choosePlace(deps, sale, start)
  if (isRefused(place)) return place
  const first = await chargeAt(deps, sale, start, place)
  if (!isRefused(first) || first.error.code !== 'TERMINAL_BUSY') return first
  // The terminal may be busy with a forgotten order of ours that is known only now: one more attempt then.
  const isFree = await cancelForgottenOrders(deps, place.terminalId, sale.context)
  return isFree ? chargeAt(deps, sale, start, place) : first
}

function isRefused(result: ChargePlace | ChargeResult): result is Refused {
  return 'kind' in result && result.kind === 'refused'
}

/** The terminal of the box, free for this charge. */
async function choosePlace(
  deps: PaymentDeps,
  sale: Sale,
  start: Start,
): Promise<ChargePlace | Refused> {
  const { client, request, context } = sale
  const { pos, site, connection: known } = start
  const isOwn = pos && isOwnStore(context, pos.store_external_id)
  if (!isOwn || pos.state !== 'active' || pos.mp_pos_id === null) return refusedCharge(noSuchBox())
  try {
    const { amountCents } = request
    const currency = wholeCurrencyOf(
      site === undefined ? await readSite(deps, client, amountCents, known, context) : site,
    )
    if (currency !== undefined && amountCents % 100 !== 0) {
      return refusedCharge(centsRefused(amountCents, currency))
    }
    const terminal = await chooseTerminal(deps, client, pos.mp_pos_id, known, context)
    const repeated = repeatedAs(sale, terminal.mpUserId)
    const use = await findUse(deps, sale, terminal.terminalId, repeated)
    await freeTerminal(deps, client, terminal.terminalId, use.open, context)
    return { pos, repeated, isWhole: currency !== undefined, use, ...terminal }
  } catch (error) {
    // Nothing was sent, so each of these failures means that nothing was charged.
    if (error instanceof AppError) return refusedCharge(error)
    throw error
  }
}

/** Writes the intent and sends it. */
async function chargeAt(
  deps: PaymentDeps,
  sale: Sale,
  start: Start,
  place: ChargePlace,
): Promise<ChargeResult> {
  const written = await writeChargeIntent(deps, sale, place, start)
  switch (written.kind) {
    case 'intent': {
      const { order, newLease, connection } = written
      sale.order = order
      const options = { newLease, connection, isCharge: true }
      return resultOf(deps, sale, await resolveCreation(deps, order, sale.context, options))
    }
    case 'earlier':
      return answerEarlier(deps, sale, written.order)
    default:
      return written
  }
}

/** The first order with its current state. An order that is still being made is waited for. */
async function answerEarlier(
  deps: PaymentDeps,
  sale: Sale,
  earlier: OrderRow | Conflict,
): Promise<ChargeResult> {
  if ('kind' in earlier) return earlier
  // Only the box was checked before. A person of other stores learns nothing of this order.
  if (!isOwnStore(sale.context, earlier.sucursal_id)) {
    return { kind: 'interrupted', error: noSuchBox() }
  }
  sale.order = earlier
  const outcome: CreationOutcome =
    earlier.creation === 'confirmed'
      ? { kind: 'confirmed', order: earlier }
      : await resolveCreation(deps, earlier, sale.context, { isCharge: true })
  const result = await resultOf(deps, sale, outcome)
  if (result.kind !== 'charged') return result
  // The terminal's charge is about to be canceled: the customer must not be sent to it.
  if (isGivenUp(result.order)) return { kind: 'unknown', order: result.order }
  return { ...result, replayed: true }
}

/** The result of a charge whose order was sent. An order that stands in another row is an earlier one. */
async function resultOf(
  deps: PaymentDeps,
  sale: Sale,
  outcome: CreationOutcome,
): Promise<ChargeResult> {
  const { order } = outcome
  switch (outcome.kind) {
    case 'confirmed':
      return { kind: 'charged', order, replayed: order.id !== sale.order?.id }
    case 'refused':
      return refusedCharge(await refusalOf(deps, sale, order, outcome.error))
    case 'unknown':
      return { kind: 'unknown', order, cause: outcome.error }
    default:
      return outcome satisfies never
  }
}

/** The error for an order that the provider has refused. */
async function refusalOf(
  deps: PaymentDeps,
  { context }: Sale,
  order: OrderRow,
  error: ProviderError | AppError,
): Promise<AppError> {
  const refusal = asAppError(error, 'order.create')
  if (refusal.code === 'TERMINAL_BUSY') {
    return terminalBusy(deps, order.client, order.terminal_id, context, error)
  }
  return new AppError(refusal.code, {
    message: refusal.message,
    ...(refusal.details && { details: refusal.details }),
    cause: error,
    // What the answer to the call alone says of the money is less than what is known of the order.
    extra: { ...refusal.extra, ...moneyOutcome('chargeNotMade'), orderId: order.id },
  })
}
