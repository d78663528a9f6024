import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Source, SourceError } from '../../src/flows/types.ts'
import { flowOf, ids, openTestSource, readAll, sendJson, testServer } from './sources-support.ts'

/** A list that says it is longer was not read whole: it is read on, or the poll fails. An item is never missing by that. */
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

const read = (source: object) => {
  const definition = { type: 'http', url: `${server.base}/list`, ...source }
  const made = openTestSource(flowOf(definition, { allowPrivateNetwork: true }, {}))
  opened.push(made.source)
  return readAll(made.source)
}
const failureOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    (rows) => rows,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return (error as Error).message
}
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: from + index }))
const numberIn = (url: string | undefined, name: string, missing: number) =>
  Number(new URL(url ?? '', 'http://x').searchParams.get(name) ?? missing)

/** Lists as public APIs shape them: the records of a page, and the address of the next one. */
const shapes: [string, string, (rows: object[], next: string | null) => unknown][] = [
  ['OData', 'value', (value, next) => ({ value, ...(next && { '@odata.nextLink': next }) })],
  ['Microsoft Graph of old', 'value', (value, next) => ({ value, 'odata.nextLink': next })],
  ['nextLink', 'items', (items, nextLink) => ({ items, nextLink })],
  ['Django', 'results', (results, next) => ({ results, next, previous: null })],
  ['Laravel', 'data', (data, next_page_url) => ({ data, next_page_url })],
  ['JSON:API', 'data', (data, next) => ({ data, links: { self: '/list', next } })],
  [
    'HAL',
    '_embedded.a',
    (a, next) => ({ _embedded: { a }, _links: next ? { next: { href: next } } : {} }),
  ],
  ['paging', 'd.rows', (rows, next) => ({ d: { rows, paging: { next } } })],
]

describe.each(shapes)('a list as %s shapes it', (_name, items, shape) => {
  const serve = (linkTo: (page: number) => string, pages = 3) => {
    server.handle = (request, response) => {
      const page = numberIn(request.url, 'p', 1)
      const rows = numbered(1 + (page - 1) * 2, 2)
      sendJson(response, shape(rows, page < pages ? linkTo(page + 1) : null))
    }
  }

  test('is read on by its link, absolute or relative', async () => {
    for (const base of ['', server.base]) {
      serve((page) => `${base}/list?p=${page}`)
      expect(ids(await read({ items }))).toEqual([1, 2, 3, 4, 5, 6])
    }
  })

  test('fails when the next page is at another origin', async () => {
    serve(() => 'https://elsewhere.example/list?p=2')
    expect(await failureOf(read({ items }))).toContain('https://elsewhere.example')
  })

  test('is one page without a link', async () => {
    serve(() => '', 1)
    expect(ids(await read({ items }))).toEqual([1, 2])
    expect(server.asked).toHaveLength(1)
  })
})

test('a list without paging is read on by the Link header', async () => {
  server.handle = (request, response) => {
    const page = numberIn(request.url, 'p', 1)
    if (page < 3) response.setHeader('link', `</list?p=${page + 1}>; rel="next"`)
    sendJson(response, numbered(page, 1))
  }
  expect(ids(await read({}))).toEqual([1, 2, 3])
})

test('a followed list whose records move between pages misses none', async () => {
  let asked = 0
  server.handle = (request, response) => {
    asked += 1
    // The first record is deleted after the first page was read, so the third moves to that page.
    const all = numbered(1, 4).slice(asked === 1 ? 0 : 1)
    const from = numberIn(request.url, 'from', 0)
    const next = from + 2 < all.length ? `/list?from=${from + 2}` : null
    sendJson(response, { rows: all.slice(from, from + 2), next })
  }
  expect(ids(await read({ items: 'rows' })).toSorted()).toEqual([1, 2, 3, 4])
})

test.each([
  [{ next: 2 }],
  [{ next_cursor: 'abc' }],
  [{ nextPageToken: 'abc' }],
  [{ has_more: true }],
  [{ hasMore: true }],
  [{ pagination: { hasNextPage: true } }],
  [{ last: false, content: [] }],
])(
  'a list without paging fails when it says %j, since the next page has no address',
  async (more) => {
    server.handle = (_, response) => sendJson(response, { rows: numbered(1, 2), ...more })
    expect(await failureOf(read({ items: 'rows' }))).toContain('another page')
  },
)

