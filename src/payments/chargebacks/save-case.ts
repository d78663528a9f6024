import { randomUUID } from 'node:crypto'
import type { Trx } from '../../db/database.ts'
import { backoffMs } from '../../domain/backoff.ts'
import { type ProviderChargeback, stateOfCase } from '../../domain/chargeback.ts'
import { changesBetween, type EventType } from '../../domain/event-types.ts'
import { pointFromCents } from '../../domain/money.ts'
import {
  type ChargebackRow,
  deleteChargebackWithoutCase,
  insertChargeback,
  lockChargebacksOf,
  updateChargeback,
} from '../../repositories/chargebacks/chargeback-queries.ts'
import { insertEvent, type NewEvent } from '../../repositories/events/event-log.ts'
import type { ProviderPaymentRow } from '../../repositories/provider-payments/provider-payments.ts'
import { recordSuccess } from '../audit/activity.ts'
import type { PaymentDeps } from '../deps.ts'
import { serviceActor } from '../request-context.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** In the first days documents and their deadline appear. */
const fresh = { forMs: 3 * dayMs, everyMs: 6 * hourMs }
/** The provider decides within six months. */
const usual = { forMs: 200 * dayMs, everyMs: dayMs }
const lateEveryMs = 7 * dayMs
const firstRetryMs = 5 * 60_000

/** When a case that is not decided is read again. */
function nextReadAt({ found_at, failures }: ChargebackRow, now: Date): Date {
  const ageMs = now.getTime() - found_at.getTime()
  const everyMs =
    ageMs < fresh.forMs ? fresh.everyMs : ageMs < usual.forMs ? usual.everyMs : lateEveryMs
  const waitMs =
    failures === 0 ? everyMs : backoffMs(failures, { firstMs: firstRetryMs, longestMs: everyMs })
  return new Date(now.getTime() + waitMs)
}

/**
 * Stores that a payment of a client is charged back while its case is not known: a person must check it, and the case is searched
 * for. Returns whether that is new.
 */
export async function saveWithoutCase(
  deps: PaymentDeps,
  payment: ProviderPaymentRow,
): Promise<boolean> {
  const now = deps.now()
  return deps.database.transaction(async (trx) => {
    const known = await lockChargebacksOf(trx, payment.client, payment.payment_id)
    if (known.length > 0) return false
    const row = newRow(payment, null, now)
    if (!(await insertChargeback(trx, row))) return false
    await record(deps, trx, row, 'chargeback.found')
    await insertEvent(trx, eventOf('chargeback.opened', undefined, row, now))
    return true
  })
}

/**
 * Stores a case as the provider shows it. `coverage_applied` is the decision; a case that is open again after one is open here
 * too. A case that names several payments has one row, of the payment by which it was found. The sale of the payment does not
 * change.
 */
export async function saveCase(
  deps: PaymentDeps,
  payment: ProviderPaymentRow,
  shown: ProviderChargeback,
): Promise<void> {
  const now = deps.now()
  const { client, payment_id: paymentId } = payment
  await deps.database.transaction(async (trx) => {
    const rows = await lockChargebacksOf(trx, client, paymentId, shown.caseId)
    const ofCase = rows.find(({ case_id: id }) => id === shown.caseId)
    const known = ofCase ?? rows.find(({ case_id: id }) => id === null)
    // A case has one row for all payments that it names.
    if (ofCase) await deleteChargebackWithoutCase(trx, client, paymentId)
    if (known && isOlder(shown, known)) return
    const before = known ?? newRow(payment, shown.caseId, now)
    const after = { ...before, ...changeOf(before, payment, shown, now) }
    if (known) await updateChargeback(trx, known, after)
    // Another process has just stored it.
    else if (!(await insertChargeback(trx, after))) return
    const isDecided = after.decided_at !== null
    const isReopened = !isDecided && before.decided_at !== null
    if (known === undefined || known.case_id === null) {
      await record(deps, trx, after, 'chargeback.opened')
    }
    if (known === undefined || known.case_id === null || isReopened) {
      await insertEvent(trx, eventOf('chargeback.opened', known, after, now))
    }
    if (isDecided && after.state !== before.state) {
      await record(deps, trx, after, `chargeback.${after.state}`)
      await insertEvent(trx, eventOf('chargeback.closed', before, after, now))
    }
    if (isReopened) await record(deps, trx, after, 'chargeback.reopened')
  })
}

