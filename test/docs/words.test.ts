import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import {
  checkCode,
  checkMessages,
  checkSpanish,
  checkWords,
  logLines,
  longest,
  measureText,
  passiveShare,
  sentencesOf,
  wrongComments,
  wrongNames,
  wrongSpanish,
} from '../../checks/words.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const found = checkWords(root)

test('the check finds long sentences and words with a standard term', () => {
  const long = Array.from({ length: longest + 1 }, () => 'word').join(' ')
  const { tooLong, bannedWords, passive } = measureText(
    'x.md',
    `# Title\n\n${long}.\n\n- The till hears it.\n\nThe order was canceled.\n\n\`owed\`\n`,
  )
  expect(tooLong).toEqual([`${long}.`])
  expect(bannedWords).toEqual(['hears: The till hears it.'])
  expect(passive).toBe(1)
})

test('no sentence of a page for users is too long, and none has a word that has a standard term', () => {
  expect(found.length).toBeGreaterThan(40)
  expect(found.flatMap(({ file, tooLong }) => tooLong.map((one) => `${file}: ${one}`))).toEqual([])
  expect(
    found.flatMap(({ file, bannedWords }) => bannedWords.map((one) => `${file}: ${one}`)),
  ).toEqual([])
})

test('less than a tenth of the sentences are passive', () => {
  expect(passiveShare(found)).toBeLessThan(0.1)
})

test('Spanish pages and texts: no sentence is too long, few are in the passive, and all say "vos"', () => {
  const spanish = checkSpanish(root)
  expect(spanish.length).toBeGreaterThan(15)
  expect(
    spanish.flatMap(({ file, tooLong, bannedWords }) => [
      ...tooLong.map((one) => `${file}: ${one}`),
      ...bannedWords,
    ]),
  ).toEqual([])
  expect(passiveShare(spanish)).toBeLessThan(0.1)
})

test('the check finds sentences and log lines of the source, and ignores comments, short words and SQL', () => {
  const source = `
    // somebody's comment
    log.warn({ flow: 'a b c d' }, 'the till hears it')
    const short = 'one two'
    const texts = { es: 'Revise la caja.', en: \`value \${x} is owed\` }
    sql\`select owed from flows where x\`
  `
  expect(sentencesOf(source)).toEqual([
    'a b c d',
    'the till hears it',
    'Revise la caja.',
    'value value is owed',
  ])
  expect(logLines(source)).toEqual(['a b c d', 'the till hears it'])
})

test('the check finds comments and names of the code', () => {
  const source = `
    /** What a destination is owed,
     * as told before. */
    const isOwed = note('owed') // of somebody
    const showed = one.pending
  `
  expect(wrongComments('x.ts', source).map((line) => line.split(': ')[1])).toEqual([
    ...['owed', 'told', 'somebody'],
  ])
  expect(wrongNames('x.ts', source)).toEqual(['x.ts: isOwed'])
})

test('comments and names of the code use standard terms', { tags: ['long'] }, () => {
  expect(checkCode(root)).toEqual([])
})

test.each(['Elija qué hacer', 'el cobro: mírelo', 'conéctela', 'Devuélvalos', 'El proveedor'])(
  'a Spanish text that does not say "vos" is found: %s',
  (text) => {
    expect(wrongSpanish('x.js', text)).toHaveLength(1)
  },
)

test.each(['Elegí qué hacer', 'miralo', 'Pasáselo vos', 'los artículos del depósito'])(
  'one that does is not: %s',
  (text) => {
    expect(wrongSpanish('x.js', text)).toEqual([])
  },
)

test('answers, log lines, alerts and help use standard terms', () => {
  expect(checkMessages(root)).toEqual([])
})
