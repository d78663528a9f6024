import fc from 'fast-check'
import type { LightMyRequestResponse } from 'fastify'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { errorCatalogue } from '../../src/errors/app-error.ts'
import { forgetRequests, openOwnShop, providerRequests } from '../support/money.ts'
import { type OpenApiDocument, operationOf } from '../support/openapi.ts'
import { join, type TestPerson } from '../support/people.ts'
import { routesOf } from '../support/routes.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

const none = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'
const event = { status: 'processed' }

/**
 * Every route but the pages. `fill` replaces each path parameter; `body` is valid in
 * its form. Nothing that they name exists, so even an accepted request changes nothing.
 */
const routes: Record<
  string,
  { token: 'admin' | 'client' | 'person' | 'none'; body?: Record<string, unknown> }
> = {
  'GET /health': { token: 'none' },
  'GET /health/fleet': { token: 'client' },
  'GET /health/fleet/changes': { token: 'client' },
  'GET /overview': { token: 'client' },
  'GET /sales': { token: 'client' },
  'GET /sales-over-time': { token: 'client' },
  'GET /sales/:storeExternalId': { token: 'client' },
  'GET /metrics': { token: 'admin' },
  'GET /openapi.json': { token: 'none' },
  'GET /oauth/login': { token: 'none' },
  'GET /oauth/invitation': { token: 'none' },
  'POST /oauth/invitation': { token: 'none', body: { client: 'acme', invitation: 'x' } },
  'GET /oauth/callback': { token: 'none' },
  'GET /oauth/validate': { token: 'none' },
  'POST /webhooks': { token: 'none', body: { type: 'order', data: { id: 'ORD1' } } },
  'POST /session': { token: 'none', body: { token: 'x' } },
  'GET /session': { token: 'none' },
  'DELETE /session': { token: 'none' },
  'POST /account/invitation': {
    token: 'none',
    body: { code: 'x', password: 'canary-long enough' },
  },
  'GET /account': { token: 'person' },
  'POST /account/password': {
    token: 'person',
    body: { current: 'x', password: 'canary-long enough' },
  },
  'POST /account/totp': { token: 'person' },
  'POST /account/totp/confirm': { token: 'person', body: { code: '123456' } },
  'POST /account/totp/remove': { token: 'person', body: { password: 'x' } },
  'DELETE /account/sessions/:sessionId': { token: 'person' },
  'GET /people': { token: 'admin' },
  'POST /people': { token: 'admin', body: { name: 'nobody', role: 'viewer', client: 'nobody' } },
  'PATCH /people/:personId': { token: 'admin', body: { role: 'viewer', stores: null } },
  'POST /people/:personId/reset': { token: 'admin' },
  'POST /people/:personId/revoke': { token: 'admin' },
  'GET /people/:personId/sessions': { token: 'admin' },
  'DELETE /people/:personId/sessions': { token: 'admin' },
  'GET /statistics': { token: 'client' },
  'GET /events': { token: 'client' },
  'GET /events/feed': { token: 'client' },
  'GET /events/feed/consumers': { token: 'client' },
  'POST /events/feed/consumers': { token: 'client', body: { name: 'erp', from: 'now' } },
  'POST /events/feed/consumers/:name': { token: 'client', body: { after: 'MTow' } },
  'POST /events/feed/consumers/:name/seek': { token: 'client', body: { from: 'now' } },
  'DELETE /events/feed/consumers/:name': { token: 'client' },
  'GET /events/endpoints': { token: 'client' },
  // Refused by its address: the requests of this file change nothing.
  'POST /events/endpoints': { token: 'client', body: { url: 'https://127.0.0.1/events' } },
  'GET /events/endpoints/:id': { token: 'client' },
  'PATCH /events/endpoints/:id': { token: 'client', body: { types: null } },
  'DELETE /events/endpoints/:id': { token: 'client' },
  'POST /events/endpoints/:id/rotate': { token: 'client', body: { overlap_seconds: 0 } },
  'POST /events/endpoints/:id/resume': { token: 'client' },
  'POST /events/endpoints/:id/skip': { token: 'client' },
  'POST /events/endpoints/:id/stop': { token: 'client' },
  'POST /events/endpoints/:id/ping': { token: 'client' },
  'POST /events/endpoints/:id/replay': { token: 'client', body: { failed: true } },
  'GET /events/endpoints/:id/attempts': { token: 'client' },
  'GET /events/endpoints/:id/events/:event_id': { token: 'client' },
  'GET /orders/:orderId/timeline': { token: 'client' },
  'POST /orders/:orderId/ask': { token: 'client' },
  'POST /orders/:orderId/settle': { token: 'client', body: { as: 'paid', reason: 'x' } },
  'GET /admin/statistics': { token: 'admin' },
  'GET /oauth/status': { token: 'client' },
  'POST /oauth/refresh': { token: 'client' },
  'POST /oauth/logout': { token: 'client' },
  'GET /orders': { token: 'client' },
  'POST /orders': {
    token: 'client',
    body: {
      caja_id: 'NO-BOX',
      external_reference: 'T-1',
      amount: '1,00',
      description: 'x',
      ticket_number: 'x',
      print_ticket: true,
      payment_method: 'qr',
      expiration_minutes: 5,
    },
  },
  'GET /orders/:orderId': { token: 'client' },
  'POST /orders/cancel': { token: 'client', body: { order_id: none } },
  'POST /orders/refund': { token: 'client', body: { order_id: none, amount: '1,00' } },
  'GET /stores': { token: 'client' },
  'POST /stores': {
    token: 'client',
    body: {
      name: 'S',
      external_id: 'S',
      location: {
        street_name: 'x',
        street_number: '1',
        city_name: 'No Such City',
        state_name: 'Capital Federal',
        latitude: 1,
        longitude: 1,
        reference: null,
      },
      pos: [{ name: 'C', external_id: 'C' }],
    },
  },
  'GET /stores/:storeExternalId': { token: 'client' },
  'DELETE /stores/:storeExternalId': { token: 'client' },
  'POST /stores/:storeExternalId/pos': {
    token: 'client',
    body: { pos: [{ name: 'C', external_id: 'C' }] },
  },
  'DELETE /stores/:storeExternalId/pos/:posExternalId': { token: 'client' },
  'PUT /stores/:storeExternalId/time-zone': {
    token: 'client',
    body: { time_zone: 'America/Lima' },
  },
  'POST /closings': {
    token: 'client',
    body: {
      caja_id: 'NO-BOX',
      business_day: '2026-01-05',
      declared: { credit_card: '1000,00' },
    },
  },
  'GET /chargebacks': { token: 'client' },
  'GET /chargebacks/:chargebackId': { token: 'client' },
  'GET /orphans': { token: 'client' },
  'POST /orphans/:orphanId/adopt': { token: 'client', body: { reason: 'sold' } },
  'POST /orphans/:orphanId/refund': { token: 'client', body: { reason: 'twice' } },
  'POST /orphans/:orphanId/dismiss': { token: 'client', body: { reason: 'known' } },
  'GET /closings': { token: 'client' },
  'GET /closings/:closingId': { token: 'client' },
  'GET /closings/:closingId/csv': { token: 'client' },
  'GET /closings/:closingId/print': { token: 'client' },
  'POST /closings/:closingId/count': { token: 'client', body: { declared: { qr: '1,00' } } },
  'POST /closings/:closingId/sign': { token: 'client' },
  'POST /closings/:closingId/amendments': { token: 'client', body: { reason: 'late' } },
  'GET /settlements/files': { token: 'client' },
  'POST /settlements/files': { token: 'client', body: { content: 'no report' } },
  'POST /settlements/fetches': {
    token: 'client',
    body: { report: 'settlement', from: '2026-01-05', to: '2026-01-01' },
  },
  'GET /settlements/fetches/:fetchId': { token: 'client' },
  'GET /settlements/net': { token: 'client' },
  'GET /terminals': { token: 'client' },
  'PATCH /terminals/operating-mode': {
    token: 'client',
    body: { caja_id: 'NO-BOX', operating_mode: 'STANDALONE' },
  },
  'GET /api-keys': { token: 'admin' },
  'POST /api-keys': { token: 'admin', body: { client: 'nobody', description: 'x' } },
  'POST /api-keys/revoke': { token: 'admin', body: { client: 'nobody' } },
  'GET /admin/clients': { token: 'admin' },
  'GET /admin/clients/:clientName': { token: 'admin' },
  'POST /admin/clients/:clientName/unpin': { token: 'admin' },
  'GET /admin/invitations': { token: 'admin' },
  'POST /admin/invitations': { token: 'admin', body: { client: 'acme' } },
  'DELETE /admin/invitations/:invitationId': { token: 'admin' },
  'GET /admin/webhooks/logs': { token: 'admin' },
  'POST /admin/webhooks/:id/replay': { token: 'admin' },
  'GET /admin/activity': { token: 'admin' },
  'GET /admin/activity/verify': { token: 'admin' },
  'GET /admin/orders': { token: 'admin' },
  'GET /admin/charge-classes': { token: 'admin' },
  'PUT /admin/charge-classes': { token: 'admin', body: { name: 'incomplete' } },
  'POST /admin/alerts/test': { token: 'admin' },
  'POST /admin/orders/:idempotencyKey/simulate': { token: 'admin', body: event },
  'POST /admin/terminals/:terminalId/free': {
    token: 'admin',
    body: { client: 'nobody', dry_run: false, reason: 'stuck' },
  },
  'POST /admin/orders/simulate/:idempotencyKey': { token: 'admin', body: event },
}
const names = Object.keys(routes)
const isPage = (route: string) => /^(GET|HEAD) \/($|\*$|docs|guide|dashboard|vendor)/.test(route)
const withBody = names.filter((name) => routes[name]?.body && name !== 'POST /webhooks')

