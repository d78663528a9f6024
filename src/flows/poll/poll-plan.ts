import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { StoredQuestion } from '../../db/column-types.ts'
import type { Db } from '../../db/database.ts'
import { canonicalJson } from '../../domain/json.ts'
import { AppError } from '../../errors/app-error.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import { hasCome } from '../../repositories/due-work.ts'
import { withdrawAsked, withoutDeliveries } from '../../repositories/flows/asked-deliveries.ts'
import { hasDelivered } from '../../repositories/flows/deliveries.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import {
  deleteHashes,
  isOnRecord,
  listPksAfter,
  markUnread,
  resetHashes,
} from '../../repositories/flows/flow-items.ts'
import {
  beginQuestion,
  endForgetting,
  type FlowStateRow,
  requireFlowState,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import {
  forgetPendingDeletes,
  queuePendingDeletes,
} from '../../repositories/flows/pending-deletes.ts'
import { changedParts, type FormPart, itemRulesOf } from '../item/definition-hash.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { createItemReader, type ItemReader, keyRecord } from '../item/item.ts'
import { readFrom } from './cursor.ts'
import type { PollDeps } from './poll-deps.ts'

/**
 * A `normal` poll sends the changes of the source. A `comparison` follows a changed definition: it reads everything and finds
 * what its destinations would be sent because of it (compare-destinations.ts).
 */
export type PollKind = 'normal' | 'comparison'

/** How a destination differs from what was accepted of it. */
export type Difference = { destination: string } & (
  | /** It must get all items: it is new, or was reset. */
  { how: 'added' }
  /** Another place than the one that has what was delivered. */
  | { how: 'moved' }
  | { how: 'changed'; parts: ReadonlySet<FormPart> }
)

type Definition = Pick<FlowRuntime, 'flow' | 'forms' | 'identities'>
type Accepted = Pick<FlowStateRow, 'destination_forms' | 'destination_identities'>

/** Whether the stored items come from another source. */
export function isOtherSource(
  { identities }: Pick<FlowRuntime, 'identities'>,
  state: FlowStateRow,
): boolean {
  return state.source_identity !== null && state.source_identity !== identities.source
}

/** Whether nothing differs from what was accepted. */
export function isAccepted({ forms, identities }: Definition, state: Accepted): boolean {
  const { destination_forms: accepted, destination_identities: known } = state
  if (!isDeepStrictEqual({ ...accepted }, { ...forms })) return false
  return Object.entries(identities.destinations).every(([name, one]) => known[name] === one)
}

/** Of one definition and its destinations' places: the key of a question about it. SHA-256 (hex). */
export function questionKey({ forms, identities }: Definition): string {
  return hash('sha256', canonicalJson([forms, identities.destinations]), 'hex')
}

/**
 * The question of a flow: `none`, `asked` or `answered`. After a change of the definition it is `comparing` until a read has
 * compared all items; the destinations that differ are sent nothing until the answer.
 */
export function questionState(
  runtime: Definition,
  state: FlowStateRow,
): 'none' | 'comparing' | 'asked' | 'answered' {
  const { question } = state
  const definition = isAccepted(runtime, state) ? undefined : questionKey(runtime)
  if (question?.number === undefined || question.definition !== definition) {
    return definition === undefined ? 'none' : 'comparing'
  }
  return question.answer === undefined ? 'asked' : 'answered'
}

/** Which destinations differ from what was accepted, and how. */
export async function definitionDifferences(
  db: Db,
  { flow, forms, identities }: Definition,
  { destination_forms: accepted, destination_identities: known }: Accepted,
): Promise<Difference[]> {
  const differences: Difference[] = []
  for (const { name: destination } of flow.destinations) {
    const [was, now] = [accepted[destination], forms[destination] ?? '']
    const identity = known[destination]
    const isElsewhere = identity !== undefined && identity !== identities.destinations[destination]
    if (isElsewhere && (await hasDelivered(db, { flow: flow.name, destination }))) {
      differences.push({ destination, how: 'moved' })
    } else if (isElsewhere || was === undefined) differences.push({ destination, how: 'added' })
    else if (was !== now) {
      differences.push({ destination, how: 'changed', parts: changedParts(was, now) })
    }
  }
  return differences
}

/** Whether no poll of the flow succeeded and nothing was sent: a changed definition then needs no question. */
export async function isWithoutItems(
  db: Db,
  { flow, last_success_at: lastSuccess }: FlowStateRow,
): Promise<boolean> {
  return lastSuccess === null && !(await isOnRecord(db, flow))
}

/** Whether a stored hash that differs proves a change at the source: items are read and made as before. */
export function isSameItemForm(
  { itemForm }: Pick<FlowRuntime, 'itemForm'>,
  { item_form }: Pick<FlowStateRow, 'item_form'>,
): boolean {
  return item_form === itemForm
}

/**
 * Reads a record by the rules of the stored keys and hashes, where only these changed. So a change at the source differs from
 * one of the definition. Undefined where nothing distinguishes them.
 */
export function formerReaderOf(
  { flow }: FlowRuntime,
  { item_rules: rules }: FlowStateRow,
): ItemReader['read'] | undefined {
  if (rules?.source !== itemRulesOf(flow).source) return undefined
  const { key, hash } = rules
  return createItemReader({ item: { ...flow.item, key, hash, filter: undefined } }).read
}

/** Whether the stored items use another key than the definition, as far as known. */
export function hasOtherKey(
  { itemForm }: Pick<FlowRuntime, 'itemForm'>,
  { item_form }: Pick<FlowStateRow, 'item_form'>,
): boolean {
  const [before, now] = [item_form?.split('/')[1], itemForm.split('/')[1]]
  return before !== undefined && before !== now
}

/** A full scan further in the future than clocks differ was made before the clock was set back. */
const clockRoomMs = 60_000

/** `since` is where the poll begins; null for the beginning. */
type ScanPlan = { isFull: boolean; since: string | null }

/** The scan of a poll that reads. */
export function planScan(
  runtime: FlowRuntime,
  state: FlowStateRow,
  pollKind: PollKind,
  now: Date,
): ScanPlan {
  const { cursor } = state
  if (pollKind !== 'normal' || cursor === null || mustReadAll(runtime, state, now)) {
    return { isFull: true, since: null }
  }
  return { isFull: false, since: readFrom(cursor, runtime.cursor?.overlapMs ?? 0) }
}

function mustReadAll(runtime: FlowRuntime, state: FlowStateRow, now: Date): boolean {
  const { cursor, fullScanEveryMs } = runtime
  if (!cursor || state.full_scan_due) return true
  // Positions stored without an origin come from the present source.
  if (state.cursor_origin !== null && state.cursor_origin !== cursor.origin) return true
  const last = state.last_full_scan_at?.getTime() ?? 0
  if (fullScanEveryMs === undefined) return false
  return hasCome(new Date(last + fullScanEveryMs), now, fullScanEveryMs + clockRoomMs)
}

/** What a poll goes by. `differences`: those that the comparison looks at. */
export type PollPlan = {
  pollKind: PollKind
  differences: readonly Difference[]
  state: FlowStateRow
}

/**
 * Decides what a poll does about a definition that is not accepted yet. A destination that differs is sent nothing before it
 * is accepted (needsApproval), so nothing here is urgent. Returns the new state of the flow.
 */
export async function planPoll(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
): Promise<PollPlan> {
  const { db } = deps.database
  const { name } = runtime.flow
  const normal = async () => ({
    ...{ pollKind: 'normal' as const, differences: [] },
    state: await requireFlowState(db, name),
  })
  if (isAccepted(runtime, state)) {
    if (state.question?.definition === undefined) {
      return { pollKind: 'normal', differences: [], state }
    }
    // The former definition is back.
    await endAskedDeliveries(deps, name, lease)
    await underLease(deps, lease, (trx) => updateFlowState(trx, name, { question: null }))
    return normal()
  }
  await refuseOutdated(deps, runtime, state)
  const differences = await definitionDifferences(db, runtime, state)
  if (differences.length === 0 || (await isWithoutItems(db, state))) {
    await underLease(deps, lease, (trx) => updateFlowState(trx, name, acceptedBy(runtime, state)))
    return normal()
  }
  if (questionState(runtime, state) !== 'comparing') return normal()
  const definition = questionKey(runtime)
  // Before the definition is accepted, so that a crash loses none.
  await settlePendingDeletes(deps, runtime, lease, state)
  if (state.question) await endAskedDeliveries(deps, name, lease)
  await underLease(deps, lease, (trx) => beginQuestion(trx, name, definition))
  return { pollKind: 'comparison', differences, state: await requireFlowState(db, name) }
}

/** Ends what waits only because of a definition that is not compared any more, and forgets the items that only it had. */
async function endAskedDeliveries(deps: PollDeps, flow: string, lease: HeldLease): Promise<void> {
  let isLeft = true
  while (isLeft) {
    isLeft = await underLease(deps, lease, async (trx) => {
      const page = { limit: rowsAtOnce, at: deps.now() }
      const neverSent = await withdrawAsked(trx, flow, page)
      if (neverSent && neverSent.length > 0) await markUnread(trx, flow, neverSent)
      return neverSent !== undefined
    })
  }
  let after: string | undefined
  do {
    const last = after
    after = await underLease(deps, lease, async (trx) => {
      const pks = await listPksAfter(trx, flow, last, rowsAtOnce)
      await deleteHashes(trx, flow, await withoutDeliveries(trx, flow, pks))
      return pks.length === rowsAtOnce ? pks.at(-1) : undefined
    })
  } while (after !== undefined)
}

function isKnown({ destination_forms: forms }: Accepted, destination: string): boolean {
  return forms[destination] !== undefined
}

/** The definition that a flow goes by from now on. */
export function acceptedBy({ forms, identities }: Definition, state: Accepted) {
  return {
    destination_forms: forms,
    destination_identities: { ...state.destination_identities, ...identities.destinations },
    question: null as StoredQuestion | null,
  }
}

/**
 * Sends a destination that returned the deletes that it missed. Under another key they are forgotten: they could concern items
 * that exist.
 */
async function settlePendingDeletes(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
): Promise<void> {
  const { name: flow, item, deletes, destinations } = runtime.flow
  if (hasOtherKey(runtime, state)) {
    const names = Object.keys(state.destination_identities)
    await underLease(deps, lease, (trx) => forgetPendingDeletes(trx, flow, names))
  }
  if (deletes.mode !== 'delete') return
  for (const { name: destination } of destinations.filter((one) => !isKnown(state, one.name))) {
    const target = { flow, destination }
    let after: string | undefined = ''
    while (after !== undefined) {
      const from: string = after
      after = await underLease(deps, lease, async (trx) => {
        const itemOf = (pk: string) => keyRecord(item.key, pk)
        const page = { after: from, limit: rowsAtOnce, at: deps.now(), itemOf }
        const last = await queuePendingDeletes(trx, target, page)
        wakeDestination(deps.database, target)
        return last
      })
    }
  }
}

/** Another process works with a definition that this process has not read. */
export class OutdatedError extends AppError {
  constructor() {
    super('SERVICE_UNAVAILABLE', {
      message: 'Another process polls this flow by another definition; read the flow files again',
      extra: { retryAfterSeconds: 1 },
    })
    this.name = 'OutdatedError'
  }
}

/**
 * Rejects if the last poll used another definition and the flow files no longer contain this one. The files changed since
 * this process read them. Otherwise it would treat the older definition as a newer change.
 */
export async function refuseOutdated(
  deps: Pick<PollDeps, 'isOnFile'>,
  runtime: FlowRuntime,
  state: Pick<FlowStateRow, 'definition_hash'>,
): Promise<void> {
  if (state.definition_hash === runtime.definitionHash) return
  if (!(await deps.isOnFile(runtime))) throw new OutdatedError()
}

/**
 * Like refuseOutdated, for deliveries queued outside of polls. It rejects if an unknown destination exists, because
 * changes would not be queued for it. Locks the flow's state until the transaction ends.
 */
export async function refuseUnknownDestinations(
  deps: Pick<PollDeps, 'isOnFile'>,
  runtime: FlowRuntime,
  state: Pick<FlowStateRow, 'definition_hash' | 'destination_forms'> | undefined,
): Promise<void> {
  const names = Object.keys(state?.destination_forms ?? {})
  if (!state || names.every((name) => name in runtime.forms)) return
  await refuseOutdated(deps, runtime, state)
}

const rowsAtOnce = 1_000

/**
 * Forgets the hashes of a flow after a reset, `limit` per transaction, under the lease of its polls: meanwhile
 * nothing is read that would be forgotten too. The next poll continues after a crash. Rows of items stay, so that
 * lost ones are still deleted.
 */
export async function forgetItems(
  deps: Pick<PollDeps, 'database' | 'now'>,
  flow: string,
  lease: HeldLease,
  state: FlowStateRow,
  limit = rowsAtOnce,
): Promise<void> {
  if (!state.forget_due) return
  let after: string | undefined
  do {
    const last = after
    after = await underLease(deps, lease, async (trx) => {
      const pks = await listPksAfter(trx, flow, last, limit)
      await resetHashes(trx, flow, pks)
      if (pks.length === limit) return pks.at(-1)
      await endForgetting(trx, flow, state.resets)
      return undefined
    })
  } while (after !== undefined)
}
