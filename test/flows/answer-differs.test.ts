import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/** A successful answer that shows another value than the one sent: the shop did not take it, or answered from a cache. */
let answer: unknown = {}
let status = 200
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
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
const open = (change: Partial<HttpSettings> = {}) =>
  new HttpDestination({
    request: { method: 'PUT', url: written(`${base}/items/{pk}`), headers: {} },
    answers: [
      { status: [200], when: '$exists(body.error)', is: 'final' },
      {
        status: [200, 409],
        when: 'body.stock != sent.stock ? "stock: sent " & sent.stock & ", answered " & body.stock',
        is: 'final',
      },
    ],
    ...{ timeoutMs: 5_000, respectRetryAfter: true, agent, now: clock() },
    ...change,
  })
const given = (attempt: number) => job({ body: { stock: 5 }, attempt })
const differs = { code: 'ANSWER_DIFFERS', data: { status: 200, said: 'stock: sent 5, answered 3' } }

test('a text that a rule gives is the reason; the item is sent once more before it fails', async () => {
  answer = { stock: 3 }
  expect(await open().deliver(given(1), never)).toEqual({
    ...{ ok: false, retryable: true, outage: false, status: 200, why: differs },
  })
  expect(await open().deliver(given(2), never)).toEqual({
    ...{ ok: false, retryable: false, outage: false, status: 200, why: differs },
  })
})

test('an equal answer, and one without the field, is success', async () => {
  for (const one of [{ stock: 5 }, {}, { stock: 5, other: 1 }]) {
    answer = one
    expect(await open().deliver(given(1), never)).toEqual({ ok: true, status: 200 })
  }
})

test('a rule that gives true, or decides about a refusal, fails at once', async () => {
  answer = { error: 1 }
  expect(await open().deliver(given(1), never)).toMatchObject({ ok: false, retryable: false })
  answer = { stock: 3 }
  const rules = [{ status: [422], when: '"stock: " & body.stock', is: 'final' as const }]
  status = 422
  expect(await open({ answers: rules }).deliver(given(1), never)).toMatchObject({
    ...{ ok: false, retryable: false, why: { data: { status: 422, said: 'stock: 3' } } },
  })
  status = 200
})

test('a look-up is not compared with what will be sent, since it shows the state before', async () => {
  answer = { id: 7, stock: 3 }
  const find = [
    { method: 'GET' as const, url: written(`${base}/find`), headers: {}, remember: { id: 'id' } },
  ]
  const result = await open({ find }).deliver(given(2), never)
  // Only the change itself is.
  expect(result).toMatchObject({ ok: false, why: differs })
  answer = { id: 7, stock: 5 }
  expect(await open({ find }).deliver(job({ body: { stock: 5 } }), never)).toMatchObject({
    ok: true,
  })
  const rules = [{ status: [200], when: '$exists(sent.stock) ? "compared"', is: 'final' as const }]
  expect(
    await open({ find, answers: rules }).deliver({ ...given(2), kind: 'delete' }, never),
  ).toMatchObject({
    why: { code: 'NO_DELETE_REQUEST' },
  })
  answer = {}
  const fresh = [{ ...find[0], fresh: true } as NonNullable<typeof find>[number]]
  expect(
    await open({ find: fresh, answers: rules }).deliver(
      { ...given(2), remembered: { id: 7 } },
      never,
    ),
  ).toMatchObject({ why: { code: 'LOOKUP_INCOMPLETE' } })
})

test('the text hides secrets and is short', async () => {
  answer = { stock: `canary-secret ${'x'.repeat(5_000)}` }
  const key = new Secret('canary-secret', '${env' + ':KEY}')
  const request = { method: 'PUT' as const, url: written(`${base}/a`), headers: { 'x-key': key } }
  const result = await open({ request }).deliver(given(2), never)
  const text = JSON.stringify(result)
  expect(text).not.toContain('canary')
  expect(text.length).toBeLessThan(400)
})

test('the answers of a batch see what was sent, entry by entry', async () => {
  const many = { method: 'POST' as const, url: written(`${base}/many`), headers: {} }
  const batch = {
    ...{ size: 10, request: many },
    answers:
      '$map(body, function($one, $i) { $one.stock = $$.items[$i].stock and $one.sku = $$.pks[$i] })',
  }
  answer = [
    { sku: 'a', stock: 5 },
    { sku: 'b', stock: 5 },
  ]
  const jobs = ['a', 'b'].map((pk, index) => job({ pk, body: { stock: 5 + index } }))
  expect(await open({ batch, answers: [] }).batches?.deliver(jobs, never)).toMatchObject([
    { ok: true },
    { ok: false, retryable: false },
  ])
})
