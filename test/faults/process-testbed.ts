import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { Agent } from 'undici'
import { type Sandbox, startSandbox } from '../../sandbox/server.ts'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { freePort, type RealProcess, startService } from '../process/real-process.ts'
import { adminToken, type TestService } from '../support/service.ts'
import { call, createStore, enrolThroughApi, sandboxCall } from '../support/till.ts'
import { createDraw } from './draw.ts'
import { newTill, type SimulatedTill } from './simulated-till.ts'
import type { Testbed } from './testbed.ts'

/** The first or the second of two addresses. */
export type AddressIndex = 0 | 1

/** Settings of one process, and the folder of its sources if it is another version. */
export type StartOptions = { env?: Record<string, string>; folder?: string }

/** Real processes on PostgreSQL, the sandbox provider, and tills that call them by HTTP. */
export type ProcessTestbed = {
  sandbox: Sandbox
  /** Our own connections to the same database, for the comparison. */
  database: Database
  testbed: Testbed
  /** Starts a process at the first of two addresses, or at the second. */
  start(at?: AddressIndex, starting?: StartOptions): Promise<RealProcess>
  /** From now on tills and webhooks go to these addresses; at first to the first one. */
  sendTo(...places: [AddressIndex, ...AddressIndex[]]): void
  /** A shop with one till, drawn from `seed`; the service must run. */
  openTill(seed: number, index: number): Promise<SimulatedTill>
  close(): Promise<void>
}

export type ProcessTestbedOptions = {
  /** A migrated database. */
  databaseUrl: string
  /** Opens proxies between the process and its database and provider; absent: none. */
  between?: (
    databaseUrl: string,
    sandboxUrl: string,
  ) => Promise<{ databaseUrl: string; providerUrl: string }>
  env?: Record<string, string>
}

export async function openProcessTestbed(options: ProcessTestbedOptions): Promise<ProcessTestbed> {
  const { databaseUrl } = options
  const database = await openDatabase({ databaseUrl })
  const sandbox = await startSandbox({
    port: 0,
    pace: { fetchMs: 0, eventMs: 0 },
    webhookRetryMs: [200],
  })
  const proxies = await options.between?.(databaseUrl, sandbox.url)
  const ports = [await freePort(), await freePort()] as const
  const urls = ports.map((port) => `http://127.0.0.1:${port}`)
  const urlAt = (place: AddressIndex) => urls[place] as string
  const env = {
    SYNC_PORT: '0',
    DATABASE_URL: proxies?.databaseUrl ?? databaseUrl,
    PROVIDER: 'sandbox',
    MP_API_URL: proxies?.providerUrl ?? sandbox.url,
    MP_AUTH_URL: sandbox.url,
    ADMIN_TOKEN: adminToken,
    ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
    SWEEP_INTERVAL_MS: '200',
    POS_CREATE_DELAY_MS: '0',
    LOG_LEVEL: 'warn',
    ...options.env,
  }
  const agent = new Agent({ connections: 64 })
  const service = overHttp(urlAt(0), { database, sandbox })
  const open: string[] = []
  const sendTo = (...places: [AddressIndex, ...AddressIndex[]]) => {
    open.splice(0, open.length, ...places.map(urlAt))
    sandbox.setWebhookUrl(`${urlAt(places[0])}/webhooks`)
  }
  sendTo(0)
  const testbed = {
    services: [service, service],
    urls: open,
    agent,
    clock: { now: () => new Date() },
    database,
    providerOrders: (from = 0) => sandbox.ledger().orders.slice(from),
  } as unknown as Testbed
  return {
    sandbox,
    database,
    testbed,
    start: (at = 0, { env: own, folder } = {}) =>
      startService({ ...env, PORT: String(ports[at]), ...own }, folder),
    sendTo,
    openTill: async (seed, index) =>
      newTill({
        testbed,
        shop: await openShopOverHttp(service, `shop ${index}`, String(7_600_000 + index)),
        draw: createDraw(seed, index),
      }),
    async close() {
      await agent.destroy()
      await sandbox.close()
      await database.close()
    },
  }
}

/** A client with a store, a box and a terminal. */
async function openShopOverHttp(service: TestService, client: string, account: string) {
  const till = await enrolThroughApi(service, client, account)
  const box = 'CAJA-1'
  const created = await createStore(service, till, { id: 'SUC-1', boxes: [box] })
  if (created.statusCode !== 201) throw new Error(`no store: ${created.body}`)
  const { stores } = (await call(service, { url: '/stores', token: till.key })).json()
  const terminal = (await sandboxCall(service, 'POST', '/_sandbox/terminals', {
    pos_id: stores[0].pos[0].mp_pos_id,
    user_id: till.mpUserId,
    operating_mode: 'PDV',
  })) as { id: string }
  return { ...till, terminalId: terminal.id }
}

/** A test service by HTTP, with only what the preparation of a shop uses. */
export function overHttp(url: string, parts: object): TestService {
  const inject = async (options: {
    method: string
    url: string
    headers: Record<string, string>
    payload?: object
  }) => {
    const response = await fetch(url + options.url, {
      method: options.method,
      redirect: 'manual',
      headers: {
        ...options.headers,
        ...(options.payload && { 'content-type': 'application/json' }),
      },
      ...(options.payload && { body: JSON.stringify(options.payload) }),
    })
    const body = await response.text()
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      body,
      json: () => JSON.parse(body),
    }
  }
  return { ...parts, app: { inject } } as unknown as TestService
}

/** Longer than any outcome may take: a lease of a dead process ends after 5 s, its untouched operations after 45 s. */
const quietMs = 60_000

/** Waits until nothing is open, for at most that time. The comparison reports what is still open then. */
export async function untilQuiet(database: Database): Promise<void> {
  const { db } = database
  const until = performance.now() + quietMs
  while (performance.now() < until) {
    const open = await db
      .selectFrom('orders')
      .select('id')
      .where('creation', 'in', ['intent', 'unknown'])
      .unionAll(
        db.selectFrom('order_operations').select('id').where('state', 'in', ['intent', 'unknown']),
      )
      .execute()
    if (open.length === 0) break
    await wait(200)
  }
  // One more round for status checks of confirmed orders.
  await wait(3_000)
}
