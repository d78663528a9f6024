import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LedgerOrder, SandboxLedger } from '../../sandbox/ledger.ts'
import { prepareData } from '../support/pglite-template.ts'
import { location } from '../support/till.ts'
import { adminTokenOf, freePort, type RealProcess, startService } from './real-process.ts'

/** The real service with its sandbox, and a shop in it with one box and one terminal. */
export type RealShop = {
  url: string
  sandboxUrl: string
  key: string
  terminalId: string
  /** Begins a situation of docs/how-to/test-a-till.md. */
  begin(situation: string): Promise<void>
  /** Ends all of them. */
  endSituations(): Promise<void>
  /** The orders of a ticket at the provider, and what was paid for them. The second order of a ticket ends in `-2`. */
  ordersOf(ticket: string): Promise<LedgerOrder[]>
  sandbox(method: string, path: string, body?: object): Promise<unknown>
  /** From now on a buyer pays each charge on the terminal; false: no charge is paid. */
  buyerPays(pays: boolean): void
  stop(): Promise<void>
}

async function json(
  url: string,
  { method = '', key = '', body }: { method?: string; key?: string; body?: object | undefined },
): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    method: method || (body === undefined ? 'GET' : 'POST'),
    headers: { 'x-api-token': key, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`)
  return text === '' ? {} : JSON.parse(text)
}

/** Connects `acme` by OAuth as its owner would; answers its key. */
async function connect(url: string, admin: string): Promise<string> {
  const login = await fetch(`${url}/oauth/login?client=acme`, { redirect: 'manual' })
  const consent = await fetch(String(login.headers.get('location')), {
    redirect: 'manual',
    headers: { 'x-sandbox-consent': 'approve' },
  })
  await (await fetch(String(consent.headers.get('location')))).text()
  const { key } = await json(`${url}/api-keys`, { key: admin, body: { client: 'acme' } })
  return String(key)
}

/** Connects `acme` at a running service, and opens a store with these boxes, each with a terminal. */
export async function openShopAt(
  { url, sandboxUrl, admin }: { url: string; sandboxUrl: string; admin: string },
  boxes: readonly string[],
): Promise<{ key: string; terminalIds: string[] }> {
  const key = await connect(url, admin)
  const pos = boxes.map((id) => ({ name: `Caja ${id}`, external_id: id }))
  const body = { name: 'Centro', external_id: 'SUC-1', location, pos }
  await json(`${url}/stores`, { key, body })
  const { stores } = (await json(`${url}/stores`, { key })) as {
    stores: { pos: { external_id: string; mp_pos_id: string }[] }[]
  }
  const terminalIds: string[] = []
  for (const { external_id: box, mp_pos_id: posId } of stores[0]?.pos ?? []) {
    const terminal = await json(`${sandboxUrl}/_sandbox/terminals`, { body: { pos_id: posId } })
    const mode = { caja_id: box, operating_mode: 'PDV' }
    await json(`${url}/terminals/operating-mode`, { method: 'PATCH', key, body: mode })
    terminalIds.push(String(terminal.id))
  }
  return { key, terminalIds }
}

/** A buyer pays after the terminal has shown the order. */
const buyerTakesMs = 700

/** Pays every order that waits on its terminal, until it is stopped. */
function startBuyer(sandboxUrl: string) {
  const buyer = { pays: true }
  const seenAt = new Map<string, number>()
  const timer = setInterval(() => {
    if (buyer.pays) payAll(sandboxUrl, seenAt).catch(() => undefined)
  }, 100)
  return { buyer, stop: () => clearInterval(timer) }
}

async function payAll(sandboxUrl: string, seenAt: Map<string, number>): Promise<void> {
  const { orders } = (await json(`${sandboxUrl}/_sandbox/ledger?effects=0`, {})) as SandboxLedger
  const now = performance.now()
  for (const { id, status } of orders) {
    if (!['created', 'at_terminal'].includes(status)) continue
    const since = seenAt.get(id) ?? now
    seenAt.set(id, since)
    if (now - since < buyerTakesMs) continue
    const body = { do: 'pay', payment_method_type: 'debit_card', payment_method_id: 'debvisa' }
    await json(`${sandboxUrl}/_sandbox/orders/${id}/act`, { body })
  }
}

/** Starts it. The provider's answers are waited for half a second, so that a lost one costs little. */
export async function openRealShop(): Promise<RealShop> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-till-'))
  await prepareData(folder)
  const sandboxPort = String(await freePort())
  const sandboxUrl = `http://127.0.0.1:${sandboxPort}`
  const running: RealProcess = await startService({
    DATA_DIR: folder,
    PORT: String(await freePort()),
    SANDBOX_PORT: sandboxPort,
    SYNC_PORT: '0',
    POS_CREATE_DELAY_MS: '0',
    SWEEP_INTERVAL_MS: '200',
    PROVIDER_TIMEOUT_MS: '500',
    SEARCH_LAG_MS: '0',
  })
  const { url } = running
  let stopped = false
  running.ended
    .then((how) => {
      // Else every test of the file only says that the service does not answer.
      if (!stopped) process.stderr.write(`the service ended: ${how}\n${running.stderr()}`)
    })
    .catch(() => undefined)
  const admin = await adminTokenOf(folder)
  const { key, terminalIds } = await openShopAt({ url, sandboxUrl, admin }, ['CAJA-1'])
  const { buyer, stop } = startBuyer(sandboxUrl)
  const sandbox = (method: string, path: string, body?: object) =>
    json(`${sandboxUrl}/_sandbox${path}`, { method, body })
  return {
    url,
    sandboxUrl,
    key,
    terminalId: String(terminalIds[0]),
    sandbox,
    begin: async (situation) => {
      await sandbox('POST', `/situations/${situation}`)
    },
    endSituations: async () => {
      await sandbox('DELETE', '/faults')
    },
    ordersOf: async (ticket) => {
      const { orders } = (await sandbox('GET', '/ledger?effects=0')) as SandboxLedger
      return orders.filter(
        ({ external_reference: own }) => own.replace(/(?<=-.*)-\d+$/, '') === ticket,
      )
    },
    buyerPays: (pays) => {
      buyer.pays = pays
    },
    stop: async () => {
      stop()
      stopped = true
      running.child.kill('SIGKILL')
      await running.ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
