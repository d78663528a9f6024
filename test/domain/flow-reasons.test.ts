import { expect, test } from 'vitest'
import { fillSentence } from '../../src/domain/fill-sentence.ts'
import type { ReasonTexts } from '../../src/domain/flow-reasons/reason-texts.ts'
import {
  hintOf,
  keptReason,
  reasonCodes,
  reasonTexts,
  sentenceOf,
  withTexts,
} from '../../src/domain/flow-reasons.ts'

const placeholders = (text: string) =>
  [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string))].sort()
/** Values that a sentence may leave out. */
const bracketed = (text: string) =>
  placeholders([...text.matchAll(/\[[^[\]]*\]/g)].map(([part]) => part).join(' '))

const sentences = reasonCodes.flatMap((code) => {
  const { hint, ...sentence }: ReasonTexts[string] = reasonTexts[code]
  return [
    { code, ...sentence },
    ...(hint ? [{ code: `${code}, what to do`, en: hint.en, es: hint.es }] : []),
  ]
})

test.each(sentences)(
  '$code has a sentence in both languages, about the same data',
  ({ en, es }) => {
    expect(es).not.toBe('')
    expect(placeholders(es)).toEqual(placeholders(en))
    expect(bracketed(es)).toEqual(bracketed(en))
  },
)

/** Sentences of names and signs alone, or of words that are the same in both languages. */
const alike = new Set<string>([
  'AT_ADDRESS',
  'BATCH_SAID',
  'FIELD_NOT_FINITE',
  'HTTP_STATUS',
  'IN_FILE',
  'KEY_AND_PROBLEM',
  'KIND_NULL',
  'PRIVATE_KEY_UNREADABLE',
  'SAID',
  'THE_ITEMS',
])

test('no Spanish sentence equals the English one', () => {
  const same = sentences.filter(({ en, es }) => en === es).map(({ code }) => code)
  expect(same.filter((code) => !alike.has(code))).toEqual([])
})

test('each value of a reason appears in its sentence, in both languages', () => {
  for (const { code, en, es } of sentences) {
    for (const text of [en, es]) {
      const values = placeholders(text).map((name) => [name, `«${name}»`])
      const filled = fillSentence(text, Object.fromEntries(values))
      for (const [, value] of values) expect(filled, code).toContain(value)
      expect(filled, code).not.toContain('—')
    }
  }
})

test('a sentence leaves out unknown values, and a nested reason has the same language', () => {
  expect(sentenceOf({ code: 'HTTP_STATUS', data: { status: 500 } }, 'en')).toBe('HTTP 500')
  const last = { code: 'NO_ANSWER', data: { seconds: 15 } } as const
  const reason = { code: 'ATTEMPTS_FAILED', data: { failed: 3, among: 4, last } } as const
  expect(sentenceOf(reason, 'es')).toBe(
    'fallaron 3 de los últimos 4 intentos, el último con: no hubo respuesta en 15 s',
  )
  expect(sentenceOf(reason, 'en')).toContain('no answer within 15 s')
})

test('a text of another system is inserted unchanged', () => {
  const data = { status: 422, said: '[bad] {status} $& $1' }
  expect(sentenceOf({ code: 'HTTP_STATUS', data }, 'es')).toBe('HTTP 422 [bad] {status} $& $1')
})

test('a code of a newer version has no sentence', () => {
  expect(sentenceOf({ code: 'FROM_THE_FUTURE' }, 'es')).toBeUndefined()
  expect(sentenceOf({ code: 'toString' }, 'es')).toBeUndefined()
})

test('a reason is cut to what the database can store', () => {
  const said = `\0${'é'.repeat(2_000)}`
  const { data } = keptReason({ code: 'HTTP_STATUS', data: { status: 500, said } })
  expect(data).toEqual({ status: 500, said: `${'é'.repeat(999)}…` })
})

test('several nested reasons are joined, and brackets without a name stay', () => {
  const problems = [{ code: 'THE_BODY' }, { code: 'AND_MORE', data: { count: 2 } }] as const
  const why = { code: 'FIELDS_FAILED', data: { problems, item: '{}' } } as const
  expect(sentenceOf(why, 'es')).toBe('fields falló: el cuerpo; y 2 más; ítem: {}')
  expect(sentenceOf({ code: 'XML_STEP_NOT_LAST' }, 'en')).toBe('has @ or [] before its last step')
})

test('the texts of a reason can be replaced, also in nested reasons', () => {
  const what = { code: 'SAID', data: { said: 'a secret' } } as const
  const why = withTexts({ code: 'IN_FILE', data: { path: 'secret.csv', what } }, (text) =>
    text.replace('secret', '***'),
  )
  expect(sentenceOf(why, 'en')).toBe('***.csv a ***')
})

test('a problem of a definition has a suggestion in both languages', () => {
  const why = { code: 'KEY_NOT_IN_FIELDS', data: { column: 'id' } } as const
  expect([hintOf(why, 'en'), hintOf(why, 'es')]).toEqual(['add id to fields', 'agregá id a fields'])
  expect(hintOf({ code: 'UNKNOWN_KEY' }, 'es')).toBeNull()
})
