import { t, word } from '../shared/i18n.js'

/**
 * A tax as people know it: the provider writes `tax_withholding_sirtac-caba`, and the authority beside it, which may stand in
 * the word already.
 */
export function taxName({ detail, name, entity }) {
  const given = String(detail ?? name ?? '')
  const words = plain(given.replace(/^tax_withholding(?:_collector)?[_-]?/, ''))
  const title = given.startsWith('tax_withholding') ? t('tax.withholding') : t('money.tax')
  const of = plain(entity ?? '')
  const isNamed = words.toLowerCase().includes(of.toLowerCase())
  return [title, words, !isNamed && of].filter(Boolean).join(' ')
}

const plain = (given) =>
  word('tax', given)
    .replace(/[_-]+/g, ' ')
    .replace(/\b(?:sirtac|sircreb|iibb|iva|caba|arba)\b/gi, (known) => known.toUpperCase())
