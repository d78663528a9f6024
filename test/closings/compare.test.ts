import { expect, test } from 'vitest'
import {
  compareCharges,
  type OurCharge,
  type TheirCharge,
} from '../../src/payments/closings/compare-charges.ts'

const span = { from: new Date('2026-11-21T03:00:00Z'), to: new Date('2026-11-22T03:00:00Z') }
const noon = new Date('2026-11-21T15:00:00Z')
const yesterday = new Date('2026-11-20T15:00:00Z')

const our = (id: number, change: Partial<OurCharge> = {}): OurCharge => ({
  orderId: `order-${id}`,
  reference: `T-${id}`,
  cajaId: 'CAJA-1',
  sucursalId: 'SUC-1',
  status: 'processed',
  outcome: 'charged',
  hasConflict: false,
  isRefundOpen: false,
  amountCents: 1_000,
  paidCents: 1_000,
  refundedCents: 0,
  method: 'credit_card',
  installments: 1,
  settledAs: null,
  isInDoubt: false,
  undecided: null,
  insteadOrderId: null,
  paymentIds: [String(id)],
  createdAt: noon,
  ...change,
})
type TheirShort = {
  orderId: string | null
  surplusOf: string | null
  cajaId: string | null
  status: string
  amountCents: number | null
  refundedCents: number
  netCents: number | null
  method: string | null
  installments: number | null
  refunds: readonly { cents: number | null; at: Date | null; status: string | null }[]
  soldAt: Date
}
const their = (id: number, change: Partial<TheirShort> = {}): TheirCharge => {
  const usual = { orderId: null, surplusOf: null, cajaId: 'CAJA-1', status: 'approved' }
  const money = { amountCents: 1_000, refundedCents: 0, netCents: 940, refunds: [] }
  const paid = { method: 'credit_card', installments: 1, soldAt: noon }
  const one: TheirShort = { ...usual, ...money, ...paid, ...change }
  return {
    payment_id: String(id),
    order_id: one.orderId,
    surplus_of: one.surplusOf,
    caja_id: one.cajaId,
    status: one.status,
    amount_cents: one.amountCents,
    refunded_cents: one.refundedCents,
    net_cents: one.netCents,
    method_type: one.method,
    installments: one.installments,
    refunds: one.refunds.map(({ cents, at, status }) => ({
      id: null,
      status,
      amount: { cents, text: null },
      at: at?.toISOString() ?? null,
    })),
    sold_at: one.soldAt,
  }
}
const unpaid = { status: 'expired', outcome: 'not_charged', paidCents: 0, paymentIds: [] } as const

function compare(
  ours: OurCharge[],
  theirs: TheirCharge[],
  declared: Record<string, number> = {},
  cajaId: string | null = 'CAJA-1',
) {
  return compareCharges({ ours, theirs, span, cajaId, sucursalId: 'SUC-1', declared })
}
const kinds = (comparison: Awaited<ReturnType<typeof compare>>) =>
  comparison.lines.map(({ kind }) => kind)

test('a day that is right to the cent is agreed, with totals of both sides', async () => {
  const { result, totals, lines } = await compare(
    [our(1), our(2, { method: 'debit_card' })],
    [their(1, { installments: 3 }), their(2, { method: 'debit_card' })],
    { credit_card: 1_000, debit_card: 1_000 },
  )
  expect([result, lines]).toEqual(['agreed', []])
  expect(totals).toMatchObject({
    here: { count: 2, cents: 2_000 },
    there: { count: 2, cents: 2_000, netCents: 1_880 },
    installments: [
      { installments: 1, count: 1 },
      { installments: 3, count: 1 },
    ],
  })
  expect(totals.media.map(({ medium, here }) => [medium, here.cents])).toEqual([
    ['credit_card', 1_000],
    ['debit_card', 1_000],
  ])
})

