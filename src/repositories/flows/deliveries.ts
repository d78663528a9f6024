import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { DeliveriesTable } from '../../db/tables.ts'
import type { DeliveryTarget } from './delivery-target.ts'
import { keepFirstVersions, keepVersions } from './item-versions.ts'

export type DeliveryRow = Selectable<DeliveriesTable>

/**
 * A destination with its identity (see definition/identity.ts) and the form of what it is sent (definition-hash.ts). Without
 * them it counts as the destination on record.
 */
export type SendTarget = DeliveryTarget & { accepted?: { identity: string; form: string } }

/**
 * True if the stored deliveries belong to another destination, or would be sent by a definition that is not accepted, or some
 * still wait for an answer about another one: nothing may be sent before that.
 */
export function needsApproval({ flow, destination, accepted }: SendTarget): RawBuilder<boolean> {
  if (!accepted) return sql<boolean>`false`
  const { identity, form } = accepted
  return sql<boolean>`exists (
    select from flow_state where flow_state.flow = ${flow}::text
      and (destination_identities->>${destination}::text <> ${identity}::text
        or destination_forms->>${destination}::text <> ${form}::text
        or (question is not null and exists (
          select from deliveries as one
          where one.flow = ${flow}::text and one.destination = ${destination}::text and one.asked is not null))))`
}

export async function findNeedsApproval(db: Db, target: SendTarget): Promise<boolean> {
  const { rows } = await sql<{
    needsApproval: boolean
  }>`select ${needsApproval(target)} as "needsApproval"`.execute(db)
  return rows[0]?.needsApproval ?? false
}

/** A change of an item that a read found. */
export type DeliveryChange = {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  value: Record<string, unknown>
  /** The number of the read that found it. */
  change: number
  /** True: the change is sent even if the destination has the same body, as after a reset. */
  isForced?: boolean
}

/** Earlier than every time, so that no clock delays the row. */
const atOnce = sql<Date>`'-infinity'`
const dueIn = (delayMs: number) =>
  delayMs > 0 ? sql<Date>`now() + ${delayMs} * interval '1 millisecond'` : atOnce

/** Rows per statement. Each statement locks its rows in key order, as all others do. */
const rowsAtOnce = 1_000

/** Equal to no body: whatever the item is, it is sent. It stays until the current version has arrived. */
export const noBody = ''

/** An existing row becomes the next version of the item. */
const nextVersion = sql`
  on conflict (flow, destination, pk) do update set
    version = deliveries.version + 1,
    change_number = excluded.change_number,
    kind = excluded.kind,
    hash = excluded.hash,
    payload = excluded.payload,
    delivered_digest = case when excluded.delivered_digest is not null or deliveries.asked is not null
      then ${sql.lit(noBody)} else deliveries.delivered_digest end,
    asked = null,
    queued_at = case deliveries.state
      when 'waiting' then deliveries.queued_at else excluded.queued_at end,
    state = 'waiting',
    attempts = 0,
    last_error = null,
    last_status = null,
    why = null,
    not_before = null,
    due_at = '-infinity',
    finished_at = null,
    skipped = null`

/** Where changes are recorded. `keepsHistory` also stores the content of the items, once for all destinations. */
type Recording = {
  flow: string
  destinations: readonly string[]
  keepsHistory: boolean
}

/**
 * Queues changes of the source for these destinations: as a new row, or as the next version of an existing one.
 * Attempts start at 0 and a pause between attempts ends. A row that still waits keeps its `queued_at`. Keys must be
 * distinct.
 */
export async function recordChanges(
  trx: Trx,
  { flow, destinations, keepsHistory }: Recording,
  changes: readonly DeliveryChange[],
  at: Date,
): Promise<void> {
  for (const found of partsOf(changes)) {
    const insert = sql`${insertFound(flow, destinations, at)} ${nextVersion}`
    await sql`
      with ${found} ${keepsHistory ? sql`, queued as (${insert}) ${keepVersions(flow, at)}` : insert}`.execute(
      trx,
    )
  }
}

