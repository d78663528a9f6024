import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addCents, sumCents } from '../../src/domain/money.ts'
import {
  type Charge,
  type ClassRule,
  chargeClasses,
  classOf,
  type Net,
  type NettedPayment,
  netOf,
  type SettledLine,
} from '../../src/domain/net-amount.ts'

const rules: ClassRule[] = [
  { name: 'mp_processing_fee', entity: null, chargeClass: 'fee' },
  { name: 'mp_financing_fee', entity: null, chargeClass: 'financing' },
  { name: 'tax_withholding_sirtac-*', entity: null, chargeClass: 'tax' },
  { name: 'tax_withholding_payer-*', entity: null, chargeClass: 'payer' },
  { name: 'tax_*', entity: null, chargeClass: 'tax' },
  { name: 'odd', entity: 'iibb_*', chargeClass: 'tax' },
]

const charge = (name: string, cents: number, more: Partial<Charge> = {}): Charge => ({
  name,
  cents,
  detail: null,
  entity: null,
  from: 'collector',
  ...more,
})
const payment = (more: Partial<NettedPayment> = {}): NettedPayment => ({
  grossCents: 100_000,
  refundedCents: 0,
  netCents: 92_410,
  charges: [
    charge('mp_processing_fee', 4_390),
    charge('mp_financing_fee', 2_200),
    charge('tax_withholding_sirtac-caba', 1_000, { entity: 'caba' }),
    charge('tax_withholding_payer-iva', 500, { from: 'payer' }),
  ],
  releaseOn: '2026-12-05',
  ...more,
})
const line = (more: Partial<SettledLine> = {}): SettledLine => ({
  report: 'settlement',
  grossCents: 100_000,
  feeCents: 4_390,
  financingCents: 2_200,
  taxesCents: 1_000,
  taxes: [],
  netCents: 92_410,
  releaseOn: '2026-12-06',
  ...more,
})
const sirtac = {
  name: 'tax_withholding_sirtac-caba',
  detail: null,
  entity: 'caba',
  cents: 1_000,
}

/** Checks that hold for every net. */
function closes(net: Net): boolean {
  const taxes = sumCents(net.taxes, ({ cents }) => cents)
  const { grossCents, feeCents, financingCents, unexplainedCents, netCents } = net
  const kept = sumCents([feeCents, financingCents, taxes, unexplainedCents], (cents) => cents)
  return addCents(netCents, kept) === grossCents
}

test('the seller’s fees, financing and taxes are subtracted, the buyer’s are not', () => {
  expect(netOf(100_000, [payment()], [], rules)).toEqual({
    state: 'estimated',
    grossCents: 100_000,
    feeCents: 4_390,
    financingCents: 2_200,
    taxes: [sirtac],
    notClassed: [],
    unexplainedCents: 0,
    netCents: 92_410,
    releaseOn: '2026-12-05',
    expected: null,
  })
})

test('a charge without a rule is shown as not classed and makes the net unexplained', () => {
  const charges = [charge('mp_processing_fee', 4_390), charge('brand_new_levy', 111)]
  const net = netOf(100_000, [payment({ charges, netCents: 95_499 })], [], rules)
  expect(net).toMatchObject({ feeCents: 4_390, unexplainedCents: 111, netCents: 95_499 })
  expect(net?.notClassed).toEqual([
    { name: 'brand_new_levy', detail: null, entity: null, cents: 111 },
  ])
})

test('a rule for the whole name has precedence over prefixes, and a longer prefix over a shorter one', () => {
  const of = (name: string, entity: string | null = null) => classOf({ name, entity }, rules)
  expect(of('tax_withholding_payer-iva')).toBe('payer')
  expect(of('tax_withholding_sirtac-jujuy')).toBe('tax')
  expect(of('odd', 'iibb_tucuman')).toBe('tax')
  expect(of('odd')).toBeUndefined()
  expect(of('MP_PROCESSING_FEE')).toBeUndefined()
  const exact: ClassRule = { name: 'tax_x', entity: null, chargeClass: 'fee' }
  expect(classOf({ name: 'tax_x', entity: null }, [...rules, exact])).toBe('fee')
})

test('there is no net before the provider has reported the charges', () => {
  expect(netOf(100_000, [], [], rules)).toBeNull()
  expect(netOf(100_000, [payment({ netCents: null })], [], rules)).toBeNull()
  expect(netOf(100_000, [payment({ netCents: 0, charges: [] })], [], rules)).toBeNull()
})

