import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { SourceContext } from '../../src/flows/sources/source-context.ts'
import { type Source, SourceError } from '../../src/flows/types.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { flowOf, ids, openTestSource, readAll, sendJson, testServer } from './sources-support.ts'

let server: Awaited<ReturnType<typeof testServer>>
let opened: Source[] = []

beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server.close())
beforeEach(() => {
  server.asked.length = 0
})
afterEach(async () => {
  await Promise.all(opened.map((source) => source.close()))
  opened = []
})

const env = { TOKEN: 'tok3n-of-the-ERP', PLACE: 'hidden-path-1' }

function open(source: object, more: Partial<SourceContext> = {}, flow: object = {}) {
  const definition = { type: 'http', url: `${server.base}/list`, ...source }
  const made = openTestSource(flowOf(definition, { allowPrivateNetwork: true, ...flow }, env), more)
  opened.push(made.source)
  return made
}

const read = (source: object) => readAll(open(source).source)
const failureOf = async (work: Promise<unknown>): Promise<Error> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return error as Error
}

const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: from + index }))
const param = (url: string | undefined, name: string) =>
  new URL(url ?? '', 'http://x').searchParams.get(name)

test('a list, or the list at the path of items, becomes records in batches of fetchSize', async () => {
  server.handle = (_, response) => sendJson(response, { data: { items: numbered(1, 5) } })
  const { source } = open({ items: 'data.items', limits: { fetchSize: 2 } })
  const sizes: number[] = []
  const { signal } = new AbortController()
  for await (const batch of source.scan({ since: null, signal })) sizes.push(batch.length)
  expect(sizes).toEqual([2, 2, 1])
  server.handle = (_, response) => sendJson(response, numbered(1, 3))
  expect(ids(await read({}))).toEqual([1, 2, 3])
})

test('numbers beyond a double, foreign keys and odd texts arrive unchanged', async () => {
  server.handle = (_, response) =>
    sendJson(response, `[{"id":9007199254740993,"price":0.1,"__proto__":{"a":1},"t":"a\\u0000b"}]`)
  const [row] = await read({})
  expect(Object.keys(row ?? {})).toEqual(['id', 'price', '__proto__', 't'])
  expect(row).toMatchObject({ id: 9007199254740993n, price: 0.1, t: 'a\0b' })
  expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
  const long = 'x'.repeat(1_000_000)
  server.handle = (_, response) => sendJson(response, [{ id: long }])
  expect(ids(await read({}))).toEqual([long])
})

test('an answer is read in the charset that it names, and one with another charset is refused', async () => {
  const body = Buffer.from('[{"id":"a\u00f1o"}]', 'latin1')
  const as = (type: string) => {
    server.handle = (_, response) => response.writeHead(200, { 'content-type': type }).end(body)
  }
  as('application/json; charset=ISO-8859-1')
  expect(ids(await read({}))).toEqual(['a\u00f1o'])
  as('application/json')
  expect((await failureOf(read({}))).message).toContain('not text in utf-8')
})

test.each([
  ['{"data":null}', 'items (data) is null, not a list'],
  ['{"error":"x"}', 'items (data) is missing, not a list'],
  ['{"data":{"id":1}}', 'items (data) is an object, not a list'],
  [
    '{"data":[7,null]}',
    'no record of items (data) is an object: record 1 of items (data) is a number, not an object',
  ],
  ['<html>geheim</html>', 'the answer is not JSON'],
  ['', 'the answer is empty'],
])('the answer %s fails the poll', async (body, message) => {
  server.handle = (_, response) => sendJson(response, body)
  const failure = await failureOf(read({ items: 'data' }))
  expect(failure.message).toBe(`http source: GET ${server.base}/list: ${message}`)
})

test('204 is a source without records', async () => {
  server.handle = (_, response) => response.writeHead(204).end()
  expect(await read({})).toEqual([])
})

test('headers have their secrets; accept and user-agent can be replaced', async () => {
  let seen: object = {}
  server.handle = (request, response) => {
    seen = request.headers
    sendJson(response, [])
  }
  const bearer = `Bearer \${env:TOKEN}`
  await read({ headers: { Authorization: bearer, Accept: 'application/vnd.x+json' } })
  expect(seen).toMatchObject({
    authorization: 'Bearer tok3n-of-the-ERP',
    accept: 'application/vnd.x+json',
    'user-agent': 'tillbridge',
  })
})

