/** @module-tag long */

import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { commandsBelow } from '../support/document-blocks.ts'
import { dropDatabase, urlOf } from '../support/postgres-template.ts'
import { freePort } from './real-process.ts'

/** The trial of docs/how-to/install.md, as an administrator runs it: on PostgreSQL, with the sandbox. */
const server = postgresUrl ?? ''

const root = fileURLToPath(new URL('../..', import.meta.url))
const [trial = ''] = commandsBelow(root, 'docs/how-to/install.md', '## A trial on PostgreSQL')

test.skipIf(!postgresUrl)(
  `the commands of the page start a service with the sandbox on a new database (${needsPostgres})`,
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tillbridge-trial-'))
    const name = nameInRun('trial')
    const url = urlOf(server, name)
    const commands = trial
      .replace('npm ci\n', '')
      .replace('createdb', `createdb --maintenance-db=${server}`)
      .replaceAll('postgres:///tillbridge_trial', url)
      .replaceAll('tillbridge_trial', name)
      .replace('./data/trial', folder)
      .replace('npm start', 'exec node src/app/start.js')
    const port = await freePort()
    const child = spawn('bash', ['-ec', commands], {
      env: {
        PATH: `${join(process.execPath, '..')}:${process.env.PATH}`,
        ...{ PORT: String(port), SANDBOX_PORT: '0', SYNC_PORT: '0' },
      },
    })
    const ended = new Promise((resolve) => child.once('close', resolve))
    onTestFinished(async () => {
      child.kill('SIGKILL')
      await ended
      await dropDatabase(server, name)
      await rm(folder, { recursive: true, force: true })
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        said += chunk.toString()
      })
    const statusOf = async () =>
      (await fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined))?.status
    await expect.poll(statusOf, { timeout: 50_000, interval: 200 }).toBe(200)
    // It answers a moment before it says so.
    await expect.poll(() => said).toContain('sandbox')
  },
)
