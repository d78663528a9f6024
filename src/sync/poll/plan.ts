import { AppError } from '../../errors/app-error.ts'
import { hasCome } from '../../repositories/due-work.ts'
import { askFill } from '../../repositories/flows/destination-fills.ts'
import { deleteHashes, listPksAfter, resetHashes } from '../../repositories/flows/flow-items.ts'
import {
  type FlowStateRow,
  requestForgetting,
  requestFullScan,
  requireFlowState,
  settleForgetting,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { isPaused } from '../../repositories/flows/flow-switches.ts'
import { askAboutDefinition } from '../control/switches.ts'
import { definitionHash } from '../definition/definition-hash.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { readFrom } from './cursor.ts'
import { type PollDeps, type PollLease, underLease } from './poll-lease.ts'

/**
 * What kind of poll is due. `normal` sends changes. After the definition changed: `rebase` only learns how known items
 * look now, and sends what was never seen (a new file of news would otherwise be put away unsent) and what `tellsChanges`; `resync` forgets all
 * hashes first; `ask` reads nothing and pauses the flow, until the operator resumes or resyncs it. Destinations that were only added are filled by a `normal` one.
 */
export type Turn = 'normal' | 'rebase' | 'resync' | 'ask'

/** The turn of the next poll, of a flow that is not paused. */
export function turnOf(runtime: FlowRuntime, state: FlowStateRow): Turn {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash || addedTo(runtime, state)) return 'normal'
  // Resumed after having been asked: the operator wants no storm.
  const isAnswered = state.pending_definition_hash === definitionHash
  return isInQuestion(runtime, state) && isAnswered ? 'rebase' : flow.item.onDefinitionChange
}

/** Whether the definition is another than the accepted one, and somebody is to say what that means. */
export function isInQuestion(runtime: FlowRuntime, state: FlowStateRow): boolean {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash || addedTo(runtime, state)) return false
  return flow.item.onDefinitionChange === 'ask'
}

/** The destinations that were added, when the definition changed by nothing else; they alone are sent everything then. */
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
 * Whether a hash that is not the stored one means that the source changed. After a rebase to another form of items it may
 * be the definition's doing; one that changed only how destinations see them must not hide what happened meanwhile.
 */
export function tellsChanges(runtime: FlowRuntime, state: FlowStateRow, turn: Turn): boolean {
  return turn !== 'rebase' || formsOf(state.item_form)[0] === formsOf(runtime.itemForm)[0]
}

/**
 * Whether an item that was never seen is news. After a rebase to another key they all look like that, and what is stored goes
 * by names that nothing has any longer.
 */
export function tellsNews(runtime: FlowRuntime, state: FlowStateRow, turn: Turn): boolean {
  return turn !== 'rebase' || !hasOtherKey(runtime, state)
}

/** Whether what is stored goes by another key than the definition's, as far as that is known. */
export function hasOtherKey(
  { itemForm }: Pick<FlowRuntime, 'itemForm'>,
  { item_form }: Pick<FlowStateRow, 'item_form'>,
): boolean {
  const [before, now] = [formsOf(item_form)[1], formsOf(itemForm)[1]]
  return before !== undefined && before !== now
}

/** How items look, and under which key they go; the second is not known of what was stored before it was written down. */
function formsOf(itemForm: string | null): (string | undefined)[] {
  return itemForm?.split('/') ?? []
}

/** A full scan of the future, by more than clocks differ, was made before the clock was set back. */
const clockRoomMs = 60_000

/** How far a poll reads: `since` is where it begins, null for the beginning. */
export type ScanPlan = { isFull: boolean; since: string | null }

/** The scan of a poll that reads. */
export function planScan(
  runtime: FlowRuntime,
  state: FlowStateRow,
  turn: Exclude<Turn, 'ask'>,
  now: Date,
): ScanPlan {
  const { cursor } = state
  if (turn !== 'normal' || cursor === null || mustReadAll(runtime, state, now)) {
    return { isFull: true, since: null }
  }
  return { isFull: false, since: readFrom(cursor, runtime.cursor?.overlapMs ?? 0) }
}

