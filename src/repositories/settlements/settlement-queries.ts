import { type Insertable, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { SettlementFilesTable, SettlementRowsTable } from '../../db/tables.ts'
import type { ClientName } from '../../domain/client-name.ts'
import type { Payment } from '../../domain/order.ts'
import {
  type ListPage,
  type PageRequest,
  partByTime,
  type TimeCursor,
  toListPage,
} from '../list-page.ts'

export type SettlementRow = Selectable<SettlementRowsTable>
export type SettlementFileRow = Selectable<SettlementFilesTable>

/** Serializes the reading of a client's reports, so that the same movement is not stored twice. */
export async function lockReportsOf(trx: Trx, client: ClientName): Promise<void> {
  await trx
    .selectFrom('clients')
    .select('name')
    .where('name', '=', client)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** Stored movements of a client with these sources, of one kind of report, that this reading has not marked yet. */
export async function findSettlementRows(
  trx: Trx,
  client: ClientName,
  report: SettlementRow['report'],
  { sourceIds, reading }: { sourceIds: readonly string[]; reading: string },
): Promise<SettlementRow[]> {
  if (sourceIds.length === 0) return []
  return trx
    .selectFrom('settlement_rows')
    .selectAll()
    .where('client', '=', client)
    .where('report', '=', report)
    .where('source_id', 'in', [...sourceIds])
    .where('seen_in', '<>', reading)
    .orderBy('at')
    .orderBy('id')
    .execute()
}

const columns =
  sql.raw(`id uuid, client text, report text, source_id text, type text, detail text, at timestamptz,
  order_id uuid, mp_order_id text, external_reference text, gross_cents bigint, fee_cents bigint, financing_cents bigint,
  taxes_cents bigint, taxes jsonb, net_cents bigint, release_on text, is_released boolean, installments integer,
  others jsonb, seen_in uuid, created_at timestamptz, last_updated_at timestamptz`)

export async function insertSettlementRows(
  trx: Trx,
  rows: readonly SettlementRow[],
): Promise<void> {
  if (rows.length === 0) return
  await sql`
    insert into settlement_rows select one.*
    from jsonb_to_recordset(${json(rows)}::jsonb) as one (${columns})`.execute(trx)
}

/** Updates known movements from a later reading. */
export async function updateSettlementRows(
  trx: Trx,
  rows: readonly SettlementRow[],
): Promise<void> {
  if (rows.length === 0) return
  await sql`
    update settlement_rows set detail = one.detail, at = one.at, order_id = one.order_id, mp_order_id = one.mp_order_id,
      external_reference = one.external_reference, gross_cents = one.gross_cents, fee_cents = one.fee_cents,
      financing_cents = one.financing_cents, taxes_cents = one.taxes_cents, taxes = one.taxes, net_cents = one.net_cents,
      release_on = one.release_on, is_released = one.is_released, installments = one.installments, others = one.others,
      last_updated_at = one.last_updated_at
    from jsonb_to_recordset(${json(rows)}::jsonb) as one (${columns})
    where settlement_rows.id = one.id`.execute(trx)
}

/** Marks these movements as seen by a reading. */
export async function markSeen(trx: Trx, ids: readonly string[], reading: string): Promise<void> {
  if (ids.length === 0) return
  await trx
    .updateTable('settlement_rows')
    .set({ seen_in: reading })
    .where('id', 'in', [...ids])
    .execute()
}

type OrderOfReport = {
  id: string
  mp_order_id: string | null
  mp_external_reference: string
  payments: Payment[]
}

/** Orders of a client that a report may name, by the provider's id or by the reference sent to the provider. */
export async function findOrdersOfReport(
  trx: Trx,
  client: ClientName,
  by: { mpOrderIds: readonly string[]; references: readonly string[] },
): Promise<OrderOfReport[]> {
  if (by.mpOrderIds.length + by.references.length === 0) return []
  return trx
    .selectFrom('orders')
    .select(['id', 'mp_order_id', 'mp_external_reference', 'payments'])
    .where('client', '=', client)
    .where((eb) =>
      eb.or([
        ...(by.mpOrderIds.length > 0 ? [eb('mp_order_id', 'in', [...by.mpOrderIds])] : []),
        ...(by.references.length > 0
          ? [eb('mp_external_reference', 'in', [...by.references])]
          : []),
      ]),
    )
    .execute()
}

/** Whether a file with this content was read before, completely. */
export async function isFileKnown(
  db: Db,
  { client, report, digest }: Pick<SettlementFileRow, 'client' | 'report' | 'digest'>,
): Promise<boolean> {
  const file = await db
    .selectFrom('settlement_files')
    .select('id')
    .where('client', '=', client)
    .where('report', '=', report)
    .where('digest', '=', digest)
    .executeTakeFirst()
  return file !== undefined
}

/** Stores that a report was read. One with the same content counts as read again. Returns its row. */
export async function keepSettlementFile(
  trx: Trx,
  file: Insertable<SettlementFilesTable>,
): Promise<SettlementFileRow> {
  return trx
    .insertInto('settlement_files')
    .values(file)
    .onConflict((conflict) =>
      conflict.columns(['client', 'report', 'digest']).doUpdateSet((eb) => ({
        readings: eb('settlement_files.readings', '+', 1),
        last_read_at: eb.ref('excluded.last_read_at'),
      })),
    )
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Reports that were read for a client, newest first. */
export async function listSettlementFiles(
  db: Db,
  client: ClientName,
  pageRequest: PageRequest<TimeCursor>,
): Promise<ListPage<SettlementFileRow>> {
  const query = db.selectFrom('settlement_files').where('client', '=', client)
  const rows = await partByTime(query, 'created_at', pageRequest).selectAll().execute()
  return toListPage(db, 'settlement_files', query, rows, pageRequest)
}

/** Movements that were stored or changed after this position, in the order of their changes. */
export async function listChangedSettlements(
  db: Db,
  query: {
    client?: ClientName | undefined
    after: { at: Date; id: string } | null
    limit: number
  },
): Promise<SettlementRow[]> {
  const { client, after } = query
  let rows = db.selectFrom('settlement_rows').selectAll()
  if (client !== undefined) rows = rows.where('client', '=', client)
  if (after) {
    rows = rows.where((eb) =>
      eb(eb.refTuple('last_updated_at', 'id'), '>', eb.tuple(after.at, after.id)),
    )
  }
  return rows.orderBy('last_updated_at').orderBy('id').limit(query.limit).execute()
}
