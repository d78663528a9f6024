import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { asClientName } from '../../src/domain/client-name.ts'
import { unreadableStatus } from '../../src/domain/provider-payment.ts'
import { type LeaseToken, releaseLease, takeLease } from '../../src/repositories/leases.ts'
import { lastRemoval, rememberBackup, rememberRemoval } from '../../src/repositories/settings.ts'
import { typeCharge } from '../closings/shop-day.ts'
import { hasServerPrograms, openCluster } from '../faults/postgres-cluster.ts'
import { openTestDatabase } from '../support/database.ts'
import { makeEndpoint, writeEvent } from '../support/endpoints.ts'
import {
  jsonFlow,
  startTarget,
  startTestFlows,
  type TestFlows,
  type TestTarget,
} from '../support/flows.ts'
import { figureOf, type Sample, samplesOf } from '../support/metrics.ts'
import {
  cancel,
  clearFaults,
  creation,
  deliver,
  openOwnShop,
  orderRow,
  refund,
  refunding,
  setFaults,
} from '../support/money.ts'
import { evaluate, metricsIn, type Scrapes } from '../support/promql.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, asAdmin, call, charge, payByCard, readOrder, type Till } from '../support/till.ts'

/** What operators are given for Prometheus and Grafana fits the figures that there are: seen by making each rule true. */
const opsFile = (name: string) => fileURLToPath(new URL(`../../ops/${name}`, import.meta.url))
const rulesFile = opsFile('prometheus/alerts.yml')
const { groups } = parse(readFileSync(rulesFile, 'utf8')) as {
  groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[]
}
const rules = groups.flatMap((group) => group.rules)
const dashboard = JSON.parse(readFileSync(opsFile('grafana/tillbridge.json'), 'utf8')) as {
  panels: { title: string; targets?: { expr: string }[] }[]
}

let service: TestService
let target: TestTarget
let flows: TestFlows
let folder: string
/** A scrape where nothing but a backup and a removal was made yet. */
let untouched: Scrapes
/** What was scraped of a service that has charged without trouble. */
let used: Scrapes
const usedSamples: Sample[] = []
const run = promisify(execFile)
/** Whether there is a program; its tests are skipped without it. */
const has = (program: string, word: string) =>
  run(program, [word]).then(
    () => true,
    () => false,
  )
const hasPromtool = await has('promtool', '--version')
const hasOpenssl = await has('openssl', 'version')
/** What the machine lacks for the faults of these rules. */
const lacks: Record<string, string> = {
  ...(!hasServerPrograms() && {
    TillbridgeServerConnections: 'the programs of a PostgreSQL server',
  }),
  ...(!hasOpenssl && { TillbridgeCertificateEnds: 'openssl' }),
}
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tillbridge-ops-'))
  service = await startTestService({ hangsAreShort: true, env: { DATA_DIR: folder } })
  await rememberBackup(service.database.db, service.clock.now())
  await rememberRemoval(service.database.db, service.clock.now())
  target = await startTarget()
  flows = await startTestFlows({
    service,
    // No poller runs by itself: it would poll due flows before the scrape counts them.
    longestSleepMs: 600_000,
    files: {
      'sound.flow.yaml': jsonFlow('sound', target.url),
      'broken.flow.yaml': jsonFlow('broken', target.url),
    },
  })
  // Before the tests make their troubles.
  untouched = await watch(async () => undefined)
  await useService()
  used = await watch(async () => undefined)
})
afterAll(async () => {
  await flows.stop()
  await target.close()
  await service.stop()
  await rm(folder, { recursive: true })
})

async function scrape(of = service): Promise<Sample[]> {
  const payments = await asAdmin(of, { url: '/metrics' })
  const control = await flows.call('GET', '/metrics', { headers: { accept: 'text/plain' } })
  expect([payments.statusCode, control.statusCode]).toEqual([200, 200])
  return [...samplesOf(payments.body), ...samplesOf(control.body)]
}

async function watch(trouble: () => Promise<unknown>, of = service): Promise<Scrapes> {
  const before = await scrape()
  await trouble()
  return { before, after: await scrape(of), seconds: 60, at: service.clock.now() }
}

