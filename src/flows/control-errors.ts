import { AppError, type ErrorCode, type ErrorExtra } from '../errors/app-error.ts'
import type { CompleteFailure } from '../http/error-body.ts'
import { type Language, namedLanguage } from '../texts/language.ts'
import {
  isReasonCode,
  type Reason,
  type ReasonCode,
  type StoredReason,
  sentenceOf,
  shownReason,
} from '../texts/reason.ts'

type Options = { cause?: unknown; extra?: ErrorExtra }

/**
 * An error of the control API by its reason code. The answer has one field, in Spanish for a reader who asks for it.
 */
export function controlError(
  code: ErrorCode,
  why: Reason,
  { cause, extra }: Options = {},
): AppError {
  return new AppError(code, {
    message: sentenceOf(why, 'en'),
    cause,
    extra: { ...extra, said: (accepted) => spanish(why, accepted) },
  })
}

/** Like controlError, with the reason code beside the text: for an unreadable source or definition. */
export function controlErrorWithReason(code: ErrorCode, why: Reason, cause?: unknown): AppError {
  return new AppError(code, {
    message: sentenceOf(why, 'en'),
    cause,
    extra: { why: (accepted) => shownReason(why, readerLanguage(accepted)) },
  })
}

/**
 * The text of an error for readers. Without a reason it is the text of the error code; in English the more exact one
 * of the error.
 */
export const completeFailure: CompleteFailure = ({ code, details, extra }, accepted) => {
  if (extra.why) return { why: extra.why(accepted) }
  if (extra.said) return { error: extra.said(accepted) }
  const said = details?.map(({ path }) => path).join(', ')
  return { error: spanish({ ...reasonOfCode(code), ...(said && { data: { said } }) }, accepted) }
}

/** The reason of an error code. Codes of the payment API that flows cannot cause count as an internal error. */
export function reasonOfCode(code: ErrorCode): { code: ReasonCode } {
  return { code: isReasonCode(code) ? code : 'INTERNAL_ERROR' }
}

/** The language of the sentences of an answer. Programs name none and get English. */
export function readerLanguage(acceptLanguage: string | undefined): Language {
  return namedLanguage(acceptLanguage) ?? 'en'
}

/** Undefined without a request for Spanish. */
function spanish(why: StoredReason, accepted: string | undefined): string | undefined {
  return readerLanguage(accepted) === 'es' ? sentenceOf(why, 'es') : undefined
}
