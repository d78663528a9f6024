import type { Payment, ProviderRefund } from './order.ts'
import { isFailedRefund, wentThrough } from './order-state.ts'

/** Countries ("sites" of the provider) whose currency has no cents at the provider (provider news 11; issue 28.7). */
const wholeCurrencies: Record<string, string> = { MLC: 'CLP', MCO: 'COP', MPY: 'PYG' }

/** Whether amounts of this currency (`CLP`) are sent without decimals. */
export function isWholeCurrency(currency: string | null): boolean {
  return Object.values(wholeCurrencies).some((known) => known === currency)
}

/** The currency of a site, if it has no cents; else undefined, also for an unknown site. */
export function wholeCurrencyOf(siteId: string | null | undefined): string | undefined {
  return wholeCurrencies[siteId ?? '']
}

/**
 * Money is integer cents in a number: 12 integer digits and 2 decimals stay below 2^53, so every sum is exact. Amounts
 * are never parsed or printed as floats.
 */
const erpAmount = /^([0-9]{1,12}),([0-9]{1,2})$/
const pointAmount = /^([0-9]{1,12})(?:\.([0-9]{1,2}))?$/

function toCents(integerDigits: string, decimals: string): number {
  return Number(integerDigits) * 100 + Number(decimals.padEnd(2, '0'))
}

/** Cents of an ERP amount such as `100,5` or `1234,50`; undefined for any other form and for zero. */
export function centsFromErp(text: string): number | undefined {
  const match = erpAmount.exec(text)
  if (!match) return undefined
  const cents = toCents(match[1] as string, match[2] as string)
  return cents > 0 ? cents : undefined
}

/** Cents of a provider amount such as `10`, `10.5` or `10.00`; undefined for any other form. */
export function centsFromPoint(text: string): number | undefined {
  const match = pointAmount.exec(text)
  return match ? toCents(match[1] as string, match[2] ?? '') : undefined
}

/** Cents of an amount that may be negative, as in statements; undefined for any text but an amount in whole cents. */
export function signedCents(text: string): number | undefined {
  const isBelow = text.startsWith('-')
  const cents = centsFromPoint(isBelow ? text.slice(1) : text)
  return cents === undefined || !isBelow ? cents : -cents
}

/**
 * A sum of cents. One amount is always exact in a number, a sum of many may not be. Beyond 2^53 it is the whole number
 * as text, as in JSON, or a bigint, as from the database.
 */
type CentsSum = StoredSum | bigint
/** A sum of cents in JSON. */
export type StoredSum = number | string

/**
 * The exact sum, as a number if it fits and else as text.
 *
 * @throws RangeError for a number that is not whole and exact.
 */
export function addCents(one: CentsSum, other: CentsSum): StoredSum {
  const sum = exact(one) + exact(other)
  const isSafe = sum <= Number.MAX_SAFE_INTEGER && sum >= Number.MIN_SAFE_INTEGER
  return isSafe ? Number(sum) : String(sum)
}

/** The exact sum of `cents` over all items. */
export function sumCents<Item>(items: Iterable<Item>, cents: (item: Item) => CentsSum): StoredSum {
  let sum: StoredSum = 0
  for (const item of items) sum = addCents(sum, cents(item))
  return sum
}

/** The amount with the opposite sign. */
export function negated(cents: CentsSum): StoredSum {
  return addCents(0, -exact(cents))
}

function exact(cents: CentsSum): bigint {
  if (typeof cents === 'number' && !Number.isSafeInteger(cents)) {
    throw new RangeError('cents must be a whole number')
  }
  return BigInt(cents)
}

/**
 * `123450` becomes `1234.50`.
 *
 * @throws RangeError unless it is a non-negative whole number of cents.
 */
export function pointFromCents(cents: CentsSum): string {
  // A number needs no bigint: every answer about an order writes several.
  const whole = typeof cents === 'number' && Number.isSafeInteger(cents) ? cents : exact(cents)
  if (whole < 0) throw new RangeError('cents must be a whole number')
  const text = String(whole).padStart(3, '0')
  return `${text.slice(0, -2)}.${text.slice(-2)}`
}

/**
 * `123450` becomes `1234,50`, as an ERP sends it.
 *
 * @throws RangeError like `pointFromCents`.
 */
export function erpFromCents(cents: number): string {
  return pointFromCents(cents).replace('.', ',')
}

/**
 * An amount as it is sent to the provider: two decimals, or none where the currency has no cents (`isWhole`).
 *
 * @throws RangeError unless it is a non-negative whole number of cents, and for cents that such a currency does not
 * have.
 */
export function providerAmount(cents: number, isWhole: boolean): string {
  const text = pointFromCents(cents)
  if (!isWhole) return text
  if (!text.endsWith('.00')) throw new RangeError('the currency has no cents')
  return text.slice(0, -3)
}

