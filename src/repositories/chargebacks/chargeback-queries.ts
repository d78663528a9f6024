import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { ChargebacksTable } from '../../db/tables.ts'
import { type ChargebackState, documentsWanted } from '../../domain/chargeback.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { chargedBack } from '../../domain/order-state.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import { isUuid } from '../../domain/uuid.ts'
import { inStores } from '../stores/store-filter.ts'

export type ChargebackRow = Selectable<ChargebacksTable>

/** The provider has not decided the charge-back. */
export const isUndecidedChargeback = sql<boolean>`(state in ('open', 'unknown'))`

/** By our id, or by the provider's number of the case. */
export async function findChargebackAnyhow(
  db: Db,
  client: ClientName,
  id: string,
): Promise<ChargebackRow | undefined> {
  const query = db.selectFrom('chargebacks').selectAll().where('client', '=', client)
  const one = isUuid(id) ? query.where('id', '=', id) : query.where('case_id', '=', id)
  return one.executeTakeFirst()
}

/**
 * All rows of a payment, with and without a case, and that of a case which may have been found by another payment. The payment and
 * the case are locked: one process at a time adds a row to it.
 */
export async function lockChargebacksOf(
  trx: Trx,
  client: ClientName,
  paymentId: string,
  caseId?: string,
): Promise<ChargebackRow[]> {
  await trx
    .selectFrom('provider_payments')
    .select('payment_id')
    .where('client', '=', client)
    .where('payment_id', '=', paymentId)
    .forNoKeyUpdate()
    .execute()
  return trx
    .selectFrom('chargebacks')
    .selectAll()
    .where('client', '=', client)
    .where((eb) =>
      eb.or([
        namesPayment(sql.val(paymentId)),
        ...(caseId === undefined ? [] : [eb('case_id', '=', caseId)]),
      ]),
    )
    .orderBy('id')
    .forUpdate()
    .execute()
}

/** Whether a row is of this payment, or of a case that names it. */
function namesPayment(paymentId: RawBuilder<unknown>): RawBuilder<boolean> {
  return sql<boolean>`(chargebacks.payment_id = ${paymentId} or jsonb_exists(chargebacks.payment_ids, ${paymentId}))`
}

/** Deletes the row of a payment whose case was not known. */
export async function deleteChargebackWithoutCase(
  trx: Trx,
  client: ClientName,
  paymentId: string,
): Promise<void> {
  await trx
    .deleteFrom('chargebacks')
    .where('client', '=', client)
    .where('payment_id', '=', paymentId)
    .where('case_id', 'is', null)
    .execute()
}

/** Adds a row. Returns whether it was the first of its case, or of its payment if it names no case. */
export async function insertChargeback(trx: Trx, row: ChargebackRow): Promise<boolean> {
  const result = await trx
    .insertInto('chargebacks')
    .values({ ...row, payment_ids: json(row.payment_ids) })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function updateChargeback(
  db: Db | Trx,
  { client, id }: Pick<ChargebackRow, 'client' | 'id'>,
  change: Partial<ChargebackRow>,
): Promise<void> {
  const { id: _, client: _client, mp_user_id: _account, found_at: _found, ...set } = change
  const { payment_ids: numbers, ...rest } = set
  await db
    .updateTable('chargebacks')
    .set({ ...rest, ...(numbers && { payment_ids: json(numbers) }) })
    .where('client', '=', client)
    .where('id', '=', id)
    .execute()
}

/** Clients of an account that have this case. */
export async function findClientsOfCase(db: Db, caseId: string): Promise<ClientName[]> {
  const rows = await db
    .selectFrom('chargebacks')
    .select('client')
    .where('case_id', '=', caseId)
    .orderBy('client')
    .execute()
  return rows.map(({ client }) => client)
}

/** Cases of a client that are due to be read again, the longest due first. */
export async function listDueChargebacks(
  db: Db,
  client: ClientName,
  now: Date,
  limit: number,
): Promise<ChargebackRow[]> {
  return db
    .selectFrom('chargebacks')
    .selectAll()
    .where('client', '=', client)
    .where('next_read_at', '<=', now)
    .orderBy('next_read_at')
    .limit(limit)
    .execute()
}

/** Payments of a client that the provider shows as charged back, but without a known case. */
export async function listChargedBackPayments(
  db: Db,
  client: ClientName,
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('provider_payments')
    .select('payment_id')
    .where('client', '=', client)
    .where('status', '=', chargedBack)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('chargebacks')
            .select('chargebacks.id')
            .whereRef('chargebacks.client', '=', 'provider_payments.client')
            .where(namesPayment(sql.ref('provider_payments.payment_id'))),
        ),
      ),
    )
    .orderBy('payment_id')
    .limit(limit)
    .execute()
  return rows.map(({ payment_id }) => payment_id)
}

