import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { compileMapping } from '../../src/flows/deliver/item-body.ts'
import { checkFlows } from '../../src/flows/loading/check-flow-files.ts'

/** Flows do not affect each other. */
async function check(...flows: { name: string; source?: object; out?: string[] }[]) {
  const dir = await mkdtemp(join(tmpdir(), 'isolation-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  for (const { name, source, out = [`/out/${name}.ndjson`] } of flows) {
    const flow = {
      ...{ version: 1, name, pollInterval: '1m', item: { key: 'id' } },
      source: { type: 'file', path: `/in/${name}.json`, format: 'json', ...source },
      destinations: out.map((path, index) => ({ name: `d${index}`, type: 'file', path })),
    }
    await writeFile(join(dir, `${name}.flow.yaml`), JSON.stringify(flow))
  }
  const { lines } = await checkFlows({}, dir, { variables: new Set(), files: [], folders: [] })
  return lines
    .slice(0, -1)
    .filter((line) => !line.startsWith('the browser'))
    .map((line) => line.replace(`${dir}/`, '').replace(/:\d+:\d+ /, ' '))
}
const ok = (name: string) => `${name}.flow.yaml: ok, flow ${name}`

test.each([
  ['the same path', '/out/a.ndjson', '/out/./a.ndjson'],
  ['a path that stands for the day', '/out/a-{date}.ndjson', '/out/a-{date}.ndjson'],
])('two flows that append to one file are refused by %s', async (_, one, other) => {
  const message = (name: string) =>
    `is a file that the flow ${name} (${name}.flow.yaml) writes too: each would cut off the other's lines, so none of them is loaded (give each flow a file of its own)`
  expect(await check({ name: 'a', out: [one] }, { name: 'b', out: ['/out/b.csv', other] })).toEqual(
    [
      `a.flow.yaml destinations[0].path: ${message('b')}`,
      `b.flow.yaml destinations[1].path: ${message('a')}`,
    ],
  )
})

test.each([
  ['archive', '/in/art*.csv', '/in/./art*.csv'],
  ['delete', '/in/precios.csv', '/in/precios.csv'],
])('two flows that %s the files of one path are refused: %s', async (after, one, other) => {
  const source = (path: string, more = after) => ({ path, format: 'csv', after: more })
  const message = (name: string) =>
    `takes files that the flow ${name} (${name}.flow.yaml) reads too: one would put them away before the other has read them, so none of them is loaded (give each flow files of its own, or a copy of them)`
  const both = [
    `a.flow.yaml source.path: ${message('b')}`,
    `b.flow.yaml source.path: ${message('a')}`,
  ]
  expect(
    await check({ name: 'a', source: source(one) }, { name: 'b', source: source(other) }),
  ).toEqual(both)
  // A flow that only reads files misses those that the other flow takes.
  expect(
    await check({ name: 'a', source: source(one) }, { name: 'b', source: source(other, 'keep') }),
  ).toEqual(both)
})

test('flows with separate files are loaded, and several may read files that stay', async () => {
  const csv = (path: string, after: string) => ({ path, format: 'csv', after })
  expect(
    await check(
      { name: 'a', source: csv('/in/art*.csv', 'archive'), out: ['/out/a-{date}.ndjson'] },
      { name: 'b', source: csv('/in/pre*.csv', 'archive'), out: ['/out/a-today.ndjson'] },
      { name: 'c', source: csv('/other/art*.csv', 'archive') },
      { name: 'd', source: csv('/in/x.csv', 'keep') },
      { name: 'e', source: csv('/in/x.csv', 'keep') },
    ),
  ).toEqual(['a', 'b', 'c', 'd', 'e'].map(ok))
})

test('files of the same path on two servers are different files', async () => {
  const sftp = (host: string) => ({
    ...{ type: 'sftp', url: `sftp://ana@${host}`, path: '/in/*.csv', format: 'csv' },
    ...{ after: 'archive', privateKey: undefined },
  })
  const lines = await check(
    { name: 'a', source: sftp('one.example') },
    { name: 'b', source: sftp('two.example') },
  )
  expect(lines.filter((line) => line.includes('reads too'))).toEqual([])
})

/** About 100 ms of work that only a worker thread may do. */
const slowText = '$sum($map([1..3000], function($i){ $length($string($i + number)) }))'
const done = (mapping: ReturnType<typeof compileMapping>, times: number) => {
  let count = 0
  const all = Array.from({ length: times }, async (_, number) => {
    await mapping.apply({ number }).catch(() => undefined)
    count += 1
  })
  return { count: () => count, all: Promise.all(all) }
}

test('a slow expression of one flow delays the mapping of another by at most one time slice', {
  tags: ['long'],
}, async () => {
  const slow = compileMapping({ map: slowText })
  const quick = compileMapping({ map: '$uppercase($string(number))' })
  await slow.apply({ number: 0 }).catch(() => undefined)
  await quick.apply({ number: 0 })
  const others = done(slow, 20)
  for (let number = 0; number < 10; number++) {
    expect(await quick.apply({ number })).toBe(String(number))
  }
  expect(others.count()).toBeLessThan(5)
  await others.all
})

test('slow expressions of several flows alternate', { tags: ['long'] }, async () => {
  const first = compileMapping({ map: slowText })
  const second = compileMapping({ map: `${slowText} + 1` })
  await first.apply({ number: 0 }).catch(() => undefined)
  await second.apply({ number: 0 }).catch(() => undefined)
  const others = done(first, 12)
  await second.apply({ number: 1 }).catch(() => undefined)
  expect(others.count()).toBeLessThan(5)
  await others.all
})

test('so do expressions that are evaluated inside the process', async () => {
  const list = Array.from({ length: 60 }, (_, index) => ({ one: index }))
  const slow = compileMapping({ map: '{ "n": $count(list.$$.list.$$.list.one) }' })
  const quick = compileMapping({ map: '{ "n": one }' })
  let count = 0
  const all = Array.from({ length: 12 }, async () => {
    await slow.apply({ list }).catch(() => undefined)
    count += 1
  })
  await quick.apply({ one: 1 })
  expect(count).toBeLessThan(4)
  await Promise.all(all)
})
