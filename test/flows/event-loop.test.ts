/** @module-tag night */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { namesMatching } from '../../src/flows/definition/file-pattern.ts'
import { compileMapping } from '../../src/flows/deliver/item-body.ts'
import { createItemReader } from '../../src/flows/item/item.ts'
import { createItemKeys, createKeySet } from '../../src/flows/item/key-set.ts'
import {
  createReadState,
  type ReadBatch,
  readBatch,
  repeatedItems,
} from '../../src/flows/poll/read-and-compare.ts'
import { isMarkerName } from '../../src/flows/sources/file-readiness.ts'
import type { Source } from '../../src/flows/types.ts'
import { yieldToEventLoop } from '../../src/jobs/yield-to-event-loop.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'
import { flowText, problemsOf } from './definition-support.ts'
import { flowOf, openTestSource } from './sources-support.ts'

/**
 * Data of each kind that once blocked the event loop, up to the accepted limits, passed to its reader. Some cases note the
 * longest iteration of the event loop in ms before the limit, on the same machine.
 */
const nothing = new AbortController().signal

let dir: string
let server: Server
let answer = Buffer.alloc(0)

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'event-loop-'))
  server = createServer((_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(answer),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // Loading and compiling at the first use is not measured.
  problemsOf(flowText({ more: 'x: [1]' }))
  await compileMapping({ map: '[items.{ "a": a }]' }).apply({ items: [{ a: 1 }] })
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await rm(dir, { recursive: true })
})

/** Reads everything and creates items, as a poll does. */
async function makeItems(source: Source): Promise<string> {
  const flow = flowOf({ type: 'file', path: 'f', format: 'csv' })
  const { read } = createItemReader(flow)
  const said: string[] = []
  let items = 0
  const runtime = { read, flow, source } as Parameters<typeof readBatch>[0]
  const readState = createReadState(runtime, createItemKeys())
  const take = (batch: ReadBatch) => {
    items += batch.items.length
    said.push(...batch.problems.map(({ why }) => sentenceOf(why, 'en')))
  }
  for await (const rows of source.scan({ since: null, signal: nothing })) {
    take(await readBatch(runtime, rows, readState, nothing))
  }
  take(repeatedItems(runtime, readState, { isFull: true }))
  return said[0] ?? `${items} items`
}

const many = (text: string, count: number) => text.repeat(count)
const list = (count: number, entry: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => entry(index)).join(',')

type FileCase = [string, 'csv' | 'json' | 'ndjson', () => string, string]

const files: FileCase[] = [
  [
    'a header of 60,000 columns (6,900)',
    'csv',
    () => `id,${list(60_000, (i) => `c${i}`)}\n`,
    '60001 columns in its header; 4096 are the most',
  ],
  [
    'a line of separators',
    'csv',
    () => `id,t\n${many(',', 3_900_000)}\n`,
    'a line longer than 1048576 characters',
  ],
  [
    'one huge line',
    'csv',
    () => `id,t\n1,${many('x', 8_000_000)}\n`,
    'a line longer than 1048576 characters',
  ],
  [
    'the most columns, in several records',
    'csv',
    () => `id,${list(4_095, (i) => `c${i}`)}\n${many(`1${many(',x', 4_095)}\n`, 20)}`,
    'times in the source',
  ],
  [
    'one huge line',
    'ndjson',
    () => `{"id":1,"t":[${many('1,', 3_900_000)}1]}`,
    'more than 1048576 characters in line 1 in "t"',
  ],
  ['a number of many zeros', 'ndjson', () => `{"id":1,"n":1${many('0', 60_000)}1}`, '1 items'],
  [
    'wide rows',
    'ndjson',
    () => `{"id":1,${list(60_000, (i) => `"f${i}":1`)}}`,
    'more than 4096 fields',
  ],
  ['many lines', 'ndjson', () => many('{"id":1}\n', 20_000), 'times in the source'],
  ['depth', 'json', () => many('[', 8_000_000), 'is nested deeper than 500 levels'],
  [
    'one row of many values',
    'json',
    () => `[{"id":1,"t":[${many('1,', 1_900_000)}1]}]`,
    'more than 50000 values',
  ],
  [
    'an item of the most values, with a group behind it',
    'ndjson',
    () => many(`{"id":1,"t":[${many('"ñ",', 49_000)}1]}\n`, 20),
    'times in the source',
  ],
  [
    'items of the most characters',
    'ndjson',
    () => many(`{"id":1,"t":"${many('\\u00f1', 170_000)}"}\n`, 20),
    'times in the source',
  ],
  [
    'one text',
    'json',
    () => `[{"id":1,"t":"${many('\\u0041', 4_000_000)}"}]`,
    'a value longer than 4194304 characters in "t"',
  ],
]
const largeFiles: FileCase[] = [
  [
    'one list of 30 MiB of numbers',
    'json',
    () => `[{"id":1,"t":[${many('123456789012345,', 1_900_000)}1]}]`,
    'more than 50000 values',
  ],
  [
    '30 MiB of lists in lists',
    'json',
    () => `[{"id":1,"t":[${many('[[1],[2]],', 1_999_000)}1]}]`,
    'more than 500000 lists and objects in one record',
  ],
  [
    '30 MiB of records',
    'json',
    () => `[${list(100_000, (i) => `{"id":${i},"name":"${many('ñ', 280)}"}`)}]`,
    '100000 items',
  ],
]

