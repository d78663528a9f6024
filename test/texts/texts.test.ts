import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { codeGroups, publishedCode, reasonsOfCode } from '../../src/texts/published-codes.ts'
import {
  hintOf,
  keptReason,
  reasonCodes,
  sentenceOf,
  shownReason,
  withTexts,
} from '../../src/texts/reason.ts'
import { type TextKey, textIn, texts } from '../../src/texts/texts.ts'

const keys = Object.keys(texts.en) as TextKey[]
const placeholders = (text = '') =>
  [
    ...new Set(
      [...text.matchAll(/\{(\w+)(?::[^{}|]*\|[^{}|]*)?\}/g)].map(([, name]) => name as string),
    ),
  ].sort()
/** Values that a text may leave out. */
const bracketed = (text = '') =>
  placeholders([...text.matchAll(/\[[^[\]]*\]/g)].map(([part]) => part).join(' '))

test('Spanish has every text, and Portuguese those for cashiers and owners of shops', () => {
  const forAll = keys.filter((key) => /^(cashier|busy|closing|connect|fleet)\./.test(key))
  expect(Object.keys(texts.es).toSorted()).toEqual(keys.toSorted())
  expect(Object.keys(texts.pt).toSorted()).toEqual(forAll.toSorted())
})

test.each(['es', 'pt'] as const)(
  'each text in %s names the values that the English one names',
  (language) => {
    const differing = keys.filter((key) => {
      const [own, english] = [texts[language][key], texts.en[key]]
      if (own === undefined) return false
      return (
        own === '' ||
        String(placeholders(own)) !== String(placeholders(english)) ||
        String(bracketed(own)) !== String(bracketed(english))
      )
    })
    expect(differing).toEqual([])
  },
)

/** Texts of names and signs alone, or of words that are the same in both languages. */
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
  'closing.method.qr',
  'closing.there',
])

test('no Spanish text equals the English one', () => {
  const same = keys.filter((key) => texts.es[key] === texts.en[key])
  expect(same.filter((key) => !alike.has(key))).toEqual([])
})

test('each value appears in its text, in each language', () => {
  for (const language of ['en', 'es', 'pt'] as const) {
    for (const key of keys) {
      const text = texts[language][key] ?? texts.en[key]
      const values = placeholders(text).map((name) => [name, `«${name}»`])
      const filled = textIn(language, key, Object.fromEntries(values) as never)
      expect(filled, key).not.toContain('—')
      for (const [, name] of text?.matchAll(/\{(\w+)\}/g) ?? []) {
        expect(filled, key).toContain(`«${name}»`)
      }
    }
  }
})

test('the code names each text, or the group that it is chosen from', { tags: ['long'] }, () => {
  const files = globSync('src/**/*.ts').filter((file) => !file.startsWith('src/texts/e'))
  expect(files.length).toBeGreaterThan(100)
  const code = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  const isNamed = (key: string) => code.includes(`'${key}'`) || code.includes(`"${key}"`)
  const isOfGroup = (key: string) =>
    key.split('.').some((_, index, parts) => {
      const [before, after] = [parts.slice(0, index).join('.'), parts.slice(index + 1).join('.')]
      return (
        index > 0 &&
        code.includes(`\`${before}.${'$'}{`) &&
        (after === '' || code.includes(`}.${after}\``))
      )
    })
  const unused = keys.filter((key) => {
    const [code, end] = key.split('.')
    return !isNamed(key) && !isOfGroup(key) && !(end === 'hint' && isNamed(code ?? ''))
  })
  expect(unused).toEqual([])
})

test('one has another word than several', () => {
  const of = (count: number) => textIn('es', 'message.chargebacks_due', { count })
  expect(of(1)).toBe('1 contracargo espera documentos')
  expect(of(2)).toBe('2 contracargos esperan documentos')
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

test('a published code is that of the reason or of its group, and few are published', () => {
  const codes = new Set(reasonCodes.map(publishedCode))
  expect(codes.size).toBeLessThanOrEqual(127)
  for (const { code, texts, own } of codeGroups) {
    const reasons = texts.flatMap(Object.keys)
    expect(own.filter((one) => !reasons.includes(one))).toEqual([])
    for (const reason of reasonsOfCode(code)) expect(reasons).toContain(reason)
  }
  expect(reasonCodes.filter((code) => !codes.has(publishedCode(code)))).toEqual([])
  expect(publishedCode('FROM_THE_FUTURE')).toBe('FROM_THE_FUTURE')
})

test('an answer has the published codes of a reason and of those within it, and the data of published ones alone', () => {
  const what = { code: 'NO_FILE', data: { path: '*.csv' } } as const
  expect(shownReason({ code: 'AT_SOURCE', data: { source: 'file', what } }, 'en')).toMatchObject({
    ...{ code: 'NO_FILE', data: what.data },
  })
  const last = { code: 'TOKEN_SEALED' } as const
  expect(shownReason({ code: 'PROBE_FAILED', data: { last } }, 'en')).toMatchObject({
    ...{ code: 'PROBE_FAILED', data: { last: { code: 'TOKEN_FAILED', data: {} } } },
  })
  const problem = { code: 'TOO_MANY_ALIASES', data: { most: 500 } } as const
  const { message, ...rest } = shownReason(problem, 'en') ?? {}
  expect(rest).toEqual({ code: 'DEFINITION_WRONG', data: {} })
  expect(message).toContain('500')
})
