import type { ProviderChargeback } from '../../domain/chargeback.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { chargedBack } from '../../domain/order-state.ts'
import { AppError } from '../../errors/app-error.ts'
import {
  type ChargebackRow,
  findClientsOfCase,
  listChargedBackPayments,
  listDueChargebacks,
} from '../../repositories/chargebacks/chargeback-queries.ts'
import { findClientsOfAccount } from '../../repositories/connection/connection-queries.ts'
import type { OrderRow } from '../../repositories/orders/order-queries.ts'
import {
  findPayment,
  type ProviderPaymentRow,
} from '../../repositories/provider-payments/provider-payments.ts'
import { withAccess } from '../connection/access.ts'
import { callForShop, type Shop } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { readPayment } from '../provider-payments/read-payments.ts'
import { postponeCase, saveCase, saveWithoutCase } from './save-case.ts'

const callWithinMs = 15_000
const casesAtOnce = 20

/**
 * Reads the due cases of a shop, and searches for the cases of payments that the provider shows as charged back. So a lost
 * webhook loses no case. The caller must have the account's lease.
 */
export async function readDueCases(
  deps: PaymentDeps,
  shop: Shop,
  signal: AbortSignal,
): Promise<void> {
  const { db } = deps.database
  for (const paymentId of await listChargedBackPayments(db, shop.client, casesAtOnce)) {
    const payment = await findPayment(db, shop.client, paymentId)
    if (payment) await saveWithoutCase(deps, payment)
  }
  for (const row of await listDueChargebacks(db, shop.client, deps.now(), casesAtOnce)) {
    if (signal.aborted) return
    await readAgain(deps, shop, row, signal).catch(async (error: unknown) => {
      if (signal.aborted) return
      const about = { client: row.client, caseId: row.case_id, paymentId: row.payment_id }
      deps.log.warn({ ...about, err: error }, 'charge-back not read yet')
      await postponeCase(deps, row)
    })
  }
}

async function readAgain(
  deps: PaymentDeps,
  shop: Shop,
  row: ChargebackRow,
  signal: AbortSignal,
): Promise<void> {
  const payment = await findPayment(deps.database.db, row.client, row.payment_id)
  const caseIds =
    row.case_id === null ? await searchCases(deps, shop, row.payment_id, signal) : [row.case_id]
  let isRead = false
  for (const caseId of caseIds) {
    const shown = await readCase(deps, shop, caseId, signal)
    if (!shown || !payment) continue
    // A search may show the cases of other payments, too.
    if (row.case_id === null && !shown.paymentIds.includes(row.payment_id)) continue
    await saveCase(deps, payment, shown)
    await saveForOthers(deps, shop, shown)
    isRead = true
  }
  if (!isRead) await postponeCase(deps, row)
}

/**
 * Stores the case that a webhook names, for every client of the account that has a payment of it. Returns the first such client,
 * and the order; undefined when there is none, such as for a sale of a web shop at the same account.
 *
 * @throws the failure of a read, and PROVIDER_ERROR for a case that the account does not have
 */
export async function readCaseOfWebhook(
  deps: PaymentDeps,
  mpUserId: number | null,
  caseId: string,
): Promise<{ client: ClientName; orderId: string | null } | undefined> {
  const { db } = deps.database
  const known = await findClientsOfCase(db, caseId)
  const named = mpUserId === null ? [] : await findClientsOfAccount(db, mpUserId)
  const clients = new Set([...known, ...named])
  const failures: unknown[] = []
  let first: { client: ClientName; orderId: string | null } | undefined
  let isMissing = false
  // The loop visits clients that are added to the set meanwhile, too.
  for (const client of clients) {
    try {
      const seen = await readWithClient(deps, client, caseId)
      isMissing ||= !seen
      if (!seen) continue
      for (const other of await findClientsOfAccount(db, seen.shop.mpUserId)) clients.add(other)
      for (const paymentId of seen.shown.paymentIds) {
        const payment = await ownPayment(deps, seen.shop, paymentId)
        if (!payment) continue
        await saveCase(deps, payment, seen.shown)
        first ??= { client, orderId: payment.order_id }
      }
      await saveForOthers(deps, seen.shop, seen.shown)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
  if (isMissing && !first) {
    throw new AppError('PROVIDER_ERROR', { message: 'The provider has no such case' })
  }
  return first
}

function readWithClient(
  deps: PaymentDeps,
  client: ClientName,
  caseId: string,
): Promise<{ shop: Shop; shown: ProviderChargeback } | undefined> {
  return withAccess(deps, client, async (access) => {
    const shop = { client, mpUserId: access.mpUserId }
    const shown = await deps.provider.chargebacks.get(access.token, access.mpUserId, caseId, {
      untilMs: deps.stopwatch() + callWithinMs,
    })
    return shown && { shop, shown }
  })
}

/** Stores a case for the other clients of its account, too, as far as their payments have been read. */
async function saveForOthers(
  deps: PaymentDeps,
  { client, mpUserId }: Shop,
  shown: ProviderChargeback,
): Promise<void> {
  const { db } = deps.database
  for (const other of await findClientsOfAccount(db, mpUserId)) {
    if (other === client) continue
    for (const paymentId of shown.paymentIds) {
      const payment = await findPayment(db, other, paymentId)
      if (payment) await saveCase(deps, payment, shown)
    }
  }
}

/**
 * Stores the charge-backs of an order that the provider shows as charged back: the cases that the order names, or else those of
 * its payments. A payment whose case cannot be found is stored without one.
 */
export async function readCasesOfOrder(
  deps: PaymentDeps,
  order: OrderRow,
  caseIds: readonly string[],
): Promise<void> {
  const shop = { client: order.client, mpUserId: order.mp_user_id }
  for (const { referenceId } of order.payments) {
    if (referenceId === null) continue
    const payment = await ownPayment(deps, shop, referenceId, 'read again')
    if (payment?.status !== chargedBack) continue
    const found = caseIds.length > 0 ? caseIds : await searchCases(deps, shop, referenceId)
    let isKept = false
    for (const caseId of found) {
      const shown = await readCase(deps, shop, caseId)
      if (!shown?.paymentIds.includes(referenceId)) continue
      await saveCase(deps, payment, shown)
      await saveForOthers(deps, shop, shown)
      isKept = true
    }
    if (!isKept) await saveWithoutCase(deps, payment)
  }
}

/** A payment, if it belongs to this client. One that was read long ago is read again when it is reported as changed. */
async function ownPayment(
  deps: PaymentDeps,
  shop: Shop,
  paymentId: string,
  how: 'as kept' | 'read again' = 'as kept',
): Promise<ProviderPaymentRow | undefined> {
  const { db } = deps.database
  const kept = await findPayment(db, shop.client, paymentId)
  if (kept && how === 'as kept') return kept
  await readPayment(deps, shop, paymentId)
  return findPayment(db, shop.client, paymentId)
}

function readCase(deps: PaymentDeps, shop: Shop, caseId: string, signal?: AbortSignal) {
  const { chargebacks } = deps.provider
  return callForShop(
    deps,
    shop,
    (token, options) => chargebacks.get(token, shop.mpUserId, caseId, options),
    signal,
  )
}

function searchCases(deps: PaymentDeps, shop: Shop, paymentId: string, signal?: AbortSignal) {
  const { chargebacks } = deps.provider
  return callForShop(
    deps,
    shop,
    (token, options) => chargebacks.search(token, shop.mpUserId, paymentId, options),
    signal,
  )
}
