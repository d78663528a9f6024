import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { createEncryption } from '../../src/domain/encryption.ts'
import { definitionHash, itemFormHash } from '../../src/flows/item/definition-hash.ts'
import { GrantKeeper } from '../../src/flows/oauth/refresh-token-grants.ts'
import type { SourceContext } from '../../src/flows/sources/source-context.ts'
import { type Source, SourceError } from '../../src/flows/types.ts'
import { openTestDatabase } from '../support/database.ts'
import { flowOf, ids, openTestSource, readAll, sendJson, testServer } from './sources-support.ts'

/** An ERP that requires access tokens, like Business Central: by client credentials, or by a refresh token. */
const env = { SECRET: 'canary-secret-1', FIRST: 'canary-first-1' }
const reference = (name: keyof typeof env) => `\${env:${name}}`

let database: Database
let server: Awaited<ReturnType<typeof testServer>>
let opened: Source[] = []
/** What the issuer received, and its response; the list accepts only the newest token. */
let asked: { form: URLSearchParams; login: string | undefined }[] = []
let issue: () => { status: number; body: unknown }
let newest = ''
let refusals = 0

beforeAll(async () => {
  database = await openTestDatabase()
  server = await testServer()
})
afterAll(async () => {
  server.close()
  await database.close()
})
beforeEach(() => {
  asked = []
  newest = ''
  refusals = 0
  issue = () => {
    newest = `canary-access-${asked.length}`
    return { status: 200, body: { access_token: newest, expires_in: 3600 } }
  }
  server.handle = (request, response) => {
    if (request.url === '/token') {
      void textOf(request).then((text) => {
        asked.push({ form: new URLSearchParams(text), login: request.headers.authorization })
        const { status, body } = issue()
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(JSON.stringify(body))
      })
      return
    }
    if (request.headers.authorization === `Bearer ${newest}`) {
      return sendJson(response, { value: [{ id: 1 }, { id: 2 }], token: newest })
    }
    refusals += 1
    response.writeHead(401, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: `not ${request.headers.authorization}` }))
  }
})
afterEach(async () => {
  await Promise.all(opened.map((source) => source.close()))
  opened = []
})

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  return text
}

const auth = (more: object = {}) => ({
  type: 'oauth2',
  tokenUrl: `${server.base}/token`,
  clientId: 'tillbridge',
  clientSecret: reference('SECRET'),
  ...more,
})
const flowWith = (source: object, more: object = {}) =>
  flowOf(
    { type: 'http', url: `${server.base}/items`, items: 'value', ...source },
    { allowPrivateNetwork: true, ...more },
    env,
  )

function open(source: object, more: Partial<SourceContext> = {}, flow: object = {}): Source {
  const made = openTestSource(flowWith(source, flow), more)
  opened.push(made.source)
  return made.source
}

const messageOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  expect((error as Error).message).not.toContain('canary')
  return (error as Error).message
}

test('one token by client credentials is requested and used by every request, also of one item', async () => {
  const item = { url: `${server.base}/items/{pk}`, items: 'value' }
  const source = open({ auth: auth({ scope: 'items.read' }), item })
  expect(ids(await readAll(source))).toEqual([1, 2])
  expect(ids(await readAll(source))).toEqual([1, 2])
  const { signal } = new AbortController()
  expect(await source.readItem({ key: ['2'], signal })).toEqual([{ id: 2 }])
  expect(asked).toHaveLength(1)
  expect(Object.fromEntries(asked[0]?.form ?? [])).toEqual({
    grant_type: 'client_credentials',
    scope: 'items.read',
  })
  const login = Buffer.from('tillbridge:canary-secret-1').toString('base64')
  expect(asked[0]?.login).toBe(`Basic ${login}`)
  expect(refusals).toBe(0)
})

test('a token that is no longer accepted is replaced once, and the read continues', async () => {
  const source = open({ auth: auth() })
  await readAll(source)
  newest = 'revoked meanwhile'
  expect(ids(await readAll(source))).toEqual([1, 2])
  expect([asked.length, refusals]).toEqual([2, 1])
})

test('a server that accepts no token gets two, and the failure shows neither', async () => {
  const source = open({ auth: auth() })
  issue = () => ({ status: 200, body: { access_token: `canary-${asked.length}` } })
  expect(await messageOf(readAll(source))).toContain('HTTP 401')
  expect([asked.length, refusals]).toEqual([2, 2])
})

test('an issuer that refuses or is down is reported by a code, without what was sent', async () => {
  const source = open({ auth: auth({ clientAuth: 'form' }) })
  issue = () => ({
    status: 401,
    body: { error: 'invalid_client', error_description: 'canary-secret-1' },
  })
  expect(await messageOf(readAll(source))).toContain('no access token: HTTP 401 invalid_client')
  expect(asked[0]?.form.get('client_secret')).toBe('canary-secret-1')
  issue = () => ({ status: 503, body: 'canary-secret-1' })
  expect(await messageOf(readAll(source))).toContain('no access token: HTTP 503')
  const nowhere = open({ auth: auth({ tokenUrl: 'http://127.0.0.1:9/token' }) })
  expect(await messageOf(readAll(nowhere))).toContain('no access token: ')
})

test('private addresses of a token issuer are refused like others', async () => {
  const source = open(
    { url: 'https://erp.example.com/items', auth: auth() },
    {},
    { allowPrivateNetwork: false },
  )
  expect(await messageOf(readAll(source))).toContain('no access token: ')
  expect(asked).toEqual([])
})

test('an access by refresh token is renewed with the newest one, stored under the name of the source', async () => {
  const now = { at: Date.parse('2026-11-21T12:00:00.000Z') }
  const keeper = new GrantKeeper({
    database,
    encryption: createEncryption([{ id: 'k1', key: randomBytes(32) }]),
    now: () => new Date(now.at),
    sleep: async () => undefined,
    processId: 'one',
    log: { warn: () => undefined, error: () => undefined },
  })
  issue = () => {
    newest = `canary-access-${asked.length}`
    const refresh_token = `canary-refresh-${asked.length}`
    return { status: 200, body: { access_token: newest, refresh_token, expires_in: 3600 } }
  }
  const given = auth({ grant: 'refresh_token', refreshToken: reference('FIRST') })
  expect(ids(await readAll(open({ auth: given }, { grants: keeper })))).toEqual([1, 2])
  now.at += 3_600_000
  expect(ids(await readAll(open({ auth: given }, { grants: keeper })))).toEqual([1, 2])
  expect(asked.map(({ form }) => form.get('refresh_token'))).toEqual([
    'canary-first-1',
    'canary-refresh-1',
  ])
  const rows = await database.db.selectFrom('oauth_grants').select('used_by').execute()
  expect(rows).toEqual([{ used_by: 'f/source' }])
  issue = () => ({ status: 400, body: { error: 'invalid_grant' } })
  now.at += 3_600_000
  const message = await messageOf(readAll(open({ auth: given }, { grants: keeper })))
  expect(message).toContain('no access token: the issuer refused the refresh token (invalid_grant)')
  expect(message).toContain(reference('FIRST'))
  await keeper.stop()
})

test('another access changes neither the form of items nor what needs approval', () => {
  const plain = flowWith({})
  for (const other of [flowWith({ auth: auth() }), flowWith({ auth: auth({ scope: 'other' }) })]) {
    expect(itemFormHash(other)).toBe(itemFormHash(plain))
    expect(definitionHash(other)).toBe(definitionHash(plain))
  }
})
