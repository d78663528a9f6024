import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import type { DeliveryJob } from '../../src/flows/types.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/** In which order an answer is judged: transport, status class, then the rules of the definition. */

type Given = { status: number; body?: unknown; headers?: Record<string, string> }

const failing = { errors: [{ message: 'Internal error' }] }
let answers: Record<string, Given> = {}
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer((request, response) => {
    const given = answers[request.url ?? ''] ?? { status: 200 }
    response.writeHead(given.status, { 'content-type': 'application/json', ...given.headers })
    response.end(given.body === undefined ? '' : JSON.stringify(given.body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (text: string) => new Secret([{ text, isWritten: true }], text)
const to = (path: string) => ({ method: 'POST' as const, url: written(base + path), headers: {} })
const open = (change: Partial<HttpSettings> = {}) =>
  new HttpDestination({
    request: to('/item'),
    timeoutMs: 5_000,
    respectRetryAfter: true,
    agent,
    now: clock(),
    ...change,
  })
const jobs = (...pks: string[]): DeliveryJob[] =>
  pks.map((pk) => job({ pk, key: [pk], body: { sku: pk }, jobKey: pk.padEnd(64, '0') }))

const passing = [408, 409, 423, 425, 429, 500, 502, 503, 504]
const aboutErrors = { when: '$count(body.errors) > 0' }

describe.each(passing)('an answer with status %i and errors in its body', (status) => {
  test('is retried after its Retry-After, whatever a rule without a status says about its body', async () => {
    answers = { '/item': { status, body: failing, headers: { 'retry-after': '7' } } }
    for (const is of ['final', 'gone', 'done'] as const) {
      const result = await open({ answers: [{ ...aboutErrors, is }] }).deliver(job(), never)
      expect(result).toMatchObject({ ok: false, retryable: true, retryAfterSeconds: 7, status })
      expect(result).not.toHaveProperty('forget')
    }
  })

  test('fails for good when a rule names that status', async () => {
    answers = { '/item': { status, body: failing } }
    const destination = open({ answers: [{ ...aboutErrors, status: [status], is: 'final' }] })
    expect(await destination.deliver(job(), never)).toMatchObject({ ok: false, retryable: false })
  })

  test('to a look-up creates nothing and is retried', async () => {
    answers = { '/find': { status, body: failing } }
    const destination = open({
      create: to('/create'),
      find: [{ ...to('/find'), remember: { id: 'id' } }],
      remember: { id: 'id' },
      answers: [{ ...aboutErrors, is: 'final' }],
    })
    expect(await destination.deliver(job(), never)).toMatchObject({ ok: false, retryable: true })
  })

  test('to a batch keeps its items together for a retry', async () => {
    answers = { '/many': { status, body: failing, headers: { 'retry-after': '7' } } }
    const destination = open({
      batch: { size: 10, request: to('/many') },
      answers: [{ ...aboutErrors, is: 'final' }],
    })
    const each = { ok: false, retryable: true, retryAfterSeconds: 7 }
    expect(await destination.batches?.deliver(jobs('a', 'b'), never)).toMatchObject([each, each])
  })

  test('of one item in a batch is retried, whatever else the answer says about the item', async () => {
    const entries = [
      { status, error: 'x' },
      { status, is: 'gone' },
    ]
    answers = { '/many': { status: 207, body: entries, headers: { 'retry-after': '9' } } }
    const batch = { size: 10, request: to('/many'), answers: 'body' }
    const each = { ok: false, retryable: true, retryAfterSeconds: 9, status }
    const results = await open({ batch }).batches?.deliver(jobs('a', 'b'), never)
    expect(results).toMatchObject([each, each])
    expect((results as object[])[1]).not.toHaveProperty('forget')
  })

  test('of a token issuer is retried after its Retry-After', async () => {
    answers = { '/token': { status, body: failing, headers: { 'retry-after': '11' } } }
    const auth: NonNullable<HttpSettings['auth']> = {
      tokenUrl: written(`${base}/token`),
      clientId: written('till'),
      clientSecret: new Secret('canary-of-the-client', '${env' + ':X}'),
      clientAuth: 'basic',
    }
    expect(await open({ auth }).deliver(job(), never)).toMatchObject({
      ok: false,
      retryable: true,
      outage: true,
      retryAfterSeconds: 11,
    })
  })
})

test('a rule with "retry" honours the Retry-After of the receiver, in seconds or as a date', async () => {
  const rules = [{ status: [200], ...aboutErrors, is: 'retry' as const }]
  for (const [header, seconds] of [
    ['17', 17],
    ['Sat, 21 Nov 2026 14:31:30 GMT', 90],
  ] as const) {
    answers = { '/item': { status: 200, body: failing, headers: { 'retry-after': header } } }
    const result = await open({ answers: rules }).deliver(job(), never)
    expect(result).toMatchObject({ retryable: true, outage: false, retryAfterSeconds: seconds })
    const hasty = open({ answers: rules, respectRetryAfter: false })
    expect(await hasty.deliver(job(), never)).not.toHaveProperty('retryAfterSeconds')
  }
})

test('an item of a batch with "retry", or an unreadable answer, honours the Retry-After too', async () => {
  const headers = { 'retry-after': '5' }
  answers = { '/many': { status: 200, body: { is: 'retry' }, headers } }
  const batch = { size: 10, request: to('/many') }
  const each = { retryable: true, retryAfterSeconds: 5 }
  for (const expression of ['[body, body]', '[body]', 'body.nothing']) {
    const destination = open({ batch: { ...batch, answers: expression } })
    expect(await destination.batches?.deliver(jobs('a', 'b'), never)).toMatchObject([each, each])
  }
})

test('a rule without a status still decides about answers that a retry would not change', async () => {
  for (const status of [200, 400, 404, 422]) {
    answers = { '/item': { status, body: { code: 'duplicate' } } }
    const rules = [{ when: 'body.code = "duplicate"', is: 'done' as const }]
    expect(await open({ answers: rules }).deliver(job(), never)).toEqual({ ok: true, status })
  }
})