let service: TestService
let till: Till
let person: TestPerson
let description: OpenApiDocument
beforeAll(async () => {
  service = await startTestService({
    env: { AUTH_FAILURES_PER_MINUTE: '1000000' },
    // Reads the stream of events to its end.
    streams: { longestMs: 1 },
  })
  till = await openOwnShop(service, 'acme')
  person = await join(service, { name: 'somebody', role: 'viewer', client: 'acme' })
  description = (await call(service, { url: '/openapi.json' })).json()
  // One record of every kind that could be damaged.
  const paid = (await charge(service, till, { reference: 'PAID' })).json().order_id
  await act(service, paid, payByCard)
  await readOrder(service, till, paid)
  await charge(service, till, { reference: 'OPEN' })
  // It is made here, and the events have their positions: the requests of this file change neither.
  await call(service, {
    url: '/events/feed/consumers',
    token: till.key,
    body: routes['POST /events/feed/consumers']?.body,
  })
})
beforeEach(() => forgetRequests(service))
afterAll(() => service.stop())

type Hostile = {
  /** Instead of the path parameters, percent-encoded already. */
  fill?: string
  /** With its question mark. */
  query?: string
  headers?: Record<string, string>
  payload?: string | Buffer
}

async function send(route: string, hostile: Hostile): Promise<LightMyRequestResponse> {
  const [method = '', path = ''] = route.split(' ')
  const token = { admin: adminToken, client: till.key, person: undefined, none: undefined }[
    routes[route]?.token ?? 'none'
  ]
  return service.app.inject({
    method: method as 'POST',
    url: `${path.replace(/:[A-Za-z]+/g, () => hostile.fill ?? none)}${hostile.query ?? ''}`,
    headers: {
      ...(token && { 'x-api-token': token }),
      ...(routes[route]?.token === 'person' && {
        cookie: person.cookie,
        'sec-fetch-site': 'same-origin',
        // Its session counts for JSON only.
        ...(method !== 'GET' && { 'content-type': 'application/json' }),
      }),
      ...(hostile.payload !== undefined && { 'content-type': 'application/json' }),
      ...hostile.headers,
    },
    ...(hostile.payload !== undefined && { payload: hostile.payload }),
  })
}

