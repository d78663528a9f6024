import type { FastifyRequest } from 'fastify'
import { type StoredReason, sentenceOf, shownReason } from '../../domain/flow-reasons.ts'
import { type Language, preferredLanguage } from '../../domain/language.ts'
import type { SendStop } from '../../repositories/flows/send-stops.ts'
import { problemTexts } from '../definition/read-flow.ts'
import type { FlowProblemView, Sending, SyncOutcome } from '../flow-service.ts'

/** The language of the caller. */
export function languageOf(request: Pick<FastifyRequest, 'headers'>): Language {
  return preferredLanguage(request.headers['accept-language'])
}

export function viewSending(
  { state, cause, why, since, nextAttemptAt, stop }: Sending,
  language: Language,
) {
  return {
    state,
    cause,
    why: shownReason(why, language),
    since: since?.toISOString() ?? null,
    next_attempt_at: nextAttemptAt?.toISOString() ?? null,
    stop: stop && viewStop(stop),
  }
}

export function viewStop({ flow, destination, since, by, reason }: SendStop) {
  return { flow, destination, since: since.toISOString(), by, reason }
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
