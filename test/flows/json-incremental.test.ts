import { expect, test } from 'vitest'
import { parseExactJson } from '../../src/domain/json.ts'
import { JsonLimitError, parseJsonIncrementally } from '../../src/flows/sources/json-incremental.ts'

/** Longer than one chunk of the parser. */
const long = 140_000
const records = (count: number) =>
  Array.from({ length: count }, (_, id) => ({ id, name: `ñ "${id}" \\`, list: [id, { a: null }] }))
const filler = `"${'x'.repeat(long)}"`

test.each([
  ['a list of records', JSON.stringify(records(5_000))],
  [
    'a list far inside',
    JSON.stringify({ a: 1, data: { page: 2, items: records(5_000), b: [] }, z: [] }),
  ],
  ['lists beside each other', JSON.stringify([records(2_000), records(3), [], records(2_000)])],
  ['blanks everywhere', JSON.stringify({ data: records(3_000), n: 1 }, null, 4)],
  [
    'a wide object',
    JSON.stringify(Object.fromEntries(records(12_000).map(({ id }) => [`k${id}`, id]))),
  ],
  ['a key twice', `{"a":1,"b":${filler},"a":${filler},"c":3}`],
  ['a key with quotes', `{${JSON.stringify(`"\\${'k'.repeat(9)}`)}:[${filler},1,${filler},2,3]}`],
  ['numbers that are exact as text only', `[${'1234567890123456789,'.repeat(8_000)}0.1,1e400]`],
  ['one text', filler],
  ['one text in a list', ` [ ${filler} ] `],
  ['brackets and commas in texts', JSON.stringify(Array(10_000).fill('[{"a":1},]}\\'))],
  [
    'a small list behind a large one',
    `[[${'1,'.repeat(long)}1],[2],{"a":[${'1,'.repeat(long)}1],"b":2}]`,
  ],
])('%s is parsed as in one go', { tags: ['long'] }, async (_, text) => {
  expect(text.length).toBeGreaterThan(131_072)
  expect(await parseJsonIncrementally(text)).toEqual(parseExactJson(text))
})

test('__proto__ becomes a field and no prototype, whatever its spelling', async () => {
  const text = `{"a":[${filler},${filler},1],"__proto__":{"x":[${filler},${filler},1]},"b":1}`
  for (const whole of [text, `[{"__proto__":1,"f":${filler}},${filler},2]`]) {
    const value = await parseJsonIncrementally(whole)
    expect(JSON.stringify(value)).toBe(whole)
    expect(({} as Record<string, unknown>).x).toBeUndefined()
  }
})

const many = `${filler},`.repeat(3)
test.each([
  `[${many}]`,
  `[,${many}1]`,
  `[${many},1]`,
  `{"a":1,${many}"b":2}`,
  `{"a":[${many}1]"b":2,"c":${filler}}`,
  `{"a":[${many}1],,"c":3}`,
  `{"a":[${many}1],}`,
  `{"a" [${many}1]}`,
  `{a:[${many}1]}`,
  `{"a":1:[${many}1]}`,
  `{"a","b":[${many}1]}`,
  `[1 [${many}1]]`,
  `[[${many}1] 2]`,
  `[${many}1}`,
  `[${many}1`,
  `[${many}1]]`,
  `[${many}1],[]`,
  `[${many}1] x`,
  `x [${many}1]`,
  `[${many}nul]`,
  `[${many}01]`,
  `[${many}1]\u00a0`,
  `[${many}"\n"]`,
  `[${many}"\\x"]`,
  `[${many}"`,
  `,${many}`,
  `]${many}`,
])('invalid JSON is refused wherever the mistake is: %#', async (text) => {
  expect(() => JSON.parse(text)).toThrow(SyntaxError)
  await expect(parseJsonIncrementally(text)).rejects.toThrow(SyntaxError)
})

test.each([
  ['depth', '['.repeat(100_000) + ']'.repeat(100_000)],
  ['depth behind a list', `[[${many}1],${'['.repeat(600)}${']'.repeat(600)}]`],
  ['one text without end', `["${'\\"'.repeat(3_000_000)}"]`],
  ['one text', `["${'x'.repeat(5_000_000)}"]`],
  ['one number', `[${'1'.repeat(5_000_000)}]`],
  ['a list', `{"a":[${'1,'.repeat(2_000_000)}1]}`],
  ['lists in one record', `{"a":[{"b":[${'[],'.repeat(500_001)}1]}]}`],
])('%s beyond its limit is refused at once', { tags: ['long'] }, async (_, text) => {
  await expect(parseJsonIncrementally(text)).rejects.toThrow(JsonLimitError)
})

test.each([
  [`[{"id":1,"foto":"${'x'.repeat(5_000_000)}"}]`, 'in "foto"'],
  [`[{"id":1,"foto":"${String.raw`\"`.repeat(3_000_000)}"}]`, 'in "foto"'],
  [`[{"id":1,"doc":"${String.raw`{\"a\":1}`.repeat(600_000)}"}]`, 'in "doc"'],
  [`["${'x'.repeat(5_000_000)}"]`, '4194304 characters'],
])('the reason names the field: %#', async (text, place) => {
  await expect(parseJsonIncrementally(text)).rejects.toThrow(
    new RegExp(`holds a value longer than .*${place}$`),
  )
})

test('the limit counts the lists and objects of one record, not of all', {
  tags: ['long'],
}, async () => {
  const record = `{"b":[${'[],'.repeat(200_000)}1]}`
  const text = `{"a":[${record},${record}],"b":[${record},${record}]}`
  expect(await parseJsonIncrementally(text)).toEqual(parseExactJson(text))
})

test('between two iterations of the event loop at most one piece is parsed', async () => {
  const text = `{"n":1,"data":[${'{"id":1234567890123456789,"name":"x"},'.repeat(20_000)}{}]}`
  let turns = 0
  await parseJsonIncrementally(text, () => {
    turns += 1
    return undefined
  })
  expect(turns).toBeGreaterThan(text.length / 33_000)
})
