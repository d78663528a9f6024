import type { FlowStateRow } from '../../repositories/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { readFrom } from './cursor.ts'

/**
 * What kind of poll is due. `normal` sends changes. After the definition changed: `rebase` only learns how known items
 * look now, and sends what was never seen (a new file of news would otherwise be put away unsent) and what `tellsChanges`; `resync` forgets all
 * hashes first; `ask` reads nothing and pauses the flow, until the operator resumes or resyncs it.
 */
export type Turn = 'normal' | 'rebase' | 'resync' | 'ask'

/** The turn of the next poll. */
export function turnOf(runtime: FlowRuntime, state: FlowStateRow): Turn {
  const { flow, definitionHash } = runtime
  if (state.definition_hash === definitionHash) return 'normal'
  const { onDefinitionChange } = flow.item
  // Resumed after having been asked: the operator wants no storm.
  const isAnswered = state.pending_definition_hash === definitionHash
  return onDefinitionChange === 'ask' && isAnswered ? 'rebase' : onDefinitionChange
}

/**
 * Whether a hash that is not the stored one means that the source changed. After a rebase to another form of items it may
 * be the definition's doing; one that changed only how destinations see them must not hide what happened meanwhile.
 */
export function tellsChanges(runtime: FlowRuntime, state: FlowStateRow, turn: Turn): boolean {
  return turn !== 'rebase' || state.item_form === runtime.itemForm
}

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
  return fullScanEveryMs !== undefined && now.getTime() - last >= fullScanEveryMs
}
