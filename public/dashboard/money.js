/**
 * Money is whole cents, like in the service. Amounts are read and written digit by digit, so no rounding of binary
 * fractions can touch them.
 */

import { receivedStates } from './order-states.js'

const pointShape = /^([0-9]{1,12})\.([0-9]{2})$/
const decimalsShape = /^(.*?)(?:([.,])([0-9]{1,2}))?$/
const groupedShape = /^[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*$/

/** Cents of an amount of the API such as `1234.50`; 0 for null and for any other shape. */
export function centsOfPoint(text) {
  const match = pointShape.exec(text ?? '')
  return match ? Number(match[1] + match[2]) : 0
}

/** `123450` becomes `1234.50`. */
export function pointOfCents(cents) {
  const digits = String(cents).padStart(3, '0')
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/**
 * Cents of what a person typed, in either language: `1234,50`, `1.234,50`, `1,234.50`, `1234.5` or `1234`. There is one reading
 * of each, since amounts have two decimals at most and groups of thousands three digits. undefined for the rest and for zero.
 */
export function centsOfTyped(text) {
  const [, whole, mark, decimals = ''] = decimalsShape.exec(text.trim())
  const group = groupedShape.exec(whole)
  const digits = group ? whole.replaceAll(/[.,]/g, '') : whole
  if (!/^[0-9]{1,12}$/.test(digits) || (group && group[1] === mark)) return undefined
  const cents = Number(digits) * 100 + Number(decimals.padEnd(2, '0'))
  return cents > 0 ? cents : undefined
}

/** The form in which the API takes amounts: `123450` becomes `1234,50`. */
export function commaOfCents(cents) {
  return pointOfCents(cents).replace('.', ',')
}

/** Whether the customer's money came in for this order, be it refunded later or not. */
export function wasPaid(order) {
  return receivedStates.includes(order.status) || order.paid_after_close
}

/** For one order, in cents: what the buyer paid, what the shop received of it, and what the shop returned. */
export function sumsOf(order) {
  if (!wasPaid(order)) return { byBuyer: 0, paid: 0, refunded: 0 }
  const paid = centsOfPoint(order.received_amount) || centsOfPoint(order.amount)
  return {
    byBuyer: centsOfPoint(order.paid_amount) || paid,
    paid,
    refunded: centsOfPoint(order.refunded_amount),
  }
}
