import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { pointFromCents } from '../../domain/money.ts'
import { isTimeZone, timeZoneOfSite } from '../../domain/time-zone.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { type ChargesQuery, findFirstCharge } from '../../repositories/closings/closing-charges.ts'
import {
  type AmendmentRow,
  type ClosingRow,
  findClosing,
  findLastClosing,
  findSite,
  insertAmendment,
  insertClosing,
  isSpanRaced,
  keepSite,
  listAmendments,
  listShopPlaces,
  lockClosing,
  signClosing,
  updateClosing,
} from '../../repositories/closings/closing-queries.ts'
import { findConnection } from '../../repositories/connection/connection-queries.ts'
import { deleteReads } from '../../repositories/provider-payments/payment-reads.ts'
import {
  findPos,
  findStore,
  type StoreRow,
  updateStore,
} from '../../repositories/stores/store-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { requestedSpanOf, resolveSpan, type Uncovered, uncoveredBefore } from './closing-span.ts'
import { compareClosing, queryOf, readsOf } from './compare-closing.ts'
import { noClosing } from './wait-for-result.ts'

export type ClosingRequest = {
  cajaId?: string | undefined
  sucursalId?: string | undefined
  businessDay?: string | undefined
  from: Date | undefined
  to: Date | undefined
  declared: Declared | undefined
}

/** Cents by medium. */
type Declared = Record<string, number>

const siteWithinMs = 10_000
/** For requests about one place at the same moment. */
const attemptsAtMost = 50

/**
 * Opens the closing of a box or a store for a day or a time span; the payment watch compares it afterwards. The closings of a
 * place follow each other without gap or overlap. The same span again is the same closing. While it is not signed, its count is
 * corrected. The last one of the place is extended to the current time when something was sold since. `uncovered` is what was
 * sold before the first closing of the place, for a request for this one.
 *
 * @throws NOT_FOUND, VALIDATION_ERROR, OAUTH_NOT_CONNECTED, CONNECTION_LOST, CLOSING_OVERLAPS, CLOSING_GAP, CLOSING_SIGNED, and
 * the provider's failure
 */
export async function openClosing(
  deps: PaymentDeps,
  client: ClientName,
  request: ClosingRequest,
  actor: Actor,
): Promise<{ closing: ClosingRow; isNew: boolean; uncovered: Uncovered | undefined }> {
  const { db } = deps.database
  const where = await placeOf(deps, client, request)
  const connection = await findConnection(db, client)
  if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
  const timeZone = await timeZoneOf(deps, client, where.store, connection.mp_user_id)
  // Payments have the provider's times, and so have the spans of closings.
  const now = deps.providerClock.now()
  const requested = requestedSpanOf(request, timeZone, now)
  const place = { client, place: where.place }
  return untilNotRaced(deps, async (trx) => {
    const span = await resolveSpan(trx, place, where.charged, requested)
    if ('same' in span) {
      const until = span.isLast ? requested.until : span.same.to_at
      const { declared } = request
      const closing = await countAgain(deps, trx, span.same, { until, declared, actor })
      const uncovered = await uncoveredBefore(trx, closing, where.charged)
      return { closing, isNew: false, uncovered }
    }
    const opened = {
      id: randomUUID(),
      client,
      place: where.place,
      caja_id: where.cajaId,
      sucursal_id: where.store.external_id,
      mp_user_id: connection.mp_user_id,
      business_day: requested.businessDay,
      from_at: span.from,
      to_at: span.to,
      requested_from: requested.from,
      requested_to: requested.to,
      time_zone: timeZone,
      declared: request.declared ?? {},
      created_at: deps.now(),
      next_check_at: whenReadable(deps, span.to),
    }
    const closing = await insertClosing(trx, opened, span.before)
    await recordSuccess(deps, trx, {
      ...entryOf(closing, actor, 'closing.opened'),
      metadata: {
        place: closing.place,
        number: closing.number,
        business_day: closing.business_day,
        from: closing.from_at.toISOString(),
        to: closing.to_at.toISOString(),
        declared: textsOf(closing.declared),
      },
    })
    const uncovered = await uncoveredBefore(trx, closing, where.charged)
    return { closing, isNew: true, uncovered }
  })
}

/**
 * Corrects the count of a closing that is not signed, and extends it as a request for its span would. Without a count it is
 * compared again.
 *
 * @throws NOT_FOUND, CLOSING_SIGNED
 */
export async function countClosing(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  declared: Declared | undefined,
  actor: Actor,
): Promise<ClosingRow> {
  const { closing } = await readClosing(deps, client, id)
  const now = deps.providerClock.now()
  return untilNotRaced(deps, async (trx) => {
    const last = await findLastClosing(trx, closing)
    const { requested_to: end, to_at: to } = closing
    const isOver = last?.id !== id || end <= to
    const until = isOver ? to : end < now ? end : now
    return countAgain(deps, trx, closing, { until, declared, actor })
  })
}