let shops = 0
async function openShop(): Promise<Till> {
  shops += 1
  return openOwnShop(service, `Tienda ${shops}`)
}
async function order(till: Till, reference: string): Promise<string> {
  const answer = await charge(service, till, { reference })
  return answer.json().order_id
}
async function end(till: Till, orderId: string, deed: Record<string, unknown>): Promise<void> {
  await act(service, orderId, deed)
  await readOrder(service, till, orderId)
}
const later = (ms: number) => new Date(service.clock.now().getTime() + ms)

/** How each rule comes true on the real service; a rule without an entry fails the test. */
const troubles: Record<string, () => Promise<Scrapes>> = {
  // Prometheus says so itself.
  async TillbridgeDown() {
    const labels = { job: 'tillbridge', listener: 'payments' }
    const silent = [{ name: 'up', labels, value: 0 }]
    return { before: silent, after: silent, seconds: 60, at: later(0) }
  },
  async TillbridgeDatabaseDown() {
    const database = await openTestDatabase()
    const alone = await startTestService({ database })
    await database.close()
    const scrapes = await watch(async () => undefined, alone)
    await alone.stop().catch(() => undefined)
    return scrapes
  },
  TillbridgeProviderFailing: () =>
    watch(async () => {
      const till = await openShop()
      await setFaults(service, { ...creation, kind: 'status', status: 503 })
      await order(till, 'failing')
      await clearFaults(service)
    }),
  TillbridgeProviderRefusesCharges: () =>
    watch(async () => {
      const till = await openShop()
      await setFaults(service, { ...creation, kind: 'status', status: 400 })
      await order(till, 'refused')
      await clearFaults(service)
    }),
  TillbridgeChargesNotPaid: () =>
    watch(async () => {
      const till = await openShop()
      await end(till, await order(till, 'expires'), { do: 'expire' })
    }),
  TillbridgeBoxesDown: () =>
    watch(async () => {
      const till = await openShop()
      const row = { kind: 'box', scope: till.client, name: 'CAJA-1', state: 'down' } as const
      await service.database.db
        .insertInto('fleet_states')
        .values({ ...row, cause: 'terminal_silent', since: later(0), about: '{}' })
        .execute()
    }),
  TillbridgeTerminalsSlow: () =>
    watch(async () => {
      const till = await openShop()
      const id = await order(till, 'slow')
      service.clock.advance(45_000)
      await end(till, id, { do: 'fetch' })
    }),
  TillbridgeChargeInDoubt: () =>
    watch(async () => {
      const till = await openShop()
      await setFaults(service, { ...creation, kind: 'drop_before' })
      await order(till, 'doubtful')
      await clearFaults(service)
      service.clock.advance(400_000)
    }),
  TillbridgeRefundInDoubt: () =>
    watch(async () => {
      const till = await openShop()
      const id = await order(till, 'paid and refunded')
      await end(till, id, payByCard)
      await setFaults(service, { ...refunding, kind: 'drop_before' })
      await refund(service, till, id)
      await clearFaults(service)
      service.clock.advance(700_000)
    }),
  TillbridgeSweeperLate: () =>
    watch(async () => {
      const till = await openShop()
      await order(till, 'without status checks')
      service.clock.advance(600_000)
    }),
  TillbridgeWebhooksWait: () =>
    watch(async () => {
      await receiveWebhook({ next_attempt_at: later(0), processed_at: null })
      service.clock.advance(400_000)
    }),
  TillbridgeWebhooksMissing: () =>
    watch(async () => {
      await receiveWebhook({ next_attempt_at: null, processed_at: later(0) })
      service.clock.advance(3_600_000)
      const till = await openShop()
      await end(till, await order(till, 'paid without a webhook'), payByCard)
    }),
  TillbridgeWebhooksRefused: () =>
    watch(async () => {
      for (let tries = 0; tries < 6; tries += 1) {
        const url = '/webhooks?data.id=ORD1&type=order'
        const headers = { 'x-signature': 'ts=1,v1=00', 'x-request-id': 'r' }
        await call(service, { url, method: 'POST', body: {}, headers })
      }
    }),
  TillbridgeOrphans: () =>
    watch(async () => {
      const till = await openShop()
      await typeCharge(service, till, { at: later(-120_000).toISOString() })
      await service.paymentWatch.watchOnce()
    }),
  TillbridgePaymentsUnreadable: () =>
    watch(async () => {
      const till = await openShop()
      const paymentId = await typeCharge(service, till, { at: later(-120_000).toISOString() })
      await service.paymentWatch.watchOnce()
      await service.database.db
        .updateTable('provider_payments')
        .set({ status: unreadableStatus, status_detail: 'status' })
        .where('client', '=', asClientName(till.client))
        .where('payment_id', '=', paymentId)
        .execute()
    }),
  TillbridgeConnectionLost: () =>
    watch(async () => {
      const till = await openShop()
      await setConnection(till, { status: 'lost', lost_reason: 'invalid_grant' })
    }),
  TillbridgeConnectionEnds: () =>
    watch(async () => setConnection(await openShop(), { expires_at: later(3_600_000) })),
  TillbridgePaidAfterClose: () =>
    watch(async () => {
      const till = await openShop()
      const id = await order(till, 'paid late')
      await cancel(service, till, id)
      await act(service, id, { ...payByCard, force: true })
      await deliver(service, { dataId: String((await orderRow(service, id)).mp_order_id) })
    }),
  TillbridgeErrors: () =>
    watch(async () => {
      // A store as no release could have written it.
      const till = await openShop()
      await service.database.db
        .updateTable('stores')
        .set({ location: '"nowhere"' })
        .where('client', '=', till.client as never)
        .execute()
      await call(service, { url: '/stores', token: till.key })
    }),
  TillbridgeAuditUnsealed: () =>
    watch(async () => {
      const { db } = service.database
      const rows = Array.from({ length: 1_100 }, () => ({ entry_id: crypto.randomUUID() }))
      await db.insertInto('activity_unsealed').values(rows).execute()
    }),
  async TillbridgePoolExhausted() {
    const before = await scrape()
    const { promise: mayEnd, resolve: release } = Promise.withResolvers<void>()
    const busy = Array.from({ length: service.database.connections().most }, () =>
      service.database.transaction(() => mayEnd),
    )
    const waiting = service.database.ping()
    // The pool is looked at before the scrape asks for a connection itself.
    const answer = asAdmin(service, { url: '/metrics' })
    setTimeout(release, 50)
    const after = samplesOf((await answer).body)
    await Promise.all([...busy, waiting])
    return { before, after, seconds: 60, at: service.clock.now() }
  },
  async TillbridgeServerConnections() {
    const cluster = await openCluster('max_connections=20')
    const database = await openDatabase({ databaseUrl: cluster.url })
    await migrate(database)
    const alone = await startTestService({ database })
    const others: { close(): Promise<void> }[] = []
    const scrapes = await watch(async () => {
      while (others.length < 15) {
        others.push(await openDatabase({ databaseUrl: cluster.url }))
      }
    }, alone)
    await Promise.all(others.map((other) => other.close()))
    await alone.stop()
    await database.close()
    await cluster.remove()
    return scrapes
  },
  async TillbridgeDatabaseLarge() {
    const scrapes = await watch(async () => {
      await sql`
        insert into settings (name, value, updated_at)
        select 'filler ' || n, (select string_agg(md5(random()::text), '') from generate_series(1, 100) where n > 0), now()
        from generate_series(1, 1000) as n`.execute(service.database.db)
    })
    const bytes = (samples: Sample[]) => figureOf(samples, 'tillbridge_database_bytes') ?? 0
    expect(bytes(scrapes.after) - bytes(scrapes.before)).toBeGreaterThan(1_000_000)
    // A test cannot store 50 GB: a little data must raise the gauge, and the rule gets a raised value.
    return { ...scrapes, after: grown(scrapes.after, 'tillbridge_database_bytes', 5_000) }
  },
  async TillbridgeDiskFills() {
    const scrapes = await watch(async () => undefined)
    const { bavail, bsize, blocks } = await statfs(folder)
    expect(figureOf(scrapes.after, 'tillbridge_disk_bytes')).toBe(blocks * bsize)
    // The machine writes at the same time.
    const free = figureOf(scrapes.after, 'tillbridge_disk_free_bytes') ?? 0
    expect(Math.abs(free / (bavail * bsize) - 1)).toBeLessThan(0.1)
    return { ...scrapes, after: grown(scrapes.after, 'tillbridge_disk_free_bytes', 0.05) }
  },
  async TillbridgeCertificateEnds() {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const words = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3'
    await run('openssl', [
      ...words.split(' '),
      '-subj',
      '/CN=localhost',
      '-keyout',
      key,
      '-out',
      cert,
    ])
    const proxy = createServer({ key: await readFile(key), cert: await readFile(cert) })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const { port } = proxy.address() as AddressInfo
    const publicUrl = `https://localhost:${port}`
    const alone = await startTestService({ database: service.database, publicUrl })
    const scrapes = await watch(async () => undefined, alone)
    await alone.stop()
    await new Promise((resolve) => proxy.close(resolve))
    const endsAt = figureOf(scrapes.after, 'tillbridge_certificate_ends_timestamp_seconds') ?? 0
    expect(Math.abs(endsAt - Date.now() / 1000 - 3 * 86_400)).toBeLessThan(3_600)
    return scrapes
  },
  TillbridgeBackupOld: () => watch(async () => service.clock.advance(3 * 86_400_000)),
  TillbridgeRemovalFails: () =>
    watch(() =>
      service.database.db
        .updateTable('settings')
        .set({ updated_at: new Date(service.clock.now().getTime() - 2 * 86_400_000) })
        .where('name', '=', lastRemoval)
        .execute(),
    ),
  TillbridgeNotificationsWait: () =>
    watch(() =>
      service.database.db
        .insertInto('alert_messages')
        .values({
          channel: 'mail',
          id: crypto.randomUUID(),
          message: '{}',
          created_at: later(-1_000_000),
        })
        .execute(),
    ),
  TillbridgeEndpointStopped: () =>
    watch(async () => {
      const till = await openShop()
      const { id } = await makeEndpoint(service, till, 'https://erp.example/events')
      await service.database.db
        .updateTable('event_endpoints')
        .set({ stopped_at: later(0), stop_reason: 'gone' })
        .where('id', '=', id)
        .execute()
    }),
  TillbridgeEventsWait: () =>
    watch(async () => {
      const till = await openShop()
      await makeEndpoint(service, till, 'https://erp.example/events')
      await writeEvent(service, till.client, 'o1')
      await call(service, { url: '/events/feed', token: till.key })
      service.clock.advance(2 * 3_600_000)
    }),
  TillbridgeEventLoopLate: () =>
    watch(async () => {
      await new Promise((resolve) => setTimeout(resolve, 30))
      for (const until = performance.now() + 600; performance.now() < until; );
      await new Promise((resolve) => setTimeout(resolve, 30))
    }),
  TillbridgeDeliveriesLate: () =>
    watch(async () => {
      await owe('waiting', later(0))
      service.clock.advance(2 * 3_600_000)
    }),
  TillbridgeDestinationFails: () =>
    watch(() =>
      service.database.db
        .insertInto('destination_states')
        .values({
          flow: 'sound',
          destination: 'web',
          state: 'open',
          cause: 'HTTP 500',
          since: later(0),
          next_attempt_at: later(3_600_000),
        })
        .execute(),
    ),
  TillbridgeDeliveriesFailed: () => watch(() => owe('failed', later(0))),
  TillbridgePollsFail: () =>
    watch(async () => {
      for (let polls = 0; polls < 3; polls += 1) {
        await flows.call('POST', '/sync/broken?force=true')
      }
    }),
  async TillbridgeNotPolled() {
    const { db } = service.database
    const held: LeaseToken[] = []
    const scrapes = await watch(async () => {
      await flows.write('sound.json', '[]')
      await flows.call('POST', '/sync/sound?force=true')
      await db.deleteFrom('flow_pause').execute()
      // Else the flow would be polled before the scrape.
      const lease = await takeLease(service.database, {
        ...{ name: 'flow:sound', owner: 'a process that hangs' },
        now: later(3 * 3_600_000),
      })
      if (lease) held.push(lease)
      service.clock.advance(3 * 3_600_000)
    })
    for (const lease of held) await releaseLease(db, lease)
    return scrapes
  },
}

