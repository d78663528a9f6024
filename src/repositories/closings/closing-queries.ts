import { isDeepStrictEqual } from 'node:util'
import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { constraintOf } from '../../db/database-failures.ts'
import { json } from '../../db/statements.ts'
import type { ClosingAmendmentsTable, ClosingsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import {
  type ClosingLine,
  type ClosingResult,
  type ClosingTotals,
  closingResults,
} from '../../domain/closing.ts'
import type { EventType } from '../../domain/event-types.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { isUuid } from '../../domain/uuid.ts'
import { insertEvent } from '../events/event-log.ts'
import { inStores } from '../stores/store-filter.ts'

export type ClosingRow = Selectable<ClosingsTable>
export type AmendmentRow = Selectable<ClosingAmendmentsTable>

/** Without what the database counts, and what a comparison or a signature sets. */
type NewClosing = Omit<
  Insertable<ClosingsTable>,
  'number' | 'state' | 'declared' | 'next_check_at' | 'failures' | 'lines'
> & { declared: Record<string, number>; next_check_at: Date }
/** A box or a store: its closings follow each other. */
export type ClosingPlace = { client: ClientName; place: string }

/** Two closings of a place were opened or extended at the same moment. A retry sees the other one. */
const raced: readonly (string | undefined)[] = [
  'closings_client_place_number_key',
  'closings_first',
  'closings_follows_key',
  'closings_follows_fkey',
  'closings_client_place_to_at_key',
]

/** Whether a change of a closing failed because of a simultaneous one of its place. */
export function isSpanRaced(error: unknown): boolean {
  return raced.includes(constraintOf(error))
}

/**
 * Opens a closing with the next number of its place, taken in the statement that makes the row: a number exists only
 * with its closing. One that comes before the first one of its place names it.
 *
 * @throws an error for which `isSpanRaced` is true, when the span no longer begins where the last one ends.
 */
export async function insertClosing(
  trx: Trx,
  closing: NewClosing,
  before?: ClosingRow,
): Promise<ClosingRow> {
  const { client, place } = closing
  if (before) {
    await sql`set constraints closings_follows_fkey deferred`.execute(trx)
    await trx
      .updateTable('closings')
      .set({ follows_at: before.from_at })
      .where('client', '=', client)
      .where('id', '=', before.id)
      .where('follows_at', 'is', null)
      .execute()
  }
  await trx
    .insertInto('closings')
    .values({
      ...closing,
      declared: json(closing.declared),
      state: 'open',
      failures: 0,
      lines: json([]),
      number: sql<number>`coalesce((select max(number) from closings
        where client = ${client} and place = ${place}), 0) + 1`,
    })
    .execute()
  return (await findClosing(trx, client, closing.id)) as ClosingRow
}

function closings(db: Db | Trx, client: ClientName) {
  return db.selectFrom('closings').selectAll().where('client', '=', client)
}

export async function findClosing(
  db: Db | Trx,
  client: ClientName,
  id: string,
): Promise<ClosingRow | undefined> {
  if (!isUuid(id)) return undefined
  return closings(db, client).where('id', '=', id).executeTakeFirst()
}

export async function findClosingState(
  db: Db,
  client: ClientName,
  id: string,
): Promise<ClosingRow['state'] | undefined> {
  if (!isUuid(id)) return undefined
  const row = await db
    .selectFrom('closings')
    .select('state')
    .where('client', '=', client)
    .where('id', '=', id)
    .executeTakeFirst()
  return row?.state
}

/** The closing, locked until the transaction ends. */
export async function lockClosing(
  trx: Trx,
  client: ClientName,
  id: string,
): Promise<ClosingRow | undefined> {
  return closings(trx, client).where('id', '=', id).forUpdate().executeTakeFirst()
}

function ofPlace(trx: Trx, { client, place }: ClosingPlace) {
  return closings(trx, client).where('place', '=', place)
}

/** The closing that the next one of its place follows. */
export async function findLastClosing(
  trx: Trx,
  place: ClosingPlace,
): Promise<ClosingRow | undefined> {
  return ofPlace(trx, place).orderBy('to_at', 'desc').limit(1).executeTakeFirst()
}

/** The closing that another one may come before. */
export async function findFirstClosing(
  trx: Trx,
  place: ClosingPlace,
): Promise<ClosingRow | undefined> {
  return ofPlace(trx, place).where('follows_at', 'is', null).executeTakeFirst()
}

/** The first closing of a place that ends after a moment. */
export async function findClosingEndingAfter(
  trx: Trx,
  place: ClosingPlace,
  at: Date,
): Promise<ClosingRow | undefined> {
  return ofPlace(trx, place)
    .where('to_at', '>', at)
    .orderBy('from_at')
    .orderBy('number')
    .limit(1)
    .executeTakeFirst()
}

/** The last closing of a place that was requested for this time, or covers it. */
export async function findRequestedClosing(
  trx: Trx,
  place: ClosingPlace,
  span: { from: Date; to: Date; until: Date },
): Promise<ClosingRow | undefined> {
  const { from, to, until } = span
  return ofPlace(trx, place)
    .where((eb) =>
      eb.or([
        eb.and([eb('requested_from', '=', from), eb('requested_to', '=', to)]),
        eb.and([eb('from_at', '=', from), eb('to_at', '=', until)]),
      ]),
    )
    .orderBy('to_at', 'desc')
    .orderBy('number', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Closings of a client, newest day first. */
export async function listClosings(
  db: Db,
  client: ClientName,
  filter: {
    cajaId?: string | undefined
    sucursalId?: string | undefined
    stores?: StoresSeen
    from: string | undefined
    to: string | undefined
    limit: number
    offset: number
  },
): Promise<{ rows: ClosingRow[]; total: number }> {
  let query = db.selectFrom('closings').where('client', '=', client).where(inStores(filter.stores))
  if (filter.cajaId !== undefined) query = query.where('caja_id', '=', filter.cajaId)
  if (filter.sucursalId !== undefined) query = query.where('sucursal_id', '=', filter.sucursalId)
  const day = (text: string) => sql<string>`${text}::date`
  if (filter.from !== undefined) query = query.where('business_day', '>=', day(filter.from))
  if (filter.to !== undefined) query = query.where('business_day', '<=', day(filter.to))
  const { total } = await query
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  const rows = await query
    .selectAll()
    .orderBy('closings.business_day', 'desc')
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(filter.limit)
    .offset(filter.offset)
    .execute()
  return { rows, total }
}

/** Closings of a client that are due for a check. */
export async function listDueClosings(
  db: Db,
  client: ClientName,
  now: Date,
): Promise<ClosingRow[]> {
  return closings(db, client)
    .where('next_check_at', '<=', now)
    .where('state', '<>', 'signed')
    .orderBy('next_check_at')
    .orderBy('id')
    .execute()
}

/** When the next closing is due for a check, of those that are not due yet. */
export async function findNextCheck(db: Db, now: Date): Promise<Date | undefined> {
  const row = await db
    .selectFrom('closings')
    .select('next_check_at')
    .where('next_check_at', '>', now)
    .orderBy('next_check_at')
    .limit(1)
    .executeTakeFirst()
  return row?.next_check_at ?? undefined
}

type ClosingChange = Partial<
  Pick<
    ClosingRow,
    'state' | 'result' | 'reason' | 'read_at' | 'to_at' | 'failures' | 'next_check_at'
  >
> & {
  totals?: ClosingTotals
  lines?: readonly ClosingLine[]
  declared?: Record<string, number>
}

/** Updates the state of a closing; a signed one stays unchanged. */
export async function updateClosing(
  db: Db | Trx,
  { client, id }: Pick<ClosingRow, 'client' | 'id'>,
  { totals, lines, declared, ...fields }: ClosingChange,
): Promise<boolean> {
  const result = await db
    .updateTable('closings')
    .set({
      ...fields,
      ...(totals && { totals: json(totals) }),
      ...(lines && { lines: json(lines) }),
      ...(declared && { declared: json(declared) }),
    })
    .where('client', '=', client)
    .where('id', '=', id)
    .where('state', '<>', 'signed')
    .executeTakeFirst()
  return result.numUpdatedRows === 1n
}

/**
 * Writes the result of a comparison, unless its input has changed since: the count, the span, or that the comparison is
 * still requested. Returns whether it was written.
 */
export async function finishComparison(
  trx: Trx,
  compared: Pick<ClosingRow, 'client' | 'id' | 'declared' | 'to_at'>,
  change: ClosingChange,
  at: Date,
): Promise<boolean> {
  const now = await lockClosing(trx, compared.client, compared.id)
  const isSame =
    now?.state === 'checking' &&
    now.to_at.getTime() === compared.to_at.getTime() &&
    isDeepStrictEqual(now.declared, compared.declared)
  if (!isSame || !(await updateClosing(trx, compared, change))) return false
  const { state } = change
  // While a charge is open the closing is compared again every minute.
  if (state !== undefined && change.next_check_at === null) {
    await insertClosingEvent(trx, 'closing.ready', now, { from: now.state, to: state }, at)
  }
  return true
}

/** Signs a closing that has a result, and returns this; undefined while it has none. */
export async function signClosing(
  trx: Trx,
  { client, id }: Pick<ClosingRow, 'client' | 'id'>,
  { at, by }: { at: Date; by: string | null },
): Promise<ClosingResult | undefined> {
  const signed = await trx
    .updateTable('closings')
    .set({
      state: 'signed',
      result: sql<ClosingResult>`state`,
      signed_at: at,
      signed_by: by,
      next_check_at: null,
    })
    .where('client', '=', client)
    .where('id', '=', id)
    .where('state', 'in', closingResults)
    .returningAll()
    .executeTakeFirst()
  if (!signed || signed.result === null) return undefined
  await insertClosingEvent(trx, 'closing.signed', signed, { from: signed.result, to: 'signed' }, at)
  return signed.result
}

/** Writes an event of a closing, whose row is locked. It is thin: a closing has a line for each charge. */
async function insertClosingEvent(
  trx: Trx,
  type: EventType,
  closing: ClosingRow,
  state: { from: string; to: string },
  at: Date,
): Promise<void> {
  await insertEvent(trx, {
    client: closing.client,
    sucursalId: closing.sucursal_id,
    cajaId: closing.caja_id,
    type,
    at,
    resource: { type: 'closing', id: closing.id, version: null },
    orderId: null,
    changes: { state },
    data: null,
  })
}

/** Makes closings due that have a result with this payment, and are not signed. */
export async function compareAgain(
  trx: Trx,
  payment: {
    client: ClientName
    caja_id: string | null
    sucursal_id: string | null
    sold_at: Date
  },
  now: Date,
): Promise<void> {
  const { client, caja_id: cajaId, sucursal_id: storeId, sold_at: soldAt } = payment
  await trx
    .updateTable('closings')
    .set({ next_check_at: now })
    .where('client', '=', client)
    .where('place', 'in', [`caja:${cajaId}`, `sucursal:${storeId}`])
    .where('from_at', '<=', soldAt)
    .where('to_at', '>', soldAt)
    .where('state', 'in', ['differs', 'unverified'])
    .execute()
}

/** Postpones closings that cannot be checked, since their clients are not connected. */
export async function markUnreachable(db: Db, now: Date, nextCheckAt: Date): Promise<void> {
  await sql`
    update closings set state = 'unverified', result = null, reason = 'not_connected', next_check_at = ${nextCheckAt}
    where next_check_at <= ${now} and state <> 'signed' and not exists (
      select from oauth_connections connection
      where connection.client = closings.client and connection.status = 'connected')`.execute(db)
}

/** Adds an amendment to a closing, with the next number of that closing. */
export async function insertAmendment(
  trx: Trx,
  amendment: Omit<AmendmentRow, 'number'>,
): Promise<AmendmentRow> {
  // One at a time: the row of the closing is locked until the amendment is written.
  await sql`select from closings where id = ${amendment.closing_id} and client = ${amendment.client}
    for update`.execute(trx)
  const last = await trx
    .selectFrom('closing_amendments')
    .select((eb) => eb.fn.max('number').as('number'))
    .where('client', '=', amendment.client)
    .where('closing_id', '=', amendment.closing_id)
    .executeTakeFirst()
  return trx
    .insertInto('closing_amendments')
    .values({
      ...amendment,
      number: (last?.number ?? 0) + 1,
      totals: json(amendment.totals),
      lines: json(amendment.lines),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function listAmendments(
  db: Db,
  client: ClientName,
  closingId: string,
): Promise<AmendmentRow[]> {
  return db
    .selectFrom('closing_amendments')
    .selectAll()
    .where('client', '=', client)
    .where('closing_id', '=', closingId)
    .orderBy('number')
    .execute()
}

/** The country of an account, if it is known. */
export async function findSite(
  db: Db | Trx,
  mpUserId: number,
): Promise<{ site_id: string | null } | undefined> {
  return db
    .selectFrom('account_sites')
    .select('site_id')
    .where('mp_user_id', '=', mpUserId)
    .executeTakeFirst()
}

export async function keepSite(
  db: Db,
  site: { mpUserId: number; siteId: string | null; at: Date },
): Promise<void> {
  await db
    .insertInto('account_sites')
    .values({ mp_user_id: site.mpUserId, site_id: site.siteId, read_at: site.at })
    .onConflict((conflict) =>
      conflict.column('mp_user_id').doUpdateSet({ site_id: site.siteId, read_at: site.at }),
    )
    .execute()
}

/** The places of the shops of a client, or of all clients: the time zone of a store, and the country of its account. */
export async function listShopPlaces(
  db: Db,
  client: ClientName | null,
): Promise<{ time_zone: string | null; mp_user_id: number | null; site_id: string | null }[]> {
  return db
    .selectFrom('clients')
    .leftJoin('stores', 'stores.client', 'clients.name')
    .leftJoin('account_sites', 'account_sites.mp_user_id', 'clients.mp_user_id')
    .select(['stores.time_zone', 'account_sites.mp_user_id', 'account_sites.site_id'])
    .distinct()
    .where('clients.mp_user_id', 'is not', null)
    .$if(client !== null, (query) => query.where('clients.name', '=', client as ClientName))
    .execute()
}
