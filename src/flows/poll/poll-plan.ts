import type { Db, Trx } from '../../db/database.ts'
import { AppError } from '../../errors/app-error.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import { hasCome } from '../../repositories/due-work.ts'
import { endUnsent } from '../../repositories/flows/deliveries.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import {
  deleteHashes,
  isOnRecord,
  listPksAfter,
  resetHashes,
} from '../../repositories/flows/flow-items.ts'
import { isPaused } from '../../repositories/flows/flow-pauses-and-limits.ts'
import {
  askFill,
  endForgetting,
  type FlowState,
  type FlowStateRow,
  requestForgetting,
  requestFullScan,
  requireFlowState,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import {
  forgetPendingDeletes,
  queuePendingDeletes,
} from '../../repositories/flows/pending-deletes.ts'
import { askAboutDefinition } from '../control/pauses-and-limits.ts'
import { definitionHash, itemRulesOf } from '../definition/definition-hash.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { createItemReader, type ItemReader, keyRecord } from '../item/item.ts'
import { readFrom } from './cursor.ts'
import type { PollDeps } from './poll-writer.ts'

/**
 * The kind of poll that is due. `normal` sends changes. The others follow a changed definition. `rebase` stores how
 * known items look now, and sends new items and what `areChangesSent` allows. `resync` forgets all hashes first. `ask`
 * reads nothing and pauses the flow until an operator resumes or resyncs it. A `normal` poll fills destinations that
 * were added.
 */
export type PollKind = 'normal' | 'rebase' | 'resync' | 'ask'

/** The kind of the next poll, of a flow that is not paused. `isNew`: see isWithoutItems. */
export function pollKindOf(runtime: FlowRuntime, state: FlowStateRow, isNew: boolean): PollKind {
  const { flow, definitionHash } = runtime
  if (isNew || state.definition_hash === definitionHash || addedTo(runtime, state)) return 'normal'
  // Resumed after the question: the operator does not want everything sent again.
  const isAnswered = state.pending_definition_hash === definitionHash
  return needsDecision(runtime, state) && isAnswered ? 'rebase' : flow.item.onDefinitionChange
}

type Identities = Pick<FlowRuntime, 'identities'>

/** Whether the stored items come from another source. */
export function isOtherSource({ identities }: Identities, state: FlowStateRow): boolean {
  return state.source_identity !== null && state.source_identity !== identities.source
}

/** The destinations that were others when their deliveries were recorded. */
export function otherDestinations({ identities }: Identities, state: FlowStateRow): string[] {
  return Object.entries(identities.destinations).flatMap(([name, identity]) => {
    const before = state.destination_identities[name]
    return before !== undefined && before !== identity ? [name] : []
  })
}

/** Whether no poll of the flow succeeded and nothing was sent: a changed definition then needs no decision. */
export async function isWithoutItems(
  db: Db,
  { flow, last_success_at: lastSuccess }: FlowStateRow,
): Promise<boolean> {
  return lastSuccess === null && !(await isOnRecord(db, flow))
}

/** Whether the definition differs from the accepted one and an operator must decide what that means. */
export function needsDecision(runtime: FlowRuntime, state: FlowStateRow): boolean {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash || addedTo(runtime, state)) return false
  return flow.item.onDefinitionChange === 'ask'
}

/** The added destinations, if nothing else changed in the definition. Only they get all items. */
export function addedTo(
  { flow, definitionHash: now }: Pick<FlowRuntime, 'flow' | 'definitionHash'>,
  { destinations: known, definition_hash: before }: FlowStateRow,
): string[] | undefined {
  if (!known || before === now) return undefined
  const isKnown = ({ name }: Flow['destinations'][number]) => known.includes(name)
  const kept = flow.destinations.filter(isKnown)
  if (kept.length === 0 || definitionHash({ ...flow, destinations: kept }) !== before)
    return undefined
  return flow.destinations.filter((one) => !isKnown(one)).map(({ name }) => name)
}

/**
 * Whether a changed hash means a change at the source. After a rebase to another form of items the definition may
 * have caused it. If only destinations changed, real changes must not be hidden.
 */
export function areChangesSent(
  runtime: FlowRuntime,
  state: FlowStateRow,
  pollKind: PollKind,
): boolean {
  return pollKind !== 'rebase' || formsOf(state.item_form)[0] === formsOf(runtime.itemForm)[0]
}

/**
 * Reads a record by the rules of keys and hashes accepted before, where only these changed. So a change at the source differs
 * from one of the definition. Undefined where nothing distinguishes them.
 */
export function formerReaderOf(
  { flow }: FlowRuntime,
  state: FlowStateRow,
  pollKind: PollKind,
): ItemReader['read'] | undefined {
  const { item_rules: rules } = state
  if (pollKind !== 'rebase' || rules?.source !== itemRulesOf(flow).source) return undefined
  const { key, hash } = rules
  return createItemReader({ item: { ...flow.item, key, hash, filter: undefined } }).read
}

/**
 * Whether an item without a stored hash is new. After a rebase to another key all items look new, and the stored keys
 * no longer exist.
 */
export function areNewItemsSent(
  runtime: FlowRuntime,
  state: FlowStateRow,
  pollKind: PollKind,
): boolean {
  return pollKind !== 'rebase' || !hasOtherKey(runtime, state)
}

/** Whether the stored items use another key than the definition, as far as known. */
export function hasOtherKey(
  { itemForm }: Pick<FlowRuntime, 'itemForm'>,
  { item_form }: Pick<FlowStateRow, 'item_form'>,
): boolean {
  const [before, now] = [formsOf(item_form)[1], formsOf(itemForm)[1]]
  return before !== undefined && before !== now
}