test('the net is that of the charge, whether or not the provider subtracts refunds from its own', () => {
  const whole = netOf(100_000, [payment({ refundedCents: 40_000 })], [], rules)
  const less = netOf(100_000, [payment({ refundedCents: 40_000, netCents: 52_410 })], [], rules)
  expect(whole).toMatchObject({ netCents: 92_410, unexplainedCents: 0 })
  expect(less).toEqual(whole)
})

test('a report with the same net settles it, with the date of its money', () => {
  expect(netOf(100_000, [payment()], [line()], rules)).toMatchObject({
    state: 'settled',
    feeCents: 4_390,
    taxes: [sirtac],
    unexplainedCents: 0,
    netCents: 92_410,
    releaseOn: '2026-12-06',
    expected: null,
  })
})

test('a report without fee columns settles a net that the payment’s own charges explain', () => {
  const bare = line({ feeCents: 0, financingCents: 0, taxesCents: 0 })
  expect(netOf(100_000, [payment()], [bare], rules)).toMatchObject({
    state: 'settled',
    feeCents: 4_390,
    unexplainedCents: 0,
  })
})

test('a report with another net or gross differs, and the result has the expected amount', () => {
  const less = netOf(100_000, [payment()], [line({ netCents: 92_400 })], rules)
  expect(less).toMatchObject({
    state: 'differs',
    netCents: 92_400,
    unexplainedCents: 10,
    expected: { grossCents: 100_000, netCents: 92_410 },
  })
  const paidElse = netOf(100_000, [], [line({ grossCents: 90_000, netCents: 82_410 })], rules)
  expect(paidElse).toMatchObject({
    state: 'differs',
    grossCents: 90_000,
    expected: { grossCents: 100_000, netCents: null },
  })
})

test('a report settles a charge whose payment was never read', () => {
  const taxes = [{ ...sirtac, cents: 400 }]
  expect(netOf(100_000, [], [line({ taxes })], rules)).toMatchObject({
    state: 'settled',
    taxes: [...taxes, { name: 'taxes', cents: 600 }],
    unexplainedCents: 0,
  })
})

test('a release report has only the net, and one that contradicts the settlement differs', () => {
  const released = line({ report: 'release', financingCents: 0, taxesCents: 0 })
  expect(netOf(100_000, [payment()], [released], rules)).toMatchObject({
    state: 'settled',
    financingCents: 2_200,
    unexplainedCents: 0,
  })
  const less = { ...released, netCents: 92_000 }
  expect(netOf(100_000, [payment()], [line(), less], rules)).toMatchObject({ state: 'differs' })
})

test('gross minus the charges is the net to the cent, whatever the provider reports', () => {
  const cents = fc.integer({ min: 0, max: 10_000_000 })
  const anyCharge = fc.record({
    name: fc.constantFrom('mp_processing_fee', 'tax_withholding-x', 'unheard_of', 'odd'),
    cents,
    detail: fc.constant(null),
    entity: fc.constantFrom(null, 'iibb_tucuman'),
    from: fc.constantFrom('collector', 'payer', null),
  })
  const anyPayment = fc.record({
    grossCents: cents,
    refundedCents: cents,
    netCents: cents,
    charges: fc.array(anyCharge, { maxLength: 5 }),
    releaseOn: fc.constant(null),
  })
  const anyTax = fc.record({
    name: fc.constant('sirtac'),
    detail: fc.constant(null),
    entity: fc.constant('caba'),
    cents: fc.integer(),
  })
  const anyLine = fc.record({
    report: fc.constantFrom('settlement' as const, 'release' as const),
    grossCents: fc.option(cents),
    feeCents: cents,
    financingCents: cents,
    taxesCents: cents,
    taxes: fc.array(anyTax, { maxLength: 3 }),
    netCents: fc.integer(),
    releaseOn: fc.constant(null),
  })
  fc.assert(
    fc.property(
      cents,
      fc.array(anyPayment, { maxLength: 3 }),
      fc.array(anyLine, { maxLength: 3 }),
      (paid, payments, lines) => {
        const net = netOf(paid, payments, lines, rules)
        return net === null || closes(net)
      },
    ),
  )
  expect(chargeClasses).toContain('payer')
})
