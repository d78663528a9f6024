import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, enrol } from '../support/till.ts'

// T35: the caller is identified by the address of his socket, and by a header only where a listed proxy sets it.

let direct: TestService
let behindProxy: TestService
const perMinute = 5
beforeAll(async () => {
  direct = await startTestService({ env: { AUTH_FAILURES_PER_MINUTE: String(perMinute) } })
  behindProxy = await startTestService({
    twinOf: direct,
    env: { AUTH_FAILURES_PER_MINUTE: String(perMinute), TRUST_PROXY: '127.0.0.50' },
  })
  await enrol(direct, 'acme')
  for (const { app } of [direct, behindProxy]) await app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await behindProxy.stop()
  await direct.stop()
})

/** Every way that a header may claim an address. */
const claims = [
  'x-forwarded-for: 6.6.6.6',
  'x-forwarded-for: 6.6.6.6, 127.0.0.1',
  'x-forwarded-for: 127.0.0.1\r\nx-forwarded-for: 6.6.6.6',
  'forwarded: for=6.6.6.6',
  'x-real-ip: 6.6.6.6',
  'x-client-ip: 6.6.6.6',
  'true-client-ip: 6.6.6.6',
]

/** A request over a socket from an address of this machine; returns its status. */
async function ask(
  service: TestService,
  from: string,
  path: string,
  headers: readonly string[] = [],
): Promise<number> {
  const { port } = service.app.server.address() as { port: number }
  const socket = connect({ host: '127.0.0.1', port, localAddress: from })
  const [method = 'GET', url = ''] = path.split(' ')
  const head = [`${method} ${url} HTTP/1.1`, 'host: x', 'connection: close', ...headers]
  socket.write(`${head.join('\r\n')}\r\ncontent-length: 0\r\n\r\n`)
  return Number((await text(socket)).slice(9, 12))
}

async function lastAudited(): Promise<string | null> {
  const { logs } = (await asAdmin(direct, { url: '/admin/activity?limit=1' })).json()
  return logs[0].ip_address
}

const write = 'POST /oauth/refresh?client=acme'
const admin = `x-api-token: ${adminToken}`

test('T35: the audit log contains the address of the socket, whatever a header claims', async () => {
  for (const claim of claims) {
    expect(await ask(direct, '127.0.0.7', write, [admin, claim]), claim).toBe(200)
    expect(await lastAudited(), claim).toBe('127.0.0.7')
  }
})

test('T35: failed attempts are counted by socket: another header each time does not reset the count', async () => {
  const statuses: number[] = []
  for (let tries = 0; tries < perMinute + 2; tries += 1) {
    const claim = `x-forwarded-for: 198.51.100.${tries}`
    statuses.push(await ask(direct, '127.0.0.8', 'GET /stores', [claim]))
  }
  expect(statuses).toEqual([...Array(perMinute).fill(401), 429, 429])
  // Nor is another address counted because a header claims it.
  expect(await ask(direct, '127.0.0.9', 'GET /stores')).toBe(401)
})

test('T35: the header of a listed proxy counts, in the log and for the limit; any other header does not', async () => {
  const claim = 'x-forwarded-for: 203.0.113.5'
  await ask(behindProxy, '127.0.0.50', write, [admin, claim])
  expect(await lastAudited()).toBe('203.0.113.5')
  // The proxy appends to what the caller wrote: only the last address comes from the proxy.
  await ask(behindProxy, '127.0.0.50', write, [admin, 'x-forwarded-for: 6.6.6.6, 203.0.113.6'])
  expect(await lastAudited()).toBe('203.0.113.6')
  await ask(behindProxy, '127.0.0.51', write, [admin, claim])
  expect(await lastAudited()).toBe('127.0.0.51')

  const guess = (proxy: string, address: string) =>
    ask(behindProxy, proxy, 'GET /stores', [`x-forwarded-for: ${address}`])
  for (let tries = 0; tries < perMinute; tries += 1) await guess('127.0.0.50', '203.0.113.7')
  expect(await guess('127.0.0.50', '203.0.113.7')).toBe(429)
  expect(await guess('127.0.0.50', '203.0.113.8')).toBe(401)
  expect(await guess('127.0.0.51', '203.0.113.7')).toBe(401)
})

/** How a proxy may write an address, or a caller where the proxy appends nothing. */
const spellings = [
  ['203.0.113.20', '203.0.113.20:51234'],
  ['203.0.113.21', '"203.0.113.21:51234"'],
  ['203.0.113.22', '::ffff:203.0.113.22'],
  ['2001:db8:0:0:0:0:0:1', '[2001:db8::1]'],
  ['2001:db8:1::1', '[2001:db8:1::1]:443'],
] as const

test.each(spellings)('T35: %s is the same caller as %s', async (plain, spelt) => {
  const guess = (address: string) =>
    ask(behindProxy, '127.0.0.50', 'GET /stores', [`x-forwarded-for: ${address}`])
  for (let tries = 0; tries < perMinute; tries += 1) {
    await guess(tries % 2 === 0 ? plain : spelt.replace('51234', String(51_000 + tries)))
  }
  expect([await guess(plain), await guess(spelt)]).toEqual([429, 429])
})

test('T35: an invalid address counts as the proxy that passed it on', async () => {
  const statuses: number[] = []
  for (let tries = 0; tries < perMinute + 2; tries += 1) {
    const garbage = [`unknown-${tries}`, `999.1.1.${tries}`, `_hidden${tries}`, `:${tries}`][
      tries % 4
    ]
    const claim = `x-forwarded-for: ${garbage}`
    statuses.push(await ask(behindProxy, '127.0.0.50', 'GET /stores', [claim]))
  }
  expect(statuses).toEqual([...Array(perMinute).fill(401), 429, 429])
  await ask(behindProxy, '127.0.0.50', write, [admin, 'x-forwarded-for: unknown'])
  expect(await lastAudited()).toBe('127.0.0.50')
  await ask(behindProxy, '127.0.0.50', write, [admin, 'x-forwarded-for: 203.0.113.30:4711'])
  expect(await lastAudited()).toBe('203.0.113.30')
})