const refusals: ReadonlySet<unknown> = new Set(['CLOSING_OVERLAPS', 'CLOSING_GAP'])

/**
 * Runs a change of a place's closings again when another one was committed first. So is a refusal, once: an equal request may
 * have been committed between two of its reads, and is then its answer.
 */
async function untilNotRaced<T>(
  { database }: PaymentDeps,
  work: (trx: Trx) => Promise<T>,
): Promise<T> {
  let wasRefused = false
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await database.transaction(work)
    } catch (error) {
      const isFirstRefusal: boolean =
        !wasRefused && error instanceof AppError && refusals.has(error.code)
      wasRefused ||= isFirstRefusal
      if (!isFirstRefusal && (!isSpanRaced(error) || attempt === attemptsAtMost)) throw error
    }
  }
}

type Where = {
  place: string
  cajaId: string | null
  store: StoreRow
  /** The place whose charges its closings count. */
  charged: ChargesQuery['place']
}

async function placeOf(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  { cajaId, sucursalId }: ClosingRequest,
): Promise<Where> {
  const box = cajaId === undefined ? undefined : await findPos(db, client, cajaId)
  if (cajaId !== undefined && !box) {
    throw new AppError('NOT_FOUND', { message: 'There is no such box; check caja_id' })
  }
  const storeId = sucursalId ?? box?.store_external_id
  const store = storeId === undefined ? undefined : await findStore(db, client, storeId)
  if (storeId !== undefined && !store) {
    throw new AppError('NOT_FOUND', { message: 'There is no such store' })
  }
  if (!store || (cajaId !== undefined && sucursalId !== undefined)) {
    throw invalid('caja_id', { code: 'BOX_OR_STORE' })
  }
  const id = cajaId ?? store.external_id
  return cajaId === undefined
    ? { place: `sucursal:${id}`, cajaId: null, store, charged: { column: 'sucursal_id', id } }
    : { place: `caja:${id}`, cajaId, store, charged: { column: 'caja_id', id } }
}

/** The store's own time zone, or that of its account's country. */
async function timeZoneOf(
  deps: PaymentDeps,
  client: ClientName,
  store: StoreRow,
  mpUserId: number,
): Promise<string> {
  if (store.time_zone !== null) return store.time_zone
  const { db } = deps.database
  const known = await findSite(db, mpUserId)
  if (known) return timeZoneOfSite(known.site_id)
  const { siteId } = await callForClient(deps, client, 'user.read', ({ token }) =>
    deps.provider.users.me(token, { untilMs: deps.stopwatch() + siteWithinMs }),
  )
  await keepSite(db, { mpUserId, siteId, at: deps.now() })
  return timeZoneOfSite(siteId)
}

/** The one time zone of a client's shops, or of all clients' shops; null when there are several, or one is unknown. */
export async function shopTimeZone(
  { database }: PaymentDeps,
  client: ClientName | null,
): Promise<string | null> {
  const places = await listShopPlaces(database.db, client)
  const zones = places.map(({ time_zone: own, mp_user_id: account, site_id: site }) =>
    own === null && account !== null ? timeZoneOfSite(site) : own,
  )
  return new Set(zones).size === 1 ? (zones[0] ?? null) : null
}

/**
 * Corrects the count of a closing, and extends it to `until` when something was sold since it ended: then it is compared again.
 *
 * @throws CLOSING_SIGNED when another count is given for a signed one
 */
async function countAgain(
  deps: PaymentDeps,
  trx: Trx,
  { client, id }: ClosingRow,
  { until, declared, actor }: { until: Date; declared: Declared | undefined; actor: Actor },
): Promise<ClosingRow> {
  // Locked, so that a comparison that ends at this moment is seen, and repeated.
  const known = (await lockClosing(trx, client, id)) as ClosingRow
  const isOther = declared !== undefined && !isDeepStrictEqual(declared, known.declared)
  if (known.state === 'signed') {
    if (isOther) throw signedError(known)
    return known
  }
  const hasResult = known.state !== 'open' && known.state !== 'checking'
  const isMore =
    until > known.to_at &&
    (await findFirstCharge(trx, { ...queryOf(known), from: known.to_at, to: until })) !== undefined
  const isAgain = hasResult && known.state !== 'agreed'
  if (!declared && !isMore && !isAgain) return known
  await updateClosing(trx, known, {
    ...(declared && { declared }),
    ...(isMore && { to_at: until }),
    ...((hasResult || isMore) && {
      state: 'open',
      reason: null,
      failures: 0,
      next_check_at: isMore ? whenReadable(deps, until) : deps.now(),
    }),
  })
  const { place, number } = known
  if (isMore) {
    // Pages that were read of the shorter span do not cover the added time.
    await deleteReads(trx, client, readsOf(known))
    await recordSuccess(deps, trx, {
      ...entryOf(known, actor, 'closing.extended'),
      metadata: { place, number, before: known.to_at.toISOString(), to: until.toISOString() },
    })
  }
  if (isOther) {
    await recordSuccess(deps, trx, {
      ...entryOf(known, actor, 'closing.counted'),
      metadata: { place, number, before: textsOf(known.declared), declared: textsOf(declared) },
    })
  }
  return (await findClosing(trx, client, id)) as ClosingRow
}

