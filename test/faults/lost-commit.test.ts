import { connect, createServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { openDatabase } from '../../src/db/open-database.ts'
import { needsPostgres, openPostgresClone, postgresUrl } from '../support/database.ts'
import { SentTransactions } from '../support/sent-statements.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { act, call, charge, openShop, payByCard, type Till } from '../support/till.ts'

type Cutter = {
  url: string
  /** Cuts the connection whose transaction has sent a statement with this text (no double quotes), after the server's commit. */
  cutAfterCommitOf(text: string): void
  cuts: number
  close(): void
}

/** A proxy before PostgreSQL. The server commits, and its answer to the COMMIT never arrives. */
async function commitCutter(url: string): Promise<Cutter> {
  const target = new URL(url)
  const { hostname, port: upstreamPort } = target
  let wanted: string | undefined
  const server = createServer((client) => {
    const upstream = connect(Number(upstreamPort || 5432), hostname)
    const transactions = new SentTransactions()
    let isCommitted = false
    client.on('data', (bytes) => {
      const committing = transactions.read(bytes)
      if (wanted !== undefined && committing?.includes(wanted)) {
        isCommitted = true
        wanted = undefined
        cutter.cuts += 1
      }
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      // The answer is the proof that the commit was done.
      if (isCommitted) client.destroy()
      else client.write(bytes)
    })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  target.hostname = '127.0.0.1'
  target.port = String(port)
  const cutter: Cutter = {
    url: target.href,
    cutAfterCommitOf: (text) => {
      wanted = text
    },
    cuts: 0,
    close: () => server.close(),
  }
  return cutter
}

describe.skipIf(!postgresUrl)(`when the answer to a COMMIT is lost (${needsPostgres})`, () => {
  let clone: Awaited<ReturnType<typeof openPostgresClone>>
  let cutter: Cutter
  let database: Database
  let service: TestService
  let till: Till
  beforeAll(async () => {
    clone = await openPostgresClone(postgresUrl ?? '')
    cutter = await commitCutter(clone.url)
    database = await openDatabase({ databaseUrl: cutter.url })
    service = await startTestService({ database })
    till = await openShop(service, 'acme', '1805')
  })
  afterAll(async () => {
    await service.stop()
    await database.close()
    cutter.close()
    await clone.database.close()
  })

  const intents = () =>
    clone.database.db
      .selectFrom('orders')
      .select(['id', 'creation', 'external_reference'])
      .execute()
  const atProvider = () => service.sandbox.ledger().orders.length
  const finish = async (orderId: string) => {
    await act(service, orderId, payByCard)
    await call(service, { url: `/orders/${orderId}`, token: till.key })
  }

  const headersOf = { 'its content': {}, 'an Idempotency-Key': { 'idempotency-key': 'K-1' } }

  test.each(Object.entries(headersOf))(
    'of the intent, the charge answers 503 with outcome unknown, and a duplicate request by %s is the same charge',
    async (by, headers) => {
      const reference = `intent by ${by}`
      const before = atProvider()
      const cutsBefore = cutter.cuts
      cutter.cutAfterCommitOf('insert into orders')
      const lost = await charge(service, till, { reference, headers })
      expect(cutter.cuts).toBe(cutsBefore + 1)
      expect([lost.statusCode, lost.json()]).toEqual([
        503,
        expect.objectContaining({
          code: 'SERVICE_UNAVAILABLE',
          outcome: 'unknown',
          retry_safe: true,
        }),
      ])
      expect(Number(lost.headers['retry-after'])).toBeGreaterThan(0)
      // The charge has begun in spite of the 503: the row exists and the sweeper completes it.
      const [row] = (await intents()).filter((order) => order.external_reference === reference)
      expect(row).toMatchObject({ creation: 'intent' })

      service.clock.advance(6_000)
      const again = await charge(service, till, { reference, headers })
      expect([again.statusCode, again.json().order_id]).toEqual([200, row?.id])
      expect(again.headers['idempotent-replayed']).toBe('true')
      expect(atProvider()).toBe(before + 1)
      await finish(String(row?.id))
    },
  )

  test('of the intent, the sweeper completes the charge within ten seconds without another request', async () => {
    const before = atProvider()
    cutter.cutAfterCommitOf('insert into orders')
    const lost = await charge(service, till, { reference: 'alone' })
    expect([lost.statusCode, lost.json().outcome]).toEqual([503, 'unknown'])
    for (let second = 0; second < 10; second += 2) {
      service.clock.advance(2_000)
      await service.sweeper.sweepOnce()
    }
    const [row] = (await intents()).filter((order) => order.external_reference === 'alone')
    expect(row).toMatchObject({ creation: 'confirmed' })
    expect(atProvider()).toBe(before + 1)
    await finish(String(row?.id))
  })

  test('T16: of the outcome, the charge answers 503 with its order_id, and a duplicate request answers with that order', async () => {
    const before = atProvider()
    cutter.cutAfterCommitOf('insert into activity_log')
    const lost = await charge(service, till, { reference: 'answered' })
    const [row] = (await intents()).filter((order) => order.external_reference === 'answered')
    expect([lost.statusCode, lost.json()]).toEqual([
      503,
      expect.objectContaining({ outcome: 'unknown', retry_safe: true, order_id: row?.id }),
    ])
    service.clock.advance(6_000)
    const again = await charge(service, till, { reference: 'answered' })
    expect([again.statusCode, again.json().order_id]).toEqual([200, row?.id])
    expect(atProvider()).toBe(before + 1)
    await finish(String(row?.id))
  })

  test('of the intent of a refund, the same request again makes no second refund', async () => {
    const created = (await charge(service, till, { reference: 'refunded' })).json()
    await finish(created.order_id)
    const refund = () =>
      call(service, {
        url: '/orders/refund',
        token: till.key,
        body: { order_id: created.order_id },
      })
    cutter.cutAfterCommitOf('insert into order_operations')
    const lost = await refund()
    expect([lost.statusCode, lost.json()]).toEqual([
      503,
      expect.objectContaining({ outcome: 'unknown', retry_safe: true }),
    ])
    service.clock.advance(6_000)
    const again = await refund()
    expect([again.statusCode, again.json().status]).toEqual([200, 'refunded'])
    const [booked] = service.sandbox.ledger().orders.slice(-1)
    expect(booked?.refunds).toHaveLength(1)
  })
})
