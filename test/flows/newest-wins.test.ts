import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Of several records of one key the last one is the item, and of several files the newest. */
let target: TestTarget
let flows: TestFlows
let serial = 0

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({})
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

type Row = { id: string; price: number | string }
const csv = (rows: Row[]) => `id,price\n${rows.map(({ id, price }) => `${id},${price}\n`).join('')}`
const form: Record<string, (rows: Row[]) => string> = {
  csv,
  json: JSON.stringify,
  ndjson: (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join(''),
}

/** A flow that is paused but for the polls that a test asks for. */
async function serve(
  source: object,
  deletes: object = { mode: 'ignore' },
  item: object = { key: 'id' },
) {
  serial += 1
  const name = `newest-${serial}`
  const dir = join(flows.dir, name)
  await mkdir(dir)
  const flow = jsonFlow(name, target.url, { startPaused: true, deletes, item }) as {
    destinations: object[]
  }
  await flows.write(`${name}.flow.yaml`, {
    ...flow,
    source: { type: 'file', path: join(dir, '*'), format: 'csv', settle: '0s', ...source },
    destinations: flow.destinations.map((one) => ({
      ...one,
      delete: { url: `${target.url}/${name}/{pk}` },
    })),
  })
  expect((await flows.call('POST', '/flows/reload')).json().problems).toEqual([])
  let minute = 0
  const shown = async () => {
    await flows.delivered()
    const last = new Map<string, string>()
    for (const { method, path, body } of target.received) {
      if (!path.startsWith(`/${name}/`)) continue
      const price = (body as { price?: unknown } | undefined)?.price
      last.set(path.slice(name.length + 2), method === 'DELETE' ? 'deleted' : String(price))
    }
    return Object.fromEntries(last)
  }
  return {
    name,
    dir,
    /** Writes a file that is a minute newer than the last one. */
    async drop(file: string, content: string) {
      minute += 1
      const at = new Date(Date.UTC(2026, 0, 1, 0, minute))
      await writeFile(join(dir, file), content)
      await utimes(join(dir, file), at, at)
    },
    /** What the destination has after a poll. */
    async poll() {
      const polled = await flows.call('POST', `/sync/${name}?force=true`)
      expect(polled.statusCode, polled.body).toBe(200)
      return await shown()
    },
    changes: async () => (await flows.call('POST', `/sync/${name}?force=true`)).json().changes,
    errors: async () =>
      ((await flows.call('GET', `/errors?flow=${name}`)).json() as { error: string }[]).map(
        ({ error }) => error,
      ),
    archived: async () =>
      (await readdir(join(dir, 'archive')).catch(() => [])).map((one) => one.split('.')[0]).sort(),
    left: async () => (await readdir(dir)).filter((one) => one !== 'archive').sort(),
  }
}

const send = { mode: 'delete', guard: { maxPercent: 100, minItems: 0 } }

describe.each(['csv', 'json', 'ndjson'])('%s', (format) => {
  const write = form[format] ?? csv
  test('the last of two records with the same key is sent; the problem names both places', async () => {
    const flow = await serve({ format }, send)
    await flow.drop(
      `a.${format}`,
      write([
        { id: 'A', price: 1 },
        { id: 'B', price: 5 },
        { id: 'A', price: 2 },
      ]),
    )
    expect(await flow.poll()).toEqual({ A: '2', B: '5' })
    expect(await flow.changes()).toBe(0)
    const [error] = await flow.errors()
    expect(error).toMatch(
      /^the key is 2 times in the source, first and last at .*a\.[a-z]+ record 1 and .*a\.[a-z]+ record 3; the last record counts$/,
    )
  })
})

test('for records with the same key that are far apart the last one counts too, and only it is sent', {
  tags: ['long'],
}, async () => {
  const flow = await serve({}, send)
  const many = Array.from({ length: 2_500 }, (_, n) => ({ id: `N${n}`, price: 1 }))
  await flow.drop(
    'a.csv',
    csv([{ id: 'A', price: 1 }, ...many, { id: 'A', price: 2 }, { id: 'A', price: 3 }]),
  )
  expect((await flow.poll()).A).toBe('3')
  expect([await flow.changes(), await flow.changes()]).toEqual([0, 0])
  await flow.drop('a.csv', csv([{ id: 'A', price: 4 }, ...many]))
  expect(await flow.changes()).toBe(1)
  expect((await flow.poll()).A).toBe('4')
})

test('a duplicate key does not block the deletes of others', async () => {
  const flow = await serve({}, send)
  const twice = [
    { id: 'A', price: 1 },
    { id: 'A', price: 2 },
  ]
  await flow.drop('a.csv', csv([...twice, { id: 'B', price: 1 }, { id: 'C', price: 1 }]))
  await flow.poll()
  await flow.drop('a.csv', csv([...twice, { id: 'C', price: 1 }]))
  expect(await flow.poll()).toMatchObject({ A: '2', B: 'deleted', C: '1' })
})

test('the newest of several complete files is the source; the others are archived unread', {
  tags: ['long'],
}, async () => {
  const flow = await serve({ after: 'archive' }, send)
  await flow.drop(
    'z-monday.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ]),
  )
  await flow.drop('a-tuesday.csv', 'no header that anybody knows')
  await flow.drop('b-wednesday.csv', csv([{ id: 'A', price: 3 }]))
  expect(await flow.poll()).toEqual({ A: '3' })
  expect(await flow.archived()).toEqual(['a-tuesday', 'b-wednesday', 'z-monday'])
  expect(await flow.left()).toEqual([])
  await flow.drop('c.csv', csv([{ id: 'B', price: 4 }]))
  expect(await flow.poll()).toEqual({ A: 'deleted', B: '4' })
})

test('the newest of complete files that stay is the source', async () => {
  const flow = await serve({}, send)
  await flow.drop(
    'a.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ]),
  )
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  expect(await flow.poll()).toEqual({ A: '2' })
  expect(await flow.left()).toEqual(['a.csv', 'b.csv'])
})

test('the poll waits for a newest file that is not ready, and reads no other in its place', async () => {
  const flow = await serve({ ready: '{name}.ok', after: 'archive' }, send)
  await flow.drop('a.csv', csv([{ id: 'A', price: 1 }]))
  await flow.drop('a.csv.ok', '')
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  const waits = await flows.call('POST', `/sync/${flow.name}?force=true`)
  expect(waits.json().error).toContain('b.csv waits for its marker')
  await flow.drop('b.csv.ok', '')
  expect(await flow.poll()).toEqual({ A: '2' })
  expect(await flow.left()).toEqual([])
})

test('files that are parts are merged, and for a duplicate key the newer file counts', {
  tags: ['long'],
}, async () => {
  const flow = await serve({ files: 'all' }, send)
  await flow.drop(
    'north.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ]),
  )
  await flow.drop(
    'south.csv',
    csv([
      { id: 'B', price: 2 },
      { id: 'C', price: 2 },
    ]),
  )
  expect(await flow.poll()).toEqual({ A: '1', B: '2', C: '2' })
  expect(await flow.changes()).toBe(0)
  expect(await flow.errors()).toEqual([])
  await flow.drop('north.csv', csv([{ id: 'B', price: 3 }]))
  expect(await flow.poll()).toEqual({ A: 'deleted', B: '3', C: '2' })
  const one = await flows.call('POST', `/sync/${flow.name}/B`)
  expect(one.json()).toMatchObject({ changed: false })
})

test('without deletes the files of a pattern are parts, and the newer one counts', async () => {
  const flow = await serve({})
  await flow.drop(
    'a.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ]),
  )
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  expect(await flow.poll()).toEqual({ A: '2', B: '1' })
  expect(await flow.changes()).toBe(0)
})

test('the newer file counts for an item that its filter leaves out', async () => {
  const flow = await serve({}, { mode: 'ignore' }, { key: 'id', filter: 'price != "0"' })
  await flow.drop('a.csv', csv([{ id: 'A', price: 1 }]))
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  expect(await flow.poll()).toEqual({ A: '2' })
  const rows = [
    { id: 'B', price: 0 },
    { id: 'A', price: 0 },
    { id: 'B', price: 5 },
  ]
  await flow.drop('b.csv', csv(rows))
  expect(await flow.poll()).toEqual({ A: '2', B: '5' })
  expect(await flow.changes()).toBe(0)
})

test('an item that the newer of several parts leaves out is deleted', async () => {
  const flow = await serve({ files: 'all' }, send, { key: 'id', filter: 'price != "0"' })
  await flow.drop('a.csv', csv([{ id: 'A', price: 1 }]))
  await flow.drop('b.csv', csv([{ id: 'B', price: 1 }]))
  await flow.poll()
  await flow.drop('b.csv', csv([...[{ id: 'B', price: 1 }], { id: 'A', price: 0 }]))
  expect(await flow.poll()).toEqual({ A: 'deleted', B: '1' })
})

test('an item keeps its content while the newer file has an invalid record of it', async () => {
  const item = { key: 'id', hash: { decimals: { price: 0 } } }
  const flow = await serve({ files: 'all' }, send, item)
  await flow.drop('a.csv', csv([{ id: 'A', price: 1 }]))
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  expect(await flow.poll()).toEqual({ A: '2' })
  await flow.drop('b.csv', csv([{ id: 'A', price: 'x' }]))
  expect(await flow.poll()).toEqual({ A: '2' })
  expect((await flow.errors()).join()).toContain('price')
  await flow.drop('b.csv', csv([{ id: 'A', price: 3 }]))
  expect(await flow.poll()).toEqual({ A: '3' })
})

test('files of changes are read oldest first, and within a file the last record counts without a problem', async () => {
  const flow = await serve({ after: 'archive' })
  await flow.drop(
    'a.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'A', price: 2 },
    ]),
  )
  await flow.drop(
    'b.csv',
    csv([
      { id: 'B', price: 3 },
      { id: 'A', price: 4 },
    ]),
  )
  // A single sync is not ahead of the polls: otherwise the content of a.csv would follow that of b.csv.
  const single = await flows.call('POST', `/sync/${flow.name}/A`)
  expect(single.json()).toMatchObject({ changed: true })
  await flows.delivered()
  expect(target.received.at(-1)?.body).toMatchObject({ price: '2' })
  await flow.poll()
  expect(await flow.poll()).toEqual({ A: '4', B: '3' })
  expect(await flow.left()).toEqual([])
  expect(await flow.errors()).toEqual([])
})

