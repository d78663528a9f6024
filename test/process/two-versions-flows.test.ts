import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { settingsFor } from '../flows/process-support.ts'
import { nameInRun, needsPostgres, postgresUrl } from '../support/database.ts'
import { dropDatabase, onServer, urlOf } from '../support/postgres-template.ts'
import { checkOutVersionBefore } from '../support/version-before.ts'
import { type RealProcess, startService } from './real-process.ts'

const soon = { timeout: 60_000, interval: 50 }
const items = 30

type Sent = { by: string; id: string; round: number }

/** A shop whose items all change when `change` is called, and that records each request and its sender. */
async function startShop() {
  let round = 1
  const sent: Sent[] = []
  const server = createServer((request, response) => {
    if (request.url === '/source') {
      const list = Array.from({ length: items }, (_, place) => ({ id: `i${place}`, round }))
      return void response.setHeader('content-type', 'application/json').end(JSON.stringify(list))
    }
    let text = ''
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    request.on('end', () => {
      const { id, round: of } = JSON.parse(text) as { id: string; round: number }
      sent.push({ by: String(request.headers['x-by']), id, round: of })
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    sent,
    /** Who sent the items as they are now; all of them, one by one. */
    by: () => sent.filter((one) => one.round === round).map(({ by }) => by),
    change: () => {
      round += 1
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  }
}

test.skipIf(!postgresUrl)(
  `processes of the version before and of this one never deliver at the same time, whichever stops (${needsPostgres})`,
  { timeout: 240_000, tags: ['long'] },
  async (context) => {
    const before = await checkOutVersionBefore().catch((error: unknown) =>
      context.skip(`the version before is not in the history at hand: ${String(error)}`),
    )
    const folder = await mkdtemp(join(tmpdir(), 'tillbridge-two-'))
    const server = postgresUrl as string
    const name = nameInRun('two_versions_flows')
    await onServer(server, (client) => client.query(`create database ${name}`))
    const shop = await startShop()
    const flowsDir = join(folder, 'flows')
    await mkdir(flowsDir)
    const reference = (variable: string) => `\${env:${variable}}`
    await writeFile(
      join(flowsDir, 'stock.flow.yaml'),
      JSON.stringify({
        ...{ version: 1, name: 'stock', pollInterval: '1s', allowPrivateNetwork: true },
        source: { type: 'http', url: `${shop.url}/source` },
        item: { key: 'id' },
        destinations: [
          {
            ...{ name: 'web', type: 'http' },
            request: {
              ...{ method: 'PUT', url: `${shop.url}/items/{pk}` },
              headers: { 'x-by': reference('SENDER') },
            },
          },
        ],
      }),
    )
    const shared = {
      FLOWS_DIR: flowsDir,
      DATABASE_URL: urlOf(server, name),
      ADMIN_TOKEN: randomBytes(32).toString('hex'),
      ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    }
    const started: RealProcess[] = []
    const start = async (sender: string, at?: string) => {
      const env = await settingsFor(join(folder, sender), { ...shared, SENDER: sender })
      const running = await startService(env, at)
      started.push(running)
      return running
    }
    /** All items change and arrive once each. Answers who sent them: one process. */
    const arrive = async () => {
      shop.change()
      await expect.poll(() => shop.by().length, soon).toBe(items)
      const [sender, ...others] = new Set(shop.by())
      expect(others).toEqual([])
      return sender
    }
    const stop = async ({ child, ended }: RealProcess) => {
      child.kill('SIGTERM')
      expect(await ended).toBe(0)
    }
    try {
      const first = await start('before', before)
      expect(await arrive()).toBe('before')
      const second = await start('before, too', before)
      await start('after')
      for (let rounds = 0; rounds < 4; rounds += 1) expect(await arrive()).toBe('before')
      await stop(first)
      // The process that took the lease first delivers from then on, and the other one does not.
      const next = await arrive()
      expect(next).not.toBe('before')
      for (let rounds = 0; rounds < 4; rounds += 1) expect(await arrive()).toBe(next)
      await stop(second)
      const stoppedAt = performance.now()
      expect(await arrive()).toBe('after')
      expect(performance.now() - stoppedAt).toBeLessThan(15_000)
      const last = new Map<string, number>()
      for (const { id, round } of shop.sent) {
        expect(round).toBeGreaterThan(last.get(id) ?? 0)
        last.set(id, round)
      }
    } finally {
      for (const { child } of started) if (child.exitCode === null) child.kill('SIGKILL')
      await Promise.all(started.map(({ ended }) => ended))
      await shop.close()
      await dropDatabase(server, name)
      await rm(folder, { recursive: true, force: true })
    }
  },
)