test('{cursor} is the begin of the read, percent-encoded, and initial for a read of everything', async () => {
  server.handle = (_, response) => sendJson(response, [])
  const { source } = open({
    url: `${server.base}/list?since={cursor}&q=a%20b`,
    cursor: { field: 'at', initial: '1970-01-01T00:00:00Z' },
  })
  await readAll(source, '2026-01-01T00:00:00+03:00')
  await readAll(source)
  expect(server.asked).toEqual([
    '/list?since=2026-01-01T00%3A00%3A00%2B03%3A00&q=a%20b',
    '/list?since=1970-01-01T00%3A00%3A00Z&q=a%20b',
  ])
})

/** Serves `total` records in pages of at most `cap`. */
function servePages(total: number, cap: number, beyond = 200) {
  server.handle = (request, response) => {
    const page = Number(param(request.url, 'page'))
    const rows = numbered(1, total).slice((page - 1) * cap, page * cap)
    if (rows.length > 0 || beyond === 200) return sendJson(response, rows)
    response.writeHead(beyond, { 'content-type': 'application/json' })
    response.end('{"detail":"Invalid page."}')
  }
}

const paged = { type: 'page', sizeParam: 'per_page', size: 10 }

test('paging by number ends with an empty page', async () => {
  servePages(25, 10)
  expect(ids(await read({ paging: paged }))).toEqual(ids(numbered(1, 25)))
  expect(server.asked).toEqual([1, 2, 3, 4].map((page) => `/list?per_page=10&page=${page}`))
  servePages(20, 10)
  expect(await read({ paging: { type: 'page' } })).toHaveLength(20)
  servePages(20, 10, 404)
  expect(await read({ paging: paged })).toHaveLength(20)
})

test('a short page in the middle is not the end', async () => {
  const pages = [numbered(1, 10), numbered(11, 7), numbered(18, 10), numbered(28, 1)]
  server.handle = (request, response) => {
    const page = Number(new URL(request.url ?? '', 'http://x').searchParams.get('page'))
    sendJson(response, pages[page - 1] ?? [])
  }
  expect(ids(await read({ paging: paged }))).toEqual(ids(numbered(1, 28)))
})

test('a server that repeats its last page ends the read after full pages, and is an error otherwise', async () => {
  const pages = [numbered(1, 10), numbered(11, 7)]
  server.handle = (request, response) => {
    const page = Number(new URL(request.url ?? '', 'http://x').searchParams.get('page'))
    sendJson(response, pages[Math.min(page, 2) - 1])
  }
  expect(await read({ paging: paged })).toHaveLength(17)
  server.handle = (_, response) => sendJson(response, numbered(1, 7))
  expect((await failureOf(read({ paging: paged }))).message).toContain('the same page came twice')
})

test('a page token that stays the same is used until a page is empty', async () => {
  const paging = { type: 'cursor', param: 'scroll_id', next: 'scroll' }
  let asked = 0
  const pages = [numbered(1, 10), numbered(11, 7), numbered(18, 3), []]
  server.handle = (_, response) => {
    asked += 1
    sendJson(response, { scroll: 'same', rows: pages[asked - 1] ?? [] })
  }
  expect(await read({ paging, items: 'rows' })).toHaveLength(20)
  expect(asked).toBe(4)
  server.handle = (_, response) => sendJson(response, { scroll: 'same', rows: numbered(1, 5) })
  expect((await failureOf(read({ paging, items: 'rows' }))).message).toContain('read already')
})

test('a server that returns fewer records than requested is read to its end', async () => {
  servePages(25, 4)
  expect(await read({ paging: paged })).toHaveLength(25)
  servePages(3, 10, 404)
  expect(await read({ paging: paged })).toHaveLength(3)
})

test('404 on the first page, or without JSON on a later one, is a failure', async () => {
  server.handle = (request, response) => {
    if (request.url?.endsWith('page=1')) return sendJson(response, numbered(1, 10))
    response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>no route</h1>')
  }
  const failure = await failureOf(read({ paging: paged }))
  expect(failure.message).toBe(
    `http source: GET ${server.base}/list (page 2): HTTP 404 (text/html)`,
  )
  servePages(0, 10, 404)
  expect((await failureOf(read({ paging: paged }))).message).toContain('HTTP 404')
})

test('paging by offset advances by the received records', async () => {
  server.handle = (request, response) => {
    const offset = Number(param(request.url, 'skip'))
    sendJson(response, numbered(1 + offset, Math.max(0, Math.min(7, 20 - offset))))
  }
  const paging = { type: 'offset', param: 'skip', sizeParam: 'top', size: 10 }
  expect(ids(await read({ paging }))).toEqual(ids(numbered(1, 20)))
  expect(server.asked.map((url) => param(url, 'skip'))).toEqual(['0', '7', '14', '20'])
})

