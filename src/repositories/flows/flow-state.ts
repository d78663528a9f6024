import { type Selectable, sql } from 'kysely'
import { type Db, json, type Trx } from '../../db/database.ts'
import type { FlowProgressTable, FlowStateTable } from '../../db/tables.ts'
import { tellFlow } from './flow-events.ts'

export type FlowStateRow = Selectable<FlowStateTable>

export async function findFlowState(db: Db | Trx, flow: string): Promise<FlowStateRow | undefined> {
  return db.selectFrom('flow_state').selectAll().where('flow', '=', flow).executeTakeFirst()
}

/** As findFlowState, of a flow that was opened. */
export async function requireFlowState(db: Db | Trx, flow: string): Promise<FlowStateRow> {
  const state = await findFlowState(db, flow)
  if (!state) throw new Error(`the flow ${flow} has no state`)
  return state
}

export async function listFlowStates(db: Db): Promise<FlowStateRow[]> {
  return db.selectFrom('flow_state').selectAll().execute()
}

/** Writes the first row of a flow. Answers whether the flow was new. */
export async function insertFlowState(
  trx: Trx,
  flow: string,
  definitionHash: string,
  now: Date,
): Promise<boolean> {
  const result = await trx
    .insertInto('flow_state')
    .values({
      flow,
      definition_hash: definitionHash,
      pending_definition_hash: null,
      item_form: null,
      cursor: null,
      cursor_origin: null,
      last_full_scan_at: null,
      first_seen_at: now,
      last_poll_at: null,
      last_success_at: null,
    })
    .onConflict((conflict) => conflict.column('flow').doNothing())
    .executeTakeFirst()
  return result.numInsertedOrUpdatedRows === 1n
}

/** By the name of a destination. */
type Identities = Readonly<Record<string, string>>

/** Takes the identities of a source and of destinations that none is on record of. */
export async function adoptIdentities(
  trx: Trx,
  flow: string,
  { source, destinations }: { source: string; destinations: Identities },
): Promise<void> {
  await sql`
    update flow_state set
      source_identity = coalesce(source_identity, ${source}),
      destination_identities = ${json(destinations)}::jsonb || destination_identities
    where flow = ${flow}`.execute(trx)
}

export type FlowStateChange = Partial<
  Omit<
    FlowStateRow,
    | 'flow'
    | 'first_seen_at'
    | 'hash_forms'
    | 'destinations'
    | 'record_fields'
    | 'full_scan_due'
    | 'forget_due'
    | 'resets'
    | 'read_number'
    | 'destination_identities'
    | 'asked_identities'
  >
> & {
  destinations?: readonly string[]
  record_fields?: Readonly<Record<string, unknown>>
  destination_identities?: Identities
  asked_identities?: Identities | null
}

export async function updateFlowState(
  db: Db | Trx,
  flow: string,
  fields: FlowStateChange,
): Promise<void> {
  await db.updateTable('flow_state').set(columnsOf(fields)).where('flow', '=', flow).execute()
}

/**
 * Writes what a poll leaves, whose progress is over. With `scannedAfter` it has read everything and began when there had been so many resets: a later
 * reset still wants its own scan.
 */
export async function endPoll(
  trx: Trx,
  flow: string,
  { scannedAfter, ...fields }: FlowStateChange & { scannedAfter?: number | undefined },
): Promise<void> {
  const scanned = sql<boolean>`full_scan_due and resets <> ${scannedAfter ?? null}`
  await trx
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .updateTable('flow_state')
    .set({ ...columnsOf(fields), ...(scannedAfter !== undefined && { full_scan_due: scanned }) })
    .where('flow', '=', flow)
    .execute()
}

function columnsOf(fields: FlowStateChange) {
  const {
    destinations,
    record_fields: known,
    destination_identities: identities,
    ...others
  } = fields
  const { asked_identities: asked, ...rest } = others
  return {
    ...rest,
    ...(identities && { destination_identities: json(identities) }),
    ...(asked !== undefined && { asked_identities: asked && json(asked) }),
    ...(destinations && { destinations: json(destinations) }),
    ...(known && { record_fields: json(known) }),
  }
}

/** Has the next poll read everything from the beginning. */
export async function requestFullScan(trx: Trx, flow: string): Promise<void> {
  await trx
    .updateTable('flow_state')
    .set((eb) => ({ full_scan_due: true, resets: eb('resets', '+', 1) }))
    .where('flow', '=', flow)
    .execute()
}

/** Has the next poll forget all items and read everything from the beginning. */
export async function requestForgetting(trx: Trx, flow: string): Promise<void> {
  await requestFullScan(trx, flow)
  await trx.updateTable('flow_state').set({ forget_due: true }).where('flow', '=', flow).execute()
}

/** Everything was forgotten that was there when there had been `resets`; a later reset still wants its own. */
export async function settleForgetting(trx: Trx, flow: string, resets: number): Promise<void> {
  await trx
    .updateTable('flow_state')
    .set({ forget_due: false })
    .where('flow', '=', flow)
    .where('resets', '=', resets)
    .execute()
}

/**
 * The number of a read of a source that begins now: greater than those of all reads that began before it, in any process.
 * No clock decides which of two reads is the later one, nor who is the first to write.
 */
export async function nextRead(db: Db | Trx): Promise<number> {
  const { rows } = await sql<{ read: number }>`select nextval('flow_reads') as read`.execute(db)
  const [row] = rows
  if (!row) throw new Error('the sequence flow_reads gave no number')
  return row.read
}

/** The number of a poll that begins now. Everybody can see from here on that it has begun, and nothing of one before it. */
export async function beginPollRead(db: Db, flow: string): Promise<number> {
  const row = await db
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .updateTable('flow_state')
    .set({ read_number: sql<number>`nextval('flow_reads')` })
    .where('flow', '=', flow)
    .returning('read_number')
    .executeTakeFirstOrThrow()
  return row.read_number
}

/** Whether a poll of the flow began after this read did. None begins until the transaction ends. */
export async function hasPollBegunSince(trx: Trx, flow: string, read: number): Promise<boolean> {
  const row = await trx
    .selectFrom('flow_state')
    .select('read_number')
    .where('flow', '=', flow)
    .forShare()
    .executeTakeFirst()
  return row !== undefined && row.read_number > read
}

/** Whether the lease is held under this token at this moment; keeps it from being taken until the transaction ends. */
export async function holdsLease(
  trx: Trx,
  lease: { name: string; token: number; now: Date },
): Promise<boolean> {
  const row = await trx
    .selectFrom('leases')
    .select('token')
    .where('name', '=', lease.name)
    .where('token', '=', lease.token)
    .where('deadline', '>', lease.now)
    .forUpdate()
    .executeTakeFirst()
  return row !== undefined
}

export async function saveProgress(db: Db, progress: Selectable<FlowProgressTable>): Promise<void> {
  const { flow, ...fields } = progress
  await db
    .insertInto('flow_progress')
    .values(progress)
    .onConflict((conflict) => conflict.column('flow').doUpdateSet(fields))
    .returning(tellFlow('progress').as('told'))
    .execute()
}

export async function listProgress(db: Db) {
  return db.selectFrom('flow_progress').selectAll().execute()
}
