import type { ClosingLine, LineKind } from '../../domain/closing.ts'
import type { Language } from '../../texts/language.ts'
import { filled, textIn } from '../../texts/texts.ts'

/** What a person should do about a line; a till may show its own text for each. */
export const lineActions = [
  'adopt_or_refund',
  'call_supervisor',
  'compare_receipts',
  'correct_medium',
  'correct_box',
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
  pending: 'wait',
  dismissed: 'none',
}

/** The sentence of a line, and what to do. */
export function adviseOnLine(
  { kind, dismissed }: Pick<ClosingLine, 'kind' | 'dismissed'>,
  language: Language,
): { message: string; action: LineAction } {
  const by = dismissed?.by
  const who =
    by?.kind === 'administrator'
      ? textIn(language, 'closing.by_administrator')
      : (by?.name ?? undefined)
  const reason = dismissed?.reason.trim().replace(/\.$/, '')
  return {
    message: filled(language, `closing.line.${kind}`, { who, reason }),
    action: actions[kind],
  }
}
