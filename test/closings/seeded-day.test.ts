import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asClientName } from '../../src/domain/client-name.ts'
import { breakProvider, healProvider, openOwnShop, orderRow } from '../support/money.ts'
import { timesAsMany } from '../support/rounds.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { call, charge, createStore, sandboxCall, type Till } from '../support/till.ts'
import { openHttpReceiver } from '../sync/alerts-receivers.ts'
import { openClosing, readClosing, today } from './shop-day.ts'

const boxes = Array.from({ length: 40 }, (_, at) => `BOX-${at}`)
/** The long form is the whole day of a chain. */
const charges = timesAsMany > 1 ? 10_000 : 2_000
const planted = { orphans: 20, online: 30 }
const searching = { path: '^/v1/payments/search$', method: 'GET' }

let service: TestService
let till: Till
let hook: Awaited<ReturnType<typeof openHttpReceiver>>
beforeAll(async () => {
  hook = await openHttpReceiver()
  service = await startTestService({
    env: {
      RATE_LIMIT_PER_SECOND: '100000',
      ALERT_WEBHOOK_URL: hook.url,
      ALERT_PRIVATE_NETWORK: 'true',
    },
  })
  till = await openOwnShop(service, 'chain')
  await createStore(service, till, { id: 'SUC-2', boxes })
  const hourMs = 3_600_000
  const sinceMidnight = (service.clock.now().getTime() - 3 * hourMs) % (24 * hourMs)
  service.clock.advance(24 * hourMs - sinceMidnight + 22 * hourMs)
}, 120_000)
afterAll(async () => {
  await service.stop()
  await hook.close()
})

/** The same day on both sides, but for what is planted; answers what must be found. */
async function seed(): Promise<string[]> {
  const { db } = service.database
  const boxesThere = await db
    .selectFrom('pos')
    .select(['external_id', 'mp_pos_id'])
    .where('client', '=', asClientName(till.client))
    .execute()
  const posOf = new Map(boxesThere.map((box) => [box.external_id, Number(box.mp_pos_id)]))
  const model = await orderRow(
    service,
    (await charge(service, till, { reference: 'MODEL' })).json().order_id,
  )
  const beganMs = service.clock.now().getTime() - 12 * 3_600_000
  const expected: string[] = []
  const orders: object[] = []
  const payments: object[] = []
  for (let at = 0; at < charges; at += 1) {
    const id = 970_000_000 + at
    const caja_id = boxes[at % boxes.length] as string
    const cents = 1_000 + (at % 997)
    const madeAt = new Date(beganMs + at * 4_000)
    const paid = {
      paidCents: cents,
      refundedCents: 0,
      methodType: 'debit_card',
      referenceId: `${id}`,
    }
    orders.push({
      ...model,
      id: randomUUID(),
      caja_id,
      sucursal_id: 'SUC-2',
      external_reference: `D-${at}`,
      mp_external_reference: `D-${at}`,
      mp_order_id: `ORDTST${String(at).padStart(26, '0')}`,
      amount_cents: cents,
      status: 'processed',
      paid_cents: cents,
      payments: JSON.stringify([
        { id: `PAY${at}`, amountCents: cents, status: 'approved', ...paid },
      ]),
      refunds: '[]',
      created_at: madeAt,
      last_updated_at: madeAt,
      expires_at: madeAt,
      next_check_at: null,
    })
    const isMissing = at % 1_000 === 500
    const isOther = at % 1_000 === 700
    if (isMissing) expected.push(`missing_there ${caja_id} ${id}`)
    if (isOther) expected.push(`amount_differs ${caja_id} ${id}`)
    const there = isOther ? cents + 1 : cents
    if (!isMissing) {
      payments.push({
        id,
        user_id: till.mpUserId,
        pos_id: posOf.get(caja_id),
        amount: `${Math.floor(there / 100)}.${String(there % 100).padStart(2, '0')}`,
        payment_method_type: 'debit_card',
        // Nobody knows whether payments of terminals name it.
        ...(at % 2 === 0 && { external_reference: `D-${at}` }),
        at: new Date(madeAt.getTime() + 2_000).toISOString(),
      })
    }
  }
  for (let at = 0; at < planted.orphans + planted.online; at += 1) {
    const caja_id = boxes[(at * 7) % boxes.length] as string
    const isOrphan = at < planted.orphans
    if (isOrphan) expected.push(`missing_here ${caja_id} ${980_000_000 + at}`)
    payments.push({
      id: 980_000_000 + at,
      user_id: till.mpUserId,
      ...(isOrphan && { pos_id: posOf.get(caja_id) }),
      amount: '77.50',
      at: new Date(beganMs + at * 60_000).toISOString(),
    })
  }
  for (let from = 0; from < orders.length; from += 500) {
    await db
      .insertInto('orders')
      .values(orders.slice(from, from + 500) as never)
      .execute()
  }
  for (let from = 0; from < payments.length; from += 1_000) {
    await sandboxCall(service, 'POST', '/_sandbox/payments', payments.slice(from, from + 1_000))
  }
  return expected
}

