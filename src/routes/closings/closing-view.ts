import type { z } from 'zod'
import type { ClosingLine, ClosingTotals, LineSide } from '../../domain/closing.ts'
import { snakeCased } from '../../domain/field-names.ts'
import { addCents, negated, pointFromCents, signedPointFromCents } from '../../domain/money.ts'
import type { Uncovered } from '../../payments/closings/closing-span.ts'
import { adviseOnLine } from '../../payments/closings/line-texts.ts'
import type { AmendmentRow, ClosingRow } from '../../repositories/closings/closing-queries.ts'
import type { Language } from '../../texts/language.ts'
import type { AmendmentResponse, ClosingResponse } from './closing-schemas.ts'

export type ClosingView = z.input<typeof ClosingResponse>
export type LineView = ClosingView['lines'][number]

/** A closing without its lines. */
export function viewClosing(closing: ClosingRow) {
  return {
    ...closing,
    from: closing.from_at,
    to: closing.to_at,
    totals: closing.totals && viewTotals(closing.totals),
  }
}

export function viewOpened({
  closing,
  uncovered,
}: {
  closing: ClosingRow
  uncovered: Uncovered | undefined
}) {
  return { ...viewClosing(closing), ...(uncovered && { uncovered: snakeCased(uncovered) }) }
}

export function viewWholeClosing(
  closing: ClosingRow,
  amendments: readonly AmendmentRow[],
  language: Language,
): ClosingView {
  return {
    ...viewClosing(closing),
    lines: closing.lines.map((line) => viewLine(line, language)),
    amendments: amendments.map((amendment) => viewAmendment(amendment, language)),
  }
}

export function viewAmendment(
  amendment: AmendmentRow,
  language: Language,
): z.input<typeof AmendmentResponse> {
  return {
    ...amendment,
    totals: viewTotals(amendment.totals),
    lines: amendment.lines.map((line) => viewLine(line, language)),
  }
}

function viewLine(line: ClosingLine, language: Language): LineView {
  return {
    kind: line.kind,
    order_id: line.orderId,
    payment_id: line.paymentId,
    external_reference: line.reference,
    here: viewSide(line.here),
    there: viewSide(line.there),
    charged_instead: line.insteadOrderId ?? null,
    counted: line.counted
      ? {
          medium: line.counted.medium,
          declared: pointFromCents(line.counted.declaredCents),
          charged: pointFromCents(line.counted.cents),
        }
      : null,
    dismissed: line.dismissed ?? null,
    ...adviseOnLine(line, language),
  }
}

function viewSide(side: LineSide | null): LineView['here'] {
  return (
    side && {
      amount: side.cents === null ? null : pointFromCents(side.cents),
      refunded: pointFromCents(side.refundedCents),
      method: side.method,
      status: side.status,
      caja_id: side.cajaId,
      at: side.at,
    }
  )
}

function viewTotals(totals: ClosingTotals): NonNullable<ClosingView['totals']> {
  const sum = ({ count, cents }: ClosingTotals['refunds']) => ({
    count,
    amount: pointFromCents(cents),
  })
  const { here, there } = totals
  const net = there.netCents === null ? null : signedPointFromCents(there.netCents)
  return {
    here: { ...sum(here), refunded: pointFromCents(here.refundedCents) },
    there: { ...sum(there), refunded: pointFromCents(there.refundedCents), net },
    media: totals.media.map((entry) => ({
      medium: entry.medium,
      here: sum(entry.here),
      there: sum(entry.there),
      declared: entry.declaredCents === null ? null : pointFromCents(entry.declaredCents),
      difference:
        entry.declaredCents === null
          ? null
          : signedPointFromCents(addCents(entry.declaredCents, negated(entry.here.cents))),
    })),
    installments: totals.installments.map(({ installments, ...rest }) => ({
      installments,
      ...sum(rest),
    })),
    refunds: sum(totals.refunds),
    net,
  }
}
