import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A poll waits for a file that its writer has not finished: nothing fails, and no alert is raised until it lasts. */
let target: TestTarget
let flows: TestFlows

const source = (name: string, extra: object) => ({
  source: {
    ...{ type: 'file', path: `\${env:DIR}/${name}.json`, format: 'json', settle: '0s' },
    ...extra,
  },
})

beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows({
    files: {
      'written.flow.yaml': jsonFlow('written', target.url, source('written', { settle: '2s' })),
      'written.json': [{ id: '1' }],
      'marked.flow.yaml': jsonFlow('marked', target.url, source('marked', { ready: '{name}.ok' })),
      'marked.json': [{ id: '1' }],
    },
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

const card = async (name: string) => {
  const { flows: cards } = (await flows.call('GET', '/flows')).json()
  return cards.find((one: { name: string }) => one.name === name)
}
const runs = async (name: string) => (await flows.call('GET', `/flow/${name}/runs`)).json().runs
const errors = async (name: string) => (await flows.call('GET', `/errors?flow=${name}`)).json()
const sync = (name: string) => flows.call('POST', `/sync/${name}?force=true`)

test('a poll waits for a file that is being written until it is unchanged, and does not count as failed', {
  tags: ['long'],
}, async () => {
  await flows.write('written.json', [{ id: '1' }])
  const answer = await sync('written')
  expect([answer.statusCode, answer.json().error]).toEqual([
    502,
    expect.stringContaining('changed less than 2000 ms ago (source.settle)'),
  ])
  const waiting = await card('written')
  expect(waiting).toMatchObject({
    last_error: null,
    waiting_for: {
      why: { code: 'FILE_SETTLING', data: { path: join(flows.dir, 'written.json'), ms: 2_000 } },
      // The flow is polled every hour, so the next poll finds the file unchanged.
      until: new Date(Date.parse(waiting.last_poll_at) + 3_600_000).toISOString(),
    },
    health: { cause: 'flow_paused' },
  })
  expect(waiting.waiting_for.why.message).toContain('changed less than')
  expect([await runs('written'), await errors('written')]).toEqual([[], []])
  expect((await flows.flows.metrics()).get('written')).toMatchObject({ totalErrors: 0 })

  await wait(2_100)
  expect((await sync('written')).json()).toMatchObject({ changes: 1 })
  expect(await card('written')).toMatchObject({ waiting_for: null, last_error: null })
})

test('a poll waits for a missing marker; one that is missing for too long is a failure', {
  tags: ['long'],
}, async () => {
  expect((await sync('marked')).statusCode).toBe(502)
  const path = join(flows.dir, 'marked.json')
  expect(await card('marked')).toMatchObject({
    last_error: null,
    waiting_for: {
      why: { code: 'FILE_WITHOUT_MARKER', data: { path, marker: 'marked.json.ok' } },
      until: null,
    },
  })
  expect(await runs('marked')).toEqual([])

  flows.service.clock.advance(16 * 60_000)
  await sync('marked')
  expect(await card('marked')).toMatchObject({
    last_error: expect.stringContaining('waits for its marker marked.json.ok'),
    last_error_why: { code: 'FILE_WITHOUT_MARKER' },
    waiting_for: null,
  })
  expect(await errors('marked')).toMatchObject([{ adapter: 'source' }])

  await flows.write('marked.json.ok', '')
  expect((await sync('marked')).json()).toMatchObject({ changes: 1 })
  expect(await card('marked')).toMatchObject({ waiting_for: null, last_error: null })
})