/** Whether the published description names this code among the answers of the route. */
function isDocumented(route: string, status: number, code: string): boolean {
  const [method = '', path = ''] = route.split(' ')
  if (path === '/openapi.json') return true
  const operation = operationOf(description, { method, path: path.replace(/:(\w+)/g, '{$1}') })
  return operation.responses[status]?.description.includes(`\`${code}\``) ?? false
}

/** A refusal has the documented shape, and no answer is a 5xx; `asked` begins with the route. */
function expectSound(answer: LightMyRequestResponse, asked: string) {
  expect(answer.statusCode, `${asked}: ${answer.body}`).toBeLessThan(500)
  if (answer.statusCode < 400) return
  const { error, code, request_id, details, ...rest } = answer.json()
  const known = errorCatalogue[code as keyof typeof errorCatalogue]
  expect(known?.status, asked).toBe(answer.statusCode)
  const [route] = names.filter((name) => asked.startsWith(`${name} `))
  if (route !== undefined) expect(isDocumented(route, answer.statusCode, code), asked).toBe(true)
  expect([typeof error, typeof request_id], asked).toEqual(['string', 'string'])
  expect(Array.isArray(details), asked).toBe(code === 'VALIDATION_ERROR')
  for (const key of Object.keys(rest)) {
    expect(
      ['outcome', 'retry_safe', 'retry', 'order_id', 'status', 'open_order', 'cashier'],
      asked,
    ).toContain(key)
  }
  if (rest.outcome !== undefined) {
    // The order that the cancel or refund names may be paid.
    const isUnread = route !== 'POST /orders' && code !== 'NOT_FOUND'
    expect(rest.outcome, asked).toBe(
      code === 'UNAUTHORIZED' || isUnread ? 'unknown' : 'not_charged',
    )
  }
  expect(answer.body, asked).not.toMatch(/node:internal|node_modules|\.ts:\d+|select |insert into/)
}

