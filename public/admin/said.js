import { t, word } from '../shared/i18n.js'

/** What the service says of a flow file, in English, by its forms; `{1}` of a text is what stood in the first place. */
const forms = [
  ['missing', /^is missing$/],
  ['unknownKey', /^is not a known key$/],
  ['meant', /^did you mean (.*)\?$/],
  ['belongs', /^it belongs to (.*)$/],
  ['known', /^known here: (.*)$/],
  ['mustBeOneOf', /^must be one of (.*)$/],
  ['oneOf', /^one of (.*)$/],
  ['kind', /^must be (.*), not (.*)$/],
  ['notEmpty', /^must not be empty$/],
  ['atLeast', /^must be at least ([\d.]+)$/],
  ['atMost', /^must be at most ([\d.]+)$/],
  ['quotes', /^put it in quotes$/],
  ['noQuotes', /^write (.*), no quotes$/],
  ['giveValue', /^give it a value, or leave the key out$/],
]

/** The same in the reader's language, where its form is known; words of somebody else stay as they are. */
export function said(text) {
  return text.split('; ').map(inWords).join('; ')
}

function inWords(text) {
  for (const [key, form] of forms) {
    const [match, ...parts] = form.exec(text) ?? []
    if (match === undefined) continue
    const words = parts.map((part) => {
      const whole = word('said', part)
      if (whole !== part) return whole
      const choice = part.split(' or ').map((one) => word('said', one))
      return choice.join(t('said.or'))
    })
    return t(`said.${key}`, { ...[match, ...words] })
  }
  return text
}
