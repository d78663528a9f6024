import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { clearFaults, forgetRequests, setFaults } from '../support/money.ts'
import { providerCalls } from '../support/provider-requests.ts'
import { startTestService, type TestService } from '../support/service.ts'
import {
  asAdmin,
  call,
  createStore,
  enrol,
  pairTerminal,
  sandboxCall,
  type Till,
} from '../support/till.ts'

let service: TestService
let till: Till
/** Terminals of `till` by box. */
let paired: Paired

type Paired = Record<'pdv' | 'standalone' | 'other' | 'undefined' | 'foreign' | 'unbound', string>

/** A client with a terminal of each kind. */
async function openAll(client: string, userId: string): Promise<[Till, Paired]> {
  const till = await enrol(service, client, userId)
  // A second client of the same account: its stores are unknown to `till`.
  const duplicate = await enrol(service, `${client}'s duplicate`, userId)
  await createStore(service, till, { id: 'S 1', boxes: ['B 1', 'B-2', 'EMPTY'] })
  await createStore(service, till, { id: 'S-2', boxes: ['B-3', 'DELETED'] })
  await createStore(service, duplicate, { id: 'T-1', boxes: ['T-BOX'] })
  const unbound = await pairTerminal(service, till, 'DELETED')
  await call(service, { method: 'DELETE', url: '/stores/S-2/pos/DELETED', token: till.key })
  const paired = {
    pdv: await pairTerminal(service, till, 'B 1', 'PDV'),
    standalone: await pairTerminal(service, till, 'B 1', 'STANDALONE'),
    other: await pairTerminal(service, till, 'B-2', 'STANDALONE'),
    undefined: await pairTerminal(service, till, 'B-3', 'UNDEFINED'),
    foreign: await pairTerminal(service, duplicate, 'T-BOX', 'PDV'),
    unbound,
  }
  return [till, paired]
}

beforeAll(async () => {
  service = await startTestService()
  ;[till, paired] = await openAll('acme', '1401')
})
beforeEach(() => forgetRequests(service))
afterEach(() => clearFaults(service))
afterAll(() => service.stop())

const list = (query = '', who = till) =>
  call(service, { url: `/terminals${query}`, token: who.key })
const setMode = (body: unknown, key = till.key) =>
  call(service, { method: 'PATCH', url: '/terminals/operating-mode', token: key, body })

async function idsOf(query: string): Promise<string[]> {
  const answer = await list(query)
  expect(answer.statusCode, query).toBe(200)
  return answer.json().terminals.map(({ id }: { id: string }) => id)
}

/** The modes at the provider, by terminal. */
async function modesAtProvider(...ids: string[]): Promise<unknown[]> {
  const { terminals } = (await sandboxCall(service, 'GET', '/_sandbox/state')) as {
    terminals: { id: string; operating_mode: string }[]
  }
  return ids.map((id) => terminals.find((terminal) => terminal.id === id)?.operating_mode)
}

const auditOf = async (box: string) => {
  const query = '/admin/activity?client=acme&action=terminal.mode_changed&limit=200'
  const { logs } = (await asAdmin(service, { url: query })).json()
  return logs.filter((entry: { resource_id: string }) => entry.resource_id === box)
}

test('GET /terminals lists every terminal of the account with the ERP’s ids, null for an unknown box', async () => {
  const [own, paired] = await openAll('never switched', '1403')
  const answer = await list('', own)
  expect(answer.statusCode).toBe(200)
  const known = (sucursal_id: string | null, caja_id: string | null, operating_mode: string) => ({
    id: expect.any(String),
    sucursal_id,
    caja_id,
    operating_mode,
  })
  const byId = (left: { id: string }, right: { id: string }) => left.id.localeCompare(right.id)
  expect(answer.json().terminals.toSorted(byId)).toEqual(
    [
      { ...known('S 1', 'B 1', 'PDV'), id: paired.pdv },
      { ...known('S 1', 'B 1', 'STANDALONE'), id: paired.standalone },
      { ...known('S 1', 'B-2', 'STANDALONE'), id: paired.other },
      { ...known('S-2', 'B-3', 'STANDALONE'), id: paired.undefined },
      { ...known(null, null, 'PDV'), id: paired.foreign },
      { ...known(null, null, 'STANDALONE'), id: paired.unbound },
    ].toSorted(byId),
  )
})

test('an unknown mode of a terminal is shown as STANDALONE and logged', async () => {
  const [own, paired] = await openAll('new mode', '1404')
  service.logLines.length = 0
  await list('?caja_id=B-3', own)
  const lines = service.logLines.filter((line) => line.includes('unknown terminal mode'))
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'warn',
    terminalId: paired.undefined,
    mode: 'UNDEFINED',
  })
})

