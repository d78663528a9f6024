import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { ClientName } from '../domain/client-name.ts'
import { pointFromCents } from '../domain/money.ts'
import { dayIn, isTimeZone, spanOfDay, timeZoneOfSite } from '../domain/time-zone.ts'
import { AppError, invalid } from '../errors.ts'
import { auditFailure, recordSuccess } from '../payments/activity.ts'
import type { Actor, PaymentDeps } from '../payments/deps.ts'
import { withAccess } from '../payments/token-keeper.ts'
import { ProviderError, toAppError } from '../provider/provider.ts'
import { hasChargesSince } from '../repositories/closing-charges.ts'
import {
  type AmendmentRow,
  type ClosingRow,
  findClosing,
  findLastSigned,
  findSite,
  findUnsignedClosing,
  insertAmendment,
  insertClosing,
  keepSite,
  listAmendments,
  listShopPlaces,
  lockClosing,
  type NewClosing,
  setTimeZone,
  signClosing,
  updateClosing,
} from '../repositories/closings.ts'
import { findConnection } from '../repositories/oauth.ts'
import { findPos, findStore, type StoreRow } from '../repositories/stores.ts'
import { compareClosing, wishOf } from './compare-closing.ts'

export type ClosingWish = {
  cajaId: string | undefined
  sucursalId: string | undefined
  businessDay: string | undefined
  from: Date | undefined
  to: Date | undefined
  /** Cents by medium. */
  declared: Record<string, number> | undefined
}

/** A month and a day, so that a whole month fits in any time zone. */
const longestSpanMs = 32 * 24 * 3_600_000
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const siteWithinMs = 10_000

/**
 * Opens the closing of a box or a store for a day or a time; what is compared is done afterwards by the watch. While one of
 * the same place and day is not signed, that one is answered: one with a result is compared anew, up to this moment, when
 * something was sold since.
 *
 * Throws NOT_FOUND, VALIDATION_ERROR, OAUTH_NOT_CONNECTED, CONNECTION_LOST, and what the provider fails with.
 */
export async function openClosing(
  deps: PaymentDeps,
  client: ClientName,
  wish: ClosingWish,
  actor: Actor,
): Promise<{ closing: ClosingRow; isNew: boolean }> {
  const { db } = deps.database
  const where = await placeOf(deps, client, wish)
  const connection = await findConnection(db, client)
  if (!connection) throw new AppError('OAUTH_NOT_CONNECTED')
  const timeZone = await timeZoneOf(deps, client, where.store, connection.mp_user_id)
  const now = deps.now()
  const asked = spanOf(wish, timeZone, now)
  const known = await findUnsignedClosing(db, client, { ...where, businessDay: asked.businessDay })
  if (known) return { closing: await takeUpAgain(deps, known, asked.to, wish, actor), isNew: false }
  const signed = await findLastSigned(db, client, { ...where, ...asked })
  // What was signed is not closed a second time: the next closing of a day begins where the last one ended.
  const from = signed && signed.to_at > asked.from ? signed.to_at : asked.from
  if (from >= asked.to) throw invalid('business_day', 'is closed and signed up to this moment')
  const row: NewClosing = {
    id: randomUUID(),
    client,
    place: where.place,
    caja_id: where.cajaId,
    sucursal_id: where.store.external_id,
    mp_user_id: connection.mp_user_id,
    business_day: asked.businessDay,
    from_at: from,
    to_at: asked.to,
    time_zone: timeZone,
    declared: wish.declared ?? {},
    created_at: now,
    next_check_at: new Date(asked.to.getTime() + deps.settings.searchLagMs),
  }
  const closing = await insertClosing(deps.database, row, (trx, { place, number }) =>
    recordSuccess(deps, trx, {
      client,
      actor,
      action: 'closing.opened',
      resourceType: 'closing',
      resourceId: row.id,
      metadata: { place, number, business_day: row.business_day },
    }),
  )
  if (!closing) {
    const other = await findUnsignedClosing(db, client, {
      ...where,
      businessDay: asked.businessDay,
    })
    if (!other) throw new AppError('SERVICE_UNAVAILABLE')
    return { closing: other, isNew: false }
  }
  return { closing, isNew: true }
}

type Where = { place: string; cajaId: string | null; store: StoreRow }

async function placeOf(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  { cajaId, sucursalId }: ClosingWish,
): Promise<Where> {
  const box = cajaId === undefined ? undefined : await findPos(db, client, cajaId)
  if (cajaId !== undefined && !box) {
    throw new AppError('NOT_FOUND', { message: 'There is no such box' })
  }
  const storeId = sucursalId ?? box?.store_external_id
  const store = storeId === undefined ? undefined : await findStore(db, client, storeId)
  if (storeId !== undefined && !store) {
    throw new AppError('NOT_FOUND', { message: 'There is no such store' })
  }
  if (!store || (cajaId !== undefined && sucursalId !== undefined)) {
    throw invalid('caja_id', 'name either a box or a store')
  }
  return cajaId === undefined
    ? { place: `sucursal:${store.external_id}`, cajaId: null, store }
    : { place: `caja:${cajaId}`, cajaId, store }
}

/** The store's own zone, or that of its account's country. */
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
  const { siteId } = await withAccess(deps, client, ({ token }) =>
    deps.provider.users.me(token, { untilMs: deps.stopwatch() + siteWithinMs }),
  ).catch((error: unknown) => {
    throw error instanceof ProviderError ? toAppError(error, 'user.read') : error
  })
  await keepSite(db, { mpUserId, siteId, at: deps.now() })
  return timeZoneOfSite(siteId)
}

/** The one zone of a client's shops, or of everybody's; null where there are several, or where one is not known. */
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

