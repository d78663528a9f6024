import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadConfig } from '../../src/app/config.ts'
import { createFlowSide, type FlowSide } from '../../src/app/flow-side.ts'
import { createLogger } from '../../src/http/logging.ts'
import { jsonFlow } from '../support/flows.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { testSettings } from '../support/test-settings.ts'

let service: TestService
let folder: string
let side: FlowSide

beforeAll(async () => {
  service = await startTestService()
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-loading-'))
  await mkdir(join(folder, 'flows'))
  await writeFile(
    join(folder, 'flows/articles.flow.yaml'),
    JSON.stringify(jsonFlow('articles', 'http://127.0.0.1:9')),
  )
  await writeFile(join(folder, 'articles.json'), '[]')
  side = await sideOf(service)
})
afterAll(async () => {
  await side.app.close()
  await side.close()
  await service.stop()
  await rm(folder, { recursive: true })
})

async function sideOf({
  database,
  deps,
  clock,
  notifications,
}: Pick<TestService, 'database' | 'deps' | 'clock' | 'notifications'>) {
  const made = await createFlowSide({
    config: loadConfig({ ...testSettings, FLOWS_DIR: join(folder, 'flows') }),
    publicUrl: 'http://127.0.0.1:8080',
    database,
    payments: deps,
    notifications,
    logger: createLogger('silent'),
    env: { DIR: folder },
    now: clock.now,
  })
  await made.app.ready()
  return made
}

const ask = (flowSide: FlowSide, method: 'GET' | 'POST' | 'DELETE', url: string) =>
  flowSide.app.inject({ method, url, headers: { host: '127.0.0.1:8080' } })

const needFlows = [
  ['GET', '/flows'],
  ['GET', '/flows/status'],
  ['GET', '/metrics'],
  ['GET', '/flow/articles/failures'],
  ['GET', '/flow/articles/waiting'],
  ['GET', '/flow/articles/runs'],
  ['GET', '/flow/articles/skipped'],
  ['GET', '/flows/items/A-1'],
  ['GET', '/flows/failures'],
  ['GET', '/flows/delayed'],
  ['GET', '/flow/articles/items/A-1'],
  ['POST', '/sync/articles'],
  ['POST', '/sync/articles/A-1'],
  ['POST', '/resync/articles'],
  ['POST', '/resync/articles/A-1'],
  ['DELETE', '/reset/articles'],
  ['DELETE', '/reset/articles/A-1'],
  ['POST', '/flow/articles/pause'],
  ['POST', '/flow/articles/resume'],
  ['POST', '/flow/articles/limit/3'],
  ['DELETE', '/flow/articles/limit'],
  ['POST', '/flow/articles/test-alerts'],
  ['POST', '/flow/articles/retry'],
  ['POST', '/flows/pause'],
  ['POST', '/flows/resume'],
  // A name without a file cannot be distinguished from one that is not loaded yet.
  ['POST', '/flow/nobody/resume'],
] as const

test('while flows load, requests that need them are 503 with Retry-After; afterwards they succeed', {
  tags: ['long'],
}, async () => {
  for (const [method, url] of needFlows) {
    const answer = await ask(side, method, url)
    expect([answer.statusCode, answer.headers['retry-after'], answer.json()], url).toEqual([
      503,
      '1',
      { error: 'The flows are being loaded; try again' },
    ])
  }
  for (const url of ['/health', '/stats', '/errors', '/flows/activity', '/openapi.json']) {
    expect((await ask(side, 'GET', url)).statusCode, url).toBe(200)
  }
  const asked = ask(side, 'POST', '/flow/articles/resume')
  const starting = side.start()
  expect((await asked).statusCode).toBe(503)
  await starting
  expect((await ask(side, 'POST', '/flow/articles/resume')).json()).toEqual({
    name: 'articles',
    status: 'running',
  })
  expect((await ask(side, 'POST', '/flow/nobody/resume')).statusCode).toBe(404)
})

test('requests for flows that could not be loaded are 503 too, and the text refers to the log', async () => {
  const full: typeof service.database = {
    ...service.database,
    transaction: async () => {
      throw new Error('the disk is full')
    },
    withConnectionLimit: () => full,
  }
  const failing = await sideOf({ ...service, database: full })
  await expect(failing.start()).rejects.toThrow('the disk is full')
  const answer = await ask(failing, 'POST', '/flow/articles/resume')
  expect([answer.statusCode, answer.json()]).toEqual([
    503,
    { error: 'The flows could not be loaded; the log says why' },
  ])
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  await failing.app.close()
  await failing.close()
})
