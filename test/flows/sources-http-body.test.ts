import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Source, SourceError, type SourceRow } from '../../src/flows/types.ts'
import { flowText, problemsOf } from './definition-support.ts'
import { flowOf, ids, openTestSource, readAll, sendJson, testServer } from './sources-support.ts'

let server: Awaited<ReturnType<typeof testServer>>
let opened: Source[] = []
beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server.close())
afterEach(async () => {
  await Promise.all(opened.map((source) => source.close()))
  opened = []
})

const env = { CLAVE: 'p&ss<w>rd "1"' }

function open(source: object, flow: object = {}) {
  const definition = { type: 'http', url: `${server.base}/api`, ...source }
  const made = openTestSource(flowOf(definition, { allowPrivateNetwork: true, ...flow }, env))
  opened.push(made.source)
  return made
}

const read = (source: object, since?: string) => readAll(open(source).source, since ?? null)
const failureOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return (error as Error).message.replaceAll(server.base, 'SERVER')
}

type Asked = { method: string | undefined; type: string | undefined; body: string; url: string }

/** Returns the result of `answer` for each request, and records the requests. */
function serve(
  answer: (asked: Asked, index: number) => string | object,
  type = 'text/xml',
  status = 200,
) {
  const asked: Asked[] = []
  server.handle = async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const one = {
      method: request.method,
      type: request.headers['content-type'],
      body: Buffer.concat(pieces).toString(),
      url: request.url ?? '',
    }
    asked.push(one)
    const made = answer(one, asked.length - 1)
    if (typeof made === 'string') response.writeHead(status, { 'content-type': type }).end(made)
    else sendJson(response, made)
  }
  return asked
}

// GraphQL

const query =
  'query ($after: String, $since: String) { products(after: $after, since: $since) { nodes { id } pageInfo { hasNextPage endCursor } } }'
const graphql = {
  body: { graphql: query, variables: { after: '{next}', since: 'at:{cursor}', first: 2 } },
  items: 'data.products.nodes',
  paging: { type: 'pageInfo' },
  cursor: { field: 'at', initial: '2026-01-01T00:00:00Z' },
}
const connection = (nodes: object[], pageInfo: object) => ({
  data: { products: { nodes, pageInfo } },
})

test('a GraphQL query is sent by POST with its variables, and pageInfo leads through the pages', async () => {
  const asked = serve((_, index) =>
    connection([{ id: index * 2 + 1 }, { id: index * 2 + 2 }], {
      hasNextPage: index < 2,
      endCursor: `c"${index}`,
    }),
  )
  expect(ids(await read(graphql, '2026-05-05T00:00:00Z'))).toEqual([1, 2, 3, 4, 5, 6])
  expect(asked.map(({ method, type }) => `${method} ${type}`)).toEqual(
    Array(3).fill('POST application/json'),
  )
  expect(asked.map(({ body }) => JSON.parse(body))).toEqual(
    [null, 'c"0', 'c"1'].map((after) => ({
      query,
      variables: { after, since: 'at:2026-05-05T00:00:00Z', first: 2 },
    })),
  )
})

test('numbers of GraphQL beyond a double stay exact', async () => {
  serve(
    () =>
      '{"data":{"products":{"nodes":[{"id":9007199254740993}],"pageInfo":{"hasNextPage":false}}}}',
  )
  expect(ids(await read(graphql))).toEqual([9007199254740993n])
})

test.each([
  [
    {
      errors: [{ message: 'no field x' }],
      data: connection([{ id: 1 }], { hasNextPage: false }).data,
    },
    'the answer holds errors: no field x',
  ],
  [
    { errors: [{ message: `bad login ${env.CLAVE}` }] },
    'the answer holds errors: bad login [masked]',
  ],
  [{ data: { products: null } }, 'items (data.products.nodes) is missing, not a list'],
  [
    { data: { products: { nodes: [] } } },
    'data.products.pageInfo has no hasNextPage; the query must ask for hasNextPage and endCursor',
  ],
  [
    connection([{ id: 1 }], { hasNextPage: true, endCursor: null }),
    'data.products.pageInfo says that there is another page, but has no endCursor',
  ],
])('a failure with status 200 fails the poll: %j', async (answer, message) => {
  serve(() => answer)
  const variables = { ...graphql.body.variables, clave: '$' + '{env:CLAVE}' }
  const failure = await failureOf(read({ ...graphql, body: { ...graphql.body, variables } }))
  expect(failure).toBe(`http source: POST SERVER/api: ${message}`)
})