type Asked = { businessDay: string; from: Date; to: Date }

/** A time that is not over is closed up to this moment. */
function spanOf({ businessDay, from, to }: ClosingWish, timeZone: string, now: Date): Asked {
  if (businessDay !== undefined) {
    if (from || to) throw invalid('from', 'does not go with business_day')
    const day = spanOfDay(timeZone, businessDay)
    if (day.from >= now) throw invalid('business_day', 'has not begun yet')
    return { businessDay, from: day.from, to: day.to < now ? day.to : now }
  }
  if (!from || !to) throw invalid('business_day', 'is required, or else from and to')
  if (from >= now) throw invalid('from', 'is in the future')
  const lengthMs = to.getTime() - from.getTime()
  if (!(lengthMs > 0 && lengthMs <= longestSpanMs)) {
    throw invalid('to', 'must be after `from` and at most 32 days later')
  }
  return { businessDay: dayIn(timeZone, from), from, to: to < now ? to : now }
}

/** Counts anew what somebody declares, and compares anew when there is more than was compared. */
async function takeUpAgain(
  deps: PaymentDeps,
  { client, id }: ClosingRow,
  to: Date,
  wish: ClosingWish,
  actor: Actor,
): Promise<ClosingRow> {
  return deps.database.transaction(async (trx) => {
    // Locked, so that a comparison that ends in this moment is seen, and compared again.
    const known = (await lockClosing(trx, client, id)) as ClosingRow
    if (known.state === 'signed') return known
    const hasResult = known.state !== 'open' && known.state !== 'checking'
    const isMore =
      to > known.to_at &&
      hasResult &&
      (await hasChargesSince(trx, { ...wishOf(known), from: known.to_at, to }))
    const isAgain = hasResult && known.state !== 'agreed'
    if (!wish.declared && !isMore && !isAgain) return known
    await updateClosing(trx, known, {
      ...(wish.declared && { declared: wish.declared }),
      ...(isMore && { to_at: to }),
      ...(hasResult && {
        state: 'open',
        reason: null,
        failures: 0,
        next_check_at: isMore ? new Date(to.getTime() + deps.settings.searchLagMs) : deps.now(),
      }),
    })
    if (wish.declared && !isDeepStrictEqual(wish.declared, known.declared)) {
      await recordSuccess(deps, trx, {
        client,
        actor,
        action: 'closing.counted',
        resourceType: 'closing',
        resourceId: id,
        metadata: {
          place: known.place,
          number: known.number,
          before: textsOf(known.declared),
          declared: textsOf(wish.declared),
        },
      })
    }
    return (await findClosing(trx, client, id)) as ClosingRow
  })
}

function textsOf(declared: Readonly<Record<string, number>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(declared).map(([medium, cents]) => [medium, pointFromCents(cents)]),
  )
}

/** A closing of this client with its amendments. Throws NOT_FOUND, for another client's too. */
export async function readClosing(
  { database: { db } }: PaymentDeps,
  client: ClientName,
  id: string,
): Promise<{ closing: ClosingRow; amendments: AmendmentRow[] }> {
  const closing = uuid.test(id) ? await findClosing(db, client, id) : undefined
  if (!closing) throw new AppError('NOT_FOUND', { message: 'There is no such closing' })
  return { closing, amendments: await listAmendments(db, client, id) }
}

/**
 * Signs a closing as it is: from then on it never changes. Signing it again answers the same. Throws NOT_FOUND, and
 * CLOSING_NOT_CHECKED while it has no result.
 */
export async function sign(
  deps: PaymentDeps,
  client: ClientName,
  id: string,
  actor: Actor,
): Promise<ClosingRow> {
  const { closing } = await readClosing(deps, client, id)
  const entry = {
    client,
    actor,
    action: 'closing.signed',
    resourceType: 'closing',
    resourceId: id,
    metadata: { place: closing.place, number: closing.number, result: closing.state },
  }
  return auditFailure(deps, entry, async () => {
    const isSigned = await deps.database.transaction(async (trx) => {
      const by = actor.keyId ?? null
      if (!(await signClosing(trx, closing, { at: deps.now(), by }))) return false
      await recordSuccess(deps, trx, entry)
      return true
    })
    const after = (await readClosing(deps, client, id)).closing
    if (!isSigned && after.state !== 'signed') throw new AppError('CLOSING_NOT_CHECKED')
    return after
  })
}

/**
 * Adds to a signed closing what its time looks like now, such as with money that came after it. The closing itself stays as it
 * was signed. Throws NOT_FOUND, and CLOSING_NOT_SIGNED for one that can still be checked anew.
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
    client,
    actor,
    action: 'closing.amended',
    resourceType: 'closing',
    resourceId: id,
    metadata: { place: closing.place, number: closing.number, reason },
  }
  return auditFailure(deps, entry, async () => {
    if (closing.state !== 'signed') throw new AppError('CLOSING_NOT_SIGNED')
    const { lines, totals, result } = await compareClosing(deps.database.db, closing)
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
        created_by: actor.keyId ?? null,
      })
      await recordSuccess(deps, trx, entry)
      return amendment
    })
  })
}

/** Sets the zone by whose clock the days of a store begin; null for that of the account's country. Throws NOT_FOUND. */
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
    throw invalid('time_zone', 'must be a name such as America/Argentina/Buenos_Aires')
  }
  await deps.database.transaction(async (trx) => {
    await setTimeZone(trx, client, store.id, timeZone)
    await recordSuccess(deps, trx, {
      client,
      actor,
      action: 'store.time_zone_set',
      resourceType: 'store',
      resourceId: storeId,
      metadata: { time_zone: timeZone },
    })
  })
  return { ...store, time_zone: timeZone }
}
