import { hash } from 'node:crypto'
import type { ClientName } from '../../domain/client-name.ts'
import { canonicalJson } from '../../domain/json.ts'
import type { PaymentMethod } from '../../domain/order.ts'
import { AppError, type ErrorExtra } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PaymentDeps } from '../deps.ts'
import type { RequestContext } from '../request-context.ts'

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
  /** Its order, once there is one: for an answer at the deadline, and for one to an unexpected failure. */
  order: OrderRow | undefined
}

export function asSale(
  deps: PaymentDeps,
  client: ClientName,
  request: OrderRequest,
  key: string | undefined,
  context: RequestContext,
): Sale {
  const guard = key === undefined && deps.settings.duplicateOrderGuard
  return {
    client,
    request,
    context,
    key,
    // Other Unicode forms of a text are equal content.
    fingerprint: key === undefined ? '' : hash('sha256', canonicalJson(request).normalize('NFC')),
    guard,
    repeatable: guard || key !== undefined,
    order: undefined,
  }
}

/** Nothing was charged by this request. */
export type Refused = { kind: 'refused'; error: AppError }
/** The key belongs to a charge of other content, or an equal sale is paid. */
export type Conflict = { kind: 'conflict'; error: AppError }

export function refusedCharge(error: AppError): Refused {
  return { kind: 'refused', error }
}

/** For a person, the boxes of other stores than his own do not exist either. */
export function noSuchBox(): AppError {
  return new AppError('NOT_FOUND', { message: 'There is no such box; check caja_id' })
}

/** Whether this request, or an equal one before it, has charged is unknown until the provider answers. */
export function chargeUndecided({ repeatable }: Pick<Sale, 'repeatable'>): ErrorExtra {
  return moneyOutcome(repeatable ? 'chargeUndecided' : 'chargeUndecidedOnce')
}