const readsFile = async (...[, format, content, expected]: FileCase) => {
  const path = join(dir, 'file')
  await writeFile(path, content())
  const { source } = openTestSource(flowOf({ type: 'file', path, format, settle: '0s' }))
  const { ms, said } = await longestTurn(() => makeItems(source))
  expect(said).toContain(expected)
  expect(ms).toBeLessThan(promisedMs)
}
test.each([...files, ...largeFiles])('a file with %s does not block the event loop: %s', readsFile)

type AnswerCase = [string, object, () => string, string]

const answers: AnswerCase[] = [
  [
    'long numbers',
    { type: 'none' },
    () => `[${list(100_000, (i) => `{"id":${i},"n":1234567890123456789}`)}]`,
    '100000 items',
  ],
  ['depth', { type: 'none' }, () => many('{"a":', 2_000_000), 'is nested deeper than 500 levels'],
]
const largeAnswers: AnswerCase[] = [
  [
    'a page of 30 MiB of records (370)',
    { type: 'none' },
    () => `[${list(200_000, (i) => `{"id":${i},"name":"${many('x', 130)}"}`)}]`,
    '200000 items',
  ],
  [
    'a page that is read by number',
    { type: 'page', param: 'page' },
    () => `[${list(250_000, (i) => `{"id":${i},"name":"x"}`)}]`,
    'the same page came twice',
  ],
]

const readsAnswer = async (...[, paging, content, expected]: AnswerCase) => {
  answer = Buffer.from(content())
  const { port } = server.address() as AddressInfo
  const flow = flowOf(
    { type: 'http', url: `http://127.0.0.1:${port}/`, paging },
    { allowPrivateNetwork: true },
  )
  const { source } = openTestSource(flow, { createAgent: () => new Agent() })
  const { ms, said } = await longestTurn(() => makeItems(source))
  await source.close()
  expect(said).toContain(expected)
  expect(ms).toBeLessThan(promisedMs)
}
test.each([...answers, ...largeAnswers])(
  'an HTTP source that answers %s does not block the event loop',
  readsAnswer,
)

