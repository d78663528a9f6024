import { execFileSync } from 'node:child_process'
import { link, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { secretVariables } from '../../src/app/config-schema.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'

/** A secret that no answer and no log line may contain. */
const canary = 'c4nary'
const secretFile = `ADMIN_TOKEN=${canary}-of-the-file`

let flows: TestFlows
let target: TestTarget
let data: string

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'flow-secrets-'))
  await mkdir(join(data, 'secrets'))
  await writeFile(join(data, 'secrets/secrets.env'), secretFile)
  await symlink(join(data, 'secrets'), join(data, 'other-name'))
  await link(join(data, 'secrets/secrets.env'), join(data, 'hard-link'))
  execFileSync('mkfifo', [join(data, 'pipe')])
  target = await startTarget()
  flows = await startTestFlows({
    env: {
      DATA_DIR: data,
      ADMIN_TOKEN: `${canary}-${'a'.repeat(32)}`,
      PGPASSWORD: `${canary}-of-the-database`,
      BRACES: `${canary}{word}and{pk}`,
      TOKEN: `${canary}/of+the"shop`,
    },
  })
})
afterAll(async () => {
  await flows.stop()
  await target.close()
  await rm(data, { recursive: true })
})

/** Loads one flow with a header of this value; returns its problems as GET /flows lists them. */
async function problemsOf(flow: Record<string, unknown>): Promise<string[]> {
  await flows.write('one.flow.yaml', flow)
  const answer = await flows.call('POST', '/flows/reload')
  expect(answer.statusCode).toBe(200)
  const listed = (await flows.call('GET', '/flows')).body
  expect(listed).not.toContain(canary)
  return (JSON.parse(listed).problems as { key: string; message: string }[]).map(
    ({ key, message }) => `${key}: ${message}`,
  )
}

function withHeader(value: string, name = 'x-token') {
  const flow = jsonFlow('one', target.url) as { destinations: { request: object }[] }
  const request = {
    method: 'PUT',
    url: `${target.url}/one/{pk}`,
    headers: { [name]: value, 'x-key': '{pk}' },
  }
  return { ...flow, destinations: flow.destinations.map((one) => ({ ...one, request })) }
}

const key = 'destinations[0].request.headers.x-token'

test.each([
  ['a pipe', 'pipe', 'is not a regular file'],
  ['a folder', 'secrets', 'is not a regular file'],
  ["the service's own secrets", 'secrets/secrets.env', 'holds secrets of the service itself'],
  [
    'the same by a link of the folder',
    'other-name/secrets.env',
    'holds secrets of the service itself',
  ],
  ['the same by another name', 'hard-link', 'holds secrets of the service itself'],
  ['a device that never ends', '/dev/zero', 'is not a regular file'],
  ['the environment of the process', '/proc/self/environ', 'is empty'],
])('%s is no secret of a flow, and the reason names key and path', async (_, name, why) => {
  const path = name.startsWith('/') ? name : join(data, name)
  expect(await problemsOf(withHeader(`\${file:${path}}`))).toEqual([
    `${key}: the file ${path} ${why}`,
  ])
})

test.each([...secretVariables, 'PGPASSWORD', 'admin_token'])(
  "the service's own %s is refused to a flow, set or not",
  async (name) => {
    expect(await problemsOf(withHeader(`Bearer \${env:${name}}`))).toEqual([
      `${key}: the environment variable ${name} is the service's own, which no flow may read`,
    ])
  },
)

test.each([
  ['read', 'secrets/secrets.env'],
  ['read', 'other-name/*.env'],
  ['read', 'secrets/SECRETS.*'],
  ['write', 'secrets/secrets.env'],
  ['write', 'other-name/secrets.env'],
])('a flow may not %s %s', async (what, name) => {
  const path = join(data, name)
  const flow = jsonFlow('one', target.url)
  const file =
    what === 'read'
      ? { source: { type: 'file', path, format: 'csv', csv: { delimiter: ';' } } }
      : { destinations: [{ name: 'out', type: 'file', path }] }
  expect(await problemsOf({ ...flow, ...file })).toEqual([
    `${what === 'read' ? 'source.path' : 'destinations[0].path'}: is a file of the service itself, which no flow may read or write`,
  ])
})

test('a word in braces in a secret is sent unchanged and quoted nowhere', async () => {
  await flows.write('one.json', [{ id: 'A1' }])
  expect(await problemsOf({ ...withHeader(`\${env:BRACES}`), startPaused: false })).toEqual([])
  await flows.call('POST', '/sync/one?force=true')
  await flows.delivered()
  const sent = target.received.at(-1)
  expect(sent?.headers['x-token']).toBe(`${canary}{word}and{pk}`)
  expect(sent?.headers['x-key']).toBe('A1')
  expect(flows.logLines.join('')).not.toContain(canary)
})

test('a word in braces that an address has from a reference is refused without a quotation', async () => {
  const flow = withHeader('x', 'x-item') as { destinations: { request: { url: string } }[] }
  for (const { request } of flow.destinations) request.url = `${target.url}/{pk}?k=\${env:BRACES}`
  expect(await problemsOf(flow)).toEqual([
    'destinations[0].request.url: a reference brings a word in braces, which is not a placeholder here',
  ])
})