test('paging by cursor continues until next has no value, also over empty pages, with exact numbers', async () => {
  const pages: Record<string, unknown> = {
    start: '{"d":[{"id":1}],"n":9007199254740993}',
    '9007199254740993': '{"d":[],"n":"b/c&d"}',
    'b/c&d': '{"d":[{"id":2}],"n":null}',
  }
  server.handle = (request, response) =>
    sendJson(response, pages[param(request.url, 'cursor') ?? 'start'])
  const paging = { type: 'cursor', next: 'n' }
  expect(ids(await read({ items: 'd', paging }))).toEqual([1, 2])
  expect(server.asked).toHaveLength(3)
  server.handle = (_, response) => sendJson(response, { d: [], n: [1, 2] })
  expect((await failureOf(read({ items: 'd', paging }))).message).toContain(
    'paging.next gives a list',
  )
})

test('paging by Link follows rel=next within the origin only', async () => {
  const elsewhere: string[] = []
  const other = await testServer()
  other.handle = (request, response) => {
    elsewhere.push(request.headers.authorization ?? '')
    sendJson(response, [])
  }
  const links = [
    `</list?p=0>; rel="prev", </list?p=2,3>; title="a, b; rel=next>"; rel="last next"`,
    `<?p=4>; rel=next`,
    `</list?p=1>; rel=first`,
  ]
  server.handle = (_, response) =>
    sendJson(response, [{ id: server.asked.length }], {
      link: links[server.asked.length - 1] ?? '',
    })
  const source = {
    paging: { type: 'link' },
    headers: { authorization: `Bearer \${env:TOKEN}` },
  }
  expect(ids(await read(source))).toEqual([1, 2, 3])
  expect(server.asked).toEqual(['/list', '/list?p=2,3', '/list?p=4'])
  server.handle = (_, response) => sendJson(response, [], { link: `<${other.base}/x>; rel=next` })
  expect((await failureOf(read(source))).message).toContain('another origin')
  other.close()
  expect(elsewhere).toEqual([])
})

test.each([
  { type: 'page' },
  { type: 'offset', size: 10 },
  { type: 'cursor', next: '$string(t)' },
  { type: 'link' },
])(
  'pages of $type that repeat the same records in another spelling are an error',
  async (paging) => {
    server.handle = (_, response) => {
      const t = server.asked.length
      const rows = numbered(1, 10).map((row) => ({ ...row, t }))
      sendJson(response, { d: t > 2_000 ? [] : rows, t }, { link: `</list?t=${t}>; rel=next` })
    }
    const failure = await failureOf(read({ items: 'd', paging }))
    expect(failure.message).toContain('100 pages in a row without a new record')
    expect(server.asked.length).toBeLessThan(110)
  },
)

test('an item whose parts fill many pages is not a repetition', async () => {
  server.handle = (_, response) => {
    const part = server.asked.length
    sendJson(response, part > 150 ? [] : [{ id: 1, part }])
  }
  const groupBy = { children: { parts: ['part'] } }
  expect(await read({ paging: { type: 'page' }, groupBy })).toHaveLength(150)
})

test('pages that never end are an error: the same page, the same cursor, the same link', async () => {
  server.handle = (_, response) => sendJson(response, { d: numbered(1, 10), n: 'same' })
  const failures = await Promise.all(
    [{ type: 'page' }, { type: 'offset', size: 10 }, { type: 'cursor', next: 'n' }].map((paging) =>
      failureOf(read({ items: 'd', paging })),
    ),
  )
  expect(failures.map(({ message }) => message.replace(/^.*: /, ''))).toEqual([
    expect.stringContaining('does the server know the parameter?'),
    expect.stringContaining('does the server know the parameter?'),
    'the next page is one that was read already',
  ])
  server.handle = (_, response) => sendJson(response, [], { link: '</list>; rel=next' })
  expect((await failureOf(read({ paging: { type: 'link' } }))).message).toContain('read already')
  server.handle = (_, response) =>
    sendJson(response, [], { link: `</list?${server.asked.length}>; rel=next` })
  server.asked.length = 0
  expect((await failureOf(read({ paging: { type: 'link' } }))).message).toContain(
    'without a record',
  )
})

