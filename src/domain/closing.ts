import type { StoredSum } from './money.ts'
import type { Who } from './who.ts'

/** What a comparison says of a closing: right to the cent, not, or that it cannot be said. */
export const closingResults = ['agreed', 'differs', 'unverified'] as const
export type ClosingResult = (typeof closingResults)[number]

/** The states of a closing: its time is not over, it is being compared, or it has its result. A signed one never changes. */
export const closingStates = ['open', 'checking', ...closingResults, 'signed'] as const
export type ClosingState = (typeof closingStates)[number]

export const lineKinds = [
  'missing_here',
  'missing_there',
  'amount_differs',
  'other_medium',
  'other_box',
  'paid_late',
  'paid_less',
  'counted_otherwise',
  'in_doubt',
  'pending',
  'dismissed',
] as const
export type LineKind = (typeof lineKinds)[number]

/** Whether the result of a line's charge is not known yet: by waiting, or by a person's decision on an order in doubt. */
export function isUnknownYet({ kind }: { kind: LineKind }): boolean {
  return kind === 'pending' || kind === 'in_doubt'
}

/** Whether a line is a difference: one that is not known yet may still agree, and a person explained a `dismissed` one. */
export function isDifference(line: { kind: LineKind }): boolean {
  return !isUnknownYet(line) && line.kind !== 'dismissed'
}

/** Means of payment of a charge; `unknown` where neither side names one. */
export const means = [
  'credit_card',
  'debit_card',
  'prepaid_card',
  'voucher_card',
  'digital_wallet',
  'bank_transfer',
  'account_money',
  'qr',
  'unknown',
] as const
export type Means = (typeof means)[number]

/** One side of a charge. `cents` is null when the provider's amount cannot be read. `at` is ISO 8601. */
export type LineSide = {
  cents: number | null
  refundedCents: number
  method: string | null
  status: string
  cajaId: string | null
  at: string
}

/** A person's word that an unclaimed payment needs no order. `by` is null where it is not known. `at` is ISO 8601. */
export type Dismissal = { by: Who | null; reason: string; at: string }

export type ClosingLine = {
  kind: LineKind
  orderId: string | null
  paymentId: string | null
  reference: string | null
  here: LineSide | null
  there: LineSide | null
  /** Of a late payment: the order that was charged instead. Absent in other lines. */
  insteadOrderId?: string | null
  /** Of a `counted_otherwise` line: what a person counted of a means of payment, and what was charged by it here. */
  counted?: { medium: string; declaredCents: number; cents: StoredSum }
  /** Of a `dismissed` line. */
  dismissed?: Dismissal
}

type SideTotals = { count: number; cents: StoredSum; refundedCents: StoredSum }

export type ClosingTotals = {
  here: SideTotals
  /** `netCents` is null until the provider returns the net of each charge. */
  there: SideTotals & { netCents: StoredSum | null }
  media: {
    medium: string
    here: { count: number; cents: StoredSum }
    there: { count: number; cents: StoredSum }
    declaredCents: number | null
  }[]
  installments: { installments: number; count: number; cents: StoredSum }[]
  /** Refunds made in this time, whenever the sale was. */
  refunds: { count: number; cents: StoredSum }
}
