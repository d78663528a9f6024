import type { QuestionAnswer } from '../../db/column-types.ts'
import type { Trx } from '../../db/database.ts'
import {
  requestFullScan,
  requireFlowState,
  storeAnswer,
} from '../../repositories/flows/flow-state.ts'
import { findMissed } from '../../repositories/flows/missing-items.ts'
import { controlError } from '../control-errors.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { recordAction, type SwitchDeps } from '../poll/pauses-and-limits.ts'
import { questionState } from '../poll/poll-plan.ts'

/** `pks`: the missing items that the answer concerns, without it all. */
export type GivenAnswer = {
  number: number
  answer: QuestionAnswer
  pks?: readonly string[] | undefined
}

/**
 * Stores an operator's answer to the question of this number. Throws CONFLICT if it is not asked any more, and BAD_REQUEST if it
 * cannot be answered for these items.
 */
export async function answerQuestion(
  deps: SwitchDeps,
  runtime: FlowRuntime,
  { number, answer, pks }: GivenAnswer,
  actor: string,
): Promise<void> {
  const at = deps.now()
  const { name: flow } = runtime.flow
  await deps.database.transaction(async (trx) => {
    const state = await requireFlowState(trx, flow)
    const isAsked = questionState(runtime, state) === 'asked'
    if (isAsked && pks) await refuseOthers(trx, flow, pks, state.question?.definition)
    const items = pks && { pks: [...new Set(pks)] }
    if (!isAsked || !(await storeAnswer(trx, flow, { number, answer, ...items }))) {
      throw controlError('CONFLICT', { code: 'QUESTION_OVER' })
    }
    // The answer about deletes is carried out by a read that misses the items too.
    if (state.question?.definition === undefined) await requestFullScan(trx, flow)
    const detail = `${answer}, number ${number}${items ? `, ${items.pks.length} items` : ''}`
    await recordAction(deps, trx, { at, flow, action: 'question answered', actor, detail })
  })
}

/** Only items that are missing can be chosen, and only where the question is about deletes. */
async function refuseOthers(
  trx: Trx,
  flow: string,
  pks: readonly string[],
  definition: string | undefined,
): Promise<void> {
  if (definition !== undefined) throw controlError('BAD_REQUEST', { code: 'ITEMS_NOT_ASKED' })
  const missed = new Set((await findMissed(trx, flow, pks)).map(({ pk }) => pk))
  const there = pks.find((pk) => !missed.has(pk))
  if (there === undefined) return
  throw controlError('BAD_REQUEST', { code: 'ITEM_NOT_MISSING', data: { pk: there } })
}
