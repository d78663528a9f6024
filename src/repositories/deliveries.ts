import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../db/database.ts'
import type { DeliveriesTable } from '../db/tables.ts'

export type DeliveryRow = Selectable<DeliveriesTable>

/** The destination that something is owed to. */
export type DeliveryTarget = { flow: string; destination: string }

export type DeliveryChange = DeliveryTarget & {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  payload: Record<string, unknown>
}

/** As many rows as one statement takes; its locks are taken in key order, as everywhere else. */
const rowsAtOnce = 1_000

/**
 * What changed at the source becomes owed: a new row, or the next version of the one there is, whatever became of the
 * last. Attempts start afresh and a pause between attempts ends. A row that still waits keeps its age. Keys are distinct
 * within a target.
 */
export async function recordChanges(
  trx: Trx,
  changes: readonly DeliveryChange[],
  at: Date,
): Promise<void> {
  for (let from = 0; from < changes.length; from += rowsAtOnce) {
    const batch = json(changes.slice(from, from + rowsAtOnce))
    await sql`
      insert into deliveries
        (flow, destination, pk, version, kind, hash, payload, state, attempts, queued_at)
      select flow, destination, pk, 1, kind, hash, payload, 'waiting', 0, ${at}
      from jsonb_to_recordset(${batch}::jsonb)
        as change (flow text, destination text, pk text, kind text, hash text, payload jsonb)
      order by flow, destination, pk
      on conflict (flow, destination, pk) do update set
        version = deliveries.version + 1,
        kind = excluded.kind,
        hash = excluded.hash,
        payload = excluded.payload,
        queued_at = case deliveries.state
          when 'waiting' then deliveries.queued_at else excluded.queued_at end,
        state = 'waiting',
        attempts = 0,
        last_error = null,
        last_status = null,
        not_before = null,
        finished_at = null`.execute(trx)
  }
}

export type OwedRow = Pick<
  DeliveryRow,
  'pk' | 'version' | 'kind' | 'hash' | 'payload' | 'state' | 'attempts'
>

export async function findDeliveries(
  db: Db,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<OwedRow[]> {
  return db
    .selectFrom('deliveries')
    .select(['pk', 'version', 'kind', 'hash', 'payload', 'state', 'attempts'])
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .execute()
}

/** Locks the rows in key order until the transaction ends, so that nobody changes what is being settled. */
export async function lockDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<Pick<DeliveryRow, 'pk' | 'version' | 'state'>[]> {
  return trx
    .selectFrom('deliveries')
    .select(['pk', 'version', 'state'])
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
    .orderBy('pk')
    .forUpdate()
    .execute()
}

/** For rows whose current version was delivered. The item itself is not kept any longer. */
export async function markDelivered(
  trx: Trx,
  target: DeliveryTarget,
  pks: readonly string[],
  at: Date,
): Promise<void> {
  await updateRows(trx, target, pks)
    .set((eb) => ({
      state: 'done',
      delivered_hash: eb.ref('hash'),
      delivered_at: at,
      finished_at: at,
      payload: null,
      last_error: null,
      last_status: null,
      not_before: null,
    }))
    .execute()
}

/** An older version arrived; the row still waits with a newer one. */
export async function markOlderDelivered(
  trx: Trx,
  target: DeliveryTarget,
  pk: string,
  delivered: { hash: string; at: Date },
): Promise<void> {
  await updateRows(trx, target, [pk])
    .set({ delivered_hash: delivered.hash, delivered_at: delivered.at })
    .execute()
}

/** The attempts so far failed; another follows at `notBefore`. */
export async function markRetrying(
  trx: Trx,
  target: DeliveryTarget,
  pk: string,
  failure: { attempts: number; error: string; status: number | null; notBefore: Date },
): Promise<void> {
  await updateRows(trx, target, [pk])
    .set({
      attempts: failure.attempts,
      last_error: failure.error,
      last_status: failure.status,
      not_before: failure.notBefore,
    })
    .execute()
}

/** No attempt was made; the next is not before the given time. */
export async function markPostponed(
  trx: Trx,
  target: DeliveryTarget,
  pk: string,
  notBefore: Date,
): Promise<void> {
  await updateRows(trx, target, [pk]).set({ not_before: notBefore }).execute()
}

/** No further attempt follows by itself. The item is kept for a retry by hand. */
export async function markFailed(
  trx: Trx,
  target: DeliveryTarget,
  pk: string,
  failure: { attempts: number; error: string; status: number | null; at: Date },
): Promise<void> {
  await updateRows(trx, target, [pk])
    .set({
      state: 'failed',
      attempts: failure.attempts,
      last_error: failure.error,
      last_status: failure.status,
      not_before: null,
      finished_at: failure.at,
    })
    .execute()
}

function updateRows(trx: Trx, { flow, destination }: DeliveryTarget, pks: readonly string[]) {
  return trx
    .updateTable('deliveries')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where(sql<boolean>`pk = any(${pks}::text[])`)
}
