import { formatter } from '../shared/format.js'
import { t } from '../shared/i18n.js'
import { pointOfCents } from './money.js'

/** `1234.50` as people write it. Intl takes the digits as text, so nothing is rounded. */
export function money(point) {
  if (point === null || point === undefined) return t('unknown')
  return formatter('NumberFormat', { style: 'currency', currency: 'ARS' }).format(point)
}

export function moneyOfCents(cents) {
  return money(pointOfCents(cents))
}

/** How an amount is written in the reader's language, for hints: `1.234,50` or `1,234.50`. */
export function amountExample() {
  return formatter('NumberFormat', { minimumFractionDigits: 2 }).format('1234.50')
}

export function zeroExample() {
  return formatter('NumberFormat', { minimumFractionDigits: 2 }).format(0)
}
