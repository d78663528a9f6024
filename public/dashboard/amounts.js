import { locale, t } from '../shared/i18n.js'
import { pointOfCents } from './money.js'

/** `1234.50` as people write it. Intl takes the digits as text, so nothing is rounded. */
export function money(point) {
  if (point === null || point === undefined) return t('unknown')
  return new Intl.NumberFormat(locale(), { style: 'currency', currency: 'ARS' }).format(point)
}

export function moneyOfCents(cents) {
  return money(pointOfCents(cents))
}