/** Every row that matters. Logs of writes, webhooks, requests and calls may grow, and leases may change. */
async function everything(): Promise<string> {
  const { db } = service.database
  const grow = [
    'activity_log',
    'activity_head',
    'activity_seals',
    'activity_unsealed',
    'webhook_log',
    'order_calls',
    'box_sightings',
    'leases',
    'oauth_states',
    // Wrong sign-ins are counted.
    'sign_in_failures',
    'person_sessions',
  ]
  const { rows: tables } = await sql<{ name: string }>`
    select tablename as name from pg_tables where schemaname = 'public'`.execute(db)
  const dump: Record<string, unknown> = {}
  for (const { name } of tables.filter((table) => !grow.includes(table.name))) {
    // Neither the new secret of a person nor the write that proves that the database accepts writes counts.
    const isOurs = name === 'settings' ? sql`where name <> 'write_proof'` : sql``
    const { rows } =
      await sql`select to_jsonb(t) - 'last_used_at' - 'totp_secret' as row from ${sql.table(name)} t
      ${isOurs} order by 1`.execute(db)
    dump[name] = rows
  }
  return JSON.stringify(dump)
}

/** The work changes nothing here and writes nothing at the provider. */
async function expectUnchanged(work: () => Promise<void>) {
  const before = await everything()
  const ledger = JSON.stringify(service.sandbox.ledger())
  await work()
  expect(await everything()).toBe(before)
  expect(JSON.stringify(service.sandbox.ledger())).toBe(ledger)
  const written = (await providerRequests(service)).filter(({ method }) => method !== 'GET')
  // A store in a city that is unknown to the provider is asked for, and refused there.
  expect(written.filter(({ path }) => !/^\/users\/\d+\/stores$/.test(path))).toEqual([])
  const check = await asAdmin(service, { url: '/admin/activity/verify' })
  expect(check.json()).toMatchObject({ valid: true })
}

test('every route of the service is attacked in this file', () => {
  const served = routesOf(service).filter((route) => !isPage(route))
  expect(names.toSorted()).toEqual(served)
})

