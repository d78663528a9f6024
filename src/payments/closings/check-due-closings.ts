import { type Backoff, backoffMs } from '../../domain/backoff.ts'
import { type ClosingLine, isUnknownYet } from '../../domain/closing.ts'
import { rowWithoutId, unreadableStatus } from '../../domain/provider-payment.ts'
import { AppError } from '../../errors/app-error.ts'
import { listPlacesToRead } from '../../repositories/closings/closing-charges.ts'
import {
  type ClosingRow,
  findClosing,
  finishComparison,
  listDueClosings,
  updateClosing,
} from '../../repositories/closings/closing-queries.ts'
import { findOrder } from '../../repositories/orders/order-queries.ts'
import {
  deleteReads,
  findRead,
  planRead,
} from '../../repositories/provider-payments/payment-reads.ts'
import type { Shop } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'
import { refreshOrder } from '../orders/read.ts'
import { readPayment, readPayments } from '../provider-payments/read-payments.ts'
import { serviceContext } from '../request-context.ts'
import { compareClosing, queryOf, readsOf } from './compare-closing.ts'

const minuteMs = 60_000
/** A payment may be made some time before it is approved; its money counts from the approval. */
const approvalMs = 60 * minuteMs
/** Each difference is read once more by its number, since that shows the charge as it is now. */
const suspectsAtMost = 200
const betweenReadsMs = 250
/** After so many failures in a row the closing is reported as not verified. */
const failuresAtMost = 3
/** For a closing that is corrected during each comparison. */
const comparisonsAtMost = 3
const pauses: Backoff = { firstMs: minuteMs, longestMs: 15 * minuteMs }
/** An open or unknown charge is read again for so long. */
const recheckForMs = 24 * 60 * minuteMs

/**
 * Checks the due closings of a shop. The caller must have the account's lease. Each check continues after a crash where it was. A
 * closing that cannot be read becomes `unverified` after a while, and is read again.
 *
 * @throws the provider's last failure
 */
export async function checkDueClosings(
  deps: PaymentDeps,
  shop: Shop,
  signal: AbortSignal,
): Promise<void> {
  let failure: unknown
  for (const closing of await listDueClosings(deps.database.db, shop.client, deps.now())) {
    if (signal.aborted) return
    try {
      await checkUntilWritten(deps, shop, closing, signal)
    } catch (error) {
      if (signal.aborted) return
      failure ??= error
    }
  }
  if (failure !== undefined) throw failure
}

/** Plans the next attempt, unless the closing was corrected during this one: then the correction has set the time. */
async function noteFailure(deps: PaymentDeps, closing: ClosingRow): Promise<void> {
  const failures = closing.failures + 1
  const waitMs = backoffMs(failures, pauses)
  const now = deps.now()
  await deps.database.transaction((trx) =>
    finishComparison(
      trx,
      closing,
      {
        failures,
        next_check_at: new Date(now.getTime() + waitMs),
        ...(failures >= failuresAtMost && {
          state: 'unverified' as const,
          reason: 'provider_unreadable',
        }),
      },
      now,
    ),
  )
}

/** A closing that changes during its comparison is compared again; when it keeps changing, in the next round. */
async function checkUntilWritten(
  deps: PaymentDeps,
  shop: Shop,
  due: ClosingRow,
  signal: AbortSignal,
): Promise<void> {
  let closing: ClosingRow | undefined = due
  for (let attempt = 0; attempt < comparisonsAtMost; attempt += 1) {
    if (!closing || closing.state === 'signed' || signal.aborted) return
    try {
      if ((await checkClosing(deps, shop, closing, signal)) === 'ended') return
    } catch (error) {
      if (!signal.aborted) await noteFailure(deps, closing)
      throw error
    }
    closing = await findClosing(deps.database.db, due.client, due.id)
  }
}

