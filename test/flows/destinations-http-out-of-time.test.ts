import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Secret } from '../../src/domain/flow-secret.ts'
import { HttpDestination, type HttpSettings } from '../../src/flows/destinations/http.ts'
import { createGuardedAgent } from '../../src/outbound/guarded-agent.ts'
import { clock, job, never } from './destinations-job.ts'

/**
 * An expression that exceeded its time, as on a busy machine, proves nothing: not that an item is missing, nor that a response
 * means success or a final refusal.
 */
const endless = '($f := function($n) { $f($n + 1) }; $f(0))'

const calls: string[] = []
let status = 200
let server: Server
let base: string
const agent = createGuardedAgent({ allowPrivateNetwork: true })

beforeAll(async () => {
  server = createServer((request, response) => {
    calls.push(`${request.method} ${request.url}`)
    request.resume()
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end('[{"id": 7}, {"id": 7}]')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(() => {
  calls.length = 0
  status = 200
})
afterAll(async () => {
  await agent.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

const written = (path: string) => {
  const text = `${base}${path}`
  return { url: new Secret([{ text, isWritten: true }], text), headers: {} }
}
const open = (change: (to: typeof written) => Partial<HttpSettings>) =>
  new HttpDestination({
    request: { method: 'PUT', ...written('/items/x') },
    timeoutMs: 5_000,
    respectRetryAfter: true,
    agent,
    now: clock(),
    ...change(written),
  })
const again = { ok: false, retryable: true, outage: false }

test('an item is not created while it is unknown whether it exists', {
  tags: ['long'],
}, async () => {
  const shop = open((to) => ({
    create: { method: 'POST', ...to('/items') },
    find: [{ method: 'GET', ...to('/items?sku=1'), remember: { id: endless } }],
    remember: { id: '$[0].id' },
  }))
  expect(await shop.deliver(job(), never)).toMatchObject(again)
  expect(calls).toEqual(['GET /items?sku=1'])
})

test('an item whose id could not be read in time after its creation is looked up again', {
  tags: ['long'],
}, async () => {
  const shop = open((to) => ({
    create: { method: 'POST', ...to('/items') },
    remember: { id: endless },
  }))
  expect(await shop.deliver(job(), never)).toMatchObject(again)
})

test.each([200, 422])(
  'an evaluation of a rule that timed out leaves an answer %i undecided',
  { tags: ['long'] },
  async (given) => {
    status = given
    const shop = open(() => ({
      answers: [{ when: endless, is: given === 200 ? 'final' : 'done' }],
    }))
    expect(await shop.deliver(job(), never)).toMatchObject(again)
  },
)

test('a body whose evaluation timed out is made again, alone and in a batch', {
  tags: ['long'],
}, async () => {
  const alone = open((to) => ({ request: { method: 'PUT', ...to('/items/x'), body: endless } }))
  expect(await alone.deliver(job(), never)).toMatchObject(again)
  for (const rules of [{ body: endless }, { answers: endless }]) {
    const together = open((to) => ({
      batch: { size: 2, request: { method: 'POST', ...to('/batch') }, ...rules },
    }))
    const jobs = [job({ pk: 'a' }), job({ pk: 'b' })]
    expect(await together.batches?.deliver(jobs, never)).toMatchObject([again, again])
  }
  expect(calls).toEqual(['POST /batch'])
})