function mustReadAll(runtime: FlowRuntime, state: FlowStateRow, now: Date): boolean {
  const { cursor, fullScanEveryMs } = runtime
  if (!cursor || state.full_scan_due) return true
  // Before positions had an origin, they came from the source there is.
  if (state.cursor_origin !== null && state.cursor_origin !== cursor.origin) return true
  const last = state.last_full_scan_at?.getTime() ?? 0
  if (fullScanEveryMs === undefined) return false
  return hasCome(new Date(last + fullScanEveryMs), now, fullScanEveryMs + clockRoomMs)
}

/**
 * Does what a changed definition asks for before the source is read. Answers the turn of this poll, and the state of the flow
 * as it is then.
 */
export async function settleDefinition(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: PollLease,
  state: FlowStateRow,
): Promise<{ turn: Turn; state: FlowStateRow }> {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash) return { turn: 'normal', state }
  await refuseOutdated(deps, runtime, state)
  // Only a resume answers the question: a poll that is forced while the flow is paused does not.
  const mustAsk = isInQuestion(runtime, state) && (await isPaused(deps.database.db, flow.name))
  const turn = mustAsk ? 'ask' : turnOf(runtime, state)
  const added = addedTo(runtime, state)
  if (added) {
    await underLease(deps, lease, async (trx) => {
      await updateFlowState(trx, flow.name, acceptedBy(runtime))
      for (const destination of added) await askFill(trx, { flow: flow.name, destination })
      await requestFullScan(trx, flow.name)
    })
    deps.log.info({ flow: flow.name, destinations: added }, 'a new destination is filled')
  }
  if (turn === 'resync') {
    await underLease(deps, lease, async (trx) => {
      await updateFlowState(trx, flow.name, { definition_hash: definitionHash })
      await requestForgetting(trx, flow.name)
    })
  }
  if (turn === 'ask') {
    await underLease(deps, lease, async (trx) => {
      await askAboutDefinition(trx, flow.name, { at: deps.now(), definitionHash })
    })
    deps.log.warn({ flow: flow.name }, 'the definition of a flow changed; it waits for an operator')
  }
  return { turn, state: await requireFlowState(deps.database.db, flow.name) }
}

/** What the definition says now is what counts as unchanged from now on. */
export function acceptedBy({ flow, definitionHash }: FlowRuntime) {
  return {
    definition_hash: definitionHash,
    pending_definition_hash: null,
    destinations: flow.destinations.map(({ name }) => name),
  }
}

/** Somebody goes on with a definition that this process does not know. */
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
 * Rejects when another definition than this one was accepted and the flow files do not say this one any more: what changed was
 * the files, and this process has not read them since. Without that it would take the older definition for a newer change.
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
 * As refuseOutdated, of what is owed outside of polls: what counts there is a destination that this process does not know, since
 * it would not be owed what is found. Nothing may change the flow's state until the transaction ends.
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
 * Forgets the hashes of a flow when a reset asked for it, `limit` in each transaction, under the lease of its polls: nothing
 * is read and sent meanwhile that would be forgotten too. What a crash leaves is forgotten by the next poll. The items stay
 * known, so that those the source has lost are still deleted; under another key nothing is known of them any longer.
 */
export async function forgetItems(
  deps: Pick<PollDeps, 'database' | 'now'>,
  runtime: Pick<FlowRuntime, 'flow' | 'itemForm'>,
  lease: PollLease,
  state: FlowStateRow,
  limit = rowsAtOnce,
): Promise<void> {
  if (!state.forget_due) return
  const flow = runtime.flow.name
  const forget = hasOtherKey(runtime, state) ? deleteHashes : resetHashes
  let after: string | undefined
  do {
    const last = after
    after = await underLease(deps, lease, async (trx) => {
      const pks = await listPksAfter(trx, flow, last, limit)
      await forget(trx, flow, pks)
      if (pks.length === limit) return pks.at(-1)
      await settleForgetting(trx, flow, state.resets)
      return undefined
    })
  } while (after !== undefined)
}
