import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type ClosingLine,
  type ClosingResult,
  type ClosingTotals,
  type Dismissal,
  isDifference,
  isUnknownYet,
  type LineKind,
  type LineSide,
} from '../../domain/closing.ts'
import { addCents } from '../../domain/money.ts'
import { endedUnpaid, refundWords, wentThrough } from '../../domain/order-state.ts'
import type { Outcome } from '../../errors/app-error.ts'
import type { ProviderPaymentRow } from '../../repositories/provider-payments/provider-payments.ts'

/** A charge in our order. */
export type OurCharge = {
  orderId: string
  reference: string
  cajaId: string
  sucursalId: string
  status: string
  outcome: Outcome
  /** The provider has shown a state of it that contradicts our record. */
  hasConflict: boolean
  /** A refund of unknown outcome. */
  isRefundOpen: boolean
  amountCents: number
  paidCents: number
  refundedCents: number
  method: string | null
  installments: number | null
  /** A person has decided what the provider does not show. */
  settledAs: 'paid' | 'not_paid' | null
  /** Waiting does not show its outcome: a person must look, and decide. */
  isInDoubt: boolean
  /** A person must still decide on its money. */
  undecided: 'paid_late' | 'paid_less' | 'settled_unpaid' | null
  /** The order that was charged instead of one that was paid late. */
  insteadOrderId: string | null
  /** The numbers of its payments at the provider. */
  paymentIds: readonly string[]
  createdAt: Date
}

/** A charge at the provider. Without a readable refund in the list it is unknown when its refunds were made. */
export type TheirCharge = Pick<
  ProviderPaymentRow,
  | 'payment_id'
  | 'order_id'
  | 'surplus_of'
  | 'caja_id'
  | 'status'
  | 'amount_cents'
  | 'refunded_cents'
  | 'net_cents'
  | 'method_type'
  | 'installments'
  | 'refunds'
  | 'sold_at'
>
type TheirRefund = TheirCharge['refunds'][number]

/** A charge of the span with the provider's payments of it; one side may be missing. */
export type PairedCharge = { our: OurCharge | null; theirs: readonly TheirCharge[] }

export type ClosingComparison = {
  /** What is counted in `totals`, in no order. */
  charges: PairedCharge[]
  lines: ClosingLine[]
  totals: ClosingTotals
  result: ClosingResult
}

/** A refund without a status counts as made. */
function refundState({ status }: TheirRefund): 'done' | 'failed' | 'open' {
  return status === null ? 'done' : (refundWords.get(status) ?? 'open')
}

type Span = { from: Date; to: Date }

/** 500 charges take about 3 ms of the event loop. */
const chargesOfPart = 500

/**
 * Compares the charges of a span: theirs and ours in, differences out. Reads nothing, and does not depend on the order of its
 * input. A charge belongs to the time at which the provider had its money. One that only we have belongs to the time at which it
 * was made. `cajaId` is the box of a closing of one box; null for a closing of the whole store `sucursalId`. It
 * works in parts, between which other requests go on.
 */
