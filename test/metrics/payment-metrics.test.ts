import { afterAll, beforeAll, expect, test } from 'vitest'
import { openHttpReceiver } from '../notifications/receivers.ts'
import { openTestDatabase } from '../support/database.ts'
import { endpointsPath, makeEndpoint, writeEvent } from '../support/endpoints.ts'
import { figureOf, samplesOf } from '../support/metrics.ts'
import { clearFaults, creation, openOwnShop, setFaults } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { countStatements } from '../support/statements.ts'
import { act, asAdmin, call, charge, payByCard, readOrder } from '../support/till.ts'

const metricsToken = 'metrics-token-for-tests-0123456789ab'

let service: TestService
beforeAll(async () => {
  // What is prepared before anybody counts is not known when it comes again.
  await countStatements(async () => undefined)
  const env = { METRICS_TOKEN: metricsToken, EVENTS_PRIVATE_NETWORK: 'true' }
  service = await startTestService({ env, hangsAreShort: true })
})
afterAll(() => service.stop())

async function scrape(of = service) {
  const answer = await call(of, { url: '/metrics', token: metricsToken })
  expect(answer.statusCode, answer.body).toBe(200)
  expect(answer.headers['content-type']).toMatch(/^text\/plain/)
  return samplesOf(answer.body)
}

/** How much a figure has grown by `work`. */
async function grown(
  name: string,
  labels: Record<string, string>,
  work: () => Promise<unknown>,
): Promise<number> {
  const before = figureOf(await scrape(), name, labels) ?? 0
  await work()
  return (figureOf(await scrape(), name, labels) ?? 0) - before
}

test('requests are counted by route and status, refusals by their code', {
  tags: ['long'],
}, async () => {
  const requests = 'tillbridge_http_requests_total'
  const route = { method: 'GET', route: '/orders/:orderId' }
  expect(
    await grown(requests, { ...route, status: '401' }, () => call(service, { url: '/orders/1' })),
  ).toBe(1)
  expect(
    await grown('tillbridge_http_errors_total', { ...route, code: 'UNAUTHORIZED' }, () =>
      call(service, { url: '/orders/2' }),
    ),
  ).toBe(1)
  // Paths are anybody's choice: they make no series of their own.
  expect(
    await grown(requests, { method: 'GET', route: 'none', status: '404' }, async () => {
      await call(service, { url: '/wp-login.php' })
      await call(service, { url: '/.env' })
    }),
  ).toBe(2)
  const routes = new Set((await scrape()).map(({ labels }) => labels.route))
  expect([...routes].filter((one) => one?.includes('wp-login'))).toEqual([])
})

test('a charge is counted by its outcome, with its time to the terminal and to its end', async () => {
  const till = await openOwnShop(service, 'Contado')
  const before = await scrape()
  const orderId = (await charge(service, till, { reference: 'C-1' })).json().order_id
  expect(figureOf(await scrape(), 'tillbridge_orders_open', { status: 'created' })).toBe(
    (figureOf(before, 'tillbridge_orders_open', { status: 'created' }) ?? 0) + 1,
  )
  service.clock.advance(3_000)
  await act(service, orderId, { do: 'fetch' })
  await readOrder(service, till, orderId)
  service.clock.advance(8_000)
  await act(service, orderId, payByCard)
  await readOrder(service, till, orderId)
  const after = await scrape()
  const delta = (name: string, labels = {}) =>
    (figureOf(after, name, labels) ?? 0) - (figureOf(before, name, labels) ?? 0)
  expect(delta('tillbridge_charges_total', { outcome: 'paid', box_state: 'ok' })).toBe(1)
  expect(delta('tillbridge_charge_to_terminal_seconds_count')).toBe(1)
  expect(delta('tillbridge_charge_to_terminal_seconds_sum')).toBeGreaterThanOrEqual(3)
  expect(delta('tillbridge_charge_at_terminal_seconds_sum')).toBeGreaterThanOrEqual(8)
  expect(delta('tillbridge_charge_seconds_sum', { outcome: 'paid' })).toBeGreaterThanOrEqual(11)
  expect(
    delta('tillbridge_provider_calls_total', { operation: 'order.create', result: 'ok' }),
  ).toBe(1)
})

test('a call without an answer of the provider is counted, and its order is unknown with its age', async () => {
  const till = await openOwnShop(service, 'Dudoso')
  const failed = await grown(
    'tillbridge_provider_calls_total',
    { operation: 'order.create', result: 'failed' },
    async () => {
      await setFaults(service, { ...creation, kind: 'status', status: 503 })
      const answer = await charge(service, till, { reference: 'D-1' })
      expect(answer.statusCode, answer.body).toBe(504)
      await clearFaults(service)
    },
  )
  expect(failed).toBeGreaterThanOrEqual(1)
  service.clock.advance(90_000)
  const samples = await scrape()
  expect(figureOf(samples, 'tillbridge_orders_unknown')).toBeGreaterThanOrEqual(1)
  expect(figureOf(samples, 'tillbridge_orders_unknown_oldest_seconds')).toBeGreaterThanOrEqual(90)
  // No sweeper runs here: due orders wait.
  expect(figureOf(samples, 'tillbridge_sweeper_lag_seconds')).toBeGreaterThan(0)
})

