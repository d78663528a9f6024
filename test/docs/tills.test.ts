/** @module-tag long */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { copyFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  openRecordedLine,
  type RecordedLine,
  type SentRequest,
} from '../../demo/till-check/line.ts'
import { installClient, typeErrors } from '../process/installed-client.ts'
import { openRealShop, type RealShop } from '../process/real-shop.ts'
import recorded from './till-requests.json' with { type: 'json' }

/** Each till of examples/till that can run here charges once, whatever is lost: counted in the sandbox's books. */
type Runtime = {
  name: string
  command: string[]
  /** Why it cannot run here. */
  missing?: string | undefined
  prepare?: () => Promise<void>
}

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-tills-'))

function runs(program: string, ...words: string[]): boolean {
  return spawnSync(program, words).status === 0
}

const python: Runtime = {
  name: 'Python',
  command: ['python3', 'examples/till/till.py'],
  missing: runs('python3', '--version') ? undefined : 'there is no python3',
}

const typescript: Runtime = {
  name: 'TypeScript',
  command: [process.execPath, join(folder, 'till.ts')],
  prepare: async () => {
    installClient(folder)
    await copyFile('examples/till/till.ts', join(folder, 'till.ts'))
    expect(typeErrors(folder, 'till.ts')).toBe('')
  },
}

const powershell: Runtime = {
  name: 'PowerShell',
  command: ['pwsh', '-NoProfile', '-File', 'examples/till/till.ps1'],
  missing: runs('pwsh', '--version')
    ? undefined
    : 'there is no pwsh, and Debian has no package of it',
}

const references = [
  'System.Net.Http.dll',
  'System.Runtime.Serialization.dll',
  'System.Xml.dll',
  'System.Xml.Linq.dll',
]
const csharp: Runtime = {
  name: 'C#',
  command: ['mono', join(folder, 'till.exe')],
  missing: runs('mcs', '--version') ? undefined : 'there is no mcs (apt-get install mono-mcs)',
  prepare: async () => {
    const out = `-out:${join(folder, 'till.exe')}`
    const words = [...references.map((one) => `-r:${one}`), out, 'examples/till/Till.cs']
    const { status, stdout, stderr } = spawnSync('mcs', words, { encoding: 'utf8' })
    expect(status, stdout + stderr).toBe(0)
  },
}

let shop: RealShop
let line: RecordedLine
let tickets = 0

