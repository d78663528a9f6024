import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { requestAndDisconnect } from '../support/disconnecting-client.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/**
 * A suspended process does not carry out a request whose client has disconnected meanwhile, since the client has sent another
 * request to another process by then. Here the request and the disconnect arrive together.
 */
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      'shop.flow.yaml': jsonFlow('shop', target.url, { startPaused: false }),
      'shop.json': [{ id: 'A', price: 1 }],
    },
  })
  await flows.flows.sync('shop', { force: false })
  await flows.delivered()
  await flows.app.listen({ host: '127.0.0.1', port: 0 })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})
beforeEach(() => {
  target.received.length = 0
})

const sendAndDisconnect = (how: 'end' | 'destroy', line: string, body?: object) =>
  requestAndDisconnect(flows.app.server, { line, body }, how)

const activity = async () => {
  const { activity: lines } = (await flows.call('GET', '/flows/activity')).json()
  return lines.length as number
}

const late = [
  ['POST /flow/shop/pause', undefined],
  ['POST /flow/shop/pause', { reason: 'count' }],
  ['POST /flow/shop/resume', undefined],
  ['POST /flows/pause', undefined],
  ['POST /flows/resume', undefined],
  ['POST /flow/shop/limit/3', undefined],
  ['DELETE /flow/shop/limit', undefined],
  ['DELETE /reset/shop', undefined],
  ['DELETE /reset/shop/A', undefined],
] as const

test.each(late)('%s (%j) is not carried out after the client disconnected', async (line, body) => {
  const before = await activity()
  for (const how of ['end', 'destroy'] as const) await sendAndDisconnect(how, line, body)
  // If the service had carried it out, it would be done before this request on the same connection.
  expect((await flows.call('GET', '/flow/shop/items/A')).statusCode).toBe(200)
  expect(await activity()).toBe(before)
})

test('a pause stays after a resume whose client disconnected', async () => {
  expect((await flows.call('POST', '/flow/shop/pause')).statusCode).toBe(200)
  await sendAndDisconnect('end', 'POST /flow/shop/resume')
  const { flows: listed } = (await flows.call('GET', '/flows')).json()
  expect(listed[0]).toMatchObject({ name: 'shop', status: { paused: true } })
  expect((await flows.call('POST', '/flow/shop/resume')).statusCode).toBe(200)
})

test('a sync is carried out also after its client disconnected, since it reads the source as it is then', async () => {
  const before = await activity()
  await flows.write('shop.json', [{ id: 'A', price: 77 }])
  await sendAndDisconnect('destroy', 'POST /sync/shop')
  await expect
    .poll(() => target.received.map(({ body }) => body))
    .toContainEqual({ id: 'A', price: 77 })
  await expect.poll(activity).toBe(before + 1)
})
