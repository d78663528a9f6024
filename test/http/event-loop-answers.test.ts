/** @module-tag long */

import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { jsonFlow, startTestFlows, type TestFlows } from '../support/flows.ts'
import { insertOrders } from '../support/insert-orders.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'
import { openOwnShop } from '../support/money.ts'
import { adminToken, startTestService, type TestService } from '../support/service.ts'
import { charge, type Till } from '../support/till.ts'

/**
 * The longest answers of both listeners, each alone. Everything counts that the thread does for
 * them: with the embedded database its queries too.
 */
let service: TestService
let flows: TestFlows
let shop: Till

const flowCount = 200
/** A busy machine takes several times the seconds that these need. */
const patient = { timeout: 120_000 }
const long = (length: number) => 'ñ"\\'.repeat(length / 3)

beforeAll(async () => {
  service = await startTestService()
  shop = await openOwnShop(service, 'acme')
  await charge(service, shop, { reference: 'FIRST' })
  const files = Array.from({ length: flowCount }, (_, index) => [
    `f${index}.flow.yaml`,
    { ...jsonFlow(`f${index}`, 'http://127.0.0.1:9'), description: long(300) },
  ])
  flows = await startTestFlows({ service, files: Object.fromEntries(files) })
  await flows.call('POST', '/flows/pause')
  await fill()
}, 120_000)
afterAll(async () => {
  await flows.stop()
  await service.stop()
})

/** As much as each list shows at a time, of rows as long as they come. */
async function fill(): Promise<void> {
  const { db } = service.database
  await insertOrders(
    db,
    sql`select (jsonb_populate_record(first, jsonb_build_object('id', gen_random_uuid(), 'mp_order_id', 'ORD' || n,
      'mp_external_reference', 'R' || n, 'external_reference', 'R' || n, 'description', ${long(150)}::text))).*
    from orders as first, generate_series(1, 2000) n where client = 'acme'`,
  )
  await sql`
    insert into webhook_log (id, signature_valid, status, error_message, payload, received_at)
    select gen_random_uuid(), true, 'processed', ${long(600)}::text,
      jsonb_build_object('text', ${long(16_000)}::text), now()
    from generate_series(1, 400) n`.execute(db)
  await sql`
    insert into flow_errors (id, flow, adapter, pk, error, status, attempts, at)
    select gen_random_uuid(), 'f0', 'shop', n || ${long(1_020)}::text, ${long(1_000)}::text, 500, 3, now()
    from generate_series(1, 2000) n`.execute(db)
  await sql`
    insert into flow_activity (at, flow, action, actor, detail)
    select now(), 'f0', 'pause', ${long(200)}::text, ${long(600)}::text from generate_series(1, 1000) n`.execute(
    db,
  )
  await sql`
    insert into item_versions (flow, pk, seen_at, kind, hash, payload)
    select 'f0', 'A', now(), 'upsert', 'h' || n,
      (select jsonb_object_agg('field' || f, n || ${'ñ'.repeat(8)}::text) from generate_series(1, 1800) f)
    from generate_series(1, 20) n`.execute(db)
  await sql`
    insert into deliveries (flow, destination, pk, version, kind, hash, payload, state, attempts, last_error, queued_at,
      finished_at)
    select 'f0', 'shop', 'P' || n, 1, 'upsert', 'h', '{}', case when n % 2 = 0 then 'failed' else 'waiting' end, 3,
      n % 300 || ${long(600)}::text, now(), now()
    from generate_series(1, 4000) n`.execute(db)
  await Promise.all(Array.from({ length: 200 }, () => payment('/admin/clients/acme')))
}

const payment = (url: string) => service.app.inject({ url, headers: { 'x-api-token': adminToken } })
const asShop = (url: string) => service.app.inject({ url, headers: { 'x-api-token': shop.key } })
const control = (url: string) => flows.call('GET', url)

test.each<[string, (url: string) => ReturnType<typeof control>, number]>([
  ['/orders?limit=200', asShop, 100_000],
  ['/admin/orders?limit=200', payment, 100_000],
  ['/admin/webhooks/logs?limit=200', payment, 3_000_000],
  ['/admin/activity?limit=200', payment, 30_000],
  ['/admin/activity/verify', payment, 100],
  ['/admin/clients', payment, 100],
  ['/statistics?from=2026-01-01T00:00:00Z&to=2026-01-31T00:00:00Z', asShop, 100],
  ['/openapi.json', payment, 100_000],
  ['/errors?limit=1000', control, 2_000_000],
  ['/flows', control, 100_000],
  ['/flows/status', control, 10_000],
  ['/flows/activity?limit=500', control, 100_000],
  ['/metrics', control, 10_000],
  ['/stats', control, 10],
  ['/flow/f0/failures', control, 1_000],
  ['/flow/f0/waiting', control, 10_000],
  ['/flow/f0/items/A', control, 10_000],
  ['/openapi.json', control, 50_000],
])('the answer of %s does not block the event loop', patient, async (url, ask, atLeast) => {
  const { ms, said } = await longestTurn(async () => {
    const { statusCode, rawPayload } = await ask(url)
    return `${statusCode} ${rawPayload.length >= atLeast ? 'long' : rawPayload.length}`
  })
  expect(said).toBe('200 long')
  expect(ms).toBeLessThan(promisedMs)
})

test('a reload of all flow files does not block the event loop', patient, async () => {
  const { ms, said } = await longestTurn(async () => {
    await flows.flows.reload('test')
    return 'done'
  })
  expect(said).toBe('done')
  expect(ms).toBeLessThan(promisedMs)
})
