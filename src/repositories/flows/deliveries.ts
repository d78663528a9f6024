import { type RawBuilder, type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { DeliveriesTable } from '../../db/tables.ts'
import { type LeaseToken, leaseCondition } from '../leases.ts'
import { addsCompleted } from './flow-totals.ts'
import { keepFirstVersions, keepVersions } from './item-versions.ts'

export type DeliveryRow = Selectable<DeliveriesTable>

/** The destination that something is owed to. */
export type DeliveryTarget = { flow: string; destination: string }

/** A destination with what it is; see definition/identity.ts. Without that it counts as the one that is on record. */
export type SendTarget = DeliveryTarget & { identity?: string | undefined }

/** Whether nothing may be sent to it now: its deliveries on record are another destination's. */
export function isHeld({ flow, destination, identity }: SendTarget): RawBuilder<boolean> {
  if (identity === undefined) return sql<boolean>`false`
  return sql<boolean>`exists (
    select from flow_state where flow_state.flow = ${flow}::text
      and destination_identities->>${destination}::text <> ${identity}::text)`
}

export async function findHeld(db: Db, target: SendTarget): Promise<boolean> {
  const { rows } = await sql<{ held: boolean }>`select ${isHeld(target)} as held`.execute(db)
  return rows[0]?.held ?? false
}

/** What a read has found of an item. */
export type DeliveryChange = {
  pk: string
  kind: 'upsert' | 'delete'
  hash: string
  value: Record<string, unknown>
  /** The number of the read that found it. */
  change: number
  /** It is sent even if the destination has the same body, as after a reset. */
  isAnew?: boolean
}

/** Before every time: no clock holds it back. */
const atOnce = sql<Date>`'-infinity'`
const dueIn = (delayMs: number) =>
  delayMs > 0 ? sql<Date>`now() + ${delayMs} * interval '1 millisecond'` : atOnce

/** As many rows as one statement takes; its locks are taken in key order, as everywhere else. */
const rowsAtOnce = 1_000

/** Is no body's: nothing counts as delivered. */
const anew = ''

/** What there is becomes the next version of itself. */
const renewed = sql`
  on conflict (flow, destination, pk) do update set
    version = deliveries.version + 1,
    change_number = excluded.change_number,
    kind = excluded.kind,
    hash = excluded.hash,
    payload = excluded.payload,
    delivered_body = case when excluded.delivered_body is null then deliveries.delivered_body end,
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

/**
 * Whom changes are recorded for. With `keepsHistory` it is also written down what the items look like now, once for all. Of an
 * item without a row the `filled` destinations have nothing; of the others that is not known.
 */
export type Recording = {
  flow: string
  destinations: readonly string[]
  keepsHistory: boolean
  filled?: readonly string[]
}

/**
 * What changed at the source becomes owed to these destinations: a new row, or the next version of the one there is, whatever
 * became of the last. Attempts start afresh and a pause between attempts ends. A row that still waits keeps its age. Keys are
 * distinct.
 */
export async function recordChanges(
  trx: Trx,
  { flow, destinations, keepsHistory, filled = [] }: Recording,
  changes: readonly DeliveryChange[],
  at: Date,
): Promise<void> {
  for (const found of partsOf(changes)) {
    const owe = sql`${oweFound(flow, destinations, at, filled)} ${renewed}`
    await sql`
      with ${found} ${keepsHistory ? sql`, owed as (${owe}) ${keepVersions(flow, at)}` : owe}`.execute(
      trx,
    )
  }
}

/**
 * As recordChanges, of items of which nothing is on record, and their hashes are stored too: not to look for what cannot be
 * there saves a third of what a first poll costs. Rejects where something is on record after all.
 */
export async function recordNews(
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
      ${oweFound(flow, destinations, at)}`.execute(trx)
  }
}

/**
 * The part of a statement that reads changes, in the order of their keys. One statement then writes all that follows from them: they
 * are sent to the server, and read there, once. As lists, since the names of their fields would be a fifth of that.
 */
