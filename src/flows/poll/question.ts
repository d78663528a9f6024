import type { QuestionAnswer, StoredQuestion } from '../../db/column-types.ts'
import type { Trx } from '../../db/database.ts'
import { type HeldLease, underLease } from '../../jobs/with-lease.ts'
import { forgetDeliveredItems, keepAsDelivered } from '../../repositories/flows/asked-deliveries.ts'
import { forgetDeliveries } from '../../repositories/flows/deliveries.ts'
import { wakeDestination } from '../../repositories/flows/flow-events.ts'
import { deleteHashes, listPksAfter } from '../../repositories/flows/flow-items.ts'
import {
  type FlowStateRow,
  requestFullScan,
  requireFlowState,
  updateFlowState,
} from '../../repositories/flows/flow-state.ts'
import { listMissedSince } from '../../repositories/flows/missing-items.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import type { PollDeps } from './poll-deps.ts'
import {
  acceptedBy,
  definitionDifferences,
  hasOtherKey,
  questionKey,
  questionState,
  refuseOutdated,
} from './poll-plan.ts'

type Deps = Pick<PollDeps, 'database' | 'now' | 'enqueue'>

const rowsAtOnce = 1_000

/**
 * Applies the stored answer to the question of the flow; nothing without one. Deletes are left to the next complete read, which
 * must miss the items too (sendDeletes). After a crash the answer is applied again. Returns the new state of the flow.
 */
export async function applyAnswer(
  deps: PollDeps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
): Promise<FlowStateRow> {
  const { question } = state
  if (questionState(runtime, state) !== 'answered' || !question?.answer) return state
  if (question.definition !== undefined) {
    await refuseOutdated(deps, runtime, state)
    await acceptDefinition(deps, runtime, lease, state, question.answer)
  } else if (question.answer === 'send') return state
  else await keepMissing(deps, runtime.flow.name, lease, question)
  return requireFlowState(deps.database.db, runtime.flow.name)
}

/** Forgets the items whose deletes were asked about: they stay at the destinations. The next complete read asks about others. */
async function keepMissing(
  deps: Deps,
  flow: string,
  lease: HeldLease,
  question: StoredQuestion,
): Promise<void> {
  await forget(deps, flow, lease, (trx, limit) => listMissedSince(trx, flow, question, limit))
  await underLease(deps, lease, async (trx) => {
    const isOfAll = question.pks === undefined
    await updateFlowState(trx, flow, { question: null, ...(isOfAll && { holds_deletes: false }) })
    await requestFullScan(trx, flow)
  })
}

/** Stores the answer of an operator who wants everything sent again, whatever a comparison would find. */
export async function acceptUnasked(
  { database }: Pick<PollDeps, 'database'>,
  runtime: FlowRuntime,
): Promise<void> {
  const { name } = runtime.flow
  await database.transaction(async (trx) => {
    const state = await requireFlowState(trx, name)
    const definition = questionKey(runtime)
    const compared = questionState(runtime, state) === 'asked' ? state.question : undefined
    const question = { definition, number: 0, ...compared, answer: 'send_without_deletes' as const }
    await updateFlowState(trx, name, { question })
  })
}

/**
 * Accepts the definition. Until the last transaction its destinations are sent nothing, so that each step may be repeated.
 *
 * `send` sends what waits, and lets what the comparison missed be deleted; `send_without_deletes` forgets that, as does
 * `keep`, which also takes what waits because of the definition for delivered. Changes of the source are sent after any answer.
 */
async function acceptDefinition(
  deps: Deps,
  runtime: FlowRuntime,
  lease: HeldLease,
  state: FlowStateRow,
  answer: QuestionAnswer,
): Promise<void> {
  const { name: flow, destinations, deletes } = runtime.flow
  const write = <T>(work: (trx: Trx) => Promise<T>) => underLease(deps, lease, work)
  const untilNone = async (work: (trx: Trx) => Promise<boolean>) => {
    while (await write(work));
  }
  const differences = await definitionDifferences(deps.database.db, runtime, state)
  if (answer === 'keep') {
    const page = { limit: rowsAtOnce, at: deps.now() }
    await untilNone((trx) => keepAsDelivered(trx, flow, page))
  } else {
    for (const { destination, how } of differences) {
      if (how !== 'moved') continue
      await untilNone((trx) => forgetDeliveredItems(trx, { flow, destination }, rowsAtOnce))
    }
  }
  const { number, missing = 0, askedAt } = state.question ?? {}
  const isMissing = number !== undefined && missing > 0
  const areDeleted = isMissing && answer === 'send' && deletes.mode === 'delete'
  if (isMissing && !areDeleted) {
    await forget(deps, flow, lease, (trx, limit) => listMissedSince(trx, flow, { number }, limit))
  }
  // Without a comparison nothing tells which items of the former key are missing.
  if (number === 0 && hasOtherKey(runtime, state)) {
    await forget(deps, flow, lease, (trx, limit) => listPksAfter(trx, flow, undefined, limit))
  }
  await write(async (trx) => {
    const accepted = acceptedBy(runtime, state)
    if (areDeleted) {
      const isOtherKey = differences.some((one) => one.how === 'changed' && one.parts.has('key'))
      accepted.question = { number, missing, answer, isOtherKey, ...(askedAt && { askedAt }) }
      await requestFullScan(trx, flow)
    }
    await updateFlowState(trx, flow, accepted)
    for (const { name: destination } of destinations) {
      wakeDestination(deps.database, { flow, destination })
    }
  })
}

/** Forgets items without deleting them anywhere. `list` gives the first ones that are left. */
async function forget(
  deps: Deps,
  flow: string,
  lease: HeldLease,
  list: (trx: Trx, limit: number) => Promise<string[]>,
): Promise<void> {
  const { destination_identities: known } = await requireFlowState(deps.database.db, flow)
  const destinations = Object.keys(known).sort()
  let isLeft = true
  while (isLeft) {
    isLeft = await underLease(deps, lease, async (trx) => {
      const pks = await list(trx, rowsAtOnce)
      await deleteHashes(trx, flow, pks)
      // Their identities are free for other items. What is remembered of them stays, in case they return.
      for (const destination of destinations) {
        await forgetDeliveries(trx, { flow, destination }, pks)
      }
      return pks.length === rowsAtOnce
    })
  }
}