/**
 * Like recordChanges, for items without any stored row; also stores their hashes. Without lookups a first poll takes
 * a third less time. Rejects if a row exists after all.
 */
export async function recordNewItems(
  trx: Trx,
  { flow, destinations, keepsHistory }: Recording,
  changes: readonly DeliveryChange[],
  at: Date,
): Promise<void> {
  for (const found of partsOf(changes)) {
    const keep = sql`, kept as (${keepFirstVersions(flow, at)})`
    await sql`
      with ${found}, stored as (
        insert into flow_items (flow, pk, hash, changed_at, read_number)
        select ${flow}, pk, hash, ${at}::timestamptz, change from found
      ) ${keepsHistory ? keep : sql``}
      ${insertFound(flow, destinations, at)}`.execute(trx)
  }
}

/**
 * The CTE that reads changes in key order. One statement sends and parses the changes once. They travel as lists,
 * because field names would add a fifth to the size.
 */
function* partsOf(changes: readonly DeliveryChange[]): Generator<RawBuilder<unknown>> {
  // Several parts need the order among them too. The statement itself orders a single part.
  const isOnePart = changes.length <= rowsAtOnce
  const ordered = isOnePart ? changes : changes.toSorted((a, b) => (a.pk < b.pk ? -1 : 1))
  for (let from = 0; from < ordered.length; from += rowsAtOnce) {
    const lists = ordered
      .slice(from, from + rowsAtOnce)
      .map(({ pk, kind, change, hash, value, isForced }) => [
        ...[pk, kind, change, hash, value],
        isForced ? noBody : null,
      ])
    yield sql`found as materialized (
        select one->>0 as pk, one->>1 as kind, (one->>2)::bigint as change, one->>3 as hash,
          one->4 as payload, one->>5 as body
        from jsonb_array_elements(${json(lists)}::jsonb) as one
        order by pk
      )`
  }
}

/** The part of a statement that inserts deliveries for what was found. */
function insertFound(flow: string, destinations: readonly string[], at: Date): RawBuilder<unknown> {
  return sql`
    insert into deliveries
      (flow, destination, pk, version, change_number, kind, hash, payload, delivered_digest, state, attempts,
        queued_at, may_have_arrived)
    select ${flow}, destination.name, pk, 1, change, kind, hash, payload, body, 'waiting', 0, ${at},
      false
    from unnest(${destinations}::text[]) as destination (name) cross join found
    ${destinations.length > 1 ? sql`order by destination.name, pk` : sql``}`
}

const pendingColumns = [
  'pk',
  'version',
  'queued_at',
  'change_number',
  'kind',
  'hash',
  'payload',
  'state',
  'attempts',
  'delivered_hash',
  'delivered_digest',
  'delivered_body',
  'claim_exact',
  'may_have_arrived',
  'asked',
  'remembered',
] as const

export type PendingDelivery = Pick<DeliveryRow, (typeof pendingColumns)[number]>

/** The hash of an item that is to be deleted, or was deleted. */
export const deletedHash = 'deleted'

/** mayBeThere, of a row. */
export const isThere = sql<boolean>`(may_have_arrived
  or (delivered_hash is not null and delivered_hash <> ${sql.lit(deletedHash)}))`

/** Whether the destination may have the item: it was delivered, or an attempt had no answer. */
export function mayBeThere(
  row: Pick<PendingDelivery, 'delivered_hash' | 'may_have_arrived'>,
): boolean {
  const { delivered_hash: delivered } = row
  return row.may_have_arrived || (delivered !== null && delivered !== deletedHash)
}

/** `needsApproval`: nothing may be sent to the destination now. */
export async function findDeliveries(
  db: Db,
  target: SendTarget,
  pks: readonly string[],
): Promise<(PendingDelivery & { needsApproval: boolean })[]> {
  return db
    .selectFrom('deliveries')
    .select(pendingColumns)
    .select(needsApproval(target).as('needsApproval'))
    .where(isOneOf(target, pks))
    .execute()
}

