import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

const token = 'canary-item-token-0123456789'
let target: TestTarget
let flows: TestFlows

beforeAll(async () => {
  target = await startTarget()
  const flow = jsonFlow('prices', target.url) as { destinations: object[] }
  const [web] = flow.destinations
  flows = await startTestFlows({
    env: { SHOP_TOKEN: token },
    files: {
      'prices.flow.yaml': {
        ...flow,
        destinations: [
          {
            ...web,
            map: '{ "sku": id, "cents": price * 100, "title": name }',
            request: {
              method: 'PUT',
              url: `${target.url}/prices/{pk}`,
              // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
              headers: { authorization: 'Bearer ${env:SHOP_TOKEN}' },
            },
          },
        ],
      },
      'prices.json': [{ id: 'A-17', price: 12, name: 'Yerba' }],
    },
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const requests = () => flows.call('GET', '/flow/prices/items/A-17/requests')
const sync = async () => {
  await flows.flows.sync('prices', { force: true })
  await flows.delivered()
}

test('one item: its record, body, request and answer, and what changed since the last delivery', {
  tags: ['long'],
}, async () => {
  await sync()
  const delivered = (await requests()).json()
  expect(delivered.record).toEqual({ id: 'A-17', price: 12, name: 'Yerba' })
  expect(delivered.destinations).toMatchObject([
    {
      name: 'web',
      body: { sku: 'A-17', cents: 1200, title: 'Yerba' },
      requests: [
        {
          purpose: 'update',
          method: 'PUT',
          target: `${target.url}/prices/A-17`,
          // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of a flow file
          headers: { authorization: 'Bearer ${env:SHOP_TOKEN}' },
          body: '{"sku":"A-17","cents":1200,"title":"Yerba"}',
        },
      ],
      record_changes: { comparison: 'compared', difference_count: 0 },
      answer: { outcome: 'delivered', status: 200 },
    },
  ])

  target.answer(422)
  await flows.write('prices.json', [{ id: 'A-17', price: 15, name: 'Yerba' }])
  await sync()
  const changed = await requests()
  expect(changed.json().destinations).toMatchObject([
    {
      body: { cents: 1500 },
      record_changes: { differences: [{ field: 'price', change: 'changed', from: 12, to: 15 }] },
      body_changes: { differences: [{ field: 'cents', from: 1200, to: 1500 }] },
      answer: { outcome: 'failed', status: 422, reason: expect.stringContaining('422') },
    },
  ])
  expect(changed.body).not.toContain(token)
  const received = target.received.length
  await requests()
  expect(target.received).toHaveLength(received)
})

test('an unknown flow or item is refused', async () => {
  expect((await flows.call('GET', '/flow/none/items/A-17/requests')).statusCode).toBe(404)
  const unknown = await flows.call('GET', '/flow/prices/items/none/requests')
  expect(unknown.json()).toEqual({ name: 'prices', pk: 'none', record: null, destinations: [] })
})