test.each<[string, OurCharge[], TheirCharge[], string[], string]>([
  ['a payment without an order', [], [their(1)], ['missing_here'], 'differs'],
  [
    'a payment of an order that ended unpaid',
    [our(1, unpaid)],
    [their(1, { orderId: 'order-1' })],
    ['missing_here'],
    'differs',
  ],
  [
    'a second payment of one order',
    [our(1)],
    [their(1), their(2, { orderId: 'order-1' })],
    ['missing_here'],
    'differs',
  ],
  ['a charge that the provider does not have', [our(1)], [], ['missing_there'], 'differs'],
  [
    'a charge that the provider has rejected',
    [our(1)],
    [their(1, { status: 'rejected' })],
    ['missing_there'],
    'differs',
  ],
  ['another amount', [our(1)], [their(1, { amountCents: 999 })], ['amount_differs'], 'differs'],
  [
    'an amount that cannot be parsed',
    [our(1)],
    [their(1, { amountCents: null })],
    ['amount_differs'],
    'differs',
  ],
  [
    'a refund that only one side has',
    [our(1)],
    [their(1, { refundedCents: 10 })],
    ['amount_differs'],
    'differs',
  ],
  [
    'an order that the provider contradicts',
    [our(1, { outcome: 'unknown', hasConflict: true })],
    [their(1, { amountCents: 5 })],
    ['amount_differs'],
    'differs',
  ],
  ['another card', [our(1)], [their(1, { method: 'debit_card' })], ['other_medium'], 'differs'],
  [
    'a QR charge paid from an account',
    [our(1, { method: 'qr' })],
    [their(1, { method: 'account_money' })],
    [],
    'agreed',
  ],
  [
    'a payment at the terminal of another box',
    [our(1)],
    [their(1, { cajaId: 'CAJA-2' })],
    ['other_box'],
    'differs',
  ],
  [
    'a payment whose box the provider does not name',
    [our(1)],
    [their(1, { cajaId: null })],
    [],
    'agreed',
  ],
  [
    'an unknown outcome',
    [our(1, { outcome: 'unknown', paidCents: 0 })],
    [],
    ['pending'],
    'unverified',
  ],
  [
    'an outcome that waiting does not show',
    [our(1, { outcome: 'unknown', paidCents: 0, isInDoubt: true })],
    [],
    ['in_doubt'],
    'unverified',
  ],
  ['a refund in progress', [our(1, { isRefundOpen: true })], [their(1)], ['pending'], 'unverified'],
  [
    'a payment that is in process',
    [],
    [their(1, { status: 'in_process' })],
    ['pending'],
    'unverified',
  ],
  [
    'an unknown status',
    [our(1)],
    [their(1, { status: 'newly_invented' })],
    ['pending'],
    'unverified',
  ],
  [
    'rejected attempts',
    [our(1)],
    [their(9, { status: 'rejected', orderId: 'order-1' }), their(1)],
    [],
    'agreed',
  ],
  ['an unpaid order', [our(1, unpaid)], [], [], 'agreed'],
])('the comparison of %s', async (_, ours, theirs, expected, result) => {
  const comparison = await compare(ours, theirs)
  expect(kinds(comparison)).toEqual(expected)
  expect(comparison.result).toBe(result)
})

test('a count that is not what was charged has a line of its means of payment', async () => {
  const [ours, theirs] = [[our(1)], [their(1)]]
  const counted = await compare(ours, theirs, { credit_card: 900, debit_card: 100, qr: 0 })
  expect(counted.result).toBe('differs')
  expect(counted.lines).toMatchObject([
    {
      kind: 'counted_otherwise',
      counted: { medium: 'credit_card', declaredCents: 900, cents: 1_000 },
    },
    { kind: 'counted_otherwise', counted: { medium: 'debit_card', declaredCents: 100, cents: 0 } },
  ])
})

test('while a charge is open, a wrong count is shown and decides nothing', async () => {
  const open = our(2, { outcome: 'unknown', paidCents: 0 })
  const { lines, result } = await compare([our(1), open], [their(1)], { credit_card: 2_000 })
  const kinds = lines.map(({ kind }) => kind)
  expect([result, kinds]).toEqual(['unverified', ['pending', 'counted_otherwise']])
})

test.each([
  ['not_paid', [], 'agreed'],
  ['paid', ['missing_there'], 'differs'],
] as const)(
  'what a person settled as %s and the provider does not have is open no longer',
  async (as, expected, result) => {
    const settled = our(1, {
      outcome: 'unknown',
      paidCents: 0,
      settledAs: as,
      status: 'action_required',
    })
    const comparison = await compare([settled], [])
    expect([comparison.result, kinds(comparison)]).toEqual([result, expected])
  },
)

test('a charge belongs to the day of its payment at the provider, an unpaid order to the day of its creation', async () => {
  const midnight = new Date(span.to.getTime() + 20_000)
  const late = our(1, { createdAt: new Date(span.to.getTime() - 10_000) })
  expect(await compare([late], [their(1, { soldAt: midnight })])).toMatchObject({
    lines: [],
    totals: { here: { count: 0 } },
  })
  const early = our(2, { createdAt: new Date(span.from.getTime() - 10_000) })
  const first = await compare([early], [their(2, { soldAt: span.from })])
  expect(first).toMatchObject({ lines: [], totals: { here: { count: 1 } } })
  expect(kinds(await compare([our(3, { createdAt: yesterday })], []))).toEqual([])
})