function eventOf(
  type: EventType,
  before: ChargebackRow | undefined,
  after: ChargebackRow,
  at: Date,
): NewEvent {
  const { client, amount_cents: cents, documents_due_at: dueAt, decided_at: decidedAt } = after
  const shown = ({ state, case_id, amount_cents }: ChargebackRow) => ({
    state,
    case_id,
    amount_cents,
  })
  return {
    client,
    sucursalId: after.sucursal_id,
    cajaId: after.caja_id,
    type,
    at,
    resource: { type: 'chargeback', id: after.id, version: null },
    orderId: after.order_id,
    changes: changesBetween(before ? shown(before) : {}, shown(after)),
    data: {
      id: after.id,
      case_id: after.case_id,
      payment_id: after.payment_id,
      order_id: after.order_id,
      amount: cents === null ? null : pointFromCents(cents),
      currency: after.currency,
      state: after.state,
      documents_due_at: dueAt?.toISOString() ?? null,
      decided_at: decidedAt?.toISOString() ?? null,
    },
  }
}

/** Whether a later answer is stored: two processes may read a case, and the first answer may arrive last. */
function isOlder({ updatedAt }: ProviderChargeback, { updated_at: known }: ChargebackRow): boolean {
  return updatedAt !== null && known !== null && updatedAt < known
}

/** Records a read that failed, or found nothing. */
export async function postponeCase(deps: PaymentDeps, row: ChargebackRow): Promise<void> {
  const now = deps.now()
  const failures = row.failures + 1
  const next_read_at = nextReadAt({ ...row, failures }, now)
  await updateChargeback(deps.database.db, row, { failures, next_read_at })
}

function newRow(payment: ProviderPaymentRow, caseId: string | null, now: Date): ChargebackRow {
  return {
    id: randomUUID(),
    client: payment.client,
    mp_user_id: payment.mp_user_id,
    case_id: caseId,
    payment_id: payment.payment_id,
    payment_ids: [],
    order_id: payment.order_id,
    caja_id: payment.caja_id,
    sucursal_id: payment.sucursal_id,
    amount_cents: null,
    amount_text: null,
    currency: payment.currency,
    reason: null,
    coverage_eligible: null,
    coverage_applied: null,
    documentation_status: null,
    documents_due_at: null,
    state: 'unknown',
    opened_at: null,
    updated_at: null,
    found_at: now,
    read_at: null,
    decided_at: null,
    next_read_at: now,
    failures: 0,
    told_at: null,
    deadline_told_at: null,
    end_told_at: null,
  }
}

function changeOf(
  before: ChargebackRow,
  payment: ProviderPaymentRow,
  shown: ProviderChargeback,
  now: Date,
): Partial<ChargebackRow> {
  const state = stateOfCase(shown)
  const isDecided = state === 'won' || state === 'lost'
  const isOtherDeadline = before.documents_due_at?.getTime() !== shown.documentsDueAt?.getTime()
  return {
    case_id: shown.caseId,
    payment_ids: shown.paymentIds,
    ...(payment.payment_id === before.payment_id && {
      order_id: payment.order_id ?? before.order_id,
    }),
    amount_cents: shown.amount.cents ?? before.amount_cents,
    amount_text: shown.amount.text ?? before.amount_text,
    currency: shown.currency ?? before.currency,
    reason: shown.reason ?? before.reason,
    coverage_eligible: shown.coverageEligible,
    coverage_applied: shown.coverageApplied,
    documentation_status: shown.documentationStatus,
    documents_due_at: shown.documentsDueAt,
    state,
    opened_at: shown.createdAt ?? before.opened_at,
    updated_at: shown.updatedAt ?? before.updated_at,
    read_at: now,
    failures: 0,
    decided_at: isDecided ? (before.state === state ? before.decided_at : now) : null,
    next_read_at: isDecided ? null : nextReadAt({ ...before, failures: 0 }, now),
    ...(isOtherDeadline && { deadline_told_at: null }),
    ...(before.state !== state && { end_told_at: null }),
  }
}

async function record(
  deps: PaymentDeps,
  trx: Trx,
  row: ChargebackRow,
  action: string,
): Promise<void> {
  await recordSuccess(deps, trx, {
    client: row.client,
    actor: serviceActor(deps.now()),
    action,
    resourceId: row.id,
    metadata: {
      case_id: row.case_id,
      payment_id: row.payment_id,
      order_id: row.order_id,
      ...(row.amount_cents !== null && { amount: pointFromCents(row.amount_cents) }),
    },
  })
}
