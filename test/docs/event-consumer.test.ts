/** @module-tag long */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { sell } from '../closings/shop-day.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, type Till } from '../support/till.ts'

/** The consumer that docs/how-to/let-the-erp-know.md offers is killed between storing events and committing them. */
vi.setConfig({ testTimeout: 60_000 })

const script = fileURLToPath(new URL('../../docs/examples/event_consumer.py', import.meta.url))
const hasPython = spawnSync('python3', ['--version']).status === 0

let service: TestService
let till: Till
let proxy: Server
const folder = mkdtempSync(join(tmpdir(), 'tillbridge-consumer-'))
const file = join(folder, 'events.db')
let consumer: ChildProcess | undefined
/** Called with each commit, before it is passed on; true: it is never answered. */
let onCommit: () => boolean = () => false

/** Passes requests of the consumer on to the service. */
function startProxy(): Server {
  return createServer((request, response) => {
    void (async () => {
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const isCommit = request.url?.startsWith('/events/feed/consumers/erp') ?? false
      if (isCommit && onCommit()) return
      const answer = await service.app.inject({
        method: request.method as 'GET',
        url: request.url ?? '',
        headers: request.headers as Record<string, string>,
        payload: Buffer.concat(parts),
      })
      response.writeHead(answer.statusCode, { 'content-type': 'application/json' })
      response.end(answer.body)
    })()
  })
}

beforeAll(async () => {
  service = await startTestService()
  till = await openOwnShop(service, 'acme')
  proxy = startProxy()
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
})
afterAll(async () => {
  consumer?.kill('SIGKILL')
  proxy.closeAllConnections()
  proxy.close()
  await service.stop()
  rmSync(folder, { recursive: true })
})

function start(): ChildProcess {
  const { port } = proxy.address() as AddressInfo
  consumer = spawn('python3', [script, file], {
    env: { ...process.env, TILLBRIDGE_URL: `http://127.0.0.1:${port}`, TILLBRIDGE_KEY: till.key },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  return consumer
}

function stored(): { id: string; type: string }[] {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return db.prepare('select id, type from events order by rowid').all() as never
  } finally {
    db.close()
  }
}

async function untilCommit(isLost: boolean): Promise<void> {
  const arrived = Promise.withResolvers<void>()
  onCommit = () => {
    arrived.resolve()
    return isLost
  }
  await arrived.promise
}

test.skipIf(!hasPython)(
  'a consumer that is killed after it stored events and before its commit loses none and stores none twice',
  async () => {
    await sell(service, till, 'A-1')
    const first = start()
    await untilCommit(true)
    first.kill('SIGKILL')
    await once(first, 'exit')
    const before = stored()
    expect(before.map(({ type }) => type)).toEqual(['order.created', 'order.paid'])

    await sell(service, till, 'A-2')
    start()
    await untilCommit(false)
    const { events } = (await call(service, { url: '/events/feed', token: till.key })).json()
    expect(stored().map(({ id }) => id)).toEqual(events.map(({ id }: { id: string }) => id))
    expect(stored()).toHaveLength(4)
  },
)