test("a refund of yesterday's sale counts today, and is compared", async () => {
  const sale = { createdAt: yesterday, refundedCents: 400, status: 'partially_refunded' }
  const there = {
    soldAt: yesterday,
    refundedCents: 400,
    refunds: [{ cents: 400, at: noon, status: 'approved' }],
  }
  const { totals, lines } = await compare([our(1, sale)], [their(1, there)])
  expect(lines).toEqual([])
  expect(totals).toMatchObject({ here: { count: 0 }, refunds: { count: 1, cents: 400 } })
  expect(kinds(await compare([our(1, { ...sale, refundedCents: 0 })], [their(1, there)]))).toEqual([
    'amount_differs',
  ])
})

test('a refund that the provider rejected is in no total, and brings no sale into the day', async () => {
  const rejected = { cents: 400, at: noon, status: 'rejected' }
  const made = { cents: 100, at: noon, status: 'approved' }
  const sale = { createdAt: yesterday, refundedCents: 100 }
  const there = { soldAt: yesterday, refundedCents: 100 }
  const { lines, totals } = await compare(
    [our(1, sale)],
    [their(1, { ...there, refunds: [rejected, made] })],
  )
  expect(lines).toEqual([])
  expect(totals.refunds).toEqual({ count: 1, cents: 100 })
  const alone = await compare([], [their(2, { refunds: [rejected] })])
  expect(alone.totals.refunds).toEqual({ count: 0, cents: 0 })
  const other = await compare(
    [our(3, { ...sale, refundedCents: 0 })],
    [their(3, { soldAt: yesterday, refundedCents: 5, refunds: [rejected] })],
  )
  expect(other.lines).toEqual([])
})

test.each(['in_process', 'newly_invented'])(
  'a refund with the status %s is in no total yet, and its day is unverified',
  async (status) => {
    const there = their(1, { refunds: [{ cents: 400, at: noon, status }] })
    const { lines, totals, result } = await compare([our(1)], [there])
    expect(totals.refunds).toEqual({ count: 0, cents: 0 })
    expect(lines.map(({ kind }) => kind)).toEqual(['pending'])
    expect(result).toBe('unverified')
  },
)

test.each([
  ['box', 'CAJA-2'],
  ['store', null],
])('a refund of a charge of another %s is not in the totals', async (_, cajaId) => {
  const sale = our(1, { refundedCents: 400, sucursalId: 'SUC-1' })
  const there = their(1, {
    cajaId: 'CAJA-2',
    refundedCents: 400,
    refunds: [{ cents: 400, at: noon, status: 'approved' }],
  })
  const { totals } = await compareCharges({
    ours: [sale],
    theirs: [there],
    span,
    cajaId,
    sucursalId: 'SUC-2',
    declared: {},
  })
  expect(totals.refunds).toEqual({ count: 0, cents: 0 })
  expect(totals.here.count).toBe(0)
})

test('a declared amount that differs from the sales makes the day differ', async () => {
  expect((await compare([our(1)], [their(1)], { credit_card: 900 })).result).toBe('differs')
  expect((await compare([our(1)], [their(1)], { debit_card: 1 })).result).toBe('differs')
})

test('a payment at another box is a line of that box too, and not counted there', async () => {
  const { lines, totals } = await compare([our(1)], [their(1, { cajaId: 'CAJA-2' })], {}, 'CAJA-2')
  expect(lines).toMatchObject([{ kind: 'other_box', here: { cajaId: 'CAJA-1' } }])
  expect(totals.here.count).toBe(0)
})

test('exactly the planted differences of a large day are found, in any order', async () => {
  const count = 10_000
  const isMissingThere = (id: number) => id % 1_000 === 7
  const isOther = (id: number) => id % 1_000 === 8
  const ours = Array.from({ length: count }, (_, id) => our(id))
  const theirs = [
    ...ours
      .flatMap((_, id) =>
        isMissingThere(id) ? [] : [their(id, isOther(id) ? { amountCents: 1 } : {})],
      )
      .reverse(),
    ...Array.from({ length: 20 }, (_, id) => their(count + id)),
  ]
  const found = (await compare(ours, theirs)).lines.map(
    ({ kind, paymentId }) => `${kind} ${paymentId}`,
  )
  const planted = [
    ...ours.flatMap((_, id) => (isMissingThere(id) ? [`missing_there ${id}`] : [])),
    ...ours.flatMap((_, id) => (isOther(id) ? [`amount_differs ${id}`] : [])),
    ...Array.from({ length: 20 }, (_, id) => `missing_here ${count + id}`),
  ]
  expect(found.toSorted()).toEqual(planted.toSorted())
})