const mebibyte = 1024 * 1024
const deep = 5_000
const hostileBodies: [what: string, payload: string | Buffer, status: number, code: string][] = [
  ['malformed JSON', '{"client":', 400, 'BAD_REQUEST'],
  ['two values', '{}{}', 400, 'BAD_REQUEST'],
  ['bytes that are no UTF-8', Buffer.from('7b22ff227d', 'hex'), 400, 'BAD_REQUEST'],
  ['a byte order mark alone', Buffer.from('efbbbf', 'hex'), 400, 'BAD_REQUEST'],
  ['__proto__', '{"__proto__":{"isAdmin":true}}', 400, 'BAD_REQUEST'],
  ['constructor.prototype', '{"constructor":{"prototype":{"a":1}}}', 400, 'BAD_REQUEST'],
  ['deep lists', '['.repeat(deep) + ']'.repeat(deep), 400, 'BAD_REQUEST'],
  ['deep objects', '{"a":'.repeat(deep) + 1 + '}'.repeat(deep), 400, 'BAD_REQUEST'],
  ['NUL', '{"client":"a\\u0000"}', 422, 'VALIDATION_ERROR'],
  ['half a character', '{"client":"\\ud83e"}', 422, 'VALIDATION_ERROR'],
  ['2 MiB', Buffer.from(`{"client":"${'x'.repeat(2 * mebibyte)}"}`), 413, 'PAYLOAD_TOO_LARGE'],
]
const hostileTypes = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'x']

test('T23: every route refuses a body that cannot be parsed before anything happens', {
  tags: ['long'],
}, async () => {
  const writing = names.filter((name) => /^(POST|PATCH|DELETE) \/(?!webhooks)/.test(name))
  await expectUnchanged(async () => {
    for (const route of writing) {
      for (const [what, payload, status, code] of hostileBodies) {
        const answer = await send(route, { payload })
        expectSound(answer, `${route} ${what}`)
        expect([answer.statusCode, answer.json().code], `${route} ${what}`).toEqual([status, code])
      }
      for (const type of hostileTypes) {
        const answer = await send(route, { payload: 'a=b', headers: { 'content-type': type } })
        expectSound(answer, `${route} ${type}`)
        // The page of an invitation is a form; its fields are checked like those of any body.
        // A session counts for JSON alone.
        const isSession = routes[route]?.token === 'person'
        const isForm = route === 'POST /oauth/invitation' && type.endsWith('urlencoded')
        const expected = isSession
          ? 'UNAUTHORIZED'
          : isForm
            ? 'VALIDATION_ERROR'
            : 'UNSUPPORTED_MEDIA_TYPE'
        expect(answer.json().code, `${route} ${type}`).toBe(expected)
      }
    }
  })
  expect(({} as Record<string, unknown>).isAdmin).toBeUndefined()
})

test('a webhook without a signature is 401 whatever its body', async () => {
  for (const [what, payload] of hostileBodies) {
    const answer = await send('POST /webhooks', { payload })
    expectSound(answer, `POST /webhooks ${what}`)
    expect(answer.statusCode, what).toBe(401)
  }
})

/** Values of every type, and values that often break programs. */
const nastyValue = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    1e308,
    Number.MAX_SAFE_INTEGER + 2,
    '',
    ' ',
    '1.00',
    '-1,00',
    '0,00',
    'NaN',
    '\u202eabc',
    '🧾'.repeat(40),
    "'; drop table orders; --",
    'x'.repeat(5000),
    [],
    [[]],
    {},
    { length: 3 },
    { toString: 'x' },
    Array.from({ length: 2000 }, () => 1),
  ),
)

/** A body of the route with one of its fields, at any depth, set to something else. */
function oneFieldWrong(body: Record<string, unknown>) {
  const paths: string[][] = []
  const walk = (value: unknown, path: string[]) => {
    if (path.length > 0) paths.push(path)
    if (value === null || typeof value !== 'object') return
    for (const [key, child] of Object.entries(value)) walk(child, [...path, key])
  }
  walk(body, [])
  return fc.tuple(fc.constantFrom(...paths), nastyValue).map(([path, value]) => {
    const changed = structuredClone(body)
    let place: Record<string, unknown> = changed
    for (const key of path.slice(0, -1)) place = place[key] as Record<string, unknown>
    place[path.at(-1) as string] = value
    return changed
  })
}