/** The alerts that fire; the machine of the tests may itself be slow, or full. */
function loudest(scrapes: Scrapes): string[] {
  const loud = rules.filter(({ expr }) => (evaluate(expr, scrapes) as unknown[]).length > 0)
  return loud.map(({ alert }) => alert).filter((name) => !/EventLoop|DiskFills/.test(name))
}

/** These figures with one of them multiplied. */
function grown(samples: Sample[], name: string, times: number): Sample[] {
  return samples.map((one) => (one.name === name ? { ...one, value: one.value * times } : one))
}

async function receiveWebhook(fields: { next_attempt_at: Date | null; processed_at: Date | null }) {
  const id = crypto.randomUUID()
  const row = { id, signature_valid: true, status: 'received' as const }
  await service.database.db
    .insertInto('webhook_log')
    .values({ ...row, received_at: later(0), ...fields })
    .execute()
}

async function setConnection({ client }: Till, fields: object): Promise<void> {
  await service.database.db
    .updateTable('oauth_connections')
    .set(fields)
    .where('client', '=', client as never)
    .execute()
}

async function owe(state: 'waiting' | 'failed', at: Date): Promise<void> {
  await service.database.db
    .insertInto('deliveries')
    .values({
      flow: 'sound',
      destination: 'web',
      pk: state,
      version: 1,
      kind: 'upsert',
      hash: 'h',
      payload: null,
      state,
      queued_at: at,
      finished_at: state === 'failed' ? at : null,
    })
    .execute()
}