function* partsOf(changes: readonly DeliveryChange[]): Generator<RawBuilder<unknown>> {
  // One part after the other in order too. Of a single one the statement sees to that.
  const isOnePart = changes.length <= rowsAtOnce
  const ordered = isOnePart ? changes : changes.toSorted((a, b) => (a.pk < b.pk ? -1 : 1))
  for (let from = 0; from < ordered.length; from += rowsAtOnce) {
    const lists = ordered
      .slice(from, from + rowsAtOnce)
      .map(({ pk, kind, change, hash, value, isAnew }) => [
        ...[pk, kind, change, hash, value],
        isAnew ? anew : null,
      ])
    yield sql`found as materialized (
        select one->>0 as pk, one->>1 as kind, (one->>2)::bigint as change, one->>3 as hash,
          one->4 as payload, one->>5 as body
        from jsonb_array_elements(${json(lists)}::jsonb) as one
        order by pk
      )`
  }
}

/** The part of a statement that owes what was found. */
function oweFound(
  flow: string,
  destinations: readonly string[],
  at: Date,
  filled: readonly string[] = [],
): RawBuilder<unknown> {
  return sql`
    insert into deliveries
      (flow, destination, pk, version, change_number, kind, hash, payload, delivered_body, state, attempts,
        queued_at, may_have_arrived)
    select ${flow}, destination, pk, 1, change, kind, hash, payload, body, 'waiting', 0, ${at},
      kind = 'delete' and destination <> all(${filled}::text[])
    from unnest(${destinations}::text[]) as destination cross join found
    ${destinations.length > 1 ? sql`order by destination, pk` : sql``}`
}

const owedColumns = [
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
  'delivered_body',
  'delivered_fields',
  'may_have_arrived',
] as const

export type OwedRow = Pick<DeliveryRow, (typeof owedColumns)[number]>

/** The hash of an item that is to be deleted, or was. */
export const deletedHash = 'deleted'

/** Whether the destination may have the item: it was delivered there, or an attempt was without an answer. */
export function mayBeThere(row: Pick<OwedRow, 'delivered_hash' | 'may_have_arrived'>): boolean {
  const { delivered_hash: delivered } = row
  return row.may_have_arrived || (delivered !== null && delivered !== deletedHash)
}

/** `held`: nothing of the flow may be sent now. */
export async function findDeliveries(
  db: Db,
  target: SendTarget,
  pks: readonly string[],
): Promise<(OwedRow & { held: boolean })[]> {
  return db
    .selectFrom('deliveries')
    .select(owedColumns)
    .select(isHeld(target).as('held'))
    .where(isOneOf(target, pks))
    .execute()
}

/**
 * The rows of these keys, each looked up by itself: a planner that knows nothing yet of a table that fills reads all that a
 * destination is owed for each group of keys, 10 times as long at 10,000. In a writing statement they must be locked already,
 * since a row that somebody changes meanwhile has another place.
 */
function isOneOf({ flow, destination }: DeliveryTarget, pks: readonly string[]) {
  return sql<boolean>`deliveries.ctid = any (array(
    select found.ctid from unnest(${pks}::text[]) as wanted (pk) cross join lateral (
      select ctid from deliveries
      where (flow, destination, pk) = (${flow}, ${destination}, wanted.pk)
      limit 1
    ) as found))`
}

/** The keys of those whose latest change was found by this read or a later one. */
export async function findChangedSince(
  db: Db | Trx,
  target: DeliveryTarget,
  pks: readonly string[],
  read: number,
): Promise<Set<string>> {
  const rows = await db
    .selectFrom('deliveries')
    .select('pk')
    .where(isOneOf(target, pks))
    .where('change_number', '>=', read)
    .execute()
  return new Set(rows.map(({ pk }) => pk))
}

/** One row, locked until the transaction ends. */
export async function lockOwed(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  pk: string,
): Promise<OwedRow | undefined> {
  return trx
    .selectFrom('deliveries')
    .select(owedColumns)
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('pk', '=', pk)
    .forUpdate()
    .executeTakeFirst()
}

/**
 * Makes a row owed once more, as a change of its own: whoever sends it now is about an older version, and a receiver that
 * remembers keys does not take it for done.
 */
