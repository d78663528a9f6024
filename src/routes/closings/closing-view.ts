import type { z } from 'zod'
import type { ClosingLine, ClosingTotals, LineSide } from '../../domain/closing.ts'
import type { Language } from '../../domain/language.ts'
import { addCents, negated, pointFromCents, signedPointFromCents } from '../../domain/money.ts'
import { adviseOnLine } from '../../payments/closings/line-texts.ts'
import type { AmendmentRow, ClosingRow } from '../../repositories/closings/closing-queries.ts'
import { iso, isoOrNull } from '../field-schemas.ts'
import type { AmendmentResponse, ClosingOpened, ClosingResponse } from './closing-schemas.ts'

export type ClosingView = z.input<typeof ClosingResponse>
export type LineView = ClosingView['lines'][number]

/** A closing without its lines. */
export function viewClosing(closing: ClosingRow) {
  return {
    id: closing.id,
    number: closing.number,
    state: closing.state,
    result: closing.result,
    reason: closing.reason,
    caja_id: closing.caja_id,
    sucursal_id: closing.sucursal_id,
    business_day: closing.business_day,
    time_zone: closing.time_zone,
    from: iso(closing.from_at),
    to: iso(closing.to_at),
    requested_from: isoOrNull(closing.requested_from),
    requested_to: isoOrNull(closing.requested_to),
    read_at: isoOrNull(closing.read_at),
    next_check_at: isoOrNull(closing.next_check_at),
    totals: closing.totals && viewTotals(closing.totals),
    created_at: iso(closing.created_at),
    signed_at: isoOrNull(closing.signed_at),
  }
}

/** The response to a request for a closing. */
export function viewOpened(closing: ClosingRow): z.input<typeof ClosingOpened> {
  const { id, number, state, business_day, from_at, to_at } = closing
  return { id, number, state, business_day, from: iso(from_at), to: iso(to_at) }
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
    id: amendment.id,
    closing_id: amendment.closing_id,
    number: amendment.number,
    reason: amendment.reason,
    result: amendment.result,
    totals: viewTotals(amendment.totals),
    lines: amendment.lines.map((line) => viewLine(line, language)),
    created_at: iso(amendment.created_at),
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
