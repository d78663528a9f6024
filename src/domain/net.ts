import { addCents, negated, type StoredSum, sumCents } from './money.ts'

/** What a charge that the provider keeps from the seller is; `payer`: it is the buyer's, and no part of the seller's money. */
export const chargeClasses = ['fee', 'financing', 'tax', 'payer'] as const
export type ChargeClass = (typeof chargeClasses)[number]

/** A row of the table that says what charges are. A `*` at the end of `name` or `entity` stands for any text. */
export type ClassRule = {
  name: string
  /** The financial entity that the charge must name; null when any will do. */
  entity: string | null
  chargeClass: ChargeClass
}

/** One charge of the provider on a payment. Names, details and entities are the provider's own texts. */
export type Charge = {
  name: string
  detail: string | null
  entity: string | null
  /** Who pays it (`collector`: the seller), where the provider says so. */
  from: string | null
  cents: number
}

/** A payment as the provider shows it. */
export type NettedPayment = {
  grossCents: number
  refundedCents: number
  /** What the provider says the seller receives; null while it does not. */
  netCents: number | null
  charges: readonly Charge[]
  /** The day (`2026-12-05`) on which the money can be used. */
  releaseOn: string | null
}

/** A line of a report about a payment, as amounts that are taken off the gross: a fee is positive here. */
export type SettledLine = {
  report: 'settlement' | 'release'
  /** null when the report does not say. */
  grossCents: number | null
  feeCents: number
  financingCents: number
  taxesCents: number
  /** What the taxes are made of, as far as the report says. */
  taxes: readonly NamedAmount[]
  netCents: number
  releaseOn: string | null
}

export type NamedAmount = {
  name: string
  detail: string | null
  entity: string | null
  cents: StoredSum
}

/**
 * What a charge leaves to the seller. It is that of the charge itself: what is given back later is not taken off.
 * `grossCents` less fee, financing, taxes and `unexplainedCents` is `netCents`, always.
 */
export type Net = {
  /** By the payment's own charges, by a report that agrees with them, or by one that does not. */
  state: 'estimated' | 'settled' | 'differs'
  grossCents: StoredSum
  feeCents: StoredSum
  financingCents: StoredSum
  taxes: NamedAmount[]
  /** Charges whose names no rule knows; they are part of what is unexplained. */
  notClassed: NamedAmount[]
  unexplainedCents: StoredSum
  netCents: StoredSum
  releaseOn: string | null
  /** What was to be expected, where the report differs. */
  expected: { grossCents: StoredSum; netCents: StoredSum | null } | null
  /** What charge-backs took, as reports say it. No part of the net: it is that of the charge. Absent without one. */
  chargedBack?: Disputed
}

/** Net amounts, both 0 or more. What was taken and not returned is with the buyer, or held by the provider. */
export type Disputed = { takenCents: number; returnedCents: number }

/** Movements of settlement reports about a dispute: the second states that the seller has won it. */
export const chargebackMovements = { taken: 'CHARGEBACK', returned: 'CHARGEBACK_CANCEL' } as const

/**
 * A net with what charge-backs took of it. A cancel may be in a report without its charge-back: nothing is returned that was not
 * taken.
 */
export function netWithDisputes(
  net: Net | null,
  movements: readonly { type: string; netCents: number }[],
): Net | null {
  const sumOfType = (wanted: string) =>
    movements.reduce((sum, { type, netCents }) => sum + (type === wanted ? netCents : 0), 0)
  const takenCents = 0 - sumOfType(chargebackMovements.taken)
  if (net === null || takenCents <= 0) return net
  const returnedCents = Math.min(takenCents, sumOfType(chargebackMovements.returned))
  return { ...net, chargedBack: { takenCents, returnedCents } }
}

/** The class of a charge by the most exact rule that fits; undefined when there is none. */
export function classOf(
  charge: Pick<Charge, 'name' | 'entity'>,
  rules: readonly ClassRule[],
): ChargeClass | undefined {
  let best: { rule: ClassRule; exactness: number } | undefined
  for (const rule of rules) {
    const byName = exactnessOf(rule.name, charge.name)
    const byEntity = rule.entity === null ? 0 : exactnessOf(rule.entity, charge.entity ?? '')
    if (byName === undefined || byEntity === undefined) continue
    // No entity is longer than this, so that the name decides first.
    const exactness = byName * 1_000 + byEntity
    if (!best || exactness > best.exactness) best = { rule, exactness }
  }
  return best?.rule.chargeClass
}

/** How exactly a pattern fits a text, undefined when it does not: a whole text before any beginning, a longer one first. */
function exactnessOf(pattern: string, text: string): number | undefined {
  if (!pattern.endsWith('*')) return pattern === text ? 2 * pattern.length + 1 : undefined
  const beginning = pattern.slice(0, -1)
  return text.startsWith(beginning) ? 2 * beginning.length : undefined
}

/**
 * The net of an order's payments by their own charges, and by the lines of reports about them; null while neither is
 * known. `paidCents` is what the order says was paid.
 */