test('of a day of 40 boxes exactly the planted differences are found', async () => {
  const expected = await seed()
  await sandboxCall(service, 'PUT', '/_sandbox/index', { lag_ms: 40_000 })
  const opened = await Promise.all(
    boxes.map((caja_id) => openClosing(service, till, { caja_id, business_day: today(service) })),
  )
  const ids = opened.map((answer) => answer.json().id as string)
  await breakProvider(
    service,
    { ...searching, kind: '500', chance: 0.2, seed: 3 },
    { ...searching, kind: 'torn_body', chance: 0.05, seed: 4 },
  )
  service.clock.advance(61_000)
  // Two processes die in the midst of it: their pages are read again, and no row is kept twice.
  for (let kill = 0; kill < 2; kill += 1) {
    const twin = await startTestService({ twinOf: service })
    const working = twin.paymentWatch.watchOnce().catch(() => undefined)
    await expect
      .poll(async () => {
        const states = await service.database.db
          .selectFrom('closings')
          .select((eb) => eb.fn.countAll<number>().as('done'))
          .where('state', 'not in', ['open', 'checking'])
          .executeTakeFirstOrThrow()
        return states.done
      })
      .toBeGreaterThan(2 * kill)
    await twin.paymentWatch.stop()
    await working
    await twin.stop()
  }
  const before = process.cpuUsage()
  const rssBefore = process.memoryUsage.rss()
  let rssMost = rssBefore
  const sampling = setInterval(() => {
    rssMost = Math.max(rssMost, process.memoryUsage.rss())
  }, 20)
  for (let round = 0; round < 12; round += 1) {
    await service.paymentWatch.watchOnce()
    await service.alerts.checkOnce()
    service.clock.advance(5 * 60_000)
  }
  clearInterval(sampling)
  const { user, system } = process.cpuUsage(before)
  expect((user + system) / 1e6).toBeLessThan(60)
  // What the process grows by, the embedded database in it; told, since the collector of garbage takes its time.
  const grownMb = Math.round((rssMost - rssBefore) / 2 ** 20)
  process.stdout.write(`${charges} charges compared with ${grownMb} MB more memory\n`)
  await healProvider(service)
  const told = hook
    .bodies()
    .filter(({ type }) => type === 'orphans.found')
    .flatMap(({ data }) => data.orphans.map((one: { payment_id: string }) => one.payment_id))
  expect(told.toSorted()).toEqual(
    Array.from({ length: planted.orphans }, (_, at) => String(980_000_000 + at)),
  )

  const found: string[] = []
  for (const id of ids) {
    const { lines, caja_id, state } = await readClosing(service, till, id)
    expect(['agreed', 'differs'], `${caja_id} is ${state}`).toContain(state)
    expect(state === 'agreed', caja_id).toBe(lines.length === 0)
    for (const { kind, payment_id } of lines) found.push(`${kind} ${caja_id} ${payment_id}`)
  }
  expect(found.toSorted()).toEqual(expected.toSorted())
  const signed = await Promise.all(
    ids.map((id) =>
      call(service, { method: 'POST', url: `/closings/${id}/sign`, token: till.key }),
    ),
  )
  expect(signed.every(({ statusCode }) => statusCode === 200)).toBe(true)
}, 240_000)
