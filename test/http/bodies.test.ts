import { afterAll, expect, test } from 'vitest'
import { exchange, json, sampleApp } from './sample-app.ts'

const { app, seen } = sampleApp()
afterAll(() => app.close())

async function post(
  payload: string | Buffer,
  headers: Record<string, string> = json,
  url = '/echo',
) {
  seen.length = 0
  const answer = await app.inject({ method: 'POST', url, headers, payload })
  return { status: answer.statusCode, body: answer.json(), headers: answer.headers }
}

test('a good body reaches its handler', async () => {
  expect(await post('{"name":"Ñandú 🧾"}')).toMatchObject({
    status: 200,
    body: { name: 'Ñandú 🧾' },
  })
  expect(seen).toEqual([{ name: 'Ñandú 🧾' }])
})

test.each([
  ['malformed', '{"name":'],
  ['two values', '{"name":"a"}{"name":"b"}'],
  ['only white space', '  '],
  ['only a byte order mark', '\ufeff'],
  ['__proto__', '{"name":"a","free":{"__proto__":{"polluted":1}}}'],
  ['escaped __proto__', '{"name":"a","free":{"\\u005f_proto__":{"polluted":1}}}'],
  ['constructor.prototype', '{"name":"a","free":{"constructor":{"prototype":{"polluted":1}}}}'],
  ['deeper than 32', `{"name":"a","free":${'['.repeat(32)}${']'.repeat(32)}}`],
  ['100,000 deep', `{"name":"a","free":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
  ['not UTF-8', Buffer.from('7b226e616d65223a22ff227d', 'hex')],
])('JSON that is %s is 400 in the error shape and reaches no handler', async (_kind, payload) => {
  const { status, body } = await post(payload)
  expect([status, body.code]).toEqual([400, 'BAD_REQUEST'])
  expect(body).toEqual({
    error: expect.any(String),
    code: 'BAD_REQUEST',
    request_id: expect.any(String),
  })
  expect(seen).toEqual([])
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
})

test('T23: 32 levels are allowed', async () => {
  const payload = `{"name":"a","free":${'['.repeat(31)}${']'.repeat(31)}}`
  expect((await post(payload)).status).toBe(200)
})

test.each([
  ['NUL in a value', '{"name":"a\\u0000"}', 'name'],
  ['a lone high surrogate', '{"name":"\\ud83e"}', 'name'],
  ['a lone low surrogate', '{"name":"\\uddfe"}', 'name'],
  ['NUL deep inside', '{"name":"a","free":{"x":[0,{"y":"\\u0000"}]}}', 'free.x.1.y'],
  ['NUL in a key', '{"name":"a","free":{"x":{"\\u0000":1}}}', 'free.x'],
  ['a body that is such a string', '"\\u0000"', 'body'],
])('text with %s is 422 and names the field', async (_kind, payload, path) => {
  const { status, body } = await post(payload)
  expect([status, body.code]).toEqual([422, 'VALIDATION_ERROR'])
  expect(body.details).toEqual([{ path, message: expect.any(String) }])
  expect(seen).toEqual([])
})

test('hostile text is refused also where a route has no schema', async () => {
  expect((await post('{"a":"\\u0000"}', json, '/nothing')).status).toBe(422)
})

test('validation names every wrong field by its dotted path, unknown keys included', async () => {
  const { status, body } = await post(
    '{"name":5,"location":{"latitude":"x","misspelt":1},"pos":[{}],"amuont":"1"}',
  )
  expect(status).toBe(422)
  expect(body.details.map(({ path }: { path: string }) => path).sort()).toEqual([
    'amuont',
    'location.latitude',
    'location.misspelt',
    'name',
    'pos.0.name',
  ])
})

test('thousands of unknown keys do not come back as an answer of their size', async () => {
  const keys = Array.from({ length: 20_000 }, (_, i) => `"k${i}":1`)
  const many = await post(`{"name":"a",${keys.join(',')}}`)
  expect([many.status, many.body.details.length]).toEqual([422, 50])
  const long = await post(`{"name":"a","${'x'.repeat(200_000)}":1}`)
  expect(JSON.stringify(long.body).length).toBeLessThan(1000)
})

test('an empty body with the JSON content type counts as no body', async () => {
  expect(await post('', json, '/nothing')).toMatchObject({ status: 200 })
  expect(seen).toEqual([undefined])
  const { status, body } = await post('')
  expect([status, body.details[0].path]).toEqual([422, 'body'])
})

test.each([
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/jsonx',
  'application/json\tx',
  'application/json, text/plain',
  'application/vnd.api+json',
  'application',
  ';application/json',
  '*/*',
])('content type %j is 415 and reaches no handler', async (type) => {
  const { status, body } = await post('{"name":"a"}', { 'content-type': type })
  expect([status, body.code]).toEqual([415, 'UNSUPPORTED_MEDIA_TYPE'])
  expect(seen).toEqual([])
})

test.each([
  'application/json; charset=utf-8',
  'application/json;charset=UTF-8',
  'APPLICATION/JSON',
])('content type %j is JSON', async (type) => {
  expect((await post('{"name":"a"}', { 'content-type': type })).status).toBe(200)
})

/** Malformed parameters: either read as JSON, with its validation, or refused; never read as something else. */
test.each([
  'application/json;',
  'application/json; \t',
  'application/json\t;',
  'application/json;;',
  ' application/json',
])('content type %j cannot get past the validation of JSON', async (type) => {
  const { status } = await post('{"name":5}', { 'content-type': type })
  expect([415, 422]).toContain(status)
  expect(seen).toEqual([])
})

test('T22: a body over 256 KiB is 413, said by its length or counted as it comes', async () => {
  const limit = 256 * 1024
  const padded = (size: number) => `{"name":"a"${' '.repeat(size - 12)}}`
  expect((await post(padded(limit))).status).toBe(200)
  const { status, body, headers } = await post(padded(limit + 1))
  expect([status, body.code, headers.connection]).toEqual([413, 'PAYLOAD_TOO_LARGE', 'close'])
  expect((await post('x'.repeat(2_000_000))).status).toBe(413)
})

test('a chunked body without end is cut at the limit and the socket closed', async () => {
  const chunk = `10000\r\n${'a'.repeat(0x10000)}\r\n`
  const answer = await exchange(
    app,
    `POST /echo HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${chunk.repeat(5)}`,
  )
  expect(answer).toMatch(/^HTTP\/1.1 413 /)
  expect(answer).toContain('"code":"PAYLOAD_TOO_LARGE"')
  expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1)
})