export async function compareCharges(input: {
  theirs: readonly TheirCharge[]
  ours: readonly OurCharge[]
  span: Span
  cajaId: string | null
  sucursalId: string
  declared: Readonly<Record<string, number>>
  /** By the number of the payment. */
  dismissed?: ReadonlyMap<string, Dismissal>
}): Promise<ClosingComparison> {
  const { span, cajaId, sucursalId, declared, dismissed = new Map<string, Dismissal>() } = input
  const isNow = (at: Date) => at >= span.from && at < span.to
  const lines: ClosingLine[] = []
  const charges: PairedCharge[] = []
  const count = createTotals(declared)
  const pairs = pairUp(input.theirs, input.ours)

  const compareOurs = (our: OurCharge) => {
    const tried = pairs.of(our)
    const paid = tried.filter(({ status }) => wentThrough(status))
    const unclear = tried.filter(
      (their) => !wentThrough(their.status) && !endedUnpaid(their.status),
    )
    const at = paid[0]?.sold_at ?? unclear[0]?.sold_at ?? our.createdAt
    const isOwn = cajaId === null ? our.sucursalId === sucursalId : our.cajaId === cajaId
    if (isOwn) for (const their of paid) count.refunds(their, isNow)
    const refundsNow = paid
      .flatMap(({ refunds }) => refunds)
      .filter(({ at }) => at !== null && isNow(new Date(at)))
    const isGivenBackNow = refundsNow.some((refund) => refundState(refund) !== 'failed')
    if (!isNow(at) && !isGivenBackNow) return
    const line = (kind: LineKind, their: TheirCharge | undefined) =>
      lines.push(lineOf(kind, our, their))
    if (isOwn && isNow(at)) {
      count.pair(our, paid)
      if (our.paidCents > 0 || paid.length > 0) charges.push({ our, theirs: paid })
    }
    const isRefundOpen =
      our.isRefundOpen || refundsNow.some((refund) => refundState(refund) === 'open')
    const isUnknown = our.outcome === 'unknown' && our.settledAs === null
    if (isUnknown || isRefundOpen || unclear.length > 0) {
      const isContradicted = our.hasConflict && paid[0] && paid[0].amount_cents !== our.amountCents
      const unknown = our.isInDoubt ? 'in_doubt' : 'pending'
      line(isContradicted ? 'amount_differs' : unknown, paid[0] ?? unclear[0])
      return
    }
    for (const [kind, their] of differencesOf(our, paid, tried[0], isNow(at))) line(kind, their)
  }

  for (const [index, our] of input.ours.entries()) {
    if (index % chargesOfPart === 0) await nextTurn()
    compareOurs(our)
  }
  for (const [index, their] of pairs.alone.entries()) {
    if (index % chargesOfPart === 0) await nextTurn()
    const isMoney = wentThrough(their.status)
    if (isMoney) count.refunds(their, isNow)
    if (!isNow(their.sold_at) || endedUnpaid(their.status)) continue
    if (isMoney) {
      count.pair(null, [their])
      charges.push({ our: null, theirs: [their] })
    }
    const dismissal = isMoney ? dismissed.get(their.payment_id) : undefined
    const kind = dismissal ? 'dismissed' : isMoney ? 'missing_here' : 'pending'
    lines.push({ ...lineOf(kind, null, their), ...(dismissal && { dismissed: dismissal }) })
  }
  lines.sort((a, b) => timeOf(a).localeCompare(timeOf(b)))
  const totals = count.totals()
  lines.push(...countedOtherwise(totals))
  return { charges, lines, totals, result: resultOf(lines) }
}

/**
 * What differs between one of our charges and the payments there that went through. `tried` is the first payment of any
 * outcome; `isNow` says whether the charge belongs to the span.
 */
function differencesOf(
  our: OurCharge,
  paid: readonly TheirCharge[],
  tried: TheirCharge | undefined,
  isNow: boolean,
): readonly (readonly [LineKind, TheirCharge | undefined])[] {
  const { undecided } = our
  const wasPaid = our.paidCents > 0
  const [their, ...more] = paid
  if (!their) {
    const isSaidPaid = wasPaid || our.settledAs === 'paid'
    return isSaidPaid ? [['missing_there', tried]] : []
  }
  if (!wasPaid) return [['missing_here', their]]
  // Further payments that were not separated yet.
  const kinds: [LineKind, TheirCharge][] = more.map((extra) => ['missing_here', extra])
  const isEqual = their.amount_cents === our.paidCents && their.refunded_cents === our.refundedCents
  if (!isEqual) kinds.push(['amount_differs', their])
  if (isOtherMedium(our.method, their.method_type)) kinds.push(['other_medium', their])
  if (their.caja_id !== null && their.caja_id !== our.cajaId) kinds.push(['other_box', their])
  if (undecided !== null && undecided !== 'settled_unpaid' && isNow) kinds.push([undecided, their])
  return kinds
}

function timeOf({ here, there }: ClosingLine): string {
  return (there ?? here)?.at ?? ''
}

/** A line for each means of payment that was counted, and otherwise than charged. */
function countedOtherwise({ media }: ClosingTotals): ClosingLine[] {
  return media.flatMap(({ medium, declaredCents, here: { cents } }) =>
    declaredCents === null || declaredCents === cents
      ? []
      : {
          kind: 'counted_otherwise',
          orderId: null,
          paymentId: null,
          reference: null,
          here: null,
          there: null,
          counted: { medium, declaredCents, cents },
        },
  )
}

/** Agreed only when nothing is open and nothing differs without an explanation. */
function resultOf(lines: readonly ClosingLine[]): ClosingResult {
  // What is open may be what was counted otherwise.
  const isOpen = lines.some(isUnknownYet)
  const differing = lines.filter(isDifference)
  if (isOpen && differing.every(({ counted }) => counted)) return 'unverified'
  return differing.length > 0 ? 'differs' : 'agreed'
}

