import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnShop, orderRow } from '../support/money.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { recordStatements } from '../support/statements.ts'
import { act, charge, payByCard, readOrder, type Till } from '../support/till.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.stop())

async function charged(till: Till, reference: string): Promise<string> {
  const answer = await charge(service, till, { reference })
  expect(answer.statusCode, answer.body).toBe(201)
  return answer.json().order_id
}

test('a read that finds no change makes one query and writes nothing before the answer', async () => {
  const till = await openOwnShop(service, 'Una vuelta')
  const orderId = await charged(till, 'one round trip')
  const { own } = await recordStatements(() => readOrder(service, till, orderId))
  expect(own, own.join('\n')).toHaveLength(1)
  expect(own[0]).toMatch(/^\s*select/i)
})

test('such status checks are counted and postpone the next one, shortly after the answer', async () => {
  const till = await openOwnShop(service, 'Cuenta miradas')
  const orderId = await charged(till, 'status checks')
  await service.deps.statusChecks.flush()
  const before = await orderRow(service, orderId)
  service.clock.advance(1_000)
  const read = await readOrder(service, till, orderId)
  await readOrder(service, till, orderId)
  await service.deps.statusChecks.flush()
  const after = await orderRow(service, orderId)
  expect(after.checks).toBe(before.checks + 2)
  expect(Number(after.checked_at)).toBeGreaterThanOrEqual(Number(before.created_at) + 1_000)
  expect(Number(after.next_check_at)).toBeGreaterThan(Number(before.next_check_at))
  expect(after.version).toBe(before.version)
  expect(read.json().version).toBe(before.version)
})

test('a read within 30 s of the end of an order writes nothing, a later one does', async () => {
  const till = await openOwnShop(service, 'Fin conocido')
  const orderId = await charged(till, 'known end')
  await act(service, orderId, payByCard)
  expect((await readOrder(service, till, orderId)).json().status).toBe('processed')
  // Those of other tests too.
  await service.deps.statusChecks.flush()
  const ended = await orderRow(service, orderId)
  service.clock.advance(29_000)
  const { own, background } = await recordStatements(async () => {
    await readOrder(service, till, orderId)
    await service.deps.statusChecks.flush()
  })
  expect([...own, ...background].filter((statement) => /update orders/i.test(statement))).toEqual(
    [],
  )
  expect(await orderRow(service, orderId)).toEqual(ended)
  service.clock.advance(2_000)
  await readOrder(service, till, orderId)
  await service.deps.statusChecks.flush()
  expect((await orderRow(service, orderId)).checks).toBe(ended.checks + 1)
})

test('a next check that was planned before the record of a check was written stays', async () => {
  const till = await openOwnShop(service, 'Plan nuevo')
  const orderId = await charged(till, 'planned anew')
  await readOrder(service, till, orderId)
  const soon = new Date(service.clock.now().getTime() + 50)
  await service.database.db
    .updateTable('orders')
    .set({ next_check_at: soon })
    .where('id', '=', orderId)
    .execute()
  await service.deps.statusChecks.flush()
  const row = await orderRow(service, orderId)
  expect(row.next_check_at).toEqual(soon)
  expect(row.checks).toBe(1)
})

test('a record of a check is dropped when the order has moved since', async () => {
  const till = await openOwnShop(service, 'Ya pagado')
  const orderId = await charged(till, 'moved since')
  const known = await orderRow(service, orderId)
  await act(service, orderId, payByCard)
  expect((await readOrder(service, till, orderId)).json().status).toBe('processed')
  const moved = await orderRow(service, orderId)
  const at = service.clock.now()
  service.deps.statusChecks.note(known, { checkedAt: at, next: { at, whileWebhooksArrive: null } })
  await service.deps.statusChecks.flush()
  expect(await orderRow(service, orderId)).toEqual(moved)
})

test('a read that joins an older one does not answer with an older state than the service has stored', async () => {
  const till = await openOwnShop(service, 'Lectura vieja')
  const orderId = await charged(till, 'an older read')
  const { resolve: goOn, promise: released } = Promise.withResolvers<void>()
  const { get } = service.deps.provider.orders
  const { resolve: reached, promise: asked } = Promise.withResolvers<void>()
  // The first read has received "created" from the provider and is delayed with it.
  service.deps.provider.orders.get = async (...args) => {
    const evidence = await get(...args)
    reached()
    await released
    return evidence
  }
  const older = readOrder(service, till, orderId)
  await asked
  service.deps.provider.orders.get = get
  await act(service, orderId, payByCard)
  await service.sweeper.sweepOnce()
  service.clock.advance(3_000)
  await service.sweeper.sweepOnce()
  expect((await orderRow(service, orderId)).status).toBe('processed')
  const joined = readOrder(service, till, orderId)
  setTimeout(goOn, 20)
  expect((await joined).json().status).toBe('processed')
  await older
})

test('a key reads orders of its own client only, and a revoked key reads none', async () => {
  const [own, other] = [await openOwnShop(service, 'Propia'), await openOwnShop(service, 'Ajena')]
  const orderId = await charged(own, 'whose')
  expect((await readOrder(service, other, orderId)).statusCode).toBe(404)
  await service.database.db
    .updateTable('api_keys')
    .set({ active: false })
    .where('client', '=', (await orderRow(service, orderId)).client)
    .execute()
  expect((await readOrder(service, own, orderId)).statusCode).toBe(401)
})
