import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestFlows, type TestFlows } from '../support/flows.ts'
import { dbfFile } from './dbf-file.ts'
import { sendJson, testServer } from './sources-support.ts'

/** An entry that is not an object is refused alone and reported by its place. Other records are sent, and nothing is deleted. */
let erp: Awaited<ReturnType<typeof testServer>>
let flows: TestFlows

const flowOf = (name: string, source: object, more: object = {}) => ({
  version: 1,
  name,
  pollInterval: '1h',
  startPaused: true,
  allowPrivateNetwork: true,
  source,
  item: { key: 'id' },
  deletes: { mode: 'delete' },
  destinations: [{ name: 'copy', type: 'file', path: `\${env:DIR}/${name}.out`, format: 'ndjson' }],
  ...more,
})
const file = (name: string, format: string, more: object = {}) =>
  flowOf(name, { type: 'file', path: `\${env:DIR}/${name}.${format}`, format, settle: '0s' }, more)
const lines = (...values: unknown[]) => values.map((one) => `${JSON.stringify(one)}\n`).join('')
const pages: Record<string, unknown>[] = []

beforeAll(async () => {
  erp = await testServer()
  erp.handle = (request, response) => {
    const page = Number(new URL(request.url ?? '', 'http://x').searchParams.get('page'))
    sendJson(response, pages[page - 1] ?? { items: [] })
  }
  flows = await startTestFlows({
    files: {
      'list.flow.yaml': file('list', 'json'),
      'lines.flow.yaml': file('lines', 'ndjson'),
      'wrong.flow.yaml': file('wrong', 'json'),
      'cells.flow.yaml': file('cells', 'dbf', { item: { key: 'ID' } }),
      'groups.flow.yaml': flowOf('groups', {
        type: 'file',
        path: `\${env:DIR}/groups.json`,
        format: 'json',
        settle: '0s',
        groupBy: { children: { boxes: ['box'] } },
      }),
      'paged.flow.yaml': flowOf('paged', {
        type: 'http',
        url: `${erp.base}/list`,
        items: 'items',
        paging: { type: 'page', size: 2 },
      }),
    },
  })
})
afterAll(async () => {
  await flows.stop()
  erp.close()
})

const sync = async (name: string) => {
  const answer = await flows.call('POST', `/sync/${name}?force=true`)
  return answer.statusCode === 200 ? answer.json().changes : answer.json().error
}
const errors = async (name: string): Promise<string[]> =>
  (await flows.call('GET', `/errors?flow=${name}`))
    .json()
    .map(({ error }: { error: string }) => error)
    .sort()
const lastRun = async (name: string) =>
  (await flows.call('GET', `/flow/${name}/runs?limit=1`)).json().runs[0]

test('in a JSON list: the other records are sent, and missing items wait for a read without it', async () => {
  await flows.write('list.json', [{ id: 1 }, { id: 2 }])
  expect(await sync('list')).toBe(2)
  const odd = [null, { id: 1, v: 1 }, 'canary', 7, [{ id: 9 }], { id: 3 }]
  await flows.write('list.json', odd)
  expect(await sync('list')).toBe(2)
  expect(await lastRun('list')).toMatchObject({ rows_read: 6, items: { refused: 4, deleted: 0 } })
  const reported = await errors('list')
  expect(reported).toHaveLength(5)
  expect(reported[0]).toBe(
    '1 deletes wait for an answer: the source had records that could not be read',
  )
  expect(reported.slice(1)).toEqual(
    ['1 of the answer is null', '3 of', '4 of', '5 of'].map((part) =>
      expect.stringMatching(
        new RegExp(`^file source: .*list\\.json record ${part}.*not an object$`),
      ),
    ),
  )
  expect(reported.join()).not.toContain('canary')
  expect((await flows.call('POST', '/sync/list/3')).json()).toMatchObject({ found: true })
  await flows.write('list.json', [{ id: 1, v: 1 }, { id: 3 }])
  expect(await sync('list')).toBe(1)
})

