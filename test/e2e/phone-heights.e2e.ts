import { join } from 'node:path'
import { sql } from 'kysely'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillFailures } from '../../bench/page-data.ts'
import { chainFlowFiles } from '../../demo/chain/chain-flows.ts'
import { chain as plan, problemBoxes } from '../../demo/chain/chain-plan.ts'
import { type SeededChain, startSeededChain } from '../support/seeded-chain.ts'
import { adminToken } from '../support/service.ts'
import { call } from '../support/till.ts'
import { openPage, seriousBarriers, sidewaysOverflow, signIn } from './browser.ts'

/**
 * Every view of both pages of a chain, before anybody pages or unfolds: on a phone none is higher than three screens, nor to be
 * scrolled sideways, nor does it keep anybody out.
 */

const phone = { width: 390, height: 844 }
const failingFlow = 'stock-3'
const heldFlow = 'bajas'

let chain: SeededChain
let admin: string

beforeAll(async () => {
  chain = await startSeededChain({ closings: true, flows: true })
  const { flows, service } = chain
  if (!flows) throw new Error('the chain has its flows')
  admin = `${await flows.app.listen({ host: '127.0.0.1', port: 0 })}/admin`
  const people = Array.from({ length: 30 }, (_none, at) => ({
    ...{ name: `Persona ${at + 1}`, role: 'supervisor' },
    ...{ client: plan.client, stores: ['SUC-1', 'SUC-2'] },
  }))
  for (const body of people) {
    const made = await call(service, { method: 'POST', url: '/people', token: adminToken, body })
    expect(made.statusCode).toBe(201)
  }
  // More failures, deletes that are held back, and runs than a page shows.
  const path = join(flows.dir, `${heldFlow}.json`)
  const definition = JSON.parse(
    chainFlowFiles('http://127.0.0.1:9', flows.dir)['precios-1.flow.yaml'] ?? '',
  )
  const [destination] = definition.destinations
  await flows.write(`${heldFlow}.flow.yaml`, {
    ...{ ...definition, name: heldFlow, source: { ...definition.source, path } },
    deletes: { mode: 'delete', guard: { maxPercent: 10, minItems: 1 } },
    destinations: [{ ...destination, delete: { url: 'http://127.0.0.1:9/{pk}' } }],
  })
  await flows.write(
    `${heldFlow}.json`,
    Array.from({ length: 40 }, (_none, at) => ({ id: `B-${at + 1}` })),
  )
  const reloaded = await flows.call('POST', '/flows/reload')
  expect(reloaded.json().problems).toEqual([])
  await flows.call('POST', `/sync/${heldFlow}?force=true`)
  await flows.write(`${heldFlow}.json`, [])
  for (const flow of [failingFlow, heldFlow]) {
    await flows.call('POST', `/sync/${flow}?force=true`)
    await sql`
      insert into flow_polls (flow, kind, started_at, duration_ms, rows_read, changes)
      select ${flow}, 'full', now() - at * interval '1 minute', 20, 40, 3
      from generate_series(1, 30) as at`.execute(service.database.db)
  }
  await fillFailures(service.database, [failingFlow, 'precios-7'], 60)
}, 300_000)
afterAll(async () => {
  await chain?.stop()
})

type View = readonly [address: string, shown: string]

const heightOf = (page: Page) => page.evaluate<number>('document.documentElement.scrollHeight')

/** Goes to each view and answers those that are too high, with their height. */
async function tooHigh(page: Page, base: string, views: readonly View[]) {
  const high: [string, number][] = []
  for (const [view, shown] of views) {
    await page.goto(`${base}#/${view}`)
    await page.locator(shown).first().waitFor()
    await expect
      .poll(() => page.locator('.loading, [aria-busy="true"]').count(), { timeout: 20_000 })
      .toBe(0)
    // Names and pictures that come a moment later may still change it.
    const until = performance.now() + 3_000
    let height = await heightOf(page)
    while (height > 3 * phone.height && performance.now() < until) height = await heightOf(page)
    if (height > 3 * phone.height) high.push([view, height])
    expect([view, await sidewaysOverflow(page)]).toEqual([view, 0])
    expect([view, await seriousBarriers(page)]).toEqual([view, []])
  }
  return high
}