test('a query that is refused for its cost is repeated, four times in all', async () => {
  const throttled = { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }] }
  serve((_, index) => (index < 3 ? throttled : connection([{ id: 1 }], { hasNextPage: false })))
  const { source, slept } = open(graphql)
  expect(ids(await readAll(source))).toEqual([1])
  expect(slept).toEqual([1_000, 2_000, 4_000])
  const failing = {
    errors: [{ message: 'Internal error', extensions: { code: 'INTERNAL_SERVER_ERROR' } }],
  }
  serve((_, index) => (index < 1 ? failing : connection([{ id: 1 }], { hasNextPage: false })))
  expect(ids(await read(graphql))).toEqual([1])
  const asked = serve(() => throttled)
  expect(await failureOf(read(graphql))).toContain('the answer holds errors: Throttled')
  expect(asked).toHaveLength(4)
})

test('a repeated endCursor is an error and ends the read', async () => {
  serve(() => connection([{ id: 1 }], { hasNextPage: true, endCursor: 'x' }))
  expect(await failureOf(read(graphql))).toContain('the next page is one that was read already')
})

// Other bodies

test('a POST that reads is retried as a GET is, and its pages are named in the body', async () => {
  let failures = 1
  const asked = serve(({ body }) => {
    const { page } = JSON.parse(body)
    return page < 3 ? [{ id: page * 2 - 1 }, { id: page * 2 }] : []
  }, 'application/json')
  const { handle } = server
  server.handle = (request, response) => {
    if (failures-- > 0) response.writeHead(503).end()
    else handle(request, response)
  }
  const rows = await read({
    body: { json: { page: '{page}', size: '{size}', q: { all: true, name: 'p{page}' } } },
    paging: { type: 'page', size: 2 },
  })
  expect(ids(rows)).toEqual([1, 2, 3, 4])
  expect(asked.map(({ body, url }) => [JSON.parse(body), url])).toEqual(
    [1, 2, 3].map((page) => [{ page, size: 2, q: { all: true, name: `p${page}` } }, '/api']),
  )
})

test('a form is sent as a form, and a reference in it is no template', async () => {
  const asked = serve((_, index) => (index === 0 ? [{ id: 1 }] : []), 'application/json')
  await read({
    body: { form: { usuario: 'erp', clave: '$' + '{env:CLAVE}', desde: '{offset}' } },
    paging: { type: 'offset', size: 5 },
    headers: { 'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8' },
  })
  expect(asked[0]?.type).toBe('application/x-www-form-urlencoded; charset=utf-8')
  expect(Object.fromEntries(new URLSearchParams(asked[0]?.body))).toEqual({
    usuario: 'erp',
    clave: env.CLAVE,
    desde: '0',
  })
})

test('one item is requested with a body of its own', async () => {
  const asked = serve(() => ({ data: { product: { id: 'a"b' } } }))
  const { source } = open({
    ...graphql,
    item: {
      url: `${server.base}/api`,
      body: { graphql: 'query ($id: ID!) { product(id: $id) { id } }', variables: { id: '{pk}' } },
      items: 'data.product',
    },
  })
  const { signal } = new AbortController()
  expect(await source.readItem({ key: ['a"b'], signal })).toEqual([{ id: 'a"b' }])
  expect(JSON.parse(asked[0]?.body ?? '').variables).toEqual({ id: 'a"b' })
})

// SOAP and XML

const envelope = (inner: string) =>
  `<?xml version="1.0" encoding="utf-8"?><s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>${inner}</s:Body></s:Envelope>`
const list = (inner: string) =>
  envelope(
    `<r:ListaResponse xmlns:r="urn:erp"><r:Articulos>${inner}</r:Articulos></r:ListaResponse>`,
  )
const soap = {
  body: {
    xml:
      '<e:Envelope><e:Body><Lista><Clave>$' +
      '{env:CLAVE}</Clave><Desde>{cursor}</Desde><Pagina>{page}</Pagina></Lista></e:Body></e:Envelope>',
  },
  headers: { soapaction: '"urn:erp/Lista"' },
  items: '/Envelope/Body/ListaResponse/Articulos/Articulo',
  xml: {
    namespaces: { r: 'urn:erp' },
    fields: {
      id: 'r:Codigo',
      precio: 'Precio',
      moneda: 'Precio/@moneda',
      ean: 'Ean[]',
      nota: 'Nota',
    },
  },
  paging: { type: 'page' },
  cursor: { field: 'at', initial: 'a<b' },
}
const article = (id: string, more = '') =>
  `<r:Articulo><r:Codigo>${id}</r:Codigo><r:Precio moneda="ARS">0.10</r:Precio>${more}</r:Articulo>`