export async function listChargebacks(
  db: Db,
  filter: {
    client: ClientName | undefined
    state?: ChargebackState | undefined
    cajaId?: string | undefined
    stores?: StoresSeen
    limit: number
    offset: number
  },
): Promise<{ rows: ChargebackRow[]; total: number }> {
  let query = db.selectFrom('chargebacks').where(inStores(filter.stores))
  if (filter.client !== undefined) query = query.where('client', '=', filter.client)
  if (filter.state !== undefined) query = query.where('state', '=', filter.state)
  if (filter.cajaId !== undefined) query = query.where('caja_id', '=', filter.cajaId)
  const { total } = await query.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()
  const rows = await query
    .selectAll()
    .orderBy('found_at', 'desc')
    .orderBy('id')
    .limit(filter.limit)
    .offset(filter.offset)
    .execute()
  return { rows, total }
}

/** Cases that are not decided, of a client or of all, and until when the next of them waits for documents. */
export async function countChargebacks(
  db: Db,
  { client, stores }: { client: ClientName | undefined; stores: StoresSeen },
  now: Date,
): Promise<{ undecided: number; documentsDueAt: Date | null }> {
  let query = db.selectFrom('chargebacks').where(isUndecidedChargeback).where(inStores(stores))
  if (client !== undefined) query = query.where('client', '=', client)
  return query
    .select((eb) => [
      eb.fn.countAll<number>().as('undecided'),
      eb.fn
        .min<Date | null>('documents_due_at')
        .filterWhere('documentation_status', '=', documentsWanted)
        .filterWhere('documents_due_at', '>', now)
        .as('documentsDueAt'),
    ])
    .executeTakeFirstOrThrow()
}

/**
 * Takes the cases without a notification, once the first has waited until `before`. Their notification includes a
 * decision, and a deadline before `dueUntil`, so these need none of their own.
 */
export async function takeNewChargebacks(
  trx: Trx,
  now: Date,
  { before, dueUntil }: { before: Date; dueUntil: Date },
): Promise<ChargebackRow[]> {
  return trx
    .updateTable('chargebacks')
    .set({
      told_at: now,
      end_told_at: sql`case when state in ('won', 'lost') then ${now}::timestamptz end`,
      deadline_told_at: sql`case when documents_due_at <= ${dueUntil} then ${now}::timestamptz end`,
    })
    .where('told_at', 'is', null)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('chargebacks as first')
          .select('first.id')
          .where('first.told_at', 'is', null)
          .where('first.found_at', '<=', before),
      ),
    )
    .returningAll()
    .execute()
}

/** Takes the cases with a notification whose documents are due before `until`, each once for each deadline. */
export async function takeDueDocuments(trx: Trx, now: Date, until: Date): Promise<ChargebackRow[]> {
  return trx
    .updateTable('chargebacks')
    .set({ deadline_told_at: now })
    .where(isUndecidedChargeback)
    .where('documentation_status', '=', documentsWanted)
    .where('documents_due_at', '>', now)
    .where('documents_due_at', '<=', until)
    .where('deadline_told_at', 'is', null)
    .where('told_at', 'is not', null)
    .returningAll()
    .execute()
}

/** Takes the cases that were decided `before` or earlier, each decision once. */
export async function takeDecidedChargebacks(
  trx: Trx,
  now: Date,
  before: Date,
): Promise<ChargebackRow[]> {
  return trx
    .updateTable('chargebacks')
    .set({ end_told_at: now })
    .where('state', 'in', ['won', 'lost'])
    .where('end_told_at', 'is', null)
    .where('decided_at', '<=', before)
    .returningAll()
    .execute()
}
