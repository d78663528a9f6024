import { type Selectable, sql } from 'kysely'
import type { Db, Trx } from '../../db/database.ts'
import { json } from '../../db/statements.ts'
import type { FlowProgressTable, FlowStateTable, ItemRules } from '../../db/tables.ts'
import type { DeliveryTarget } from './deliveries.ts'
import { notifyFlow } from './flow-events.ts'

export type FlowStateRow = Selectable<FlowStateTable>

/** The state of a flow, with the destinations that must get every item. */
export type FlowState = FlowStateRow & { fills: readonly DestinationFill[] }

export async function findFlowState(db: Db | Trx, flow: string): Promise<FlowState | undefined> {
  const fills = sql<DestinationFill[]>`(
    select coalesce(jsonb_agg(jsonb_build_object('destination', destination, 'asked', asked) order by destination), '[]')
    from destination_fills where destination_fills.flow = flow_state.flow)`
  return db
    .selectFrom('flow_state')
    .selectAll()
    .select(fills.as('fills'))
    .where('flow', '=', flow)
    .executeTakeFirst()
}

/** Like findFlowState, for an opened flow. Throws if the row is missing. */
export async function requireFlowState(db: Db | Trx, flow: string): Promise<FlowState> {
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

/** Identity, or form, by destination name. */
type Identities = Readonly<Record<string, string>>

/** Stores the identity of the source, and identity and form of destinations, that have none stored. */
export async function adoptIdentities(
  trx: Trx,
  flow: string,
  { source, destinations, forms }: { source: string; destinations: Identities; forms: Identities },
): Promise<void> {
  await sql`
    update flow_state set
      source_identity = coalesce(source_identity, ${source}),
      destination_identities = ${json(destinations)}::jsonb || destination_identities,
      destination_forms = ${json(forms)}::jsonb || destination_forms
    where flow = ${flow}`.execute(trx)
}

export type FlowStateChange = Partial<
  Omit<
    FlowStateRow,
    | 'flow'
    | 'first_seen_at'
    | 'hash_forms'
    | 'destinations'
    | 'item_rules'
    | 'record_fields'
    | 'full_scan_due'
    | 'forget_due'
    | 'resets'
    | 'read_number'
    | 'destination_identities'
    | 'destination_forms'
    | 'asked_identities'
  >
> & {
  destinations?: readonly string[]
  item_rules?: ItemRules
  record_fields?: Readonly<Record<string, unknown>>
  destination_identities?: Identities
  /** Those of other destinations stay. */
  destination_forms?: Identities
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
 * What a poll stores at its end. With `scannedAfter` it read everything and began after that many resets. A later reset
 * still needs its own full scan.
 */
export type PollEnd = FlowStateChange & { scannedAfter?: number | undefined }

/** For a poll that is not recorded: stores its result and clears its progress. */
export async function endPoll(trx: Trx, flow: string, end: PollEnd): Promise<void> {
  await trx
    .with('cleared', (one) => one.deleteFrom('flow_progress').where('flow', '=', flow))
    .updateTable('flow_state')
    .set(columnsOfEnd(end))
    .where('flow', '=', flow)
    .execute()
}

export function columnsOfEnd({ scannedAfter, ...fields }: PollEnd) {
  const scanned = sql<boolean>`full_scan_due and resets <> ${scannedAfter ?? null}`
  return { ...columnsOf(fields), ...(scannedAfter !== undefined && { full_scan_due: scanned }) }
}

function columnsOf(fields: FlowStateChange) {
  const {
    destinations,
    item_rules: rules,
    record_fields: known,
    destination_identities: identities,
    destination_forms: forms,
    ...others
  } = fields
  const { asked_identities: asked, waiting_why: waiting, ...rest } = others
  return {
    ...rest,
    ...(identities && { destination_identities: json(identities) }),
    ...(forms && { destination_forms: sql<string>`destination_forms || ${json(forms)}::jsonb` }),
    ...(asked !== undefined && { asked_identities: asked && json(asked) }),
    ...(waiting !== undefined && { waiting_why: waiting && json(waiting) }),
    ...(destinations && { destinations: json(destinations) }),
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
 * The number of a poll that begins now. It also makes this poll visible as begun, and clears the progress of the one
 * before.
 */
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

/** Whether a poll of the flow began after this read. No poll can begin until the transaction ends. */
export async function hasPollBegunSince(trx: Trx, flow: string, read: number): Promise<boolean> {
  const row = await trx
    .selectFrom('flow_state')
    .select('read_number')
    .where('flow', '=', flow)
    .forShare()
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

/** A destination that must get every item. `asked` is the number of the read from which on. */
export type DestinationFill = { destination: string; asked: number }

export async function listFills(db: Db | Trx, flow: string): Promise<DestinationFill[]> {
  return db
    .selectFrom('destination_fills')
    .select(['destination', 'asked'])
    .where('flow', '=', flow)
    .orderBy('destination')
    .execute()
}

/** A second request for the same destination starts again. */
export async function askFill(trx: Trx, { flow, destination }: DeliveryTarget): Promise<void> {
  await sql`
    insert into destination_fills (flow, destination, asked)
    values (${flow}, ${destination}, nextval('flow_reads'))
    on conflict (flow, destination) do update set asked = excluded.asked`.execute(trx)
}

/** Ends a fill, unless it was requested again meanwhile. */
export async function endFill(
  trx: Trx,
  flow: string,
  { destination, asked }: DestinationFill,
): Promise<void> {
  await trx
    .deleteFrom('destination_fills')
    .where('flow', '=', flow)
    .where('destination', '=', destination)
    .where('asked', '=', asked)
    .execute()
}