test('the list is filtered by store, by box and by both', async () => {
  const inStore = [paired.pdv, paired.standalone, paired.other].toSorted()
  expect((await idsOf('?sucursal_id=S%201')).toSorted()).toEqual(inStore)
  expect(await idsOf('?sucursal_id=S-2')).toEqual([paired.undefined])
  expect(await idsOf('?caja_id=B-2')).toEqual([paired.other])
  expect(await idsOf('?sucursal_id=S%201&caja_id=B-2')).toEqual([paired.other])
  expect(await idsOf('?caja_id=EMPTY')).toEqual([])
})

test('a filter by an unknown or foreign id, or a box of another store, returns an empty list without a call', async () => {
  for (const query of [
    '?sucursal_id=NONE',
    '?caja_id=NONE',
    '?sucursal_id=T-1',
    '?caja_id=T-BOX',
    '?caja_id=DELETED',
    '?sucursal_id=S-2&caja_id=B-2',
    '?sucursal_id=S%201&caja_id=NONE',
  ]) {
    expect(await idsOf(query), query).toEqual([])
  }
  expect(await providerCalls(service)).toEqual([])
})

test('the pages of the list have no gap and no repetition', async () => {
  const whole = await idsOf('')
  const pages: string[] = []
  for (let offset = 0; offset < 6; offset += 2) {
    pages.push(...(await idsOf(`?limit=2&offset=${offset}`)))
  }
  expect(pages).toEqual(whole)
  expect(await idsOf('?limit=50&offset=0')).toEqual(whole)
  expect(await idsOf('?offset=6')).toEqual([])
  expect(await idsOf('?limit=1&sucursal_id=S%201&offset=2')).toHaveLength(1)
})

test.each([
  ['limit', ['0', '51', '-1', '1.5', '1e1x', 'x', '', ' ']],
  ['offset', ['-1', '1000001', '0.5', 'x']],
  ['caja_id', ['', 'x'.repeat(65), 'a%00', 'a%0Ab']],
  ['sucursal_id', ['', 'x'.repeat(65), 'a%00', 'a%0Ab']],
])('a query with an invalid %s is 422 on that field', async (name, values) => {
  for (const value of [...values, `1&${name}=2`]) {
    const answer = await list(`?${name}=${value}`)
    expect([answer.statusCode, answer.json().code], value).toEqual([422, 'VALIDATION_ERROR'])
    expect(answer.json().details[0].path, value).toBe(name)
  }
  expect(await providerCalls(service)).toEqual([])
})

test('changing the mode of a box calls the provider once a terminal, and the message asks for a restart', async () => {
  const answer = await setMode({ caja_id: 'B 1', operating_mode: 'STANDALONE' })
  expect(answer.statusCode).toBe(200)
  expect(answer.json()).toEqual({
    message: expect.stringMatching(/STANDALONE.*restart/),
    terminals_updated: 2,
  })
  const asked = await providerCalls(service, ['PATCH'])
  expect(asked.map(({ path, body }) => [path, body])).toEqual(
    [paired.pdv, paired.standalone].map((id) => [
      '/terminals/v1/setup',
      { terminals: [{ id, operating_mode: 'STANDALONE' }] },
    ]),
  )
  expect(await modesAtProvider(paired.pdv, paired.standalone, paired.other)).toEqual([
    'STANDALONE',
    'STANDALONE',
    'STANDALONE',
  ])
  expect((await auditOf('B 1'))[0]).toMatchObject({
    client_name: 'acme',
    resource_type: 'terminal',
    status: 'success',
    error_message: null,
    metadata: { operating_mode: 'STANDALONE', terminals_updated: 2 },
  })
})

test('a second PDV on a box is ONE_PDV_PER_BOX, with the number of terminals changed before, and audited', async () => {
  await setMode({ caja_id: 'B 1', operating_mode: 'STANDALONE' })
  const answer = await setMode({ caja_id: 'B 1', operating_mode: 'PDV' })
  expect([answer.statusCode, answer.json().code]).toEqual([409, 'ONE_PDV_PER_BOX'])
  expect(answer.json().error).toContain('terminals switched before: 1')
  expect(await modesAtProvider(paired.pdv, paired.standalone)).toEqual(['PDV', 'STANDALONE'])
  expect((await auditOf('B 1'))[0]).toMatchObject({
    status: 'failed',
    error_message: expect.stringMatching(/^ONE_PDV_PER_BOX: /),
  })
})

test('a box with one terminal accepts each mode, also the current one', async () => {
  for (const mode of ['PDV', 'PDV', 'STANDALONE']) {
    const answer = await setMode({ caja_id: 'B-2', operating_mode: mode })
    expect([answer.statusCode, answer.json().terminals_updated]).toEqual([200, 1])
    expect(await modesAtProvider(paired.other)).toEqual([mode])
    expect((await list('?caja_id=B-2')).json().terminals).toMatchObject([{ operating_mode: mode }])
  }
})

