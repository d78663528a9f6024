import { expect, test } from 'vitest'
import { flowText, problemsOf, read } from './definition-support.ts'

const bomb = `a: &a [x, x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]`

test.each([
  ['a billion laughs', bomb, /^9:8 b\[0\]: is an alias inside a part that has an anchor$/],
  [
    'an endless circle',
    'x: &x { y: *x }',
    /^8:12 x\.y: is an alias inside a part that has an anchor$/,
  ],
  [
    'a thousand aliases',
    `x: &x 1\ny: [${'*x, '.repeat(1000)}]`,
    /^9:\d+ y\[100\]: is one of more than 100 aliases$/,
  ],
  ['an alias of nothing', 'x: *y', /^8:4 x: is an alias without an anchor \(/],
  [
    'a tag that makes code',
    'x: !!js/function "function () {}"',
    /^8:4 has a tag that is not known here/,
  ],
  [
    'a tag of another language',
    'x: !!python/object/apply:os.system [ls]',
    /^8:4 has a tag that is not known here/,
  ],
  ['binary', 'x: !!binary aGVsbG8=', /^8:4 has a tag that is not known here/],
  ['a prototype', '__proto__: { admin: true }', /^8:1 __proto__: must not be a key$/],
  [
    'a prototype further down',
    'alerts: { "__proto__": { group: {} } }',
    /^8:11 alerts\.__proto__: must not be a key$/,
  ],
  ['a constructor', 'constructor: { prototype: 1 }', /^8:1 constructor: is not a known key/],
  ['a merge', '<<: { startPaused: true }', /^8:1 "<<": is not a known key/],
  ['a key twice', 'startPaused: true\nstartPaused: false', /^9:1 startPaused: is there twice/],
  ['a key that is a list', '? [a]\n: 1', /^8:3 is not a text, so it cannot be a key/],
  ['a second document', '---\nname: other', /^8:1 begins a second document/],
  ['a tab', '\tx: 1', /^8:1 is indented by a tab/],
  ['NUL', 'description: "a\0b"', /^8:16 holds a control character/],
  ['deep lists', `x: ${'['.repeat(40)}${']'.repeat(40)}`, /^1:1 is nested deeper than 32 levels$/],
  ['bottomless lists', `x: ${'['.repeat(5_000)}`, /^(1:1|8:\d+) (is nested|a closing bracket)/],
])('%s is refused', (_, more, expected) => {
  const [first, ...others] = problemsOf(flowText({ more }))
  expect(first).toMatch(expected)
  expect(others.length).toBeLessThan(50)
  expect(({} as Record<string, unknown>).admin).toBeUndefined()
})

test('a file that is not UTF-8 is refused, with the place of the first wrong byte', () => {
  const latin1 = Buffer.from(flowText({ more: 'description: Artículos' }), 'latin1')
  expect(problemsOf(latin1)).toEqual([
    '8:17 is not UTF-8 (save it as UTF-8; editors on Windows may have chosen another encoding)',
  ])
  const utf16 = Buffer.from(`\ufeff${flowText()}`, 'utf16le')
  expect(problemsOf(utf16)[0]).toMatch(/^1:1 is not UTF-8/)
  expect(problemsOf(Buffer.alloc(1_000))[0]).toMatch(/^1:1 holds a control character/)
})

test('a byte order mark, Windows line ends and a YAML directive change nothing', () => {
  const text = flowText({ name: 'name: no', item: 'item: { key: [yes] }' })
  const windows = `\ufeff${text.replaceAll('\n', '\r\n')}`
  for (const written of [text, windows, `%YAML 1.1\n---\n${text}`]) {
    const found = read(written)
    if ('problems' in found) throw new Error(JSON.stringify(found.problems))
    expect(found.loaded.flow.name).toBe('no')
    expect(found.loaded.flow.item.key).toEqual(['yes'])
  }
  const wrong = `\ufeff${flowText({ name: 'name: 5' }).replaceAll('\n', '\r\n')}`
  expect(problemsOf(wrong)[0]).toMatch(/^2:7 name: must be a text/)
})

test('an anchor and its alias have the same value, and each problem has its own place', () => {
  const more =
    'alerts: { onJobFailed: [&ops { type: webhook, url: "https://ops.example.com" }, *ops] }'
  const found = read(flowText({ more }))
  if ('problems' in found) throw new Error(JSON.stringify(found.problems))
  expect(found.loaded.flow.alerts.onJobFailed).toHaveLength(2)
  expect(problemsOf(flowText({ more: more.replace('url', 'uri') }))[0]).toMatch(
    /^8:47 alerts\.onJobFailed\[0\]\.uri: is not a known key/,
  )
})

test('the message about a broken line names what is missing and repeats nothing of the line', () => {
  const reference = `source: { type: http, url: \${env:ERP_URL} }`
  expect(problemsOf(flowText({ source: reference }))).toEqual([
    `4:29 holds something that does not belong here (between { } a reference needs quotes: "\${env:NAME}")`,
  ])
  for (const broken of ['x: a: hunter2', 'hunter2', 'x: "hunter2', 'x: @hunter2', 'x: [hunter2']) {
    const problems = problemsOf(flowText({ more: broken }))
    expect(problems).toHaveLength(1)
    expect(problems[0]).not.toContain('hunter2')
  }
})

test('the answer for a file with many faults is short', () => {
  const text = flowText({ more: Array.from({ length: 1_000 }, (_, n) => `k${n}: 1`).join('\n') })
  expect(problemsOf(text)).toHaveLength(50)
})

test('of 60 unknown names in a mapping the first 50 are listed', () => {
  const names = Array.from({ length: 60 }, (_, n) => `$unknown${n}`)
  const destinations = [
    'destinations:',
    '  - name: out',
    '    type: file',
    '    path: out.ndjson',
    '    map: |',
    ...names.map((name) => `      "${name.slice(1)}" in [${name}] and`),
    '      true',
  ].join('\n')
  const shown = problemsOf(flowText({ destinations })).map(
    (problem) => /\$unknown\d+/.exec(problem)?.[0],
  )
  expect(shown).toEqual(names.slice(0, 50))
})
