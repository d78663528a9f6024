import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { checkFlows } from '../../src/flows/loading/check-flow-files.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A delete takes what was delivered: its address, key and body are made of that, never of a record that has only the key. */
const postgresUrl = process.env.TEST_DATABASE_URL ?? 'postgres://root@127.0.0.1:5432/test'
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({ env: { COPY_DB: postgresUrl } })
})
beforeEach(() => {
  target.received.length = 0
  target.answer(200)
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const deletes = { mode: 'delete', guard: { minItems: 100 } }
const retry = { attempts: 2, initial: '100ms', max: '100ms', jitter: 0 }
const put = (path: string) => ({ method: 'PUT', url: `${target.url}${path}` })

/** Serves a flow with this destination; `show` replaces the items of its source. */
async function serve(name: string, destination: object, item: object = { key: 'id' }) {
  const flow = (change: object = {}) =>
    jsonFlow(name, target.url, {
      ...{ startPaused: false, deletes, item },
      destinations: [{ name: 'web', type: 'http', retry, ...destination, ...change }],
    })
  await flows.write(`${name}.flow.yaml`, flow())
  onTestFinished(async () => {
    await flows.remove(`${name}.flow.yaml`)
    await flows.call('POST', '/flows/reload')
  })
  const show = async (...items: object[]) => {
    await flows.write(`${name}.json`, items)
    const polled = await flows.call('POST', `/sync/${name}`)
    expect(polled.statusCode, polled.body).toBe(200)
    await flows.ended()
  }
  const reload = async (change: object = {}) => {
    await flows.write(`${name}.flow.yaml`, flow(change))
    const reloaded = await flows.call('POST', '/flows/reload')
    expect(reloaded.json().problems).toEqual([])
  }
  await flows.write(`${name}.json`, [])
  await reload()
  return { show, reload }
}

const sent = () => target.received.map(({ method, path }) => `${method} ${path}`)
const rowOf = (flow: string, pk: string) =>
  flows.service.database.db
    .selectFrom('deliveries')
    .selectAll()
    .where('flow', '=', flow)
    .where('pk', '=', pk)
    .executeTakeFirstOrThrow()

test('the address of a delete has the delivered values of mapped fields, not those from the key alone', async () => {
  const { show } = await serve('slugs', {
    map: '{ "slug": "art-" & $lowercase(nombre), "nombre": nombre }',
    request: put('/products/{body.slug}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: 'Yerba' }, { id: 2, nombre: 'Mate' })
  await show({ id: 2, nombre: 'Mate' })
  expect(sent().at(-1)).toBe('DELETE /products/art-yerba')
  expect(sent()).toHaveLength(3)
})

test('the body of a delete is made from the last delivered item', async () => {
  const { show } = await serve('bodies', {
    map: '{ "ref": proveedor & "/" & id, "nombre": nombre }',
    request: put('/products/{pk}'),
    delete: {
      method: 'POST',
      url: `${target.url}/delete`,
      body: '{ "ref": body.ref }',
    },
  })
  await show({ id: '7', proveedor: 'A', nombre: 'x' }, { id: '8', proveedor: 'A', nombre: 'y' })
  await show({ id: '7', proveedor: 'B', nombre: 'x' }, { id: '8', proveedor: 'A', nombre: 'y' })
  await show({ id: '8', proveedor: 'A', nombre: 'y' })
  expect(target.received).toContainEqual(
    expect.objectContaining({ path: '/delete', body: { ref: 'B/7' } }),
  )
})

test('a delete with the mapped body sends the delivered body', async () => {
  const { show } = await serve('whole', {
    map: '{ "sku": id, "branch": sucursal }',
    request: put('/products/{pk}'),
    delete: { method: 'POST', url: `${target.url}/delete` },
  })
  await show({ id: '7', sucursal: 3 }, { id: '8', sucursal: 4 })
  await show({ id: '8', sucursal: 4 })
  expect(target.received.at(-1)).toMatchObject({ path: '/delete', body: { sku: '7', branch: 3 } })
})

test('rows of a table are deleted by the delivered key, also when the mapping needs more than the key', async () => {
  const table = `exact_${process.pid}`
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  onTestFinished(async () => {
    await client.query(`drop table if exists ${table}`)
    await client.end()
  })
  await client.query(`create table ${table} (code text primary key, name text)`)
  const { show } = await serve('rows', {
    type: 'sql',
    driver: 'postgres',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference of a flow file
    url: '${env:COPY_DB}',
    table,
    upsertKey: 'code',
    map: '{ "code": rubro & "-" & $string(id), "name": $uppercase(nombre) }',
  })
  const names = async () =>
    (await client.query(`select code from ${table} order by code`)).rows.map(({ code }) => code)
  await show({ id: 1, rubro: 'R', nombre: 'a' }, { id: 2, rubro: 'R', nombre: 'b' })
  // Written by another program; the key alone would match it.
  await client.query(`insert into ${table} values ('-1', 'of another')`)
  await show({ id: 2, rubro: 'R', nombre: 'b' })
  expect(await names()).toEqual(['-1', 'R-2'])
})

test('an item that was never sent to a destination is not deleted there', {
  tags: ['long'],
}, async () => {
  const { show } = await serve('filtered', {
    filter: 'publicar = "S"',
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/products/{pk}` },
  })
  await show({ id: 1, publicar: 'N' }, { id: 2, publicar: 'S' }, { id: 3, publicar: 'S' })
  await show({ id: 3, publicar: 'S' })
  expect(sent()).toEqual(['PUT /products/2', 'PUT /products/3', 'DELETE /products/2'])
  expect(await rowOf('filtered', '1')).toMatchObject({
    state: 'done',
    skipped: 'nothing of it was sent to the destination',
  })
  // Nor is an item that was deleted there and returned only in a form that the destination does not get.
  await show({ id: 2, publicar: 'N' }, { id: 3, publicar: 'S' })
  await show({ id: 3, publicar: 'S' })
  expect(sent()).toHaveLength(3)
})

test('an item that may have arrived without an answer is deleted by its sent values', {
  tags: ['long'],
}, async () => {
  target.answer(({ method }) => (method === 'PUT' ? 503 : 200))
  const { show } = await serve('unheard', {
    map: '{ "slug": nombre }',
    request: put('/products/{body.slug}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: 'yerba' }, { id: 2, nombre: 'mate' })
  target.answer(200)
  await show({ id: 2, nombre: 'mate' })
  expect(sent().filter((one) => one.startsWith('DELETE'))).toEqual(['DELETE /products/yerba'])
})

test('an item without a delivered body on record is deleted by the key if that is enough, else the delete fails with a reason', async () => {
  const { show } = await serve('before', {
    fields: { sku: 'id', slug: 'nombre' },
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: 'yerba' }, { id: 2, nombre: 'mate' })
  await flows.service.database.db
    .updateTable('deliveries')
    .set({ delivered_body: null })
    .where('flow', '=', 'before')
    .execute()
  await show({ id: 2, nombre: 'mate' })
  expect(sent()).toHaveLength(2)
  expect(await rowOf('before', '1')).toMatchObject({
    state: 'failed',
    last_error:
      'the delete needs body.slug, which has no value on record: delete it at the destination by hand',
  })
})

test('a delete that was changed is made of what was delivered before, also of items that are gone', async () => {
  target.answer(({ method }) => (method === 'DELETE' ? 400 : 200))
  const { show, reload } = await serve('changed', {
    map: '{ "sku": codigo, "slug": "art-" & $lowercase(nombre), "nombre": nombre }',
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/products/{pk}` },
  })
  await show({ id: 1, codigo: 'A', nombre: 'Yerba' }, { id: 2, codigo: 'B', nombre: 'Mate' })
  await show({ id: 2, codigo: 'B', nombre: 'Mate' })
  expect(await rowOf('changed', '1')).toMatchObject({ state: 'failed', kind: 'delete' })
  target.answer(200)
  await reload({ delete: { url: `${target.url}/by-slug/{body.slug}?sku={body.sku}` } })
  await flows.call('POST', '/flow/changed/retry')
  await flows.ended()
  expect(sent().at(-1)).toBe('DELETE /by-slug/art-yerba?sku=A')
})

const long = (size: number) => 'x'.repeat(size)

test('of a body of more than 16 KiB the short fields are kept for its delete', async () => {
  const { show } = await serve('large', {
    map: '{ "slug": "art-" & nombre, "text": texto }',
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: 'yerba', texto: long(20_000) }, { id: 2, nombre: 'mate', texto: '' })
  await show({ id: 2, nombre: 'mate', texto: '' })
  expect(sent().at(-1)).toBe('DELETE /products/art-yerba')
})

test.each([
  [
    'a long field of it',
    { method: 'POST', body: '{ "slug": body.slug, "text": body.text }' },
    'the delete needs body.text, which has no value on record: delete it at the destination by hand',
  ],
  [
    'it as a whole',
    { method: 'POST' },
    'the delete needs the body as it was delivered, and that is not on record: delete it at the destination by hand',
  ],
  [
    'its fields without naming them',
    { method: 'POST', body: '$merge([body, { "gone": true }])' },
    'the delete needs the body as it was delivered, and that is not on record: delete it at the destination by hand',
  ],
])('a delete that needs %s fails with a reason', async (what, request, why) => {
  const name = `large-${what.replaceAll(' ', '-')}`
  const { show } = await serve(name, {
    map: '{ "slug": nombre, "text": texto }',
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/delete`, ...request },
  })
  await show({ id: 1, nombre: 'yerba', texto: long(20_000) }, { id: 2, nombre: 'mate', texto: '' })
  await show({ id: 2, nombre: 'mate', texto: '' })
  expect(sent()).toHaveLength(2)
  expect(await rowOf(name, '1')).toMatchObject({ state: 'failed', last_error: why })
})

test('a body whose JSON the database refuses is delivered, and its delete goes by the other fields', async () => {
  const { show } = await serve('broken', {
    map: '{ "slug": nombre, "text": "\\u0000" }',
    request: put('/products/{pk}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: 'yerba' }, { id: 2, nombre: 'mate' })
  await show({ id: 2, nombre: 'mate' })
  expect(sent()).toEqual(['PUT /products/1', 'PUT /products/2', 'DELETE /products/yerba'])
})

test('an empty value never appears in an address, whatever the request', async () => {
  const { show } = await serve('empty', {
    map: '{ "slug": nombre, "id": id }',
    request: put('/products/{body.slug}'),
    delete: { url: `${target.url}/products/{body.slug}` },
  })
  await show({ id: 1, nombre: '  ' }, { id: 2, nombre: '' }, { id: 3, nombre: 'x' })
  expect(sent()).toEqual(['PUT /products/x'])
  expect((await rowOf('empty', '1')).last_error).toBe(
    'the mapped body has no value for {body.slug}',
  )
  await show({ id: 3, nombre: 'x' })
  expect(sent()).toEqual(['PUT /products/x'])
})

test('a delete line of a file has the fields that were delivered', async () => {
  const { show } = await serve('lines', {
    type: 'file',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the reference of a flow file
    path: '${env:DIR}/lines.ndjson',
    map: '{ "sku": id, "slug": "x-" & nombre }',
  })
  await show({ id: 'A', nombre: 'n' }, { id: 'B', nombre: 'm' })
  await show({ id: 'B', nombre: 'm' })
  const lines = (await readFile(join(flows.dir, 'lines.ndjson'), 'utf8')).trim().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '')).toEqual({
    ...{ _key: expect.any(String), _kind: 'delete', _pk: 'A', sku: 'A', slug: 'x-n' },
  })
})

const definition = (destination: string) => `version: 1
name: articulos
pollInterval: 1m
source: { type: file, path: /erp/a.json, format: json }
item: { key: codigo }
deletes: { mode: delete }
destinations:
  - name: web
    type: http
${destination}
`

test.each([
  [
    'a field of the address that the fields do not make',
    '    fields: { sku: codigo }\n    request: { url: "https://a.example/p" }\n    delete: { url: "https://a.example/p/{body.slug}" }',
    '12:20 destinations[0].delete.url: uses body.slug, which the mapping does not make, so it is not kept for the delete (make it in fields or map, or use {pk})',
  ],
  [
    'a field of the body that the map does not make',
    '    map: \'{ "sku": codigo }\'\n    request: { url: "https://a.example/p" }\n    delete: { method: POST, url: "https://a.example/p", body: \'{ "id": body.slug }\' }',
    '12:63 destinations[0].delete.body: uses body.slug, which the mapping does not make, so it is not kept for the delete (make it in fields or map, or use {pk})',
  ],
  [
    'an id in the body that is not remembered',
    '    map: \'{ "sku": codigo }\'\n    request: { url: "https://a.example/p" }\n    delete: { method: POST, url: "https://a.example/p", body: \'{ "id": remembered.id }\' }',
    '12:63 destinations[0].delete.body: uses remembered.id, which remember does not name, so it is not kept for the delete (add remember: { id: … }, what it is in the answer)',
  ],
  [
    'an id in a header that is not remembered',
    '    map: \'{ "sku": codigo }\'\n    request: { url: "https://a.example/p" }\n    delete: { url: "https://a.example/p/{pk}", headers: { x-id: "{remembered.id}" } }',
    '12:65 destinations[0].delete.headers.x-id: uses remembered.id, which remember does not name, so it is not kept for the delete (add remember: { id: … }, what it is in the answer)',
  ],
  [
    'an empty segment of an address',
    '    request: { url: "https://a.example//p/{pk}" }\n    delete: { url: "https://a.example/p/{pk}" }',
    '10:21 destinations[0].request.url: has an empty segment (//) in its path (write one slash; a variable must not end in one)',
  ],
])('the check refuses %s', async (_, destination, line) => {
  const dir = await mkdtemp(join(tmpdir(), 'exact-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  await writeFile(join(dir, 'a.flow.yaml'), definition(destination))
  const { lines } = await checkFlows({}, dir, { variables: new Set(), files: [], folders: [] })
  expect(lines[0]).toBe(`${join(dir, 'a.flow.yaml')}:${line}`)
})
