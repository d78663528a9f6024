import { addCents, negated, type StoredSum, sumCents } from './money.ts'

/** Classes of charges that the provider keeps; `payer` is paid by the buyer, and is no part of the seller's money. */
export const chargeClasses = ['fee', 'financing', 'tax', 'payer'] as const
export type ChargeClass = (typeof chargeClasses)[number]

/** A rule for the class of charges. A `*` at the end of `name` or `entity` matches any text. */
export type ClassRule = {
  name: string
  /** The financial entity of the charge; null for any. */
  entity: string | null
  chargeClass: ChargeClass
}

/** One charge of the provider on a payment. Names, details and entities are the provider's own texts. */
export type Charge = {
  name: string
  detail: string | null
  entity: string | null
  /** Who pays it (`collector`: the seller), if the provider says so. */
  from: string | null
  cents: number
}

/** A payment as the provider shows it. */
export type NettedPayment = {
  grossCents: number
  refundedCents: number
  /** What the seller receives, from the provider; null until it is known. */
  netCents: number | null
  charges: readonly Charge[]
  /** The day (`2026-12-05`) on which the money can be used. */
  releaseOn: string | null
}

/** A line of a report about a payment. Amounts are subtracted from the gross: a fee is positive here. */
export type SettledLine = {
  report: 'settlement' | 'release'
  /** Null when the report does not have it. */
  grossCents: number | null
  feeCents: number
  financingCents: number
  taxesCents: number
  /** The parts of the taxes, as far as the report names them. */
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
 * What the seller receives of a charge. It is that of the charge itself: later refunds are not subtracted. `grossCents`
 * less fee, financing, taxes and `unexplainedCents` is always `netCents`.
 */
export type Net = {
  /** From the payment's own charges, from a report that agrees with them, or from one that differs. */
  state: 'estimated' | 'settled' | 'differs'
  grossCents: StoredSum
  feeCents: StoredSum
  financingCents: StoredSum
  taxes: NamedAmount[]
  /** Charges whose names match no rule; they are part of `unexplainedCents`. */
  notClassed: NamedAmount[]
  unexplainedCents: StoredSum
  netCents: StoredSum
  releaseOn: string | null
  /** The expected amounts, if the report differs. */
  expected: { grossCents: StoredSum; netCents: StoredSum | null } | null
  /** What charge-backs took, by the reports. It is not part of the net, which is that of the charge. Absent without one. */
  chargedBack?: Disputed
}

/** Net amounts, both 0 or more. What was taken and not returned is with the buyer or the provider. */
type Disputed = { takenCents: number; returnedCents: number }

/** Movements of settlement reports about a dispute; the second means that the seller has won it. */
export const chargebackMovements = { taken: 'CHARGEBACK', returned: 'CHARGEBACK_CANCEL' } as const

/** Adds to a net what charge-backs took of it. A report may have a cancel without its charge-back: only what was taken is returned. */
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

/** The class of a charge by the most exact rule that fits; undefined when none fits. */
export function classOf(
  charge: Pick<Charge, 'name' | 'entity'>,
  rules: readonly ClassRule[],
): ChargeClass | undefined {
  let best: { rule: ClassRule; exactness: number } | undefined
  for (const rule of rules) {
    const byName = exactnessOf(rule.name, charge.name)
    const byEntity = rule.entity === null ? 0 : exactnessOf(rule.entity, charge.entity ?? '')
    if (byName === undefined || byEntity === undefined) continue
    // Entities are shorter than this, so the name decides first.
    const exactness = byName * 1_000 + byEntity
    if (!best || exactness > best.exactness) best = { rule, exactness }
  }
  return best?.rule.chargeClass
}

/** How exactly a pattern fits a text; undefined when it does not. A whole text beats a prefix, a longer prefix beats a shorter one. */
function exactnessOf(pattern: string, text: string): number | undefined {
  if (!pattern.endsWith('*')) return pattern === text ? 2 * pattern.length + 1 : undefined
  const beginning = pattern.slice(0, -1)
  return text.startsWith(beginning) ? 2 * beginning.length : undefined
}

/**
 * The net of an order's payments, from their own charges and from the lines of reports about them; null while both are
 * missing. `paidCents` is the order's paid amount.
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
  // A report without fee columns adds nothing to the net.
  if (agrees && estimate && (!settled.hasParts || unexplainedCents !== 0)) {
    return { ...estimate, state: 'settled', releaseOn: settled.releaseOn ?? estimate.releaseOn }
  }
  const isShownByPayment =
    agrees && estimate && !settled.namesTaxes && sumOf(estimate.taxes) === taxesCents
  return {
    state: agrees ? 'settled' : 'differs',
    grossCents,
    feeCents,
    financingCents,
    taxes: isShownByPayment ? estimate.taxes : settled.taxes,
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
    // Right after a payment its charges and its net are missing, which would read as nothing received.
    const isShownLater = payment.netCents === 0 && payment.charges.length === 0
    if (payment.netCents === null || isShownLater) return null
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
    // It is unknown whether the provider subtracts a refund from the net of its payment: in both cases this is the net
    // of the charge.
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

/** The sums of all lines of one kind of report. */
type Settled = {
  /** Of each kind of report that has it. */
  grossCents: StoredSum[]
  netCents: StoredSum[]
  feeCents: StoredSum
  financingCents: StoredSum
  taxesCents: StoredSum
  taxes: NamedAmount[]
  namesTaxes: boolean
  /** Whether the report has the parts of the gross. */
  hasParts: boolean
  releaseOn: string | null
}

function settledOf(lines: readonly SettledLine[]): Settled | undefined {
  const kinds = (['settlement', 'release'] as const)
    .map((report) => lines.filter((line) => line.report === report))
    .filter((part) => part.length > 0)
  // The settlement report has more: its parts are shown, and only the net of the other one is compared.
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

function rest(whole: StoredSum, ...parts: readonly StoredSum[]): StoredSum {
  return addCents(whole, negated(sumCents(parts, (part) => part)))
}

function laterOf(a: string | null, b: string | null): string | null {
  if (a === null || b === null) return a ?? b
  return a > b ? a : b
}