/** When the provider's search has all payments of a span that ends then, by our clock. */
function whenReadable({ providerClock, settings }: PaymentDeps, to: Date): Date {
  return providerClock.toOurs(new Date(to.getTime() + settings.searchLagMs))
}

/** The count of a signed closing does not change. */
export function signedError({
  id,
  number,
  state,
  from_at: from,
  to_at: to,
}: Pick<ClosingRow, 'id' | 'number' | 'state' | 'from_at' | 'to_at'>): AppError {
  return new AppError('CLOSING_SIGNED', { extra: { closing: { id, number, state, from, to } } })
}

function entryOf({ client, id }: ClosingRow, actor: Actor, action: string) {
  return { client, actor, action, resourceId: id }
}

function textsOf(declared: Readonly<Record<string, number>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(declared).map(([medium, cents]) => [medium, pointFromCents(cents)]),
  )
}

/**
 * A closing of this client with its amendments.
 *
 * @throws NOT_FOUND, also for another client's
 */
export async function readClosing(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<{ closing: ClosingRow; amendments: AmendmentRow[] }> {
  const closing = await findClosing(db, client, id)
  if (!closing) throw noClosing()
  return { closing, amendments: await listAmendments(db, client, id) }
}

/**
 * Signs a closing as it is: from then on it never changes. Signing it again returns the same.
 *
 * @throws NOT_FOUND, and CLOSING_NOT_CHECKED while it has no result
 */
export async function sign(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  actor: Actor,
): Promise<ClosingRow> {
  const { closing } = await readClosing(deps, client, id)
  const entry = {
    ...entryOf(closing, actor, 'closing.signed'),
    metadata: { place: closing.place, number: closing.number },
  }
  return auditFailure(deps, entry, async () => {
    const isSigned = await deps.database.transaction(async (trx) => {
      const by = actor.keyId ?? actor.person?.id ?? null
      // A comparison may have ended since the closing was read.
      const result = await signClosing(trx, closing, { at: deps.now(), by })
      if (result === undefined) return false
      await recordSuccess(deps, trx, { ...entry, metadata: { ...entry.metadata, result } })
      return true
    })
    const after = (await readClosing(deps, client, id)).closing
    if (!isSigned && after.state !== 'signed') throw new AppError('CLOSING_NOT_CHECKED')
    return after
  })
}

/**
 * Adds to a signed closing what its span contains now, such as money that came after it. The closing itself stays as it was
 * signed.
 *
 * @throws NOT_FOUND, and CLOSING_NOT_SIGNED for one that can still be compared again
 */
export async function amend(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  reason: string,
  actor: Actor,
): Promise<AmendmentRow> {
  const { closing } = await readClosing(deps, client, id)
  const entry = {
    ...entryOf(closing, actor, 'closing.amended'),
    metadata: { place: closing.place, number: closing.number, reason },
  }
  return auditFailure(deps, entry, async () => {
    if (closing.state !== 'signed') throw new AppError('CLOSING_NOT_SIGNED')
    const { lines, totals, result } = await compareClosing(deps, closing)
    return deps.database.transaction(async (trx) => {
      const amendment = await insertAmendment(trx, {
        id: randomUUID(),
        closing_id: id,
        client,
        reason,
        result,
        totals,
        lines,
        created_at: deps.now(),
        created_by: actor.keyId ?? actor.person?.id ?? null,
      })
      await recordSuccess(deps, trx, entry)
      return amendment
    })
  })
}

/**
 * Sets the time zone in which the days of a store begin; null for that of the account's country.
 *
 * @throws NOT_FOUND
 */
export async function setStoreTimeZone(
  deps: PaymentDeps,
  client: ClientName,
  storeId: string,
  timeZone: string | null,
  actor: Actor,
): Promise<StoreRow> {
  const { db } = deps.database
  const store = await findStore(db, client, storeId)
  if (!store) throw new AppError('NOT_FOUND', { message: 'There is no such store' })
  if (timeZone !== null && !isTimeZone(timeZone)) {
    throw invalid('time_zone', { code: 'TIME_ZONE_UNKNOWN' })
  }
  await deps.database.transaction(async (trx) => {
    await updateStore(trx, client, store.id, { time_zone: timeZone })
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'store.time_zone_set',
      resourceId: storeId,
      metadata: { time_zone: timeZone },
    })
  })
  return { ...store, time_zone: timeZone }
}