/** Like `pointFromCents`, for negative amounts too: `-12050` becomes `-120.50`. */
export function signedPointFromCents(cents: CentsSum): string {
  const whole = exact(cents)
  return whole < 0n ? `-${pointFromCents(-whole)}` : pointFromCents(whole)
}

const grouped = /^[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*$/
const split = /^(.*?)(?:([.,])([0-9]{1,2}))?$/

/**
 * The amounts, in cents, that a typed text may mean: `1234,50`, `1.234,50`, `1,234.50` and `1234.5` are read in either
 * language. Amounts have two decimals at most, and groups of thousands have three digits. With fewer decimals it means
 * all amounts that begin so: `1234` is 1234.00 to 1234.99. Undefined for any other text.
 */
export function centsMeant(text: string): { from: number; to: number } | undefined {
  const [, whole = '', mark, decimals = ''] = split.exec(text.trim()) ?? []
  const group = grouped.exec(whole)
  if (group?.[1] !== undefined && group[1] === mark) return undefined
  const digits = group ? whole.replaceAll(/[.,]/g, '') : whole
  if (!/^[0-9]{1,12}$/.test(digits)) return undefined
  const open = 10 ** (2 - decimals.length)
  const from = toCents(digits, decimals)
  return { from, to: from + open - 1 }
}

/*
 * The three figures of a payment (see docs/reference/amounts.md): what was asked (`amountCents`), what the buyer paid
 * (`paidCents`) and what the shop receives. Whole cents.
 */

/** What the shop receives of a payment that went through: with the tip, without the interest of the card issuer. */
export function receivedCents(payment: Payment): number {
  return payment.receivedCents ?? payment.paidCents ?? payment.amountCents
}

/**
 * What the shop receives, if that is not what the buyer paid. In instalments, what is above the amount and the tip is
 * interest. Without instalments the provider documents only a tip as a reason for more (provider file 2.2).
 */
export function receivedApart(payment: Payment): number | undefined {
  const { amountCents, paidCents, tipCents = 0, installments } = payment
  const ofShop = amountCents + tipCents
  const hasInterest = (installments ?? 1) > 1 && paidCents !== null && paidCents > ofShop
  return hasInterest ? ofShop : undefined
}

/**
 * Marks the payments that went through and exceed the amount of their order, in the provider's order. The first one is
 * always the order's own. Parts of one amount are no surplus.
 */
export function markSurplus(payments: readonly Payment[], orderCents: number | null): Payment[] {
  let sumCents = 0
  let isFirst = true
  return payments.map((payment) => {
    if (!wentThrough(payment.status)) return payment
    const isSurplus =
      !isFirst && (orderCents === null || sumCents + payment.amountCents > orderCents)
    isFirst = false
    if (isSurplus) return { ...payment, isSurplus: true as const }
    sumCents += payment.amountCents
    return payment
  })
}

export function isOwn(payment: Payment): boolean {
  return payment.isSurplus !== true
}

/** Whether the shop still has money of a surplus payment. */
export function isKeptSurplus(payment: Payment): boolean {
  return !isOwn(payment) && payment.refundedCents < receivedCents(payment)
}

/**
 * Refunds by what the shop returns. For a payment with interest the provider may name what the buyer gets, which is
 * more: that goes into `buyerCents`.
 */
export function asShopRefunds(
  payments: readonly Payment[],
  refunds: readonly ProviderRefund[],
): ProviderRefund[] {
  const left = new Map<string, number>()
  return refunds.map((refund) => {
    const { transactionId: id, amountCents } = refund
    const payment = payments.find((one) => one.id === id) ?? onlyOf(payments, id)
    if (!payment || amountCents === null || isFailedRefund(refund.status)) return refund
    const received = receivedCents(payment)
    const leftCents = left.get(payment.id) ?? received
    const isMore = received < (payment.paidCents ?? received) && amountCents > leftCents
    const isNamed = isMore && leftCents > 0 && refund.buyerCents === undefined
    const givenCents = isNamed ? leftCents : amountCents
    left.set(payment.id, leftCents - givenCents)
    return isNamed ? { ...refund, amountCents: givenCents, buyerCents: amountCents } : refund
  })
}

function onlyOf(payments: readonly Payment[], id: string | null): Payment | undefined {
  return id === null && payments.length === 1 ? payments[0] : undefined
}

/** What the buyer paid for an order in cents, with the interest of the card issuer, without further payments. */
export function buyerPaidCents({
  payments,
  paid_cents: receivedCents,
}: {
  payments: readonly Payment[]
  paid_cents: number
}): number {
  const paid = payments.filter((payment) => isOwn(payment) && wentThrough(payment.status))
  if (paid.length === 0) return receivedCents
  return paid.reduce((sum, { paidCents, amountCents }) => sum + (paidCents ?? amountCents), 0)
}
