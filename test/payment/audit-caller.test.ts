import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  clearFaults,
  forgetRequests,
  openOwnShop,
  providerRequests,
  reading,
  setFaults,
} from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { asAdmin, call, charge, enrol, type Till } from '../support/till.ts'

let service: TestService
let till: Till
let keyId: string
beforeAll(async () => {
  service = await startTestService()
  till = await enrol(service, 'acme')
  keyId = (await asAdmin(service, { url: '/api-keys' })).json().keys[0].id
  await service.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(() => service.stop())

type Entry = {
  action: string
  ip_address: string | null
  resource_id: string | null
  status: string
  metadata: Record<string, unknown>
}

async function entries(query: string): Promise<Entry[]> {
  return (await asAdmin(service, { url: `/admin/activity?limit=200&${query}` })).json().logs
}

const missingOrder = '3f8e1f0e-6c2d-4b5a-9a51-0c7c4f2f9d11'

test('work for a client that has disconnected is audited with his address and key', {
  tags: ['long'],
}, async () => {
  const shop = await openOwnShop(service, 'disconnects')
  const { order_id } = (await charge(service, shop, { reference: 'H-1' })).json()
  await forgetRequests(service)
  await setFaults(service, { ...reading, kind: 'latency', delay_ms: 300 })
  const { port } = service.app.server.address() as { port: number }
  const body = JSON.stringify({ order_id })
  const head = [
    'POST /orders/cancel HTTP/1.1',
    'host: x',
    `x-api-token: ${shop.key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ]
  const socket = connect({ host: '127.0.0.1', port, localAddress: '127.0.0.9' })
  await once(socket, 'connect')
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  // The work has begun: the order is being read at the provider.
  await expect.poll(async () => (await providerRequests(service, reading)).length).toBe(1)
  socket.destroy()
  await once(socket, 'close')
  const found = () => entries('action=order.canceled&client=disconnects')
  await expect.poll(async () => (await found()).length).toBe(1)
  expect((await found())[0]).toMatchObject({
    status: 'success',
    ip_address: '127.0.0.9',
    metadata: { key_id: expect.any(String) },
  })
  await clearFaults(service)
})

test('an entry of a session names it, and the log also contains who started the session and when', async () => {
  for (const [token, owner] of [
    [adminToken, { client_name: null, metadata: {} }],
    [till.key, { client_name: 'acme', metadata: { key_id: keyId } }],
  ] as const) {
    const begun = await call(service, { url: '/session', body: { token } })
    const cookie = String(begun.headers['set-cookie']).split(';')[0] ?? ''
    const headers = { cookie, 'sec-fetch-site': 'same-origin' }
    const [signedIn] = await entries('action=session.started')
    expect(signedIn).toMatchObject({ ...owner, ip_address: '127.0.0.1', status: 'success' })
    const sessionId = signedIn?.resource_id

    await call(service, {
      url: '/orders/cancel?client=acme',
      headers,
      body: { order_id: missingOrder },
    })
    const [canceled] = await entries('action=order.canceled')
    expect(canceled?.metadata).toEqual({ ...owner.metadata, session_id: sessionId })

    await call(service, { method: 'DELETE', url: '/session', headers })
    const [signedOut] = await entries('action=session.ended')
    expect(signedOut).toMatchObject({ ...owner, resource_id: sessionId, status: 'success' })
  }
  expect((await asAdmin(service, { url: '/admin/activity/verify' })).json().valid).toBe(true)
})

test('a sign-in with a wrong token is logged without the token; a sign-out without a session is not logged', async () => {
  const before = (await entries('resource_type=session')).length
  await call(service, { url: '/session', body: { token: 'a-wrong-token' } })
  await call(service, { method: 'DELETE', url: '/session' })
  const [refused, ...others] = await entries('resource_type=session')
  expect(others).toHaveLength(before)
  expect(refused).toMatchObject({
    action: 'session.refused',
    status: 'failed',
    ip_address: '127.0.0.1',
    resource_id: null,
    metadata: {},
  })
  expect(JSON.stringify(refused)).not.toContain('a-wrong-token')
})

test('of a flood of wrong tokens ten a minute are logged, and the next entry counts the others', async () => {
  const refusals = async () => entries('action=session.refused')
  service.clock.advance(60_000)
  const before = (await refusals()).length
  const { statusCode } = await call(service, { url: '/session', body: { token: 'wrong' } })
  expect(statusCode).toBe(401)
  for (let count = 1; count < 30; count += 1) {
    await call(service, { url: '/session', body: { token: 'wrong' } })
  }
  expect(await refusals()).toHaveLength(before + 10)
  service.clock.advance(60_000)
  await call(service, { url: '/session', body: { token: 'wrong' } })
  const after = await refusals()
  expect(after).toHaveLength(before + 11)
  expect(after[0]?.metadata).toEqual({ unrecorded_before: 20 })
})