async function useService(): Promise<void> {
  await receiveWebhook({ next_attempt_at: null, processed_at: later(0) })
  const till = await openShop()
  const id = await order(till, 'for every series')
  await end(till, id, { do: 'fetch' })
  await end(till, id, payByCard)
  await call(service, { url: '/orders/none' })
  if (hasOpenssl)
    await troubles.TillbridgeCertificateEnds?.().then(({ after }) => usedSamples.push(...after))
  await flows.call('GET', '/flow/unknown/limit')
  usedSamples.push(...(await scrape()))
}

test('a service without traffic raises no alert', () => {
  expect(loudest(untouched)).toEqual([])
})

test('every metric that a rule or a panel names is in a scrape', () => {
  const known = new Set(usedSamples.map(({ name }) => name))
  const panels = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  const named = [...rules.map(({ expr }) => expr), ...panels].flatMap(metricsIn)
  expect(named.length).toBeGreaterThan(60)
  expect(named.filter((name) => !known.has(name))).toEqual([])
})

test('each rule is understood, and does not fire without a fault', () => {
  for (const { targets = [] } of dashboard.panels) {
    for (const { expr } of targets) evaluate(expr, used)
  }
  expect(loudest(used)).toEqual([])
})

test.for(rules)(
  '$alert fires',
  { tags: ['long'] },
  async ({ alert, expr, annotations }, context) => {
    if (lacks[alert]) context.skip(`needs ${lacks[alert]}`)
    const trouble = troubles[alert]
    if (!trouble) throw new Error(`say in troubles how ${alert} comes true`)
    expect(evaluate(expr, await trouble())).not.toEqual([])
    expect(Object.keys(annotations)).toEqual(['summary', 'action'])
  },
)

test('the documentation names no rule that does not exist', () => {
  expect(Object.keys(troubles).sort()).toEqual(rules.map(({ alert }) => alert).sort())
})

describe.skipIf(!hasPromtool)("Prometheus' own tool (package prometheus of Debian)", () => {
  // It takes 5 s of a processor.
  test('accepts the rules; each fires only after its fault has lasted', {
    tags: ['long'],
  }, async () => {
    const { stdout } = await run('promtool', ['check', 'rules', rulesFile])
    expect(stdout).toContain(`${rules.length} rules found`)
    const played = opsFile('prometheus/alerts.test.yml')
    const { tests } = parse(await readFile(played, 'utf8')) as { tests: { name: string }[] }
    expect(tests.map(({ name }) => name)).toEqual(rules.map(({ alert }) => alert))
    await run('promtool', ['test', 'rules', played])
  })

  test('accepts the scrape', async () => {
    const jobs = parse(await readFile(opsFile('prometheus/scrape.yml'), 'utf8'))
    const config = join(folder, 'prometheus.yml')
    await writeFile(config, stringify({ scrape_configs: jobs }))
    await run('promtool', ['check', 'config', '--syntax-only', config])
  })
})