test('endpoints of events are counted by state and attempts by result; what waits has an age', {
  tags: ['long'],
}, async () => {
  const hook = await openHttpReceiver()
  const till = await openOwnShop(service, 'Eventos')
  const { id } = await makeEndpoint(service, till, `${hook.url}/erp`, { types: ['order.paid'] })
  const attempts = (result: string) => ['tillbridge_event_attempts_total', { result }] as const
  const endpoints = async () => {
    const samples = await scrape()
    const states = ['active', 'failing', 'stopped', 'stopped_by_person']
    return states.map((state) => figureOf(samples, 'tillbridge_event_endpoints', { state }))
  }
  expect(await endpoints()).toEqual([1, 0, 0, 0])
  expect(figureOf(await scrape(), 'tillbridge_events_waiting_oldest_seconds')).toBe(0)

  hook.answer = (response) => response.writeHead(503).end()
  await writeEvent(service, 'Eventos', 'o1')
  expect(await grown(...attempts('failed'), () => service.endpoints.sendDue())).toBe(1)
  service.clock.advance(6_000)
  await service.endpoints.sendDue()
  service.clock.advance(331_000)
  await service.endpoints.sendDue()
  await writeEvent(service, 'Eventos', 'o1')
  // A reader gives it its place.
  await call(service, { url: '/events/feed', token: till.key })
  expect(await endpoints()).toEqual([0, 1, 0, 0])
  const waiting = await scrape()
  expect(figureOf(waiting, 'tillbridge_events_waiting')).toBe(2)
  expect(figureOf(waiting, 'tillbridge_events_waiting_oldest_seconds')).toBeGreaterThan(330)

  hook.answer = (response) => response.writeHead(410).end()
  service.clock.advance(3_600_000)
  expect(await grown(...attempts('refused'), () => service.endpoints.sendDue())).toBe(1)
  expect(await endpoints()).toEqual([0, 0, 1, 0])
  expect(figureOf(await scrape(), 'tillbridge_events_waiting')).toBe(0)
  for (const what of ['resume', 'stop']) {
    await call(service, { url: `${endpointsPath}/${id}/${what}`, token: till.key, body: {} })
  }
  expect(await endpoints()).toEqual([0, 0, 0, 1])
  await hook.close()
})

test('no series names an order, a key, a client or a path', async () => {
  const labels = (await scrape()).flatMap((sample) => Object.entries(sample.labels))
  const names = new Set(labels.map(([name]) => name))
  for (const forbidden of ['client', 'order', 'order_id', 'path', 'url', 'key']) {
    expect(names).not.toContain(forbidden)
  }
  const long = labels.filter(([, value]) => /[0-9a-f]{8}-[0-9a-f]{4}|mk_|ORD/.test(value))
  expect(long).toEqual([])
})

test('a scrape takes two statements, also for several scrapes at the same time', {
  tags: ['long'],
}, async () => {
  await scrape()
  expect(await countStatements(() => scrape())).toHaveLength(2)
  const together = await countStatements(() => Promise.all([scrape(), scrape(), scrape()]))
  expect(together.length).toBeLessThanOrEqual(4)
})

test('the administrator reads them too, a wrong token counts as a failed try', async () => {
  expect((await asAdmin(service, { url: '/metrics' })).statusCode).toBe(200)
  const strict = await startTestService({
    twinOf: service,
    env: { METRICS_TOKEN: metricsToken, AUTH_FAILURES_PER_MINUTE: '3' },
  })
  try {
    const guess = (token: string) => call(strict, { url: '/metrics', token })
    for (const tail of ['x', 'y', 'z']) {
      expect((await guess(`${metricsToken}${tail}`)).statusCode).toBe(401)
    }
    expect((await guess(metricsToken.slice(1))).statusCode).toBe(429)
    expect((await guess(metricsToken)).statusCode).toBe(200)
  } finally {
    await strict.stop()
  }
})

test('without METRICS_TOKEN the administrator alone reads them', async () => {
  const plain = await startTestService({ twinOf: service })
  try {
    expect((await call(plain, { url: '/metrics', token: metricsToken })).statusCode).toBe(401)
    expect((await asAdmin(plain, { url: '/metrics' })).statusCode).toBe(200)
  } finally {
    await plain.stop()
  }
})

test('a database that answers and takes no write counts as down, as in /health', {
  tags: ['long'],
}, async () => {
  const database = await openTestDatabase()
  let takesWrites = true
  const standby = { ...database, takesWrites: async () => takesWrites }
  const alone = await startTestService({ database: standby, env: { METRICS_TOKEN: metricsToken } })
  expect(figureOf(await scrape(alone), 'tillbridge_database_up')).toBe(1)
  takesWrites = false
  const samples = await scrape(alone)
  expect(figureOf(samples, 'tillbridge_database_up')).toBe(0)
  // What can be read is shown all the same.
  expect(figureOf(samples, 'tillbridge_sweeper_lag_seconds')).toBeDefined()
  await alone.stop()
  await database.close()
})

test('a scrape is answered while the database is down, with that state', {
  tags: ['long'],
}, async () => {
  const database = await openTestDatabase()
  const alone = await startTestService({ database, env: { METRICS_TOKEN: metricsToken } })
  expect(figureOf(await scrape(alone), 'tillbridge_database_up')).toBe(1)
  await database.close()
  const samples = await scrape(alone)
  expect(figureOf(samples, 'tillbridge_database_up')).toBe(0)
  expect(figureOf(samples, 'process_resident_memory_bytes')).toBeGreaterThan(0)
  await alone.stop().catch(() => undefined)
})