/** The form of the items and their key. The key form is unknown for items stored before it was recorded. */
function formsOf(itemForm: string | null): (string | undefined)[] {
  return itemForm?.split('/') ?? []
}

/** A full scan further in the future than clocks differ was made before the clock was set back. */
const clockRoomMs = 60_000

/** `since` is where the poll begins; null for the beginning. */
export type ScanPlan = { isFull: boolean; since: string | null }

/** The scan of a poll that reads. */
export function planScan(
  runtime: FlowRuntime,
  state: FlowStateRow,
  pollKind: Exclude<PollKind, 'ask'>,
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

/**
 * Applies a changed definition before the source is read. Returns the kind of this poll, and the new state of the
 * flow.
 */
export async function applyDefinition(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowState,
): Promise<{ pollKind: PollKind; state: FlowState }> {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash) return { pollKind: 'normal', state }
  await refuseOutdated(deps, runtime, state)
  if (await isWithoutItems(deps.database.db, state)) {
    await underLease(deps, lease, (trx) => updateFlowState(trx, flow.name, acceptedBy(runtime)))
    return { pollKind: 'normal', state: await requireFlowState(deps.database.db, flow.name) }
  }
  // Only a resume answers the question. A forced poll of a paused flow does not.
  const mustAsk = needsDecision(runtime, state) && (await isPaused(deps.database.db, flow.name))
  const pollKind = mustAsk ? 'ask' : pollKindOf(runtime, state, false)
  // Before the definition is accepted, so that a crash loses none.
  if (pollKind !== 'ask') await settlePendingDeletes(deps, runtime, lease, state)
  const added = addedTo(runtime, state)
  if (added) {
    await underLease(deps, lease, async (trx) => {
      await updateFlowState(trx, flow.name, acceptedBy(runtime))
      for (const destination of added) await askFill(trx, { flow: flow.name, destination })
      await requestFullScan(trx, flow.name)
    })
    deps.log.info({ flow: flow.name, destinations: added }, 'filling a new destination')
  }
  // The decision is made: what waits goes by it, also while the source cannot be read.
  if (pollKind === 'rebase') {
    await underLease(deps, lease, (trx) =>
      updateFlowState(trx, flow.name, { destination_forms: runtime.forms }),
    )
  }
  if (pollKind === 'resync') {
    await underLease(deps, lease, async (trx) => {
      await updateFlowState(trx, flow.name, {
        definition_hash: definitionHash,
        destination_forms: runtime.forms,
      })
      await requestForgetting(trx, flow.name)
    })
  }
  if (pollKind === 'ask') {
    await underLease(deps, lease, async (trx) => {
      await askAboutDefinition(trx, flow.name, { at: deps.now(), definitionHash })
    })
    deps.log.warn({ flow: flow.name }, 'flow definition changed; an operator must decide')
  }
  return { pollKind, state: await requireFlowState(deps.database.db, flow.name) }
}

/**
 * Sends a destination that returned the deletes that it missed. Under another key they are forgotten, as are the items
 * of the old key.
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
  if (deletes.mode !== 'delete' || !state.destinations) return
  const known = new Set(state.destinations)
  for (const { name: destination } of destinations.filter(({ name }) => !known.has(name))) {
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

/** The definition that a flow goes by from now on. */
export function acceptedBy({ flow, definitionHash, forms }: FlowRuntime) {
  return {
    definition_hash: definitionHash,
    destination_forms: forms,
    pending_definition_hash: null,
    destinations: flow.destinations.map(({ name }) => name),
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
 * Rejects if another definition was accepted and the flow files no longer contain this one. The files changed since
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
  state: Pick<FlowStateRow, 'definition_hash' | 'destinations'> | undefined,
): Promise<void> {
  const known = new Set(runtime.flow.destinations.map(({ name }) => name))
  if (!state?.destinations?.some((name) => !known.has(name))) return
  await refuseOutdated(deps, runtime, state)
}

const rowsAtOnce = 1_000

/**
 * Forgets the hashes of a flow after a reset, `limit` per transaction, under the lease of its polls: meanwhile
 * nothing is read that would be forgotten too. The next poll continues after a crash. Rows of items stay, so that
 * lost ones are still deleted. With another key the rows are removed, and deliveries that have not arrived end:
 * everything is sent under the new key, and they would follow with earlier content.
 */
export async function forgetItems(
  deps: Pick<PollDeps, 'database' | 'now'>,
  runtime: Pick<FlowRuntime, 'flow' | 'itemForm'>,
  lease: HeldLease,
  state: FlowStateRow,
  limit = rowsAtOnce,
): Promise<void> {
  if (!state.forget_due) return
  const flow = runtime.flow.name
  const names = Object.keys(state.destination_identities).sort()
  const forget = hasOtherKey(runtime, state)
    ? async (trx: Trx, _: string, pks: readonly string[]) => {
        await deleteHashes(trx, flow, pks)
        for (const destination of names) {
          await endUnsent(trx, { flow, destination }, pks, deps.now())
        }
      }
    : resetHashes
  let after: string | undefined
  do {
    const last = after
    after = await underLease(deps, lease, async (trx) => {
      const pks = await listPksAfter(trx, flow, last, limit)
      await forget(trx, flow, pks)
      if (pks.length === limit) return pks.at(-1)
      await endForgetting(trx, flow, state.resets)
      return undefined
    })
  } while (after !== undefined)
}
