import { expect, test } from 'vitest'
import { destinationForms, itemFormHash } from '../../src/flows/item/definition-hash.ts'
import { createFlowReader } from '../../src/flows/loading/read-flow.ts'
import { context, read } from './definition-support.ts'

const base = `
version: 1
name: stores
pollInterval: 60s
source:
  type: file
  path: erp.csv
  format: csv
  csv: { delimiter: ";", encoding: utf8, decimalComma: false }
  groupBy: { children: { cajas: [caja, caja_nombre] } }
item:
  key: [codigo, pais]
  hash: { ignore: [modif, usuario], trim: false, emptyAsNull: false, decimals: { lat: 6, lng: 6 } }
  filter: $exists(lat)
destinations:
  - name: web
    type: http
    request: { url: "https://shop.example.com/{pk}", headers: { x-token: "\${env:TOKEN}" } }
    map: '{ "id": codigo }'
  - name: out
    type: file
    path: out.ndjson
    fields: { id: codigo, price: { from: precio, type: decimalComma } }
`

function hashOf(text: string, reader?: Parameters<typeof read>[1]): string {
  const found = read(text, reader)
  if ('problems' in found) throw new Error(found.problems.map(({ message }) => message).join())
  return found.loaded.definitionHash
}

function replaced(from: string, to: string): string {
  if (!base.includes(from)) throw new Error(`the base has no ${from}`)
  return base.replace(from, to)
}

test('is a SHA-256 that is the same in every release', () => {
  // A new value here requires every operator's approval: increase definitionVersion deliberately, never by accident.
  expect(hashOf(base)).toBe('1122d931d446f1d536392912936c08a9bf586132a64ffaad9c596af0e7f8bfb7')
})

test.each([
  ['another key', 'key: [codigo, pais]', 'key: [codigo]'],
  [
    'another order of the key, which changes every pk',
    'key: [codigo, pais]',
    'key: [pais, codigo]',
  ],
  ['another field ignored', 'ignore: [modif, usuario]', 'ignore: [modif]'],
  ['trim', 'trim: false', 'trim: true'],
  ['emptyAsNull', 'emptyAsNull: false', 'emptyAsNull: true'],
  ['other decimals', 'lat: 6', 'lat: 5'],
  ['another filter', '$exists(lat)', '$exists(lng)'],
  ['no filter', '  filter: $exists(lat)\n', ''],
  ['another list', 'children: { cajas:', 'children: { boxes:'],
  ['another column in a list', '[caja, caja_nombre]', '[caja]'],
  ['no lists', '  groupBy: { children: { cajas: [caja, caja_nombre] } }\n', ''],
  ['encoding', 'encoding: utf8', 'encoding: latin1'],
  ['decimalComma of the source', 'decimalComma: false', 'decimalComma: true'],
  ['another format', /format: csv\n.*\n/.exec(base)?.[0] ?? '', 'format: ndjson\n'],
  ['another map', '"id": codigo', '"codigo": codigo'],
  ['no map', `    map: '{ "id": codigo }'\n`, ''],
  ['another field', '{ id: codigo, price', '{ id: pais, price'],
  ['another name of a field', '{ id: codigo, price', '{ code: codigo, price'],
  ['another type of a field', 'type: decimalComma', 'type: decimal'],
  ['a field that may be missing', 'type: decimalComma }', 'type: decimalComma, optional: true }'],
  ['another name of a destination', 'name: web', 'name: shop'],
  [
    'another destination',
    'destinations:',
    'destinations:\n  - { name: new, type: file, path: new.ndjson }',
  ],
])('changes with %s', (_, from, to) => {
  expect(hashOf(replaced(from, to))).not.toBe(hashOf(base))
})

test.each([
  ['the body of the request', 'body: "body", url', 'body: "{ \\"x\\": body }", url'],
  ['the body of a delete', `body: '{ "id": pk }'`, `body: '{ "sku": pk }'`],
  ['the body of a batch', '"items": items', '"all": items'],
  ['what is remembered', 'remember: { id:', 'remember: { ref:'],
  ['another key of the table', 'upsertKey: [id]', 'upsertKey: [id, price]'],
])('changes with %s', (_, from, to) => {
  const requests = `${base}
  - name: shop
    type: http
    request: { body: "body", url: "https://shop.example.com/items" }
    delete: { method: POST, body: '{ "id": pk }', url: "https://shop.example.com/gone" }
    batch: { size: 10, body: '{ "items": items }' }
    remember: { id: body.id }
  - name: table
    type: sql
    driver: postgres
    url: "postgres://me:\${env:TOKEN}@host/shop"
    table: items
    upsertKey: [id]
    fields: { id: codigo, price: precio }
`
  expect(requests).toContain(from)
  expect(hashOf(requests.replace(from, to))).not.toBe(hashOf(requests))
})

test('a destination has its own form: the mapping of another one is no part of it', () => {
  const formsOf = (text: string) => {
    const found = read(text)
    if ('problems' in found) throw new Error('not read')
    return destinationForms(found.loaded.flow)
  }
  const [before, after] = [formsOf(base), formsOf(replaced('"id": codigo', '"code": codigo'))]
  expect(after.web).not.toBe(before.web)
  expect(after.out).toBe(before.out)
  expect(formsOf(replaced('trim: false', 'trim: true')).out).not.toBe(before.out)
})