/**
 * Looks up each key by itself. Without statistics the planner reads all rows of a destination for each group of keys:
 * 10 times slower at 10,000 rows. A writing statement must have locked the rows before, because an update moves a
 * row.
 */
function isOneOf({ flow, destination }: DeliveryTarget, pks: readonly string[]) {
  return sql<boolean>`deliveries.ctid = any (array(
    select found.ctid from unnest(${pks}::text[]) as wanted (pk) cross join lateral (
      select ctid from deliveries
      where (flow, destination, pk) = (${flow}, ${destination}, wanted.pk)
      limit 1
    ) as found))`
}

/** Locks the rows in key order until the transaction ends. A key may be missing. */
export async function lockDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<PendingDelivery[]> {
  const columns = sql.join(pendingColumns.map((column) => sql.ref(column)))
  const { rows } = await sql<PendingDelivery>`
    select row.* from (select pk from unnest(${pks}::text[]) as given (pk) order by pk) as wanted
    cross join lateral (
      select ${columns} from deliveries
      where (flow, destination, pk) = (${flow}, ${destination}, wanted.pk)
      limit 1
      for update
    ) as row`.execute(trx)
  return rows
}

/**
 * Queues a row again as a change of its own. An attempt that runs now then counts for an older version. A receiver
 * that remembers idempotency keys gets a new key.
 */
export async function requeueDelivery(
  trx: Trx,
  target: DeliveryTarget,
  { pk, payload, at }: { pk: string; payload: Record<string, unknown>; at: Date },
): Promise<void> {
  await trx
    .updateTable('deliveries')
    .where(isOneOf(target, [pk]))
    .set((eb) => ({
      version: eb('version', '+', 1),
      change_number: sql<number>`nextval('flow_reads')`,
      payload: json(payload),
      queued_at: sql<Date>`case state when 'waiting' then queued_at else ${at} end`,
      state: 'waiting',
      attempts: 0,
      last_error: null,
      last_status: null,
      why: null,
      not_before: null,
      due_at: atOnce,
      finished_at: null,
      skipped: null,
    }))
    .execute()
}

/** Delays waiting deliveries by the database's clock, without counting an attempt. */
export async function delayDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
  delayMs: number,
): Promise<void> {
  await sql`
    with locked as materialized (
      select ctid as place from deliveries
      where flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])
        and state = 'waiting'
      order by pk
      for update
    )
    update deliveries set due_at = ${dueIn(delayMs)}
    where ctid = any (array(select place from locked))`.execute(trx)
}

/**
 * Deletes rows of `deliveries`. What is remembered of an item is kept, in case it returns: its row becomes that of an item
 * that was deleted there.
 */
export function deleteRows(condition: RawBuilder<boolean>): RawBuilder<object> {
  return sql`
    with emptied as (
      update deliveries set
        kind = 'delete', hash = ${deletedHash}, version = version + 1, state = 'done', payload = null, attempts = 0,
        delivered_hash = ${deletedHash}, delivered_digest = null, delivered_body = null, claim = null,
        claim_exact = null, asked = null, may_have_arrived = false, last_error = null, last_status = null, why = null,
        not_before = null, due_at = ${atOnce}, skipped = null, finished_at = coalesce(finished_at, queued_at)
      where ${condition} and remembered is not null
    )
    delete from deliveries where ${condition} and remembered is null`
}

/** Forgets the deliveries of these items. */
export async function forgetDeliveries(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pks: readonly string[],
): Promise<void> {
  await deleteRows(
    sql<boolean>`flow = ${flow} and destination = ${destination} and pk = any(${pks}::text[])`,
  ).execute(trx)
}

/** Whether a record says that the destination has an item, or may have one. */
export async function hasDelivered(
  db: Db | Trx,
  { flow, destination }: DeliveryTarget,
): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (
      select from deliveries where flow = ${flow} and destination = ${destination}
        and (delivered_hash is not null or may_have_arrived or remembered is not null)
    ) as found`.execute(db)
  return rows[0]?.found ?? false
}
