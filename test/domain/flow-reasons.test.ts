import { expect, test } from 'vitest'
import { keptReason, reasonCodes, reasonTexts, sentenceOf } from '../../src/domain/flow-reasons.ts'

const placeholders = (text: string) =>
  [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string))].sort()

test.each(reasonCodes)('%s has a sentence in both languages, about the same data', (code) => {
  const { en, es } = reasonTexts[code]
  expect(es).not.toBe('')
  expect(placeholders(es)).toEqual(placeholders(en))
})

test('a sentence leaves out what is not known, and makes a reason within it in the same language', () => {
  expect(sentenceOf({ code: 'HTTP_STATUS', data: { status: 500 } }, 'en')).toBe('HTTP 500')
  const last = { code: 'NO_ANSWER', data: { seconds: 15 } } as const
  const reason = { code: 'ATTEMPTS_FAILED', data: { failed: 3, among: 4, last } } as const
  expect(sentenceOf(reason, 'es')).toBe(
    'fallaron 3 de los últimos 4 intentos, el último con: no hubo respuesta en 15 s',
  )
  expect(sentenceOf(reason, 'en')).toContain('no answer within 15 s')
})

test('what somebody else said is put in as it is', () => {
  const data = { status: 422, said: '[bad] {status} $& $1' }
  expect(sentenceOf({ code: 'HTTP_STATUS', data }, 'es')).toBe('HTTP 422 [bad] {status} $& $1')
})

test('a code of a newer version has no sentence here', () => {
  expect(sentenceOf({ code: 'FROM_THE_FUTURE' }, 'es')).toBeUndefined()
  expect(sentenceOf({ code: 'toString' }, 'es')).toBeUndefined()
})

test('a reason is kept to what the database can hold', () => {
  const said = `\0${'é'.repeat(2_000)}`
  const { data } = keptReason({ code: 'HTTP_STATUS', data: { status: 500, said } })
  expect(data).toEqual({ status: 500, said: `${'é'.repeat(999)}…` })
})
