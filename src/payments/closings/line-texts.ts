import type { ClosingLine, LineKind } from '../../domain/closing.ts'
import { pointFromCents, type StoredSum } from '../../domain/money.ts'
import type { Language } from '../../texts/language.ts'
import { localAmount } from '../../texts/local-amount.ts'
import { filled, isTextKey, textIn } from '../../texts/texts.ts'

/** What a person should do about a line; a till may show its own text for each. */
export const lineActions = [
  'adopt_or_refund',
  'call_supervisor',
  'compare_receipts',
  'correct_medium',
  'correct_box',
  'count_again',
  'decide',
  'wait',
  'none',
] as const
type LineAction = (typeof lineActions)[number]

/** Its text has the key `closing.line.` and the kind. */
const actions: Record<LineKind, LineAction> = {
  missing_here: 'adopt_or_refund',
  missing_there: 'call_supervisor',
  amount_differs: 'compare_receipts',
  other_medium: 'correct_medium',
  other_box: 'correct_box',
  paid_late: 'call_supervisor',
  paid_less: 'call_supervisor',
  counted_otherwise: 'count_again',
  in_doubt: 'decide',
  pending: 'wait',
  dismissed: 'none',
}

/** A means of payment in words; one that is not known as the provider names it. */
export function methodWord(method: string | null, language: Language): string {
  const key = `closing.method.${method}`
  return isTextKey(key) ? textIn(language, key) : (method ?? '')
}

/** The sentence of a line, and what to do. */
export function adviseOnLine(
  { kind, dismissed, counted }: Pick<ClosingLine, 'kind' | 'dismissed' | 'counted'>,
  language: Language,
): { message: string; action: LineAction } {
  const by = dismissed?.by
  const who =
    by?.kind === 'administrator'
      ? textIn(language, 'closing.by_administrator')
      : (by?.name ?? undefined)
  const reason = dismissed?.reason.trim().replace(/\.$/, '')
  const amount = (cents: StoredSum) => localAmount(pointFromCents(cents), language)
  const sums = counted && {
    medium: methodWord(counted.medium, language),
    declared: amount(counted.declaredCents),
    charged: amount(counted.cents),
  }
  return {
    message: filled(language, `closing.line.${kind}`, { who, reason, ...sums }),
    action: actions[kind],
  }
}