test('in a DBF: a number that did not fit refuses its record; the item stays, and the others are sent', async () => {
  const columns = [
    { name: 'ID', type: 'C', length: 2 },
    { name: 'PRECIO', type: 'N', length: 8, decimals: 2 },
  ]
  const put = (...prices: string[]) =>
    writeFile(
      join(flows.dir, 'cells.dbf'),
      dbfFile(
        columns,
        prices.map((price, index) => [' ', `A${index}`, price]),
      ),
    )
  await put('1.00', '2.00', '3.00')
  expect(await sync('cells')).toBe(3)
  await put('********', '2.50', '1.2E+05')
  expect(await sync('cells')).toBe(1)
  expect(await lastRun('cells')).toMatchObject({ rows_read: 3, items: { refused: 2, deleted: 0 } })
  expect(await errors('cells')).toEqual(
    [1, 3].map((record) =>
      expect.stringContaining(
        `the field "PRECIO" has no value of type N in the column PRECIO, record ${record}`,
      ),
    ),
  )
  expect((await flows.call('POST', '/sync/cells/A0')).statusCode).toBe(502)
  expect((await flows.call('POST', '/sync/cells/A1')).json()).toMatchObject({ found: true })
})

test('in NDJSON: a line of other JSON is refused, and one that is not JSON is an incomplete file', async () => {
  await flows.write('lines.ndjson', lines(null, { id: 1 }, [], 'x', { id: 2 }, 4))
  expect(await sync('lines')).toBe(2)
  expect(await errors('lines')).toEqual(
    ['null in line 1', 'a list in line 3', 'a string in line 4', 'a number in line 6']
      .sort()
      .map((what) =>
        expect.stringMatching(new RegExp(`lines\\.ndjson has ${what}, not an object$`)),
      ),
  )
  await flows.write('lines.ndjson', `${lines({ id: 3 })}{"id":`)
  expect(await sync('lines')).toMatch(/has no JSON in line 2$/)
  await flows.write('lines.ndjson', lines(1, 2))
  expect(await sync('lines')).toMatch(/has no line with an object; it has a number in line 1/)
  await flows.write('lines.ndjson', lines(...Array(1_001).fill(null), { id: 9 }))
  expect(await sync('lines')).toMatch(/has no line with an object; it has null in line 1/)
})

test('a list without any object fails the poll', async () => {
  await flows.write('wrong.json', [{ id: 1 }])
  expect(await sync('wrong')).toBe(1)
  await flows.write('wrong.json', ['a', 'b'])
  expect(await sync('wrong')).toMatch(
    /no record of the answer is an object: record 1 of the answer is a string, not an object$/,
  )
  expect(await errors('wrong')).toHaveLength(1)
})

test('with groupBy it may belong to an item, and fails the poll', async () => {
  await flows.write('groups.json', [{ id: 1, box: 1 }, null, { id: 1, box: 2 }])
  expect(await sync('groups')).toMatch(
    /record 2 of the answer is null, not an object; with groupBy its item is not known$/,
  )
})

test('the length of a page counts all its entries, and a last page with only such entries does not fail', async () => {
  pages.splice(
    0,
    3,
    { items: [{ id: 1 }, { id: 2 }] },
    { items: [null, { id: 3 }] },
    { items: [0] },
  )
  expect(await sync('paged')).toBe(3)
  expect(await lastRun('paged')).toMatchObject({ rows_read: 5, items: { refused: 2 } })
  expect(await errors('paged')).toEqual([
    `http source: GET ${erp.base}/list (page 2): record 1 of items (items) is null, not an object`,
    `http source: GET ${erp.base}/list (page 3): record 1 of items (items) is a number, not an object`,
  ])
  pages.splice(0, 3, { items: [null, null] })
  expect(await sync('paged')).toMatch(/no record of items \(items\) is an object/)
})
