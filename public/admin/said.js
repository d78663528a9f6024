import { t, word } from '../shared/i18n.js'

/** What the service says of a flow or its file, in English, by its forms; `{1}` of a text is what stood in the first place. */
const forms = [
  ['attempts', /^(\d+) of the last (\d+) attempts failed, the last one with: (.*)$/s],
  ['probe', /^the attempt that looked whether it is back failed with: (.*)$/s],
  ['noFile', /^(?:file source: )?there is no file (.*) to read$/],
  [
    'noField',
    /^the fields? (".*") (?:is|are) in none of the records, which have: (.*)\. Correct the source or the definition,.*$/,
  ],
  ['deletesEmpty', /^(\d+) deletes held back: the source is empty$/],
  [
    'deletesMany',
    /^(\d+) deletes held back: ([\d.]+) % of (\d+) items vanished at once, more than ([\d.]+) %$/,
  ],
  ['deletesUnread', /^(\d+) deletes held back: the source had records that could not be read$/],
  ['heldBack', /^(\d+) deliveries or more wait, so the flow is not polled \(queue\.maxWaiting\)$/],
  ['refusedToken', /^(.*)no access token: the issuer refused the refresh token \((.*)\)$/],
  [
    'lostKey',
    lost('(?:.*)no access token: the encryption key of the newest refresh token was lost'),
  ],
  ['lostFirst', lost('the first one is wrong, too old, or was used elsewhere already')],
  [
    'lostLater',
    lost('it was revoked, was used by somebody else, or came back with a restored backup'),
  ],
  [
    'lostCut',
    lost(
      'a renewal of (?:.*) was cut before its answer was kept, so the token that it brought is lost',
    ),
  ],
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

/** How an access was lost, with what to do; the place of its first refresh token comes first. */
function lost(how) {
  return new RegExp(
    `^${how}\\. Authorize the application again, put the new refresh token into (.*) \\(restart, if it is a variable\\) and have the flows read again\\. Until then nothing is sent or read with it, and nothing is lost\\.$`,
  )
}

/** Whether it tells of an access that is lost: what to do stands at the end. */
export function isOfLostAccess(text) {
  return text.includes('no access token: ')
}

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