const textOf = (value: unknown) => JSON.stringify(value) ?? 'null'

test('T24: no body causes a 5xx, and a body with an unknown field changes nothing', {
  tags: ['long'],
}, async () => {
  const attack = fc.constantFrom(...withBody).chain((route) => {
    const { body = {} } = routes[route] ?? {}
    const misfit = fc.oneof(
      oneFieldWrong(body),
      fc.dictionary(fc.string(), fc.jsonValue()),
      fc.constant(body),
    )
    return fc.tuple(
      fc.constant(route),
      fc.oneof(
        misfit.map((value) => ({ ...value, no_such_field: 1 })),
        fc.oneof(fc.array(fc.jsonValue()), fc.string(), fc.integer(), fc.constant(null)),
      ),
    )
  })
  await expectUnchanged(async () => {
    await fc.assert(
      fc.asyncProperty(attack, async ([route, body]) => {
        const answer = await send(route, { payload: textOf(body) })
        expectSound(answer, `${route} ${textOf(body)}`)
        expect([400, 413, 422]).toContain(answer.statusCode)
      }),
      { numRuns: 100 },
    )
  })
})

/** Text that is valid as a name or an id: any characters but controls, from programs and from languages. */
const oddText = fc.oneof(
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
    .map((text) => text.replace(/\p{Cc}/gu, '') || 'x'),
  fc.constantFrom(
    '__proto__',
    'constructor',
    'toString',
    '../../etc/passwd',
    "' or 1=1 --",
    '%',
    '_',
    '\\',
    'a|b',
    '🧾'.repeat(16),
    'null',
    'ORD01K8ZQ4M7N2P5R6S7T8V9W0X1Y',
    'ORD/../x',
    '\ufeffx',
    'ﷺ',
  ),
)

test('unknown names and ids of any characters are not found, by path or by query', {
  tags: ['long'],
}, async () => {
  const attack = fc.tuple(
    fc.constantFrom(
      ...names.filter((name) => !/webhooks$|login$|invitations$|POST .stores$/.test(name)),
    ),
    oddText,
    oddText,
  )
  await expectUnchanged(async () => {
    await fc.assert(
      fc.asyncProperty(attack, async ([route, id, other]) => {
        const { body } = routes[route] ?? {}
        const fields = body && { ...body }
        for (const name of ['caja_id', 'order_id', 'client', 'external_id', 'external_reference']) {
          if (fields && name in fields) fields[name] = id
        }
        const query =
          {
            'GET /orders': { caja_id: id, external_reference: other, totals: 'true' },
            'GET /admin/orders': { client: id, caja_id: other },
            'GET /terminals': { sucursal_id: id, caja_id: other },
            'GET /admin/activity': { action: id, resource_type: other },
            'GET /admin/webhooks/logs': { client: id },
            'GET /oauth/callback': { code: id, state: other },
          }[route] ?? {}
        const answer = await send(route, {
          fill: encodeURIComponent(id),
          query: `?${new URLSearchParams(query)}`,
          // These two routes succeed whatever the body, so they get a wrong token.
          ...(fields && { payload: JSON.stringify(fields) }),
          ...(/oauth\/(refresh|logout)$/.test(route) && { headers: { 'x-api-token': 'none' } }),
        })
        expectSound(answer, `${route} ${JSON.stringify([id, other])}`)
        if (answer.statusCode < 400 && /\?.*=/.test(`?${new URLSearchParams(query)}`)) {
          expect(Object.values(answer.json())).toContainEqual([])
        }
      }),
      { numRuns: 120 },
    )
  })
})

