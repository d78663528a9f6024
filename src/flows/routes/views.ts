import type { FastifyRequest } from 'fastify'
import { type StoredReason, sentenceOf, shownReason } from '../../domain/flow-reasons.ts'
import { type Language, preferredLanguage } from '../../domain/language.ts'
import { problemTexts } from '../definition/read-flow.ts'
import type { FlowProblemView, SyncOutcome } from '../flow-service.ts'

/** The language of the caller. */
export function languageOf(request: Pick<FastifyRequest, 'headers'>): Language {
  return preferredLanguage(request.headers['accept-language'])
}

/** A problem of a definition. `why` has its text in the reader's language. */
export function viewProblem({ advice, ...problem }: FlowProblemView, language: Language) {
  const { code, data = {} }: StoredReason = problem.why
  return { ...problem, why: { code, data, ...problemTexts({ ...problem, advice }, language) } }
}

/** The result of a requested poll; for a paused flow the decision that it waits for. */
export function viewSynced<T extends SyncOutcome>({ why, ...outcome }: T, language: Language) {
  if (!why) return outcome
  const reason = sentenceOf(why, 'en')
  return { ...outcome, ...(reason !== undefined && { reason }), why: shownReason(why, language) }
}