test.each([
  [{ next: null }],
  [{ next: '' }],
  [{ next: false }],
  [{ has_more: false, next_cursor: 'abc' }],
  [{ last: true }],
  [{ count: 2, total: 2, page: 1, total_pages: 1 }],
  [{ count: 1 }],
  [{ total: 150.5 }],
])('a list that says %j is read whole', async (more) => {
  server.handle = (_, response) => sendJson(response, { rows: numbered(1, 2), ...more })
  expect(ids(await read({ items: 'rows' }))).toEqual([1, 2])
})

const totals: [string, object, Record<string, string>?][] = [
  ['count', { count: 9 }],
  ['total', { total: 9 }],
  ['totalElements', { totalElements: 9 }],
  ['@odata.count', { '@odata.count': 9 }],
  ['paging.total', { paging: { total: 9, limit: 2 } }],
  ['meta.total_count', { meta: { total_count: 9 } }],
  ['a header', {}, { 'x-total-count': '9' }],
  ['a header of WordPress', {}, { 'x-wp-total': '9' }],
]
const pagings = [
  { type: 'none' },
  { type: 'page', param: 'page', size: 2 },
  { type: 'offset', param: 'from', size: 2 },
  { type: 'cursor', param: 'after', next: 'after' },
  { type: 'link' },
]

test.each(totals)(
  'a list fails when %s says that it has more records',
  async (_name, more, headers = {}) => {
    for (const paging of pagings) {
      let asked = 0
      server.handle = (_, response) => {
        asked += 1
        for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
        // A server that caps what it returns in total.
        const rows = asked === 1 ? numbered(1, 2) : []
        sendJson(response, { rows, ...more })
      }
      expect(await failureOf(read({ items: 'rows', paging }))).toContain(
        'says that it has 9 records, and 2 were read',
      )
    }
  },
)

test('a total of a whole list, also of a nested one, is no failure', async () => {
  server.handle = (request, response) => {
    const page = numberIn(request.url, 'page', 1)
    sendJson(response, { data: { rows: page < 3 ? numbered(page * 2, 2) : [], total: 4 } })
  }
  const paging = { type: 'page', param: 'page', size: 2 }
  expect(await read({ items: 'data.rows', paging })).toHaveLength(4)
})

test.each(['page', 'offset'])(
  'an empty page by %s in the middle of a known total is not the end',
  async (type) => {
    server.handle = (request, response) => {
      const at =
        type === 'page' ? (numberIn(request.url, 'at', 1) - 1) * 2 : numberIn(request.url, 'at', 0)
      // The server leaves out what the user may not see. Two records are hidden, and not counted.
      const rows = at === 2 || at === 4 ? [] : numbered(at, 2).slice(0, at < 8 ? 2 : 0)
      sendJson(response, { rows, total: 4 })
    }
    const rows = await read({ items: 'rows', paging: { type, param: 'at', size: 2 } })
    expect(ids(rows)).toEqual([0, 1, 6, 7])
  },
)

test('an empty page is the end of a search whose token stays', async () => {
  let asked = 0
  server.handle = (_, response) => {
    asked += 1
    sendJson(response, { rows: asked < 3 ? numbered(asked * 2, 2) : [], next_cursor: 'kept' })
  }
  const paging = { type: 'cursor', param: 'after', next: 'next_cursor' }
  expect(ids(await read({ items: 'rows', paging }))).toEqual([2, 3, 4, 5])
})

test('a list by cursor fails when it ends although it names another page', async () => {
  server.handle = (_, response) => sendJson(response, { rows: numbered(1, 2), next_cursor: 'abc' })
  const paging = { type: 'cursor', param: 'after', next: 'meta.after' }
  expect(await failureOf(read({ items: 'rows', paging }))).toContain('another page')
})

test('an empty page without a total is the end', async () => {
  server.handle = (request, response) =>
    sendJson(response, { rows: numberIn(request.url, 'page', 1) === 1 ? numbered(1, 2) : [] })
  expect(ids(await read({ items: 'rows', paging: { type: 'page', param: 'page' } }))).toEqual([
    1, 2,
  ])
  expect(server.asked).toHaveLength(2)
})

test('part of a list (206) fails', async () => {
  server.handle = (_, response) => {
    response.writeHead(206, { 'content-type': 'application/json', 'content-range': '0-1/9' })
    response.end(JSON.stringify(numbered(1, 2)))
  }
  expect(await failureOf(read({}))).toContain('HTTP 206')
})
