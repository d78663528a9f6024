import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { lists } from '../../src/http/lists.ts'
import { compareCharges } from '../../src/payments/closings/compare-charges.ts'
import { type ClosingFile, closingCsv } from '../../src/routes/closings/closing-file.ts'
import { publicServer } from '../http/sample-app.ts'
import { longestTurn, promisedMs } from '../support/longest-turn.ts'

/** The files of a large closing are made without delaying other requests. */

const at = new Date('2026-11-26T15:00:00Z')
const charges: ClosingFile['charges'] = Array.from({ length: 20_000 }, (_none, index) => ({
  at,
  cajaId: 'CAJA-1',
  reference: `FAC-${index}`,
  orderId: `order ${index}`,
  paymentId: String(index),
  method: 'credit_card',
  installments: 1,
  here: { cents: 1_803_440, refundedCents: 0 },
  there: { cents: 1_803_440, refundedCents: 0, netCents: 1_700_000 },
  line: null,
}))
const file = {
  closing: {
    client: 'acme',
    number: 1,
    caja_id: 'CAJA-1',
    sucursal_id: 'SUC-1',
    business_day: '2026-11-26',
    time_zone: 'America/Argentina/Buenos_Aires',
    from_at: at,
    to_at: at,
    state: 'agreed',
    result: null,
    signed_at: null,
    totals: null,
  },
  names: { storeName: 'Centro', boxNames: new Map([['CAJA-1', 'Caja 1']]), signedBy: null },
  charges,
} as unknown as ClosingFile

test('making a file of 20,000 charges blocks the event loop for a short time only', {
  tags: ['long'],
}, async () => {
  const { ms, said } = await longestTurn(async () => {
    let length = 0
    for await (const part of closingCsv(file, 'es')) length += part.length
    return String(length)
  })
  expect(Number(said)).toBeGreaterThan(1_000_000)
  expect(ms).toBeLessThan(promisedMs)
})

test('comparing 20,000 charges blocks the event loop for a short time only', {
  tags: ['long'],
}, async () => {
  const ours = charges.map(({ orderId, paymentId, reference }) => ({
    orderId: String(orderId),
    reference: String(reference),
    cajaId: 'CAJA-1',
    sucursalId: 'SUC-1',
    status: 'processed',
    outcome: 'charged' as const,
    hasConflict: false,
    isRefundOpen: false,
    amountCents: 1_803_440,
    paidCents: 1_803_440,
    refundedCents: 0,
    method: 'credit_card',
    installments: 1,
    settledAs: null,
    isInDoubt: false,
    undecided: null,
    insteadOrderId: null,
    paymentIds: [String(paymentId)],
    createdAt: at,
  }))
  const theirs = charges.map(({ orderId, paymentId }) => ({
    payment_id: String(paymentId),
    order_id: orderId,
    surplus_of: null,
    caja_id: 'CAJA-1',
    status: 'approved',
    amount_cents: 1_803_440,
    refunded_cents: 0,
    net_cents: 1_700_000,
    method_type: 'credit_card',
    installments: 1,
    refunds: [],
    sold_at: at,
  }))
  const span = { from: at, to: new Date(at.getTime() + 1) }
  const { ms, said } = await longestTurn(async () => {
    const place = { cajaId: 'CAJA-1', sucursalId: 'SUC-1' }
    const { result, totals } = await compareCharges({ ours, theirs, span, ...place, declared: {} })
    return `${result} ${totals.here.count}`
  })
  expect(said).toBe('agreed 20000')
  expect(ms).toBeLessThan(promisedMs)
})

test.each(['identity', 'gzip'])(
  'a file is made no further once the client has disconnected, and its turn ends (%s)',
  async (encoding) => {
    let made = 0
    let isOver = false
    async function* parts() {
      try {
        for (;;) {
          for await (const part of closingCsv(file, 'es')) {
            made += part.length
            yield part
          }
        }
      } finally {
        isOver = true
      }
    }
    const { app, url } = await listenWith(parts)
    const stopped = new AbortController()
    const answer = await fetch(url, {
      headers: { 'accept-encoding': encoding },
      signal: stopped.signal,
    })
    await answer.body?.getReader().read()
    // It waits for the file's turn to end.
    const next = app.inject({ url: '/list' })
    stopped.abort()
    expect((await next).statusCode).toBe(200)
    await expect.poll(() => isOver).toBe(true)
    const then = made
    await wait(50)
    expect(made).toBe(then)
    await app.close()
  },
)

test('a client that reads no further is cut, so that its turn ends', {
  tags: ['long'],
}, async () => {
  async function* endless() {
    for (;;) yield* closingCsv(file, 'es')
  }
  const { app, url } = await listenWith(endless, 100)
  const answer = await fetch(url)
  // It waits for the file's turn to end.
  expect((await app.inject({ url: '/list' })).statusCode).toBe(200)
  await expect(answer.text()).rejects.toThrow()
  await app.close()
})

/** A server with one turn for its file and its list. */
async function listenWith(parts: () => AsyncGenerator<string>, stalledMs?: number) {
  const app = publicServer()
  const limits = { running: { perOwner: 1, total: 1 }, waiting: { perOwner: 5, total: 5 } }
  await app.register(lists, {
    ownerOf: () => 'acme',
    limits,
    ...(stalledMs !== undefined && { stalledMs }),
  })
  app.get('/file', app.forList, async (_request, reply) =>
    reply.type('text/csv').send(Readable.from(parts())),
  )
  app.get('/list', app.forList, async () => ({}))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  return { app, url: `http://127.0.0.1:${port}/file` }
}