async function checkClosing(
  deps: PaymentDeps,
  shop: Shop,
  closing: ClosingRow,
  signal: AbortSignal,
): Promise<'ended' | 'changed'> {
  const { db } = deps.database
  // A search is incomplete for its last moments, so none is made until the span is over for so long.
  const surely = new Date(closing.to_at.getTime() + deps.settings.searchLagMs)
  if (deps.providerClock.now() < surely) {
    const next_check_at = deps.providerClock.toOurs(surely)
    await updateClosing(db, closing, { state: 'open', next_check_at })
    return 'ended'
  }
  if (closing.mp_user_id !== shop.mpUserId) {
    const reason = 'account_changed'
    await updateClosing(db, closing, { state: 'unverified', reason, next_check_at: null })
    return 'ended'
  }
  await updateClosing(db, closing, { state: 'checking' })
  const readAt = await readEverything(deps, shop, closing, signal)
  if (readAt === 'stopped') return 'ended'
  await checkCloser(deps, shop, closing, signal)
  if (signal.aborted) return 'ended'
  const { lines, totals, result, isOfOneAccount } = await compareClosing(deps, closing)
  const isOpen = lines.some(isUnknownYet)
  const isUnreadable = lines.some(({ there }) => there?.status === unreadableStatus)
  const whyOpen = isUnreadable ? 'payment_unreadable' : isOpen ? 'something_open' : null
  const now = deps.now()
  const again = now.getTime() - closing.created_at.getTime() < recheckForMs
  const isNowhere = readAt === 'nowhere'
  // The charges of a former account cannot be read.
  const isRead = !isNowhere && isOfOneAccount
  const whyUnread = isNowhere ? 'box_not_at_provider' : 'account_changed'
  return deps.database.transaction(async (trx) => {
    const isWritten = await finishComparison(
      trx,
      closing,
      {
        state: isRead ? result : 'unverified',
        reason: isRead ? whyOpen : whyUnread,
        read_at: isRead ? readAt : null,
        lines,
        totals,
        failures: 0,
        next_check_at: isOpen && again ? new Date(now.getTime() + minuteMs) : null,
      },
      now,
    )
    await deleteReads(trx, shop.client, readsOf(closing))
    return isWritten ? 'ended' : 'changed'
  })
}

const ranges = ['date_created', 'date_last_updated'] as const

/** Reads every page of what was sold and of what changed in the span. Returns when the first page was requested. */
async function readEverything(
  deps: PaymentDeps,
  { client, mpUserId }: Shop,
  closing: ClosingRow,
  signal: AbortSignal,
): Promise<Date | 'stopped' | 'nowhere'> {
  const { db } = deps.database
  const places = await listPlacesToRead(db, queryOf(closing))
  let readAt: Date | undefined
  for (const place of places) {
    for (const range of ranges) {
      const name = {
        client,
        name: `${readsOf(closing)}${range} ${place.mpPosId ?? place.mpStoreId}`,
      }
      const from =
        range === 'date_created'
          ? closing.from_at.getTime() - approvalMs
          : closing.from_at.getTime()
      await planRead(db, {
        ...name,
        mp_user_id: mpUserId,
        range,
        begins_at: new Date(from),
        ends_at: closing.to_at,
        mp_pos_id: place.mpPosId ?? null,
        mp_store_id: place.mpStoreId ?? null,
      })
      const outcome = await readPayments(deps, name, signal)
      if (signal.aborted) return 'stopped'
      if (outcome === 'open') throw new AppError('PROVIDER_ERROR')
      const began = (await findRead(db, name))?.began_at
      if (began && (!readAt || began < readAt)) readAt = began
    }
  }
  return readAt ?? 'nowhere'
}

/**
 * Reads each difference one by one: our orders whose outcome is not known here, and the provider's payments by their numbers. So
 * a late index, a lost webhook or a moved box alone causes no difference.
 */
async function checkCloser(
  deps: PaymentDeps,
  shop: Shop,
  closing: ClosingRow,
  signal: AbortSignal,
): Promise<void> {
  const { lines } = await compareClosing(deps, closing)
  const suspects = lines.filter(({ counted }) => counted === undefined)
  for (const line of suspects.slice(0, suspectsAtMost)) {
    if (signal.aborted) return
    await readAgain(deps, shop, line, signal)
    await deps.sleep(betweenReadsMs, signal).catch(() => undefined)
  }
}

async function readAgain(
  deps: PaymentDeps,
  shop: Shop,
  { orderId, paymentId, kind }: ClosingLine,
  signal: AbortSignal,
): Promise<void> {
  const order = orderId && (await findOrder(deps.database.db, shop.client, orderId))
  if (order && kind !== 'other_box' && kind !== 'other_medium') {
    await refreshOrder(deps, order, serviceContext(deps, 'search'))
  }
  if (paymentId !== null && !paymentId.startsWith(rowWithoutId))
    await readPayment(deps, shop, paymentId, signal)
}
