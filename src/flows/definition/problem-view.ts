import type { Language } from '../../texts/language.ts'
import { hintOf, type Reason, ReasonError, sentenceOf } from '../../texts/reason.ts'
import type { FlowProblemView } from '../api/control-types.ts'
import type { PlacedFinding } from './findings.ts'

/** A problem for display, with its English sentences. */
export function problemOf(file: string, { why, hint, ...place }: PlacedFinding): FlowProblemView {
  const { key, line, column } = place
  const sentences = problemTexts({ why, advice: hint }, 'en')
  return { file, line, column, key, ...sentences, why, advice: hint }
}

/** The problem of a valid definition that cannot be opened. */
export function openingProblem(file: string, error: unknown): FlowProblemView {
  const said = error instanceof Error ? error.message : String(error)
  const why: Reason =
    error instanceof ReasonError ? error.why : { code: 'DEFINITION_UNUSABLE', data: { said } }
  return problemOf(file, { line: 1, column: 1, key: '', why })
}

/** The sentences of a problem in a language. */
export function problemTexts(
  { why, advice }: Pick<FlowProblemView, 'why' | 'advice'>,
  language: Language,
): { message: string; hint: string | null } {
  const hint = advice ? sentenceOf(advice, language) : hintOf(why, language)
  return { message: sentenceOf(why, language), hint }
}