test('SOAP is requested with a body whose values stay text, page by page', async () => {
  const asked = serve((_, index) =>
    index === 0
      ? list(
          article(
            '12345678901234567890',
            '<r:Ean>1</r:Ean><r:Ean>2</r:Ean><r:Nota><![CDATA[a & b]]></r:Nota>',
          ) + article('2'),
        )
      : list(''),
  )
  expect(await read(soap)).toEqual([
    { id: '12345678901234567890', precio: '0.10', moneda: 'ARS', ean: ['1', '2'], nota: 'a & b' },
    { id: '2', precio: '0.10', moneda: 'ARS', ean: [], nota: null },
  ])
  expect(asked.map(({ method, type }) => `${method} ${type}`)).toEqual(
    Array(2).fill('POST text/xml; charset=utf-8'),
  )
  expect(asked.map(({ body }) => body)).toEqual(
    [1, 2].map(
      (page) =>
        `<e:Envelope><e:Body><Lista><Clave>p&amp;ss&lt;w&gt;rd &quot;1&quot;</Clave><Desde>a&lt;b</Desde><Pagina>${page}</Pagina></Lista></e:Body></e:Envelope>`,
    ),
  )
})

const plain = { xml: {}, items: '/Lista/Articulo', method: 'POST' }

test('without fields a record has all its values, and the rest of the document is for paging', async () => {
  const asked = serve(
    (_, index) =>
      `<Lista><Articulo id="1"><a>x</a><a>y</a><b lang="es">z</b><c/><d xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"/></Articulo><Articulo><id>${index + 2}</id></Articulo>${index === 0 ? '<Sigue>t 1</Sigue>' : ''}</Lista>`,
  )
  const rows: SourceRow[] = await read({
    ...plain,
    paging: { type: 'cursor', next: 'Lista.Sigue' },
  })
  expect(rows).toEqual([
    { '@id': '1', a: ['x', 'y'], b: { '@lang': 'es', '#text': 'z' }, c: '', d: null },
    { id: '2' },
    { '@id': '1', a: ['x', 'y'], b: { '@lang': 'es', '#text': 'z' }, c: '', d: null },
    { id: '3' },
  ])
  expect(asked.map(({ url }) => url)).toEqual(['/api', '/api?cursor=t%201'])
})

const fault = (text: string) => envelope(`<s:Fault><faultstring>${text}</faultstring></s:Fault>`)
test.each([
  [
    '<Lista><Articulo><id>1</id></Articulo>',
    'the answer is not well-formed XML in line 1: Unclosed root tag',
  ],
  [
    '<Lista>\n<Articulo><id>1</Articulo></Lista>',
    'the answer is not well-formed XML in line 2: Unexpected close tag',
  ],
  [
    '<Lista><Articulo>&nbsp;</Articulo></Lista>',
    'the answer is not well-formed XML in line 1: Invalid character entity',
  ],
  [
    '<!DOCTYPE a [<!ENTITY b "c">]><Lista/>',
    'the answer has a document type declaration, which is not read',
  ],
  ['<Otra/>', 'the answer items (/Lista/Articulo) is missing: the element around it is not there'],
  ['{"a":1}', 'the answer is not well-formed XML in line 1: Non-whitespace before first tag.'],
  ['', 'the answer is empty'],
  [
    fault(`no access for ${'p&amp;ss&lt;w&gt;rd "1"'}`),
    'the answer is a SOAP Fault: no access for [masked]',
  ],
  [`<Lista><Articulo>${'<a>'.repeat(200)}`, 'the answer is nested deeper than 100 levels'],
  [
    `<Lista><Articulo${Array.from({ length: 100_000 }, (_, index) => ` a${index}=""`).join('')}/></Lista>`,
    'the answer has an element with more than 4096 attributes in line 1',
  ],
  ['<Lista/>\n<Lista/>', 'the answer has a second document behind the first, in line 2'],
  [
    `<Lista>\n<Articulo><id>${'x'.repeat(1_100_000)}</id></Articulo></Lista>`,
    'the answer has a record longer than 1048576 characters, record 1 in line 2',
  ],
])('XML that is not a list fails the poll: %.40s', async (body, message) => {
  serve(() => body)
  const headers = { 'x-clave': '$' + '{env:CLAVE}' }
  expect(await failureOf(read({ ...plain, headers }))).toContain(
    `http source: POST SERVER/api: ${message}`,
  )
})

test('a SOAP Fault is reported with its text whatever its status, since SOAP 1.1 requires 500', async () => {
  const words = 'sin permiso para p&amp;ss&lt;w&gt;rd "1"'
  for (const [status, body, told] of [
    [500, fault(words), 'HTTP 500 (text/xml) is a SOAP Fault: sin permiso para [masked]'],
    [400, fault('no'), 'HTTP 400 (text/xml) is a SOAP Fault: no'],
    [503, '<html>busy', 'HTTP 503 (text/xml)'],
  ] as const) {
    serve(() => body, 'text/xml', status)
    const headers = { 'x-clave': '$' + '{env:CLAVE}' }
    expect(await failureOf(read({ ...plain, headers }))).toBe(
      `http source: POST SERVER/api: ${told}`,
    )
  }
})

