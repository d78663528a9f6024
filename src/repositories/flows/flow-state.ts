import { type Selectable, sql } from 'kysely'
import type { ItemRules, StoredQuestion } from '../../db/column-types.ts'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { FlowProgressTable, FlowStateTable } from '../../db/tables.ts'
import type { DeliveryTarget } from './delivery-target.ts'
import { notifyFlow } from './flow-events.ts'

export type FlowStateRow = Selectable<FlowStateTable>

export async function findFlowState(db: Db | Trx, flow: string): Promise<FlowStateRow | undefined> {
  return db.selectFrom('flow_state').selectAll().where('flow', '=', flow).executeTakeFirst()
}

/** Like findFlowState, for an opened flow. Throws if the row is missing. */
export async function requireFlowState(db: Db | Trx, flow: string): Promise<FlowStateRow> {
  const state = await findFlowState(db, flow)
  if (!state) throw new Error(`the flow ${flow} has no state`)
  return state
}

export async function listFlowStates(db: Db): Promise<FlowStateRow[]> {
  return db.selectFrom('flow_state').selectAll().orderBy('flow').execute()
}

/** Inserts the first row of a flow. Returns whether the flow was new. */
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

/** Identity, or form, by destination name. */
type Identities = Readonly<Record<string, string>>

/** Stores the identity of the source, and of destinations, that have none stored. */
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
    | 'item_rules'
    | 'record_fields'
    | 'full_scan_due'
    | 'forget_due'
    | 'resets'
    | 'read_number'
    | 'items_stamp'
    | 'destination_identities'
    | 'destination_forms'
    | 'question'
  >
> & {
  item_rules?: ItemRules
  record_fields?: Readonly<Record<string, unknown>>
  destination_identities?: Identities
  destination_forms?: Identities
  question?: StoredQuestion | null
}

export async function updateFlowState(
  db: Db | Trx,
  flow: string,
  fields: FlowStateChange,
): Promise<void> {
  await db.updateTable('flow_state').set(columnsOf(fields)).where('flow', '=', flow).execute()
}

/**
 * What a poll stores at its end. With `scannedAfter` it read everything and began after that many resets. A later reset
 * still needs its own full scan.
 */
export type PollEnd = FlowStateChange & {
  scannedAfter?: number | undefined
  /** The stamp of its beginning becomes that of its end, unless another writer has changed items meanwhile. */
  stamps?: { begun: string; ended: string } | undefined
}

/** For a poll that is not recorded: stores its result and clears its progress. */
export async function endPoll(trx: Trx, flow: string, end: PollEnd): Promise<void> {
  await trx
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .updateTable('flow_state')
    .set(columnsOfEnd(end))
    .where('flow', '=', flow)
    .execute()
}

export function columnsOfEnd({ scannedAfter, stamps, ...fields }: PollEnd) {
  const scanned = sql<boolean>`full_scan_due and resets <> ${scannedAfter ?? null}`
  return {
    ...columnsOf(fields),
    ...(scannedAfter !== undefined && { full_scan_due: scanned }),
    ...(stamps && {
      items_stamp: sql<string>`case items_stamp when ${stamps.begun} then ${stamps.ended}::text else items_stamp end`,
    }),
  }
}

function columnsOf(fields: FlowStateChange) {
  const {
    item_rules: rules,
    record_fields: known,
    destination_identities: identities,
    destination_forms: forms,
    ...others
  } = fields
  const { question, waiting_why: waiting, ...rest } = others
  return {
    ...rest,
    ...(identities && { destination_identities: json(identities) }),
    ...(forms && { destination_forms: json(forms) }),
    ...(question !== undefined && { question: question && json(question) }),
    ...(waiting !== undefined && { waiting_why: waiting && json(waiting) }),
    ...(rules && { item_rules: json(rules) }),
    ...(known && { record_fields: json(known) }),
  }
}

/** Makes the next poll read everything from the beginning. */
export async function requestFullScan(trx: Trx, flow: string): Promise<void> {
  await trx
    .updateTable('flow_state')
    .set((eb) => ({ full_scan_due: true, resets: eb('resets', '+', 1) }))
    .where('flow', '=', flow)
    .execute()
}

/** Makes the next poll forget all items and read everything from the beginning. */
export async function requestForgetting(trx: Trx, flow: string): Promise<void> {
  await requestFullScan(trx, flow)
  await trx.updateTable('flow_state').set({ forget_due: true }).where('flow', '=', flow).execute()
}

/** All items of the time of reset number `resets` are forgotten. A later reset still needs its own run. */
export async function endForgetting(trx: Trx, flow: string, resets: number): Promise<void> {
  await trx
    .updateTable('flow_state')
    .set({ forget_due: false })
    .where('flow', '=', flow)
    .where('resets', '=', resets)
    .execute()
}

/**
 * The number of a read that begins now, greater than the numbers of all earlier reads in any process. It decides
 * which read is later, independent of clocks and of who writes first.
 */
export async function nextRead(db: Db | Trx): Promise<number> {
  const { rows } = await sql<{ read: number }>`select nextval('flow_reads') as read`.execute(db)
  const [row] = rows
  if (!row) throw new Error('the sequence flow_reads gave no number')
  return row.read
}

/**
 * The number of a poll that begins now, and the stamp of the items that it finds, which becomes `stamp`. It also makes this
 * poll visible as begun, and clears the progress of the one before.
 */
