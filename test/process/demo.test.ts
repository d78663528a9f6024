/** @module-tag night */

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { prepareData } from '../support/pglite-template.ts'
import { compiled, freePort } from './real-process.ts'

/** The demo prints addresses and results. It also runs a second time on the data of the first. */
const main = fileURLToPath(new URL('../../demo/main.ts', import.meta.url))
const withinMs = 600_000

let dataDir: string
let child: ChildProcess | undefined

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'tillbridge-demo-'))
  await prepareData(dataDir)
})
afterEach(async () => {
  child?.kill('SIGKILL')
  await rm(dataDir, { recursive: true, force: true })
})

/** Plays it until it waits for people, and stops it; answers what it said. */
async function play(): Promise<string> {
  const [port, sandboxPort, syncPort] = [await freePort(), await freePort(), await freePort()]
  const own = spawn(process.execPath, [main], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: compiled,
      DATA_DIR: dataDir,
      PORT: String(port),
      SANDBOX_PORT: String(sandboxPort),
      SYNC_PORT: String(syncPort),
    },
  })
  child = own
  let said = ''
  for (const stream of [own.stdout, own.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString()
      // Its last word.
      if (said.includes('"external_reference":"T-1"')) own.kill('SIGINT')
    })
  }
  const code = await new Promise((resolve) => own.once('close', resolve))
  expect(code, said).toBe(0)
  return said
}

test('it prints the token beside the dashboard, and the results of the flows, in the first run and in the second', {
  timeout: withinMs,
}, async () => {
  const first = await play()
  const secrets = parseEnv(await readFile(join(dataDir, 'secrets', 'secrets.env'), 'utf8'))
  const token = secrets.ADMIN_TOKEN
  const second = await play()
  for (const said of [first, second]) {
    const [, dashboard, flows] =
      /^ {2}Dashboard\b(.*?)^ {2}Flows\b(.*?)^ {2}API documentation/ms.exec(said) ?? []
    expect(dashboard).toContain(`admin token       ${token}`)
    expect(flows).toContain('asks for no token')
    expect(flows).not.toContain(token)
    expect(said).not.toMatch(/\b0 articles/)
  }
  expect(first).toMatch(/the web shop got [1-9]\d* articles/)
  expect(second).toContain('nothing has changed for the web shop since the last time')
})