test('the administrator changes the mode for the client that he names', async () => {
  const answer = await asAdmin(service, {
    method: 'PATCH',
    url: '/terminals/operating-mode?client=acme',
    body: { caja_id: 'B-3', operating_mode: 'PDV' },
  })
  expect([answer.statusCode, answer.json().terminals_updated]).toEqual([200, 1])
  expect(await modesAtProvider(paired.undefined)).toEqual(['PDV'])
})

test('a box without a terminal is TERMINAL_NOT_FOUND, an unknown or foreign one NOT_FOUND', async () => {
  for (const [box, code] of [
    ['EMPTY', 'TERMINAL_NOT_FOUND'],
    ['NONE', 'NOT_FOUND'],
    ['T-BOX', 'NOT_FOUND'],
    ['DELETED', 'NOT_FOUND'],
    ['b 1', 'NOT_FOUND'],
  ]) {
    const answer = await setMode({ caja_id: box, operating_mode: 'PDV' })
    expect([answer.statusCode, answer.json().code], box).toEqual([404, code])
  }
  expect(await providerCalls(service, ['PATCH'])).toEqual([])
  expect(await modesAtProvider(paired.foreign, paired.unbound)).toEqual(['PDV', 'UNDEFINED'])
})

test('a body that is not exactly a box and a mode is 422 without a call', async () => {
  const good = { caja_id: 'B-2', operating_mode: 'PDV' }
  const wrong: [body: unknown, path: string][] = [
    [{ operating_mode: 'PDV' }, 'caja_id'],
    [{ ...good, caja_id: '' }, 'caja_id'],
    [{ ...good, caja_id: 7 }, 'caja_id'],
    [{ ...good, caja_id: 'x'.repeat(65) }, 'caja_id'],
    [{ caja_id: 'B-2' }, 'operating_mode'],
    [{ ...good, operating_mode: 'pdv' }, 'operating_mode'],
    [{ ...good, operating_mode: 'UNDEFINED' }, 'operating_mode'],
    [{ ...good, operating_mode: null }, 'operating_mode'],
    [{ ...good, terminal_id: paired.other }, 'terminal_id'],
    [[good], 'body'],
  ]
  for (const [body, path] of wrong) {
    const answer = await setMode(body)
    expect([answer.statusCode, answer.json().details?.[0].path]).toEqual([422, path])
  }
  expect(await providerCalls(service)).toEqual([])
})

const setup = { path: '/terminals/v1/setup', method: 'PATCH' }
test.each([
  [{ kind: '500' }, 502, 'PROVIDER_ERROR'],
  [{ kind: 'drop_before' }, 504, 'PROVIDER_TIMEOUT'],
  [{ kind: '429', retry_after: 7 }, 429, 'RATE_LIMITED'],
  [{ kind: 'status', status: 403, code: 'terminal_not_allowed_action' }, 502, 'PROVIDER_REJECTED'],
  [{ kind: 'status', status: 404, code: 'not_found' }, 404, 'TERMINAL_NOT_FOUND'],
])(
  'when the provider answers %o to a change of mode, it is %i %s, audited as failed',
  async (rule, status, code) => {
    const before = (await auditOf('B-2')).length
    await setFaults(service, { ...setup, ...rule })
    const answer = await setMode({ caja_id: 'B-2', operating_mode: 'PDV' })
    expect([answer.statusCode, answer.json().code]).toEqual([status, code])
    expect(answer.json().error).toContain('terminals switched before: 0')
    if (status === 429) expect(answer.headers['retry-after']).toBe('7')
    const entries = await auditOf('B-2')
    expect(entries).toHaveLength(before + 1)
    expect(entries[0]).toMatchObject({
      status: 'failed',
      error_message: expect.stringContaining(code),
    })
  },
)

test('a failed list of terminals is an error of the provider, not an empty list', async () => {
  await setFaults(service, { path: '/terminals/v1/list', method: 'GET', kind: '500' })
  expect((await list()).json().code).toBe('PROVIDER_ERROR')
  const switched = await setMode({ caja_id: 'B-2', operating_mode: 'PDV' })
  expect([switched.statusCode, switched.json().code]).toEqual([502, 'PROVIDER_ERROR'])
})

test('without a connection list and change of mode are OAUTH_NOT_CONNECTED', async () => {
  const offline = await enrol(service, 'offline', '1402')
  await createStore(service, offline, { id: 'O-1', boxes: ['O-BOX'] })
  await call(service, { method: 'POST', url: '/oauth/logout', token: offline.key })
  const listed = await call(service, { url: '/terminals', token: offline.key })
  expect([listed.statusCode, listed.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
  const switched = await setMode({ caja_id: 'O-BOX', operating_mode: 'PDV' }, offline.key)
  expect([switched.statusCode, switched.json().code]).toEqual([409, 'OAUTH_NOT_CONNECTED'])
})