beforeAll(async () => {
  shop = await openRealShop()
  line = await openRecordedLine(shop.url)
}, 120_000)
afterAll(async () => {
  await line?.close()
  await shop?.stop()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(async () => {
  await shop.endSituations()
  shop.buyerPays(true)
})

/** The situation in force has met the till's request. */
async function hasBegun(): Promise<boolean> {
  const { rules } = (await shop.sandbox('GET', '/faults')) as { rules: { fired: number }[] }
  return rules.some(({ fired }) => fired > 0)
}

function newTicket(): string {
  tickets += 1
  return `0001-${tickets}`
}

describe.each([python, typescript, csharp, powershell])(
  'the till in $name',
  ({ name, command, missing, prepare }) => {
    beforeAll(() => (missing === undefined ? prepare?.() : undefined), 60_000)

    function start(...step: string[]): { child: ChildProcess; ended: Promise<Ended> } {
      const [program = '', ...first] = command
      const child = spawn(program, [...first, ...step], {
        env: {
          PATH: process.env.PATH,
          TILLBRIDGE_URL: line.url,
          TILLBRIDGE_KEY: shop.key,
          TILLBRIDGE_BOX: 'CAJA-1',
          TILL_FILE: join(folder, `${name}.db`),
        },
      })
      let said = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          said += chunk.toString()
        })
      }
      const ended = new Promise<Ended>((resolve) =>
        child.once('close', (code) => resolve({ code, said })),
      )
      return { child, ended }
    }
    type Ended = { code: number | null; said: string }
    const run = (...step: string[]) => start(...step).ended
    const tried = test.skipIf(missing !== undefined)
    const because = missing === undefined ? '' : ` (SKIPPED: ${missing})`

    async function expectOneCharge(ticket: string): Promise<void> {
      const orders = await shop.ordersOf(ticket)
      expect(orders.map(({ paid_amount: paid }) => paid)).toEqual(['1234.50'])
    }

    tried(`it charges, and shows the cashier's sentence${because}`, async () => {
      const ticket = newTicket()
      expect(await run('charge', ticket, '1234,50')).toEqual({
        code: 0,
        said: expect.stringContaining('Cobro aprobado'),
      })
      await expectOneCharge(ticket)
      // The same button again: the ticket is paid, and stays so.
      expect((await run('charge', ticket, '1234,50')).code).toBe(0)
      await expectOneCharge(ticket)
    })

    tried.each([
      'charge_answer_lost',
      'charge_request_lost',
      'charges_without_answer',
      'provider_down',
      'provider_throttles',
    ])(`one charge at the end of the situation %s${because}`, async (situation) => {
      const ticket = newTicket()
      await shop.begin(situation)
      const till = run('charge', ticket, '1234,50')
      await expect.poll(hasBegun).toBe(true)
      await shop.endSituations()
      expect((await till).code, (await till).said).toBe(0)
      await expectOneCharge(ticket)
    })

    tried(`the answer to the till is lost twice: one charge, one key${because}`, async () => {
      const ticket = newTicket()
      line.loseAnswers(2)
      const from = line.sent.length
      expect((await run('charge', ticket, '1234,50')).code).toBe(0)
      await expectOneCharge(ticket)
      const posts = line.sent.slice(from).filter(({ method }) => method === 'POST')
      expect(posts.length).toBe(3)
      expect(new Set(posts.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
      expect(new Set(posts.map(({ body }) => JSON.stringify(body))).size).toBe(1)
    })

    tried(`killed after it sent a charge, and begun again: one charge${because}`, async () => {
      const ticket = newTicket()
      const { child, ended } = start('charge', ticket, '1234,50')
      line.beforeAnswer(() => child.kill('SIGKILL'))
      expect((await ended).code).toBe(null)
      const { code, said } = await run('resume')
      expect(code, said).toBe(0)
      expect(said).toContain('Cobro aprobado')
      await expectOneCharge(ticket)
    })

    tried(`the terminal is busy: it says so, and charges when it is free${because}`, async () => {
      const ticket = newTicket()
      shop.buyerPays(false)
      const other = (await shop.sandbox('POST', '/orders', {
        type: 'point',
        external_reference: 'OTHER-1',
        transactions: { payments: [{ amount: '5.00' }] },
        config: { point: { terminal_id: shop.terminalId } },
      })) as { id: string }
      const busy = await run('charge', ticket, '1234,50')
      expect(busy.code, busy.said).toBe(1)
      expect(busy.said).toMatch(/TERMINAL_BUSY/)
      await shop.sandbox('POST', `/orders/${other.id}/act`, { do: 'pay' })
      shop.buyerPays(true)
      const free = await run('charge', ticket, '1234,50')
      expect(free.code, free.said).toBe(0)
      await expectOneCharge(ticket)
    })

    tried(`it cancels, and charges the ticket again with a new key${because}`, async () => {
      const ticket = newTicket()
      shop.buyerPays(false)
      const till = run('charge', ticket, '1234,50')
      await expect.poll(async () => (await shop.ordersOf(ticket)).length).toBe(1)
      const canceled = await run('cancel', ticket)
      expect(canceled.code, canceled.said).toBe(0)
      expect((await till).code).toBe(1)
      shop.buyerPays(true)
      expect((await run('charge', ticket, '1234,50')).code).toBe(0)
      const orders = await shop.ordersOf(ticket)
      expect(orders.map(({ paid_amount: paid }) => paid)).toEqual([null, '1234.50'])
    })

    tried(
      `it refunds a part, then the rest, though answers are lost; no third${because}`,
      async () => {
        const ticket = newTicket()
        await run('charge', ticket, '1234,50')
        line.loseAnswers(1)
        expect((await run('refund', ticket, '234,50')).said).toContain('charged')
        await shop.begin('refund_answer_lost')
        expect((await run('refund', ticket)).said).toContain('not_charged')
        expect((await run('refund', ticket)).code).toBe(1)
        const [order] = await shop.ordersOf(ticket)
        expect(order?.refunds.map(({ amount }) => amount)).toEqual(['234.50', '1000.00'])
      },
    )

    tried(`its day is sent as recorded, and closed${because}`, { timeout: 150_000 }, async () => {
      const [paid, canceled] = [newTicket(), newTicket()]
      const from = line.sent.length
      await run('charge', paid, '1234,50')
      await run('refund', paid, '234,50')
      await run('refund', paid)
      shop.buyerPays(false)
      const till = run('charge', canceled, '1234,50')
      await expect.poll(async () => (await shop.ordersOf(canceled)).length).toBe(1)
      await run('cancel', canceled)
      await till
      const day = new Date(Date.now() - 3 * 3_600_000).toISOString().slice(0, 10)
      const closed = await run('close_day', day, 'debit_card=1,00')
      expect(closed.code, closed.said).toBe(0)
      expect(closed.said).toMatch(/closing \d: differs/)
      // The tills that cannot run here are compared with the same file.
      const sent = line.sent.slice(from)
      const kinds = new Set(sent.map((one) => JSON.stringify(kindOf(one))))
      expect([...kinds].sort()).toEqual(recorded.map((one) => JSON.stringify(one)).sort())
      const allHave = { 'x-api-token': shop.key, 'accept-language': 'es' }
      for (const { headers } of sent) expect(headers).toMatchObject(allHave)
    })
  },
)

/** A request without what differs from one to the next. */
function kindOf({ method, path, headers, body }: SentRequest) {
  return {
    method,
    path: path.replace(/[0-9a-f-]{36}/, '{id}').replace(/version=\d+/, 'version={n}'),
    body: Object.keys(body ?? {}).sort(),
    keyed: headers['idempotency-key'] !== undefined,
  }
}