test('429 and 5xx are retried after their Retry-After, up to a minute', async () => {
  server.handle = (_, response) => {
    const { length } = server.asked
    if (length === 1) response.writeHead(429, { 'retry-after': '7' }).end()
    else if (length === 2) response.writeHead(503).end()
    else if (length === 3) response.destroy()
    else sendJson(response, numbered(1, 1))
  }
  const patient = open({})
  expect(await readAll(patient.source)).toHaveLength(1)
  expect(patient.slept).toEqual([7_000, 2_000, 4_000])

  server.handle = (_, response) => response.writeHead(503, { 'retry-after': '120' }).end()
  const impatient = open({})
  expect((await failureOf(readAll(impatient.source))).message).toContain('a pause of 120 s')
  expect(impatient.slept).toEqual([])

  server.handle = (_, response) => response.writeHead(500).end()
  server.asked.length = 0
  expect((await failureOf(read({}))).message).toContain('HTTP 500')
  expect(server.asked).toHaveLength(4)
  server.handle = (_, response) => response.writeHead(401).end()
  server.asked.length = 0
  await failureOf(read({}))
  expect(server.asked).toHaveLength(1)
})

test('a server without an answer is a failure after the timeout of each request', {
  tags: ['long'],
}, async () => {
  server.handle = () => undefined
  const { source, slept } = open({ limits: { timeout: '100ms' } })
  expect((await failureOf(readAll(source))).message).toContain('no whole answer within 100 ms')
  expect(slept).toHaveLength(3)
})

test('an endless answer is cut at the limit of a page', async () => {
  const piece = Buffer.alloc(1024 * 1024, ' ')
  server.handle = (_, response) => {
    const more = () => {
      while (response.write(piece));
      response.once('drain', more)
    }
    more()
  }
  expect((await failureOf(read({}))).message).toContain('larger than 33554432 bytes')
  expect(server.asked).toHaveLength(1)
})

test('redirects are followed within the origin, never to another or to a metadata service', async () => {
  const targets = [
    '/other',
    'http://169.254.169.254/latest',
    'http://[fd00:ec2::254]/',
    'http://localhost:1/',
  ]
  for (const location of targets) {
    server.handle = (request, response) => {
      if (request.url === '/other') return sendJson(response, numbered(1, 1))
      response.writeHead(302, { location }).end()
    }
    if (location === '/other') expect(await read({})).toHaveLength(1)
    else
      expect((await failureOf(read({}))).message).toContain(
        'redirects to another host are not followed',
      )
  }
})

test('metadata and link-local addresses are refused, directly and behind a name', async () => {
  const url = 'http://169.254.169.254/latest'
  expect((await failureOf(read({ url }))).message).toContain('never called')
  const createAgent = () =>
    createGuardedAgent({
      allowPrivateNetwork: true,
      lookup: (_name, _options, callback) =>
        callback(null, [{ address: '169.254.169.254', family: 4 }]),
    })
  const named = open({ url: 'http://erp.example.com/list' }, { createAgent })
  const failure = await failureOf(readAll(named.source))
  expect(failure.message).toContain('erp.example.com is a link-local or cloud metadata address')
  expect(named.slept).toEqual([])
})

test('loopback and private addresses need allowPrivateNetwork', async () => {
  const { source } = open({}, {}, { allowPrivateNetwork: false })
  expect((await failureOf(readAll(source))).message).toContain('allowPrivateNetwork')
  expect(server.asked).toEqual([])
})

test('no failure contains a secret, even when the server repeats it', async () => {
  server.handle = (request, response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ url: request.url, got: request.headers.authorization }))
  }
  const reference = (name: string) => `\${env:${name}}`
  const failure = await failureOf(
    read({
      url: `${server.base}/${reference('PLACE')}/list?key=${reference('TOKEN')}`,
      headers: { authorization: `Bearer ${reference('TOKEN')}` },
    }),
  )
  expect(failure.message).toContain(
    `/${reference('PLACE')}/list?key=${reference('TOKEN')}: HTTP 400`,
  )
  expect(JSON.stringify([failure.message, failure.stack])).not.toMatch(/tok3n|hidden-path/)
})