test('files: newest without deletes reads the newest file of changes only', async () => {
  const flow = await serve({ after: 'archive', files: 'newest' })
  expect(await flow.poll()).toEqual({})
  await flow.drop(
    'a.csv',
    csv([
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ]),
  )
  await flow.drop('b.csv', csv([{ id: 'A', price: 2 }]))
  expect(await flow.poll()).toEqual({ A: '2' })
  expect(await flow.archived()).toEqual(['a', 'b'])
})

test('for an HTTP source the last record counts; a record that moved to the next page is no problem', {
  tags: ['long'],
}, async () => {
  const pages = [
    [
      { id: 'A', price: 1 },
      { id: 'B', price: 1 },
    ],
    [
      { id: 'B', price: 1 },
      { id: 'A', price: 2 },
    ],
    [],
  ]
  const server = createServer((request, response) => {
    const page = Number(new URL(request.url ?? '', 'http://x').searchParams.get('page') ?? 0)
    const whole = (request.url ?? '').startsWith('/whole')
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(whole ? pages.flat() : (pages[page - 1] ?? [])))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const http = { type: 'http', path: undefined, format: undefined, settle: undefined }
  const whole = await serve({ ...http, url: `${url}/whole` })
  expect(await whole.poll()).toEqual({ A: '2', B: '1' })
  expect((await whole.errors()).join()).toContain('first and last at record 1 and record 4')
  const paged = await serve({
    ...http,
    url: `${url}/paged`,
    paging: { type: 'page', param: 'page', size: 2 },
  })
  expect(await paged.poll()).toEqual({ A: '2', B: '1' })
  expect(await paged.errors()).toEqual([])
})

test('the option files is refused for the path of one file', async () => {
  await flows.write(
    'one.flow.yaml',
    jsonFlow('one', target.url, {
      source: { type: 'file', path: '/srv/one.json', format: 'json', files: 'newest' },
    }),
  )
  const { problems } = (await flows.call('POST', '/flows/reload')).json()
  expect(problems).toMatchObject([
    { key: 'source.files', message: 'is only for a path with *, which names several files' },
  ])
  await flows.remove('one.flow.yaml')
})