export async function oweOnceMore(
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

/** Has what is owed for these keys wait, without an attempt, by the database's clock. */
export async function holdBack(
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

/** What was tried of an item; `delivered` says which version has arrived, and how. `body`: see deliver/item-body.ts. */
export type TriedRow = {
  pk: string
  delivered?: {
    version: number
    attempts: number
    status: number | null
    body?: string
    fields?: unknown
  }
}

export type SettledRow = Pick<DeliveryRow, 'pk' | 'version' | 'state' | 'may_have_arrived'> & {
  isDone: boolean
}

/** Whom rows are settled for. With `keepsHistory` what arrived is also written down for the operator. */
export type Settling = DeliveryTarget & { keepsHistory: boolean }

/**
 * Locks the rows in key order until the transaction ends, so that nobody changes what is being settled. A row that waits and
 * whose current version has arrived is done with that, and its item not kept any longer. Answers the rows as they were, and
 * whether they are done.
 */
export async function settleDelivered(
  trx: Trx,
  settling: Settling,
  tried: readonly TriedRow[],
  at: Date,
): Promise<SettledRow[]> {
  return await settle(trx, settling, tried, at)
}

/**
 * As settleDelivered, of what has arrived and as a statement by itself, so that nobody waits for a way to the server and back while rows are
 * locked. It proves the lease, without which it writes nothing (null: it need not), and counts what is done. Answers the keys
 * of that; all others are as they were.
 */
export async function settleArrived(
  db: Db,
  settling: Settling,
  arrived: readonly Required<TriedRow>[],
  at: Date,
  lease: LeaseToken | null,
): Promise<Set<string>> {
  const rows = await settle(db, settling, arrived, at, { lease })
  return new Set(rows.filter(({ isDone }) => isDone).map(({ pk }) => pk))
}

async function settle(
  db: Db | Trx,
  { flow, destination, keepsHistory }: Settling,
  tried: readonly TriedRow[],
  at: Date,
  alone?: { lease: LeaseToken | null },
): Promise<SettledRow[]> {
  const given = tried.map(({ pk, delivered: arrived }) => ({
    pk,
    version: arrived?.version,
    attempts: arrived?.attempts,
    status: arrived?.status,
    body: arrived?.body,
    fields: arrived?.fields,
  }))
  const held = alone?.lease && sql`held as materialized (${leaseCondition(alone.lease)}),`
  const history = sql`, told as (
      insert into item_attempts
        (flow, destination, at, pk, kind, hash, attempt, outcome, status, reason)
      select ${flow}, ${destination}, ${at}::timestamptz, pk, done.kind, done.hash,
        locked.attempts, 'delivered', locked.status, null
      from done join locked using (pk)
    )`
  const counted = sql`, counted as (${addsCompleted(flow, sql`(select count(*) from done)`)})`
  // One statement for what goes well: each more is a trip to the server for every group. Not as arrays, whose length the
  // planner asks for: it would plan anew each time, which takes as long as all the rest for a group of one.
  const { rows } = await sql<SettledRow>`
    with ${held || sql``} locked as materialized (
      select row.*, wanted.attempts, wanted.status, wanted.body, wanted.fields,
        row.state = 'waiting' and row.version is not distinct from wanted.version as "isCurrent"
      from (
        select * from jsonb_to_recordset(${json(given)}::jsonb)
          as given (pk text, version bigint, attempts integer, status integer, body text, fields jsonb)
        ${held ? sql`where exists (select from held)` : sql``}
        order by pk
      ) as wanted cross join lateral (
        select pk, version, state, may_have_arrived, ctid as place from deliveries
        where (flow, destination, pk) = (${flow}, ${destination}, wanted.pk)
        limit 1
        for update
      ) as row
    ), done as (
      update deliveries set
        state = 'done', delivered_hash = hash, delivered_at = ${at}, finished_at = ${at},
        payload = null, last_error = null, last_status = null, why = null, not_before = null,
        may_have_arrived = false, delivered_body = locked.body, delivered_fields = locked.fields
      from locked
      where deliveries.ctid = locked.place and "isCurrent"
      returning deliveries.pk, kind, hash
    )${keepsHistory ? history : sql``}${alone ? counted : sql``}
    select locked.pk, locked.version, locked.state, locked.may_have_arrived, done.pk is not null as "isDone"
    from locked left join done using (pk)`.execute(db)
  return rows
}