/** More endpoints, consumers and attempts than a page shows. */
async function fillEndpoints() {
  const { service, key } = chain
  const post = async (url: string, body: object) => {
    const answer = await call(service, { url, token: key.key, body })
    expect(answer.statusCode, answer.body).toBeLessThan(300)
    return answer.json()
  }
  const url = 'https://endpoint-of-a-chain.invalid/a/long/path/of/the/receiver'
  const made = []
  for (let times = 0; times < 5; times += 1) {
    made.push(await post('/events/endpoints', { url, types: ['order.paid', 'order.refunded'] }))
    await post('/events/feed/consumers', { name: `erp-${times}`, from: 'now' })
  }
  const [endpoint] = made
  for (let times = 0; times < 12; times += 1) {
    await post(`/events/endpoints/${endpoint.id}/ping`, {})
  }
  return endpoint
}

test('on a phone no view of the payments is higher than three screens', async () => {
  const of = `client=${encodeURIComponent(plan.client)}`
  const list = async (path: string) =>
    (await call(chain.service, { url: path, token: chain.key.key })).json()
  const [{ order_id: order }] = (await list('/orders?q=R-1&limit=1')).orders
  const [{ id: closing }] = (await list('/closings?limit=1')).closings
  const endpoint = await fillEndpoints()
  const opened = await openPage(`${chain.url}/dashboard`, {
    viewport: phone,
    locale: 'es-AR',
  })
  try {
    await signIn(opened.page, adminToken)
    const high = await tooHigh(opened.page, `${chain.url}/dashboard`, [
      ['overview', '.store-row'],
      ['overview?period=yesterday', '.store-row'],
      ['overview?period=week', '.store-row'],
      ['overview?period=month', '.store-row'],
      ['overview/trend?period=week&by=day', '.trend'],
      ['overview/trend?period=month&by=week', '.trend'],
      ['overview/trend?period=week&by=store', '.trend'],
      ['overview/trend?period=week&by=method', '.trend'],
      ['orders', 'tbody tr'],
      [`orders?${of}&from=2020-01-01`, 'tbody tr'],
      [`orders/${order}?of=${encodeURIComponent(plan.client)}`, '.timeline'],
      ['stores', '.store'],
      [`stores/${problemBoxes.standalone}`, '.ability'],
      ['stores/CAJA-1', '.ability'],
      ['closings', '.store-closings'],
      [`closings/${closing}`, '.sheet, .facts'],
      ['closings/orphans', '.orphan'],
      ['closings/chargebacks', 'main h1'],
      ['closings/net', 'main h1'],
      ['clients', '.c-keys'],
      [`events?${of}`, '.orphan'],
      [`events/${endpoint.id}?${of}`, '.c-answer'],
      ['webhooks', 'main h1'],
      ['activity', 'tbody tr'],
      ['people', 'tbody tr'],
    ])
    expect(high).toEqual([])
    opened.expectQuiet()
  } finally {
    await opened.close()
  }
})

test('on a phone no view of the flows is higher than three screens', async () => {
  const opened = await openPage(admin, { viewport: phone, locale: 'es-AR' })
  try {
    await opened.page.locator('main tbody tr').first().waitFor()
    const high = await tooHigh(opened.page, admin, [
      ['flows', 'tbody tr'],
      ['flows?state=failing', 'tbody tr'],
      ['flows?flow=precios-1', 'article.flow'],
      [`flows?flow=${failingFlow}`, 'tbody tr'],
      [`flows?flow=${heldFlow}`, '.items'],
      ['destinations', 'tbody tr'],
      ['destinations?name=tienda', 'figure.plot'],
      ['errors', '.groups'],
      [`errors?flow=${failingFlow}`, '.groups'],
      ['item', '.empty'],
      ['item?pk=A-1', 'tbody tr'],
      ['item?flow=precios-1&pk=A-1', '.versions, .empty'],
      [`item?flow=${failingFlow}&pk=A-1`, '.versions, .empty'],
      ['workbench', 'tbody tr'],
      ['workbench?file=precios-1.flow.yaml', '.cm-editor'],
      ['workbench?template=woocommerce&from=sql-table&name=nuevo', '.cm-editor'],
      ['activity', 'tbody tr, .empty'],
    ])
    expect(high).toEqual([])
    opened.expectQuiet()
  } finally {
    await opened.close()
  }
})
