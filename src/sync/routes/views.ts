import type { FastifyRequest } from 'fastify'
import { type Reason, type StoredReason, sentenceOf } from '../../domain/flow-reasons.ts'
import { type Language, preferredLanguage } from '../../domain/language.ts'
import type { Sending, SyncOutcome } from '../flow-service.ts'

/** The language of whoever asks. */
export function languageOf(request: Pick<FastifyRequest, 'headers'>): Language {
  return preferredLanguage(request.headers['accept-language'])
}

/** A reason with its sentence in the reader's language; null where only a sentence was recorded. */
export function viewReason(why: Reason | StoredReason | null, language: Language) {
  if (why === null) return null
  const { code, data = {} }: StoredReason = why
  return { code, data, message: sentenceOf(why as StoredReason, language) ?? null }
}

export function viewSending(
  { state, cause, why, since, nextAttemptAt }: Sending,
  language: Language,
) {
  return {
    state,
    cause,
    why: viewReason(why, language),
    since: since?.toISOString() ?? null,
    next_attempt_at: nextAttemptAt?.toISOString() ?? null,
  }
}

/** What a poll that was asked for has found; of a paused flow what it waits to be told. */
export function viewSynced<T extends SyncOutcome>({ why, ...outcome }: T, language: Language) {
  if (!why) return outcome
  const reason = sentenceOf(why, 'en')
  return { ...outcome, ...(reason !== undefined && { reason }), why: viewReason(why, language) }
}
