/** Unicode rules change nothing of it, and most identities are such. */
const plainText = /^[\x20-\x7e]*$/
const number = /^[+-]?\d+(?:\.\d+)?$/

/**
 * Receivers may take two texts for one that differ in case, accents, blanks, width or form of their letters, or in zeros of a
 * number.
 */
export function foldIdentity(text: string): string {
  const isPlain = plainText.test(text)
  const base = isPlain ? text : text.normalize('NFKD').replace(/\p{M}/gu, '')
  const plain = base.trim().toLowerCase()
  if (!number.test(plain)) return plain.replaceAll('ß', 'ss')
  const [whole = '', decimals = ''] = plain.replace(/^\+/, '').split('.')
  const digits = whole.replace(/^(-?)0+(?=\d)/, '$1')
  const rest = decimals.replace(/0+$/, '')
  if (rest !== '') return `${digits}.${rest}`
  return digits === '-0' ? '0' : digits
}
