/** @module-tag long */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { sell } from '../closings/shop-day.ts'
import { openOwnShop } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, type Till } from '../support/till.ts'
import recorded from './consumer-requests.json' with { type: 'json' }

/** The consumers that docs/how-to/let-the-erp-know.md offers are killed between storing events and committing them. */
vi.setConfig({ testTimeout: 60_000 })

type StoredEvent = { id: string; type: string; at?: string; resource?: { version: number } }
type Consumer = {
  name: string
  command: string[]
  /** Why it cannot run here. */
  missing?: string | undefined
  prepare?: () => void
  /** The events that it has stored at a place, in the order of the feed. */
  stored(place: string): StoredEvent[]
}

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-consumer-'))
const runs = (program: string) => spawnSync(program, ['--version']).status === 0

const python: Consumer = {
  name: 'Python',
  command: ['python3', 'docs/examples/event_consumer.py'],
  missing: runs('python3') ? undefined : 'there is no python3',
  stored(place) {
    const db = new DatabaseSync(place, { readOnly: true })
    try {
      return db.prepare('select id, type from events order by rowid').all() as never
    } finally {
      db.close()
    }
  },
}

/** Those that store a file for each event. */
function storedFiles(place: string): StoredEvent[] {
  const files = readdirSync(place).filter((file) => file.endsWith('.json'))
  const events = files.map((file) => JSON.parse(readFileSync(join(place, file), 'utf8')))
  for (const [index, { id }] of events.entries()) expect(files[index]).toBe(`${id}.json`)
  const placeOf = (event: StoredEvent) => `${event.at} ${event.resource?.version}`
  return events.toSorted((a, b) => placeOf(a).localeCompare(placeOf(b)))
}

const program = join(folder, 'consumer.exe')
const csharp: Consumer = {
  name: 'C#',
  command: ['mono', program],
  missing: runs('mcs') ? undefined : 'there is no mcs (apt-get install mono-mcs)',
  prepare() {
    const names = ['Net.Http', 'Runtime.Serialization', 'Xml', 'Xml.Linq']
    const references = names.map((name) => `-r:System.${name}.dll`)
    const words = [...references, `-out:${program}`, 'docs/examples/EventConsumer.cs']
    const { status, stdout, stderr } = spawnSync('mcs', words, { encoding: 'utf8' })
    expect(status, stdout + stderr).toBe(0)
  },
  stored: storedFiles,
}

const powershell: Consumer = {
  name: 'PowerShell',
  command: ['pwsh', '-NoProfile', '-File', 'docs/examples/event_consumer.ps1'],
  missing: runs('pwsh') ? undefined : 'there is no pwsh, and Debian has no package of it',
  stored: storedFiles,
}

let service: TestService
let proxy: Server
let consumer: ChildProcess | undefined
/** The requests of the consumer, without what differs from one to the next. */
let sent: { method: string | undefined; path: string; body: string[] }[] = []
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
      const body = Buffer.concat(parts)
      sent.push({
        method: request.method,
        path: (request.url ?? '').replace(/reader=[^&]+/, 'reader={name}'),
        body: body.length === 0 ? [] : Object.keys(JSON.parse(body.toString('utf8'))).sort(),
      })
      const answer = await service.app.inject({
        method: request.method as 'GET',
        url: request.url ?? '',
        headers: request.headers as Record<string, string>,
        payload: body,
      })
      response.writeHead(answer.statusCode, { 'content-type': 'application/json' })
      response.end(answer.body)
    })()
  })
}

beforeAll(async () => {
  service = await startTestService()
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

async function untilCommit(isLost: boolean): Promise<void> {
  const arrived = Promise.withResolvers<void>()
  onCommit = () => {
    arrived.resolve()
    return isLost
  }
  await arrived.promise
}

describe.each([python, csharp, powershell])(
  'the consumer in $name',
  ({ name, command, missing, prepare, stored }) => {
    const because = missing === undefined ? '' : ` (SKIPPED: ${missing})`
    const place = join(folder, name)

    function start(till: Till): ChildProcess {
      const [program = '', ...words] = command
      const { port } = proxy.address() as AddressInfo
      consumer = spawn(program, [...words, place], {
        env: {
          ...process.env,
          TILLBRIDGE_URL: `http://127.0.0.1:${port}`,
          TILLBRIDGE_KEY: till.key,
        },
        stdio: ['ignore', 'inherit', 'inherit'],
      })
      return consumer
    }

    test.skipIf(missing !== undefined)(
      `that is killed after it stored events and before its commit loses none and stores none twice${because}`,
      async () => {
        prepare?.()
        sent = []
        const till = await openOwnShop(service, name)
        await sell(service, till, 'A-1')
        const first = start(till)
        await untilCommit(true)
        first.kill('SIGKILL')
        await once(first, 'exit')
        const types = stored(place).map(({ type }) => type)
        expect(types).toEqual(['order.created', 'order.paid'])

        await sell(service, till, 'A-2')
        const second = start(till)
        await untilCommit(false)
        const { events } = (await call(service, { url: '/events/feed', token: till.key })).json()
        expect(events).toHaveLength(4)
        expect(events).toMatchObject(stored(place))
        second.kill('SIGKILL')
        await once(second, 'exit')
        // The consumers that cannot run here are compared with the same file.
        const kinds = new Set(sent.map((one) => JSON.stringify(one)))
        expect([...kinds].sort()).toEqual(recorded.map((one) => JSON.stringify(one)).sort())
      },
    )
  },
)
