/** @module-tag long */

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type * as clientModule from '../../clients/typescript/src/index.ts'
import { openRecordedLine, type RecordedLine } from '../../demo/till-check/line.ts'
import { installClient, typeErrors } from '../process/installed-client.ts'
import { openRealShop, type RealShop } from '../process/real-shop.ts'
import { blocksOf } from '../support/document-blocks.ts'

/** The packed TypeScript client, installed as a user would, against the running service. */
const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'tillbridge-client-'))
let shop: RealShop
let line: RecordedLine
let files: string[]
let installed: typeof clientModule
let tickets = 0

beforeAll(async () => {
  files = installClient(folder)
  const main = join(folder, 'node_modules/tillbridge-client/dist/index.js')
  installed = await import(pathToFileURL(main).href)
  shop = await openRealShop()
  line = await openRecordedLine(shop.url)
}, 120_000)
afterAll(async () => {
  await line?.close()
  await shop?.stop()
  rmSync(folder, { recursive: true, force: true })
})
beforeEach(() => shop.buyerPays(true))

const openClient = (more: Partial<clientModule.ClientOptions> = {}) =>
  new installed.TillbridgeClient({ url: line.url, key: shop.key, ...more })

function newSale(): clientModule.Charge {
  tickets += 1
  const ticket = { external_reference: `0002-${tickets}`, idempotencyKey: `key-${tickets}` }
  return { caja_id: 'CAJA-1', amount: '1234,50', ...ticket }
}

const paidFor = async ({ external_reference: ticket }: clientModule.Charge) =>
  (await shop.ordersOf(ticket)).map(({ paid_amount: paid }) => paid)

test('the package has the client, its types and how to use it, and needs no other', () => {
  const names = ['api', 'client', 'errors', 'index', 'request']
  expect(files.toSorted()).toEqual(
    [
      'package/README.md',
      'package/package.json',
      ...names.flatMap((name) => [`package/dist/${name}.d.ts`, `package/dist/${name}.js`]),
    ].toSorted(),
  )
})

test('the example of its README has no type error, charges once though answers are lost, and refunds', async () => {
  const [example] = blocksOf(root, 'clients/typescript/README.md').filter(
    ({ language }) => language === 'ts',
  )
  writeFileSync(join(folder, 'example.ts'), String(example?.text))
  expect(typeErrors(folder, 'example.ts')).toBe('')
  line.loseAnswers(2)
  const child = spawn(process.execPath, [join(folder, 'example.ts')], {
    env: { PATH: process.env.PATH, TILLBRIDGE_URL: line.url, TILLBRIDGE_KEY: shop.key },
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  await new Promise((resolve) => child.once('close', resolve))
  expect(said.split('\n').filter((text) => text === 'again: NoAnswerError').length).toBe(2)
  expect(said.trim()).toMatch(/Cobro aprobado.*charged$/s)
  const [order, ...others] = await shop.ordersOf('0001-00004711')
  expect(others).toEqual([])
  expect([order?.paid_amount, order?.refunded_amount]).toEqual(['1234.50', '234.50'])
})

test('a charge whose answers are all lost is unknown, and the same request later finds it', async () => {
  const sale = newSale()
  line.loseAnswers(2)
  await expect(openClient({ tries: 2 }).charge(sale)).rejects.toMatchObject({
    name: 'NoAnswerError',
    outcome: 'unknown',
  })
  const { order_id: orderId } = await openClient().charge(sale)
  expect((await openClient().waitForEnd(orderId)).outcome).toBe('charged')
  expect(await paidFor(sale)).toEqual(['1234.50'])
})

test('429 is waited for as Retry-After says, and ends in one charge', async () => {
  const sale = newSale()
  await shop.begin('provider_throttles')
  const seen: unknown[] = []
  const client = openClient({
    onRetry: (error) => {
      seen.push([(error as clientModule.TillbridgeError).code, error.retryAfterMs >= 1_000])
      shop.endSituations().catch(() => undefined)
    },
  })
  const { order_id: orderId } = await client.charge(sale)
  await client.waitForEnd(orderId)
  expect(seen[0]).toEqual(['RATE_LIMITED', true])
  expect(await paidFor(sale)).toEqual(['1234.50'])
})

test('an error has its code, outcome, retry, retrySafe and the sentence for the cashier', async () => {
  const sale = newSale()
  shop.buyerPays(false)
  const { order_id: orderId } = await openClient().charge(sale)
  const busy = await openClient()
    .charge(newSale())
    .catch((error: unknown) => error)
  expect(busy).toBeInstanceOf(installed.TillbridgeError)
  expect(busy).toMatchObject({
    status: 409,
    code: 'TERMINAL_BUSY',
    outcome: 'not_charged',
    retry: 'after_change',
    retrySafe: true,
    cashier: { message: expect.stringContaining('terminal') },
    body: { open_order: { order_id: orderId } },
  })
  await openClient().cancel(orderId)
  expect((await openClient().waitForEnd(orderId)).outcome).toBe('not_charged')
})

test('a wait ends with the reason of whoever stops it', async () => {
  shop.buyerPays(false)
  const { order_id: orderId } = await openClient().charge(newSale())
  const stopping = new AbortController()
  const waiting = openClient().waitForEnd(orderId, { signal: stopping.signal })
  setTimeout(() => stopping.abort(new Error('the till closes')), 500)
  await expect(waiting).rejects.toThrow('the till closes')
  await openClient().cancel(orderId)
  await openClient().waitForEnd(orderId)
})

test('the feed is followed by a consumer: a page whose work failed comes again, a finished one does not', async () => {
  const client = openClient()
  await client.send('post', '/events/feed/consumers', { body: { name: 'erp', from: 'now' } })
  shop.buyerPays(true)
  const sale = newSale()
  const { order_id: orderId } = await client.charge(sale)
  await client.waitForEnd(orderId)
  const seen: string[][] = []
  for (let runs = 0; runs < 2; runs += 1) {
    for await (const { events } of client.followEvents({ consumer: 'erp', types: 'order.paid' })) {
      seen.push(events.map(({ order_id: id }) => String(id)))
      // The work fails: this page is not committed.
      break
    }
  }
  expect(seen).toEqual([[orderId], [orderId]])
  const pages = client.followEvents({ consumer: 'erp', types: 'order.paid' })
  expect((await pages.next()).value.events.length).toBe(1)
  const next = pages.next()
  const { order_id: another } = await client.charge(newSale())
  expect((await next).value.events.map(({ order_id: id }) => id)).toEqual([another])
})

test('any other route has its types, and no change is sent twice without a key', async () => {
  const { stores } = await openClient().send('get', '/stores')
  expect(stores.map(({ external_id: id }) => id)).toEqual(['SUC-1'])
  line.loseAnswers(1)
  const from = line.sent.length
  const body = { caja_id: 'CAJA-1', operating_mode: 'PDV' as const }
  await expect(
    openClient().send('patch', '/terminals/operating-mode', { body }),
  ).rejects.toMatchObject({ name: 'NoAnswerError' })
  expect(line.sent.length - from).toBe(1)
})