test('T27: no query causes a 5xx', { tags: ['long'] }, async () => {
  const queries = [
    '?__proto__=1&constructor=1&hasOwnProperty=1',
    '?client[]=acme&limit[]=1',
    '?limit=1&limit=2&offset=1&offset=2',
    '?%00=1',
    '?client=%00',
    '?client=%ff%fe',
    '?limit=%zz',
    '?limit=9999999999999999999999&offset=1e400',
    '?limit=0x10&offset=%2B1',
    `?${'a=1&'.repeat(2000)}`,
    `?client=${'x'.repeat(8000)}`,
    '?data.id=ORD1&data.id=ORD2&type=a&type=b',
    '?wait=31&version=0',
    '?from=yesterday&to=2026-13-45T00:00:00Z',
    '?',
    '?&&&=',
  ]
  await expectUnchanged(async () => {
    for (const route of names) {
      // Reads only: a write would change something.
      if (!/^GET /.test(route)) continue
      for (const query of queries) expectSound(await send(route, { query }), `${route} ${query}`)
    }
  })
})

test('no header causes a 5xx', { tags: ['long'] }, async () => {
  const long = 'x'.repeat(10_000)
  const headers: Record<string, string>[] = [
    { 'x-api-token': long },
    { 'x-api-token': '__proto__' },
    { 'x-api-token': '\u00ff\u00fe' },
    { 'x-api-token': `${till.key}\t` },
    { 'idempotency-key': long },
    { 'idempotency-key': 'with spaces' },
    { 'idempotency-key': '\u00ff' },
    { 'accept-language': `${'es;q=0.1,'.repeat(500)}` },
    { 'accept-language': ';;;=q' },
    { 'x-request-id': '"\u00ff<script>' },
    { 'x-forwarded-for': 'unknown, ::1, 999.999.999.999' },
    { 'x-forwarded-host': 'evil.example' },
    { host: 'evil.example:99999' },
    { accept: 'text/html' },
    { cookie: `__Host-tillbridge-login=${long}; ;=;%` },
    { 'x-signature': 'ts=1,v1=', 'x-request-id': 'x' },
    { 'x-signature': `ts=${'9'.repeat(400)},v1=${'f'.repeat(64)}` },
    { 'content-type': 'application/json; charset=utf-16' },
    { expect: '100-continue' },
  ]
  await expectUnchanged(async () => {
    for (const route of [
      'GET /health',
      'GET /oauth/validate',
      'GET /oauth/callback',
      'POST /webhooks',
      'POST /orders',
      'POST /orders/refund',
      'GET /stores',
      'GET /admin/activity',
    ]) {
      for (const header of headers) {
        const { body } = routes[route] ?? {}
        const answer = await send(route, {
          headers: header,
          ...(body && { payload: JSON.stringify(body) }),
        })
        const isPageForPeople = answer.headers['content-type']?.toString().startsWith('text/html')
        if (!isPageForPeople) expectSound(answer, `${route} ${JSON.stringify(header)}`)
      }
    }
  })
})

test('a path or method without a route is 404 in the documented shape', async () => {
  const token = adminToken
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
  const served = new Set(names)
  await expectUnchanged(async () => {
    for (const path of new Set(names.map((name) => name.split(' ')[1] ?? ''))) {
      for (const method of methods) {
        if (served.has(`${method} ${path}`)) continue
        // A fixed path part may stand where another route has a parameter: DELETE /orders/:orderId is no route either.
        const url = path.replace(/:[A-Za-z]+/g, none)
        const answer = await call(service, { method, url: `${url}?client=acme`, token })
        expect([answer.statusCode, answer.json().code], `${method} ${path}`).toEqual([
          404,
          'NOT_FOUND',
        ])
        expectSound(answer, `${method} ${path}`)
      }
    }
    for (const url of [
      '/',
      '//',
      '/orders/',
      '//orders',
      '/ORDERS',
      '/api-keys/',
      '/admin',
      '/admin/',
      '/orders/..%2fapi-keys',
      '/%2e%2e/orders',
      '/oauth',
      '/.env',
      '/docs/%2e%2e/%2e%2e/package.json',
      '/dashboard/%2e%2e%2f%2e%2e%2fpackage.json',
      '/favicon.ico%00',
    ]) {
      const answer = await call(service, { url, token })
      expect([400, 404, 422], url).toContain(answer.statusCode)
      expectSound(answer, url)
    }
  })
})