/** Their charges by our order: as matched when they were read, or by the number that the order names. */
function pairUp(theirs: readonly TheirCharge[], ours: readonly OurCharge[]) {
  const byNumber = new Map(ours.flatMap((our) => our.paymentIds.map((id) => [id, our.orderId])))
  const known = new Set(ours.map(({ orderId }) => orderId))
  const byOrder = new Map<string, TheirCharge[]>()
  const alone: TheirCharge[] = []
  for (const their of theirs) {
    const orderId = byNumber.get(their.payment_id) ?? their.order_id
    if (orderId === null || !known.has(orderId)) alone.push(their)
    else byOrder.set(orderId, [...(byOrder.get(orderId) ?? []), their])
  }
  return {
    alone,
    /** The one that the order names comes first. */
    of: (our: OurCharge): TheirCharge[] =>
      (byOrder.get(our.orderId) ?? []).toSorted(
        (a, b) =>
          Number(our.paymentIds.includes(b.payment_id)) -
            Number(our.paymentIds.includes(a.payment_id)) ||
          a.sold_at.getTime() - b.sold_at.getTime(),
      ),
  }
}

/**
 * Both sides name the medium of a card in the same way. For a scan one side says `qr` and the other its funding, so that is no
 * difference.
 */
function isOtherMedium(here: string | null, there: string | null): boolean {
  if (here === null || there === null || here === 'qr' || there === 'qr') return false
  return here !== there
}

function lineOf(
  kind: LineKind,
  our: OurCharge | null,
  their: TheirCharge | undefined,
): ClosingLine {
  const here: LineSide | null = our && {
    cents: our.paidCents > 0 ? our.paidCents : our.amountCents,
    refundedCents: our.refundedCents,
    method: our.method,
    status: our.status,
    cajaId: our.cajaId,
    at: our.createdAt.toISOString(),
  }
  const there: LineSide | null = their
    ? {
        cents: their.amount_cents,
        refundedCents: their.refunded_cents,
        method: their.method_type,
        status: their.status,
        cajaId: their.caja_id,
        at: their.sold_at.toISOString(),
      }
    : null
  // A further payment of an order, while it belongs to no order itself.
  const surplusOf = their?.order_id === null ? their.surplus_of : null
  return {
    kind,
    orderId: our?.orderId ?? surplusOf,
    paymentId: their?.payment_id ?? our?.paymentIds[0] ?? null,
    reference: our?.reference ?? null,
    here,
    there,
    ...(kind === 'paid_late' && { insteadOrderId: our?.insteadOrderId ?? null }),
  }
}

type Sum = ClosingTotals['refunds']

function createTotals(declared: Readonly<Record<string, number>>) {
  const here: ClosingTotals['here'] = { count: 0, cents: 0, refundedCents: 0 }
  const there: ClosingTotals['there'] = { count: 0, cents: 0, refundedCents: 0, netCents: 0 }
  const refunds: Sum = { count: 0, cents: 0 }
  const media = new Map<string, ClosingTotals['media'][number]>()
  const installments = new Map<number, Sum>()
  const mediumOf = (medium: string) => {
    const entry = media.get(medium) ?? {
      medium,
      here: { count: 0, cents: 0 },
      there: { count: 0, cents: 0 },
      declaredCents: null,
    }
    media.set(medium, entry)
    return entry
  }
  const add = (sum: Sum, cents: number) => {
    sum.count += 1
    sum.cents = addCents(sum.cents, cents)
  }
  for (const [medium, cents] of Object.entries(declared)) mediumOf(medium).declaredCents = cents
  return {
    /** A charge of this span: our side of it, and theirs. */
    pair(our: OurCharge | null, paid: readonly TheirCharge[]) {
      const medium = our?.method ?? paid[0]?.method_type ?? 'unknown'
      if (our && our.paidCents > 0) {
        add(here, our.paidCents)
        here.refundedCents = addCents(here.refundedCents, our.refundedCents)
        add(mediumOf(medium).here, our.paidCents)
      }
      for (const their of paid) {
        const cents = their.amount_cents ?? 0
        add(there, cents)
        there.refundedCents = addCents(there.refundedCents, their.refunded_cents)
        there.netCents =
          there.netCents === null || their.net_cents === null
            ? null
            : addCents(there.netCents, their.net_cents)
        add(mediumOf(our ? medium : (their.method_type ?? 'unknown')).there, cents)
        const plan = their.installments ?? our?.installments ?? 1
        const entry = installments.get(plan) ?? { count: 0, cents: 0 }
        add(entry, cents)
        installments.set(plan, entry)
      }
    },
    refunds(their: TheirCharge, isNow: (at: Date) => boolean) {
      for (const refund of their.refunds) {
        const { amount, at } = refund
        const isMade = at !== null && isNow(new Date(at)) && refundState(refund) === 'done'
        if (isMade) add(refunds, amount.cents ?? 0)
      }
    },
    totals: (): ClosingTotals => ({
      here,
      there,
      media: [...media.values()].sort((a, b) => a.medium.localeCompare(b.medium)),
      installments: [...installments]
        .map(([plan, sum]) => ({ installments: plan, ...sum }))
        .sort((a, b) => a.installments - b.installments),
      refunds,
    }),
  }
}