test('a field that is twice in a record is refused with name, record and line', async () => {
  serve(() => list(`\n${article('1', '<r:Nota>a</r:Nota>\n<r:Nota>b</r:Nota>')}`))
  expect(await failureOf(read(soap))).toContain(
    'has the field "nota" more than once in record 1, line 2; a path that ends in [] takes them all',
  )
})

test('a document with one item is read, and another document is refused', async () => {
  serve(() => '<Articulo><id>1</id></Articulo>')
  const one = { ...plain, items: '/Articulo' }
  expect(ids(await read(one))).toEqual(['1'])
  serve(() => '<Error>no</Error>')
  expect(await failureOf(read(one))).toContain('items (/Articulo) is missing: the root')
})

test('an empty list is no failure, and a document is read in the encoding that it declares', async () => {
  serve(() => '<Lista/>')
  expect(await read(plain)).toEqual([])
  server.handle = (_, response) =>
    response
      .writeHead(200, { 'content-type': 'text/xml' })
      .end(
        Buffer.from(
          '<?xml version="1.0" encoding="ISO-8859-1"?><Lista><Articulo><id>año</id></Articulo></Lista>',
          'latin1',
        ),
      )
  expect(ids(await read(plain))).toEqual(['año'])
})

// Definitions

const reference = `use \${env:NAME} or \${file:/path}`
const http = (more: string) => ({
  source: `source: { type: http, url: "https://a.example", ${more} }`,
})
test.each<[{ source: string }, ...string[]]>([
  [
    http('body: { graphql: "mutation { a }" }'),
    '4:66 source.body.graphql: is not read by it: a source only reads (write a query)',
  ],
  [
    http('body: { json: 1, form: { a: b } }'),
    '4:55 source.body: needs one of graphql, json, form and xml',
  ],
  [
    http('body: { json: { a: 9007199254740993 } }'),
    '4:68 source.body.json.a: is beyond the numbers that are kept exactly (write it as a text, in quotes)',
  ],
  [http('body: { json: 1, variables: {} }'), '4:77 source.body.variables: are only for graphql'],
  [
    http('body: { json: { login: { clave: abc } } }'),
    `4:81 source.body.json.login.clave: a password, key or token must not be in the file (${reference})`,
  ],
  [
    http(
      'body: { xml: "<a><wsse:Password Type=\'x\'>abc</wsse:Password></a>" }, xml: {}, items: /a/b',
    ),
    `4:62 source.body.xml: a password, key or token must not be in the file (${reference})`,
  ],
  [
    http('body: { json: { a: "$' + '{env:NOT_THERE}" } }'),
    '4:68 source.body.json.a: the environment variable NOT_THERE is not set (set NOT_THERE)',
  ],
  [
    http('body: { json: { a: "{pagina}" } }'),
    '4:68 source.body.json.a: {pagina} is not a placeholder here (there are {cursor}, {page}, {offset}, {size}, {next})',
  ],
  [
    http('body: { json: { a: "{page}", b: "{size}", c: "{cursor}" } }'),
    '4:49 source.body: holds {page}, but the pages are not read so (add paging: { type: page })',
    '4:49 source.body: holds {size}, but paging has no size (add size to paging)',
    '4:49 source.body: holds {cursor}, but the source has no cursor (add source.cursor: { field: … })',
  ],
  [
    http('method: GET, body: { json: 1 }'),
    '4:57 source.method: sends no body (write POST, or leave method out)',
  ],
  [
    http('paging: { type: pageInfo }, body: { graphql: "{ a }" }'),
    '4:57 source.paging: reads pageInfo, but no variable of the body holds {next} (for example body: { graphql: …, variables: { after: "{next}" } })',
  ],
  [http('xml: {}'), '4:49 source.xml: needs items (add items: /Envelope/Body/Lista/Articulo)'],
  [
    http('items: /a/b'),
    '4:56 source.items: is a path of XML, but the answers are JSON (add xml: {}, or join the names by dots)',
  ],
  [
    http('xml: { fields: { a: "q:b", c: "@d/e" } }, items: "/a/@b"'),
    '4:98 source.items: is no path from the root to the elements (for example /Envelope/Body/Lista/Articulo)',
    '4:69 source.xml.fields.a: has the prefix q, which xml.namespaces does not name (for example Precio/@moneda)',
    '4:79 source.xml.fields.c: has @ or [] before its last step (for example Precio/@moneda)',
  ],
])('a check reports what a request cannot be: %j', (parts, ...problems) => {
  const place = (line: string) => Number(line.split(':')[1]?.split(' ')[0])
  expect(problemsOf(flowText(parts))).toEqual([...problems].sort((a, b) => place(a) - place(b)))
})