export async function beginPollRead(
  db: Db,
  flow: string,
  stamp: string,
): Promise<{ read: number; found: string | null }> {
  const row = await db
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .with('before', (one) =>
      one
        .selectFrom('flow_state')
        .select(['flow', 'items_stamp'])
        .where('flow', '=', flow)
        .forUpdate(),
    )
    .updateTable('flow_state')
    .from('before')
    .set({ read_number: sql<number>`nextval('flow_reads')`, items_stamp: stamp })
    .whereRef('flow_state.flow', '=', 'before.flow')
    .returning(['read_number', 'before.items_stamp as found'])
    .executeTakeFirstOrThrow()
  return { read: row.read_number, found: row.found }
}

/** The present stamp of the items, which stays until the transaction ends. */
export async function lockItemsStamp(trx: Trx, flow: string): Promise<string | null> {
  const row = await trx
    .selectFrom('flow_state')
    .select('items_stamp')
    .where('flow', '=', flow)
    .forUpdate()
    .executeTakeFirstOrThrow()
  return row.items_stamp
}

/**
 * Items change otherwise than by the read of a poll: what a poll remembers of them counts no longer. Call it when the rows of the
 * items are locked, since all writers lock in this order.
 */
export async function changeItemsStamp(trx: Trx, flow: string): Promise<void> {
  await trx
    .updateTable('flow_state')
    .set({ items_stamp: sql<string>`gen_random_uuid()::text` })
    .where('flow', '=', flow)
    .execute()
}

/** Whether a poll of the flow began after this read. No poll can begin until the transaction ends. */
export async function hasPollBegunSince(trx: Trx, flow: string, read: number): Promise<boolean> {
  const row = await trx
    .selectFrom('flow_state')
    .select('read_number')
    .where('flow', '=', flow)
    // Not shared: the change of an item follows, which changes the row.
    .forUpdate()
    .executeTakeFirst()
  return row !== undefined && row.read_number > read
}

export async function saveProgress(db: Db, progress: Selectable<FlowProgressTable>): Promise<void> {
  const { flow, ...fields } = progress
  await db
    .insertInto('flow_progress')
    .values(progress)
    .onConflict((conflict) => conflict.column('flow').doUpdateSet(fields))
    .returning(notifyFlow('progress').as('notified'))
    .execute()
}

export async function listProgress(db: Db) {
  return db.selectFrom('flow_progress').selectAll().execute()
}

/**
 * Makes a destination that is accepted get every item again: the next poll compares all items with what it has. `form` is its
 * form by the definition; of a destination that is asked about, nothing changes.
 */
export async function forgetForm(
  trx: Trx,
  { flow, destination }: DeliveryTarget,
  form: string,
): Promise<void> {
  await sql`
    update flow_state set destination_forms = destination_forms - ${destination}::text
    where flow = ${flow} and destination_forms->>${destination}::text = ${form}`.execute(trx)
}

/** Begins the question about this definition. An answer that was given to it meanwhile stays. */
export async function beginQuestion(trx: Trx, flow: string, definition: string): Promise<void> {
  await sql`
    update flow_state set question = ${json({ definition })}::jsonb
    where flow = ${flow}
      and (question is null or question->>'definition' is distinct from ${definition} or question->>'answer' is null)`.execute(
    trx,
  )
}

/** Stores what a comparison has found. An answer that was given meanwhile stays. */
export async function storeComparison(
  trx: Trx,
  flow: string,
  found: StoredQuestion,
): Promise<void> {
  await sql`
    update flow_state
    set question = ${json(found)}::jsonb || jsonb_strip_nulls(jsonb_build_object('answer', question->'answer'))
    where flow = ${flow}`.execute(trx)
}

/** Puts a question, or none, in the place of this one. An answer that was given meanwhile stays. */
export async function replaceQuestion(
  trx: Trx,
  flow: string,
  present: StoredQuestion | null,
  next: StoredQuestion | null,
): Promise<void> {
  const jsonOf = (question: StoredQuestion | null) => question && json(question)
  await sql`
    update flow_state set question = ${jsonOf(next)}::jsonb
    where flow = ${flow} and question is not distinct from ${jsonOf(present)}::jsonb`.execute(trx)
}

/** Stores the answer to the question of this number. Returns whether it is still asked, and not answered yet. */
export async function storeAnswer(
  trx: Trx,
  flow: string,
  {
    number,
    ...answer
  }: Required<Pick<StoredQuestion, 'number' | 'answer'>> & Pick<StoredQuestion, 'pks'>,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update flow_state set question = question || ${json(answer)}::jsonb
    where flow = ${flow} and (question->>'number')::bigint = ${number} and question->>'answer' is null`.execute(
    trx,
  )
  return Number(numAffectedRows ?? 0) > 0
}

/** Moves all that is stored of a flow to another name. Nothing may be stored under that name. */
export async function renameFlow(trx: Trx, from: string, to: string): Promise<void> {
  const { rows } = await sql<{ table: string }>`
    select relname as "table" from pg_class join pg_attribute on attrelid = pg_class.oid
    where relnamespace = current_schema()::regnamespace and relkind = 'r'
      and attname = 'flow' and not attisdropped
    order by relname`.execute(trx)
  await trx
    .updateTable('flow_state')
    .set((eb) => ({ key_name: eb.fn.coalesce('key_name', 'flow') }))
    .where('flow', '=', from)
    .execute()
  for (const { table } of rows) {
    await sql`update ${sql.table(table)} set flow = ${to} where flow = ${from}`.execute(trx)
  }
}
