import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

let target: TestTarget
let flows: TestFlows
beforeAll(async () => {
  target = await startTarget()
  flows = await startTestFlows()
})
afterAll(async () => {
  await flows.stop()
  await target.close()
})

test('what archived files gave is sent again once they are copied back and everything is asked for', {
  tags: ['long'],
}, async () => {
  const folder = join(flows.dir, 'out')
  await mkdir(folder)
  const source = {
    type: 'file',
    path: join(folder, '*.csv'),
    format: 'csv',
    settle: '0s',
    after: 'archive',
  }
  await flows.write(
    'again.flow.yaml',
    jsonFlow('again', target.url, { source, startPaused: false }),
  )
  await flows.call('POST', '/flows/reload')
  const first = join(folder, 'a.csv')
  await writeFile(first, 'id,price\n1,10\n')
  await copyFile(first, join(flows.dir, 'kept.csv'))
  await flows.call('POST', '/sync/again')
  await flows.delivered()
  const got = () => target.received.filter(({ path }) => path.startsWith('/again/')).length
  expect(got()).toBe(1)
  await flows.call('POST', '/resync/again?force=true')
  await flows.delivered()
  expect(got()).toBe(1)
  await copyFile(join(flows.dir, 'kept.csv'), first)
  await flows.call('POST', '/resync/again?force=true')
  await flows.delivered()
  expect(got()).toBe(2)
})