test('an HTML page in place of an item, or of a later page, does not mean that nothing is there', async () => {
  const page = '<!doctype html><html><body>En mantenimiento</body></html>'
  const { source } = open({ item: { url: `${server.base}/item/{pk}` } })
  const { signal } = new AbortController()
  for (const status of [404, 410]) {
    server.handle = (_request, response) => void response.writeHead(status).end(page)
    const failure = await failureOf(source.readItem({ key: ['1'], signal }))
    expect(failure.message).toContain(`HTTP ${status}`)
  }
  server.handle = (request, response) => {
    if (request.url?.endsWith('page=1')) return sendJson(response, numbered(1, 10))
    response.writeHead(404, { 'content-type': 'application/json' }).end(page)
  }
  expect((await failureOf(read({ paging: paged }))).message).toContain('HTTP 404')
})

test('one item is read at its address; 404 and 410 mean that it does not exist', async () => {
  const answers: Record<string, [number, unknown]> = {
    '/item/a%7Cb%2F%C3%B1': [200, { data: { id: 'a|b/\u00f1', n: 1 } }],
    '/item/list': [200, { data: [{ id: 'list' }, { id: 'other' }] }],
    '/item/null': [200, { data: null }],
    '/item/other': [200, { data: { id: 'another' } }],
    '/item/gone': [410, {}],
    '/item/broken': [500, {}],
  }
  server.handle = (request, response) => {
    const [status, body] = answers[request.url ?? ''] ?? [404, {}]
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
  const { source } = open({ item: { url: `${server.base}/item/{pk}`, items: 'data' } })
  const { signal } = new AbortController()
  const item = (key: string) => source.readItem({ key: [key], signal })
  expect(await item('list')).toEqual([{ id: 'list' }])
  expect(await item('null')).toEqual([])
  expect(await item('other')).toEqual([])
  expect(await item('gone')).toEqual([])
  expect(await item('unknown')).toEqual([])
  const failure = await failureOf(item('broken'))
  expect(failure.message).toContain(`GET ${server.base}/item/{pk}: HTTP 500`)
  expect((await failureOf(item('..'))).message).toContain('cannot be in the path')
  expect(await item('a|b/\u00f1')).toEqual([{ id: 'a|b/\u00f1', n: 1 }])
})

test('an item whose key the source has in another Unicode form is found at its address', async () => {
  const nfd = 'Cafe\u0301'
  server.handle = (request, response) => {
    const isIt = request.url === `/item/${encodeURIComponent(nfd)}`
    response.writeHead(isIt ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isIt ? { id: nfd } : {}))
  }
  const { source } = open({ item: { url: `${server.base}/item/{pk}` } })
  const { signal } = new AbortController()
  expect(await source.readItem({ key: [nfd.normalize('NFC')], signal })).toEqual([{ id: nfd }])
})

test('without an address of its own an item is found by a read of all', async () => {
  servePages(25, 10)
  const { source } = open({ paging: paged })
  const { signal } = new AbortController()
  expect(await source.readItem({ key: ['17'], signal })).toEqual([{ id: 17 }])
  expect(await source.readItem({ key: ['26'], signal })).toEqual([])
})

test('more records than maxRows fail the read', async () => {
  servePages(25, 10)
  expect(await read({ paging: paged, limits: { maxRows: 25 } })).toHaveLength(25)
  const failure = await failureOf(read({ paging: paged, limits: { maxRows: 24 } }))
  expect(failure.message).toContain('limits.maxRows')
})

test('an abort and close end a read, also in a pause', async () => {
  server.handle = () => undefined
  const given = new AbortController()
  const reason = new Error('given up')
  const aborted = expect(drain(open({}).source, given.signal)).rejects.toBe(reason)
  given.abort(reason)
  await aborted
  const closing = 'the source was closed'
  const { source } = open({})
  const closed = expect(readAll(source)).rejects.toThrow(closing)
  await source.close()
  await closed
  server.handle = (_, response) => response.writeHead(503).end()
  server.asked.length = 0
  const pausing = open({}, { sleep: (_ms, signal) => untilAborted(signal) })
  const paused = expect(readAll(pausing.source)).rejects.toThrow(closing)
  await expect.poll(() => server.asked.length).toBeGreaterThan(0)
  await pausing.source.close()
  await paused
})

test('a server that does not run is a failure with its code', async () => {
  const free = createServer()
  await new Promise<void>((resolve) => free.listen(0, '127.0.0.1', resolve))
  const { port } = free.address() as { port: number }
  await new Promise((resolve) => free.close(resolve))
  const failure = await failureOf(read({ url: `http://127.0.0.1:${port}/` }))
  expect(failure.message).toContain('ECONNREFUSED')
})

async function drain(source: Source, signal: AbortSignal): Promise<void> {
  for await (const _ of source.scan({ since: null, signal }));
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
