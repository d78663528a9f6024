import { addCents, negated, signedPointFromCents, sumCents } from '../../domain/money.ts'
import type { sumNamedParts, sumNets } from '../../repositories/settlements/net-amount-queries.ts'
import type { SettlementFileRow } from '../../repositories/settlements/settlement-queries.ts'

/** So many names of charges are listed. */
export const mostNames = 100

export function viewFile(file: SettlementFileRow) {
  const { totals } = file
  return {
    ...file,
    totals: {
      gross: signedPointFromCents(totals.grossCents),
      fee: signedPointFromCents(totals.feeCents),
      financing: signedPointFromCents(totals.financingCents),
      taxes: signedPointFromCents(totals.taxesCents),
      net: signedPointFromCents(totals.netCents),
    },
    from: file.from_at,
    to: file.to_at,
  }
}

export function viewSpan(
  { from, to }: { from: Date; to: Date },
  sums: Awaited<ReturnType<typeof sumNets>>,
  named: Awaited<ReturnType<typeof sumNamedParts>>,
) {
  const known = sums.filter(({ state }) => state !== null)
  const unknown = sums.find(({ state }) => state === null)
  const ordersIn = (state: string) => known.find((part) => part.state === state)?.orders ?? 0
  const gross = sumCents(known, ({ grossCents }) => grossCents)
  const fee = sumCents(known, ({ feeCents }) => feeCents)
  const financing = sumCents(known, ({ financingCents }) => financingCents)
  const unexplained = sumCents(known, ({ unexplainedCents }) => unexplainedCents)
  const net = sumCents(known, ({ netCents }) => netCents)
  const taxes = sumCents([fee, financing, unexplained, net], negated)
  const partsOf = (wanted: (typeof named)[number]['part']) =>
    named
      .filter(({ part }) => part === wanted)
      .slice(0, mostNames)
      .map(({ name, entity, cents }) => ({ name, entity, amount: signedPointFromCents(cents) }))
  return {
    from,
    to,
    orders: known.reduce((total, { orders }) => total + orders, 0),
    estimated: ordersIn('estimated'),
    settled: ordersIn('settled'),
    differs: ordersIn('differs'),
    gross: signedPointFromCents(gross),
    fee: signedPointFromCents(fee),
    financing: signedPointFromCents(financing),
    taxes: partsOf('taxes'),
    // The tax total of each net, so that the sum is right whatever the number of names.
    taxes_total: signedPointFromCents(addCents(gross, taxes)),
    not_classed: partsOf('notClassed'),
    unexplained: signedPointFromCents(unexplained),
    net: signedPointFromCents(net),
    charged_back: {
      taken: signedPointFromCents(sumCents(known, ({ takenCents }) => takenCents)),
      returned: signedPointFromCents(sumCents(known, ({ returnedCents }) => returnedCents)),
    },
    unknown: {
      orders: unknown?.orders ?? 0,
      gross: signedPointFromCents(unknown?.grossCents ?? 0),
    },
  }
}
