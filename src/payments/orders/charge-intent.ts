import { randomUUID } from 'node:crypto'
import { encodeReference, providerKey, requestKey, saleKey } from '../../domain/provider-names.ts'
import { AppError } from '../../errors/app-error.ts'
import { moneyOutcome } from '../../errors/money-outcome.ts'
import {
  type ChargeStart,
  findChargeStart,
  findTerminalUse,
  insertCharge,
  type NewCharge,
  type TerminalUse,
} from '../../repositories/orders/charge-intents.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import type { PosWithStore } from '../../repositories/stores/store-queries.ts'
import type { KnownConnection } from '../connection/access.ts'
import type { PaymentDeps } from '../deps.ts'
import {
  firstCheckAt,
  type NewLease,
  newLeaseColumns,
  newLeaseOf,
} from '../operations/send-lease.ts'
import { notifyOrderChanged } from '../process/order-changes.ts'
import { shortestCallMs, timeLeftMs } from '../request-context.ts'
import { chargeTooSlow } from './choose-terminal.ts'
import { findEarlier, linkAdoptedOrder, route } from './duplicate-charge.ts'
import { type Conflict, type Refused, refusedCharge, type Sale } from './sale.ts'

/** What is read before a charge. */
export type Start = Pick<ChargeStart, 'pos' | 'site' | 'isNew'> & {
  connection: KnownConnection | undefined
}

export async function readChargeStart(
  deps: PaymentDeps,
  { client, request, key, guard }: Sale,
): Promise<Start> {
  const seenMs = performance.now()
  const wanted = { ...request, route, key, byContent: guard }
  const start = await findChargeStart(deps.database.db, client, wanted)
  return { ...start, connection: start.connection && { row: start.connection, seenMs } }
}

/** Where a sale is charged. */
export type ChargePlace = {
  pos: PosWithStore
  terminalId: string
  mpUserId: number
  /** The amount is sent without decimals. */
  isWhole: boolean
  /** What makes two requests the same charge, for the key at the provider. */
  repeated: string
  use: TerminalUse
}

/** The row of a new charge, and the lease on its key. */
type Intent = {
  kind: 'intent'
  order: OrderRow
  newLease: NewLease
  connection: KnownConnection
}

/** What became of writing an intent. `earlier`: an equal request was first. */
type Written =
  | Intent
  | { kind: 'earlier'; order: OrderRow }
  | Refused
  | Conflict
  | { kind: 'interrupted'; error: AppError }

/**
 * Commits the intent if what was read (`start`, `place.use`) still holds. Else it is read again, until an equal request turns out to have
 * been first or the intent is committed: so only one of several equal requests becomes an order. A commit whose answer was lost may have
 * happened: then the sweeper makes the charge of that intent.
 */
export async function writeChargeIntent(
  deps: PaymentDeps,
  sale: Sale,
  place: ChargePlace,
  read: Start,
): Promise<Written> {
  const { db } = deps.database
  const { key, fingerprint, context } = sale
  for (let start = read, { use } = place; ; ) {
    if (!(await context.isConnected())) {
      // The till may have asked another process meanwhile: this answer must not deny an equal request.
      return { kind: 'interrupted', error: new AppError('CALLER_GONE') }
    }
    if (timeLeftMs(deps, context) < shortestCallMs) return refusedCharge(chargeTooSlow())
    const provenMs = performance.now()
    const { pos, connection } = start
    if (pos?.state !== 'active') return refusedCharge(boxRemoved())
    if (connection?.row.mp_user_id !== place.mpUserId) return refusedCharge(accountChanged())
    const row = newCharge(deps, sale, place, use)
    const link = { route, key, fingerprint }
    const { order, isTaken } = await insertCharge(db, row, pos, connection.row, link)
    if (order) {
      notifyOrderChanged(deps.database, order)
      const newLease = newLeaseOf(order, provenMs)
      return { kind: 'intent', order, newLease, connection: { ...connection, seenMs: provenMs } }
    }
    start = await readChargeStart(deps, sale)
    if (!start.isNew) {
      await linkAdoptedOrder(deps, sale)
      const earlier = await findEarlier(deps, db, sale)
      if (earlier) return 'kind' in earlier ? earlier : { kind: 'earlier', order: earlier }
    }
    if (start.pos && start.pos.denied_charges !== place.pos.denied_charges) {
      return refusedCharge(deniedMeanwhile())
    }
    const { attempts } = use
    use = await findUse(deps, sale, place.terminalId, place.repeated)
    // Another client of the account, or an order found at the provider, has this reference.
    if (isTaken) use = { ...use, attempts: Math.max(use.attempts, attempts + 1) }
  }
}

export function findUse(
  deps: PaymentDeps,
  { client, request: { externalReference } }: Sale,
  terminalId: string,
  requestKey: string,
): Promise<TerminalUse> {
  const wanted = { terminalId, requestKey, externalReference }
  return findTerminalUse(deps.database.db, client, wanted)
}

function newCharge(
  deps: PaymentDeps,
  { client, request }: Sale,
  { pos, terminalId, mpUserId, isWhole, repeated }: ChargePlace,
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
export function repeatedAs({ client, request, key, guard }: Sale, mpUserId: number): string {
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
  })
}

/** A later charge of this box was answered as not charged; this one would contradict that answer. */
function deniedMeanwhile(): AppError {
  return new AppError('SERVICE_UNAVAILABLE', {
    message: 'Another charge of this box was refused while this one waited; send it again',
  })
}