export function netOf(
  paidCents: number,
  payments: readonly NettedPayment[],
  lines: readonly SettledLine[],
  rules: readonly ClassRule[],
): Net | null {
  const estimate = estimateOf(payments, rules)
  const settled = settledOf(lines)
  if (!settled) return estimate
  const expectedGross = estimate?.grossCents ?? paidCents
  const expectedNet = estimate?.netCents ?? null
  const agrees =
    settled.grossCents.every((cents) => cents === expectedGross) &&
    settled.netCents.every((cents) => cents === (expectedNet ?? settled.netCents[0]))
  const grossCents = settled.grossCents[0] ?? expectedGross
  const netCents = settled.netCents[0] ?? 0
  const { feeCents, financingCents, taxesCents } = settled
  const unexplainedCents = rest(grossCents, feeCents, financingCents, taxesCents, netCents)
  // A report without the columns of fees says no more than the net.
  if (agrees && estimate && (!settled.hasParts || unexplainedCents !== 0)) {
    return { ...estimate, state: 'settled', releaseOn: settled.releaseOn ?? estimate.releaseOn }
  }
  const isToldByPayment =
    agrees && estimate && !settled.namesTaxes && sumOf(estimate.taxes) === taxesCents
  return {
    state: agrees ? 'settled' : 'differs',
    grossCents,
    feeCents,
    financingCents,
    taxes: isToldByPayment ? estimate.taxes : settled.taxes,
    notClassed: [],
    unexplainedCents,
    netCents,
    releaseOn: settled.releaseOn ?? estimate?.releaseOn ?? null,
    expected: agrees ? null : { grossCents: expectedGross, netCents: expectedNet },
  }
}

function estimateOf(payments: readonly NettedPayment[], rules: readonly ClassRule[]): Net | null {
  if (payments.length === 0) return null
  const net: Net = {
    state: 'estimated',
    grossCents: 0,
    feeCents: 0,
    financingCents: 0,
    taxes: [],
    notClassed: [],
    unexplainedCents: 0,
    netCents: 0,
    releaseOn: null,
    expected: null,
  }
  for (const payment of payments) {
    // Right after a payment its charges and its net are not there yet, which reads as nothing received.
    const isToldLater = payment.netCents === 0 && payment.charges.length === 0
    if (payment.netCents === null || isToldLater) return null
    let chargedCents: StoredSum = 0
    for (const charge of payment.charges) {
      if (charge.cents === 0 || (charge.from !== null && charge.from !== 'collector')) continue
      const chargeClass = classOf(charge, rules)
      if (chargeClass === 'payer') continue
      chargedCents = addCents(chargedCents, charge.cents)
      const { name, detail, entity, cents } = charge
      if (chargeClass === 'fee') net.feeCents = addCents(net.feeCents, cents)
      else if (chargeClass === 'financing') net.financingCents = addCents(net.financingCents, cents)
      else if (chargeClass === 'tax') net.taxes.push({ name, detail, entity, cents })
      else net.notClassed.push({ name, detail, entity, cents })
    }
    const { grossCents, refundedCents } = payment
    const before = rest(grossCents, chargedCents)
    // Whether the provider takes a refund off the net of its payment is not known: either way it is that of the charge.
    const isAfterRefund = refundedCents > 0 && payment.netCents === rest(before, refundedCents)
    net.grossCents = addCents(net.grossCents, grossCents)
    net.netCents = addCents(net.netCents, isAfterRefund ? before : payment.netCents)
    net.releaseOn = laterOf(net.releaseOn, payment.releaseOn)
  }
  net.unexplainedCents = rest(
    net.grossCents,
    net.feeCents,
    net.financingCents,
    sumOf(net.taxes),
    net.netCents,
  )
  return net
}

/** What all lines of one kind of report say together. */
type Settled = {
  /** Of each kind of report that says so. */
  grossCents: StoredSum[]
  netCents: StoredSum[]
  feeCents: StoredSum
  financingCents: StoredSum
  taxesCents: StoredSum
  taxes: NamedAmount[]
  namesTaxes: boolean
  /** Whether the report says what the gross is made of. */
  hasParts: boolean
  releaseOn: string | null
}

function settledOf(lines: readonly SettledLine[]): Settled | undefined {
  const kinds = (['settlement', 'release'] as const)
    .map((report) => lines.filter((line) => line.report === report))
    .filter((part) => part.length > 0)
  // The settlement report says more: its parts are told, the other one's net only compared.
  const [first] = kinds
  if (!first) return undefined
  const sum = (part: readonly SettledLine[], of: (line: SettledLine) => number | null) =>
    sumCents(part, (line) => of(line) ?? 0)
  const taxesCents = sum(first, (line) => line.taxesCents)
  const named = first.flatMap((line) => line.taxes).filter(({ cents }) => cents !== 0)
  const restCents = rest(taxesCents, sumOf(named))
  const others = { name: 'taxes', detail: null, entity: null, cents: restCents }
  return {
    grossCents: kinds
      .filter((part) => part.every((line) => line.grossCents !== null))
      .map((part) => sum(part, (line) => line.grossCents)),
    netCents: kinds.map((part) => sum(part, (line) => line.netCents)),
    feeCents: sum(first, (line) => line.feeCents),
    financingCents: sum(first, (line) => line.financingCents),
    taxesCents,
    taxes: restCents === 0 ? named : [...named, others],
    namesTaxes: named.length > 0,
    hasParts: first[0]?.report === 'settlement',
    releaseOn: lines.reduce<string | null>((day, line) => laterOf(day, line.releaseOn), null),
  }
}

function sumOf(amounts: readonly { cents: StoredSum }[]): StoredSum {
  return sumCents(amounts, ({ cents }) => cents)
}

/** What is left of a sum after the parts. */
function rest(whole: StoredSum, ...parts: readonly StoredSum[]): StoredSum {
  return addCents(whole, negated(sumCents(parts, (part) => part)))
}

function laterOf(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b
  return a > b ? a : b
}
