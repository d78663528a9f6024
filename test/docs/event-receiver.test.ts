/** @module-tag long */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { endpointsPath, makeEndpoint, writeEvent } from '../support/endpoints.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call } from '../support/till.ts'

/** The receiver that docs/how-to/let-the-erp-know.md offers gets events of the service, and refuses those of others. */
vi.setConfig({ testTimeout: 60_000 })

const script = fileURLToPath(new URL('../../docs/examples/event_receiver.py', import.meta.url))
const hasPython = spawnSync('python3', ['--version']).status === 0
const folder = mkdtempSync(join(tmpdir(), 'tillbridge-receiver-'))
const file = join(folder, 'events.db')

let service: TestService
let receiver: ChildProcess | undefined
beforeAll(async () => {
  service = await startTestService({ env: { EVENTS_PRIVATE_NETWORK: 'true' } })
})
afterAll(async () => {
  receiver?.kill('SIGKILL')
  await service.stop()
  rmSync(folder, { recursive: true })
})

/** A port that is free now. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

function storedTypes(): string[] {
  const db = new DatabaseSync(file)
  try {
    const rows = db.prepare('select type from events order by rowid').all()
    return rows.map(({ type }) => String(type))
  } finally {
    db.close()
  }
}

const post = (url: string, headers: Record<string, string>) =>
  fetch(url, {
    method: 'POST',
    headers,
    body: '{"type":"order.paid","id":"evt_1","order_id":null}',
  })

test.skipIf(!hasPython)(
  'the receiver in Python stores an event once, answers a ping, and refuses messages without its signature; needs python3',
  async () => {
    const till = await openOwnShop(service, 'receiver')
    const port = await freePort()
    const url = `http://127.0.0.1:${port}/`
    const { id, secret } = await makeEndpoint(service, till, url)
    const act = async (what: string, body: object = {}) =>
      (await call(service, { url: `${endpointsPath}/${id}/${what}`, token: till.key, body })).json()
    receiver = spawn('python3', [script, file, String(port)], {
      env: { ...process.env, ENDPOINT_SECRET: secret },
      stdio: 'ignore',
    })
    await expect.poll(() => act('ping'), { timeout: 20_000 }).toMatchObject({ status: 204 })

    const from = service.clock.now().toISOString()
    await writeEvent(service, 'receiver', 'o1')
    await writeEvent(service, 'receiver', 'o1', { type: 'order.refunded' })
    await service.endpoints.sendDue()
    expect((await act('replay', { from })).events).toBe(2)
    await service.endpoints.sendDue()
    expect(storedTypes()).toEqual(['order.paid', 'order.refunded'])

    // The secret of before signs too while it is exchanged.
    await act('rotate')
    await writeEvent(service, 'receiver', 'o2')
    await service.endpoints.sendDue()
    expect(storedTypes()).toHaveLength(3)

    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(Math.floor(Date.now() / 1_000)),
      'webhook-signature': 'v1,AAAA',
    }
    expect((await post(url, headers)).status).toBe(401)
    expect((await post(url, { ...headers, 'webhook-timestamp': '1' })).status).toBe(401)
    expect((await post(url, {})).status).toBe(401)
    expect(storedTypes()).toHaveLength(3)
  },
)
