import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import {
  patientFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** Open deliveries of a flow whose file is missing or renamed are listed, and sent when the file is back. */
let target: TestTarget
let flows: TestFlows
beforeAll(async () => {
  target = await startTarget()
  target.answer(({ path }) => (path.endsWith('/C') ? 422 : 503))
  flows = await startTestFlows({
    files: {
      'shop.flow.yaml': patientFlow('shop', target.url),
      'shop.json': [{ id: 'A' }, { id: 'B' }, { id: 'C' }],
    },
  })
  await flows.flows.sync('shop', { force: true })
  await flows.delivered()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const list = async () => (await flows.call('GET', '/flows')).json()

test('deliveries of a renamed flow are listed under its old name', async () => {
  expect((await list()).without_definition).toEqual([])
  await flows.write('shop.flow.yaml', patientFlow('store', target.url))
  await flows.write('store.json', [])
  await flows.call('POST', '/flows/reload')
  await eventually(async () =>
    expect((await list()).without_definition).toEqual([
      {
        name: 'shop',
        destinations: [
          {
            name: 'web',
            waiting: 0,
            delayed: 2,
            failed: 1,
            oldest_waiting_at: expect.stringMatching(/Z$/),
          },
        ],
      },
    ]),
  )
  const lines = flows.logLines.map((line) => JSON.parse(line))
  expect(
    lines.filter(({ msg }) => msg?.includes('pending deliveries of flows without a definition')),
  ).toMatchObject([{ flows: [{ flow: 'shop', destinations: ['web'] }] }])
})

test('they are sent when the old name is back', async () => {
  await flows.write('shop.flow.yaml', patientFlow('shop', target.url))
  await flows.call('POST', '/flows/reload')
  const { flows: cards, without_definition: gone } = await list()
  expect(gone).toEqual([])
  expect(cards[0].destinations).toMatchObject([{ name: 'web', delayed: 2, failed: 1 }])
})
