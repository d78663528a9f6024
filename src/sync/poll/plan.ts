import { hasCome } from '../../repositories/due-work.ts'
import type { FlowStateRow } from '../../repositories/flows/flow-state.ts'
import { definitionHash } from '../definition/definition-hash.ts'
import type { Flow } from '../definition/schema.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { readFrom } from './cursor.ts'

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