test.each([
  ['the name', 'name: stores', 'name: shops'],
  ['a description', 'version: 1', 'version: 1\ndescription: Sucursales'],
  ['the interval', '60s', '5m'],
  ['a window', 'version: 1', 'version: 1\nwindow: { from: "07:00" }'],
  ['startPaused', 'version: 1', 'version: 1\nstartPaused: true'],
  ['allowPrivateNetwork', 'version: 1', 'version: 1\nallowPrivateNetwork: true'],
  ['the path of the source', 'erp.csv', 'other.csv'],
  ['the delimiter', '";"', '","'],
  [
    'limits and settling',
    '  format: csv\n',
    '  format: csv\n  settle: 1m\n  after: archive\n  limits: { timeout: 5s }\n',
  ],
  ['what a change of definition does', '  filter:', '  onDefinitionChange: keep\n  filter:'],
  ['deletes', 'version: 1', 'version: 1\ndeletes: { guard: { minItems: 5 } }'],
  ['the address of a destination', 'shop.example.com', 'store.example.com'],
  ['its headers', 'headers: {', 'headers: { accept: text/html,'],
  ['its method', 'request: {', 'request: { method: PUT,'],
  [
    'retry, pace and limits',
    '    path: out.ndjson\n',
    '    path: b.ndjson\n    concurrency: 2\n    timeout: 1m\n    breaker: false\n    rateLimit: { max: 1, per: 1s }\n    retry: { attempts: 2 }\n',
  ],
  ['the queue', 'version: 1', 'version: 1\nqueue: { keepCompleted: 1d }'],
  [
    'alerts',
    'version: 1',
    `version: 1\nalerts: { onJobFailed: [{ type: slack, url: "\${env:ERP_URL}" }] }`,
  ],
  ['the order of fields ignored', '[modif, usuario]', '[usuario, modif, modif]'],
  ['the order of columns', '[caja, caja_nombre]', '[caja_nombre, caja]'],
  [
    'the order of fields',
    /fields: .*/.exec(base)?.[0] ?? '',
    'fields: { price: { type: decimalComma, from: precio }, id: codigo }',
  ],
  ['the long form of a field', 'id: codigo, price', 'id: { from: codigo, optional: false }, price'],
  ['blanks around an expression', `'{ "id": codigo }'`, '|\n\n      { "id": codigo }\n'],
  ['a comment', 'version: 1', 'version: 1 # the first'],
])('stays the same with %s', (_, from, to) => {
  expect(hashOf(replaced(from, to))).toBe(hashOf(base))
})

test('stays the same with another secret, another order of destinations, another query', () => {
  const other = createFlowReader({ ...context, env: { TOKEN: 'renewed' } })
  expect(hashOf(base, other)).toBe(hashOf(base))

  const [head = '', web = '', out = ''] = base.split(/(?= {2}- name)/)
  expect(hashOf(head + out + web)).toBe(hashOf(base))

  const sql = (query: string) =>
    base.replace(
      / {2}type: file\n.*\n.*\n.*\n/,
      `  type: sql\n  driver: mysql\n  url: mysql://host/erp\n  query: ${query}\n`,
    )
  expect(hashOf(sql('select 2 from b'))).toBe(hashOf(sql('select 1 from a')))
})

function formOf(text: string, reader?: Parameters<typeof read>[1]): string {
  const found = read(text, reader)
  if ('problems' in found) throw new Error(found.problems.map(({ message }) => message).join())
  return itemFormHash(found.loaded.flow)
}

test.each([
  ['another key', 'key: [codigo, pais]', 'key: [codigo]'],
  ['another field ignored', 'ignore: [modif, usuario]', 'ignore: [modif]'],
  ['other decimals', 'lat: 6', 'lat: 5'],
  ['another list', 'children: { cajas:', 'children: { boxes:'],
  ['decimalComma of the source', 'decimalComma: false', 'decimalComma: true'],
  ['another file', 'path: erp.csv', 'path: new.csv'],
])('the form of items changes with %s', (_, from, to) => {
  expect(formOf(replaced(from, to))).not.toBe(formOf(base))
})

test('the form of items changes with another query, and not with another password', () => {
  const sql = (query: string) =>
    base.replace(
      / {2}type: file\n.*\n.*\n.*\n/,
      `  type: sql\n  driver: mysql\n  url: "mysql://me:\${env:TOKEN}@host/erp"\n  query: ${query}\n`,
    )
  expect(formOf(sql('select a from b'))).not.toBe(formOf(sql('select a, c from b')))
  const other = createFlowReader({ ...context, env: { TOKEN: 'renewed' } })
  expect(formOf(sql('select a from b'), other)).toBe(formOf(sql('select a from b')))
})

test.each([
  ['another map', '"id": codigo', '"codigo": codigo'],
  ['another filter', '$exists(lat)', '$exists(lng)'],
  ['another name of a destination', 'name: web', 'name: shop'],
])('the form of items stays the same with %s', (_, from, to) => {
  expect(formOf(replaced(from, to))).toBe(formOf(base))
})