const crowded = /has more than 10000 words and signs up to here/
const anchors = `x: &x [${many('a, ', 400)}a]\ny: [${many('*x, ', 99)}*x]`
test.each<[string, string, RegExp]>([
  ['brackets', `x: ${many('[', 130_000)}`, crowded],
  ['a list', `x: [${many('a,', 64_000)}a]`, crowded],
  ['lines', `x:\n${many('- a\n', 32_000)}`, crowded],
  ['line ends', many('\n', 130_000), crowded],
  ['tags', `x: [${many('!a b, ', 20_000)}]`, crowded],
  ['complex keys', many('? a\n', 30_000), crowded],
  ['aliases of a large part', anchors, /is an alias too much: they repeat more than 10000 values/],
])('a definition full of %s does not block the event loop', async (_, more, expected) => {
  const { ms, said } = await longestTurn(async () => problemsOf(flowText({ more }))[0] ?? 'good')
  expect(said).toMatch(expected)
  expect(ms).toBeLessThan(promisedMs)
})

test('expressions beyond their limit are refused before they are compiled', () => {
  const out = (index: number) =>
    `  - { name: o${index}, type: file, path: o${index}, map: '[${many('a,', 7_000)}a]' }`
  const destinations = (count: number) =>
    `destinations:\n${Array.from({ length: count }, (_, i) => out(i)).join('\n')}`
  expect(problemsOf(flowText({ destinations: destinations(3) }))).toEqual([])
  expect(problemsOf(flowText({ destinations: destinations(4) }))).toEqual([
    expect.stringContaining('map: makes more than 49152 characters of expressions in one file'),
  ])
  const long = `destinations:\n  - { name: o, type: file, path: o, map: '[${many('a,', 8_200)}a]' }`
  expect(problemsOf(flowText({ destinations: long }))).toEqual([
    expect.stringContaining('map: must be at most 16384 characters'),
  ])
})

const rows = (count: number) => Array.from({ length: count }, (_, a) => ({ a, b: `x${a}` }))
test.each<[string, Parameters<typeof compileMapping>[0], Record<string, unknown>, RegExp]>([
  [
    'many entries',
    { map: '[items.{ "a": a, "b": b }]' },
    { items: rows(20_000) },
    /processor time|^\[/,
  ],
  [
    'a comparison of each with each',
    { map: 'items[a = $max($$.items.a)]' },
    { items: rows(2_000) },
    /processor time|^\{/,
  ],
  [
    'a million digits',
    { fields: { n: { from: 'n', type: 'integer' } } },
    { n: many('7', 1_000_000) },
    /^\{"n":"7{1000}/,
  ],
])('a mapping over %s does not block the event loop', async (_, rules, value, expected) => {
  const mapping = compileMapping(rules)
  const { ms, said } = await longestTurn(async () => JSON.stringify(await mapping.apply(value)))
  expect(said).toMatch(expected)
  expect(ms).toBeLessThan(promisedMs)
})

test.each([
  ['a pattern', namesMatching('*a*a*a*.csv')],
  ['a marker', isMarkerName('{stem}a{stem}a{stem}a{stem}.ok')],
])(
  'the name of a file that almost matches %s does not block the event loop',
  async (_, matches) => {
    const { ms, said } = await longestTurn(async () => String(matches(many('a', 350))))
    expect(said).toBe('false')
    expect(ms).toBeLessThan(promisedMs)
  },
)

test('many flows at once do not block the event loop, nor does one with many short steps in a row', async () => {
  const burn = () => {
    const since = performance.now()
    while (performance.now() - since < 2);
  }
  const flow = async () => {
    for (let step = 0; step < 8; step += 1) {
      await yieldToEventLoop()
      burn()
    }
  }
  const { ms } = await longestTurn(async () => {
    await Promise.all(Array.from({ length: 20 }, flow))
    for (let one = 0; one < 20; one += 1) await flow()
    return 'done'
  })
  // 320 ms of work each.
  expect(ms).toBeLessThan(promisedMs / 2)
})

test('every key of a large poll is known once', () => {
  const seen = createKeySet()
  const keys = Array.from({ length: 60_000 }, (_, index) => `A-${index}`)
  expect(keys.every((key) => seen.add(key))).toBe(true)
  expect(keys.some((key) => seen.add(key))).toBe(false)
  expect(keys.every((key) => seen.has(key))).toBe(true)
  expect(seen.has('A-60000')).toBe(false)
  expect(seen.size).toBe(60_000)
})
