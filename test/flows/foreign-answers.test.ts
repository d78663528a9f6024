import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import type { DeliveryJob } from '../../src/flows/types.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/**
 * An answer counts only if it is the API's own, judged by its body: a page of a proxy, a firewall or a host that is moved
 * has status 200, 403 or 404 too.
 */
type Given = { status?: number; body?: string; type?: string; headers?: Record<string, string> }

const page = '<!DOCTYPE html>\n<html><body>En mantenimiento</body></html>'
let answers: Record<string, Given> = {}
let asked: string[] = []
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer((request, response) => {
    const { method, url = '' } = request
    asked.push(`${method} ${url}`)
    const { status = 200, body, type, headers } = answers[`${method} ${url}`] ?? { body: '{}' }
    response.writeHead(status, { ...(type && { 'content-type': type }), ...headers })
    response.end(body ?? '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
beforeEach(() => {
  asked = []
  answers = {}
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const to = <M extends string>(method: M, path: string) => ({
  ...{ method, url: written(base + path), headers: {} },
})
const open = (change: Partial<HttpSettings> = {}) =>
  new HttpDestination({
    request: to('PUT', '/items/{pk}'),
    delete: { ...to('DELETE', '/items/{pk}'), okStatus: [200, 202, 204, 404, 410] },
    ...{ timeoutMs: 5_000, respectRetryAfter: true, agent, now: clock() },
    ...change,
  })
/** A shop with ids of its own, whose answers the definition reads. */
const shop = (change: Partial<HttpSettings> = {}) =>
  open({
    request: to('PUT', '/items/{remembered.id}'),
    create: to('POST', '/items'),
    find: [{ ...to('GET', '/search/{pk}'), remember: { id: '$[0].id' } }],
    delete: { ...to('DELETE', '/items/{remembered.id}'), okStatus: [200, 202, 204, 404, 410] },
    remember: { id: 'id' },
    ...change,
  })
const one = job({ pk: 'A' })
const known = job({ pk: 'A', remembered: { id: 7 } })
const removed = (of: DeliveryJob): DeliveryJob => ({ ...of, kind: 'delete' })
/** The receiver counts as failing, and the attempt as none of the item's. */
const foreign = { ok: false, retryable: true, outage: true, isForeign: true }
const delivered = (status = 200) => ({ ok: true, status })

describe.each([
  ['an HTML page', page],
  ['an HTML page after a mark, a comment and blanks', `\ufeff\n <!-- x -->\n<HTML lang="es">`],
  ['an XHTML page', '<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0//EN">'],
])('%s', (_what, body) => {
  test.each([200, 201, 301, 302, 401, 403, 404, 410])(
    'with status %i is no answer to a change or a delete, whatever its content type says',
    async (status) => {
      for (const type of ['text/html', 'application/json', undefined]) {
        const answer = { status, body, ...(type && { type }) }
        answers = { 'PUT /items/A': answer, 'DELETE /items/A': answer }
        expect(await open().deliver(one, never)).toMatchObject({ ...foreign, status })
        expect(await open().deliver(removed(one), never)).toMatchObject({ ...foreign, status })
      }
    },
  )

  test.each([200, 404, 410])(
    'with status %i to a look-up does not mean that the item is missing',
    async (status) => {
      answers = { 'GET /search/A': { status, body } }
      for (const given of [one, removed(one)]) {
        const result = await shop().deliver(given, never)
        expect(result).toMatchObject(foreign)
        expect(result).not.toHaveProperty('forget')
      }
      expect(asked).toEqual(['GET /search/A', 'GET /search/A'])
    },
  )

  test('with status 404 does not make a known item new, also with a rule that says "gone"', async () => {
    answers = { 'PUT /items/7': { status: 404, body }, 'DELETE /items/7': { status: 404, body } }
    for (const rules of [[], [{ status: [404], is: 'gone' as const }]]) {
      for (const given of [known, removed(known)]) {
        const result = await shop({ answers: rules }).deliver(given, never)
        expect(result).toMatchObject(foreign)
        expect(result).not.toHaveProperty('forget')
      }
    }
  })

  test('with status 404 to a fresh look-up neither forgets nor deletes the item', async () => {
    answers = { 'GET /stock/7': { status: 404, body } }
    const fresh = { ...to('GET', '/stock/{remembered.id}'), remember: { v: 'v' }, fresh: true }
    for (const given of [known, removed(known)]) {
      const result = await shop({ find: [fresh] }).deliver(given, never)
      expect(result).toMatchObject(foreign)
      expect(result).not.toHaveProperty('forget')
    }
    expect(asked).toEqual(['GET /stock/7', 'GET /stock/7'])
  })

  test('to a batch is an outage of all its items', async () => {
    for (const status of [200, 403, 404]) {
      answers = { 'POST /many': { status, body } }
      for (const rules of [{}, { answers: 'body' }]) {
        const destination = open({ batch: { size: 10, request: to('POST', '/many'), ...rules } })
        const results = await destination.batches?.deliver([one, job({ pk: 'B' })], never)
        expect(results).toMatchObject([foreign, foreign])
      }
    }
  })

  test('of a token issuer is an outage, and an access token is not dropped for it', async () => {
    const auth: NonNullable<HttpSettings['auth']> = {
      tokenUrl: written(`${base}/token`),
      clientId: written('till'),
      clientSecret: new Secret('canary-of-the-client', '${env' + ':X}'),
      clientAuth: 'basic',
    }
    for (const status of [200, 401, 403, 404]) {
      answers = { 'POST /token': { status, body } }
      expect(await open({ auth }).deliver(one, never)).toMatchObject(foreign)
    }
    answers = { 'POST /token': { body: '' } }
    expect(await open({ auth }).deliver(one, never)).toMatchObject(foreign)
    answers = {
      'POST /token': { body: '{"access_token":"canary-t"}' },
      'PUT /items/A': { status: 401, body },
    }
    asked = []
    const destination = open({ auth })
    expect(await destination.deliver(one, never)).toMatchObject(foreign)
    expect(await destination.deliver(one, never)).toMatchObject(foreign)
    expect(asked).toEqual(['POST /token', 'PUT /items/A', 'PUT /items/A'])
  })

  test('is an answer when a rule with "done" names it', async () => {
    const found = { status: 404, body }
    answers = { 'PUT /items/A': { body }, 'DELETE /items/A': { body }, 'GET /search/A': found }
    const rules = [
      { status: [200, 404], when: '$contains($lowercase(text), "html")', is: 'done' as const },
    ]
    expect(await open({ answers: rules }).deliver(one, never)).toEqual(delivered())
    expect(await open({ answers: rules }).deliver(removed(one), never)).toEqual(delivered())
    answers['POST /items'] = { body: '{"id":8}' }
    const made = await shop({ answers: rules }).deliver(one, never)
    expect(made).toEqual({ ...delivered(), remember: { id: 8 } })
  })
})

test.each([400, 413, 415, 422])(
  'a refusal with status %i is one of the item, also as an HTML page',
  async (status) => {
    answers = { 'PUT /items/A': { status, body: page } }
    const result = await open().deliver(one, never)
    expect(result).toMatchObject({ ok: false, retryable: false, outage: false, status })
  },
)

test('a receiver whose answers are not read may answer anything but a page', async () => {
  for (const body of ['', 'OK', '[]', 'true', '<ok/>', 'html']) {
    for (const type of ['text/html', 'application/json', undefined]) {
      const answer = { body, ...(type && { type }) }
      answers = { 'PUT /items/A': answer, 'DELETE /items/A': answer }
      expect(await open().deliver(one, never)).toEqual(delivered())
      expect(await open().deliver(removed(one), never)).toEqual(delivered())
    }
  }
})

const reading: [string, Partial<HttpSettings>][] = [
  ['remember', { remember: { id: 'id' } }],
  ['find', { remember: undefined }],
  ['a rule on the body', { answers: [{ when: 'body.code = "x"', is: 'final' }] }],
  ['a rule on the body of a 200', { answers: [{ status: [200], when: 'body.e', is: 'final' }] }],
]

describe.each(reading)('with %s', (what, change) => {
  const isShop = what === 'find'
  const destination = () => (isShop ? shop(change) : open(change))
  const given = isShop ? known : one
  const path = isShop ? '/items/7' : '/items/A'

  test.each(['', '  ', 'OK', '[]', '[{"x":1}]', 'true', 'null', '{"id":', '"ok"'])(
    'the body %j of a 200 is no answer to a change or a delete',
    async (body) => {
      answers = { [`PUT ${path}`]: { body }, [`DELETE ${path}`]: { body } }
      expect(await destination().deliver(given, never)).toMatchObject(foreign)
      expect(await destination().deliver(removed(given), never)).toMatchObject(foreign)
    },
  )

  test.each([202, 204])('a %i without a body is an answer', async (status) => {
    answers = { [`PUT ${path}`]: { status }, [`DELETE ${path}`]: { status } }
    const result = await destination().deliver({ ...given, remembered: { id: 7 } }, never)
    expect(result).toEqual(delivered(status))
    expect(await destination().deliver(removed(given), never)).toMatchObject(delivered(status))
  })

  test('a refusal without JSON is a refusal', async () => {
    answers = { [`PUT ${path}`]: { status: 422, body: 'no such tax' } }
    expect(await destination().deliver(given, never)).toMatchObject({
      ...{ ok: false, retryable: false, outage: false },
    })
  })
})

test('a rule that names only statuses of refusals lets a receiver answer OK', async () => {
  answers = { 'PUT /items/A': { body: 'OK' } }
  const rules = [{ status: [409], when: 'body.code = "exists"', is: 'done' as const }]
  expect(await open({ answers: rules }).deliver(one, never)).toEqual(delivered())
})

test('a list is an answer to a change where remember finds its values in it', async () => {
  answers = { 'PUT /items/A': { body: '[{"id":3}]' } }
  const result = await open({ remember: { id: '$[0].id' } }).deliver(one, never)
  expect(result).toEqual({ ...delivered(), remember: { id: 3 } })
})

test('an empty answer, or text, to a look-up does not mean that the item is missing', async () => {
  for (const body of ['', 'OK', 'true', '"x"', '7']) {
    answers = { 'GET /search/A': { body } }
    expect(await shop().deliver(one, never)).toMatchObject(foreign)
    expect(await shop().deliver(removed(one), never)).toMatchObject(foreign)
  }
  expect(new Set(asked)).toEqual(new Set(['GET /search/A']))
})

test('a look-up says that the item is missing by an empty list, null, 204 or a 404 of the API', async () => {
  for (const answer of [
    { body: '[]' },
    { body: 'null' },
    { body: '{"results":[]}' },
    { status: 204 },
    { status: 404 },
    { status: 404, body: '{"error":"not found"}' },
  ]) {
    answers = { 'GET /search/A': answer, 'POST /items': { status: 201, body: '{"id":9}' } }
    const result = await shop().deliver(one, never)
    expect(result).toEqual({ ...delivered(201), remember: { id: 9 } })
  }
})

test('a batch whose answers are read takes a list of entries, and nothing without them for an answer', async () => {
  const batch = { size: 10, request: to('POST', '/many'), answers: 'body' }
  const both = [one, job({ pk: 'B' })]
  answers = { 'POST /many': { body: '[true, true]' } }
  expect(await open({ batch }).batches?.deliver(both, never)).toEqual([delivered(), delivered()])
  for (const body of ['', 'OK', '[]', '[true]', 'null']) {
    answers = { 'POST /many': { body } }
    const results = await open({ batch }).batches?.deliver(both, never)
    expect(results).toMatchObject([foreign, foreign])
  }
})

test('an internal error of GraphQL inside a 200 is a failure of the receiver, and spends an attempt', async () => {
  const body = '{"errors":[{"message":"x","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}'
  answers = { 'PUT /items/A': { body }, 'GET /search/A': { body } }
  const rules = [{ status: [200], when: '$count(body.errors) > 0', is: 'final' as const }]
  for (const destination of [open(), open({ answers: rules }), shop({ answers: rules })]) {
    const result = await destination.deliver(one, never)
    expect(result).toMatchObject({ ok: false, retryable: true, outage: true })
    expect(result).not.toHaveProperty('isForeign')
  }
})
