import type { StoredQuestion } from '../../db/tables.ts'
import { type Reason, sentenceOf } from '../../domain/flow-reasons.ts'
import type { FlowStateRow } from '../../repositories/flows/flow-state.ts'
import type { FlowRuntime } from '../flow-runtime.ts'
import { questionState } from '../poll/poll-plan.ts'
import type { FlowCard, QuestionView } from './control-service-types.ts'

/** See questionState. Without a comparison there are no numbers. */
export function viewQuestion(runtime: FlowRuntime, flow: FlowStateRow): QuestionView {
  const state = questionState(runtime, flow)
  const compared = state === 'asked' || state === 'answered' ? flow.question : undefined
  const { number, askedAt, destinations, missing, ofSource, examples } = compared ?? {}
  return {
    state,
    number: number ?? null,
    askedAt: askedAt === undefined ? null : new Date(askedAt),
    destinations: destinations ?? [],
    missing: missing ?? 0,
    ofSource: ofSource ?? 0,
    examples: examples ?? [],
  }
}

/** In a sentence, with the numbers of all destinations. */
export function askedReason({ destinations = [], missing = 0 }: StoredQuestion): Reason {
  const sum = (count: (one: (typeof destinations)[number]) => number) =>
    destinations.reduce((total, one) => total + count(one), 0)
  const data = {
    new: sum((one) => one.new),
    changed: sum((one) => one.changed),
    failing: sum((one) => one.notMappable) || undefined,
    missing: missing || undefined,
  }
  return { code: 'DEFINITION_CHANGED', data }
}

/** The question as long as it has no answer. */
export function openQuestion(runtime: FlowRuntime, flow: FlowStateRow): FlowCard['question'] {
  const { question } = flow
  if (questionState(runtime, flow) !== 'asked' || question?.number === undefined) return null
  const why = askedReason(question)
  const { number, askedAt } = question
  const at = askedAt === undefined ? null : new Date(askedAt)
  return { number, reason: sentenceOf(why, 'en'), why, askedAt: at }
}
